//! Keys that a chat distinguishes.

/// Pressed key or pasted text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum KeyPress {
    /// A character.
    Char(char),
    /// Pasted text with its original line ends.
    Paste(String),
    Enter,
    /// Alt-Enter, Shift-Enter or Ctrl-J: a line break in the input.
    NewLine,
    /// Alt-Q: queues the input while a turn runs.
    QueueInput,
    Tab,
    BackTab,
    Escape,
    Backspace,
    Delete,
    Left,
    Right,
    Up,
    Down,
    WordLeft,
    WordRight,
    Home,
    End,
    /// Ctrl-W, Alt-Backspace.
    DeleteWord,
    /// Alt-D.
    DeleteNextWord,
    /// Ctrl-U.
    KillToStart,
    /// Ctrl-K.
    KillToEnd,
    /// Ctrl-Y.
    Yank,
    /// Ctrl-L.
    Redraw,
    /// Ctrl-C.
    Interrupt,
    /// Ctrl-D.
    Leave,
    /// Ctrl-Z.
    Suspend,
    /// The terminal is closed.
    Gone,
}

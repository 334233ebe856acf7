//! Prompts on the terminal.

use std::io::{self, BufRead};

use super::screen::{self, PromptGuard};
use super::terminal::{INTERRUPT_BYTE, SavedTerminal, discard_typed_input};

/// Columns and rows that are assumed if the terminal does not report its size.
const DEFAULT_TERMINAL_SIZE: (usize, usize) = (80, 24);

/// Size of a terminal, in characters.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TerminalSize {
    pub(crate) columns: usize,
    pub(crate) rows: usize,
}

impl TerminalSize {
    /// Returns the size of the terminal.
    pub(crate) fn current() -> Self {
        let size = terminal_size::terminal_size_of(io::stderr());
        let (columns, rows) = size.map_or(DEFAULT_TERMINAL_SIZE, |(columns, rows)| {
            (columns.0.into(), rows.0.into())
        });
        TerminalSize { columns, rows }
    }
}

/// Line that the terminal delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TerminalLine {
    Text(String),
    /// Ctrl-C.
    Interrupt,
    /// Ctrl-D, or the terminal is closed.
    End,
}

/// Reads a line from the terminal, which edits it. Blocks until the line is complete.
pub(crate) fn read_line() -> io::Result<TerminalLine> {
    let mut stdin = io::stdin().lock();
    let bytes = loop {
        match stdin.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            bytes => break bytes?,
        }
    };
    // A terminal delivers at most one line at a time. After Ctrl-D, the line has no end.
    let end = bytes
        .iter()
        .position(|byte| matches!(*byte, b'\n' | INTERRUPT_BYTE));
    let line = &bytes[..end.map_or(bytes.len(), |end| end + 1)];
    let read = match line.last() {
        None => TerminalLine::End,
        Some(&INTERRUPT_BYTE) => TerminalLine::Interrupt,
        Some(_) => {
            let text = String::from_utf8_lossy(line);
            TerminalLine::Text(text.trim_end_matches(['\r', '\n']).to_owned())
        }
    };
    let length = line.len();
    stdin.consume(length);
    Ok(read)
}

/// Open prompt. All other output is held back until it is dropped.
pub(crate) struct TerminalPrompt {
    guard: PromptGuard,
    _terminal: SavedTerminal,
    prompt: &'static str,
}

impl TerminalPrompt {
    /// Shows a question and a prompt on standard error, so that redirected output gets neither. Input
    /// typed before is discarded.
    pub(crate) fn open(question: &str, prompt: &'static str) -> io::Result<Self> {
        let (guard, terminal) = (screen::open_prompt(), SavedTerminal::save());
        terminal.read_interrupt_as_line_end()?;
        guard.write(question)?;
        discard_typed_input();
        guard.write(prompt)?;
        Ok(TerminalPrompt {
            guard,
            _terminal: terminal,
            prompt,
        })
    }

    /// Reads the answer, and repeats the prompt while `unclear` returns a notice for it.
    pub(crate) fn read(
        self,
        unclear: impl Fn(&str) -> Option<&'static str>,
    ) -> io::Result<TerminalLine> {
        loop {
            let line = read_line()?;
            let notice = match &line {
                TerminalLine::Text(text) => unclear(text),
                TerminalLine::Interrupt | TerminalLine::End => {
                    self.guard.write("\n")?;
                    None
                }
            };
            match notice {
                None => return Ok(line),
                Some(notice) => self.guard.write(&format!("{notice}\n{}", self.prompt))?,
            }
        }
    }
}

/// Prompts for an answer on the terminal. Returns `None` after Ctrl-C or Ctrl-D, and if the terminal
/// is closed.
pub(crate) fn ask(question: &str, prompt: &'static str) -> Option<String> {
    let answer = TerminalPrompt::open(question, prompt).and_then(|prompt| prompt.read(|_| None));
    match answer {
        Ok(TerminalLine::Text(text)) => Some(text),
        Ok(TerminalLine::Interrupt | TerminalLine::End) | Err(_) => None,
    }
}

/// Returns true if `answer` is a clear yes.
pub(crate) fn is_yes(answer: &str) -> bool {
    matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}

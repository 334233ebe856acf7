//! Prompts on the terminal.

use rustyline::{Behavior, Config, DefaultEditor, ExternalPrinter};
use tokio::sync::oneshot;

use super::screen;

/// Columns and rows that are assumed if the terminal does not report its size.
const DEFAULT_TERMINAL_SIZE: (usize, usize) = (80, 24);

/// Printer that can write while the user types.
pub(crate) type PromptPrinter = Box<dyn ExternalPrinter + Send>;

/// Size of a terminal, in characters.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TerminalSize {
    pub(crate) columns: usize,
    pub(crate) rows: usize,
}

/// Prompts for an answer on the terminal itself, so that redirected output gets no prompt. While
/// the prompt is open, all other output is held back. Input typed before the prompt is discarded.
///
/// # Errors
/// Fails on Ctrl-C, on Ctrl-D, or if the terminal is closed.
pub(crate) fn ask(
    question: impl FnOnce(TerminalSize) -> String,
    prompt: &str,
) -> rustyline::Result<String> {
    ask_with(question, prompt, oneshot::channel().0, |_| None)
}

/// Prompts like [`ask`]. Sends a printer for the time of the prompt through `give`, and repeats the
/// prompt while `unclear` returns a message for the answer.
pub(crate) fn ask_with(
    question: impl FnOnce(TerminalSize) -> String,
    prompt: &str,
    give: oneshot::Sender<PromptPrinter>,
    unclear: impl Fn(&str) -> Option<&'static str>,
) -> rustyline::Result<String> {
    let prompt_guard = screen::open_prompt();
    let config = Config::builder().behavior(Behavior::PreferTerm).build();
    let mut editor = DefaultEditor::with_config(config)?;
    if let Ok(printer) = editor.create_external_printer() {
        // The receiver is dropped if the caller needs no printer.
        let _ = give.send(Box::new(printer));
    }
    let (columns, rows) = editor
        .dimensions()
        .map_or(DEFAULT_TERMINAL_SIZE, |(columns, rows)| {
            (columns.into(), rows.into())
        });
    prompt_guard.write(&question(TerminalSize { columns, rows }))?;
    forget_typed();
    loop {
        let line = editor.readline(prompt)?;
        match unclear(&line) {
            None => return Ok(line),
            Some(notice) => prompt_guard.write(&format!("{notice}\n"))?,
        }
    }
}

/// Returns true if `answer` is a clear yes.
pub(crate) fn is_yes(answer: &str) -> bool {
    matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}

/// Discards input that was typed before the prompt.
#[cfg(unix)]
fn forget_typed() {
    use nix::sys::termios::{FlushArg, tcflush};
    // Prompts are only shown if standard input is a terminal; a closed one has no input to discard.
    let _ = tcflush(std::io::stdin(), FlushArg::TCIFLUSH);
}

#[cfg(not(unix))]
fn forget_typed() {}

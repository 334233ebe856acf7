//! Asks somebody at the terminal.

use rustyline::{Behavior, Config, DefaultEditor, ExternalPrinter};
use tokio::sync::oneshot;

use super::screen;

/// The size of a terminal that does not tell it, in columns and rows.
const USUAL: (usize, usize) = (80, 24);

/// Writes while somebody types.
pub(crate) type Printer = Box<dyn ExternalPrinter + Send>;

/// The size of a terminal.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    pub(crate) columns: usize,
    pub(crate) rows: usize,
}

/// Writes a question and reads its answer, at the terminal itself, so that redirected output gets no question. Meanwhile
/// nothing else is written, and what was typed before is no answer.
///
/// # Errors
/// Ctrl-C, Ctrl-D, or a terminal that is gone.
pub(crate) fn ask(
    question: impl FnOnce(Size) -> String,
    prompt: &str,
) -> rustyline::Result<String> {
    ask_with(question, prompt, oneshot::channel().0, |_| None)
}

/// As [`ask`]. Gives what can write beside the question while it stands, and asks again as long as `unclear` has something to
/// say about what was typed.
pub(crate) fn ask_with(
    question: impl FnOnce(Size) -> String,
    prompt: &str,
    give: oneshot::Sender<Printer>,
    unclear: impl Fn(&str) -> Option<&'static str>,
) -> rustyline::Result<String> {
    let standing = screen::question();
    let config = Config::builder().behavior(Behavior::PreferTerm).build();
    let mut editor = DefaultEditor::with_config(config)?;
    if let Ok(printer) = editor.create_external_printer() {
        // Who has asked may not want it.
        let _ = give.send(Box::new(printer));
    }
    let (columns, rows) = editor
        .dimensions()
        .map_or(USUAL, |(columns, rows)| (columns.into(), rows.into()));
    standing.write(&question(Size { columns, rows }))?;
    forget_typed();
    loop {
        let line = editor.readline(prompt)?;
        match unclear(&line) {
            None => return Ok(line),
            Some(words) => standing.write(&format!("{words}\n"))?,
        }
    }
}

/// Whether an answer is a clear yes.
pub(crate) fn is_yes(answer: &str) -> bool {
    matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}

#[cfg(unix)]
fn forget_typed() {
    use nix::sys::termios::{FlushArg, tcflush};
    // Somebody is asked only where standard input is a terminal; one that is gone has nothing to forget.
    let _ = tcflush(std::io::stdin(), FlushArg::TCIFLUSH);
}

#[cfg(not(unix))]
fn forget_typed() {}

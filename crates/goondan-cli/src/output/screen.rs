//! Central writer for all terminal output.
//!
//! Foreign text in sentences is escaped where the sentence is built (`untrusted_text`). This module
//! is the second barrier: it lets only gdn's own styles reach a terminal. While a prompt is open,
//! it holds all other output back.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use goondan::internal::SecretRedactor;
use goondan::internal::untrusted_text::{KeptCharacters, TextEscaper, is_visible, push_escape};

use super::status_rows::{StatusRowState, StatusRows};

/// Maximum size of the output held back during a prompt, in bytes. Further messages are only
/// counted.
const MAX_HELD_OUTPUT_BYTES: usize = 1024 * 1024;

/// Output stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TerminalStream {
    /// Standard output, for results.
    Out,
    /// Standard error, for everything else.
    Err,
}

/// Author and reader of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextOrigin {
    /// gdn's own text with its styles, for people.
    Ours,
    /// Text of models, tools or users. Terminals get it escaped, programs byte for byte.
    Foreign,
    /// JSON. On a terminal, invisible characters become JSON escapes.
    Json,
}

static SCREEN: Mutex<TerminalScreen> = Mutex::new(TerminalScreen::new());

/// State of the terminal output.
struct TerminalScreen {
    /// Output held back until the open prompt ends.
    held_output: Option<HeldOutput>,
    /// Escaper of streamed answers: each character is judged together with the one before it.
    answers: TextEscaper,
    /// Status rows of a chat.
    below: Option<StatusRowState>,
}

/// Output that is held back while a prompt is open.
#[derive(Default)]
struct HeldOutput {
    writes: Vec<(TerminalStream, TextOrigin, String)>,
    bytes: usize,
    left_out: usize,
}

/// Returns the redactor of this process. Logging starts before the swarm adds its secrets to it.
pub(crate) fn redactor() -> &'static SecretRedactor {
    static REDACTOR: LazyLock<SecretRedactor> = LazyLock::new(SecretRedactor::new);
    &REDACTOR
}

/// Writes `text`. On a terminal, it is held back while a prompt is open. Files and pipes show no
/// prompt and are written at once, so a prompt without an answer does not block them.
///
/// Secrets in gdn's own text and in JSON are masked: a message can contain text of a server or a
/// program. Text of models and tools is masked where it is created.
pub(crate) fn write(stream: TerminalStream, origin: TextOrigin, text: &str) -> io::Result<()> {
    let text = match origin {
        TextOrigin::Ours | TextOrigin::Json => redactor().text(text),
        TextOrigin::Foreign => Cow::Borrowed(text),
    };
    let text = text.as_ref();
    match (stream.is_terminal(), origin) {
        (true, _) => write_on_terminal(stream, origin, text),
        (false, TextOrigin::Ours) => put(stream, origin, &escape_terminal_text(text)),
        (false, TextOrigin::Foreign | TextOrigin::Json) => put(stream, origin, text),
    }
}

/// Writes to the terminal, or holds the text back while a prompt is open.
fn write_on_terminal(stream: TerminalStream, origin: TextOrigin, text: &str) -> io::Result<()> {
    let mut screen = screen();
    let text = screen.escape_for_terminal(origin, text);
    match &mut screen.held_output {
        Some(held) => {
            held.keep(stream, origin, text.into_owned());
            Ok(())
        }
        None => {
            let text = text.into_owned();
            screen.put(stream, origin, &text)
        }
    }
}

/// Sets the status rows below all terminal output.
pub(crate) fn set_status_rows(bottom: StatusRows) -> io::Result<()> {
    let mut screen = screen();
    let columns = columns();
    if screen.below.get_or_insert_default().want(bottom, columns) {
        screen.write_above_rows("")
    } else {
        Ok(())
    }
}

/// Forgets the drawn status rows after foreign output has overwritten them. The next call draws
/// them at the cursor.
pub(crate) fn forget_status_rows() {
    screen().below = None;
}

/// Clears the screen. The status rows are drawn again later.
pub(crate) fn clear() -> io::Result<()> {
    let mut screen = screen();
    screen.below = None;
    write_to_terminal("\u{1b}[H\u{1b}[2J")
}

/// Removes the status rows and moves the cursor to the start of a line.
pub(crate) fn remove_status_rows() -> io::Result<()> {
    let mut screen = screen();
    let Some(mut below) = screen.below.take() else {
        return Ok(());
    };
    let mut text = below.lift(columns());
    if !below.partial.is_empty() {
        text.push_str(&below.partial);
        text.push('\n');
    }
    write_to_terminal(&text)
}

/// Opens a prompt: other terminal output is held back until the returned guard is dropped.
pub(crate) fn open_prompt() -> PromptGuard {
    screen().held_output = Some(HeldOutput::default());
    PromptGuard
}

/// Writes all held-back output. The end of a command or of a prompt calls it.
pub(crate) fn release() {
    let mut screen = screen();
    let Some(held) = screen.held_output.take() else {
        return;
    };
    for (stream, origin, text) in held.writes {
        // One stream can be closed while the other still has a reader.
        let _ = screen.put(stream, origin, &text);
    }
    if held.left_out > 0 {
        let notice = format!(
            "… {} messages during the approval prompt are omitted.\n",
            held.left_out
        );
        let _ = screen.put(TerminalStream::Err, TextOrigin::Ours, &notice);
    }
}

/// Writes to the terminal although a prompt is open.
pub(crate) fn write_in_prompt(text: &str) -> io::Result<()> {
    screen().put(
        TerminalStream::Err,
        TextOrigin::Ours,
        &escape_terminal_text(text),
    )
}

/// Guard of an open prompt. Only its own output reaches the terminal.
pub(crate) struct PromptGuard;

impl PromptGuard {
    /// Writes a part of the prompt.
    pub(crate) fn write(&self, text: &str) -> io::Result<()> {
        write_in_prompt(text)
    }
}

impl Drop for PromptGuard {
    fn drop(&mut self) {
        release();
    }
}

impl TerminalScreen {
    /// Creates the state at the start: no prompt and no status rows.
    const fn new() -> Self {
        TerminalScreen {
            held_output: None,
            answers: TextEscaper::new(KeptCharacters::Writing),
            below: None,
        }
    }

    /// Writes text at once, above the status rows if there are any.
    fn put(&mut self, stream: TerminalStream, origin: TextOrigin, text: &str) -> io::Result<()> {
        let Some(status_rows) = self.below.as_mut().filter(|_| stream.is_terminal()) else {
            return put(stream, origin, text);
        };
        status_rows.partial.push_str(text);
        let Some(end) = status_rows.partial.rfind('\n') else {
            return Ok(());
        };
        let rest = status_rows.partial.split_off(end + 1);
        let lines = std::mem::replace(&mut status_rows.partial, rest);
        match origin {
            TextOrigin::Ours if !has_colour() => {
                self.write_above_rows(&anstream::adapter::strip_str(&lines).to_string())
            }
            _ => self.write_above_rows(&lines),
        }
    }

    /// Writes lines above the status rows.
    fn write_above_rows(&mut self, lines: &str) -> io::Result<()> {
        self.below.as_mut().map_or(Ok(()), |below| {
            write_to_terminal(&below.repaint(lines, columns(), has_colour()))
        })
    }

    /// Escapes `text` for the terminal according to its origin.
    fn escape_for_terminal<'t>(&mut self, origin: TextOrigin, text: &'t str) -> Cow<'t, str> {
        match origin {
            TextOrigin::Ours => Cow::Owned(escape_terminal_text(text)),
            TextOrigin::Foreign => self.answers.escape(text),
            TextOrigin::Json => Cow::Owned(json(text)),
        }
    }
}

impl HeldOutput {
    /// Stores the text, or only counts it if the limit is reached.
    fn keep(&mut self, stream: TerminalStream, origin: TextOrigin, text: String) {
        if self.bytes + text.len() <= MAX_HELD_OUTPUT_BYTES {
            self.bytes += text.len();
            self.writes.push((stream, origin, text));
        } else {
            self.left_out += 1
        }
    }
}

impl TerminalStream {
    /// Returns true if the stream is a terminal. Cached, because thousands of events are written.
    fn is_terminal(self) -> bool {
        static OUT: LazyLock<bool> = LazyLock::new(|| io::stdout().is_terminal());
        static ERR: LazyLock<bool> = LazyLock::new(|| io::stderr().is_terminal());
        match self {
            TerminalStream::Out => *OUT,
            TerminalStream::Err => *ERR,
        }
    }
}

/// Writer for logs and panics. Further lines of a message are marked, so that they cannot imitate
/// gdn's own output.
pub(crate) struct LogMessageWriter;

impl Write for LogMessageWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        write(
            TerminalStream::Err,
            TextOrigin::Ours,
            &with_marked_lines(&String::from_utf8_lossy(bytes)),
        )?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Marks the further lines of a log message or a panic.
fn with_marked_lines(text: &str) -> String {
    text.trim_end_matches('\n').replace('\n', "\n  │ ") + "\n"
}

/// Locks the screen.
fn screen() -> MutexGuard<'static, TerminalScreen> {
    SCREEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes with one call and flushes, because other processes can write to the terminal between two
/// calls.
fn write_to_terminal(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Returns true if standard output shows colors.
fn has_colour() -> bool {
    super::CommandOutput::stdout_has_colour()
}

/// Returns the terminal width, or a usual width if the terminal does not report one.
fn columns() -> usize {
    terminal_size::terminal_size_of(io::stdout())
        .map_or(80, |(width, _)| usize::from(width.0).max(1))
}

/// Writes text at once. Our own text loses its styles if the stream shows no colors; all other text
/// is written unchanged. Standard output is flushed, because a reader can be waiting for it.
fn put(stream: TerminalStream, origin: TextOrigin, text: &str) -> io::Result<()> {
    let bytes = text.as_bytes();
    match (stream, origin) {
        (TerminalStream::Out, TextOrigin::Ours) => anstream::stdout().lock().write_all(bytes),
        (TerminalStream::Out, _) => io::stdout().lock().write_all(bytes),
        (TerminalStream::Err, TextOrigin::Ours) => anstream::stderr().lock().write_all(bytes),
        (TerminalStream::Err, _) => io::stderr().lock().write_all(bytes),
    }?;
    match stream {
        TerminalStream::Out => io::stdout().flush(),
        TerminalStream::Err => Ok(()),
    }
}

/// Escapes all control sequences and invisible characters except line breaks, tabs and gdn's own
/// styles.
pub(crate) fn escape_terminal_text(text: &str) -> String {
    let mut escaper = TextEscaper::new(KeptCharacters::Writing);
    let mut escaped = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\u{1b}') {
        escaped.push_str(&escaper.escape(&rest[..at]));
        rest = &rest[at..];
        let sequence_length = style_length(rest);
        match sequence_length {
            0 => {
                push_escape('\u{1b}', &mut escaped);
                rest = &rest[1..];
            }
            length => {
                escaped.push_str(&rest[..length]);
                rest = &rest[length..];
            }
        }
    }
    escaped.push_str(&escaper.escape(rest));
    escaped
}

/// Returns the length of the style sequence at the start of `text`, or 0 if it is not one of gdn's
/// own. These styles can highlight text but not hide it.
fn style_length(text: &str) -> usize {
    let Some(parameters) = text.strip_prefix("\u{1b}[") else {
        return 0;
    };
    let Some((numbers, _)) = parameters.split_once('m') else {
        return 0;
    };
    let is_ours = |number: &str| match number.parse::<u8>() {
        // Reset, bold, dim, italic, underline; foreground colors except black; no background
        // colors.
        Ok(0..=4 | 31..=37 | 39 | 90..=97) => number.len() <= 2,
        _ => number.is_empty(),
    };
    if numbers.split(';').all(is_ours) {
        2 + numbers.len() + 1
    } else {
        0
    }
}

/// Escapes invisible characters in JSON. The escaped JSON encodes the same value, because JSON has
/// only ASCII characters outside of strings.
fn json(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let mut units = [0; 2];
    for c in text.chars() {
        if is_visible(c) || matches!(c, '\n' | '\t') {
            escaped.push(c)
        } else {
            for unit in c.encode_utf16(&mut units).iter() {
                escaped.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_style_sequences_are_printed() {
        let ours = "\u{1b}[1m\u{1b}[31merror\u{1b}[0m a\tb\n";
        assert_eq!(escape_terminal_text(ours), ours);
        for hostile in [
            "\u{1b}[8mhidden",
            "\u{1b}[30m",
            "\u{1b}[7m",
            "\u{1b}[41m",
            "\u{1b}[1;8m",
            "\u{1b}[38;5;0m",
            "\u{1b}[001m",
            "\u{1b}[2J",
            "\u{1b}[1A",
            "\u{1b}]0;t\u{7}",
            "\u{1b}",
            "\u{1b}[",
            "\u{9b}1m",
            "a\rb",
            "a\u{8}",
            "\u{202e}",
            "\u{200b}",
        ] {
            let shown = escape_terminal_text(hostile);
            assert!(shown.chars().all(is_visible), "{shown:?}");
        }
    }

    #[test]
    fn escaped_json_parses_to_the_same_value() {
        let value = serde_json::json!({"a": "\u{1b}[2J\u{9b}\u{202e}\u{e0041}ä\n", "\u{200b}": 1});
        for text in [value.to_string(), format!("{value:#}")] {
            let safe = json(&text);
            assert!(safe.chars().all(|c| is_visible(c) || c == '\n'), "{safe:?}");
            assert_eq!(
                serde_json::from_str::<serde_json::Value>(&safe).unwrap(),
                value
            );
        }
    }

    #[test]
    fn output_is_held_while_a_prompt_is_open() {
        let prompt = open_prompt();
        write_on_terminal(TerminalStream::Err, TextOrigin::Ours, "later\u{202e}\n").unwrap();
        write_on_terminal(
            TerminalStream::Out,
            TextOrigin::Foreign,
            &with_marked_lines("a log line\nof two\n"),
        )
        .unwrap();
        let held_output: Vec<String> = screen()
            .held_output
            .as_ref()
            .unwrap()
            .writes
            .iter()
            .map(|(_, _, text)| text.clone())
            .collect();
        assert_eq!(
            held_output,
            ["later\\u{202e}\n", "a log line\n  │ of two\n"]
        );
        drop(prompt);
        assert!(screen().held_output.is_none());
    }

    #[test]
    fn held_output_has_a_size_limit() {
        let mut held_output = HeldOutput::default();
        (0..3).for_each(|_| {
            held_output.keep(
                TerminalStream::Err,
                TextOrigin::Ours,
                "x".repeat(MAX_HELD_OUTPUT_BYTES / 2),
            )
        });
        assert_eq!((held_output.writes.len(), held_output.left_out), (2, 1));
    }
}

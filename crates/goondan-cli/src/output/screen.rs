//! The one place that writes to the terminal.
//!
//! Where text of strangers is put into a sentence it is escaped there (`spec::shown`). This is the wall behind: whatever gets
//! here, nothing but our own styles does anything to a terminal. And while a question stands, it waits.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use goondan::inside::shown::{Escaper, Kept, is_visible, push_escape};

use super::bottom::{Below, Bottom};

/// So much is kept while a question stands; what comes after that is counted. In bytes.
const MOST_KEPT: usize = 1024 * 1024;

/// Where text goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    /// Results.
    Out,
    /// Everything else.
    Err,
}

/// Whose text it is, and who reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Words {
    /// Sentences of ours, in our styles, for people.
    Ours,
    /// What a stranger wrote. People see it harmless, programs get it byte for byte.
    Foreign,
    /// JSON. On a terminal, what can't be seen is written as JSON escapes it.
    Json,
}

static SCREEN: Mutex<Screen> = Mutex::new(Screen::new());

struct Screen {
    /// What waits for the end of a question.
    kept: Option<KeptBack>,
    /// Answers stream, and a character is judged by the one before.
    answers: Escaper,
    /// What stands below everything, in a chat.
    below: Option<Below>,
}

#[derive(Default)]
struct KeptBack {
    writes: Vec<(Stream, Words, String)>,
    bytes: usize,
    left_out: usize,
}

/// Writes `text`. On a terminal it waits until the question that stands is answered; who reads a file or a pipe sees no
/// question, and whoever does not read must not keep others from writing.
pub(crate) fn write(stream: Stream, words: Words, text: &str) -> io::Result<()> {
    match (stream.is_terminal(), words) {
        (true, _) => write_on_terminal(stream, words, text),
        (false, Words::Ours) => put(stream, words, &harmless(text)),
        (false, Words::Foreign | Words::Json) => put(stream, words, text),
    }
}

fn write_on_terminal(stream: Stream, words: Words, text: &str) -> io::Result<()> {
    let mut screen = screen();
    let text = screen.fit(words, text);
    match &mut screen.kept {
        Some(kept) => {
            kept.keep(stream, words, text.into_owned());
            Ok(())
        }
        None => {
            let text = text.into_owned();
            screen.put(stream, words, &text)
        }
    }
}

/// From now on `bottom` stands below everything that is written on the terminal.
pub(crate) fn stand_below(bottom: Bottom) -> io::Result<()> {
    let mut screen = screen();
    let columns = columns();
    match screen.below.get_or_insert_default().want(bottom, columns) {
        true => screen.above(""),
        false => Ok(()),
    }
}

/// What stood below is somewhere in what others have written: it is drawn again where the cursor is.
pub(crate) fn forget_bottom() {
    screen().below = None;
}

/// Clears the screen. What stands below is drawn again.
pub(crate) fn clear() -> io::Result<()> {
    let mut screen = screen();
    screen.below = None;
    on_terminal("\u{1b}[H\u{1b}[2J")
}

/// Nothing stands below any more, and the cursor is at the beginning of a line.
pub(crate) fn lift() -> io::Result<()> {
    let mut screen = screen();
    let Some(mut below) = screen.below.take() else {
        return Ok(());
    };
    let mut text = below.lift(columns());
    if !below.partial.is_empty() {
        text.push_str(&below.partial);
        text.push('\n');
    }
    on_terminal(&text)
}

/// From now on a question stands, until what is returned is dropped.
pub(crate) fn question() -> Standing {
    screen().kept = Some(KeptBack::default());
    Standing
}

/// The command ends: what is kept is written, whatever stands.
pub(crate) fn release() {
    let mut screen = screen();
    let Some(kept) = screen.kept.take() else {
        return;
    };
    for (stream, words, text) in kept.writes {
        // A stream that is closed has no reader; the others may have one.
        let _ = screen.put(stream, words, &text);
    }
    if kept.left_out > 0 {
        let told = format!(
            "… {} messages that came while the question stood are left out.\n",
            kept.left_out
        );
        let _ = screen.put(Stream::Err, Words::Ours, &told);
    }
}

/// A question that stands. Only it writes.
pub(crate) struct Standing;

impl Standing {
    /// Writes a part of the question.
    pub(crate) fn write(&self, text: &str) -> io::Result<()> {
        screen().put(Stream::Err, Words::Ours, &harmless(text))
    }
}

impl Drop for Standing {
    fn drop(&mut self) {
        release();
    }
}

impl Screen {
    const fn new() -> Self {
        Screen {
            kept: None,
            answers: Escaper::new(Kept::Writing),
            below: None,
        }
    }

    /// Writes what fits by now: above what stands below, where anything does.
    fn put(&mut self, stream: Stream, words: Words, text: &str) -> io::Result<()> {
        let Some(below) = self.below.as_mut().filter(|_| stream.is_terminal()) else {
            return put(stream, words, text);
        };
        below.partial.push_str(text);
        let Some(end) = below.partial.rfind('\n') else {
            return Ok(());
        };
        let rest = below.partial.split_off(end + 1);
        let lines = std::mem::replace(&mut below.partial, rest);
        match words {
            Words::Ours if !has_colour() => {
                self.above(&anstream::adapter::strip_str(&lines).to_string())
            }
            _ => self.above(&lines),
        }
    }

    /// Writes lines above what stands below.
    fn above(&mut self, lines: &str) -> io::Result<()> {
        self.below.as_mut().map_or(Ok(()), |below| {
            on_terminal(&below.repaint(lines, columns(), has_colour()))
        })
    }

    fn fit<'t>(&mut self, words: Words, text: &'t str) -> Cow<'t, str> {
        match words {
            Words::Ours => Cow::Owned(harmless(text)),
            Words::Foreign => self.answers.escape(text),
            Words::Json => Cow::Owned(json(text)),
        }
    }
}

impl KeptBack {
    fn keep(&mut self, stream: Stream, words: Words, text: String) {
        match self.bytes + text.len() <= MOST_KEPT {
            true => {
                self.bytes += text.len();
                self.writes.push((stream, words, text));
            }
            false => self.left_out += 1,
        }
    }
}

impl Stream {
    /// Asked of the system once: events are written by the thousand.
    fn is_terminal(self) -> bool {
        static OUT: LazyLock<bool> = LazyLock::new(|| io::stdout().is_terminal());
        static ERR: LazyLock<bool> = LazyLock::new(|| io::stderr().is_terminal());
        match self {
            Stream::Out => *OUT,
            Stream::Err => *ERR,
        }
    }
}

/// Writers of others, such as logs: each write is a message, of which the further lines can't be taken for ours.
pub(crate) struct Messages;

impl Write for Messages {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        write(
            Stream::Err,
            Words::Ours,
            &message(&String::from_utf8_lossy(bytes)),
        )?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn message(text: &str) -> String {
    text.trim_end_matches('\n').replace('\n', "\n  │ ") + "\n"
}

fn screen() -> MutexGuard<'static, Screen> {
    SCREEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// At once, and in one write: others may write there, too.
fn on_terminal(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

fn has_colour() -> bool {
    super::Output::stdout_has_colour()
}

/// As many as people mostly have, where a terminal does not tell.
fn columns() -> usize {
    terminal_size::terminal_size_of(io::stdout())
        .map_or(80, |(width, _)| usize::from(width.0).max(1))
}

/// Writes what fits by now, at once: somebody may be waiting for it.
fn put(stream: Stream, words: Words, text: &str) -> io::Result<()> {
    let bytes = text.as_bytes();
    match (stream, words) {
        (Stream::Out, Words::Ours) => anstream::stdout().lock().write_all(bytes),
        (Stream::Out, _) => io::stdout().lock().write_all(bytes),
        (Stream::Err, Words::Ours) => anstream::stderr().lock().write_all(bytes),
        (Stream::Err, _) => io::stderr().lock().write_all(bytes),
    }?;
    match stream {
        Stream::Out => io::stdout().flush(),
        Stream::Err => Ok(()),
    }
}

/// `text` in which nothing does anything to a terminal but ends of lines, tabs and our styles.
pub(crate) fn harmless(text: &str) -> String {
    let mut escaper = Escaper::new(Kept::Writing);
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\u{1b}') {
        shown.push_str(&escaper.escape(&rest[..at]));
        rest = &rest[at..];
        let style = style_length(rest);
        match style {
            0 => {
                push_escape('\u{1b}', &mut shown);
                rest = &rest[1..];
            }
            length => {
                shown.push_str(&rest[..length]);
                rest = &rest[length..];
            }
        }
    }
    shown.push_str(&escaper.escape(rest));
    shown
}

/// How long the sequence is that `text` begins with, where it is a style that we use: it may stress a text, and can't hide it.
fn style_length(text: &str) -> usize {
    let Some(parameters) = text.strip_prefix("\u{1b}[") else {
        return 0;
    };
    let Some((numbers, _)) = parameters.split_once('m') else {
        return 0;
    };
    let is_ours = |number: &str| match number.parse::<u8>() {
        // All off, bold, dim, italic, underlined; colours of letters but for black, and none of the background.
        Ok(0..=4 | 31..=37 | 39 | 90..=97) => number.len() <= 2,
        _ => number.is_empty(),
    };
    if numbers.split(';').all(is_ours) {
        2 + numbers.len() + 1
    } else {
        0
    }
}

/// JSON that means the same and holds nothing that can't be seen. Outside of strings JSON is ASCII.
fn json(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let mut units = [0; 2];
    for c in text.chars() {
        match is_visible(c) || matches!(c, '\n' | '\t') {
            true => escaped.push(c),
            false => {
                c.encode_utf16(&mut units)
                    .iter()
                    .for_each(|unit| escaped.push_str(&format!("\\u{unit:04x}")));
            }
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_our_styles_gets_through() {
        let ours = "\u{1b}[1m\u{1b}[31merror\u{1b}[0m a\tb\n";
        assert_eq!(harmless(ours), ours);
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
            let shown = harmless(hostile);
            assert!(shown.chars().all(is_visible), "{shown:?}");
        }
    }

    #[test]
    fn json_means_the_same() {
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
    fn what_comes_while_a_question_stands_waits() {
        let standing = question();
        write_on_terminal(Stream::Err, Words::Ours, "later\u{202e}\n").unwrap();
        write_on_terminal(
            Stream::Out,
            Words::Foreign,
            &message("a log line\nof two\n"),
        )
        .unwrap();
        let kept: Vec<String> = screen()
            .kept
            .as_ref()
            .unwrap()
            .writes
            .iter()
            .map(|(_, _, text)| text.clone())
            .collect();
        assert_eq!(kept, ["later\\u{202e}\n", "a log line\n  │ of two\n"]);
        drop(standing);
        assert!(screen().kept.is_none());
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut kept = KeptBack::default();
        (0..3).for_each(|_| kept.keep(Stream::Err, Words::Ours, "x".repeat(MOST_KEPT / 2)));
        assert_eq!((kept.writes.len(), kept.left_out), (2, 1));
    }
}

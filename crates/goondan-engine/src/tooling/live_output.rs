//! Lines of a running command that wait to be published.

use std::collections::VecDeque;
use std::time::Duration;

use chrono::{DateTime, Utc};
use goondan_core::JsonObject;
use goondan_core::event::{OUTPUT_LINES_KEY, SKIPPED_LINES_KEY};
use goondan_core::ports::tool::OutputStream;
use serde_json::Value;

use crate::policy::redact::{SecretRedactor, TextStream};

/// Minimum time between two updates of a call.
pub(crate) const OUTPUT_INTERVAL: Duration = Duration::from_millis(500);

/// Maximum bytes of one line. The rest of a longer line is left out.
const MAX_LINE_BYTES: usize = 500;

/// Maximum bytes of the lines in one update. Earlier lines are left out and counted. Escaped as
/// JSON, the lines stay below the limit of an event's metadata.
const MAX_UPDATE_BYTES: usize = 2_000;

/// Output of a command since the last update.
pub(crate) struct LiveOutput {
    streams: [OutputLineReader; 2],
    lines: VecDeque<String>,
    bytes: usize,
    skipped: u64,
    not_before: Option<DateTime<Utc>>,
}

/// Splits one output stream into lines without secrets.
struct OutputLineReader {
    /// Masks secrets before lines are split: a secret can contain line breaks.
    masked: TextStream,
    open_line: String,
}

/// Lines for one update; at least one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ShownLines {
    lines: Vec<String>,
    /// Number of earlier lines that are left out.
    skipped: u64,
}

impl OutputLineReader {
    fn new(redactor: &SecretRedactor) -> Self {
        OutputLineReader {
            masked: redactor.stream(),
            open_line: String::new(),
        }
    }

    /// Adds text to the open line; passes each complete line to `complete`.
    fn add(&mut self, text: &str, mut complete: impl FnMut(String)) {
        // Progress bars write carriage returns instead of line feeds.
        for piece in text.split_inclusive(['\n', '\r']) {
            let room = MAX_LINE_BYTES.saturating_sub(self.open_line.len());
            let part = piece.trim_end_matches(['\n', '\r']);
            self.open_line
                .push_str(&part[..part.floor_char_boundary(room)]);
            if part.len() < piece.len() {
                complete(std::mem::take(&mut self.open_line));
            }
        }
    }
}

impl LiveOutput {
    pub(crate) fn new(redactor: &SecretRedactor) -> Self {
        LiveOutput {
            streams: [
                OutputLineReader::new(redactor),
                OutputLineReader::new(redactor),
            ],
            lines: VecDeque::new(),
            bytes: 0,
            skipped: 0,
            not_before: None,
        }
    }

    /// Adds output of a stream.
    pub(crate) fn push(&mut self, stream: OutputStream, piece: &str) {
        let reader = &mut self.streams[stream as usize];
        let text = reader.masked.push(piece);
        let mut complete = Vec::new();
        reader.add(&text, |line| complete.push(line));
        for line in complete {
            self.push_line(line);
        }
    }

    /// Returns the earliest time of the next update.
    pub(crate) fn next_update(&self) -> Option<DateTime<Utc>> {
        self.not_before
    }

    /// Removes and returns the complete lines; `None` if there are none.
    pub(crate) fn take(&mut self, now: DateTime<Utc>) -> Option<ShownLines> {
        if self.lines.is_empty() {
            return None;
        }
        self.not_before = Some(now + OUTPUT_INTERVAL);
        self.bytes = 0;
        Some(ShownLines {
            lines: std::mem::take(&mut self.lines).into(),
            skipped: std::mem::take(&mut self.skipped),
        })
    }

    /// Removes and returns all lines, including lines without a line break at the end.
    pub(crate) fn take_rest(&mut self) -> Option<ShownLines> {
        for index in 0..self.streams.len() {
            let reader = &mut self.streams[index];
            let text = reader.masked.finish() + "\n";
            let mut complete = Vec::new();
            reader.add(&text, |line| complete.push(line));
            for line in complete {
                self.push_line(line);
            }
        }
        // No later output has to wait.
        self.take(DateTime::<Utc>::MIN_UTC)
    }

    /// Keeps a line, unless it is blank, and drops the earliest ones over the limit.
    fn push_line(&mut self, line: String) {
        if line.trim().is_empty() {
            return;
        }
        self.bytes += line.len();
        self.lines.push_back(line);
        while self.bytes > MAX_UPDATE_BYTES
            && let Some(dropped) = self.lines.pop_front()
        {
            self.bytes -= dropped.len();
            self.skipped += 1;
        }
    }
}

impl ShownLines {
    /// Returns the last line.
    pub(crate) fn title(&self) -> String {
        self.lines
            .last()
            .map(|line| line.trim().to_owned())
            .unwrap_or_default()
    }

    /// Returns the metadata of the event.
    pub(crate) fn into_metadata(self) -> JsonObject {
        let mut metadata =
            JsonObject::from_iter([(OUTPUT_LINES_KEY.to_owned(), Value::from(self.lines))]);
        if self.skipped > 0 {
            metadata.insert(SKIPPED_LINES_KEY.to_owned(), self.skipped.into());
        }
        metadata
    }
}

#[cfg(test)]
mod tests {
    use goondan_core::ports::tool::OutputStream::{Stderr, Stdout};
    use goondan_spec::Secret;

    use super::*;

    const NOW: DateTime<Utc> = DateTime::UNIX_EPOCH;

    fn lines(shown: Option<ShownLines>) -> Vec<String> {
        shown.map(|shown| shown.lines).unwrap_or_default()
    }

    #[test]
    fn lines_of_both_streams_stay_whole() {
        let mut live = LiveOutput::new(&SecretRedactor::new());
        for (stream, piece) in [
            (Stdout, "one\ntw"),
            (Stderr, "warning\r10 %\r"),
            (Stdout, "o\n\nrest"),
        ] {
            live.push(stream, piece);
        }
        assert_eq!(lines(live.take(NOW)), ["one", "warning", "10 %", "two"]);
        assert_eq!(live.take(NOW), None);
        assert_eq!(lines(live.take_rest()), ["rest"]);
    }

    #[test]
    fn a_secret_over_several_lines_is_masked() {
        let redactor = SecretRedactor::new();
        redactor.add_secrets([Secret::new("first-half\nsecond-half")]);
        let mut live = LiveOutput::new(&redactor);
        live.push(Stdout, "key first-");
        live.push(Stderr, "between\n");
        live.push(Stdout, "half\nsecond");
        assert_eq!(lines(live.take(NOW)), ["between"]);
        live.push(Stdout, "-half\n");
        assert_eq!(lines(live.take_rest()), ["key ***"]);
    }

    #[test]
    fn an_update_is_bounded_and_keeps_the_end() {
        let mut live = LiveOutput::new(&SecretRedactor::new());
        for number in 0..10_000 {
            live.push(Stdout, &format!("line {number}\n"));
        }
        live.push(Stdout, &"é".repeat(10_000));
        live.push(Stdout, "\nend\n");
        let shown = live.take(NOW).unwrap();
        assert_eq!(shown.title(), "end");
        assert_eq!(shown.skipped + shown.lines.len() as u64, 10_002);
        assert!(shown.lines.concat().len() <= MAX_UPDATE_BYTES);
        assert!(live.next_update() > Some(NOW));
    }
}

//! Inputs typed in earlier chats with a swarm.

use std::io;
use std::path::{Path, PathBuf};

use goondan::internal::SecretRedactor;
use goondan::internal::file_lock::{FileLock, LOCK_TIMEOUT};
use goondan::internal::private_files;

/// File name in the workspace.
const HISTORY_FILE: &str = "chat-history.txt";

/// Variable that disables the history with the value `off`.
const HISTORY_VARIABLE: &str = "GOONDAN_HISTORY";

/// First line of the file. The following lines are escaped.
const HISTORY_HEADER: &str = "#V2\n";

/// Maximum number of inputs kept; the latest are kept.
const MAX_HISTORY_INPUTS: usize = 1000;
/// Maximum size of the inputs kept, in bytes.
const MAX_HISTORY_BYTES: usize = 1024 * 1024;

/// Typed inputs for reuse. The file is private, and inputs with a secret of the swarm are not kept.
pub(in crate::commands::run) struct InputHistory {
    /// `None` if the history is disabled.
    file: Option<PathBuf>,
    lines: Vec<String>,
}

impl InputHistory {
    /// Opens the history of the workspace in that directory.
    pub(in crate::commands::run) fn of(workspace: &Path) -> Self {
        let is_off =
            std::env::var(HISTORY_VARIABLE).is_ok_and(|value| value.eq_ignore_ascii_case("off"));
        InputHistory::in_file((!is_off).then(|| workspace.join(HISTORY_FILE)))
    }

    /// Reads the history from `file`. A missing or damaged file is an empty history.
    fn in_file(file: Option<PathBuf>) -> Self {
        let lines = file.as_deref().map(saved_lines).unwrap_or_default();
        InputHistory { file, lines }
    }

    /// Returns the inputs of earlier chats, latest last.
    pub(in crate::commands::run) fn lines(&self) -> &[String] {
        &self.lines
    }

    /// Saves `line`. Errors are ignored, because the input can still run.
    pub(in crate::commands::run) fn remember(&mut self, line: &str) {
        if self.lines.last().is_some_and(|last| last == line) {
            return;
        }
        self.lines.push(line.to_owned());
        if let Some(file) = &self.file {
            let _ = save(file, line);
        }
    }
}

/// Returns the saved inputs. The first chat has none, and a damaged file must not prevent a chat.
fn saved_lines(file: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.strip_prefix(HISTORY_HEADER)
        .map(|lines| lines.lines().map(unescape_line_breaks).collect())
        .unwrap_or_default()
}

/// Adds `line` to the saved inputs, which include those of other chats at the same time.
fn save(file: &Path, line: &str) -> io::Result<()> {
    let _lock = FileLock::of_file(file, LOCK_TIMEOUT)?;
    let mut lines = saved_lines(file);
    lines.push(line.to_owned());
    // Not saved by the editor library, which would set the umask of the whole process.
    private_files::replace(
        file,
        file_content(&lines, crate::output::redactor()).as_bytes(),
    )
}

/// Returns the content of the history file: the latest inputs without secrets, within the limits.
fn file_content(lines: &[String], redactor: &SecretRedactor) -> String {
    let mut total_bytes = 0;
    let latest = lines
        .iter()
        .rev()
        .take(MAX_HISTORY_INPUTS)
        .take_while(|line| {
            total_bytes += line.len();
            total_bytes <= MAX_HISTORY_BYTES
        });
    let mut lines_to_save: Vec<String> = latest
        .filter(|line| redactor.text(line) == line.as_str())
        .map(|line| escape_line_breaks(line) + "\n")
        .collect();
    lines_to_save.push(HISTORY_HEADER.to_owned());
    lines_to_save.reverse();
    lines_to_save.concat()
}

/// Escapes line breaks, so that an input is one line of the file.
fn escape_line_breaks(line: &str) -> String {
    line.replace('\\', "\\\\")
        .replace('\n', "\\n")
        .replace('\r', "\\r")
}

/// Reverses [`escape_line_breaks`].
fn unescape_line_breaks(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => match letters.next() {
                Some('n') => text.push('\n'),
                Some('r') => text.push('\r'),
                other => text.push(other.unwrap_or('\\')),
            },
            letter => text.push(letter),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use goondan::spec::Secret;

    use super::*;

    #[test]
    fn the_history_keeps_lines_and_omits_secrets() {
        let dir = tempfile::tempdir().unwrap();
        let redactor = SecretRedactor::new();
        redactor.add_secrets([Secret::new("hunter2-hunter2")]);
        let lines = [
            "one",
            "my key is hunter2-hunter2",
            "a\\nb\nc",
            "aHVudGVyMi1odW50ZXIy",
        ]
        .map(str::to_owned);
        let file = dir.path().join(HISTORY_FILE);
        private_files::write(&file, file_content(&lines, &redactor).as_bytes()).unwrap();
        let history = InputHistory::in_file(Some(file));
        assert_eq!(history.lines(), ["one", "a\\nb\nc"]);
    }

    #[test]
    fn concurrent_chats_keep_the_inputs_of_both() {
        let dir = tempfile::tempdir().unwrap();
        let open = || InputHistory::in_file(Some(dir.path().join(HISTORY_FILE)));
        let mut first = open();
        let mut second = open();
        first.remember("one");
        second.remember("two");
        first.remember("three");
        assert_eq!(open().lines(), ["one", "two", "three"]);
    }

    #[test]
    fn only_the_latest_inputs_are_kept() {
        let mut history = InputHistory::in_file(None);
        (0..MAX_HISTORY_INPUTS + 5).for_each(|number| history.remember(&number.to_string()));
        let kept = file_content(&history.lines, &SecretRedactor::new());
        assert_eq!(
            (kept.lines().count(), kept.lines().nth(1)),
            (MAX_HISTORY_INPUTS + 1, Some("5"))
        );
        assert_eq!(
            file_content(
                &["x".repeat(MAX_HISTORY_BYTES), "y".to_owned()],
                &SecretRedactor::new()
            ),
            "#V2\ny\n"
        );
    }
}

//! What was typed in earlier chats with a swarm.

use std::path::{Path, PathBuf};

use goondan::inside::Redactor;
use goondan::inside::private;

/// Its name in the workspace.
const FILE: &str = "chat-history.txt";

/// With the value `off`, nothing is read or kept.
const SWITCH: &str = "GOONDAN_HISTORY";

/// What the file begins with: its lines are escaped.
const HEAD: &str = "#V2\n";

/// So many inputs are kept, and no more bytes of them; the latest stay.
const MOST: usize = 1000;
const MOST_BYTES: usize = 1024 * 1024;

/// Inputs that a person has typed, and may take again. They are nobody else's, and none with a secret of the swarm is kept.
pub(in crate::commands::run) struct History {
    /// `None` where it is switched off.
    file: Option<PathBuf>,
    lines: Vec<String>,
}

impl History {
    /// That of the chats in the workspace in that folder.
    pub(in crate::commands::run) fn of(workspace: &Path) -> Self {
        let is_off = std::env::var(SWITCH).is_ok_and(|value| value.eq_ignore_ascii_case("off"));
        History::in_file((!is_off).then(|| workspace.join(FILE)))
    }

    fn in_file(file: Option<PathBuf>) -> Self {
        // The first chat has no history, and a damaged one is no reason not to chat.
        let text = file
            .as_ref()
            .and_then(|file| std::fs::read_to_string(file).ok())
            .unwrap_or_default();
        let lines = text
            .strip_prefix(HEAD)
            .map(|lines| lines.lines().map(unescaped).collect())
            .unwrap_or_default();
        History { file, lines }
    }

    /// The inputs of earlier chats, the latest last.
    pub(in crate::commands::run) fn lines(&self) -> &[String] {
        &self.lines
    }

    /// Keeps `line`. What can't be remembered can still be asked.
    pub(in crate::commands::run) fn remember(&mut self, line: &str) {
        if self.lines.last().is_some_and(|last| last == line) {
            return;
        }
        self.lines.push(line.to_owned());
        if let Some(file) = &self.file {
            // No editor does it: it would set the umask of the whole process for that.
            let _ = private::write(
                file,
                content(&self.lines, crate::app::redactor()).as_bytes(),
            );
        }
    }
}

fn content(lines: &[String], redactor: &Redactor) -> String {
    let mut bytes = 0;
    let latest = lines.iter().rev().take(MOST).take_while(|line| {
        bytes += line.len();
        bytes <= MOST_BYTES
    });
    let mut harmless: Vec<String> = latest
        .filter(|line| redactor.text(line) == line.as_str())
        .map(|line| escaped(line) + "\n")
        .collect();
    harmless.push(HEAD.to_owned());
    harmless.reverse();
    harmless.concat()
}

fn escaped(line: &str) -> String {
    line.replace('\\', "\\\\")
        .replace('\n', "\\n")
        .replace('\r', "\\r")
}

fn unescaped(line: &str) -> String {
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
    fn lines_come_back_and_secrets_do_not() {
        let dir = tempfile::tempdir().unwrap();
        let redactor = Redactor::new();
        redactor.learn([Secret::new("hunter2-hunter2")]);
        let lines = [
            "one",
            "my key is hunter2-hunter2",
            "a\\nb\nc",
            "aHVudGVyMi1odW50ZXIy",
        ]
        .map(str::to_owned);
        let file = dir.path().join(FILE);
        private::write(&file, content(&lines, &redactor).as_bytes()).unwrap();
        let history = History::in_file(Some(file));
        assert_eq!(history.lines(), ["one", "a\\nb\nc"]);
    }

    #[test]
    fn the_latest_are_kept() {
        let mut history = History::in_file(None);
        (0..MOST + 5).for_each(|number| history.remember(&number.to_string()));
        let kept = content(&history.lines, &Redactor::new());
        assert_eq!(
            (kept.lines().count(), kept.lines().nth(1)),
            (MOST + 1, Some("5"))
        );
        assert_eq!(
            content(&["x".repeat(MOST_BYTES), "y".to_owned()], &Redactor::new()),
            "#V2\ny\n"
        );
    }
}

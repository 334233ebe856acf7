//! What was typed in earlier chats.

use std::path::PathBuf;

use goondan::StateRoot;
use goondan::inside::Redactor;
use goondan::inside::private;
use rustyline::DefaultEditor;

/// Its name below the state root.
const FILE: &str = "chat-history.txt";

/// With the value `off`, nothing is read or kept.
const SWITCH: &str = "GOONDAN_HISTORY";

/// What the editor's own files begin with.
const HEAD: &str = "#V2\n";

/// Lines that a person has typed, and may take again. They are nobody else's, and none with a secret of the swarm is kept.
pub(super) struct History {
    /// `None` where it is switched off.
    file: Option<PathBuf>,
}

impl History {
    pub(super) fn of(state_root: &StateRoot) -> Self {
        let is_off = std::env::var(SWITCH).is_ok_and(|value| value.eq_ignore_ascii_case("off"));
        History { file: (!is_off).then(|| state_root.0.join(FILE)) }
    }

    /// Hands the lines of earlier chats to `editor`.
    pub(super) fn load(&self, editor: &mut DefaultEditor) {
        if let Some(file) = &self.file {
            // The first chat has no history, and a damaged one is no reason not to chat.
            let _ = editor.load_history(file);
        }
    }

    /// Keeps `line`. What can't be remembered can still be asked.
    pub(super) fn remember(&self, line: &str, editor: &mut DefaultEditor) {
        let _ = editor.add_history_entry(line);
        if let Some(file) = &self.file {
            // The editor would set the umask of the whole process to write it.
            let _ = private::write(file, content(editor.history().iter(), crate::app::redactor()).as_bytes());
        }
    }
}

fn content<'l>(lines: impl Iterator<Item = &'l String>, redactor: &Redactor) -> String {
    let harmless = lines.filter(|line| redactor.text(line) == line.as_str());
    let escaped = harmless.map(|line| line.replace('\\', "\\\\").replace('\n', "\\n") + "\n");
    std::iter::once(HEAD.to_owned()).chain(escaped).collect()
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
        let lines = ["one", "my key is hunter2-hunter2", "a\\nb\nc", "aHVudGVyMi1odW50ZXIy"].map(str::to_owned);
        let file = dir.path().join(FILE);
        private::write(&file, content(lines.iter(), &redactor).as_bytes()).unwrap();
        let mut editor = DefaultEditor::new().unwrap();
        History { file: Some(file) }.load(&mut editor);
        assert_eq!(editor.history().iter().collect::<Vec<_>>(), ["one", "a\\nb\nc"]);
    }
}

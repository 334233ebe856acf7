//! Approvals that hold always, in a file of the project that is nobody else's.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use goondan_runtime::policy::{ApprovalBook, Grant};
use goondan_spec::{Code, Diagnostic};
use serde::{Deserialize, Serialize};

/// The file, relative to the project's folder. Its folder ignores itself: what one person allows is not for all who have
/// the project. File tools do not touch it.
pub const FILE: &str = ".goondan/approvals.yaml";

const HEAD: &str = "\
# Calls that somebody allowed for good. They run without a question where a policy asks; what a policy denies stays denied.
# Remove an entry to be asked again. The file is read when a swarm starts.
";

/// The approvals of a project, as they were when the swarm started, with those given since.
pub struct ApprovalFile {
    path: PathBuf,
    grants: Mutex<Vec<Grant>>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    #[serde(default)]
    approvals: Vec<Grant>,
}

impl ApprovalFile {
    /// Of the project in `root`. A file that can't be read is an error: it would be overwritten with the next approval.
    pub fn of(root: &Path) -> Result<Self, Diagnostic> {
        let path = root.join(FILE);
        let content = match std::fs::read_to_string(&path) {
            Ok(text) => parse(&text).map_err(|cause| unusable(&cause))?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Content::default(),
            Err(error) => return Err(unusable(&error.to_string())),
        };
        Ok(ApprovalFile { path, grants: Mutex::new(content.approvals) })
    }

    /// Replaces the file as a whole: a crash leaves the old or the new one.
    fn write(&self, grants: &[Grant]) -> std::io::Result<()> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder)?;
        let ignore = folder.join(".gitignore");
        if !ignore.exists() {
            std::fs::write(&ignore, "*\n")?;
        }
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(format!("{HEAD}approvals:\n").as_bytes())?;
        for grant in grants {
            // JSON is YAML; one line an approval is easy to read and to remove.
            let line = serde_json::to_string(grant).map_err(std::io::Error::other)?;
            file.write_all(format!("  - {line}\n").as_bytes())?;
        }
        file.as_file().sync_all()?;
        file.persist(&self.path).map_err(|error| error.error)?;
        Ok(())
    }
}

impl ApprovalBook for ApprovalFile {
    fn grants(&self) -> Vec<Grant> {
        self.grants.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn remember(&self, new: Vec<Grant>) -> Result<(), String> {
        let mut grants = self.grants.lock().unwrap_or_else(PoisonError::into_inner);
        for grant in new {
            if !grants.contains(&grant) {
                grants.push(grant);
            }
        }
        self.write(&grants).map_err(|error| format!("failed to write {}: {error}", self.path.display()))
    }
}

fn parse(text: &str) -> Result<Content, String> {
    goondan_spec::yaml::from_str(text).map_err(|error| error.to_string())
}

fn unusable(cause: &str) -> Diagnostic {
    let message = format!("The approvals of the project can't be read: {cause}.");
    Diagnostic::new(Code::PARSE_ERROR, message)
        .in_file(FILE)
        .suggest("Correct the file, or remove it: then everything is asked again.")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(command: &str) -> Grant {
        let args = serde_json::json!({ "command": command }).as_object().unwrap().clone();
        Grant { agent: "a".to_owned(), tool: "bash__exec".to_owned(), args }
    }

    #[test]
    fn what_is_remembered_is_there_at_the_next_start() {
        let project = tempfile::tempdir().unwrap();
        let book = ApprovalFile::of(project.path()).unwrap();
        assert!(book.grants().is_empty());
        book.remember(vec![grant("ls: # \"x\"\n- y")]).unwrap();
        book.remember(vec![grant("ls"), grant("ls")]).unwrap();
        let again = ApprovalFile::of(project.path()).unwrap();
        assert_eq!(again.grants(), [grant("ls: # \"x\"\n- y"), grant("ls")]);
        assert_eq!(std::fs::read_to_string(project.path().join(".goondan/.gitignore")).unwrap(), "*\n");
    }

    #[test]
    fn a_broken_file_is_neither_ignored_nor_overwritten() {
        let project = tempfile::tempdir().unwrap();
        std::fs::create_dir(project.path().join(".goondan")).unwrap();
        for broken in ["approvals: [{agent: a}]", "approvals: {", "approval: []"] {
            std::fs::write(project.path().join(FILE), broken).unwrap();
            assert!(ApprovalFile::of(project.path()).is_err(), "{broken}");
        }
    }
}

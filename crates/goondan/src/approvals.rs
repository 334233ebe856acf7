//! Approvals that hold always, in a file of the workspace. The project can't bring any along, and what may write in the
//! project can't add to them.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use goondan_core::ids::InstanceId;
use goondan_core::ports::approval::{ApprovalBook, Grant};
use goondan_core::ports::store::{StoreError, update};
use goondan_core::private;
use goondan_core::real_path::real_path;
use goondan_core::reserved::APPROVALS;
use goondan_spec::yaml::YamlError;
use goondan_spec::{Code, Diagnostic};
use goondan_store::jsonl::{JsonlStore, OpenWorkspaceError, layout};
use serde::{Deserialize, Serialize};

use crate::workspace::Workspace;

/// The file, relative to the folder of the workspace.
pub const FILE: &str = "approvals.yaml";

/// Where they were kept once, relative to the project. It is not read: who can write the project could allow anything.
const OLD_FILE: &str = ".goondan/approvals.yaml";

const HEAD: &str = "\
# Calls that somebody allowed for good, by the folder of the project. They run without a question where a policy asks; what
# a policy denies stays denied. Remove an entry to be asked again: `gdn policy approvals` does it.
";

/// The approvals of a project. What somebody changes in the file counts from the next question on.
pub struct ApprovalFile {
    path: PathBuf,
    project: String,
    known: Mutex<Known>,
}

/// What was read, and of which state of the file.
#[derive(Default)]
struct Known {
    content: Content,
    stamp: Option<Stamp>,
}

/// What tells a state of the file from another: each is another file, put in place of the one before.
#[derive(PartialEq, Eq)]
struct Stamp {
    changed: Option<SystemTime>,
    length: u64,
}

impl Stamp {
    fn of(path: &Path) -> Option<Stamp> {
        let metadata = std::fs::metadata(path).ok()?;
        Some(Stamp {
            changed: metadata.modified().ok(),
            length: metadata.len(),
        })
    }
}

/// Projects whose swarms have the same instance key share a workspace. They share no approvals.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    #[serde(default)]
    projects: BTreeMap<String, Vec<Grant>>,
}

impl ApprovalFile {
    /// Of the project in `root`, kept in the folder `workspace`. A file that can't be read is an error: it would be
    /// overwritten with the next approval.
    pub fn of(workspace: &Path, root: &Path) -> Result<Self, Diagnostic> {
        let path = workspace.join(FILE);
        let project = real_path(root)
            .unwrap_or_else(|_| root.to_owned())
            .display()
            .to_string();
        let file = ApprovalFile {
            path,
            project,
            known: Mutex::default(),
        };
        drop(file.read().map_err(|cause| unusable(&file.path, &*cause))?);
        file.tell_of_old(root);
        Ok(file)
    }

    /// What is in the file now.
    fn read(&self) -> Result<MutexGuard<'_, Known>, Box<dyn std::error::Error + Send + Sync>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = Stamp::of(&self.path);
        if stamp != known.stamp {
            // What can't be read allows nothing until it can.
            *known = Known::default();
            let content = match std::fs::read_to_string(&self.path) {
                Ok(text) => parse(&text)?,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => Content::default(),
                Err(error) => return Err(error.into()),
            };
            *known = Known { content, stamp };
        }
        Ok(known)
    }

    /// Changes the approvals of the project, and nobody else meanwhile.
    fn change(&self, change: impl FnOnce(&mut Vec<Grant>)) -> Result<(), StoreError> {
        self.try_change(change)
            .map_err(|cause| StoreError::file("write", &self.path, cause))
    }

    fn try_change(
        &self,
        change: impl FnOnce(&mut Vec<Grant>),
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        std::fs::create_dir_all(self.path.parent().unwrap_or(Path::new(".")))?;
        let lock = File::create(self.path.with_extension("lock"))?;
        lock.lock()?;
        let mut known = self.read()?;
        change(
            known
                .content
                .projects
                .entry(self.project.clone())
                .or_default(),
        );
        self.write(&known.content)?;
        known.stamp = Stamp::of(&self.path);
        Ok(())
    }

    /// Takes approvals back: whoever makes such a call is asked again.
    ///
    /// # Errors
    /// The file can't be read or written.
    pub fn forget(&self, taken: &[Grant]) -> Result<(), StoreError> {
        self.change(|grants| grants.retain(|grant| !taken.contains(grant)))
    }

    /// Says once that the file of an older version is not read.
    fn tell_of_old(&self, root: &Path) {
        let old = root.join(OLD_FILE);
        let Ok(known) = self.read() else { return };
        if known.content.projects.contains_key(&self.project) || !old.exists() {
            return;
        }
        tracing::warn!(
            "{} is not read: approvals are kept in {} now. What it allows is asked for again; remove it.",
            old.display(),
            self.path.display()
        );
        drop(known);
        if let Err(error) = self.change(|_| {}) {
            tracing::debug!(%error, "this is told again at the next start");
        }
    }

    /// Replaces the file as a whole: a crash leaves the old or the new one.
    fn write(&self, content: &Content) -> std::io::Result<()> {
        let mut text = format!("{HEAD}projects:\n");
        for (project, grants) in &content.projects {
            // JSON is YAML; one line an approval is easy to read and to remove.
            let project = serde_json::to_string(project).map_err(std::io::Error::other)?;
            let none = if grants.is_empty() { " []" } else { "" };
            text.push_str(&format!("  {project}:{none}\n"));
            for grant in grants {
                let line = serde_json::to_string(grant).map_err(std::io::Error::other)?;
                text.push_str(&format!("    - {line}\n"));
            }
        }
        std::fs::create_dir_all(self.path.parent().unwrap_or(Path::new(".")))?;
        private::replace_durably(&self.path, text.as_bytes()).map(drop)
    }
}

impl ApprovalBook for ApprovalFile {
    fn grants(&self) -> Vec<Grant> {
        match self.read() {
            Ok(known) => known
                .content
                .projects
                .get(&self.project)
                .cloned()
                .unwrap_or_default(),
            Err(error) => {
                tracing::warn!(file = %self.path.display(), error, "no approval holds until it can be read");
                Vec::new()
            }
        }
    }

    fn remember(&self, new: Vec<Grant>) -> Result<(), StoreError> {
        self.change(|grants| {
            for grant in new {
                if !grants.contains(&grant) {
                    grants.push(grant);
                }
            }
        })
    }
}

/// The approvals of a conversation.
///
/// # Errors
/// They can't be read.
pub fn of_conversation(workspace: &Workspace, id: &InstanceId) -> std::io::Result<Vec<Grant>> {
    let name = format!("{}.json", layout::file_name(APPROVALS));
    let text = match std::fs::read(
        workspace
            .instance_dir(id)
            .join(layout::EXTENSIONS)
            .join(name),
    ) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let all: Vec<serde_json::Value> = serde_json::from_slice(&text).unwrap_or_default();
    // What has another shape is of an older version, and holds no more.
    Ok(all
        .into_iter()
        .filter_map(|grant| serde_json::from_value(grant).ok())
        .collect())
}

/// Takes approvals of a conversation back. The workspace must not be held by a running swarm.
///
/// # Errors
/// The workspace is held, or can't be written.
pub async fn forget_of_conversation(
    workspace: &Workspace,
    id: &InstanceId,
    taken: &[Grant],
) -> Result<(), OpenWorkspaceError> {
    let store = JsonlStore::open(&workspace.dir)?;
    let left = of_conversation(workspace, id)
        .map_err(|cause| StoreError::file("read", &workspace.instance_dir(id), cause))?;
    let left: Vec<Grant> = left
        .into_iter()
        .filter(|grant| !taken.contains(grant))
        .collect();
    update(&store, id, APPROVALS, |_| Some(serde_json::json!(left))).await?;
    Ok(())
}

fn parse(text: &str) -> Result<Content, YamlError> {
    goondan_spec::yaml::from_str(text)
}

fn unusable(path: &Path, cause: &dyn std::error::Error) -> Diagnostic {
    let message = format!(
        "The approvals in {} can't be read: {cause}.",
        path.display()
    );
    Diagnostic::new(Code::PARSE_ERROR, message)
        .in_file(FILE)
        .suggest("Correct the file, or remove it: then everything is asked again.")
}

#[cfg(test)]
mod tests {
    use goondan_core::ports::approval::Covers;

    use super::*;

    fn grant(command: &str) -> Grant {
        let args = serde_json::json!({ "command": command })
            .as_object()
            .unwrap()
            .clone();
        let (agent, tool, folder) = ("a".to_owned(), "bash__exec".to_owned(), "/p".to_owned());
        Grant {
            agent,
            tool,
            covers: Covers::Call,
            args,
            folder,
            untrusted: false,
            programs: BTreeMap::new(),
            files: BTreeMap::new(),
        }
    }

    fn folders() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let (workspace, project) = (dir.path().join("state"), dir.path().join("project"));
        std::fs::create_dir(&project).unwrap();
        (dir, workspace, project)
    }

    #[test]
    fn what_is_remembered_is_there_at_the_next_start() {
        let (_dir, workspace, project) = folders();
        let book = ApprovalFile::of(&workspace, &project).unwrap();
        assert!(book.grants().is_empty());
        book.remember(vec![grant("ls: # \"x\"\n- y")]).unwrap();
        book.remember(vec![grant("ls"), grant("ls")]).unwrap();
        let again = ApprovalFile::of(&workspace, &project).unwrap();
        assert_eq!(again.grants(), [grant("ls: # \"x\"\n- y"), grant("ls")]);
        assert!(!project.join(".goondan").exists());
    }

    #[test]
    fn projects_that_share_a_workspace_share_no_approvals() {
        let (dir, workspace, project) = folders();
        let other = dir.path().join("hostile");
        std::fs::create_dir(&other).unwrap();
        ApprovalFile::of(&workspace, &project)
            .unwrap()
            .remember(vec![grant("make")])
            .unwrap();
        let book = ApprovalFile::of(&workspace, &other).unwrap();
        assert!(book.grants().is_empty());
        book.remember(vec![grant("ls")]).unwrap();
        assert_eq!(
            ApprovalFile::of(&workspace, &project).unwrap().grants(),
            [grant("make")]
        );
        assert_eq!(
            ApprovalFile::of(&workspace, &other).unwrap().grants(),
            [grant("ls")]
        );
    }

    #[test]
    fn what_a_project_brings_along_allows_nothing() {
        let (_dir, workspace, project) = folders();
        std::fs::create_dir(project.join(".goondan")).unwrap();
        std::fs::write(
            project.join(OLD_FILE),
            "approvals: [{agent: a, tool: bash__exec, args: {command: ls}}]",
        )
        .unwrap();
        assert!(
            ApprovalFile::of(&workspace, &project)
                .unwrap()
                .grants()
                .is_empty()
        );
        // It was told: the next start finds the project known.
        let again = ApprovalFile::of(&workspace, &project).unwrap();
        assert!(
            again
                .read()
                .unwrap()
                .content
                .projects
                .contains_key(&again.project)
        );
    }

    #[test]
    fn a_broken_file_is_neither_ignored_nor_overwritten() {
        let (_dir, workspace, project) = folders();
        std::fs::create_dir(&workspace).unwrap();
        for broken in [
            "projects: {/p: [{agent: a}]}",
            "projects: {",
            "approvals: []",
        ] {
            std::fs::write(workspace.join(FILE), broken).unwrap();
            assert!(ApprovalFile::of(&workspace, &project).is_err(), "{broken}");
        }
    }

    #[test]
    fn what_is_taken_back_holds_no_longer_in_a_swarm_that_runs() {
        let (_dir, workspace, project) = folders();
        let running = ApprovalFile::of(&workspace, &project).unwrap();
        running.remember(vec![grant("ls"), grant("make")]).unwrap();
        ApprovalFile::of(&workspace, &project)
            .unwrap()
            .forget(&[grant("ls")])
            .unwrap();
        assert_eq!(running.grants(), [grant("make")]);
        running.remember(vec![grant("pwd")]).unwrap();
        assert_eq!(
            ApprovalFile::of(&workspace, &project).unwrap().grants(),
            [grant("make"), grant("pwd")]
        );
        std::fs::write(workspace.join(FILE), "{").unwrap();
        assert!(running.grants().is_empty() && running.remember(vec![grant("ls")]).is_err());
    }
}

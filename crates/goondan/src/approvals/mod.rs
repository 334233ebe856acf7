//! Permanent approvals, stored in a file of the workspace. The project directory cannot supply
//! approvals, and a tool with write access to the project cannot add any.

pub mod broker;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use goondan_core::file_lock::{FileLock, LOCK_TIMEOUT};
use goondan_core::ids::InstanceId;
use goondan_core::ports::approval::{ApprovalGrant, ApprovalStore};
use goondan_core::ports::store::{StoreError, update};
use goondan_core::private_files;
use goondan_core::real_path::real_path;
use goondan_core::reserved_names::APPROVALS_RECORD;
use goondan_spec::yaml::YamlError;
use goondan_spec::{Code, Diagnostic};
use goondan_store::jsonl::{JsonlStore, OpenWorkspaceError, layout};
use serde::{Deserialize, Serialize};

use crate::workspace::Workspace;

/// Name of the approvals file in the workspace directory.
pub const APPROVALS_FILE: &str = "approvals.yaml";

/// File with the approvals of a conversation, among the state of its extensions.
pub const APPROVALS_RECORD_FILE: &str = "gdn.approvals.json";

/// Path of the approvals file of older versions, relative to the project. It is not read, because
/// anyone with write access to the project could allow anything.
const OLD_APPROVALS_FILE: &str = ".goondan/approvals.yaml";

const APPROVALS_FILE_HEADER: &str = "\
# Permanently approved calls, by project directory. They run without a prompt where a policy asks; \
    calls that
# a policy denies stay denied. `gdn policy approvals remove` revokes an approval.
";

/// Permanent approvals of a project. Edits of the file take effect from the next tool call.
pub struct ApprovalFile {
    path: PathBuf,
    project: String,
    known: Mutex<CachedApprovals>,
}

/// Cached content, with the file state that it was read from.
#[derive(Default)]
struct CachedApprovals {
    content: ApprovalFileContent,
    stamp: Option<ApprovalFileStamp>,
}

/// Fingerprint of the file state. Each write replaces the whole file.
#[derive(PartialEq, Eq)]
struct ApprovalFileStamp {
    changed: Option<SystemTime>,
    length: u64,
}

impl ApprovalFileStamp {
    /// Returns the current stamp of the file; `None` if it can't be read.
    fn of(path: &Path) -> Option<ApprovalFileStamp> {
        let metadata = std::fs::metadata(path).ok()?;
        Some(ApprovalFileStamp {
            changed: metadata.modified().ok(),
            length: metadata.len(),
        })
    }
}

/// File content. Projects with the same instance key share a workspace but no approvals.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ApprovalFileContent {
    #[serde(default)]
    projects: BTreeMap<String, Vec<ApprovalGrant>>,
}

impl ApprovalFile {
    /// Opens the approvals of the project in `root`, stored in the directory `workspace`. Fails if
    /// the file exists but is unreadable, because the next approval would overwrite it.
    pub fn of(workspace: &Path, root: &Path) -> Result<Self, Diagnostic> {
        let path = workspace.join(APPROVALS_FILE);
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
        file.warn_about_old_file(root);
        Ok(file)
    }

    /// Returns the current file content. Reads the file again if it has changed.
    fn read(
        &self,
    ) -> Result<MutexGuard<'_, CachedApprovals>, Box<dyn std::error::Error + Send + Sync>> {
        let mut cached = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = ApprovalFileStamp::of(&self.path);
        if stamp != cached.stamp {
            // An unreadable file allows nothing.
            *cached = CachedApprovals::default();
            let content = match std::fs::read_to_string(&self.path) {
                Ok(text) => parse(&text)?,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                    ApprovalFileContent::default()
                }
                Err(error) => return Err(error.into()),
            };
            *cached = CachedApprovals { content, stamp };
        }
        Ok(cached)
    }

    /// Changes the approvals of the project under a file lock.
    fn change(&self, change: impl FnOnce(&mut Vec<ApprovalGrant>)) -> Result<(), StoreError> {
        self.try_change(change)
            .map_err(|cause| StoreError::file("write", &self.path, cause))
    }

    /// Changes the approvals of the project, and writes the file.
    fn try_change(
        &self,
        change: impl FnOnce(&mut Vec<ApprovalGrant>),
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let _lock = FileLock::of_file(&self.path, LOCK_TIMEOUT)?;
        let mut cached = self.read()?;
        change(
            cached
                .content
                .projects
                .entry(self.project.clone())
                .or_default(),
        );
        self.write(&cached.content)?;
        cached.stamp = ApprovalFileStamp::of(&self.path);
        Ok(())
    }

    /// Revokes the approvals `revoked`. The next such call needs a new approval.
    ///
    /// # Errors
    /// Fails if the file cannot be read or written.
    pub fn forget(&self, revoked: &[ApprovalGrant]) -> Result<(), StoreError> {
        self.change(|grants| grants.retain(|grant| !revoked.contains(grant)))
    }

    /// Removes the approvals of a conversation from all projects.
    fn forget_in_all_projects(
        &self,
        id: &InstanceId,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        if !self.path.exists() {
            return Ok(());
        }
        let _lock = FileLock::of_file(&self.path, LOCK_TIMEOUT)?;
        let mut cached = self.read()?;
        for grants in cached.content.projects.values_mut() {
            grants.retain(|grant| !grant.is_of_conversation(id));
        }
        self.write(&cached.content)?;
        Ok(())
    }

    /// Warns once that the approvals file of an older version is ignored.
    fn warn_about_old_file(&self, root: &Path) {
        let old_file = root.join(OLD_APPROVALS_FILE);
        let Ok(cached) = self.read() else { return };
        if cached.content.projects.contains_key(&self.project) || !old_file.exists() {
            return;
        }
        tracing::warn!(
            "{} is no longer read: approvals are now in {}. gdn asks again for the calls that the \
                old file allows; remove the file.",
            old_file.display(),
            self.path.display()
        );
        drop(cached);
        if let Err(error) = self.change(|_| {}) {
            tracing::debug!(%error, "failed to write the approvals file; the warning about the old \
                approvals file repeats at the next start");
        }
    }

    /// Replaces the file atomically: after a crash it has either the old or the new content.
    fn write(&self, content: &ApprovalFileContent) -> std::io::Result<()> {
        let mut text = format!("{APPROVALS_FILE_HEADER}projects:\n");
        for (project, grants) in &content.projects {
            // JSON is valid YAML. One line per approval is easy to read and to delete.
            let project = serde_json::to_string(project).map_err(std::io::Error::other)?;
            let empty_list = if grants.is_empty() { " []" } else { "" };
            text.push_str(&format!("  {project}:{empty_list}\n"));
            for grant in grants {
                let line = serde_json::to_string(grant).map_err(std::io::Error::other)?;
                text.push_str(&format!("    - {line}\n"));
            }
        }
        private_files::replace_durably(&self.path, text.as_bytes()).map(drop)
    }
}

impl ApprovalStore for ApprovalFile {
    fn grants(&self) -> Vec<ApprovalGrant> {
        match self.read() {
            Ok(known) => known
                .content
                .projects
                .get(&self.project)
                .cloned()
                .unwrap_or_default(),
            Err(error) => {
                tracing::warn!(file = %self.path.display(), error, "the approvals file can't be \
                    read; no saved approval applies until it can");
                Vec::new()
            }
        }
    }

    fn forget_conversation(&self, id: &InstanceId) -> Result<(), StoreError> {
        let is_concerned = |grant: &ApprovalGrant| grant.is_of_conversation(id);
        if !self.grants().iter().any(is_concerned) {
            return Ok(());
        }
        self.change(|grants| grants.retain(|grant| !is_concerned(grant)))
    }

    fn remember(&self, new: Vec<ApprovalGrant>) -> Result<(), StoreError> {
        self.change(|grants| {
            for grant in new {
                if !grants.contains(&grant) {
                    grants.push(grant);
                }
            }
        })
    }
}

/// Removes the permanent approvals of a deleted conversation, for all projects of the workspace.
///
/// # Errors
/// Fails if the approvals cannot be read or written.
pub(crate) fn forget_deleted_conversation(
    workspace: &Path,
    id: &InstanceId,
) -> Result<(), StoreError> {
    let file = ApprovalFile {
        path: workspace.join(APPROVALS_FILE),
        project: String::new(),
        known: Mutex::default(),
    };
    file.forget_in_all_projects(id)
        .map_err(|cause| StoreError::file("write", &file.path, cause))
}

/// Returns the approvals of a conversation.
///
/// # Errors
/// Fails if the approvals cannot be read.
pub fn of_conversation(
    workspace: &Workspace,
    id: &InstanceId,
) -> std::io::Result<Vec<ApprovalGrant>> {
    let name = format!("{}.json", layout::file_name(APPROVALS_RECORD));
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
    // Entries in another form come from an older version and are no longer valid.
    Ok(all
        .into_iter()
        .filter_map(|grant| serde_json::from_value(grant).ok())
        .collect())
}

/// Revokes approvals of a conversation. No running swarm may hold the workspace.
///
/// # Errors
/// Fails if a swarm holds the workspace, or if it cannot be written.
pub async fn forget_of_conversation(
    workspace: &Workspace,
    id: &InstanceId,
    revoked: &[ApprovalGrant],
) -> Result<(), OpenWorkspaceError> {
    let store = JsonlStore::open(&workspace.dir)?;
    let remaining = of_conversation(workspace, id)
        .map_err(|cause| StoreError::file("read", &workspace.instance_dir(id), cause))?;
    let remaining: Vec<ApprovalGrant> = remaining
        .into_iter()
        .filter(|grant| !revoked.contains(grant))
        .collect();
    update(&store, id, APPROVALS_RECORD, |_| {
        Some(serde_json::json!(remaining))
    })
    .await?;
    Ok(())
}

/// Parses the content of the file.
fn parse(text: &str) -> Result<ApprovalFileContent, YamlError> {
    goondan_spec::yaml::from_str(text)
}

/// Returns the error of an approvals file that can't be read.
fn unusable(path: &Path, cause: &dyn std::error::Error) -> Diagnostic {
    let message = format!(
        "The approvals in {} can't be read: {cause}.",
        path.display()
    );
    Diagnostic::new(Code::PARSE_ERROR, message)
        .in_file(APPROVALS_FILE)
        .suggest("Correct the file. If you remove it, gdn asks for every approval again.")
}

#[cfg(test)]
mod tests {
    use goondan_core::ports::approval::ApprovalCoverage;

    use super::*;

    fn grant(command: &str) -> ApprovalGrant {
        let args = serde_json::json!({ "command": command })
            .as_object()
            .unwrap()
            .clone();
        let (agent, tool, folder) = ("a".to_owned(), "bash__exec".to_owned(), "/p".to_owned());
        ApprovalGrant {
            agent,
            tool,
            covers: ApprovalCoverage::Call,
            args,
            folder,
            conversation: None,
            untrusted: false,
            settings: None,
            programs: BTreeMap::new(),
            files: BTreeMap::new(),
            link_targets: BTreeMap::new(),
        }
    }

    fn directories() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let (workspace, project) = (dir.path().join("state"), dir.path().join("project"));
        std::fs::create_dir(&project).unwrap();
        (dir, workspace, project)
    }

    #[test]
    fn the_approvals_file_has_the_name_of_the_approvals_record() {
        let name = layout::file_name(APPROVALS_RECORD);
        assert_eq!(APPROVALS_RECORD_FILE, format!("{name}.json"));
    }

    #[test]
    fn remembered_approvals_persist_across_starts() {
        let (_dir, workspace, project) = directories();
        let file = ApprovalFile::of(&workspace, &project).unwrap();
        assert!(file.grants().is_empty());
        file.remember(vec![grant("ls: # \"x\"\n- y")]).unwrap();
        file.remember(vec![grant("ls"), grant("ls")]).unwrap();
        let reopened = ApprovalFile::of(&workspace, &project).unwrap();
        assert_eq!(reopened.grants(), [grant("ls: # \"x\"\n- y"), grant("ls")]);
        assert!(!project.join(".goondan").exists());
    }

    #[test]
    fn projects_that_share_a_workspace_share_no_approvals() {
        let (dir, workspace, project) = directories();
        let other = dir.path().join("hostile");
        std::fs::create_dir(&other).unwrap();
        ApprovalFile::of(&workspace, &project)
            .unwrap()
            .remember(vec![grant("make")])
            .unwrap();
        let file = ApprovalFile::of(&workspace, &other).unwrap();
        assert!(file.grants().is_empty());
        file.remember(vec![grant("ls")]).unwrap();
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
    fn an_approvals_file_in_the_project_is_ignored() {
        let (_dir, workspace, project) = directories();
        std::fs::create_dir(project.join(".goondan")).unwrap();
        std::fs::write(
            project.join(OLD_APPROVALS_FILE),
            "approvals: [{agent: a, tool: bash__exec, args: {command: ls}}]",
        )
        .unwrap();
        assert!(
            ApprovalFile::of(&workspace, &project)
                .unwrap()
                .grants()
                .is_empty()
        );
        // After the warning, the next start finds the project in the file.
        let reopened = ApprovalFile::of(&workspace, &project).unwrap();
        assert!(
            reopened
                .read()
                .unwrap()
                .content
                .projects
                .contains_key(&reopened.project)
        );
    }

    #[test]
    fn an_invalid_approvals_file_is_an_error() {
        let (_dir, workspace, project) = directories();
        std::fs::create_dir(&workspace).unwrap();
        let running = ApprovalFile::of(&workspace, &project).unwrap();
        for broken in [
            "projects: {/p: [{agent: a}]}",
            "projects: {",
            "approvals: []",
        ] {
            std::fs::write(workspace.join(APPROVALS_FILE), broken).unwrap();
            assert!(ApprovalFile::of(&workspace, &project).is_err(), "{broken}");
            assert!(running.remember(vec![grant("ls")]).is_err(), "{broken}");
            assert_eq!(
                std::fs::read_to_string(workspace.join(APPROVALS_FILE)).unwrap(),
                broken,
                "the file is not overwritten"
            );
        }
    }

    #[test]
    fn revoked_approvals_stop_applying_in_a_running_swarm() {
        let (_dir, workspace, project) = directories();
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
        std::fs::write(workspace.join(APPROVALS_FILE), "{").unwrap();
        assert!(running.grants().is_empty() && running.remember(vec![grant("ls")]).is_err());
    }
}

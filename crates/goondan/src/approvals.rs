//! Approvals that hold always, in a file of the workspace. The project can't bring any along, and what may write in the
//! project can't add to them.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use goondan_core::ports::approval::{ApprovalBook, Grant};
use goondan_core::real_path::real_path;
use goondan_spec::yaml::YamlError;
use goondan_spec::{Code, Diagnostic};
use serde::{Deserialize, Serialize};

/// The file, relative to the folder of the workspace.
pub const FILE: &str = "approvals.yaml";

/// Where they were kept once, relative to the project. It is not read: who can write the project could allow anything.
const OLD_FILE: &str = ".goondan/approvals.yaml";

const HEAD: &str = "\
# Calls that somebody allowed for good, by the folder of the project. They run without a question where a policy asks; what
# a policy denies stays denied. Remove an entry to be asked again. The file is read when a swarm starts.
";

/// The approvals of a project, as they were when the swarm started, with those given since.
pub struct ApprovalFile {
    path: PathBuf,
    project: String,
    content: Mutex<Content>,
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
        let content = match std::fs::read_to_string(&path) {
            Ok(text) => parse(&text).map_err(|cause| unusable(&path, &cause))?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Content::default(),
            Err(error) => return Err(unusable(&path, &error)),
        };
        let project = real_path(root).unwrap_or_else(|_| root.to_owned()).display().to_string();
        let file = ApprovalFile { path, project, content: Mutex::new(content) };
        file.tell_of_old(root);
        Ok(file)
    }

    /// Says once that the file of an older version is not read.
    fn tell_of_old(&self, root: &Path) {
        let old = root.join(OLD_FILE);
        let mut content = self.content.lock().unwrap_or_else(PoisonError::into_inner);
        if content.projects.contains_key(&self.project) || !old.exists() {
            return;
        }
        tracing::warn!(
            "{} is not read: approvals are kept in {} now. What it allows is asked for again; remove it.",
            old.display(),
            self.path.display()
        );
        content.projects.insert(self.project.clone(), Vec::new());
        if let Err(error) = self.write(&content) {
            tracing::debug!(%error, "this is told again at the next start");
        }
    }

    /// Replaces the file as a whole: a crash leaves the old or the new one.
    fn write(&self, content: &Content) -> std::io::Result<()> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder)?;
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(format!("{HEAD}projects:\n").as_bytes())?;
        for (project, grants) in &content.projects {
            // JSON is YAML; one line an approval is easy to read and to remove.
            let project = serde_json::to_string(project).map_err(std::io::Error::other)?;
            let none = if grants.is_empty() { " []" } else { "" };
            file.write_all(format!("  {project}:{none}\n").as_bytes())?;
            for grant in grants {
                let line = serde_json::to_string(grant).map_err(std::io::Error::other)?;
                file.write_all(format!("    - {line}\n").as_bytes())?;
            }
        }
        file.as_file().sync_all()?;
        file.persist(&self.path).map_err(|error| error.error)?;
        Ok(())
    }
}

impl ApprovalBook for ApprovalFile {
    fn grants(&self) -> Vec<Grant> {
        let content = self.content.lock().unwrap_or_else(PoisonError::into_inner);
        content.projects.get(&self.project).cloned().unwrap_or_default()
    }

    fn remember(&self, new: Vec<Grant>) -> Result<(), String> {
        let mut content = self.content.lock().unwrap_or_else(PoisonError::into_inner);
        let grants = content.projects.entry(self.project.clone()).or_default();
        for grant in new {
            if !grants.contains(&grant) {
                grants.push(grant);
            }
        }
        self.write(&content).map_err(|error| format!("failed to write {}: {error}", self.path.display()))
    }
}

fn parse(text: &str) -> Result<Content, YamlError> {
    goondan_spec::yaml::from_str(text)
}

fn unusable(path: &Path, cause: &dyn std::error::Error) -> Diagnostic {
    let message = format!("The approvals in {} can't be read: {cause}.", path.display());
    Diagnostic::new(Code::PARSE_ERROR, message)
        .in_file(FILE)
        .suggest("Correct the file, or remove it: then everything is asked again.")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(command: &str) -> Grant {
        let args = serde_json::json!({ "command": command }).as_object().unwrap().clone();
        let (agent, tool, folder) = ("a".to_owned(), "bash__exec".to_owned(), "/p".to_owned());
        Grant { agent, tool, args, folder, untrusted: false, programs: BTreeMap::new() }
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
        ApprovalFile::of(&workspace, &project).unwrap().remember(vec![grant("make")]).unwrap();
        let book = ApprovalFile::of(&workspace, &other).unwrap();
        assert!(book.grants().is_empty());
        book.remember(vec![grant("ls")]).unwrap();
        assert_eq!(ApprovalFile::of(&workspace, &project).unwrap().grants(), [grant("make")]);
        assert_eq!(ApprovalFile::of(&workspace, &other).unwrap().grants(), [grant("ls")]);
    }

    #[test]
    fn what_a_project_brings_along_allows_nothing() {
        let (_dir, workspace, project) = folders();
        std::fs::create_dir(project.join(".goondan")).unwrap();
        std::fs::write(project.join(OLD_FILE), "approvals: [{agent: a, tool: bash__exec, args: {command: ls}}]")
            .unwrap();
        assert!(ApprovalFile::of(&workspace, &project).unwrap().grants().is_empty());
        // It was told: the next start finds the project known.
        let again = ApprovalFile::of(&workspace, &project).unwrap();
        assert!(again.content.lock().unwrap().projects.contains_key(&again.project));
    }

    #[test]
    fn a_broken_file_is_neither_ignored_nor_overwritten() {
        let (_dir, workspace, project) = folders();
        std::fs::create_dir(&workspace).unwrap();
        for broken in ["projects: {/p: [{agent: a}]}", "projects: {", "approvals: []"] {
            std::fs::write(workspace.join(FILE), broken).unwrap();
            assert!(ApprovalFile::of(&workspace, &project).is_err(), "{broken}");
        }
    }
}

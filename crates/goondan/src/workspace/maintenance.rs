//! Inspection, repair and backup of a workspace in files.

use std::io;
use std::path::Path;

use goondan_store::jsonl::{self, BackupReport, RepairReport, WorkspaceInspection};

use super::Workspace;

impl Workspace {
    /// Returns true if a process uses the workspace.
    ///
    /// # Errors
    /// Fails if the lock file exists and cannot be read.
    pub fn is_running(&self) -> io::Result<bool> {
        self.running_process().map(|process| process.is_some())
    }

    /// Checks all files of the workspace without changing them.
    ///
    /// # Errors
    /// Fails if the directory cannot be listed, or if a newer program wrote a file.
    pub fn inspect(&self) -> io::Result<WorkspaceInspection> {
        jsonl::inspect(&self.dir, self.is_running()?)
    }

    /// Writes a copy with everything that can be read. No swarm may use the workspace.
    ///
    /// # Errors
    /// Fails if a swarm uses the workspace, if `to` exists, or if a file cannot be written.
    pub fn repair_to(&self, to: &Path) -> io::Result<RepairReport> {
        if self.is_running()? {
            return Err(io::Error::new(
                io::ErrorKind::ResourceBusy,
                "a swarm uses the workspace",
            ));
        }
        jsonl::repair(&self.dir, to)
    }

    /// Removes the answers to approval requests from the journals of unfinished turns. No process may
    /// use the workspace.
    ///
    /// # Errors
    /// Fails if a journal cannot be read or written.
    pub fn forget_recorded_approvals(&self) -> io::Result<()> {
        jsonl::forget_recorded_approvals(&self.dir)
    }

    /// Copies the workspace to the directory `to`, which must not exist. A swarm may use the
    /// workspace.
    ///
    /// # Errors
    /// Fails if `to` exists, if a file cannot be read or written, or if the workspace changes too
    /// fast.
    pub fn back_up_to(&self, to: &Path) -> io::Result<BackupReport> {
        jsonl::back_up(&self.dir, to)
    }
}

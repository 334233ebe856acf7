//! Errors of a swarm's start.

use std::io;

use goondan_core::ports::store::StoreError;
use goondan_spec::{Code, Diagnostic};
use goondan_store::jsonl::{LockError, LostLog, NewerFormat, OpenWorkspaceError};
use goondan_store_postgres::PostgresOpenError;

use crate::workspace::Workspace;
use crate::workspace::identity::WorkspaceOwner;

/// Reason why a swarm could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The bundle cannot run: for example a missing swarm, a missing variable, or a tool that does
    /// not open.
    #[error("{} error(s) prevent the swarm from starting", .0.len())]
    Diagnostics(Vec<Diagnostic>),
    /// Another process holds the workspace, or its store cannot be opened.
    #[error(transparent)]
    Workspace(#[from] OpenWorkspaceError),
    /// Another project created the workspace that this project would use by default.
    #[error("the workspace {} belongs to the project in {}, which names it in its `instanceKey`", .0.id, .1.path.display())]
    BelongsToAnother(Workspace, Box<WorkspaceOwner>),
    /// Another node holds the workspace, or the database is unusable.
    #[error(transparent)]
    Database(#[from] PostgresOpenError),
    /// The node was asked to leave before it led the workspace.
    #[error("the node has left the workspace; its turns have ended or continue on other nodes")]
    Left,
    /// A file of the workspace cannot be read or written.
    #[error("the workspace can't be used: {0}")]
    Io(#[from] io::Error),
}

impl StartError {
    /// Returns the error code. Several diagnostics have a common code.
    pub fn code(&self) -> Code {
        match self {
            StartError::Diagnostics(diagnostics) => match diagnostics.as_slice() {
                [only] => only.code,
                _ => Code::CONFIG_ERROR,
            },
            StartError::Database(
                PostgresOpenError::Address(_) | PostgresOpenError::Unusable { .. },
            ) => Code::DATABASE_ERROR,
            StartError::Left => Code::SWARM_STOPPED,
            StartError::Workspace(OpenWorkspaceError::Store(error)) => store_code(error),
            StartError::Workspace(_)
            | StartError::BelongsToAnother(..)
            | StartError::Database(PostgresOpenError::Held { .. })
            | StartError::Io(_) => Code::WORKSPACE_ERROR,
        }
    }

    /// Returns the fix, if there is one.
    pub fn suggestion(&self) -> Option<String> {
        match self {
            StartError::Diagnostics(diagnostics) => match diagnostics.as_slice() {
                [only] => only.suggestion.clone(),
                _ => None,
            },
            StartError::Workspace(OpenWorkspaceError::Locked(LockError::Held { .. })) => {
                let suggestion =
                    "use that process with `gdn send` and `gdn attach`, or stop it first";
                Some(suggestion.to_owned())
            }
            StartError::BelongsToAnother(workspace, _) => Some(format!(
                "check the `instanceKey` of that project, then move {} away",
                workspace.dir.display()
            )),
            StartError::Database(PostgresOpenError::Held { .. }) => {
                let suggestion = "send the input to that node with `gdn send --store`, or let \
                    `gdn serve --store` wait";
                Some(suggestion.to_owned())
            }
            StartError::Database(_) => Some("test the database URL with `psql`".to_owned()),
            StartError::Left => None,
            StartError::Workspace(OpenWorkspaceError::Store(error)) if is_newer(error) => {
                Some("run `gdn self update`, then repeat the command".to_owned())
            }
            StartError::Workspace(OpenWorkspaceError::Store(error)) if has_lost_log(error) => {
                let suggestion = "restore the file from a backup; to start without the lost \
                    events, repeat the command with `--accept-loss`";
                Some(suggestion.to_owned())
            }
            StartError::Workspace(_) | StartError::Io(_) => {
                Some("pass a writable directory with `--state-root`".to_owned())
            }
        }
    }
}

/// Returns the code of a store that cannot be opened.
fn store_code(error: &StoreError) -> Code {
    match (is_newer(error), has_lost_log(error)) {
        (true, _) => Code::WORKSPACE_NEWER,
        (_, true) => Code::WORKSPACE_LOG_LOST,
        _ => Code::WORKSPACE_ERROR,
    }
}

/// Returns true if the workspace has conversations without a log.
fn has_lost_log(error: &StoreError) -> bool {
    matches!(error, StoreError::Other(cause) if cause.downcast_ref::<LostLog>().is_some())
}

/// Returns true if a newer program wrote the file.
fn is_newer(error: &StoreError) -> bool {
    let StoreError::File { cause, .. } = error else {
        return false;
    };
    cause
        .downcast_ref::<io::Error>()
        .is_some_and(NewerFormat::is_cause)
}

impl From<Diagnostic> for StartError {
    fn from(problem: Diagnostic) -> Self {
        StartError::Diagnostics(vec![problem])
    }
}

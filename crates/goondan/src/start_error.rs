//! Why a swarm could not start.

use std::io;

use goondan_spec::{Code, Diagnostic};
use goondan_store::jsonl::{LockError, OpenWorkspaceError};
use goondan_store_postgres::OpenError;

use crate::identity::Owner;
use crate::workspace::Workspace;

/// Why a swarm could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The bundle can't run as it is: no such swarm, a missing variable, a tool that does not open.
    #[error("{} problem(s) keep the swarm from starting", .0.len())]
    Diagnostics(Vec<Diagnostic>),
    /// Another process holds the workspace, or its store can't be opened.
    #[error(transparent)]
    Workspace(#[from] OpenWorkspaceError),
    /// Another project has begun the workspace that is this one's by its path.
    #[error("the workspace {} belongs to the project in {}, which names it in its `instanceKey`", .0.id, .1.path.display())]
    BelongsToAnother(Workspace, Box<Owner>),
    /// Another node holds the workspace, or the database can't be used.
    #[error(transparent)]
    Database(#[from] OpenError),
    /// The node was told to leave before it led.
    #[error("the node has left: its turns are over, or go on elsewhere")]
    Left,
    /// A file of the workspace can't be read or written.
    #[error("the workspace can't be used: {0}")]
    Io(#[from] io::Error),
}

impl StartError {
    /// The code of the error; of several problems, none stands for the others.
    pub fn code(&self) -> Code {
        match self {
            StartError::Diagnostics(diagnostics) => match diagnostics.as_slice() {
                [only] => only.code,
                _ => Code::CONFIG_ERROR,
            },
            StartError::Database(OpenError::Address(_) | OpenError::Unusable { .. }) => {
                Code::DATABASE_ERROR
            }
            StartError::Left => Code::SWARM_STOPPED,
            StartError::Workspace(_)
            | StartError::BelongsToAnother(..)
            | StartError::Database(OpenError::Held { .. })
            | StartError::Io(_) => Code::WORKSPACE_ERROR,
        }
    }

    /// What to do about it.
    pub fn suggestion(&self) -> Option<String> {
        match self {
            StartError::Diagnostics(diagnostics) => match diagnostics.as_slice() {
                [only] => only.suggestion.clone(),
                _ => None,
            },
            StartError::Workspace(OpenWorkspaceError::Locked(LockError::Held { .. })) => {
                let suggestion =
                    "talk to that process with `gdn send` and `gdn attach`, or end it first";
                Some(suggestion.to_owned())
            }
            StartError::BelongsToAnother(workspace, _) => Some(format!(
                "look at the `instanceKey` of that project, then move {} away",
                workspace.dir.display()
            )),
            StartError::Database(OpenError::Held { .. }) => {
                let suggestion = "hand the input to that node with `gdn send --store`, or let `gdn serve --store` wait";
                Some(suggestion.to_owned())
            }
            StartError::Database(_) => {
                Some("try the address of the database with `psql`".to_owned())
            }
            StartError::Left => None,
            StartError::Workspace(_) | StartError::Io(_) => {
                Some("choose a folder that you may write to with `--state-root`".to_owned())
            }
        }
    }
}

impl From<Diagnostic> for StartError {
    fn from(problem: Diagnostic) -> Self {
        StartError::Diagnostics(vec![problem])
    }
}

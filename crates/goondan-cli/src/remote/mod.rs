//! A swarm that another process runs, reached through the door of its workspace.

mod listening;

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use goondan::spec::{Bundle, Code};
use goondan::{Input, LockError, OpenWorkspaceError, StartError, StateRoot, Workspace};
use goondan_serve::client::{Client, ClientError};
use goondan_serve::door::Door;
use goondan_serve::wire::{InputBody, SwarmBody};

pub(crate) use listening::Listening;

use crate::commands::run::Signals;
use crate::exit::{CliError, Exit};

/// So long a process is waited for that is about to open its door, or to end; and how often it is looked at.
const PATIENCE: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(20);

/// A swarm that another process runs.
#[derive(Debug, Clone)]
pub(crate) struct Remote {
    /// The way to it.
    pub(crate) client: Client,
    /// Who it is.
    pub(crate) swarm: SwarmBody,
    workspace: Workspace,
    pid: u32,
}

impl Remote {
    /// Waits until its process has ended, which it was about to; false where that takes too long.
    pub(crate) async fn ended(&self) -> bool {
        let end = patience();
        while self
            .workspace
            .running_process()
            .is_ok_and(|holder| holder.flatten() == Some(self.pid))
        {
            if Instant::now() >= end {
                return false;
            }
            tokio::time::sleep(LOOK).await;
        }
        true
    }

    /// Where it keeps its state.
    pub(crate) fn workspace(&self) -> &Workspace {
        &self.workspace
    }
}

/// Why no swarm was started here.
pub(crate) enum NotStarted {
    /// Another process runs it.
    Elsewhere(Box<Remote>, Signals),
    /// It could not be.
    Failed(CliError),
}

impl From<CliError> for NotStarted {
    fn from(error: CliError) -> Self {
        NotStarted::Failed(error)
    }
}

impl From<NotStarted> for CliError {
    fn from(not_started: NotStarted) -> Self {
        match not_started {
            NotStarted::Failed(error) => error,
            NotStarted::Elsewhere(remote, _) => {
                let Remote { workspace, pid, .. } = *remote;
                // As it is said where the process has not opened its door yet.
                let holder = LockError::Held {
                    dir: workspace.dir,
                    holder: format!("process {pid}"),
                };
                let error = StartError::from(OpenWorkspaceError::from(holder));
                let shown = CliError::failure(error.code(), error.to_string());
                CliError {
                    suggestion: error.suggestion(),
                    ..shown
                }
            }
        }
    }
}

/// When a process that is about to open its door, or to end, is given up.
pub(crate) fn patience() -> Instant {
    Instant::now() + PATIENCE
}

/// The swarm of that name, where a process runs it. One that has died has left its door behind, and does not answer. One that holds the workspace and has no door open is waited for `until` then: it has just started and opens one, or
/// it ends.
pub(crate) async fn running(
    bundle: &Bundle,
    swarm: Option<&str>,
    state_root: &StateRoot,
    until: Instant,
) -> Option<Remote> {
    let workspace = state_root.workspace_of(bundle, bundle.choose_swarm(swarm).ok()?);
    loop {
        if let Some(remote) = through_door(workspace.clone()).await {
            return Some(remote);
        }
        if !workspace
            .running_process()
            .is_ok_and(|holder| holder.is_some())
            || Instant::now() >= until
        {
            return None;
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// The swarms that run in the workspaces of the project in `root`, whatever its files say now.
pub(crate) async fn running_in(root: &Path, state_root: &StateRoot) -> io::Result<Vec<Remote>> {
    let mut running = Vec::new();
    for workspace in state_root.workspaces_of(root)? {
        running.extend(through_door(workspace).await);
    }
    Ok(running)
}

async fn through_door(workspace: Workspace) -> Option<Remote> {
    let door = Door::of(&workspace.dir)?;
    // Whoever listens now where a process has died does not hold its workspace, and gets no word from us.
    let holder = workspace.running_process().ok()??;
    let client = Client::through(&door);
    if holder.is_some_and(|holder| holder != door.pid) {
        return None;
    }
    let swarm = client.get("/api/swarm").await.ok()?;
    Some(Remote {
        client,
        swarm,
        workspace,
        pid: door.pid,
    })
}

/// The body of a request that hands `input` in.
pub(crate) fn body(input: Input) -> InputBody {
    InputBody {
        text: input.text,
        agent: input.agent,
        instance_key: input.instance_key,
        id: input.id,
        files: input.files,
        instructions: input.instructions,
        metadata: input.metadata,
    }
}

/// Whether the process was about to end, or gone, and has not taken what it was told.
pub(crate) fn is_not_taken(error: &ClientError) -> bool {
    match error {
        ClientError::Unreachable(_) => true,
        ClientError::Refused(body) => [Code::SWARM_STOPPING, Code::SWARM_STOPPED]
            .iter()
            .any(|code| body.code == *code),
        ClientError::Broken(_) | ClientError::Unexpected(_) => false,
    }
}

impl From<ClientError> for CliError {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Refused(body) => {
                let exit = if body.code == Code::AGENT_NOT_FOUND {
                    Exit::Usage
                } else {
                    Exit::Failure
                };
                CliError {
                    suggestion: body.suggestion,
                    ..CliError::passed_on(exit, body.code, body.message)
                }
            }
            error => CliError::failure(Code::INTERNAL_ERROR, capitalised(&error.to_string()))
                .suggest("What it had accepted is on disk. See what it did with `gdn logs`."),
        }
    }
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters
        .next()
        .map(|first| format!("{}{}.", first.to_uppercase(), letters.as_str()))
        .unwrap_or_default()
}

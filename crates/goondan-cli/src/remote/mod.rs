//! Connection to a swarm in another process, through the control endpoint of its workspace.

mod event_listener;
mod inputs;

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use goondan::spec::{Bundle, Code};
use goondan::{LockError, OpenWorkspaceError, StartError, StateRoot, Workspace};
use goondan_serve::client::{ClientError, LocalClient};
use goondan_serve::local_endpoint::LocalEndpoint;
use goondan_serve::wire::SwarmBody;

pub(crate) use event_listener::RemoteEventListener;

use crate::commands::run::SignalReceiver;
use crate::exit::{CliError, CommandExit};

/// Time to wait for a process that is about to open its control endpoint or to exit, and the
/// polling interval.
const CONTROL_ENDPOINT_TIMEOUT: Duration = Duration::from_secs(5);
const ENDPOINT_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Swarm in another process.
#[derive(Debug, Clone)]
pub(crate) struct RemoteSwarm {
    pub(crate) client: LocalClient,
    pub(crate) swarm: SwarmBody,
    workspace: Workspace,
    pid: u32,
}

impl RemoteSwarm {
    /// Waits until the process exits. Returns false if that takes longer than the limit.
    pub(crate) async fn wait_for_exit(&self) -> bool {
        let end = wait_end();
        while self
            .workspace
            .running_process()
            .is_ok_and(|holder| holder.flatten() == Some(self.pid))
        {
            if Instant::now() >= end {
                return false;
            }
            tokio::time::sleep(ENDPOINT_POLL_INTERVAL).await;
        }
        true
    }

    /// Returns the id of the process.
    pub(crate) fn process(&self) -> u32 {
        self.pid
    }

    /// Returns the workspace of the swarm.
    pub(crate) fn workspace(&self) -> &Workspace {
        &self.workspace
    }
}

/// Reason why no swarm started in this process.
pub(crate) enum NotStarted {
    /// Another process runs the swarm.
    Elsewhere(Box<RemoteSwarm>, SignalReceiver),
    /// The start failed.
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
                let RemoteSwarm { workspace, pid, .. } = *remote;
                // Same error as for a process that has not opened its control endpoint yet.
                let holder = LockError::Held {
                    dir: workspace.dir,
                    holder: format!("process {pid}"),
                };
                let error = StartError::from(OpenWorkspaceError::from(holder));
                let cli_error = CliError::failure(error.code(), error.to_string());
                CliError {
                    suggestion: error.suggestion(),
                    ..cli_error
                }
            }
        }
    }
}

/// Returns the end of the wait for a process that is about to open its control endpoint or to exit.
pub(crate) fn wait_end() -> Instant {
    Instant::now() + CONTROL_ENDPOINT_TIMEOUT
}

/// Returns the named swarm if a process runs it. The endpoint file of a crashed process does not
/// answer. A process that holds the workspace without an endpoint is starting or exiting; it is
/// polled until `until`.
pub(crate) async fn running(
    bundle: &Bundle,
    swarm: Option<&str>,
    state_root: &StateRoot,
    until: Instant,
) -> Option<RemoteSwarm> {
    let workspace = state_root.workspace_of(bundle, bundle.choose_swarm(swarm).ok()?);
    loop {
        if let Some(remote) = connect_endpoint(workspace.clone()).await {
            return Some(remote);
        }
        if !workspace
            .running_process()
            .is_ok_and(|holder| holder.is_some())
            || Instant::now() >= until
        {
            return None;
        }
        tokio::time::sleep(ENDPOINT_POLL_INTERVAL).await;
    }
}

/// Sends a signal to a process. A process id that cannot exist counts as an ended process.
#[cfg(unix)]
pub(crate) fn send_signal(process: u32, signal: nix::sys::signal::Signal) -> nix::Result<()> {
    let process = i32::try_from(process).map_err(|_| nix::errno::Errno::ESRCH)?;
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(process), signal)
}

/// Returns all swarms that run in the workspaces of the project in `root`, whatever its files
/// declare now.
pub(crate) async fn running_in(
    root: &Path,
    state_root: &StateRoot,
) -> io::Result<Vec<RemoteSwarm>> {
    let mut running = Vec::new();
    for workspace in state_root.workspaces_of(root)? {
        running.extend(connect_endpoint(workspace).await);
    }
    Ok(running)
}

/// Returns all swarms that run in the workspaces of the state root.
pub(crate) async fn running_everywhere(state_root: &StateRoot) -> io::Result<Vec<RemoteSwarm>> {
    let workspaces = state_root.workspaces()?;
    let running = workspaces.into_iter().map(connect_endpoint);
    let running = futures::future::join_all(running).await;
    Ok(running.into_iter().flatten().collect())
}

/// Connects to the process that runs the swarm of the workspace; `None` if no process answers.
async fn connect_endpoint(workspace: Workspace) -> Option<RemoteSwarm> {
    let endpoint = LocalEndpoint::of(&workspace.dir)?;
    // Another program can listen on the port of a crashed process. It does not hold the workspace,
    // so nothing is sent to it.
    let holder = workspace.running_process().ok()??;
    let client = LocalClient::for_endpoint(&endpoint);
    if holder.is_some_and(|holder| holder != endpoint.pid) {
        return None;
    }
    let swarm = client.get("/api/swarm").await.ok()?;
    Some(RemoteSwarm {
        client,
        swarm,
        workspace,
        pid: endpoint.pid,
    })
}

/// Returns true if the process was exiting or gone, so that it did not accept the request.
pub(crate) fn is_not_accepted(error: &ClientError) -> bool {
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
                    CommandExit::Usage
                } else {
                    CommandExit::Failure
                };
                CliError {
                    suggestion: body.suggestion,
                    ..CliError::with_foreign_code(exit, body.code, body.message)
                }
            }
            error => CliError::failure(Code::INTERNAL_ERROR, as_sentence(&error.to_string()))
                .suggest("Accepted inputs are on disk. See the events with `gdn logs`."),
        }
    }
}

/// Returns the text with its first letter in upper case, and a full stop.
fn as_sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters
        .next()
        .map(|first| format!("{}{}.", first.to_uppercase(), letters.as_str()))
        .unwrap_or_default()
}

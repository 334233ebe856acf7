//! Start of a swarm.
//! It takes as long as another node leads, or another process opens its endpoint or ends.

use std::sync::Arc;
use std::time::Instant;

use goondan::event::SwarmEvent;
use goondan::ports::approval::Approver;
use goondan::spec::Code;
use goondan::{StateRoot, Swarm};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_util::sync::CancellationToken;

use super::session::interrupted_by;
use super::signals::SignalReceiver;
use crate::exit::CliError;
use crate::output::CommandOutput;
use crate::project::{self, PreparedProject, SwarmLaunch, SwarmStartFailure};
use crate::remote::{self, RemoteSwarm};

/// Location of the swarm.
pub(super) enum SwarmStart {
    Here(Swarm, UnboundedReceiver<SwarmEvent>),
    Elsewhere(Box<RemoteSwarm>),
}

/// Starts the swarm, unless another process runs it.
/// If several processes start at once, one gets the workspace, and the others find that process.
pub(super) async fn start_swarm(
    (prepared, launch, approver): (PreparedProject, SwarmLaunch<'_>, Arc<dyn Approver>),
    signals: &mut SignalReceiver,
    state_root: &StateRoot,
    output: &CommandOutput,
) -> Result<SwarmStart, CliError> {
    let swarm = launch.args.swarm.as_deref();
    let end = remote::wait_end();
    loop {
        let found = tokio::select! {
            found = remote::running(&prepared.bundle, swarm, state_root, end) => found,
            signal = signals.next() => return Err(interrupted_by(signal)),
        };
        if let Some(remote) = found {
            return Ok(SwarmStart::Elsewhere(Box::new(remote)));
        }
        let all = (prepared.clone(), launch, Arc::clone(&approver));
        match start_here(all, signals, state_root, output).await {
            Ok((swarm, events)) => return Ok(SwarmStart::Here(swarm, events)),
            // Another process was faster and is about to open its endpoint.
            Err(not_run) if not_run.is_held && Instant::now() < end => {}
            Err(not_run) => return Err(not_run.error),
        }
    }
}

/// Starts the swarm in this process.
/// A node that does not lead yet leaves after a signal; its turns may finish first.
async fn start_here(
    (prepared, launch, approver): (PreparedProject, SwarmLaunch<'_>, Arc<dyn Approver>),
    signals: &mut SignalReceiver,
    state_root: &StateRoot,
    output: &CommandOutput,
) -> Result<(Swarm, UnboundedReceiver<SwarmEvent>), SwarmStartFailure> {
    let leave = CancellationToken::new();
    let may_leave = launch.waits && launch.args.store.is_given();
    let mut left_by = None;
    let mut starting = std::pin::pin!(project::start(
        prepared, launch, approver, &leave, state_root, output
    ));
    let started = loop {
        tokio::select! {
            started = &mut starting => break started,
            signal = signals.next(), if may_leave && left_by.is_none() => {
                left_by = Some(signal);
                leave.cancel();
                output.note("Finishing the running turns of this node. Press Ctrl-C again to \
                    leave them to other nodes at once.")?;
            }
        }
    };
    match (started, left_by) {
        (Err(SwarmStartFailure { error, .. }), Some(signal))
            if error.code == Code::SWARM_STOPPED =>
        {
            Err(interrupted_by(signal).into())
        }
        (started, left_by) => {
            // This node leads now, so the signal applies to the swarm.
            left_by
                .into_iter()
                .for_each(|signal| signals.put_back(signal));
            started
        }
    }
}

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

use super::session::interruption_error;
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
        let remote_swarm = tokio::select! {
            remote_swarm = remote::running(&prepared.bundle, swarm, state_root, end) => remote_swarm,
            signal = signals.next() => return Err(interruption_error(signal)),
        };
        if let Some(remote) = remote_swarm {
            return Ok(SwarmStart::Elsewhere(Box::new(remote)));
        }
        let start_arguments = (prepared.clone(), launch, Arc::clone(&approver));
        match start_here(start_arguments, signals, state_root, output).await {
            Ok((swarm, events)) => return Ok(SwarmStart::Here(swarm, events)),
            // Another process was faster and is about to open its endpoint.
            Err(failure) if failure.is_held && Instant::now() < end => {}
            Err(failure) => return Err(failure.error),
        }
    }
}

/// Starts the swarm in this process.
/// A signal ends the start. A node that does not lead yet may finish its turns first.
async fn start_here(
    (prepared, launch, approver): (PreparedProject, SwarmLaunch<'_>, Arc<dyn Approver>),
    signals: &mut SignalReceiver,
    state_root: &StateRoot,
    output: &CommandOutput,
) -> Result<(Swarm, UnboundedReceiver<SwarmEvent>), SwarmStartFailure> {
    let leave = CancellationToken::new();
    let may_leave = launch.waits && launch.args.store.is_given();
    let mut leave_signal = None;
    let mut starting = std::pin::pin!(project::start(
        prepared, launch, approver, &leave, state_root, output
    ));
    let started = loop {
        tokio::select! {
            started = &mut starting => break started,
            signal = signals.next(), if leave_signal.is_none() => {
                if !may_leave {
                    return Err(interruption_error(signal).into());
                }
                leave_signal = Some(signal);
                leave.cancel();
                output.note("Finishing the running turns of this node. Press Ctrl-C again to \
                    leave them to other nodes at once.")?;
            }
        }
    };
    match (started, leave_signal) {
        (Err(SwarmStartFailure { error, .. }), Some(signal))
            if error.code == Code::SWARM_STOPPED =>
        {
            Err(interruption_error(signal).into())
        }
        (started, leave_signal) => {
            // This node leads now, so the signal applies to the swarm.
            if let Some(signal) = leave_signal {
                signals.put_back(signal);
            }
            started
        }
    }
}

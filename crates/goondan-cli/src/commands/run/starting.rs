//! The start of a swarm, which takes as long as another node leads, or another process is about to open its door or to end.

use std::sync::Arc;
use std::time::Instant;

use goondan::event::SwarmEvent;
use goondan::ports::approval::Approver;
use goondan::spec::Code;
use goondan::{StateRoot, Swarm};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_util::sync::CancellationToken;

use super::session::interrupted_by;
use super::signals::Signals;
use crate::exit::CliError;
use crate::output::Output;
use crate::project::{self, Launch, NotRun, Prepared};
use crate::remote::{self, Remote};

/// Where the swarm runs.
pub(super) enum Started {
    Here(Swarm, UnboundedReceiver<SwarmEvent>),
    Elsewhere(Box<Remote>),
}

/// Starts the swarm, unless another process runs it. Of several that begin at the same moment one gets the workspace, and the
/// others find it.
pub(super) async fn start_swarm(
    (prepared, launch, approver): (Prepared, Launch<'_>, Arc<dyn Approver>),
    signals: &mut Signals,
    state_root: &StateRoot,
    output: &Output,
) -> Result<Started, CliError> {
    let swarm = launch.args.swarm.as_deref();
    let end = remote::patience();
    loop {
        let found = tokio::select! {
            found = remote::running(&prepared.bundle, swarm, state_root, end) => found,
            signal = signals.next() => return Err(interrupted_by(signal)),
        };
        if let Some(remote) = found {
            return Ok(Started::Elsewhere(Box::new(remote)));
        }
        let all = (prepared.clone(), launch, Arc::clone(&approver));
        match start_here(all, signals, state_root, output).await {
            Ok((swarm, events)) => return Ok(Started::Here(swarm, events)),
            // Another one was faster: its door opens now.
            Err(not_run) if not_run.is_held && Instant::now() < end => {}
            Err(not_run) => return Err(not_run.error),
        }
    }
}

/// Starts it in this process. A node that works for another one until it leads leaves with a signal: its turns may finish before that.
async fn start_here(
    (prepared, launch, approver): (Prepared, Launch<'_>, Arc<dyn Approver>),
    signals: &mut Signals,
    state_root: &StateRoot,
    output: &Output,
) -> Result<(Swarm, UnboundedReceiver<SwarmEvent>), NotRun> {
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
                output.note("Finishing the turns that run on this node. Press Ctrl-C again to leave them to others at once.")?;
            }
        }
    };
    match (started, left_by) {
        (Err(NotRun { error, .. }), Some(signal)) if error.code == Code::SWARM_STOPPED => {
            Err(interrupted_by(signal).into())
        }
        (started, left_by) => {
            // It leads by now: the signal is for the swarm.
            left_by
                .into_iter()
                .for_each(|signal| signals.put_back(signal));
            started
        }
    }
}

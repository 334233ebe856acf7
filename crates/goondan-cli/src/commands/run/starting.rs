//! The start of a swarm, which takes as long as another node leads.

use std::sync::Arc;

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
use crate::project::{self, Launch, Prepared};

/// Starts the swarm. A node that works for another one until it leads leaves with a signal: its turns may finish before that.
pub(super) async fn start_swarm(
    (prepared, launch, approver): (Prepared, Launch<'_>, Arc<dyn Approver>),
    signals: &mut Signals,
    state_root: &StateRoot,
    output: &Output,
) -> Result<(Swarm, UnboundedReceiver<SwarmEvent>), CliError> {
    let leave = CancellationToken::new();
    let may_leave = launch.waits && launch.args.store.is_given();
    let mut left_by = None;
    let mut starting = std::pin::pin!(project::start(prepared, launch, approver, &leave, state_root, output));
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
        (Err(error), Some(signal)) if error.code == Code::SWARM_STOPPED => Err(interrupted_by(signal)),
        (started, left_by) => {
            // It leads by now: the signal is for the swarm.
            left_by.into_iter().for_each(|signal| signals.put_back(signal));
            started
        }
    }
}

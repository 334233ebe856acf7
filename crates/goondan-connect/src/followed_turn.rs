//! A turn that answers an event. Its approval requests are posted at once, even while earlier answers
//! of its conversation are still being sent.

use std::sync::Arc;

use goondan::event::TurnResult;
use goondan::gateway::{TurnStream, TurnUpdate};
use goondan::spec::kinds::ReplyMode;
use tokio::sync::watch;

use crate::channel_approvals::ApprovalChannel;
use crate::receive_supervisor::AbortOnDrop;

/// A followed turn. Dropping it stops following.
pub(crate) struct ChannelTurn {
    /// Text of the current step, for streamed answers.
    pub(crate) text: watch::Receiver<String>,
    /// Result of the turn; `None` if the swarm ends first.
    pub(crate) result: AbortOnDrop<Option<TurnResult>>,
}

impl ChannelTurn {
    /// Follows a turn, whose approval requests are posted to `channel`.
    pub(crate) fn begin(turn: TurnStream, channel: ApprovalChannel) -> ChannelTurn {
        let turn = match channel.runtime.bound.reply {
            ReplyMode::Stream => turn,
            ReplyMode::Auto | ReplyMode::None => turn.without_progress(),
        };
        let (sender, text) = watch::channel(String::new());
        let result = AbortOnDrop(tokio::spawn(follow(turn, Arc::new(channel), sender)));
        ChannelTurn { text, result }
    }
}

/// Follows a turn to its end.
async fn follow(
    mut turn: TurnStream,
    channel: Arc<ApprovalChannel>,
    text: watch::Sender<String>,
) -> Option<TurnResult> {
    while let Some(update) = turn.next().await {
        match update {
            TurnUpdate::TextSoFar(running) => drop(text.send_replace(running.text.to_string())),
            TurnUpdate::Text(delta) => text.send_modify(|text| text.push_str(&delta)),
            TurnUpdate::Restarted => text.send_modify(String::clear),
            TurnUpdate::Event(event) if event.begins_step_of(turn.turn_id()) => {
                text.send_modify(String::clear);
            }
            TurnUpdate::ApprovalRequested(request) => channel.post(request),
            TurnUpdate::Ended(result) => return Some(*result),
            // A request's message follows the state of its request.
            TurnUpdate::ApprovalClosed(_)
            | TurnUpdate::Reasoning(_)
            | TurnUpdate::Event(_)
            | TurnUpdate::Lagged
            | TurnUpdate::SwarmEnded => {}
        }
    }
    None
}

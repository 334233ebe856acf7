//! The wait for an answer. Streamed answers are a message that grows in its channel while the model
//! writes. It is sent once, edited at most once a second, and its last edit makes it the answer.
//!
//! The message handle is stored as soon as it is known, so a restarted process continues with the
//! same message. Edits are idempotent, so the last edit can always be retried.

use std::time::Duration;

use goondan::event::TurnResult;
use tokio::time::Instant;

use crate::connection_runtime::ConnectionRuntime;
use crate::followed_turn::ChannelTurn;
use crate::http::PlatformFailure;
use crate::outbox::OutboxReply;
use crate::reply_queue::TypingIndicator;

/// Characters of a text that are considered; more than any platform allows in a message.
const MAX_DRAFT_CHARS: usize = 16_000;
/// Suffix of an unfinished text.
const UNFINISHED_SUFFIX: &str = " …";
/// Suffix of an unfinished text whose last line must not change.
const UNFINISHED_LINE: &str = "\n…";
/// Final text of a message whose turn produced no answer.
pub(crate) const STOPPED_TEXT: &str = "This request was stopped before there was an answer.";

/// Shows the text of the turn, or typing indicators, until the turn ends. Sets the draft of the
/// reply when the message exists. Returns the turn's result; `None` if the swarm stopped before.
pub(crate) async fn await_answer(
    runtime: &ConnectionRuntime,
    reply: &mut OutboxReply,
    turn: ChannelTurn,
) -> Option<TurnResult> {
    let ChannelTurn {
        mut text,
        mut result,
    } = turn;
    let mut result = std::pin::pin!(async { (&mut result.0).await.ok().flatten() });
    let (mut shown, mut not_before, mut typing) =
        (String::new(), Instant::now(), TypingIndicator::new());
    loop {
        let next_text = async {
            let changed = text.wait_for(|text| has_changed(runtime, text, &shown));
            let is_watched = changed.await.is_ok();
            tokio::time::sleep_until(not_before).await;
            is_watched
        };
        tokio::select! {
            biased;
            result = &mut result => return result,
            // False means that there is no more text; the loop then waits for the result.
            true = next_text => {}
            () = typing.is_due() => {
                typing.send_indicator(runtime, &reply.origin).await;
                continue;
            }
        }
        let message = first_message(runtime, &text.borrow_and_update());
        // Not cancelled when the turn ends: a pending edit must arrive before the answer.
        let wait = match update_draft(runtime, reply, &message).await {
            Ok(()) => runtime.platform.edit_interval(),
            Err(PlatformFailure::Later(wait)) => wait,
            Err(failure) => {
                tracing::debug!(
                    connection = runtime.bound.name,
                    "could not update the streamed reply; the final answer replaces it: {failure}"
                );
                return result.await;
            }
        };
        (shown, not_before) = (message, Instant::now() + wait.max(Duration::from_secs(1)));
    }
}

/// Shows `text`: edits the streamed message, or creates it.
async fn update_draft(
    runtime: &ConnectionRuntime,
    reply: &mut OutboxReply,
    text: &str,
) -> Result<(), PlatformFailure> {
    let (platform, origin) = (&runtime.platform, &reply.origin);
    match &reply.draft {
        Some(handle) => platform.edit(origin, handle, text, None).await,
        None => {
            let handle = platform.draft(origin, text).await?;
            reply.draft = Some(handle.clone());
            let written = runtime
                .pending_replies
                .outbox
                .draft(&reply.id, handle)
                .await;
            written.map_err(|error| {
                PlatformFailure::Refused(format!("the reply could not be stored: {error}"))
            })
        }
    }
}

/// Returns the message to show while the answer grows: its first message. Empty if there is no text.
fn first_message(runtime: &ConnectionRuntime, text: &str) -> String {
    // Text far beyond the first message does not affect it.
    let beginning = text
        .char_indices()
        .nth(MAX_DRAFT_CHARS)
        .map_or(text, |(end, _)| &text[..end])
        .trim_end();
    if beginning.is_empty() {
        return String::new();
    }
    let last_line = beginning.lines().next_back().unwrap_or_default();
    // A fence is only a fence if nothing follows it.
    let suffix = if last_line.trim_start().starts_with(['`', '~', '|']) {
        UNFINISHED_LINE
    } else {
        UNFINISHED_SUFFIX
    };
    let messages = runtime.platform.pieces(&format!("{beginning}{suffix}"));
    messages.into_iter().next().unwrap_or_default()
}

/// Returns true if the visible text differs from `shown` and is not empty.
fn has_changed(runtime: &ConnectionRuntime, text: &str, shown: &str) -> bool {
    let text = first_message(runtime, text);
    !text.is_empty() && text != shown
}

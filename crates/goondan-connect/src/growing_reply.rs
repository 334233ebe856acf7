//! Streamed answers: a message that grows in its channel while the model writes. It is sent once,
//! edited at most once a second, and its last edit makes it the answer.
//!
//! The message handle is stored as soon as it is known, so a restarted process continues with the
//! same message. Edits are idempotent, so the last edit can always be retried.

use std::time::Duration;

use goondan::Turn;
use goondan::event::TurnResult;
use serde_json::Value;
use tokio::time::Instant;

use crate::connection_runtime::ConnectionRuntime;
use crate::http::PlatformFailure;
use crate::reply_queue::TypingIndicator;
use crate::streamed_text::TurnTextWatch;

/// Characters of a text that are considered; more than any platform allows in a message.
const MAX_DRAFT_CHARS: usize = 16_000;
/// Suffix of an unfinished text.
const UNFINISHED_SUFFIX: &str = " …";
/// Suffix of an unfinished text whose last line must not change.
const UNFINISHED_LINE: &str = "\n…";
/// Final text of a message whose turn produced no answer.
pub(crate) const STOPPED_TEXT: &str = "This request was stopped before there was an answer.";

/// Shows the text of the turn until the turn ends. Sets `draft` when the message exists. Returns
/// the turn's result; `None` if the swarm stopped before.
pub(crate) async fn stream_answer(
    runtime: &ConnectionRuntime,
    id: &str,
    origin: &Value,
    draft: &mut Option<Value>,
    (turn, mut watched): (Turn, TurnTextWatch),
) -> Option<TurnResult> {
    let mut result = std::pin::pin!(turn.result());
    let (mut shown, mut not_before, mut typing) =
        (String::new(), Instant::now(), TypingIndicator::new());
    loop {
        let next_text = async {
            let is_watched = watched
                .text
                .wait_for(|text| has_changed(runtime, text.as_deref().unwrap_or_default(), &shown))
                .await
                .is_ok();
            tokio::time::sleep_until(not_before).await;
            is_watched
        };
        tokio::select! {
            biased;
            result = &mut result => return result,
            // False means that there is no more text; the loop then waits for the result.
            true = next_text => {}
            () = typing.is_due() => {
                typing.send_indicator(runtime, origin).await;
                continue;
            }
        }
        let text = first_message(
            runtime,
            watched
                .text
                .borrow_and_update()
                .as_deref()
                .unwrap_or_default(),
        );
        // Not cancelled when the turn ends: a pending edit must arrive before the answer.
        let wait = match update_draft(runtime, id, origin, draft, &text).await {
            Ok(()) => runtime.platform.pace(),
            Err(PlatformFailure::Later(wait)) => wait,
            Err(failure) => {
                tracing::debug!(
                    connection = runtime.bound.name,
                    "could not update the streamed reply; the final answer replaces it: {failure}"
                );
                return result.await;
            }
        };
        (shown, not_before) = (text, Instant::now() + wait.max(Duration::from_secs(1)));
    }
}

/// Shows `text`: edits the streamed message, or creates it.
async fn update_draft(
    runtime: &ConnectionRuntime,
    id: &str,
    origin: &Value,
    draft: &mut Option<Value>,
    text: &str,
) -> Result<(), PlatformFailure> {
    match draft {
        Some(handle) => runtime.platform.edit(origin, handle, text, None).await,
        None => {
            let handle = runtime.platform.draft(origin, text).await?;
            *draft = Some(handle.clone());
            let written = runtime.owed.outbox.draft(id, handle).await;
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
    let suffix = match last_line.trim_start().starts_with(['`', '~', '|']) {
        true => UNFINISHED_LINE,
        false => UNFINISHED_SUFFIX,
    };
    let messages = runtime.platform.pieces(&format!("{beginning}{suffix}"));
    messages.into_iter().next().unwrap_or_default()
}

/// Returns true if the visible text differs from `shown` and is not empty.
fn has_changed(runtime: &ConnectionRuntime, text: &str, shown: &str) -> bool {
    let text = first_message(runtime, text);
    !text.is_empty() && text != shown
}

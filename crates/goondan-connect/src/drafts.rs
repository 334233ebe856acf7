//! Answers that grow in their channel while the model writes them: a message is sent once and changed at most once a second, and
//! its last change makes it the answer.
//!
//! Where it stands is on disk as soon as it is known, so a process that dies goes on with the same message. To change a message
//! to the same text twice does nothing, so its last change may be tried again however it ended.

use std::time::Duration;

use goondan::Turn;
use goondan::event::TurnResult;
use serde_json::Value;
use tokio::time::Instant;

use crate::desk::Desk;
use crate::http::Failure;
use crate::lanes::Sign;
use crate::live::Watched;

/// No platform takes so long a message, in characters.
const FAR: usize = 16_000;
/// What stands behind a text that goes on.
const GOES_ON: &str = " …";
/// What a message becomes whose turn came to no answer.
pub(crate) const STOPPED: &str = "This was stopped before there was an answer.";

/// Shows what the turn writes until it is over. The message is in `draft` from then on.
pub(crate) async fn grow(
    desk: &Desk,
    id: &str,
    origin: &Value,
    draft: &mut Option<Value>,
    (turn, mut watched): (Turn, Watched),
) -> Option<TurnResult> {
    let mut result = std::pin::pin!(turn.result());
    let (mut shown, mut not_before, mut sign) = (String::new(), Instant::now(), Sign::new());
    loop {
        let more = async {
            let is_watched = watched
                .text
                .wait_for(|text| is_news(desk, text.as_deref().unwrap_or_default(), &shown))
                .await
                .is_ok();
            tokio::time::sleep_until(not_before).await;
            is_watched
        };
        tokio::select! {
            biased;
            result = &mut result => return result,
            true = more => {}
            () = sign.is_due() => {
                sign.give(desk, origin).await;
                continue;
            }
        }
        let text = first(
            desk,
            watched
                .text
                .borrow_and_update()
                .as_deref()
                .unwrap_or_default(),
        );
        // Whatever comes of the turn meanwhile: what is on its way has to arrive first.
        let wait = match show(desk, id, origin, draft, &text).await {
            Ok(()) => desk.platform.pace(),
            Err(Failure::Later(wait)) => wait,
            Err(failure) => {
                tracing::debug!(
                    connection = desk.bound.name,
                    "an answer does not grow: {failure}"
                );
                return result.await;
            }
        };
        (shown, not_before) = (text, Instant::now() + wait.max(Duration::from_secs(1)));
    }
}

async fn show(
    desk: &Desk,
    id: &str,
    origin: &Value,
    draft: &mut Option<Value>,
    text: &str,
) -> Result<(), Failure> {
    let text = format!("{text}{GOES_ON}");
    match draft {
        Some(handle) => desk.platform.edit(origin, handle, &text, None).await,
        None => {
            let handle = desk.platform.draft(origin, &text).await?;
            *draft = Some(handle.clone());
            let written = desk.owed.outbox.draft(id, handle).await;
            written
                .map_err(|error| Failure::Refused(format!("it could not be put on disk: {error}")))
        }
    }
}

/// The message that grows: the first of those that the answer will be.
fn first(desk: &Desk, text: &str) -> String {
    // What is far behind the first message changes nothing about it.
    let near = text
        .char_indices()
        .nth(FAR)
        .map_or(text, |(end, _)| &text[..end]);
    let mut text = desk
        .platform
        .pieces(near)
        .into_iter()
        .next()
        .unwrap_or_default();
    // It may be as long as a message may be already.
    while !text.is_empty() && desk.platform.pieces(&format!("{text}{GOES_ON}")).len() > 1 {
        text.pop();
    }
    text
}

fn is_news(desk: &Desk, text: &str, shown: &str) -> bool {
    let text = first(desk, text);
    !text.is_empty() && text != shown
}

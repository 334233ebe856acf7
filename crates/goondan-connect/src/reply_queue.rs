//! Reply queues: the answers of one conversation are sent in order. Different conversations are
//! independent.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use goondan::SubmittedEventState;
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::channel_approvals::TraceApprovals;
use crate::connection_runtime::ConnectionRuntime;
use crate::delivery::AnswerDelivery;
use crate::growing_reply;
use crate::streamed_text::TurnTextWatch;

/// Delay before the first typing indicator; faster answers need none.
const TYPING_DELAY: Duration = Duration::from_millis(500);
/// Time-out of a typing indicator.
const TYPING_TIMEOUT: Duration = Duration::from_secs(5);

/// A queued answer.
pub(crate) struct QueuedAnswer {
    pub(crate) id: String,
    pub(crate) channel: String,
    pub(crate) origin: Value,
    /// Streamed message of an earlier process.
    pub(crate) draft: Option<Value>,
    /// Closed without a value if the swarm refuses the input.
    pub(crate) turn: oneshot::Receiver<StartedTurn>,
}

/// A started turn with its streamed text and the guard of its approval requests.
pub(crate) struct StartedTurn {
    pub(crate) found: SubmittedEventState,
    /// Text of the turn, for streamed answers.
    pub(crate) watched: Option<TurnTextWatch>,
    pub(crate) questions: Option<TraceApprovals>,
}

/// Queued answers of a conversation, each with its connection.
type Queue = VecDeque<(Arc<ConnectionRuntime>, QueuedAnswer)>;

/// Queued answers by conversation. Each non-empty queue has one task.
#[derive(Default)]
pub(crate) struct ReplyQueues {
    waiting: Mutex<HashMap<String, Queue>>,
    tasks: TaskTracker,
    end: CancellationToken,
}

impl ReplyQueues {
    /// Queues `job` if `submit` succeeds, under the same lock.
    pub(crate) fn queue<T, E>(
        &self,
        runtime: &Arc<ConnectionRuntime>,
        lane: String,
        job: QueuedAnswer,
        submit: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let submitted = submit()?;
        let job = (Arc::clone(runtime), job);
        match waiting.get_mut(&lane) {
            Some(queue) => queue.push_back(job),
            None => {
                waiting.insert(lane.clone(), [job].into());
                let work = work(Arc::clone(&runtime.owed), lane, self.tasks.token());
                tokio::spawn(self.end.clone().run_until_cancelled_owned(work));
            }
        }
        Ok(submitted)
    }

    /// Waits until all answers are sent or the time limit has passed.
    pub(crate) async fn drain(&self, patience: Duration) {
        self.tasks.close();
        // Unsent answers are sent after the next start.
        let _ = tokio::time::timeout(patience, self.tasks.wait()).await;
        self.end();
    }

    /// Stops all deliveries. Unsent answers are sent after the next start.
    pub(crate) fn end(&self) {
        self.end.cancel();
        self.waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }

    /// Returns the next answer of the conversation `lane`. Removes an empty queue.
    fn next(&self, lane: &str) -> Option<(Arc<ConnectionRuntime>, QueuedAnswer)> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let next = waiting.get_mut(lane)?.pop_front();
        if next.is_none() {
            waiting.remove(lane);
        }
        next
    }
}

/// Delivers the answers of the conversation `lane` in order, until its queue is empty.
async fn work(
    owed: Arc<crate::connection_runtime::PendingReplies>,
    lane: String,
    _alive: TaskTrackerToken,
) {
    while let Some((runtime, job)) = owed.lanes.next(&lane) {
        let QueuedAnswer {
            id,
            channel,
            origin,
            mut draft,
            turn,
        } = job;
        let Ok(StartedTurn {
            found,
            watched,
            questions,
        }) = turn.await
        else {
            continue;
        };
        let result = match (found, watched) {
            (SubmittedEventState::Over(result), _) => Some(*result),
            (SubmittedEventState::Open(turn), Some(watched)) => {
                growing_reply::stream_answer(&runtime, &id, &origin, &mut draft, (turn, watched))
                    .await
            }
            (SubmittedEventState::Open(turn), None) => {
                with_typing_indicator(&runtime, &origin, turn.result()).await
            }
        };
        drop(questions);
        // Without a result the swarm has stopped; the answer stays pending until the next start.
        let Some(result) = result else { continue };
        let delivery = AnswerDelivery {
            runtime: &runtime,
            id: &id,
            origin: &origin,
            draft,
            channel,
            lane: &lane,
        };
        if let Err(error) = delivery.deliver(&result).await {
            tracing::error!(
                connection = runtime.bound.name,
                %error,
                "could not store the state of an answer; the answer may be sent twice or not at all"
            );
        }
    }
}

/// Sends typing indicators during a turn. An indicator that is being sent completes before the
/// answer.
async fn with_typing_indicator<T>(
    runtime: &ConnectionRuntime,
    origin: &Value,
    turn: impl Future<Output = T>,
) -> T {
    let (mut turn, mut sign) = (std::pin::pin!(turn), TypingIndicator::new());
    loop {
        tokio::select! {
            biased;
            result = &mut turn => return result,
            () = sign.is_due() => sign.send_indicator(runtime, origin).await,
        }
    }
}

/// Time of the next typing indicator.
pub(crate) struct TypingIndicator(Instant);

impl TypingIndicator {
    /// Plans the first indicator.
    pub(crate) fn new() -> TypingIndicator {
        TypingIndicator(Instant::now() + TYPING_DELAY)
    }

    /// Waits until the next indicator is due.
    pub(crate) async fn is_due(&self) {
        tokio::time::sleep_until(self.0).await;
    }

    /// Sends an indicator. It is optional, so the wait for it is short.
    pub(crate) async fn send_indicator(&mut self, runtime: &ConnectionRuntime, origin: &Value) {
        let _ = tokio::time::timeout(TYPING_TIMEOUT, runtime.platform.send_typing(origin)).await;
        self.0 = Instant::now() + runtime.platform.typing_interval();
    }
}

/// Begins and ends a code block in Markdown.
const FENCE: &str = "```";
/// Text that ends a piece within a code block.
const FENCE_END: &str = "\n```";
/// Maximum bytes of the first line of a code block that is repeated.
const MAX_FENCE_LINE_BYTES: usize = 40;

/// Splits `text` into pieces of at most `max_size` units, preferably at the end of a paragraph, a
/// line or a word. A code block that continues in the next piece is closed and opened again.
pub(crate) fn pieces(text: &str, max_size: usize, size: fn(char) -> usize) -> Vec<String> {
    let units = |text: &str| text.chars().map(size).sum::<usize>();
    let mut pieces = Vec::new();
    let (mut remaining, mut block) = (text.trim(), None);
    while !remaining.is_empty() {
        let mut opening = block.map_or_else(String::new, |line| format!("{line}\n"));
        let mut reserved = match block.is_some() || remaining.contains(FENCE) {
            true => units(&opening) + units(FENCE_END),
            false => 0,
        };
        if reserved > max_size / 2 {
            (opening, reserved, block) = (String::new(), 0, None);
        }
        let (piece, more) = split(remaining, max_size - reserved, size);
        if reserved > 0 {
            block = open_block(block, piece);
        }
        let is_cut = block.is_some() && !more.is_empty();
        let closing = if is_cut { FENCE_END } else { "" };
        pieces.push(format!("{opening}{}{closing}", piece.trim_end()));
        remaining = match is_cut {
            // The next line of code keeps its indentation.
            true => more.strip_prefix('\n').unwrap_or(more),
            false => more.trim_start(),
        };
    }
    pieces
}

/// Returns the first piece of `text`, and the rest.
fn split(text: &str, max_size: usize, size: fn(char) -> usize) -> (&str, &str) {
    let mut used = 0;
    let fits = text.char_indices().find(|(_, c)| {
        used += size(*c);
        used > max_size
    });
    let Some((end, _)) = fits else {
        return (text, "");
    };
    // Splitting too early would produce many short pieces.
    let cut = ["\n\n", "\n", " "].iter().find_map(|gap| {
        text[..end]
            .rfind(gap)
            .filter(|at| *at >= end / 2 && *at > 0)
    });
    text.split_at(cut.unwrap_or(end))
}

/// Returns the first line of the code block that is open at the end of `piece`. `block` is the one
/// that is open at its beginning.
fn open_block<'t>(block: Option<&'t str>, piece: &'t str) -> Option<&'t str> {
    let fences = piece
        .lines()
        .filter(|line| line.trim_start().starts_with(FENCE));
    fences.fold(block, |block, line| match block {
        Some(_) => None,
        None if line.len() <= MAX_FENCE_LINE_BYTES => Some(line),
        None => Some(FENCE),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_text_is_cut_where_it_pauses() {
        let cut = |text, most| pieces(text, most, char::len_utf16);
        assert_eq!(cut("one two three", 8), ["one two", "three"]);
        assert_eq!(cut("ab cd\n\nef gh", 9), ["ab cd", "ef gh"]);
        assert_eq!(cut("abcdefgh", 3), ["abc", "def", "gh"]);
        assert_eq!(cut("🦀🦀🦀", 4), ["🦀🦀", "🦀"], "a crab counts twice");
        assert_eq!(cut("  ", 3), Vec::<String>::new());
    }

    #[test]
    fn a_code_block_is_closed_and_opened_again() {
        let code = "    let x = 1;\n".repeat(10);
        let text = format!("Look:\n```rust\n{code}```\nDone.");
        let cut = pieces(&text, 80, |_| 1);
        assert!(cut.len() > 2, "{cut:?}");
        let mut lines = 0;
        for piece in &cut {
            assert!(piece.chars().count() <= 80, "{piece}");
            assert_eq!(piece.matches(FENCE).count() % 2, 0, "{piece}");
            lines += piece.matches("    let x = 1;").count();
        }
        assert_eq!(lines, 10);
        assert!(cut[1].starts_with("```rust\n    let"), "{}", cut[1]);
        assert!(cut.last().unwrap().ends_with("Done."));
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_nothing_is_too_long(text in "(\\PC|[ \n]){0,300}", most in 2..40usize) {
            let cut = pieces(&text, most, char::len_utf16);
            let joined: String = cut.concat().split_whitespace().collect();
            prop_assert_eq!(joined, text.split_whitespace().collect::<String>());
            prop_assert!(cut.iter().all(|piece| !piece.is_empty() && piece.encode_utf16().count() <= most));
        }
    }
}

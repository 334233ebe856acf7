//! Reply queues: the answers of one conversation are sent in order. Different conversations are
//! independent.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::connection_runtime::{ConnectionRuntime, PendingReplies};
use crate::delivery::AnswerDelivery;
use crate::followed_turn::ChannelTurn;
use crate::growing_reply;
use crate::outbox::OutboxReply;

/// Delay before the first typing indicator; faster answers need none.
const TYPING_DELAY: Duration = Duration::from_millis(500);
/// Time-out of a typing indicator.
const TYPING_TIMEOUT: Duration = Duration::from_secs(5);

/// A queued answer.
pub(crate) struct QueuedAnswer {
    pub(crate) reply: OutboxReply,
    /// Closed without a value if the swarm refuses the input.
    pub(crate) turn: oneshot::Receiver<ChannelTurn>,
}

/// Queued answers of a conversation, each with its connection.
type Queue = VecDeque<(Arc<ConnectionRuntime>, QueuedAnswer)>;

/// Queued answers by conversation. Each non-empty queue has one task.
#[derive(Default)]
pub(crate) struct ReplyQueues {
    queues: Mutex<HashMap<String, Queue>>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl ReplyQueues {
    /// Queues `job` and calls `submit` under the same lock.
    pub(crate) fn queue<T>(
        &self,
        runtime: &Arc<ConnectionRuntime>,
        job: QueuedAnswer,
        submit: impl FnOnce() -> T,
    ) -> T {
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        let submitted = submit();
        let conversation = job.reply.instance.clone();
        let job = (Arc::clone(runtime), job);
        match queues.get_mut(&conversation) {
            Some(queue) => queue.push_back(job),
            None => {
                queues.insert(conversation.clone(), [job].into());
                let work = deliver_queued(
                    Arc::clone(&runtime.pending_replies),
                    conversation,
                    self.tasks.token(),
                );
                tokio::spawn(self.stop.clone().run_until_cancelled_owned(work));
            }
        }
        submitted
    }

    /// Waits until all answers are sent or the time limit has passed.
    pub(crate) async fn drain(&self, timeout: Duration) {
        self.tasks.close();
        // Unsent answers are sent after the next start.
        let _ = tokio::time::timeout(timeout, self.tasks.wait()).await;
        self.stop_deliveries();
    }

    /// Stops all deliveries. Unsent answers are sent after the next start.
    pub(crate) fn stop_deliveries(&self) {
        self.stop.cancel();
        self.queues
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }

    /// Returns the next answer of the conversation `conversation`. Removes an empty queue.
    fn next(&self, conversation: &str) -> Option<(Arc<ConnectionRuntime>, QueuedAnswer)> {
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        let next = queues.get_mut(conversation)?.pop_front();
        if next.is_none() {
            queues.remove(conversation);
        }
        next
    }
}

/// Delivers the answers of the conversation `conversation` in order, until its queue is empty.
async fn deliver_queued(
    pending_replies: Arc<PendingReplies>,
    conversation: String,
    _alive: TaskTrackerToken,
) {
    while let Some((runtime, job)) = pending_replies.queues.next(&conversation) {
        let QueuedAnswer { mut reply, turn } = job;
        let Ok(turn) = turn.await else { continue };
        let result = growing_reply::await_answer(&runtime, &mut reply, turn).await;
        // Without a result the swarm has stopped; the answer stays pending until the next start.
        let Some(result) = result else { continue };
        let delivery = AnswerDelivery {
            runtime: &runtime,
            reply,
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
/// Text that ends a message within a code block.
const FENCE_END: &str = "\n```";
/// Maximum bytes of the first line of a code block that is repeated.
const MAX_FENCE_LINE_BYTES: usize = 40;

/// Splits Markdown into messages of at most `max_size`, preferably at the end of a paragraph, a
/// line or a word. A code block that continues in the next message is closed and opened again.
///
/// `char_size` returns the size of a character in the units of the platform, such as UTF-16 code
/// units.
pub(crate) fn split_into_messages(
    text: &str,
    max_size: usize,
    char_size: fn(char) -> usize,
) -> Vec<String> {
    let size_of = |text: &str| text.chars().map(char_size).sum::<usize>();
    let mut messages = Vec::new();
    let mut remaining = text.trim();
    // First line of the code block that is open at the beginning of `remaining`.
    let mut open_fence = None;
    while !remaining.is_empty() {
        let mut prefix = match open_fence {
            Some(line) => format!("{line}\n"),
            None => String::new(),
        };
        let mut reserved_size = 0;
        if open_fence.is_some() || remaining.contains(FENCE) {
            reserved_size = size_of(&prefix) + size_of(FENCE_END);
        }
        if reserved_size > max_size / 2 {
            // The messages are too short for fences, so code blocks are split without them.
            prefix = String::new();
            reserved_size = 0;
            open_fence = None;
        }
        let (part, rest) = split_first_part(remaining, max_size - reserved_size, char_size);
        if reserved_size > 0 {
            open_fence = open_fence_after(open_fence, part);
        }
        let part = part.trim_end();
        if open_fence.is_some() && !rest.is_empty() {
            messages.push(format!("{prefix}{part}{FENCE_END}"));
            // The next line of code keeps its indentation.
            remaining = rest.strip_prefix('\n').unwrap_or(rest);
        } else {
            messages.push(format!("{prefix}{part}"));
            remaining = rest.trim_start();
        }
    }
    messages
}

/// Splits `text` after a first part of at most `max_size`. Returns the part and the rest.
fn split_first_part(text: &str, max_size: usize, char_size: fn(char) -> usize) -> (&str, &str) {
    let mut used_bytes = 0;
    let first_excess = text.char_indices().find(|(_, c)| {
        used_bytes += char_size(*c);
        used_bytes > max_size
    });
    let Some((end, _)) = first_excess else {
        return (text, "");
    };
    for separator in ["\n\n", "\n", " "] {
        // Splitting too early would produce many short messages.
        if let Some(position) = text[..end].rfind(separator)
            && position >= end / 2
            && position > 0
        {
            return text.split_at(position);
        }
    }
    text.split_at(end)
}

/// Returns the first line of the code block that is open at the end of `part`. `open_fence` is the
/// first line of the code block that is open at its beginning.
fn open_fence_after<'t>(open_fence: Option<&'t str>, part: &'t str) -> Option<&'t str> {
    let mut open_fence = open_fence;
    for line in part.lines() {
        if !line.trim_start().starts_with(FENCE) {
            continue;
        }
        open_fence = match open_fence {
            Some(_) => None,
            None if line.len() <= MAX_FENCE_LINE_BYTES => Some(line),
            None => Some(FENCE),
        };
    }
    open_fence
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_text_is_split_at_paragraphs_and_words() {
        let cut = |text, limit| split_into_messages(text, limit, char::len_utf16);
        assert_eq!(cut("one two three", 8), ["one two", "three"]);
        assert_eq!(cut("ab cd\n\nef gh", 9), ["ab cd", "ef gh"]);
        assert_eq!(cut("abcdefgh", 3), ["abc", "def", "gh"]);
        assert_eq!(
            cut("🦀🦀🦀", 4),
            ["🦀🦀", "🦀"],
            "the emoji has two UTF-16 units"
        );
        assert_eq!(cut("  ", 3), Vec::<String>::new());
    }

    #[test]
    fn a_split_code_block_is_closed_and_reopened() {
        let code = "    let x = 1;\n".repeat(10);
        let text = format!("Look:\n```rust\n{code}```\nDone.");
        let cut = split_into_messages(&text, 80, |_| 1);
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
        fn split_messages_keep_all_text_within_the_limit(text in "(\\PC|[ \n]){0,300}", limit in 2..40usize) {
            let cut = split_into_messages(&text, limit, char::len_utf16);
            let joined: String = cut.concat().split_whitespace().collect();
            prop_assert_eq!(joined, text.split_whitespace().collect::<String>());
            prop_assert!(cut.iter().all(|piece| !piece.is_empty() && piece.encode_utf16().count() <= limit));
        }
    }
}

//! Sends answers: one after another in each conversation, and beside each other otherwise.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use goondan::Found;
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::asking::Follow;
use crate::delivery::Delivery;
use crate::desk::Desk;
use crate::drafts;
use crate::live::Watched;

/// Who has an answer so soon need not say that he writes one.
const SOON: Duration = Duration::from_millis(500);
/// How long it may take to say so.
const POLITE: Duration = Duration::from_secs(5);

/// An answer that will have to be sent.
pub(crate) struct Job {
    pub(crate) id: String,
    /// Of the event.
    pub(crate) channel: String,
    pub(crate) origin: Value,
    /// The message that grows, where an earlier process has begun it.
    pub(crate) draft: Option<Value>,
    /// Nothing comes where the swarm does not take the input.
    pub(crate) turn: oneshot::Receiver<Begun>,
}

/// A turn, what it writes, and where its questions go meanwhile.
pub(crate) struct Begun {
    pub(crate) found: Found,
    /// Where the answer grows.
    pub(crate) watched: Option<Watched>,
    pub(crate) questions: Option<Follow>,
}

/// The answers of a conversation, each with the connection that sends it.
type Queue = VecDeque<(Arc<Desk>, Job)>;

/// The answers that wait, by conversation. Each conversation with any has a task.
#[derive(Default)]
pub(crate) struct Lanes {
    waiting: Mutex<HashMap<String, Queue>>,
    tasks: TaskTracker,
    end: CancellationToken,
}

impl Lanes {
    /// Queues `job` in the moment in which `submit` succeeds.
    pub(crate) fn queue<T, E>(
        &self,
        desk: &Arc<Desk>,
        lane: String,
        job: Job,
        submit: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let submitted = submit()?;
        let job = (Arc::clone(desk), job);
        match waiting.get_mut(&lane) {
            Some(queue) => queue.push_back(job),
            None => {
                waiting.insert(lane.clone(), [job].into());
                let work = work(Arc::clone(&desk.owed), lane, self.tasks.token());
                tokio::spawn(self.end.clone().run_until_cancelled_owned(work));
            }
        }
        Ok(submitted)
    }

    /// Waits until nothing is left to send, for a while.
    pub(crate) async fn settle(&self, patience: Duration) {
        self.tasks.close();
        // What is not sent by then is sent after the next start.
        let _ = tokio::time::timeout(patience, self.tasks.wait()).await;
        self.end();
    }

    /// Sends nothing more.
    pub(crate) fn end(&self) {
        self.end.cancel();
        self.waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }

    fn next(&self, lane: &str) -> Option<(Arc<Desk>, Job)> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let next = waiting.get_mut(lane)?.pop_front();
        if next.is_none() {
            waiting.remove(lane);
        }
        next
    }
}

async fn work(owed: Arc<crate::desk::Owed>, lane: String, _alive: TaskTrackerToken) {
    while let Some((desk, job)) = owed.lanes.next(&lane) {
        let Job {
            id,
            channel,
            origin,
            mut draft,
            turn,
        } = job;
        let Ok(Begun {
            found,
            watched,
            questions,
        }) = turn.await
        else {
            continue;
        };
        let result = match (found, watched) {
            (Found::Over(result), _) => Some(*result),
            (Found::Open(turn), Some(watched)) => {
                drafts::grow(&desk, &id, &origin, &mut draft, (turn, watched)).await
            }
            (Found::Open(turn), None) => with_sign_of_life(&desk, &origin, turn.result()).await,
        };
        drop(questions);
        // Without a result the swarm has ended first: the answer is owed after the next start as well.
        let Some(result) = result else { continue };
        let delivery = Delivery {
            desk: &desk,
            id: &id,
            origin: &origin,
            draft,
            channel,
            lane: &lane,
        };
        if let Err(error) = delivery.deliver(&result).await {
            tracing::error!(connection = desk.bound.name, %error, "the state of an answer could not be put on disk");
        }
    }
}

/// Tells the platform every now and then that an answer is being written. What is on its way arrives before the answer does.
async fn with_sign_of_life<T>(desk: &Desk, origin: &Value, turn: impl Future<Output = T>) -> T {
    let (mut turn, mut sign) = (std::pin::pin!(turn), Sign::new());
    loop {
        tokio::select! {
            biased;
            result = &mut turn => return result,
            () = sign.is_due() => sign.give(desk, origin).await,
        }
    }
}

/// When the platform is told next that somebody writes.
pub(crate) struct Sign(Instant);

impl Sign {
    pub(crate) fn new() -> Sign {
        Sign(Instant::now() + SOON)
    }

    pub(crate) async fn is_due(&self) {
        tokio::time::sleep_until(self.0).await;
    }

    /// It is politeness: nobody waits long for it.
    pub(crate) async fn give(&mut self, desk: &Desk, origin: &Value) {
        let _ = tokio::time::timeout(POLITE, desk.platform.busy(origin)).await;
        self.0 = Instant::now() + desk.platform.busy_for();
    }
}

/// Cuts `text` into pieces of at most `most` units each, at the end of a paragraph, a line or a word where there is one.
pub(crate) fn pieces(text: &str, most: usize, size: fn(char) -> usize) -> Vec<String> {
    let mut pieces = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let mut used = 0;
        let fits = rest.char_indices().find(|(_, c)| {
            used += size(*c);
            used > most
        });
        let Some((end, _)) = fits else {
            pieces.push(rest.to_owned());
            break;
        };
        // Not so early that a long word makes many short pieces.
        let cut = ["\n\n", "\n", " "]
            .iter()
            .find_map(|gap| rest[..end].rfind(gap).filter(|at| *at >= end / 2));
        let (piece, more) = rest.split_at(cut.unwrap_or(end));
        pieces.push(piece.trim_end().to_owned());
        rest = more.trim_start();
    }
    pieces
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

//! Sends answers: one after another in each conversation, and beside each other otherwise.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use goondan::Found;
use goondan::event::{FinishReason, TurnResult};
use serde_json::Value;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::asking::Follow;
use crate::desk::Desk;
use crate::drafts;
use crate::http::Failure;
use crate::live::Watched;
use crate::outbox::{Reply, ReplyState};

/// How often a platform is told that somebody writes.
pub(crate) const BUSY: Duration = Duration::from_secs(4);
/// How often a message is tried that has surely not arrived.
const TRIES: u32 = 12;
/// The longest wait before the next try.
const LONGEST_WAIT: Duration = Duration::from_secs(15 * 60);

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
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).clear();
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
        let Job { id, channel, origin, mut draft, turn } = job;
        let Ok(Begun { found, watched, questions }) = turn.await else { continue };
        let result = match (found, watched) {
            (Found::Over(result), _) => Some(*result),
            (Found::Open(turn), Some(watched)) => drafts::grow(&desk, &id, &origin, &mut draft, (turn, watched)).await,
            (Found::Open(turn), None) => with_sign_of_life(&desk, &origin, turn.result()).await,
        };
        drop(questions);
        // Without a result the swarm has ended first: the answer is owed after the next start as well.
        let Some(result) = result else { continue };
        let delivery = Delivery { desk: &desk, id: &id, origin: &origin, draft, channel, lane: &lane };
        if let Err(error) = delivery.deliver(&result).await {
            tracing::error!(connection = desk.bound.name, %error, "the state of an answer could not be put on disk");
        }
    }
}

/// Tells the platform every few seconds that an answer is being written.
async fn with_sign_of_life<T>(desk: &Desk, origin: &Value, turn: impl Future<Output = T>) -> T {
    let busy = async {
        loop {
            desk.platform.busy(origin).await;
            tokio::time::sleep(BUSY).await;
        }
    };
    tokio::select! {
        biased;
        result = turn => result,
        () = busy => unreachable!("it goes on until it is dropped"),
    }
}

/// An answer on its way.
struct Delivery<'d> {
    desk: &'d Desk,
    id: &'d str,
    origin: &'d Value,
    /// The message that is to be its first.
    draft: Option<Value>,
    channel: String,
    lane: &'d str,
}

impl Delivery<'_> {
    async fn deliver(mut self, result: &TurnResult) -> io::Result<()> {
        let (desk, outbox) = (self.desk, &self.desk.owed.outbox);
        let mut pieces = answer(result).map_or_else(Vec::new, |text| desk.platform.pieces(&text));
        if pieces.is_empty() && self.draft.is_some() {
            pieces.push(drafts::STOPPED.to_owned());
        }
        let mut sent_any = false;
        for (number, piece) in pieces.iter().enumerate() {
            let mut tries = 0;
            loop {
                // To change a message is no sending: it may be done again.
                let is_edit = number == 0 && self.draft.is_some();
                if !is_edit && (!sent_any || tries > 0) {
                    outbox.sending(self.id).await?;
                }
                let failure = match self.bring(number, piece).await {
                    Ok(()) => {
                        sent_any |= !is_edit;
                        break;
                    }
                    // Somebody has taken the message away that grew.
                    Err(Failure::Refused(_)) if is_edit => {
                        self.draft = None;
                        continue;
                    }
                    Err(failure) => failure,
                };
                tries += 1;
                let Some(wait) = next_try(&failure, tries, is_edit) else {
                    let failure = failure.to_string();
                    tracing::warn!(connection = desk.bound.name, "an answer was not delivered: {failure}");
                    return outbox.failed(self.id, &failure).await;
                };
                if !is_edit && !sent_any {
                    // Nothing of it has arrived that can't be done again: a process that dies now sends it after the next start.
                    outbox.owe(self.waiting()).await?;
                }
                tokio::time::sleep(wait).await;
            }
        }
        outbox.sent(self.id).await
    }

    async fn bring(&self, number: usize, piece: &str) -> Result<(), Failure> {
        match &self.draft {
            Some(message) if number == 0 => self.desk.platform.edit(self.origin, message, piece, None).await,
            _ => self.desk.platform.send(self.origin, number, piece).await,
        }
    }

    fn waiting(&self) -> Reply {
        Reply {
            id: self.id.to_owned(),
            state: ReplyState::Accepted,
            instance: self.lane.to_owned(),
            at: self.desk.now(),
            channel: self.channel.clone(),
            origin: self.origin.clone(),
            draft: self.draft.clone(),
            why: None,
        }
    }
}

/// How long to wait before a message is tried again; `None` where it must not be, or has been tried often enough.
fn next_try(failure: &Failure, tries: u32, is_edit: bool) -> Option<Duration> {
    match failure {
        _ if tries >= TRIES => None,
        Failure::Later(wait) => Some((*wait).min(LONGEST_WAIT)),
        Failure::Unreached(_) => Some(Duration::from_secs(1 << tries.min(6))),
        Failure::Unknown(_) if is_edit => Some(Duration::from_secs(1 << tries.min(6))),
        Failure::Unknown(_) | Failure::Refused(_) => None,
    }
}

/// What is sent. A stranger learns of a failure no more than that there was one.
fn answer(result: &TurnResult) -> Option<String> {
    let text = result.response_text();
    match result.finish_reason {
        FinishReason::Error => {
            let code = result.error.as_ref().map(|error| format!(" ({})", error.code)).unwrap_or_default();
            Some(format!("Sorry, that did not work{code}. The people who run this can see why in its log."))
        }
        FinishReason::Cancelled => None,
        FinishReason::TextResponse | FinishReason::MaxSteps => Some(text).filter(|text| !text.trim().is_empty()),
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
        let cut = ["\n\n", "\n", " "].iter().find_map(|gap| rest[..end].rfind(gap).filter(|at| *at >= end / 2));
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

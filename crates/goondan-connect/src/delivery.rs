//! Brings one answer to its platform: its messages in order, and behind them its files.

use std::io;
use std::time::Duration;

use goondan::event::{FinishReason, TurnResult};
use serde_json::Value;

use crate::desk::Desk;
use crate::drafts;
use crate::http::Failure;
use crate::outbox::{Reply, ReplyState};
use crate::uploads::{self, Upload};

/// How often a message is tried that has surely not arrived.
const TRIES: u32 = 12;
/// The longest wait before the next try.
const LONGEST_WAIT: Duration = Duration::from_secs(15 * 60);

/// An answer on its way.
pub(crate) struct Delivery<'d> {
    pub(crate) desk: &'d Desk,
    pub(crate) id: &'d str,
    pub(crate) origin: &'d Value,
    /// The message that is to be its first.
    pub(crate) draft: Option<Value>,
    pub(crate) channel: String,
    pub(crate) lane: &'d str,
}

/// A message of an answer.
enum Item {
    Text(String),
    File(Upload),
}

/// What has become of a message.
enum Brought {
    /// It was sent.
    New,
    /// The message that grew has become it.
    Changed,
    /// It won't arrive any more.
    Failed(Failure),
}

impl Delivery<'_> {
    pub(crate) async fn deliver(mut self, result: &TurnResult) -> io::Result<()> {
        let (desk, outbox) = (self.desk, &self.desk.owed.outbox);
        let mut sent_any = false;
        for (number, mut item) in self.items(result).await.into_iter().enumerate() {
            loop {
                match (self.bring(number, &item, sent_any).await?, &item) {
                    (Brought::New, _) => sent_any = true,
                    (Brought::Changed, _) => {}
                    // Whoever waits for it has to know that there was one.
                    (Brought::Failed(Failure::Refused(why)), Item::File(file)) => {
                        tracing::warn!(
                            connection = desk.bound.name,
                            "a file of an answer was not sent: {why}"
                        );
                        item = Item::Text(file.told("could not be sent"));
                        continue;
                    }
                    (Brought::Failed(failure), _) => {
                        let failure = failure.to_string();
                        tracing::warn!(
                            connection = desk.bound.name,
                            "an answer was not delivered: {failure}"
                        );
                        return outbox.failed(self.id, &failure).await;
                    }
                }
                break;
            }
        }
        outbox.sent(self.id).await
    }

    /// What is to be sent.
    async fn items(&self, result: &TurnResult) -> Vec<Item> {
        let platform = &self.desk.platform;
        let (files, left_out) = uploads::of(self.desk, self.lane, result).await;
        let mut text = answer(result).unwrap_or_default();
        // Named where it can't be sent.
        let unsent = files
            .iter()
            .filter(|_| !platform.takes_files())
            .map(|file| file.told("can't be sent here"));
        for line in unsent.chain(left_out) {
            text = format!("{text}\n{line}").trim().to_owned();
        }
        if text.is_empty() && self.draft.is_some() {
            // The message that grew has to become something.
            text = files.first().map_or_else(
                || drafts::STOPPED.to_owned(),
                |file| format!("[a file: {}]", file.name),
            );
        }
        let texts = if text.is_empty() {
            Vec::new()
        } else {
            platform.pieces(&text)
        };
        let files = files
            .into_iter()
            .filter(|_| platform.takes_files())
            .map(Item::File);
        texts.into_iter().map(Item::Text).chain(files).collect()
    }

    /// Sends a message, and tries again as long as nothing of it can have arrived.
    async fn bring(&mut self, number: usize, item: &Item, sent_any: bool) -> io::Result<Brought> {
        let outbox = &self.desk.owed.outbox;
        let mut tries = 0;
        loop {
            // To change a message is no sending: it may be done again.
            let is_edit = number == 0 && self.draft.is_some() && matches!(item, Item::Text(_));
            if !is_edit && (!sent_any || tries > 0) {
                outbox.sending(self.id).await?;
            }
            let failure = match self.try_once(number, item).await {
                Ok(()) if is_edit => return Ok(Brought::Changed),
                Ok(()) => return Ok(Brought::New),
                // Somebody has taken the message away that grew.
                Err(Failure::Refused(_)) if is_edit => {
                    self.draft = None;
                    continue;
                }
                Err(failure) => failure,
            };
            tries += 1;
            let Some(wait) = next_try(&failure, tries, is_edit) else {
                return Ok(Brought::Failed(failure));
            };
            if !is_edit && !sent_any {
                // Nothing of it has arrived that can't be done again: a process that dies now sends it after the next start.
                outbox.owe(self.waiting()).await?;
            }
            tokio::time::sleep(wait).await;
        }
    }

    async fn try_once(&self, number: usize, item: &Item) -> Result<(), Failure> {
        let (platform, origin) = (&self.desk.platform, self.origin);
        match (item, &self.draft) {
            (Item::File(file), _) => platform.send_file(origin, number, file).await,
            (Item::Text(text), Some(message)) if number == 0 => {
                platform.edit(origin, message, text, None).await
            }
            (Item::Text(text), _) => platform.send(origin, number, text).await,
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
            let code = result
                .error
                .as_ref()
                .map(|error| format!(" ({})", error.code))
                .unwrap_or_default();
            Some(format!(
                "Sorry, that did not work{code}. The people who run this can see why in its log."
            ))
        }
        FinishReason::Cancelled => None,
        FinishReason::TextResponse | FinishReason::MaxSteps => {
            let note = cut_note(result);
            Some(text)
                .filter(|text| !text.trim().is_empty())
                .map(|text| text + &note)
        }
    }
}

/// Returns the note that follows an incomplete answer; empty for a complete answer.
fn cut_note(result: &TurnResult) -> String {
    result
        .model_finish_reason
        .as_ref()
        .map(|reason| format!(" [incomplete: {}]", reason.as_str()))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn result(text: &str, more: Value) -> TurnResult {
        let message = json!({
            "id": "m", "data": {"role": "assistant", "content": [{"type": "text", "text": text}]},
            "metadata": {}, "createdAt": "2026-01-01T00:00:00Z", "source": {"type": "assistant", "stepId": "s"},
        });
        let mut result = json!({
            "turnId": "t", "finishReason": "text_response", "responseMessage": message, "stepCount": 1,
            "usage": {"promptTokens": 0, "completionTokens": 0, "totalTokens": 0},
        });
        let fields = more.as_object().cloned().unwrap_or_default();
        fields
            .into_iter()
            .for_each(|(name, value)| result[name] = value);
        serde_json::from_value(result).unwrap()
    }

    #[test]
    fn an_incomplete_answer_ends_with_a_note() {
        let cut = json!({"modelFinishReason": "length"});
        assert_eq!(
            answer(&result("a half", cut.clone())).unwrap(),
            "a half [incomplete: length]"
        );
        assert_eq!(answer(&result("", cut)), None);
        assert_eq!(answer(&result("a whole", json!({}))).unwrap(), "a whole");
    }
}

//! Delivers one answer to its platform: its messages in order, then its files.

use std::io;
use std::time::Duration;

use goondan::event::{FinishReason, TurnResult};
use serde_json::Value;

use crate::answer_files::{self, AnswerFile};
use crate::connection_runtime::ConnectionRuntime;
use crate::growing_reply;
use crate::http::PlatformFailure;
use crate::outbox::{OutboxReply, ReplyState};

/// Maximum attempts for a message that has certainly not arrived, except after rate limits.
const MAX_SEND_ATTEMPTS: u32 = 12;
/// Minimum wait after this number of attempts: the stated end of the rate limit was wrong.
const MIN_LATE_WAIT: Duration = Duration::from_secs(60);
/// Longest wait before the next attempt.
const MAX_SEND_WAIT: Duration = Duration::from_secs(15 * 60);

/// An answer in delivery.
pub(crate) struct AnswerDelivery<'d> {
    pub(crate) runtime: &'d ConnectionRuntime,
    pub(crate) id: &'d str,
    pub(crate) origin: &'d Value,
    /// Streamed message that becomes the first message.
    pub(crate) draft: Option<Value>,
    pub(crate) channel: String,
    pub(crate) lane: &'d str,
}

/// A message or a file of an answer.
enum AnswerItem {
    Text(String),
    File(AnswerFile),
}

/// Result of sending a message.
enum SendOutcome {
    /// A new message was sent.
    New,
    /// The streamed message was edited.
    Changed,
    /// Sending failed permanently.
    Failed(PlatformFailure),
}

impl AnswerDelivery<'_> {
    /// Sends the answer and records the result in the outbox. Fails if the outbox cannot be
    /// written.
    pub(crate) async fn deliver(mut self, result: &TurnResult) -> io::Result<()> {
        let (runtime, outbox) = (self.runtime, &self.runtime.owed.outbox);
        let mut sent_any = false;
        for (number, mut item) in self.items(result).await.into_iter().enumerate() {
            loop {
                match (self.send_item(number, &item, sent_any).await?, &item) {
                    (SendOutcome::New, _) => sent_any = true,
                    (SendOutcome::Changed, _) => {}
                    // The recipient must learn that a file was produced.
                    (
                        SendOutcome::Failed(PlatformFailure::Refused(why)),
                        AnswerItem::File(file),
                    ) => {
                        tracing::warn!(
                            connection = runtime.bound.name,
                            "could not send a file of an answer; sending its name instead: {why}"
                        );
                        item = AnswerItem::Text(file.placeholder_line("could not be sent"));
                        continue;
                    }
                    (SendOutcome::Failed(failure), _) => {
                        let failure = failure.to_string();
                        tracing::warn!(
                            connection = runtime.bound.name,
                            "could not deliver an answer: {failure}"
                        );
                        return outbox.failed(self.id, &failure).await;
                    }
                }
                break;
            }
        }
        outbox.sent(self.id).await?;
        if sent_any || self.draft.is_some() {
            runtime.report_delivery(self.lane);
        }
        Ok(())
    }

    /// Returns the messages and files to send.
    async fn items(&self, result: &TurnResult) -> Vec<AnswerItem> {
        let platform = &self.runtime.platform;
        let (files, skipped_lines) = answer_files::of(self.runtime, self.lane, result).await;
        let mut text = answer(result).unwrap_or_default();
        // Platforms without file support get the file names.
        let (sendable, unsendable) = if platform.takes_files() {
            (files, Vec::new())
        } else {
            (Vec::new(), files)
        };
        let unsendable_lines = unsendable
            .iter()
            .map(|file| file.placeholder_line("can't be sent here"));
        for line in unsendable_lines.chain(skipped_lines) {
            text = format!("{text}\n{line}").trim().to_owned();
        }
        if text.is_empty() && self.draft.is_some() {
            // The streamed message already exists, so it needs a final text. The text is empty, so
            // every remaining file is sendable.
            text = sendable.first().map_or_else(
                || growing_reply::STOPPED_TEXT.to_owned(),
                |file| format!("[a file: {}]", file.name),
            );
        }
        let texts = if text.is_empty() {
            Vec::new()
        } else {
            platform.pieces(&text)
        };
        texts
            .into_iter()
            .map(AnswerItem::Text)
            .chain(sendable.into_iter().map(AnswerItem::File))
            .collect()
    }

    /// Sends a message. Retries while the message has certainly not arrived. Fails only if the
    /// outbox cannot be written.
    async fn send_item(
        &mut self,
        number: usize,
        item: &AnswerItem,
        sent_any: bool,
    ) -> io::Result<SendOutcome> {
        let outbox = &self.runtime.owed.outbox;
        let mut tries = 0;
        loop {
            // Edits are idempotent, so they need no `sending` record.
            let is_edit =
                number == 0 && self.draft.is_some() && matches!(item, AnswerItem::Text(_));
            if !is_edit && (!sent_any || tries > 0) {
                outbox.sending(self.id).await?;
            }
            let failure = match self.try_once(number, item).await {
                Ok(()) if is_edit => return Ok(SendOutcome::Changed),
                Ok(()) => return Ok(SendOutcome::New),
                // The streamed message was deleted.
                Err(PlatformFailure::Refused(_)) if is_edit => {
                    self.draft = None;
                    continue;
                }
                Err(failure) => failure,
            };
            tries += 1;
            let Some(wait) = next_try(&failure, tries, is_edit) else {
                return Ok(SendOutcome::Failed(failure));
            };
            if !is_edit && !sent_any {
                // Nothing has arrived that cannot be repeated, so the answer is sent again if the
                // process crashes now.
                outbox.record_pending(self.pending_reply()).await?;
            }
            tokio::time::sleep(wait).await;
        }
    }

    /// Sends or edits the message with this number once.
    async fn try_once(&self, number: usize, item: &AnswerItem) -> Result<(), PlatformFailure> {
        let (platform, origin) = (&self.runtime.platform, self.origin);
        match (item, &self.draft) {
            (AnswerItem::File(file), _) => platform.send_file(origin, number, file).await,
            (AnswerItem::Text(text), Some(message)) if number == 0 => {
                platform.edit(origin, message, text, None).await
            }
            (AnswerItem::Text(text), _) => platform.send(origin, number, text).await,
        }
    }

    /// Returns the outbox entry of an answer that is not sent yet.
    fn pending_reply(&self) -> OutboxReply {
        OutboxReply {
            id: self.id.to_owned(),
            state: ReplyState::Accepted,
            instance: self.lane.to_owned(),
            at: self.runtime.now(),
            channel: self.channel.clone(),
            origin: self.origin.clone(),
            draft: self.draft.clone(),
            why: None,
        }
    }
}

/// Returns the wait before the next attempt, or `None` if the message must not be retried.
fn next_try(failure: &PlatformFailure, tries: u32, is_edit: bool) -> Option<Duration> {
    match failure {
        // A rate limit ends, so the answer waits for its end.
        PlatformFailure::Later(wait) if tries < MAX_SEND_ATTEMPTS => {
            Some((*wait).min(MAX_SEND_WAIT))
        }
        PlatformFailure::Later(wait) => Some((*wait).clamp(MIN_LATE_WAIT, MAX_SEND_WAIT)),
        _ if tries >= MAX_SEND_ATTEMPTS => None,
        PlatformFailure::Unreached(_) => Some(Duration::from_secs(1 << tries.min(6))),
        PlatformFailure::Unknown(_) if is_edit => Some(Duration::from_secs(1 << tries.min(6))),
        PlatformFailure::Unknown(_) | PlatformFailure::Refused(_) => None,
    }
}

/// Returns the text of the answer. Unknown senders receive no details of an error except its code.
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
                "Sorry, the request failed{code}. The operators of this bot can find the reason in \
                its log."
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
    fn a_rate_limit_that_does_not_end_as_stated_gets_longer_waits() {
        let wait = |stated, tries| {
            let failure = PlatformFailure::Later(Duration::from_secs(stated));
            next_try(&failure, tries, false).unwrap().as_secs()
        };
        let waits = [(0, 11), (0, 12), (90, 12), (0, 1_000), (1_000, 1)];
        let waits = waits.map(|(stated, tries)| wait(stated, tries));
        assert_eq!(waits, [0, 60, 90, 60, 900]);
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

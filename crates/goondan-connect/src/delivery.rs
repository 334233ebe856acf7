//! Delivers one answer to its platform: its messages in order, then its files.

use std::io;
use std::time::Duration;

use goondan::event::{FinishReason, TurnResult};

use crate::answer_files::{self, AnswerFile};
use crate::connection_runtime::ConnectionRuntime;
use crate::growing_reply;
use crate::http::PlatformFailure;
use crate::outbox::OutboxReply;

/// Maximum attempts for a message that has certainly not arrived, except after rate limits.
const MAX_SEND_ATTEMPTS: u32 = 12;
/// Minimum wait after this number of attempts: the stated end of the rate limit was wrong.
const MIN_LATE_WAIT: Duration = Duration::from_secs(60);
/// Longest wait before the next attempt.
const MAX_SEND_WAIT: Duration = Duration::from_secs(15 * 60);

/// An answer in delivery.
pub(crate) struct AnswerDelivery<'d> {
    pub(crate) runtime: &'d ConnectionRuntime,
    /// Outbox entry. Its draft becomes the first message.
    pub(crate) reply: OutboxReply,
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
    /// Sends the answer and records the result in the outbox. Stops at the first message that
    /// cannot be delivered. Fails if the outbox cannot be written.
    pub(crate) async fn deliver(mut self, result: &TurnResult) -> io::Result<()> {
        let runtime = self.runtime;
        let outbox = &runtime.pending_replies.outbox;
        let mut sent_any = false;
        for (number, item) in self.answer_items(result).await.into_iter().enumerate() {
            match self
                .send_item_or_placeholder(number, item, sent_any)
                .await?
            {
                SendOutcome::New => sent_any = true,
                SendOutcome::Changed => {}
                SendOutcome::Failed(failure) => {
                    let failure = failure.to_string();
                    tracing::warn!(
                        connection = runtime.bound.name,
                        "could not deliver an answer: {failure}"
                    );
                    return outbox.record_failed(&self.reply.id, &failure).await;
                }
            }
        }
        outbox.record_sent(&self.reply.id).await?;
        if sent_any || self.reply.draft.is_some() {
            runtime.report_delivery(&self.reply.instance);
        }
        Ok(())
    }

    /// Sends an item. If the platform refuses a file, sends a line with its name instead, so that
    /// the recipient learns that a file was produced.
    async fn send_item_or_placeholder(
        &mut self,
        number: usize,
        item: AnswerItem,
        sent_any: bool,
    ) -> io::Result<SendOutcome> {
        let outcome = self.send_item(number, &item, sent_any).await?;
        let (SendOutcome::Failed(PlatformFailure::Refused(why)), AnswerItem::File(file)) =
            (&outcome, &item)
        else {
            return Ok(outcome);
        };
        tracing::warn!(
            connection = self.runtime.bound.name,
            "could not send a file of an answer; sending its name instead: {why}"
        );
        let placeholder = AnswerItem::Text(file.placeholder_line("could not be sent"));
        self.send_item(number, &placeholder, sent_any).await
    }

    /// Returns the messages and files to send: the messages of the text, then the files.
    async fn answer_items(&self, result: &TurnResult) -> Vec<AnswerItem> {
        let platform = &self.runtime.platform;
        let (mut files, skipped_lines) =
            answer_files::of(self.runtime, &self.reply.instance, result).await;
        let mut placeholder_lines = Vec::new();
        if !platform.takes_files() {
            for file in files.drain(..) {
                placeholder_lines.push(file.placeholder_line("can't be sent here"));
            }
        }
        placeholder_lines.extend(skipped_lines);
        let mut text = answer_text(result).unwrap_or_default();
        for line in placeholder_lines {
            text = format!("{text}\n{line}").trim().to_owned();
        }
        if text.is_empty() && self.reply.draft.is_some() {
            // The streamed message already exists, so it needs a final text.
            text = match files.first() {
                Some(file) => format!("[a file: {}]", file.name),
                None => growing_reply::STOPPED_TEXT.to_owned(),
            };
        }
        let mut items = Vec::new();
        if !text.is_empty() {
            items.extend(platform.pieces(&text).into_iter().map(AnswerItem::Text));
        }
        items.extend(files.into_iter().map(AnswerItem::File));
        items
    }

    /// Sends a message or a file. Retries while it has certainly not arrived. Fails only if the
    /// outbox cannot be written.
    ///
    /// `number` counts the items of the answer from 0. `sent_any`: whether an earlier item was sent
    /// as a new message, so that the outbox already contains the state `sending`.
    async fn send_item(
        &mut self,
        number: usize,
        item: &AnswerItem,
        sent_any: bool,
    ) -> io::Result<SendOutcome> {
        let outbox = &self.runtime.pending_replies.outbox;
        let mut attempts = 0;
        loop {
            // Edits are idempotent, so they need no `sending` record.
            let is_edit =
                number == 0 && self.reply.draft.is_some() && matches!(item, AnswerItem::Text(_));
            if !is_edit && (!sent_any || attempts > 0) {
                outbox.record_sending(&self.reply.id).await?;
            }
            let failure = match self.send_once(number, item).await {
                Ok(()) if is_edit => return Ok(SendOutcome::Changed),
                Ok(()) => return Ok(SendOutcome::New),
                // The streamed message was deleted.
                Err(PlatformFailure::Refused(_)) if is_edit => {
                    self.reply.draft = None;
                    continue;
                }
                Err(failure) => failure,
            };
            attempts += 1;
            let Some(wait) = retry_wait(&failure, attempts, is_edit) else {
                return Ok(SendOutcome::Failed(failure));
            };
            if !is_edit && !sent_any {
                // Nothing has arrived that cannot be repeated, so the answer is sent again if the
                // process crashes now.
                outbox.record_pending(self.reply.clone()).await?;
            }
            tokio::time::sleep(wait).await;
        }
    }

    /// Sends or edits the message with this number once.
    async fn send_once(&self, number: usize, item: &AnswerItem) -> Result<(), PlatformFailure> {
        let (platform, origin) = (&self.runtime.platform, &self.reply.origin);
        match (item, &self.reply.draft) {
            (AnswerItem::File(file), _) => platform.send_file(origin, number, file).await,
            (AnswerItem::Text(text), Some(message)) if number == 0 => {
                platform.edit(origin, message, text, None).await
            }
            (AnswerItem::Text(text), _) => platform.send(origin, number, text).await,
        }
    }
}

/// Returns the wait before the next attempt, or `None` if the message must not be retried.
fn retry_wait(failure: &PlatformFailure, attempts: u32, is_edit: bool) -> Option<Duration> {
    match failure {
        // A rate limit ends, so the answer waits for its end.
        PlatformFailure::Later(wait) if attempts < MAX_SEND_ATTEMPTS => {
            Some((*wait).min(MAX_SEND_WAIT))
        }
        PlatformFailure::Later(wait) => Some((*wait).clamp(MIN_LATE_WAIT, MAX_SEND_WAIT)),
        _ if attempts >= MAX_SEND_ATTEMPTS => None,
        PlatformFailure::Unreached(_) => Some(Duration::from_secs(1 << attempts.min(6))),
        PlatformFailure::Unknown(_) if is_edit => Some(Duration::from_secs(1 << attempts.min(6))),
        PlatformFailure::Unknown(_) | PlatformFailure::Refused(_) => None,
    }
}

/// Returns the text of the answer. Unknown senders receive no details of an error except its code.
fn answer_text(result: &TurnResult) -> Option<String> {
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
    use serde_json::{Value, json};

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
    fn waits_grow_if_a_rate_limit_outlasts_the_stated_time() {
        let wait = |stated, attempts| {
            let failure = PlatformFailure::Later(Duration::from_secs(stated));
            retry_wait(&failure, attempts, false).unwrap().as_secs()
        };
        let waits = [(0, 11), (0, 12), (90, 12), (0, 1_000), (1_000, 1)];
        let waits = waits.map(|(stated, attempts)| wait(stated, attempts));
        assert_eq!(waits, [0, 60, 90, 60, 900]);
    }

    #[test]
    fn an_incomplete_answer_ends_with_a_note() {
        let cut = json!({"modelFinishReason": "length"});
        assert_eq!(
            answer_text(&result("a half", cut.clone())).unwrap(),
            "a half [incomplete: length]"
        );
        assert_eq!(answer_text(&result("", cut)), None);
        assert_eq!(
            answer_text(&result("a whole", json!({}))).unwrap(),
            "a whole"
        );
    }
}

//! Operations on a conversation that a user requests: compaction, and removal of the last turn. They
//! run as turns without a user message and without steps.

use std::sync::Arc;

use goondan_core::JsonObject;
use goondan_core::agent_event::ConversationOperation;
use goondan_core::event::{FinishReason, TurnError};
use goondan_core::ids::turn_of_message;
use goondan_core::message::{Message, MessageEvent, MessageRole, MessageSource};
use serde_json::{Value, json};

use super::{TurnContext, TurnOutcome};
use crate::middleware;
use crate::turn::context_usage::{CHARACTERS_PER_TOKEN, count_characters};

/// Extension name in the `source` of the marker message, which [`run`] adds.
const MARKER_SOURCE: &str = "gdn";

/// Runs `operation`, and puts its result into the output of the turn.
pub(super) async fn run(
    context: &mut TurnContext,
    operation: ConversationOperation,
) -> Result<TurnOutcome, TurnError> {
    let before = ConversationExtent::measure(context.conversation().messages());
    // Shows that the events of an interrupted operation belong to its turn, which then starts over.
    // Otherwise they would count as events of a finished turn.
    let marker = context.new_message(
        MessageRole::System,
        MARKER_SOURCE,
        operation.event_type(),
        JsonObject::new(),
    );
    let target_id = marker.id.clone();
    context
        .emit(MessageEvent::Append { message: marker })
        .await?;
    let changed = match operation {
        ConversationOperation::Compact => middleware::compact_conversation(context)
            .await
            .map(|()| json!({})),
        ConversationOperation::Undo => undo(context, &target_id).await,
    };
    context.emit(MessageEvent::Remove { target_id }).await?;
    let mut output = changed?;
    before.add_to_output("Before", &mut output);
    ConversationExtent::measure(context.conversation().messages())
        .add_to_output("After", &mut output);
    context.progress.output = Some(output);
    Ok(TurnOutcome {
        finish_reason: FinishReason::TextResponse,
        response: None,
    })
}

/// Removes the last input and all messages after it, except the marker. Returns the text of the input
/// and the number of removed tool calls; without an input, changes nothing.
async fn undo(context: &mut TurnContext, marker_id: &str) -> Result<Value, TurnError> {
    let messages = context.conversation().messages();
    let Some(start) = last_input(messages) else {
        return Ok(json!({"input": null, "toolCalls": 0}));
    };
    let removed: Vec<Arc<Message>> = messages[start..].to_vec();
    let tool_calls: usize = removed
        .iter()
        .map(|message| message.tool_calls().count())
        .sum();
    let input = removed[0].text();
    let removed = removed.iter().filter(|message| message.id != marker_id);
    for message in removed {
        let target_id = message.id.clone();
        context.emit(MessageEvent::Remove { target_id }).await?;
    }
    Ok(json!({"input": input, "toolCalls": tool_calls}))
}

/// Returns the index of the input that began the last turn; `None` if no input is left.
fn last_input(messages: &[Arc<Message>]) -> Option<usize> {
    let is_input = |message: &Arc<Message>| {
        message.data.role == MessageRole::User && message.source == MessageSource::User
    };
    let last = messages.iter().rposition(is_input)?;
    let turn_id = turn_of_message(&messages[last].id);
    let is_of_turn = |message: &Arc<Message>| turn_of_message(&message.id) == turn_id;
    // Inputs that joined the turn follow an answer. Answers of the history come before the turn.
    let is_answer = |message: &Arc<Message>| match &message.source {
        MessageSource::Assistant { step_id } => {
            is_of_turn(message) && !step_id.ends_with("-history")
        }
        _ => false,
    };
    let end = messages
        .iter()
        .position(is_answer)
        .unwrap_or(messages.len());
    let first = messages[..end]
        .iter()
        .rposition(|message| is_input(message) && is_of_turn(message));
    Some(first.unwrap_or(last))
}

/// Size of a conversation.
struct ConversationExtent {
    messages: usize,
    /// Approximate number.
    tokens: usize,
}

impl ConversationExtent {
    /// Measures the messages.
    fn measure(messages: &[Arc<Message>]) -> Self {
        let parts = messages.iter().flat_map(|message| &message.data.content);
        ConversationExtent {
            messages: messages.len(),
            tokens: parts.map(count_characters).sum::<usize>() / CHARACTERS_PER_TOKEN,
        }
    }

    /// Adds the size to the output of the operation.
    fn add_to_output(&self, time: &str, output: &mut Value) {
        output[format!("messages{time}")] = json!(self.messages);
        output[format!("tokens{time}")] = json!(self.tokens);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use goondan_core::message::{MessageData, MessagePart};

    /// Returns messages of the turns `a` and `b`: `u` user, `s` system, `h` history, `m` model.
    fn messages(words: &str) -> Vec<Arc<Message>> {
        let make = |(index, word): (usize, &str)| {
            let (turn, kind) = word.split_at(1);
            let turn = format!("turn-{turn}");
            let (role, source) = match kind {
                "u" => (MessageRole::User, MessageSource::User),
                "s" => (MessageRole::System, MessageSource::System),
                kind => {
                    let step = if kind == "h" { "history" } else { "step-0" };
                    let step_id = format!("{turn}-{step}");
                    (MessageRole::Assistant, MessageSource::Assistant { step_id })
                }
            };
            Arc::new(Message {
                id: goondan_core::ids::message_id(&turn, u32::try_from(index).unwrap()),
                data: MessageData {
                    role,
                    content: vec![MessagePart::text(word.to_owned())],
                },
                metadata: JsonObject::new(),
                created_at: chrono::DateTime::UNIX_EPOCH,
                source,
            })
        };
        words.split(' ').enumerate().map(make).collect()
    }

    #[test]
    fn the_last_input_is_the_start_of_the_last_turn() {
        for (words, expected) in [
            ("au am", Some(0)),
            ("au am bu bm", Some(2)),
            // An input joined the second turn.
            ("au am bu bm bu bm", Some(2)),
            ("au am bu bm bu", Some(2)),
            // The conversation began with imported history.
            ("au ah au am", Some(2)),
            // The turn ended before the model answered.
            ("au am bu", Some(2)),
            // The second turn replaced the first one with a summary.
            ("bs bu bm", Some(1)),
            ("bs", None),
        ] {
            assert_eq!(last_input(&messages(words)), expected, "{words}");
        }
    }
}

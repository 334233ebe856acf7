//! The chat commands `/compact` and `/undo`, which change the conversation.

use goondan::event::{ConversationOperation, TurnResult};
use serde_json::Value;

use super::{TerminalChat, conversation};
use crate::commands::run::client::SwarmClient;
use crate::exit::CliError;
use crate::output::{counted, shorten, turn_error, write_error};

impl<P: SwarmClient> TerminalChat<P> {
    /// Starts an operation on the conversation, unless a turn runs.
    pub(super) async fn operate(
        &mut self,
        operation: ConversationOperation,
    ) -> Result<(), CliError> {
        if self.turn.is_some() {
            self.transcript
                .add_notice("A turn is running. Wait for its end, or cancel it with /cancel.");
            return Ok(());
        }
        let target = conversation(&self.target, &self.client);
        match self.client.operate(&target, operation).await {
            Ok(()) => {
                self.turn = Some(target);
                self.operation = Some(operation);
                Ok(())
            }
            Err(error) => self.show_send_error(error),
        }
    }

    pub(super) fn show_operation_end(&mut self, result: &TurnResult) -> Result<(), CliError> {
        match (turn_error(result), &result.output) {
            (Some(error), _) => {
                self.transcript.flush()?;
                write_error(&error, false)?;
            }
            (None, Some(output)) => {
                for line in operation_lines(output) {
                    self.transcript.add_notice(&line);
                }
            }
            (None, None) => {}
        }
        Ok(())
    }
}

/// Describes the output of an operation.
fn operation_lines(output: &Value) -> Vec<String> {
    let number = |name: &str| output[name].as_u64().unwrap_or_default();
    if output.get("input").is_none() {
        let line = if number("messagesAfter") < number("messagesBefore") {
            format!(
                "Compacted {} to {}: about {} tokens before, {} after.",
                counted_messages(number("messagesBefore")),
                counted_messages(number("messagesAfter")),
                number("tokensBefore"),
                number("tokensAfter"),
            )
        } else {
            "There is nothing to compact.".to_owned()
        };
        return vec![line];
    }
    let Some(input) = output["input"].as_str() else {
        return vec!["There is no input to take back.".to_owned()];
    };
    let mut lines = vec![format!("Took back the last turn: {}", shorten(input))];
    if let calls @ 1.. = number("toolCalls") {
        let calls = counted(usize::try_from(calls).unwrap_or(usize::MAX), "tool call");
        lines.push(format!("The effects of its {calls} remain."));
    }
    lines
}

/// Returns a number with the word message.
fn counted_messages(count: u64) -> String {
    counted(usize::try_from(count).unwrap_or(usize::MAX), "message")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_finished_operation_is_described() {
        let sizes = json!({"messagesBefore": 8, "messagesAfter": 1, "tokensBefore": 900, "tokensAfter": 40});
        assert_eq!(
            operation_lines(&sizes),
            ["Compacted 8 messages to 1 message: about 900 tokens before, 40 after."]
        );
        let same = json!({"messagesBefore": 1, "messagesAfter": 1});
        assert_eq!(operation_lines(&same), ["There is nothing to compact."]);
        assert_eq!(
            operation_lines(&json!({"input": "fix it", "toolCalls": 2})),
            [
                "Took back the last turn: fix it",
                "The effects of its 2 tool calls remain."
            ]
        );
        assert_eq!(
            operation_lines(&json!({"input": null})),
            ["There is no input to take back."]
        );
    }
}

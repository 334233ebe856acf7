//! Pairing of calls and results, as all providers require it.

use std::collections::BTreeMap;

use goondan::message::{Message, MessageRole};

/// Returns errors in the pairs of a conversation. With `may_end_early`, calls of the last message
/// may lack results, because the process crashed there.
pub(super) fn find_violations<'m>(
    messages: impl IntoIterator<Item = &'m Message>,
    may_end_early: bool,
) -> Vec<String> {
    let mut problems = Vec::new();
    let mut open_calls: BTreeMap<&str, usize> = BTreeMap::new();
    for message in messages {
        if message.data.role != MessageRole::Tool {
            problems.extend(unanswered_calls(&open_calls));
            open_calls.clear();
        }
        for call in message.tool_calls() {
            if open_calls.insert(&call.tool_call_id, 0).is_some() {
                problems.push(format!(
                    "the call id {} occurs twice in one message",
                    call.tool_call_id
                ));
            }
        }
        for result in message.tool_results() {
            match open_calls.get_mut(result.tool_call_id.as_str()) {
                Some(answers) => *answers += 1,
                None => problems.push(format!(
                    "the result of {} does not follow its call",
                    result.tool_call_id
                )),
            }
        }
        problems.extend(
            open_calls
                .iter()
                .filter(|(_, answers)| **answers > 1)
                .map(|(id, _)| format!("{id} has two results")),
        );
    }
    if !may_end_early {
        problems.extend(unanswered_calls(&open_calls));
    }
    problems
}

/// Returns a violation for each open call without a result.
fn unanswered_calls(open: &BTreeMap<&str, usize>) -> Vec<String> {
    let lonely = open.iter().filter(|(_, answers)| **answers == 0);
    lonely
        .map(|(id, _)| format!("the call {id} has no result"))
        .collect()
}

#[cfg(test)]
mod tests {
    use goondan::message::{MessageData, MessagePart, MessageSource, ToolCall, ToolResultPart};
    use goondan::ports::tool::ToolCallStatus;
    use serde_json::json;

    use super::*;

    fn message(role: MessageRole, content: Vec<MessagePart>) -> Message {
        Message {
            id: String::new(),
            data: MessageData { role, content },
            metadata: Default::default(),
            created_at: Default::default(),
            source: MessageSource::System,
        }
    }

    fn calls(ids: &[&str]) -> Message {
        let call = |id: &&str| MessagePart::ToolCall(ToolCall::new(*id, "a__b", json!({})));
        message(MessageRole::Assistant, ids.iter().map(call).collect())
    }

    fn results(ids: &[&str]) -> Message {
        let result = |id: &&str| {
            MessagePart::ToolResult(ToolResultPart {
                tool_call_id: (*id).into(),
                tool_name: "a__b".into(),
                status: ToolCallStatus::Ok,
                output: None,
                error: None,
                untrusted: false,
            })
        };
        message(MessageRole::Tool, ids.iter().map(result).collect())
    }

    fn text(role: MessageRole) -> Message {
        message(role, vec![MessagePart::text("hi")])
    }

    #[test]
    fn tool_results_may_be_in_one_message_or_several() {
        let good = [
            text(MessageRole::User),
            calls(&["a", "b"]),
            results(&["a"]),
            results(&["b"]),
            text(MessageRole::Assistant),
        ];
        assert_eq!(find_violations(&good, false), Vec::<String>::new());
        let again = [
            calls(&["a"]),
            results(&["a"]),
            calls(&["a"]),
            results(&["a"]),
        ];
        assert_eq!(find_violations(&again, false), Vec::<String>::new());
    }

    #[test]
    fn unpaired_tool_calls_and_results_are_violations() {
        assert_eq!(
            find_violations(&[calls(&["a"]), text(MessageRole::User)], false),
            ["the call a has no result"]
        );
        assert_eq!(
            find_violations(&[results(&["a"])], false),
            ["the result of a does not follow its call"]
        );
        assert_eq!(
            find_violations(&[calls(&["a"]), results(&["a", "a"])], false),
            ["a has two results"]
        );
        assert_eq!(
            find_violations(&[calls(&["a", "a"]), results(&["a"])], false),
            ["the call id a occurs twice in one message"]
        );
        let late = [calls(&["a"]), text(MessageRole::User), results(&["a"])];
        assert_eq!(
            find_violations(&late, false),
            [
                "the call a has no result",
                "the result of a does not follow its call"
            ]
        );
    }

    #[test]
    fn an_interrupted_conversation_may_lack_tool_results() {
        assert_eq!(
            find_violations(&[calls(&["a"])], true),
            Vec::<String>::new()
        );
        assert_eq!(
            find_violations(&[calls(&["a"])], false),
            ["the call a has no result"]
        );
    }
}

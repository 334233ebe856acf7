//! Requests for conversations of any shape.

use std::sync::Arc;

use goondan_core::message::{Message, MessagePart, MessageRole};
use goondan_spec::kinds::ReasoningEffort;
use proptest::prelude::*;
use serde_json::json;

use super::format;
use super::requests::{
    ADAPTIVE_MODEL, BUDGET_MODEL, call, redacted, request_with_tool, thinking, user,
};
use super::validation::validation_error;
use crate::testing::{failed_result, file, message, result, sent_body};

fn efforts() -> impl Strategy<Value = Option<ReasoningEffort>> {
    let efforts = [
        None,
        Some(ReasoningEffort::None),
        Some(ReasoningEffort::High),
    ];
    prop::sample::select(efforts.to_vec())
}

/// Steps: kind of reasoning, text or not, number of calls, own or other provider, and kind of the
/// results and the next message.
fn steps() -> impl Strategy<Value = Vec<(u8, bool, u8, bool, u8)>> {
    prop::collection::vec((0u8..4, any::<bool>(), 0u8..3, any::<bool>(), 0u8..4), 1..8)
}

/// Returns messages in the form that the engine stores: each call has its result in the next
/// message.
fn messages(steps: &[(u8, bool, u8, bool, u8)]) -> Vec<Arc<Message>> {
    let mut messages = vec![user("go")];
    for (at, (reasoning, has_text, calls, is_own, after)) in steps.iter().enumerate() {
        let family = if *is_own { "anthropic" } else { "deepseek" };
        let mut parts = Vec::new();
        match reasoning {
            1 => parts.push(thinking(family, "hm", "SIG")),
            2 => parts.extend([redacted(family), thinking(family, "", "SIG")]),
            3 => parts.push(MessagePart::reasoning("unsigned")),
            _ => {}
        }
        if *has_text || *calls == 0 {
            parts.push(MessagePart::text(if *after == 3 { " " } else { "text" }));
        }
        let ids: Vec<String> = (0..*calls)
            .map(|number| format!("c{at}.{number}"))
            .collect();
        parts.extend(ids.iter().map(|id| call(id)));
        messages.push(message(MessageRole::Assistant, parts));
        let results = |id: &String| match after {
            0 => vec![result(id, json!(""))],
            1 => vec![failed_result(id), file("image/png", None)],
            _ => vec![result(id, json!({"a": 1}))],
        };
        if *calls > 0 {
            messages.push(message(
                MessageRole::Tool,
                ids.iter().flat_map(results).collect(),
            ));
        }
        if *calls == 0 || *after == 2 {
            messages.push(user("more"));
        }
    }
    messages
}

proptest! {
    #[test]
    fn anthropic_accepts_the_request_of_any_conversation(
        steps in steps(),
        effort in efforts(),
        model in prop::sample::select(vec![BUDGET_MODEL, ADAPTIVE_MODEL, "claude-sonnet-5"]),
        has_tools in any::<bool>(),
    ) {
        let mut request = request_with_tool(messages(&steps));
        if !has_tools {
            request.tools = Arc::from([]);
        }
        let body = sent_body(format("anthropic", model), effort, &request);
        prop_assert_eq!(validation_error(&body), None, "{:#}", body);
    }
}

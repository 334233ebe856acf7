use genai::chat::{ChatMessage, ChatRole};
use goondan_core::message::{Part, Role, ToolCall};
use goondan_core::ports::tool::{Attachment, ToolCallStatus};
use serde_json::json;

use super::*;
use crate::testing::{message, request};

fn converted(wire: Wire, messages: Vec<std::sync::Arc<Message>>) -> Vec<ChatMessage> {
    let mut asked = request("a", "");
    asked.messages = messages.into();
    chat_request(&asked, wire, &Signatures::default()).messages
}

fn text(text: &str) -> Part {
    Part::text(text.to_owned())
}

fn result(id: &str) -> Part {
    Part::ToolResult(ToolResultPart {
        tool_call_id: id.to_owned(),
        tool_name: "t__x".to_owned(),
        status: ToolCallStatus::Ok,
        output: Some(json!("out")),
        error: None,
        untrusted: false,
    })
}

#[test]
fn messages_that_say_nothing_are_left_out() {
    let messages = vec![
        message(Role::System, vec![text(" ")]),
        message(Role::User, vec![text("hi")]),
        message(Role::Assistant, vec![text("\n")]),
        message(Role::Assistant, vec![]),
        message(Role::User, vec![text("still there?")]),
    ];
    let converted = converted(Wire::Anthropic, messages);
    assert_eq!(converted.len(), 1);
    assert_eq!(
        converted[0].content.joined_texts().as_deref(),
        Some("hi\n\nstill there?")
    );
}

#[test]
fn results_go_together_and_what_they_cannot_hold_follows_them() {
    let picture = Part::File(Attachment {
        media_type: "image/png".into(),
        data: "AA==".into(),
        name: None,
    });
    let messages = || {
        vec![
            message(Role::Tool, vec![result("c1"), picture.clone()]),
            message(Role::Tool, vec![result("c2")]),
        ]
    };
    let roles = |wire| {
        converted(wire, messages())
            .into_iter()
            .map(|message| message.role)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        roles(Wire::Ollama),
        [ChatRole::Tool, ChatRole::Tool, ChatRole::User]
    );
    assert_eq!(roles(Wire::Chat), [ChatRole::Tool, ChatRole::User]);
    let plain = || {
        vec![
            message(Role::Tool, vec![result("c1")]),
            message(Role::Tool, vec![result("c2")]),
        ]
    };
    assert_eq!(converted(Wire::Anthropic, plain()).len(), 1);
    assert_eq!(converted(Wire::Ollama, plain()).len(), 2);
}

#[test]
fn ids_of_another_provider_are_made_to_fit() {
    let call = ToolCall::new("call#t__x#0".into(), "t__x".into(), json!({}));
    let messages = vec![
        message(Role::Assistant, vec![Part::ToolCall(call)]),
        message(Role::Tool, vec![result("call#t__x#0")]),
    ];
    let converted = converted(Wire::Anthropic, messages);
    assert_eq!(converted[0].content.tool_calls()[0].call_id, "call_t__x_0");
    assert_eq!(
        converted[1].content.tool_responses()[0].call_id,
        "call_t__x_0"
    );
    assert_eq!(sent_id(Wire::Gemini, "call_12", "t__x"), "call#t__x#12");
    assert_eq!(sent_id(Wire::Gemini, "call_a1b2", "t__x"), "call_a1b2");
}

use goondan_core::message::{MessagePart, MessageRole};
use goondan_spec::kinds::{ModelParams, ReasoningEffort};
use serde_json::{Value, json};

use super::ResponsesFormat;
use super::tests::{call, complete_answer, completed, format, parts, reasoning, text_item};
use crate::formats::test_bodies::{body_of, conversation, model_target};
use crate::formats::{RequestContext, WireFormat};
use crate::testing::{message, request};

#[test]
fn a_whole_answer_returns_to_its_provider() {
    insta::assert_json_snapshot!(body_of(format(), conversation(parts(&complete_answer()))));
}

#[test]
fn another_provider_receives_no_opaque_data() {
    let other = ResponsesFormat::new(model_target("openai-compatible", "qwen3"));
    insta::assert_json_snapshot!(body_of(other, conversation(parts(&complete_answer()))));
}

fn fields(name: &str, model: &str, effort: Option<ReasoningEffort>) -> Value {
    let context = RequestContext {
        params: &ModelParams::default(),
        effort,
        tools: &[],
        output: None,
        called_tools: &Default::default(),
        open_turn: Default::default(),
    };
    Value::Object(ResponsesFormat::new(model_target(name, model)).fields(&context))
}

#[test]
fn encrypted_reasoning_is_requested_only_from_reasoning_models() {
    let requests_reasoning =
        |name, model, effort| fields(name, model, effort).get("include").is_some();
    for model in [
        "gpt-5",
        "openai/gpt-5-mini",
        "gpt-6-astra",
        "o3",
        "o4-mini",
        "gpt-4o-codex",
        "ft:o4-mini:x",
    ] {
        assert!(
            requests_reasoning("openai", model, None)
                && requests_reasoning("openai-compatible", model, None),
            "{model}"
        );
    }
    for model in ["gpt-4o", "gpt-5-chat-latest", "olmo", "qwen3", "gpt-oss"] {
        assert!(!requests_reasoning("openai", model, None), "{model}");
        assert!(
            !requests_reasoning("openai-compatible", model, Some(ReasoningEffort::High)),
            "{model}"
        );
    }
    assert!(requests_reasoning(
        "openai",
        "my-alias",
        Some(ReasoningEffort::High)
    ));
    assert!(!requests_reasoning(
        "openai",
        "my-alias",
        Some(ReasoningEffort::None)
    ));
}

#[test]
fn summaries_are_requested_only_with_an_effort() {
    let reasoning = |model, effort| fields("openai", model, effort)["reasoning"].clone();
    assert_eq!(reasoning("gpt-5", None), Value::Null);
    let high = Some(ReasoningEffort::High);
    assert_eq!(
        reasoning("gpt-5", high),
        json!({"effort": "high", "summary": "auto"})
    );
    assert_eq!(reasoning("my-alias", high), json!({"effort": "high"}));
    let none = Some(ReasoningEffort::None);
    assert_eq!(reasoning("gpt-5", none), json!({"effort": "none"}));
}

fn input_of(answer: Vec<MessagePart>) -> Value {
    sent_input(format(), answer)
}

/// Returns the input that contains only `answer`.
fn sent_input(format: ResponsesFormat, answer: Vec<MessagePart>) -> Value {
    let mut request = request("a", "go");
    request.messages = vec![message(MessageRole::Assistant, answer)].into();
    body_of(format, request)["input"].clone()
}

#[test]
fn reasoning_items_that_openai_rejects_are_omitted() {
    let empty =
        json!({"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": null});
    let input_for = |items: Value| input_of(parts(&[completed(items)]));
    let types = |input: Value| -> Vec<String> {
        let items = input.as_array().expect("items").clone();
        items
            .iter()
            .map(|item| item["type"].as_str().expect("a type").to_owned())
            .collect()
    };
    // Reasoning without content.
    assert_eq!(
        types(input_for(json!([empty, text_item("a")]))),
        ["message"]
    );
    // Reasoning must be followed by another item.
    assert_eq!(
        types(input_for(json!([text_item("a"), reasoning("rs_1")]))),
        ["message"]
    );
    // A model without reasoning.
    let chat = ResponsesFormat::new(model_target("openai", "gpt-4.1"));
    let answer = parts(&[completed(json!([reasoning("rs_1"), text_item("a")]))]);
    assert_eq!(types(sent_input(chat, answer)), ["message"]);
    // Unencrypted reasoning is kept.
    let plain = json!({"type": "reasoning", "content": [{"type": "reasoning_text", "text": "hm"}]});
    let input = input_for(json!([plain, text_item("a")]));
    let expected = json!({"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]});
    assert_eq!(input[0], expected);
}

#[test]
fn long_call_ids_are_shortened() {
    let id = "x".repeat(80);
    let sent = input_of(parts(&[completed(json!([call(&id, "{}")]))]));
    assert!(sent[0]["call_id"].as_str().expect("an id").len() <= 64);
}

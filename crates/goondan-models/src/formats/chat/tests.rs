use goondan_core::message::MessagePart;
use goondan_core::ports::model::{CompletedAnswer, ModelFinishReason};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::ChatFormat;
use crate::errors::ProviderError;
use crate::formats::{EventFraming, ModelTarget};
use crate::provider::provider;
use crate::testing::{decode_pieces, decode_stream, equivalent_bodies};

fn format(name: &str) -> ChatFormat {
    let provider = provider(name).expect("a provider");
    ChatFormat::new(ModelTarget {
        provider,
        model: "m".to_owned(),
        prompt_caching: true,
    })
}

fn body(events: &[Value]) -> String {
    events
        .iter()
        .map(|event| format!("data: {event}\n\n"))
        .collect::<String>()
        + "data: [DONE]\n\n"
}

fn decoded(events: &[Value]) -> Result<CompletedAnswer, ProviderError> {
    decode_stream(&format("openrouter"), "openrouter", body(events).as_bytes())
}

fn delta(delta: Value) -> Value {
    json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
}

fn finish(reason: &str) -> Value {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
}

/// A complete answer: reasoning with an encrypted detail, text, two interleaved calls, usage.
fn complete_answer() -> Vec<Value> {
    let call = |index: u32, id: &str, name: &str, arguments: &str| {
        delta(
            json!({"tool_calls": [{"index": index, "id": id, "function": {"name": name, "arguments": arguments}}]}),
        )
    };
    vec![
        delta(json!({"role": "assistant", "content": ""})),
        delta(
            json!({"reasoning": "I ", "reasoning_details": [{"type": "reasoning.text", "text": "I ", "index": 0}]}),
        ),
        delta(json!({"reasoning": "look.", "reasoning_details": [
            {"type": "reasoning.text", "text": "look.", "index": 0},
            {"type": "reasoning.encrypted", "data": "ENC", "index": 1}]})),
        delta(json!({"content": "Grüße 🐝"})),
        call(0, "a", "t__x", "{\"n\":"),
        call(1, "b", "t__y", ""),
        call(0, "", "", "1}"),
        call(1, "", "", "{}"),
        finish("tool_calls"),
        json!({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 4,
            "prompt_tokens_details": {"cached_tokens": 3}}}),
    ]
}

#[test]
fn chat_decoder_keeps_every_part_of_an_answer() {
    insta::assert_json_snapshot!(decoded(&complete_answer()).expect("an answer"));
}

proptest! {
    #[test]
    fn chat_decoding_does_not_depend_on_stream_framing(
        pieces in equivalent_bodies(EventFraming::ServerSentEvents, body(&complete_answer())),
    ) {
        let pieces = pieces.iter().map(Vec::as_slice);
        let answer = decode_pieces(&format("openrouter"), "openrouter", pieces).expect("an answer");
        prop_assert_eq!(answer, decoded(&complete_answer()).expect("an answer"));
    }
}

#[test]
fn chat_finish_reasons_are_classified() {
    let text = || delta(json!({"content": "half"}));
    let reason = |word: &str| decoded(&[text(), finish(word)]).map(|answer| answer.finish_reason);
    assert_eq!(reason("stop").ok(), Some(ModelFinishReason::Stop));
    assert_eq!(reason("length").ok(), Some(ModelFinishReason::Length));
    assert_eq!(
        reason("model_context_window_exceeded").ok(),
        Some(ModelFinishReason::ContextWindow)
    );
    assert_eq!(
        reason("x").ok(),
        Some(ModelFinishReason::Other("x".to_owned()))
    );
    assert!(matches!(
        reason("content_filter"),
        Err(ProviderError::Declined { .. })
    ));
    for failed in ["error", "network_error", "insufficient_system_resource"] {
        assert!(
            matches!(reason(failed), Err(ProviderError::Failed { .. })),
            "{failed}"
        );
    }
}

#[test]
fn chat_refusals_keep_the_explanation() {
    let refused = decoded(&[
        delta(json!({"refusal": "I can't "})),
        delta(json!({"refusal": "help."})),
        finish("stop"),
    ]);
    let Err(ProviderError::Declined { explanation, .. }) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(explanation, "I can't help.");
}

#[test]
fn usage_without_choices_ends_an_answer() {
    let events = [
        delta(json!({"content": "whole"})),
        json!({"choices": [], "usage": {"prompt_tokens": 1}}),
    ];
    let open: String = events
        .iter()
        .map(|event| format!("data: {event}\n\n"))
        .collect();
    let answer = decode_stream(&format("vllm"), "vllm", open.as_bytes()).expect("an answer");
    assert_eq!(answer.parts, [MessagePart::text("whole")]);
}

#[test]
fn mistral_content_blocks_are_text_and_reasoning() {
    let content = json!([{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "a"}]);
    let answer =
        decoded(&[delta(json!({ "content": content })), finish("stop")]).expect("an answer");
    assert!(
        matches!(&answer.parts[0], MessagePart::Reasoning { text, .. } if text == "hm"),
        "{answer:?}"
    );
    assert_eq!(answer.parts[1], MessagePart::text("a"));
}

#[test]
fn chat_malformed_events_are_ignored() {
    let malformed = [
        json!([1, 2]),
        json!(3),
        json!({"choices": "x"}),
        json!({"choices": [7]}),
        json!({"choices": [{"delta": 3}]}),
        json!({"choices": [{"delta": {"content": null, "tool_calls": null}}], "usage": null}),
        json!({}),
    ];
    for event in malformed {
        let events = [
            event.clone(),
            delta(json!({"content": "a"})),
            finish("stop"),
        ];
        assert_eq!(
            decoded(&events).expect("an answer").parts,
            [MessagePart::text("a")],
            "{event}"
        );
    }
}

use aws_smithy_eventstream::frame::write_message_to;
use aws_smithy_types::event_stream::{Header, HeaderValue, Message};
use bytes::Bytes;
use goondan_core::message::{MessagePart, ToolCall};
use goondan_core::ports::model::{CompletedAnswer, ModelFinishReason, TokenUsage};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{CLAUDE, format};
use crate::errors::ProviderError;
use crate::testing::{cut_at, decode_pieces, decode_stream};

/// Events, each with its name.
type Events = Vec<(&'static str, Value)>;

fn body(events: &[(&'static str, Value)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, data) in events {
        let header = if name.ends_with("Exception") {
            ":exception-type"
        } else {
            ":event-type"
        };
        let name = HeaderValue::String((*name).to_owned().into());
        let message =
            Message::new(Bytes::from(data.to_string())).add_header(Header::new(header, name));
        write_message_to(&message, &mut bytes).expect("a message");
    }
    bytes
}

fn decoded(events: &[(&'static str, Value)]) -> Result<CompletedAnswer, ProviderError> {
    decode_stream(&*format(CLAUDE), "bedrock", &body(events))
}

fn block(index: u64, start: Value, deltas: &[Value]) -> Events {
    let mut events = Events::new();
    if !start.is_null() {
        events.push((
            "contentBlockStart",
            json!({"contentBlockIndex": index, "start": start}),
        ));
    }
    let delta = |delta| {
        (
            "contentBlockDelta",
            json!({"contentBlockIndex": index, "delta": delta}),
        )
    };
    events.extend(deltas.iter().map(delta));
    events.push(("contentBlockStop", json!({"contentBlockIndex": index})));
    events
}

fn text(index: u64, pieces: &[&str]) -> Events {
    let deltas: Vec<_> = pieces.iter().map(|text| json!({"text": text})).collect();
    block(index, json!(null), &deltas)
}

fn call(index: u64, id: &str, pieces: &[&str]) -> Events {
    let start = json!({"toolUse": {"toolUseId": id, "name": "t__x"}});
    let deltas: Vec<_> = pieces
        .iter()
        .map(|input| json!({"toolUse": {"input": input}}))
        .collect();
    block(index, start, &deltas)
}

fn message(blocks: &[Events], reason: &str) -> Events {
    let mut events = vec![("messageStart", json!({"role": "assistant"}))];
    events.extend(blocks.concat());
    events.push(("messageStop", json!({"stopReason": reason})));
    let usage = json!({"inputTokens": 20, "outputTokens": 9, "totalTokens": 29,
        "cacheReadInputTokens": 7, "cacheWriteInputTokens": 3});
    events.push((
        "metadata",
        json!({"usage": usage, "metrics": {"latencyMs": 1}}),
    ));
    events
}

/// A complete answer: signed and encrypted reasoning, text, two calls, usage.
fn complete_answer() -> Events {
    let reasoning = [
        json!({"reasoningContent": {"text": "I "}}),
        json!({"reasoningContent": {"text": "look. 🐝"}}),
        json!({"reasoningContent": {"signature": "SIG=="}}),
    ];
    let redacted = [
        json!({"reasoningContent": {"redactedContent": "YQ=="}}),
        json!({"reasoningContent": {"redactedContent": "Yg=="}}),
    ];
    message(
        &[
            block(0, json!(null), &reasoning),
            block(1, json!(null), &redacted),
            text(2, &["Grü", "ße"]),
            call(3, "a", &[r#"{"n":"#, "1}"]),
            call(4, "b", &[]),
        ],
        "tool_use",
    )
}

#[test]
fn converse_decoder_keeps_every_part_of_an_answer() {
    insta::assert_json_snapshot!(decoded(&complete_answer()).expect("an answer"));
}

proptest! {
    #[test]
    fn converse_decoding_does_not_depend_on_read_boundaries(
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
    ) {
        let pieces = cut_at(&body(&complete_answer()), &cuts);
        let pieces = pieces.iter().map(Vec::as_slice);
        let answer = decode_pieces(&*format(CLAUDE), "bedrock", pieces).expect("an answer");
        prop_assert_eq!(answer, decoded(&complete_answer()).expect("an answer"));
    }
}

#[test]
fn converse_metadata_is_optional_but_message_stop_is_required() {
    let events = message(&[text(0, &["a"])], "end_turn");
    let without_metadata = decoded(&events[..events.len() - 1]).expect("an answer");
    assert_eq!(
        (without_metadata.parts, without_metadata.usage),
        (vec![MessagePart::text("a")], None)
    );
    assert!(decoded(&events[..events.len() - 2]).is_err());
}

#[test]
fn converse_prompt_tokens_include_cached_tokens() {
    let usage = decoded(&message(&[text(0, &["a"])], "end_turn"))
        .expect("an answer")
        .usage;
    let expected = TokenUsage {
        prompt_tokens: 30,
        completion_tokens: 9,
        total_tokens: 39,
        cached_tokens: 7,
        cache_write_tokens: 3,
    };
    assert_eq!(usage, Some(expected));
}

#[test]
fn converse_stop_reasons_are_classified() {
    let answer = |word: &str| decoded(&message(&[text(0, &["half"])], word));
    let reason = |word: &str| answer(word).expect("an answer").finish_reason;
    assert_eq!(reason("end_turn"), ModelFinishReason::Stop);
    assert_eq!(reason("max_tokens"), ModelFinishReason::Length);
    assert_eq!(
        reason("model_context_window_exceeded"),
        ModelFinishReason::ContextWindow
    );
    for failed in ["malformed_tool_use", "malformed_model_output"] {
        assert!(
            matches!(answer(failed), Err(ProviderError::Failed { .. })),
            "{failed}"
        );
    }
    let declined = |word: &str| match answer(word) {
        Err(ProviderError::Declined {
            reason,
            explanation,
        }) => (reason, explanation),
        other => panic!("{other:?}"),
    };
    assert_eq!(
        declined("content_filtered"),
        ("content_filtered".to_owned(), String::new())
    );
    let guardrail = ("guardrail_intervened".to_owned(), "half".to_owned());
    assert_eq!(declined("guardrail_intervened"), guardrail);
}

#[test]
fn converse_exceptions_are_errors_with_a_status() {
    let half = [
        ("messageStart", json!({"role": "assistant"})),
        text(0, &["half"])[0].clone(),
    ];
    let error = |name: &'static str, data: Value| {
        let events = [half.to_vec(), vec![(name, data)]].concat();
        match decoded(&events) {
            Err(ProviderError::Reported(error)) => (error.status, error.message),
            other => panic!("{other:?}"),
        }
    };
    let throttled = error(
        "throttlingException",
        json!({"message": "Too many requests."}),
    );
    assert_eq!(throttled, (Some(429), "Too many requests.".to_owned()));
    let invalid = error("validationException", json!({"message": "a"}));
    assert_eq!(invalid, (Some(400), "a".to_owned()));
    let failed = json!({"message": "a", "originalStatusCode": 424, "originalMessage": "b"});
    let failed = error("modelStreamErrorException", failed);
    assert_eq!(failed, (Some(500), "a: b".to_owned()));
    assert_eq!(
        error("newException", json!({"message": "a"})),
        (None, "a".to_owned())
    );
}

#[test]
fn server_side_tool_blocks_are_kept_as_opaque_data() {
    let search =
        json!({"toolUse": {"toolUseId": "s", "name": "nova_grounding", "type": "server_tool_use"}});
    let found = json!({"toolResult": {"toolUseId": "s", "type": "nova_grounding_result"}});
    let pieces = [
        json!({"toolUse": {"input": r#"{"q":"#}}),
        json!({"toolUse": {"input": "1}"}}),
    ];
    let results = [json!({"toolResult": [{"json": {"a": 1}}]})];
    let events = message(
        &[
            block(0, search, &pieces),
            block(1, found, &results),
            text(2, &["a"]),
            call(3, "c", &["{}"]),
        ],
        "tool_use",
    );
    let opaque = |block: Value| MessagePart::Opaque {
        provider_metadata: [(
            "bedrock".to_owned(),
            json!({"publisher": "anthropic", "block": block}),
        )]
        .into_iter()
        .collect(),
    };
    let expected = [
        opaque(
            json!({"toolUse": {"toolUseId": "s", "name": "nova_grounding",
            "type": "server_tool_use", "input": {"q": 1}}}),
        ),
        opaque(
            json!({"toolResult": {"toolUseId": "s", "type": "nova_grounding_result",
            "content": [{"json": {"a": 1}}]}}),
        ),
        MessagePart::text("a"),
        MessagePart::ToolCall(ToolCall::new("c", "t__x", json!({}))),
    ];
    assert_eq!(decoded(&events).expect("an answer").parts, expected);
}

#[test]
fn converse_malformed_events_are_ignored() {
    let malformed = [
        ("contentBlockStart", json!({})),
        (
            "contentBlockStart",
            json!({"contentBlockIndex": 0, "start": {}}),
        ),
        (
            "contentBlockDelta",
            json!({"contentBlockIndex": 0, "delta": null}),
        ),
        (
            "contentBlockDelta",
            json!({"contentBlockIndex": 0, "delta": {"citation": {"title": "x"}}}),
        ),
        ("contentBlockStop", json!(3)),
        ("newEvent", json!({"x": 1})),
        ("messageStart", json!([])),
    ];
    for event in malformed {
        let events = [vec![event.clone()], message(&[text(0, &["a"])], "end_turn")].concat();
        assert_eq!(
            decoded(&events).expect("an answer").parts,
            [MessagePart::text("a")],
            "{event:?}"
        );
    }
}

#[test]
fn malformed_server_side_tool_blocks_do_not_break_the_answer() {
    let input = json!({"toolUse": {"input": "{}"}});
    let results = json!({"toolResult": [1]});
    for start in [
        json!({"toolUse": "x", "other": {}}),
        json!({"toolUse": {"type": "server_tool_use"}, "toolResult": 3}),
        json!({"toolResult": {"content": "x"}}),
    ] {
        let pieces = [input.clone(), results.clone(), json!({"text": "a"})];
        let events = message(
            &[block(0, start.clone(), &pieces), text(1, &["a"])],
            "end_turn",
        );
        let parts = decoded(&events).expect("an answer").parts;
        assert_eq!(parts.last(), Some(&MessagePart::text("a")), "{start}");
    }
}

use goondan_core::message::{MessagePart, ToolCall};
use goondan_core::ports::model::{CompletedAnswer, ModelFinishReason, TokenUsage};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::events::{begin, block, call, input, message, text};
use super::format;
use crate::errors::ProviderError;
use crate::formats::EventFraming;
use crate::testing::{decode_pieces, decode_stream, equivalent_bodies};

const MODEL: &str = "claude-sonnet-4-5";

fn body(events: &[Value]) -> String {
    let name = |event: &Value| event["type"].as_str().unwrap_or_default().to_owned();
    events
        .iter()
        .map(|event| format!("event: {}\ndata: {event}\n\n", name(event)))
        .collect()
}

fn decoded(events: &[Value]) -> Result<CompletedAnswer, ProviderError> {
    decode_stream(
        &*format("anthropic", MODEL),
        "anthropic",
        body(events).as_bytes(),
    )
}

fn parts(events: &[Value]) -> Vec<MessagePart> {
    decoded(events).expect("an answer").parts
}

/// A complete answer: signed and encrypted thinking, a server-side tool, text, two calls, usage.
fn complete_answer() -> Vec<Value> {
    let thinking = [
        json!({"type": "thinking_delta", "thinking": "I "}),
        json!({"type": "thinking_delta", "thinking": "look. 🐝"}),
        json!({"type": "signature_delta", "signature": "SIG=="}),
    ];
    let search = json!({"type": "server_tool_use", "id": "srv", "name": "web_search", "input": {}});
    let found = json!({"type": "web_search_tool_result", "tool_use_id": "srv", "content": []});
    message(
        &[
            block(
                0,
                json!({"type": "thinking", "thinking": "", "signature": ""}),
                &thinking,
            ),
            block(1, json!({"type": "redacted_thinking", "data": "ENC"}), &[]),
            block(
                2,
                search,
                &[input(""), input(r#"{"query":"#), input(r#""x"}"#)],
            ),
            block(3, found, &[]),
            text(4, &["Grü", "ße"]),
            call(5, "a", json!({}), &["", r#"{"n":"#, "1}"]),
            call(6, "b", json!({}), &[]),
        ],
        "tool_use",
    )
}

#[test]
fn anthropic_decoder_keeps_every_part_of_an_answer() {
    insta::assert_json_snapshot!(decoded(&complete_answer()).expect("an answer"));
}

proptest! {
    #[test]
    fn anthropic_decoding_does_not_depend_on_stream_framing(
        pieces in equivalent_bodies(EventFraming::ServerSentEvents, body(&complete_answer())),
    ) {
        let pieces = pieces.iter().map(Vec::as_slice);
        let format = format("anthropic", MODEL);
        let answer = decode_pieces(&*format, "anthropic", pieces).expect("an answer");
        prop_assert_eq!(answer, decoded(&complete_answer()).expect("an answer"));
    }
}

#[test]
fn anthropic_event_names_and_message_stop_are_optional() {
    let events = message(&[text(0, &["A whole answer."])], "end_turn");
    let bare: String = events
        .iter()
        .map(|event| format!("data: {event}\n\n"))
        .collect();
    let without_stop = body(&events[..events.len() - 1]);
    let with_done = body(&events[..events.len() - 1]) + "data: [DONE]\n\n";
    for body in [bare, without_stop, with_done] {
        let answer = decode_stream(&*format("anthropic", MODEL), "anthropic", body.as_bytes());
        let answer = answer.expect("an answer");
        assert_eq!(answer.parts, [MessagePart::text("A whole answer.")]);
        assert_eq!(answer.finish_reason, ModelFinishReason::Stop);
    }
    let cut = body(&events[..4]);
    let broken = decode_stream(&*format("anthropic", MODEL), "anthropic", cut.as_bytes());
    assert!(broken.is_err(), "{broken:?}");
}

#[test]
fn anthropic_call_input_is_read_from_start_and_deltas() {
    let expected = [MessagePart::ToolCall(ToolCall::new(
        "a",
        "t__x",
        json!({"n": 1}),
    ))];
    for (start, pieces) in [
        (json!({}), &[r#"{"n":1}"#][..]),
        (json!({"n": 1}), &[]),
        (json!({"n": 1}), &["", "{}"]),
        (json!({"n": 2}), &[r#"{"n":1}"#]),
        (json!(""), &[r#"{"n":"#, "1}"]),
        (json!(r#"{"n":1}"#), &[]),
        (json!(null), &["{}", r#"{"n":1}"#]),
        (json!({}), &[r#""{\"n\":1}""#]),
    ] {
        let events = message(&[call(0, "a", start.clone(), pieces)], "tool_use");
        assert_eq!(parts(&events), expected, "{start} {pieces:?}");
    }
    let cut = parts(&message(
        &[call(0, "a", json!({}), &[r#"{"n": Ulm"#])],
        "max_tokens",
    ));
    assert_eq!(
        cut,
        [MessagePart::ToolCall(ToolCall::new(
            "a",
            "t__x",
            json!(r#"{"n": Ulm"#)
        ))]
    );
    let halved = parts(&message(
        &[call(0, "a", json!({}), &[r#"{"n":"\ud83d"}"#])],
        "tool_use",
    ));
    assert_eq!(
        halved,
        [MessagePart::ToolCall(ToolCall::new(
            "a",
            "t__x",
            json!({"n": "\u{fffd}"})
        ))]
    );
}

#[test]
fn anthropic_blocks_with_equal_or_missing_indexes_stay_separate() {
    let whole = message(
        &[
            text(0, &["a"]),
            call(0, "a", json!({}), &["{}"]),
            call(0, "b", json!({}), &[r#"{"n":1}"#]),
        ],
        "tool_use",
    );
    let strip = |mut event: Value| {
        event.as_object_mut().expect("an object").remove("index");
        event
    };
    let bare: Vec<Value> = whole.iter().cloned().map(strip).collect();
    let expected = [
        MessagePart::text("a"),
        MessagePart::ToolCall(ToolCall::new("a", "t__x", json!({}))),
        MessagePart::ToolCall(ToolCall::new("b", "t__x", json!({"n": 1}))),
    ];
    assert_eq!(parts(&whole), expected);
    assert_eq!(parts(&bare), expected);
}

#[test]
fn anthropic_unknown_blocks_are_kept_and_unknown_events_ignored() {
    let compaction = [
        json!({"type": "compaction_delta", "content": "So "}),
        json!({"type": "compaction_delta", "content": "far."}),
    ];
    let citation = json!({"type": "citations_delta", "citation": {"url": "http://x"}});
    let events = message(
        &[
            vec![json!({"type": "hint", "x": 1}), json!({"type": "ping"})],
            block(
                0,
                json!({"type": "compaction", "content": null}),
                &compaction,
            ),
            block(1, json!({"type": "container_upload", "file_id": "f"}), &[]),
            block(
                2,
                json!({"type": "text", "text": ""}),
                &[
                    citation,
                    json!({"type": "odd_delta", "x": 1}),
                    json!({"type": "text_delta", "text": "A whole answer."}),
                ],
            ),
        ],
        "end_turn",
    );
    let opaque = |block: Value| MessagePart::Opaque {
        provider_metadata: [("anthropic".to_owned(), block)].into_iter().collect(),
    };
    let expected = [
        opaque(json!({"type": "compaction", "content": "So far."})),
        opaque(json!({"type": "container_upload", "file_id": "f"})),
        MessagePart::text("A whole answer."),
    ];
    assert_eq!(parts(&events), expected);
}

#[test]
fn anthropic_content_in_message_start_is_read() {
    let mut start = begin();
    start["message"]["content"] = json!([
        {"type": "text", "text": "a"},
        {"type": "tool_use", "id": "c", "name": "t__x", "input": {"n": 1},
            "caller": {"type": "code_execution_20250825", "tool_id": "srv"}},
    ]);
    start["message"]["stop_reason"] = "tool_use".into();
    let mut call = ToolCall::new("c", "t__x", json!({"n": 1}));
    let caller = json!({"caller": {"type": "code_execution_20250825", "tool_id": "srv"}});
    call.provider_metadata
        .insert("anthropic".to_owned(), caller);
    let expected = [MessagePart::text("a"), MessagePart::ToolCall(call)];
    assert_eq!(
        parts(&[start.clone(), json!({"type": "message_stop"})]),
        expected
    );
    let whole = start["message"].to_string();
    let event = format!("data: {whole}\n\n");
    let answer = decode_stream(&*format("anthropic", MODEL), "anthropic", event.as_bytes());
    assert_eq!(answer.expect("an answer").parts, expected);
}

#[test]
fn anthropic_stop_reasons_are_classified() {
    let reason = |word: &str| {
        decoded(&message(&[text(0, &["half"])], word))
            .expect("an answer")
            .finish_reason
    };
    assert_eq!(reason("end_turn"), ModelFinishReason::Stop);
    assert_eq!(reason("stop_sequence"), ModelFinishReason::Stop);
    assert_eq!(reason("max_tokens"), ModelFinishReason::Length);
    assert_eq!(
        reason("model_context_window_exceeded"),
        ModelFinishReason::ContextWindow
    );
    assert_eq!(reason("pause_turn"), ModelFinishReason::Pause);
    assert_eq!(reason("x"), ModelFinishReason::Other("x".to_owned()));
}

#[test]
fn anthropic_refusals_contain_the_reason_and_explanation() {
    let details = json!({"type": "refusal", "category": "cyber", "explanation": "It was blocked."});
    let nameless = json!({"type": "refusal", "category": "cyber", "explanation": null});
    for (details, expected) in [
        (details, "It was blocked."),
        (nameless, "cyber"),
        (json!(null), ""),
    ] {
        let mut events = message(&[], "refusal");
        events[1]["delta"]["stop_details"] = details;
        let refused = decoded(&events);
        let Err(ProviderError::Declined {
            reason,
            explanation,
        }) = refused
        else {
            panic!("{refused:?}")
        };
        assert_eq!(
            (reason.as_str(), explanation.as_str()),
            ("refusal", expected)
        );
    }
}

#[test]
fn anthropic_errors_are_reported_in_the_middle_of_a_stream() {
    let error = |body: Value| {
        let events = [vec![begin()], text(0, &["half"])].concat();
        let body = body.to_string();
        let stream = self::body(&events) + "event: error\ndata: " + &body + "\n\n";
        match decode_stream(&*format("anthropic", MODEL), "anthropic", stream.as_bytes()) {
            Err(ProviderError::Reported(error)) => (error.status, error.message),
            other => panic!("{other:?}"),
        }
    };
    let overloaded =
        json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    assert_eq!(error(overloaded), (Some(529), "Overloaded".to_owned()));
    assert_eq!(
        error(json!({"code": 500, "message": "a"})),
        (Some(500), "a".to_owned())
    );
    let minimax = json!({"base_resp": {"status_code": 1008, "status_msg": "no balance"}});
    assert_eq!(error(minimax), (Some(402), "no balance".to_owned()));
}

#[test]
fn anthropic_prompt_tokens_include_cached_tokens() {
    let expected = TokenUsage {
        prompt_tokens: 30,
        completion_tokens: 9,
        total_tokens: 39,
        cached_tokens: 7,
        cache_write_tokens: 3,
    };
    let events = message(&[text(0, &["a"])], "end_turn");
    assert_eq!(decoded(&events).expect("an answer").usage, Some(expected));
    let mut late = events.clone();
    late[0]["message"]["usage"] = json!({"input_tokens": 0, "output_tokens": 0});
    late[4]["usage"] = json!({"input_tokens": 20, "output_tokens": 9,
        "cache_read_input_tokens": 7, "cache_creation_input_tokens": 3});
    assert_eq!(decoded(&late).expect("an answer").usage, Some(expected));
    let mut without = events;
    without[0]["message"]["usage"] = json!(null);
    without[4]["usage"] = json!(null);
    assert_eq!(decoded(&without).expect("an answer").usage, None);
}

#[test]
fn unsigned_thinking_is_kept_only_for_models_that_require_it() {
    let thinking = [json!({"type": "thinking_delta", "thinking": "hm"})];
    let events = message(
        &[
            block(0, json!({"type": "thinking", "thinking": ""}), &thinking),
            text(1, &["a"]),
        ],
        "end_turn",
    );
    let metadata = |name: &str, model: &str| {
        let answer = decode_stream(&*format(name, model), name, body(&events).as_bytes());
        match &answer.expect("an answer").parts[0] {
            MessagePart::Reasoning {
                provider_metadata, ..
            } => provider_metadata.get(name).cloned(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(metadata("anthropic", MODEL), None);
    assert_eq!(
        metadata("minimax", "MiniMax-M2"),
        Some(json!({"signature": ""}))
    );
}

#[test]
fn anthropic_malformed_events_are_ignored() {
    let malformed = [
        json!([1, 2]),
        json!(3),
        json!({}),
        json!({"type": "content_block_start"}),
        json!({"type": "content_block_start", "index": 9, "content_block": 7}),
        json!({"type": "content_block_delta", "index": 9, "delta": null}),
        json!({"type": "content_block_delta", "index": 9, "delta": {"type": "input_json_delta"}}),
        json!({"type": "content_block_stop", "index": 9}),
        json!({"type": "message_delta", "delta": {"stop_reason": null}, "usage": 3}),
        json!({"type": "message_start", "message": null}),
    ];
    for event in malformed {
        let answer =
            decoded(&[vec![event.clone()], message(&[text(0, &["a"])], "end_turn")].concat());
        let texts: String = answer
            .expect("an answer")
            .parts
            .iter()
            .filter_map(MessagePart::as_text)
            .collect();
        assert_eq!(texts, "a", "{event}");
    }
}

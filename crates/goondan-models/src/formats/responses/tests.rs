use goondan_core::message::MessagePart;
use goondan_core::ports::model::{CompletedAnswer, ModelFinishReason};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::ResponsesFormat;
use crate::errors::ProviderError;
use crate::formats::EventFraming;
use crate::formats::test_bodies::model_target;
use crate::testing::{decode_pieces, decode_stream, equivalent_bodies};

pub(super) fn format() -> ResponsesFormat {
    ResponsesFormat::new(model_target("openai", "gpt-5"))
}

fn body(events: &[Value]) -> String {
    let events = events.iter().map(|event| format!("data: {event}\n\n"));
    events.collect()
}

fn decoded(events: &[Value]) -> Result<CompletedAnswer, ProviderError> {
    decode_stream(&format(), "openai", body(events).as_bytes())
}

pub(super) fn parts(events: &[Value]) -> Vec<MessagePart> {
    decoded(events).expect("an answer").parts
}

fn added(index: u64, item: Value) -> Value {
    json!({"type": "response.output_item.added", "output_index": index, "item": item})
}

fn done(index: u64, item: Value) -> Value {
    json!({"type": "response.output_item.done", "output_index": index, "item": item})
}

fn delta(kind: &str, index: u64, text: &str) -> Value {
    json!({"type": format!("response.{kind}.delta"), "output_index": index, "delta": text})
}

pub(super) fn completed(output: Value) -> Value {
    json!({"type": "response.completed", "response": {
        "id": "r", "object": "response", "status": "completed", "error": null, "output": output,
        "usage": {"input_tokens": 9, "output_tokens": 4, "total_tokens": 13,
            "input_tokens_details": {"cached_tokens": 3}},
    }})
}

pub(super) fn reasoning(id: &str) -> Value {
    json!({"id": id, "type": "reasoning", "status": "completed", "content": [],
        "encrypted_content": "ENC", "summary": [
            {"type": "summary_text", "text": "I look."}, {"type": "summary_text", "text": "Twice."}]})
}

pub(super) fn text_item(text: &str) -> Value {
    json!({"id": "msg_1", "type": "message", "role": "assistant", "phase": "commentary",
        "content": [{"type": "output_text", "text": text, "annotations": []}]})
}

pub(super) fn call(id: &str, arguments: &str) -> Value {
    json!({"id": format!("fc_{id}"), "type": "function_call", "status": "completed", "call_id": id,
        "name": "weather__now", "arguments": arguments})
}

fn search() -> Value {
    json!({"id": "ws_1", "type": "web_search_call", "status": "completed"})
}

/// A complete answer: a search, reasoning, text, two interleaved calls with reasoning between them.
pub(super) fn complete_answer() -> Vec<Value> {
    let part = |index: u64, text: &str| {
        json!({"type": "response.reasoning_summary_text.delta", "output_index": 1,
            "summary_index": index, "delta": text})
    };
    vec![
        json!({"type": "response.created", "response": {"id": "r", "error": null, "output": []}}),
        json!({"type": "response.in_progress"}),
        added(0, search()),
        done(0, search()),
        added(1, json!({"id": "rs_1", "type": "reasoning", "summary": []})),
        part(0, "I "),
        part(0, "look."),
        part(1, "Twice."),
        done(1, reasoning("rs_1")),
        added(2, json!({"id": "msg_1", "type": "message", "content": []})),
        json!({"type": "response.content_part.added", "output_index": 2, "part": {"type": "output_text", "text": ""}}),
        delta("output_text", 2, "Grüße "),
        delta("output_text", 2, "🐝"),
        json!({"type": "response.output_text.done", "output_index": 2, "text": "Grüße 🐝"}),
        done(2, text_item("Grüße 🐝")),
        added(3, call("a", "")),
        added(4, reasoning("rs_2")),
        done(4, reasoning("rs_2")),
        added(5, call("b", "")),
        delta("function_call_arguments", 3, "{\"city\":"),
        delta("function_call_arguments", 5, "{\"city\""),
        delta("function_call_arguments", 3, "\"Ulm\"}"),
        delta("function_call_arguments", 5, ":\"Bonn\"}"),
        json!({"type": "response.function_call_arguments.done", "output_index": 3, "arguments": "{\"city\":\"Ulm\"}"}),
        done(3, call("a", "{\"city\":\"Ulm\"}")),
        done(5, call("b", "{\"city\":\"Bonn\"}")),
        completed(json!([
            search(),
            reasoning("rs_1"),
            text_item("Grüße 🐝"),
            call("a", "{\"city\":\"Ulm\"}"),
            reasoning("rs_2"),
            call("b", "{\"city\":\"Bonn\"}"),
        ])),
    ]
}

#[test]
fn responses_decoder_keeps_every_part_of_an_answer() {
    insta::assert_json_snapshot!(decoded(&complete_answer()).expect("an answer"));
}

proptest! {
    #[test]
    fn responses_decoding_does_not_depend_on_stream_framing(
        pieces in equivalent_bodies(EventFraming::ServerSentEvents, body(&complete_answer())),
    ) {
        let pieces = pieces.iter().map(Vec::as_slice);
        let answer = decode_pieces(&format(), "openai", pieces).expect("an answer");
        prop_assert_eq!(answer, decoded(&complete_answer()).expect("an answer"));
    }

    #[test]
    fn fewer_events_give_the_same_answer(kept in prop::collection::vec(any::<bool>(), 27)) {
        let mut events = complete_answer();
        let last = events.pop().expect("an event");
        let is_piece = |event: &Value| event["type"].as_str().is_some_and(|kind| kind.ends_with(".delta"));
        let mut kept = kept.into_iter().chain(std::iter::repeat(true));
        // Complete events may be missing, but not single deltas.
        events.retain(|event| is_piece(event) || kept.next() == Some(true));
        events.push(last);
        let answer = decoded(&events).expect("an answer");
        prop_assert_eq!(answer, decoded(&complete_answer()).expect("an answer"));
    }
}

#[test]
fn the_completed_response_alone_is_an_answer() {
    let last = complete_answer().pop().expect("an event");
    let whole = decoded(&complete_answer()).expect("an answer");
    assert_eq!(
        decoded(std::slice::from_ref(&last)).ok(),
        Some(whole.clone())
    );
    // A server that ignores `stream` sends the response itself.
    assert_eq!(decoded(&[last["response"].clone()]).ok(), Some(whole));
}

#[test]
fn reasoning_of_the_complete_response_precedes_its_call() {
    let item = call("a", "{}");
    let parts = parts(&[
        added(0, item.clone()),
        done(0, item.clone()),
        completed(json!([reasoning("rs_1"), item])),
    ]);
    assert!(
        matches!(parts[0], MessagePart::Reasoning { .. }),
        "{parts:?}"
    );
    assert!(matches!(parts[1], MessagePart::ToolCall(_)), "{parts:?}");
    assert_eq!(parts.len(), 2);
}

#[test]
fn item_ids_and_indexes_may_be_missing_or_inconsistent() {
    let text = |events: &[Value]| match parts(events).as_slice() {
        [MessagePart::Text { text, .. }] => text.clone(),
        other => panic!("{other:?}"),
    };
    let bare = json!({"type": "response.output_text.delta", "delta": "a"});
    let thin = json!({"type": "response.completed", "response": {"id": "r"}});
    assert_eq!(text(&[bare.clone(), bare.clone(), thin.clone()]), "aa");
    assert_eq!(
        text(&[bare.clone(), done(0, text_item("ab")), thin.clone()]),
        "ab"
    );
    assert_eq!(
        text(&[bare.clone(), completed(json!([text_item("ab")]))]),
        "ab"
    );
    // Every event has another item id.
    let with_id = |id: &str| json!({"type": "response.output_text.delta", "output_index": 0, "item_id": id, "delta": "a"});
    let events = [
        added(0, json!({"id": "w", "type": "message"})),
        with_id("x"),
        with_id("y"),
        done(
            0,
            json!({"id": "z", "type": "message", "content": [{"type": "output_text", "text": "aa"}]}),
        ),
        completed(json!([{"id": "q", "type": "message", "content": "aa"}])),
    ];
    assert_eq!(text(&events), "aa");
    // Two calls have the same output index.
    let calls = [
        added(0, call("a", "")),
        added(0, call("b", "")),
        json!({"type": "response.function_call_arguments.delta", "output_index": 0, "item_id": "fc_a", "delta": "{\"n\":1}"}),
        json!({"type": "response.function_call_arguments.delta", "output_index": 0, "item_id": "fc_b", "delta": "{\"n\":2}"}),
        done(0, call("a", "{\"n\":1}")),
        done(0, call("b", "{\"n\":2}")),
        completed(json!([call("a", "{\"n\":1}"), call("b", "{\"n\":2}")])),
    ];
    let inputs: Vec<Value> = parts(&calls).iter().filter_map(input).collect();
    assert_eq!(inputs, [json!({"n": 1}), json!({"n": 2})]);
}

fn input(part: &MessagePart) -> Option<Value> {
    match part {
        MessagePart::ToolCall(call) => Some(call.input.clone()),
        _ => None,
    }
}

#[test]
fn call_arguments_and_names_may_arrive_in_the_last_event() {
    let late = |arguments: Value| {
        let mut item = call("a", "");
        item["arguments"] = arguments;
        parts(&[added(0, call("a", "")), done(0, item), completed(json!([]))])
    };
    for arguments in [json!("{\"n\":1}"), json!({"n": 1})] {
        assert_eq!(input(&late(arguments)[0]), Some(json!({"n": 1})));
    }
    assert_eq!(input(&late(json!(""))[0]), Some(json!({})));
    // The name arrives in the last event.
    let nameless = [
        delta("function_call_arguments", 0, "{\"n\":1}"),
        done(0, call("a", "{\"n\":1}")),
        completed(json!([])),
    ];
    let MessagePart::ToolCall(call) = &parts(&nameless)[0] else {
        panic!("a call")
    };
    assert_eq!(
        (call.tool_call_id.as_str(), call.tool_name.as_str()),
        ("a", "weather__now")
    );
}

fn finish(kind: &str, response: Value) -> Result<CompletedAnswer, ProviderError> {
    let event = json!({"type": format!("response.{kind}"), "response": response});
    decoded(&[delta("output_text", 0, "half"), event])
}

#[test]
fn responses_statuses_are_classified() {
    let cut = |details: Value| {
        let answer = finish(
            "incomplete",
            json!({"incomplete_details": details, "output": []}),
        );
        answer.map(|answer| answer.finish_reason)
    };
    let length = Some(ModelFinishReason::Length);
    assert_eq!(cut(json!({"reason": "max_output_tokens"})).ok(), length);
    assert_eq!(cut(json!(null)).ok(), length);
    let filtered = cut(json!({"reason": "content_filter"}));
    assert!(
        matches!(filtered, Err(ProviderError::Declined { .. })),
        "{filtered:?}"
    );
    for kind in ["cancelled", "failed"] {
        let failed = finish(kind, json!({"status": kind, "error": null}));
        assert!(
            matches!(failed, Err(ProviderError::Failed { .. })),
            "{failed:?}"
        );
    }
    // Without an event type, the status of the response is used.
    let response = json!({"object": "response", "status": "incomplete",
        "incomplete_details": {"reason": "max_output_tokens"}, "output": [text_item("half")]});
    let answer = decoded(&[response]).expect("an answer");
    assert_eq!(Some(answer.finish_reason), length);
    let done = finish("done", json!({})).expect("an answer");
    assert_eq!(done.finish_reason, ModelFinishReason::Stop);
}

#[test]
fn responses_errors_are_found_in_every_shape() {
    let reported = |result: Result<CompletedAnswer, ProviderError>| match result {
        Err(ProviderError::Reported(error)) => (error.status, error.message),
        other => panic!("{other:?}"),
    };
    for (code, status) in [("server_error", 500), ("rate_limit_exceeded", 429)] {
        let error = json!({"code": code, "message": "Sorry."});
        let failed = finish("failed", json!({"status": "failed", "error": error}));
        assert_eq!(reported(failed), (Some(status), "Sorry.".to_owned()));
        let error = json!({"type": "error", "code": code, "message": "Sorry.", "param": null});
        assert_eq!(
            reported(decoded(&[error])),
            (Some(status), "Sorry.".to_owned())
        );
    }
    for event in [
        json!({"type": "error", "error": {"type": "server_error", "message": "Sorry."}}),
        json!({"error": {"code": 500, "message": "Sorry."}}),
        json!({"object": "error", "code": 500, "message": "Sorry."}),
    ] {
        assert_eq!(
            reported(decoded(&[event])),
            (Some(500), "Sorry.".to_owned())
        );
    }
    let named = "event: error\ndata: {\"code\":503,\"message\":\"Busy.\"}\n\n";
    let error = decode_stream(&format(), "openai", named.as_bytes());
    assert_eq!(reported(error), (Some(503), "Busy.".to_owned()));
    let filtered = decoded(&[json!({"type": "error", "code": "content_filter", "message": "No."})]);
    assert!(
        matches!(filtered, Err(ProviderError::Declined { .. })),
        "{filtered:?}"
    );
}

#[test]
fn a_responses_stream_without_a_final_event_fails() {
    let half = [delta("output_text", 0, "half")];
    assert!(decoded(&half).is_err());
    let with_done = body(&half) + "data: [DONE]\n\n";
    assert!(decode_stream(&format(), "openai", with_done.as_bytes()).is_ok());
}

#[test]
fn event_lines_give_the_type_of_events_without_a_type_field() {
    let text = "event: response.output_text.delta\ndata: {\"delta\":\"a\\ud83d\"}\n\n\
        event: response.completed\ndata: {\"response\":{}}\n\n";
    let answer = decode_stream(&format(), "openai", text.as_bytes()).expect("an answer");
    assert_eq!(answer.parts, [MessagePart::text("a\u{fffd}")]);
}

#[test]
fn responses_refusals_keep_the_explanation() {
    let item =
        json!({"type": "message", "content": [{"type": "refusal", "refusal": "I can't help."}]});
    let words = |events: &[Value]| match decoded(events) {
        Err(ProviderError::Declined { explanation, .. }) => explanation,
        other => panic!("{other:?}"),
    };
    let end = completed(json!([item]));
    assert_eq!(words(std::slice::from_ref(&end)), "I can't help.");
    let pieces = [
        delta("refusal", 0, "I can't "),
        delta("refusal", 0, "help."),
        done(0, item),
        end,
    ];
    assert_eq!(words(&pieces), "I can't help.");
}

#[test]
fn responses_malformed_events_are_ignored() {
    let malformed = [
        json!([1, 2]),
        json!(3),
        json!({}),
        json!({"type": "response.unknown", "delta": 3}),
        json!({"type": "keepalive", "sequence_number": 3}),
        json!({"type": "response.output_item.added"}),
        json!({"type": "response.output_item.added", "item": {"type": "image_generation_call"}}),
        json!({"type": "response.output_text.delta", "delta": null}),
        json!({"type": "response.content_part.done", "part": 3}),
        json!({"type": "response.output_text.annotation.added", "annotation": {}}),
    ];
    for event in malformed {
        let events = [
            event.clone(),
            delta("output_text", 0, "a"),
            completed(json!(null)),
        ];
        assert_eq!(parts(&events), [MessagePart::text("a")], "{event}");
    }
}

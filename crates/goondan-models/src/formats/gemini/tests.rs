use goondan_core::message::{MessagePart, MessageRole, ToolCall};
use goondan_core::ports::model::{CompletedAnswer, ModelFinishReason, TokenUsage};
use goondan_spec::kinds::{ModelParams, ReasoningEffort};
use proptest::prelude::*;
use reqwest::header::{AUTHORIZATION, HeaderMap};
use serde_json::{Value, json};

use super::GeminiFormat;
use crate::errors::ProviderError;
use crate::formats::test_bodies::{body_of, conversation, model_target};
use crate::formats::{EventFraming, RequestContext, WireFormat};
use crate::testing::{decode_pieces, decode_stream, equivalent_bodies, message, request};

const PLACEHOLDER: &str = "skip_thought_signature_validator";

fn format(model: &str) -> GeminiFormat {
    GeminiFormat::new(model_target("google", model))
}

fn newest_format() -> GeminiFormat {
    format("gemini-3-pro-preview")
}

fn body(events: &[Value]) -> String {
    let events = events.iter().map(|event| format!("data: {event}\n\n"));
    events.collect()
}

fn decoded(events: &[Value]) -> Result<CompletedAnswer, ProviderError> {
    decode_stream(&newest_format(), "google", body(events).as_bytes())
}

fn answer_parts(events: &[Value]) -> Vec<MessagePart> {
    decoded(events).expect("an answer").parts
}

fn parts(parts: Value) -> Value {
    json!({"candidates": [{"content": {"role": "model", "parts": parts}, "index": 0}]})
}

fn finish(reason: &str) -> Value {
    json!({"candidates": [{"finishReason": reason, "finishMessage": "Words.", "index": 0}]})
}

fn call(city: &str) -> Value {
    json!({"functionCall": {"name": "weather__now", "args": {"city": city}}})
}

fn signed(mut part: Value, signature: &str) -> Value {
    part["thoughtSignature"] = signature.into();
    part
}

/// A complete answer: thoughts, generated code, text, two parallel calls (the first one has a
/// signature), usage.
fn complete_answer() -> Vec<Value> {
    vec![
        json!({"usageMetadata": {"promptTokenCount": 9, "totalTokenCount": 9}, "responseId": "r"}),
        parts(json!([{"text": "I ", "thought": true}])),
        parts(json!([{"text": "look.", "thought": true}])),
        parts(json!([signed(
            json!({"text": "Signed.", "thought": true}),
            "S0"
        )])),
        parts(json!([{"executableCode": {"language": "PYTHON", "code": "1"}}, {"text": "Grüße "}])),
        parts(json!([{"text": "🐝"}, signed(json!({"text": "!"}), "S1")])),
        parts(json!([signed(call("Ulm"), "S2"), call("Bonn")])),
        parts(json!([signed(json!({"text": ""}), "S3")])),
        json!({"candidates": [{"finishReason": "STOP"}], "usageMetadata": {"promptTokenCount": 9,
            "toolUsePromptTokenCount": 1, "candidatesTokenCount": 4, "thoughtsTokenCount": 5,
            "cachedContentTokenCount": 3, "totalTokenCount": 19}}),
    ]
}

#[test]
fn gemini_decoder_keeps_every_part_of_an_answer() {
    insta::assert_json_snapshot!(decoded(&complete_answer()).expect("an answer"));
}

#[test]
fn a_whole_answer_returns_to_its_provider() {
    insta::assert_json_snapshot!(body_of(
        newest_format(),
        conversation(answer_parts(&complete_answer()))
    ));
}

#[test]
fn another_provider_receives_no_opaque_data() {
    let other = GeminiFormat::new(model_target("vertex", "gemini-3-pro-preview"));
    insta::assert_json_snapshot!(body_of(
        other,
        conversation(answer_parts(&complete_answer()))
    ));
}

proptest! {
    #[test]
    fn gemini_decoding_does_not_depend_on_stream_framing(
        pieces in equivalent_bodies(EventFraming::ServerSentEvents, body(&complete_answer())),
    ) {
        let pieces = pieces.iter().map(Vec::as_slice);
        let answer = decode_pieces(&newest_format(), "google", pieces).expect("an answer");
        prop_assert_eq!(answer, decoded(&complete_answer()).expect("an answer"));
    }
}

#[test]
fn a_json_list_of_all_gemini_events_is_an_answer() {
    let list = Value::Array(complete_answer());
    assert_eq!(decoded(&[list]).ok(), decoded(&complete_answer()).ok());
}

#[test]
fn calls_may_lack_ids_and_arguments() {
    let bare = json!({"functionCall": {"name": "t__x", "id": "", "args": null}});
    let other = json!({"functionCall": {"name": "t__x", "id": "g1"}});
    let found = answer_parts(&[
        parts(json!([bare])),
        parts(json!([other, bare])),
        finish("STOP"),
    ]);
    let calls = |part: &MessagePart| match part {
        MessagePart::ToolCall(call) => Some((call.tool_call_id.clone(), call.input.clone())),
        _ => None,
    };
    let calls: Vec<_> = found.iter().filter_map(calls).collect();
    let expected = ["call_1", "g1", "call_3"].map(|id| (id.to_owned(), json!({})));
    assert_eq!(calls, expected);
}

#[test]
fn gemini_finish_reasons_are_classified() {
    let text = || parts(json!([{"text": "half"}]));
    let reason = |word: &str| decoded(&[text(), finish(word)]).map(|answer| answer.finish_reason);
    let other = ModelFinishReason::Other("OTHER".to_owned());
    assert_eq!(reason("STOP").ok(), Some(ModelFinishReason::Stop));
    assert_eq!(reason("MAX_TOKENS").ok(), Some(ModelFinishReason::Length));
    assert_eq!(reason("OTHER").ok(), Some(other));
    for declined in [
        "SAFETY",
        "RECITATION",
        "PROHIBITED_CONTENT",
        "SPII",
        "BLOCKLIST",
    ] {
        let Err(ProviderError::Declined {
            reason,
            explanation,
        }) = reason(declined)
        else {
            panic!("{declined}")
        };
        assert_eq!(
            (reason.as_str(), explanation.as_str()),
            (declined, "Words.")
        );
    }
    for failed in ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL"] {
        let Err(ProviderError::Failed {
            reason,
            explanation,
        }) = reason(failed)
        else {
            panic!("{failed}")
        };
        assert_eq!((reason.as_str(), explanation.as_str()), (failed, "Words."));
    }
    // Some servers write an unspecified reason into every event.
    assert!(decoded(&[text(), finish("FINISH_REASON_UNSPECIFIED")]).is_err());
    let events = [
        finish("FINISH_REASON_UNSPECIFIED"),
        text(),
        finish("MAX_TOKENS"),
    ];
    assert_eq!(
        decoded(&events).expect("an answer").finish_reason,
        ModelFinishReason::Length
    );
}

#[test]
fn a_blocked_prompt_is_declined() {
    let feedback = |reason: &str| json!({"blockReason": reason, "blockReasonMessage": "Words."});
    for reason in ["PROHIBITED_CONTENT", "BLOCK_REASON_UNSPECIFIED"] {
        let blocked =
            json!({"promptFeedback": feedback(reason), "usageMetadata": {"promptTokenCount": 5}});
        let Err(ProviderError::Declined {
            reason: found,
            explanation,
        }) = decoded(&[blocked])
        else {
            panic!("{reason}")
        };
        assert_eq!((found.as_str(), explanation.as_str()), (reason, "Words."));
    }
    let mut rated = parts(json!([{"text": "a"}]));
    rated["promptFeedback"] = json!({"safetyRatings": []});
    let mut unspecified = parts(json!([{"text": "b"}]));
    unspecified["promptFeedback"] = feedback("BLOCKED_REASON_UNSPECIFIED");
    assert_eq!(
        answer_parts(&[rated, unspecified, finish("STOP")]),
        [MessagePart::text("ab")]
    );
}

#[test]
fn gemini_errors_are_found_in_objects_and_lists() {
    let error = json!({"error": {"code": 503, "message": "Busy.", "status": "UNAVAILABLE"}});
    for event in [error.clone(), json!([error])] {
        let Err(ProviderError::Reported(found)) = decoded(&[parts(json!([{"text": "a"}])), event])
        else {
            panic!("an error")
        };
        assert_eq!((found.status, found.message.as_str()), (Some(503), "Busy."));
    }
    assert!(decoded(&[parts(json!([{"text": "half"}]))]).is_err());
}

#[test]
fn gemini_usage_after_the_finish_reason_is_read() {
    let usage = json!({"usageMetadata": {"promptTokenCount": 5, "candidatesTokenCount": 2}});
    let answer =
        decoded(&[parts(json!([{"text": "a"}])), finish("STOP"), usage]).expect("an answer");
    let expected = TokenUsage {
        prompt_tokens: 5,
        completion_tokens: 2,
        total_tokens: 7,
        ..TokenUsage::default()
    };
    assert_eq!(answer.usage, Some(expected));
}

#[test]
fn gemini_malformed_events_are_ignored() {
    let malformed = [
        json!([1, 2]),
        json!(3),
        json!({}),
        json!({"candidates": []}),
        json!({"candidates": [7]}),
        json!({"candidates": [{"content": {}}]}),
        json!({"candidates": [{"content": {"parts": null}, "finishReason": ""}]}),
        parts(json!([{}, 3, {"text": ""}, {"thought": true}, {"text": null}])),
        json!({"usageMetadata": {}}),
    ];
    for event in malformed {
        let events = [event.clone(), parts(json!([{"text": "a"}])), finish("STOP")];
        assert_eq!(answer_parts(&events), [MessagePart::text("a")], "{event}");
    }
    let half = "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"a\\ud83d\"}]},\"finishReason\":\"STOP\"}]}\n\n";
    let answer = decode_stream(&newest_format(), "google", half.as_bytes()).expect("an answer");
    assert_eq!(answer.parts, [MessagePart::text("a\u{fffd}")]);
}

/// Returns the request parts for an answer with `parts`.
fn sent(format: GeminiFormat, parts: Vec<MessagePart>) -> Value {
    let mut request = request("a", "go");
    request.messages = vec![message(MessageRole::Assistant, parts)].into();
    body_of(format, request)["contents"][0]["parts"].clone()
}

#[test]
fn calls_of_other_models_get_a_placeholder_signature() {
    let calls = || {
        vec![
            MessagePart::ToolCall(ToolCall::new("toolu_1", "t__x", json!({}))),
            MessagePart::ToolCall(ToolCall::new("call_2", "t__x", json!({}))),
        ]
    };
    let newer = sent(newest_format(), calls());
    assert_eq!(newer[0]["thoughtSignature"], PLACEHOLDER);
    assert_eq!(newer[1].get("thoughtSignature"), None);
    assert_eq!(newer[0]["functionCall"]["id"], "toolu_1");
    assert_eq!(newer[1]["functionCall"].get("id"), None);
    let older = sent(format("gemini-2.5-flash"), calls());
    assert_eq!(older[0].get("thoughtSignature"), None);
    assert_eq!(older[0]["functionCall"].get("id"), None);
    assert_eq!(
        sent(format("gemini-flash-latest"), calls())[0]["thoughtSignature"],
        PLACEHOLDER
    );
}

#[test]
fn opaque_blocks_of_another_format_are_omitted() {
    let block = json!({"vertex": {"type": "server_tool_use", "id": "x"}});
    let Value::Object(provider_metadata) = block else {
        panic!("an object")
    };
    let parts = vec![
        MessagePart::Opaque { provider_metadata },
        MessagePart::text("a"),
    ];
    let vertex = GeminiFormat::new(model_target("vertex", "gemini-3-flash-preview"));
    assert_eq!(sent(vertex, parts), json!([{"text": "a"}]));
}

#[test]
fn paths_and_keys_follow_the_provider() {
    let found = |provider: &str| {
        let format = GeminiFormat::new(model_target(provider, "gemini-x"));
        let mut headers = HeaderMap::new();
        format
            .add_headers(Some("key"), &mut headers)
            .expect("headers");
        (format.path(), headers)
    };
    let (path, headers) = found("gemini");
    assert_eq!(path, "models/gemini-x:streamGenerateContent?alt=sse");
    assert_eq!(headers["x-goog-api-key"], "key");
    let (path, headers) = found("vertex");
    assert_eq!(
        path,
        "publishers/google/models/gemini-x:streamGenerateContent?alt=sse"
    );
    assert_eq!(headers[AUTHORIZATION], "Bearer key");
    assert_eq!(
        format("models/gemini-x").path(),
        "models/gemini-x:streamGenerateContent?alt=sse"
    );
}

fn config(model: &str, effort: Option<ReasoningEffort>, params: &ModelParams) -> Value {
    let context = RequestContext {
        params,
        effort,
        tools: &[],
        output: None,
        called_tools: &Default::default(),
        open_turn: Default::default(),
    };
    let mut fields = format(model).fields(&context);
    fields.remove("generationConfig").unwrap_or_default()
}

#[test]
fn thinking_follows_the_model() {
    use ReasoningEffort::{High, Low, Medium, Minimal};
    const OFF: Option<ReasoningEffort> = Some(ReasoningEffort::None);
    let thinking =
        |model, effort| config(model, effort, &ModelParams::default())["thinkingConfig"].clone();
    for (model, effort, expected) in [
        (
            "gemini-3-pro-preview",
            None,
            json!({"includeThoughts": true}),
        ),
        (
            "gemini-3-pro-preview",
            Some(High),
            json!({"thinkingLevel": "HIGH", "includeThoughts": true}),
        ),
        (
            "gemini-3-pro-preview",
            Some(Minimal),
            json!({"thinkingLevel": "LOW", "includeThoughts": true}),
        ),
        (
            "gemini-3-flash-preview",
            OFF,
            json!({"thinkingLevel": "MINIMAL"}),
        ),
        (
            "gemini-flash-latest",
            Some(Medium),
            json!({"thinkingLevel": "MEDIUM", "includeThoughts": true}),
        ),
        ("gemini-2.5-flash", None, json!({"includeThoughts": true})),
        (
            "gemini-2.5-flash",
            Some(Low),
            json!({"thinkingBudget": 1000, "includeThoughts": true}),
        ),
        ("gemini-2.5-flash", OFF, json!({"thinkingBudget": 0})),
        ("gemini-2.5-pro", OFF, json!({"thinkingBudget": 128})),
        ("gemini-2.5-flash-lite", None, json!(null)),
        ("gemini-2.5-flash-image", None, json!(null)),
        ("gemini-2.0-flash", None, json!(null)),
        ("my-model", None, json!(null)),
    ] {
        assert_eq!(thinking(model, effort), expected, "{model} {effort:?}");
    }
}

#[test]
fn all_params_are_sent() {
    let params = ModelParams {
        temperature: Some(0.5),
        max_tokens: Some(7),
        top_p: Some(0.9),
        top_k: Some(3),
        stop: vec!["x".to_owned()],
        seed: Some(1),
        presence_penalty: Some(0.1),
        frequency_penalty: Some(0.2),
        reasoning_effort: None,
    };
    let expected = json!({"maxOutputTokens": 7, "temperature": 0.5, "topP": 0.9, "topK": 3, "stopSequences": ["x"],
        "seed": 1, "presencePenalty": 0.1, "frequencyPenalty": 0.2});
    assert_eq!(config("my-model", None, &params), expected);
    assert_eq!(
        config("my-model", None, &ModelParams::default()),
        Value::Null
    );
}

use goondan_core::message::{MessagePart, ToolCall};
use goondan_core::ports::model::{CompletedAnswer, ModelFinishReason, TokenUsage};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{body, call, complete_answer, decoded, end, format_for, piece};
use crate::errors::{ProviderError, read_error_body};
use crate::formats::EventFraming;
use crate::testing::{decode_pieces, decode_stream, equivalent_bodies};

fn calls_of(answer: &CompletedAnswer) -> Vec<(&str, &str, Value)> {
    let calls = answer.parts.iter().filter_map(|part| match part {
        MessagePart::ToolCall(call) => {
            Some((&*call.tool_call_id, &*call.tool_name, call.input.clone()))
        }
        _ => None,
    });
    calls.collect()
}

#[test]
fn ollama_decoder_keeps_every_part_of_an_answer() {
    let answer = decoded(&complete_answer()).expect("an answer");
    let metadata = json!({"ollama": {"field": "thinking"}});
    let reasoning = MessagePart::Reasoning {
        text: "I look.".to_owned(),
        provider_metadata: metadata.as_object().cloned().unwrap_or_default(),
    };
    let calls = [
        MessagePart::ToolCall(ToolCall::new("call_1", "t__x", json!({"n": 1}))),
        MessagePart::ToolCall(ToolCall::new("call_x", "t__y", json!({"m": 2}))),
    ];
    assert_eq!(
        answer.parts[..2],
        [reasoning, MessagePart::text("Grüße 🐝.")]
    );
    assert_eq!(answer.parts[2..], calls);
    assert_eq!(answer.finish_reason, ModelFinishReason::ToolCalls);
    let usage = TokenUsage {
        prompt_tokens: 9,
        completion_tokens: 4,
        total_tokens: 13,
        cached_tokens: 3,
        cache_write_tokens: 0,
    };
    assert_eq!(answer.usage, Some(usage));
}

proptest! {
    #[test]
    fn ollama_decoding_does_not_depend_on_stream_framing(
        pieces in equivalent_bodies(EventFraming::JsonLines, body(&complete_answer())),
    ) {
        let pieces = pieces.iter().map(Vec::as_slice);
        let answer = decode_pieces(&format_for("qwen3"), "ollama", pieces).expect("an answer");
        prop_assert_eq!(answer, decoded(&complete_answer()).expect("an answer"));
    }
}

#[test]
fn ollama_calls_without_ids_are_separate_calls() {
    for index in [None, Some(0)] {
        let mut one = call("t__x", json!({}));
        if let Some(index) = index {
            one["function"]["index"] = index.into();
        }
        let lines = [
            piece(json!({"tool_calls": [one, one]})),
            piece(json!({"tool_calls": [one]})),
            end("stop"),
        ];
        let answer = decoded(&lines).expect("an answer");
        let expected = ["call_1", "call_2", "call_3"].map(|id| (id, "t__x", json!({})));
        assert_eq!(calls_of(&answer), expected);
    }
}

#[test]
fn ollama_call_arguments_are_objects_or_strings() {
    let spellings = [
        json!({"n": 1}),
        json!("{\"n\": 1}"),
        json!("\"{\\\"n\\\": 1}\""),
    ];
    let lines = [
        piece(json!({"tool_calls": spellings.map(|arguments| call("t__x", arguments))})),
        end("stop"),
    ];
    let answer = decoded(&lines).expect("an answer");
    assert_eq!(calls_of(&answer).len(), 3);
    assert!(
        calls_of(&answer)
            .iter()
            .all(|call| call.2 == json!({"n": 1})),
        "{answer:?}"
    );
    let empty = [json!(null), json!(""), json!("{}"), json!("null")];
    let lines = [
        piece(json!({"tool_calls": empty.map(|arguments| call("t__x", arguments))})),
        end("stop"),
    ];
    let answer = decoded(&lines).expect("an answer");
    assert_eq!(calls_of(&answer).len(), 4);
    assert!(
        calls_of(&answer).iter().all(|call| call.2 == json!({})),
        "{answer:?}"
    );
    let cut = [
        json!({"name": "t__x", "arguments": "{\"n\":"}),
        json!({"arguments": " 1}"}),
    ];
    let lines = cut.map(|function| piece(json!({"tool_calls": [{"function": function}]})));
    let answer = decoded(&[&lines[..], &[end("stop")]].concat()).expect("an answer");
    assert_eq!(calls_of(&answer), [("call_1", "t__x", json!({"n": 1}))]);
}

#[test]
fn ollama_done_reasons_are_classified() {
    let reason = |word: &str| decoded(&[piece(json!({"content": "half"})), end(word)]);
    let finish_reason = |word: &str| reason(word).map(|answer| answer.finish_reason).ok();
    assert_eq!(finish_reason("stop"), Some(ModelFinishReason::Stop));
    assert_eq!(finish_reason("length"), Some(ModelFinishReason::Length));
    assert_eq!(finish_reason("load"), Some(ModelFinishReason::Stop));
    assert_eq!(finish_reason(""), Some(ModelFinishReason::Stop));
    assert!(
        matches!(reason("error"), Err(ProviderError::Failed { explanation, .. }) if explanation.is_empty())
    );
}

#[test]
fn an_ollama_answer_that_only_loads_the_model_fails() {
    for word in ["load", "unload"] {
        let failure =
            decoded(&[json!({"message": {"content": ""}, "done": true, "done_reason": word})]);
        let Err(ProviderError::Failed {
            reason,
            explanation,
        }) = failure
        else {
            panic!("{failure:?}")
        };
        assert_eq!(reason, word);
        assert!(explanation.contains("generated nothing"), "{explanation}");
    }
}

#[test]
fn ollama_error_lines_keep_the_message() {
    let explanation = "model requires more system memory (7.5 GiB) than is available (6.0 GiB)";
    let text = piece(json!({"content": "half"}));
    for lines in [
        vec![json!({"error": explanation})],
        vec![text, json!({"error": explanation}), end("stop")],
    ] {
        let failure = decoded(&lines);
        let Err(ProviderError::Reported(error)) = failure else {
            panic!("{failure:?}")
        };
        assert_eq!((error.message.as_str(), error.status), (explanation, None));
    }
    let refused = json!({"error": "registry.ollama.ai/library/gemma:2b does not support tools"});
    assert_eq!(
        read_error_body(&refused).message,
        "registry.ollama.ai/library/gemma:2b does not support tools"
    );
}

#[test]
fn an_ollama_stream_without_a_done_line_fails() {
    for lines in [vec![], vec![piece(json!({"content": "half"}))]] {
        assert!(decoded(&lines).is_err());
    }
    let cut = decode_stream(&format_for("qwen3"), "ollama", b"{\"message\": {\"con");
    assert!(matches!(cut, Err(ProviderError::Unreadable(error)) if error.is_eof()));
}

#[test]
fn a_missing_final_newline_is_accepted_and_lines_after_done_are_ignored() {
    let lines = body(&[piece(json!({"content": "Hi"})), end("stop")]);
    let answer = decode_stream(&format_for("qwen3"), "ollama", lines.trim_end().as_bytes())
        .expect("an answer");
    assert_eq!(answer.parts, [MessagePart::text("Hi")]);
    let after = format!("{lines}{}\nnonsense\n", json!({"error": "late"}));
    let answer =
        decode_stream(&format_for("qwen3"), "ollama", after.as_bytes()).expect("an answer");
    assert_eq!(answer.parts, [MessagePart::text("Hi")]);
}

#[test]
fn ollama_malformed_lines_are_ignored() {
    let malformed = [
        json!(3),
        json!([1]),
        json!({}),
        json!({"message": "x"}),
        json!({"message": {"tool_calls": [1, {}]}}),
        json!({"message": {"content": null, "thinking": null, "tool_calls": null}, "error": null}),
    ];
    let answer = decoded(&[&malformed[..], &complete_answer()].concat()).expect("an answer");
    assert_eq!(answer, decoded(&complete_answer()).expect("an answer"));
}

#[test]
fn missing_ollama_token_counts_are_zero_or_no_usage() {
    let answer = decoded(&[json!({"message": {"content": "a"}, "done": true, "eval_count": 4})])
        .expect("an answer");
    let usage = answer.usage.expect("counts");
    assert_eq!(
        (
            usage.prompt_tokens,
            usage.completion_tokens,
            usage.total_tokens
        ),
        (0, 4, 4)
    );
    let answer = decoded(&[json!({"message": {"content": "a"}, "done": true})]).expect("an answer");
    assert_eq!(answer.usage, None);
}

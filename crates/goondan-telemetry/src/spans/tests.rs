use std::time::Duration;

use goondan_core::JsonObject;
use goondan_core::content_capture::CapturedContent;
use goondan_core::event::UsageCost;
use goondan_core::ids::TraceContext;
use goondan_core::message::MessagePart;
use goondan_core::ports::model::TokenUsage;
use goondan_core::ports::tool::ToolCallStatus;
use serde_json::json;

use super::*;
use crate::otlp::{AttributeValue as Attribute, KeyValue};

fn at(millis: u64) -> DateTime<Utc> {
    DateTime::<Utc>::UNIX_EPOCH + Duration::from_millis(1_000_000 + millis)
}

fn event(millis: u64, trace: &TraceContext, kind: Kind) -> RuntimeEvent {
    RuntimeEvent {
        kind,
        sequence: 1,
        timestamp: at(millis),
        agent_name: "boss".to_owned(),
        instance_key: "k".to_owned(),
        trace: trace.clone(),
    }
}

fn turn() -> TraceContext {
    TraceContext::root("0af7651916cd43dd8448eb211c80319c", None, "t")
}

fn turn_started() -> Kind {
    Kind::TurnStarted {
        turn_id: "t".into(),
        event_id: "e".into(),
        event_type: "user.input".into(),
    }
}

fn turn_completed() -> Kind {
    Kind::TurnCompleted {
        turn_id: "t".into(),
        step_count: 1,
        duration: 30,
        finish_reason: FinishReason::TextResponse,
        model_finish_reason: None,
        token_usage: Some(usage()),
        cost: Some(UsageCost {
            amount: 0.5,
            currency: "EUR".into(),
        }),
    }
}

fn usage() -> TokenUsage {
    TokenUsage {
        prompt_tokens: 10,
        completion_tokens: 5,
        total_tokens: 15,
        cached_tokens: 4,
        cache_write_tokens: 3,
    }
}

fn model_completed() -> Kind {
    let call = ShownModelCall {
        step_id: Some("t-step-0".into()),
        provider: "xai".into(),
        model: "big".into(),
        started_at: at(10),
        duration: 5,
        time_to_first_token: Some(2),
        retries: 1,
        finish_reason: Some(ModelFinishReason::Stop),
        token_usage: Some(usage()),
        cost: None,
        context: None,
        said: None,
    };
    Kind::ModelCompleted {
        turn_id: "t".into(),
        call: Box::new(call),
    }
}

fn tool_called() -> Kind {
    Kind::ToolCalled {
        tool_call_id: "c".into(),
        tool_name: "bash__exec".into(),
        step_id: "t-step-0".into(),
        turn_id: "t".into(),
        arguments: json!({"command": "ls"}),
        is_cut: false,
    }
}

fn tool_completed(error: Option<ShownError>) -> Kind {
    Kind::ToolCompleted {
        tool_call_id: "c".into(),
        tool_name: "bash__exec".into(),
        step_id: "t-step-0".into(),
        turn_id: "t".into(),
        status: if error.is_some() {
            ToolCallStatus::Error
        } else {
            ToolCallStatus::Ok
        },
        duration: 3,
        shown: Box::new(ShownResult {
            output: json!("a file"),
            error,
            ..ShownResult::default()
        }),
    }
}

fn value(attributes: &[KeyValue], key: &str) -> Option<Attribute> {
    let mut found = attributes.iter().filter(|attribute| attribute.key == key);
    let first = found.next()?.value.clone()?.value;
    assert!(found.next().is_none(), "{key} occurs twice");
    first
}

fn text(span: &OtlpSpan, key: &str) -> String {
    match value(&span.attributes, key) {
        Some(Attribute::Text(text)) => text,
        other => panic!("{key} is {other:?}"),
    }
}

#[test]
fn a_turn_span_has_its_first_model_and_a_model_span_is_in_its_step() {
    let mut assembler = SpanAssembler::new(false);
    let step = turn().child("t-step-0");
    let started = Kind::StepStarted {
        step_id: "t-step-0".into(),
        step_index: 0,
        turn_id: "t".into(),
    };
    let completed = Kind::StepCompleted {
        step_id: "t-step-0".into(),
        step_index: 0,
        turn_id: "t".into(),
        tool_call_count: 0,
        duration: 9,
        token_usage: None,
    };
    assert!(assembler.note(&event(0, &turn(), turn_started())).is_none());
    assert!(assembler.note(&event(9, &step, started)).is_none());
    let chat = assembler
        .note(&event(15, &step.child("model"), model_completed()))
        .unwrap();
    let step = assembler.note(&event(20, &step, completed)).unwrap();
    let turn = assembler
        .note(&event(30, &turn(), turn_completed()))
        .unwrap();

    assert_eq!(
        (chat.name.as_str(), chat.kind),
        ("chat big", SpanKind::Client as i32)
    );
    assert_eq!(
        (chat.start_time_unix_nano, chat.end_time_unix_nano),
        (unix_nanos(at(10)), unix_nanos(at(15)))
    );
    assert_eq!(
        (&chat.parent_span_id, &step.parent_span_id),
        (&step.span_id, &turn.span_id)
    );
    assert_eq!(text(&chat, "gen_ai.provider.name"), "x_ai");
    assert_eq!(
        value(&chat.attributes, "gen_ai.response.time_to_first_chunk"),
        Some(Attribute::Double(0.002))
    );
    assert_eq!(
        value(&chat.attributes, "gen_ai.usage.cache_read.input_tokens"),
        Some(Attribute::Int(4))
    );
    assert_eq!(
        value(&chat.attributes, "gen_ai.usage.cache_creation.input_tokens"),
        Some(Attribute::Int(3))
    );

    assert_eq!(
        (
            turn.trace_id.len(),
            turn.span_id.len(),
            turn.parent_span_id.len()
        ),
        (16, 8, 0)
    );
    assert_eq!(
        (
            text(&turn, "gen_ai.provider.name"),
            text(&turn, "gen_ai.request.model")
        ),
        ("x_ai".into(), "big".into())
    );
    assert_eq!(text(&turn, "gen_ai.conversation.id"), "boss:k");
    assert_eq!(
        value(&turn.attributes, "goondan.cost.amount"),
        Some(Attribute::Double(0.5))
    );
    assert!(turn.status.is_none());
    assert!(assembler.open.is_empty());
}

#[test]
fn a_failed_tool_span_has_an_error_code_and_approval_events() {
    let mut assembler = SpanAssembler::new(false);
    let tool = turn().child("tool");
    let (approval_id, tool_call_id, tool_name) =
        ("a".to_owned(), "c".to_owned(), "bash__exec".to_owned());
    assembler.note(&event(0, &tool, tool_called()));
    let requested = Kind::ApprovalRequested {
        approval_id: approval_id.clone(),
        tool_call_id: tool_call_id.clone(),
        tool_name: tool_name.clone(),
    };
    let answer = "deny".to_owned();
    let resolved = Kind::ApprovalResolved {
        approval_id,
        tool_call_id,
        tool_name,
        answer,
        scope: None,
        covers: None,
    };
    assembler.note(&event(1, &tool, requested));
    assembler.note(&event(2, &tool, resolved));
    let error = ShownError {
        code: "E_TOOL_DENIED".into(),
        message: "no".into(),
    };
    let span = assembler
        .note(&event(3, &tool, tool_completed(Some(error))))
        .unwrap();
    assert_eq!(text(&span, "error.type"), "E_TOOL_DENIED");
    assert_eq!(
        span.status,
        Some(SpanStatus {
            message: "no".into(),
            code: SpanStatus::ERROR_CODE
        })
    );
    let events: Vec<_> = span
        .events
        .iter()
        .map(|event| event.name.as_str())
        .collect();
    assert_eq!(
        events,
        ["goondan.approval.requested", "goondan.approval.resolved"]
    );
    assert_eq!(
        value(&span.events[1].attributes, "goondan.approval.answer"),
        Some(Attribute::Text("deny".into()))
    );
}

/// Returns the finish reasons in the span of a model call.
fn finish_reasons(
    change: impl FnOnce(&mut ShownModelCall),
    is_declined: bool,
) -> Option<Vec<String>> {
    let Kind::ModelCompleted { turn_id, mut call } = model_completed() else {
        unreachable!("`model_completed` returns `ModelCompleted`");
    };
    change(&mut call);
    let kind = if is_declined {
        Kind::ModelFailed {
            turn_id,
            error_message: "No.".into(),
            error_code: Code::MODEL_DECLINED.to_string(),
            call,
        }
    } else {
        Kind::ModelCompleted { turn_id, call }
    };
    let span = SpanAssembler::new(true)
        .note(&event(15, &turn().child("model"), kind))
        .unwrap();
    let Attribute::Array(reasons) = value(&span.attributes, "gen_ai.response.finish_reasons")?
    else {
        panic!("the reasons are a list");
    };
    let text = |value: Option<Attribute>| match value {
        Some(Attribute::Text(text)) => text,
        other => panic!("{other:?}"),
    };
    Some(
        reasons
            .values
            .into_iter()
            .map(|value| text(value.value))
            .collect(),
    )
}

#[test]
fn a_model_call_span_has_the_finish_reason() {
    let cases = [
        (ModelFinishReason::Stop, "stop"),
        (ModelFinishReason::ToolCalls, "tool_calls"),
        (ModelFinishReason::Length, "length"),
        (ModelFinishReason::ContextWindow, "length"),
        (ModelFinishReason::Pause, "pause"),
        (ModelFinishReason::Other("odd".into()), "odd"),
    ];
    for (reason, name) in cases {
        let reasons = finish_reasons(|call| call.finish_reason = Some(reason), false);
        assert_eq!(reasons.unwrap(), [name]);
    }
    let declined = finish_reasons(|call| call.finish_reason = None, true);
    assert_eq!(declined.unwrap(), ["content_filter"]);
    assert_eq!(
        finish_reasons(|call| call.finish_reason = None, false),
        None
    );
}

#[test]
fn reasoning_is_a_separate_message_part() {
    let content = CapturedContent {
        output: vec![
            MessagePart::reasoning("why"),
            MessagePart::Opaque {
                provider_metadata: JsonObject::new(),
            },
            MessagePart::text("because"),
        ],
        ..CapturedContent::default()
    };
    let mut attributes = SpanAttributes::default();
    message_attributes::add_content(&mut attributes, &content, Some("length"));
    let Some(Attribute::Text(output)) =
        value(&attributes.into_key_values(), "gen_ai.output.messages")
    else {
        panic!("there is an output");
    };
    let output: Value = serde_json::from_str(&output).unwrap();
    let parts = json!([
        {"type": "reasoning", "content": "why"},
        {"type": "text", "content": "because"},
    ]);
    assert_eq!(
        output,
        json!([{"role": "assistant", "parts": parts, "finish_reason": "length"}])
    );
}

#[test]
fn content_is_exported_only_if_enabled() {
    let tool = turn().child("tool");
    for content in [false, true] {
        let mut assembler = SpanAssembler::new(content);
        assembler.note(&event(0, &tool, tool_called()));
        let span = assembler
            .note(&event(3, &tool, tool_completed(None)))
            .unwrap();
        let arguments = value(&span.attributes, "gen_ai.tool.call.arguments");
        assert_eq!(
            arguments,
            content.then(|| Attribute::Text(r#"{"command":"ls"}"#.into()))
        );
        assert_eq!(
            value(&span.attributes, "gen_ai.tool.call.result").is_some(),
            content
        );
    }
}

#[test]
fn a_span_without_a_start_event_starts_its_duration_before_the_end() {
    let span = SpanAssembler::new(false)
        .note(&event(40, &turn(), turn_completed()))
        .unwrap();
    assert_eq!(
        (span.start_time_unix_nano, span.end_time_unix_nano),
        (unix_nanos(at(10)), unix_nanos(at(40)))
    );
}

#[test]
fn a_turn_that_starts_twice_keeps_the_first_start_time() {
    let mut assembler = SpanAssembler::new(false);
    assembler.note(&event(0, &turn(), turn_started()));
    assembler.note(&event(20, &turn(), turn_started()));
    let span = assembler
        .note(&event(40, &turn(), turn_completed()))
        .unwrap();
    assert_eq!(span.start_time_unix_nano, unix_nanos(at(0)));
    assert_eq!(text(&span, "goondan.event.id"), "e");
}

#[test]
fn the_older_half_of_the_open_spans_is_dropped_at_the_limit() {
    let mut assembler = SpanAssembler::new(false);
    for millis in 0..=MAX_OPEN_SPANS as u64 {
        assembler.note(&event(
            millis,
            &turn().child(&millis.to_string()),
            turn_started(),
        ));
    }
    assert!(
        assembler.open.len() <= MAX_OPEN_SPANS / 2 + 1,
        "{}",
        assembler.open.len()
    );
}

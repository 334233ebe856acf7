mod filter;

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::json;

use self::filter::streamed;
use super::*;

fn tools() -> Arc<[ToolDefinition]> {
    let tool = |name: &str, properties: Value| ToolDefinition {
        name: name.to_owned(),
        description: String::new(),
        parameters: json!({"type": "object", "properties": properties, "$defs": {"list": {"type": "array"}}}),
    };
    let typed = json!({
        "city": {"type": "string"}, "days": {"type": "integer"}, "exact": {"type": "boolean"},
        "places": {"$ref": "#/$defs/list"}, "unit": {"type": ["string", "null"]},
        "box": {"anyOf": [{"type": "object"}, {"type": "null"}]}, "factor": {"type": "number"},
    });
    Arc::from([
        tool("weather__now", typed),
        tool("fs__write", json!({"text": {"type": "string"}})),
    ])
}

fn answer(parts: Vec<MessagePart>) -> CompletedAnswer {
    CompletedAnswer {
        parts,
        ..CompletedAnswer::default()
    }
}

fn extracted(answer: CompletedAnswer) -> CompletedAnswer {
    extract_calls(answer, &tools(), &mut CallIds::new(&HashSet::new()))
}

fn call(number: u32, name: &str, input: Value) -> MessagePart {
    MessagePart::ToolCall(ToolCall::new(format!("call_{number}"), name, input))
}

/// Asserts that `text` becomes `parts`, and that streaming by character shows the same text.
fn assert_parts(text: &str, parts: &[MessagePart]) {
    let whole = answer(vec![MessagePart::text(text)]);
    assert_eq!(extracted(whole.clone()).parts, parts, "{text}");
    let characters: Vec<&str> = text.split_inclusive(|_: char| true).collect();
    assert_eq!(streamed(&characters), readable(&extracted(whole)), "{text}");
}

fn assert_is_text(text: &str) {
    assert_parts(text, &[MessagePart::text(text)]);
}

/// Returns the reasoning and the text of an answer.
fn readable(answer: &CompletedAnswer) -> (String, String) {
    let reasoning = answer.parts.iter().filter_map(|part| match part {
        MessagePart::Reasoning { text, .. } => Some(text.as_str()),
        _ => None,
    });
    (
        reasoning.collect(),
        answer
            .parts
            .iter()
            .filter_map(MessagePart::as_text)
            .collect(),
    )
}

#[test]
fn hermes_calls_are_recovered() {
    let weather = call(1, "weather__now", json!({"city": "Ulm"}));
    for text in [
        r#"<tool_call>{"name": "weather__now", "arguments": {"city": "Ulm"}}</tool_call>"#,
        "\n<tool_call>\n{\"name\": \"weather__now\", \"parameters\": {\"city\": \"Ulm\"}}\n</tool_call>\n",
        r#"<tool_call> {"arguments": "{\"city\": \"Ulm\"}", "name": "weather__now"}"#,
    ] {
        assert_parts(text, std::slice::from_ref(&weather));
    }
    let two = r#"I look. <tool_call>{"name": "weather__now", "arguments": {"city": "Ulm"}}</tool_call>
<tool_call>{"name": "fs__write", "arguments": {"text": "</tool_call> {"}}</tool_call> Done."#;
    let write = call(2, "fs__write", json!({"text": "</tool_call> {"}));
    assert_parts(
        two,
        &[
            MessagePart::text("I look."),
            weather.clone(),
            write,
            MessagePart::text(" Done."),
        ],
    );
    let unclosed = r#"<tool_call>{"name":"weather__now","arguments":{"city":"Ulm"}}
{"name":"fs__write","arguments":{}}<tool_call>{"name":"fs__write"}"#;
    let writes = [2, 3].map(|number| call(number, "fs__write", json!({})));
    assert_parts(unclosed, &[vec![weather], writes.to_vec()].concat());
}

#[test]
fn text_calls_with_parameter_tags_are_extracted() {
    let input = json!({"city": "Ulm", "days": 3, "exact": true, "places": ["a"], "unit": null, "box": {"x": 1},
        "factor": 0.5, "other": "5"});
    let values = [
        ("city", "Ulm"),
        ("days", "3"),
        ("exact", "True"),
        ("places", "[\"a\"]"),
        ("unit", "null"),
        ("box", "{\"x\": 1}"),
        ("factor", " 0.5 "),
        ("other", "5"),
    ];
    let tags = |open: &str, middle: &str| -> String {
        let tag = |(key, value)| format!("\n{open}{key}{middle}>\n{value}\n</parameter>");
        values.into_iter().map(tag).collect()
    };
    let function = format!(
        "<function=weather__now>{}\n</function>",
        tags("<parameter=", "")
    );
    let invoke = format!(
        "<invoke name=\"weather__now\">{}</invoke>",
        tags("<parameter name=\"", "\"")
    );
    let expected = [call(1, "weather__now", input)];
    for text in [
        function.clone(),
        format!("<tool_call>\n{function}\n</tool_call>"),
        format!("{function}\n</tool_call>"),
        function.replace("\n</function>", ""),
        format!(
            "<tool_call>{}</tool_call>",
            function.replace("</function>", "")
        ),
        invoke.clone(),
        format!("<function_calls>\n{invoke}\n</function_calls>"),
        format!("<minimax:tool_call>{invoke}"),
        format!("<function_calls>{invoke}</function_calls>")
            .replace("</", "\u{1}")
            .replace('<', concat!("<", "antml:"))
            .replace('\u{1}', concat!("</", "antml:")),
    ] {
        assert_parts(&text, &expected);
    }
}

#[test]
fn parameter_values_keep_whitespace_and_tags() {
    for (value, expected) in [
        ("a", "a"),
        (" a\n", " a\n"),
        ("\n a\nb\n\n", " a\nb\n"),
        (
            "</parameter> &lt; </function>",
            "</parameter> &lt; </function>",
        ),
        ("", ""),
        ("5", "5"),
    ] {
        let text = format!("<function=fs__write><parameter=text>{value}</parameter></function>");
        assert_parts(&text, &[call(1, "fs__write", json!({"text": expected}))]);
    }
    let wrong_type =
        "<invoke name='weather__now'><parameter type='x' name='days'>soon</parameter></invoke>";
    assert_parts(
        wrong_type,
        &[call(1, "weather__now", json!({"days": "soon"}))],
    );
}

#[test]
fn mistral_and_llama_calls_are_recovered() {
    let weather = |number| call(number, "weather__now", json!({"city": "Ulm"}));
    for text in [
        r#"[TOOL_CALLS]weather__now[ARGS]{"city": "Ulm"}"#,
        r#"[TOOL_CALLS]weather__now{"city": "Ulm"}"#,
        r#"[TOOL_CALLS] weather__now[CALL_ID]abc[ARGS] {"city": "Ulm"} "#,
        r#"[TOOL_CALLS] [{"name": "weather__now", "arguments": {"city": "Ulm"}}]"#,
        r#"[TOOL_CALLS]{"name": "weather__now", "arguments": {"city": "Ulm"}}[/TOOL_CALLS]"#,
        r#"<|python_tag|>{"name": "weather__now", "parameters": {"city": "Ulm"}}"#,
    ] {
        assert_parts(text, &[weather(1)]);
    }
    for text in [
        r#"[TOOL_CALLS]weather__now[ARGS]{"city":"Ulm"}[TOOL_CALLS]weather__now[ARGS]{"city":"Ulm"}"#,
        r#"[TOOL_CALLS][{"name":"weather__now","arguments":{"city":"Ulm"}},{"name":"weather__now","arguments":{"city":"Ulm"}}]"#,
        r#"<|python_tag|>{"name":"weather__now","parameters":{"city":"Ulm"}}; {"name":"weather__now","parameters":{"city":"Ulm"}}"#,
    ] {
        assert_parts(text, &[weather(1), weather(2)]);
    }
}

#[test]
fn text_without_a_valid_call_is_not_changed() {
    for text in [
        "",
        " \n",
        "a < b [c] <tool_call",
        "Use <tool_call> tags. ",
        r#"<tool_call>{"name": "unknown", "arguments": {}}</tool_call>"#,
        r#"<tool_call>{"name": "weather__now", "arguments": {}} and more"#,
        r#"<tool_call>{"name": "weather__now", "arguments": {</tool_call>"#,
        r#"<tool_call>{"name": "weather__now", "city": "Ulm"}</tool_call>"#,
        r#"<tool_call>[{"name": "weather__now"}]</tool_call>"#,
        "<function=unknown></function>",
        "<function=weather__now>text</function>",
        "<function=weather__now><parameter=city>Ulm",
        "<invoke name=\"unknown\"></invoke>",
        "<invoke filename=\"weather__now\"></invoke>",
        "[TOOL_CALLS]unknown[ARGS]{}",
        "[TOOL_CALLS]weather__now[ARGS]{",
        "[TOOL_CALLS][1]",
        "<|python_tag|>print(1)",
        "<tool_call>\n```\n</tool_call>",
        "Grüße <🐝> [TOOL_",
    ] {
        assert_is_text(text);
    }
}

#[test]
fn code_blocks_stay_text() {
    let call_text = "<function=fs__write></function>";
    for text in [
        format!("```\n{call_text}\n```"),
        format!("```xml\n{call_text}\n``\n{call_text}\n"),
        format!("1. Write\n   ~~~~\n{call_text}\n~~~\n{call_text}\n   ~~~~  \nend"),
        format!("``` {call_text}"),
        format!("```\n``` x\n{call_text}\n"),
    ] {
        assert_is_text(&text);
    }
    let write = call(1, "fs__write", json!({}));
    for (before, after) in [
        ("```\ncode\n```", "\n"),
        ("a ``` b", "\n"),
        ("```x``` y", "\n"),
        ("`` ` ", ""),
        ("~~~\n```\n~~~", "\n"),
    ] {
        let text = format!("{before}{after}{call_text}");
        assert_parts(
            &text,
            &[MessagePart::text(before.trim_end()), write.clone()],
        );
    }
}

#[test]
fn answers_with_structured_calls_or_without_tools_do_not_change() {
    let text = MessagePart::text("<function=fs__write></function>");
    let structured = answer(vec![text.clone(), call(7, "weather__now", json!({}))]);
    assert_eq!(extracted(structured.clone()), structured);
    let none = extract_calls(
        answer(vec![text.clone()]),
        &[],
        &mut CallIds::new(&HashSet::new()),
    );
    assert_eq!(none.parts, [text]);
}

#[test]
fn the_finish_reason_becomes_tool_calls_unless_it_is_length() {
    let text = || vec![MessagePart::text("<function=fs__write></function>")];
    let ended = |finish_reason| {
        extracted(CompletedAnswer {
            finish_reason,
            ..answer(text())
        })
        .finish_reason
    };
    assert_eq!(ended(ModelFinishReason::Stop), ModelFinishReason::ToolCalls);
    assert_eq!(ended(ModelFinishReason::Length), ModelFinishReason::Length);
    assert_eq!(
        extracted(answer(vec![MessagePart::text("x")])).finish_reason,
        ModelFinishReason::Stop
    );
}

#[test]
fn ids_of_text_calls_never_repeat_ids_of_the_conversation() {
    let taken = HashSet::from(["call_2".to_owned()]);
    let text = "<function=fs__write></function>";
    let answer = extract_calls(
        answer(vec![MessagePart::text([text, text].concat())]),
        &tools(),
        &mut CallIds::new(&taken),
    );
    let ids = answer.parts.iter().filter_map(|part| match part {
        MessagePart::ToolCall(call) => Some(call.tool_call_id.as_str()),
        _ => None,
    });
    assert_eq!(ids.collect::<Vec<_>>(), ["call_3", "call_4"]);
}

#[test]
fn a_leading_think_tag_becomes_a_reasoning_part() {
    let reasoning = || MessagePart::reasoning("I think.\n\nSo.");
    assert_parts(
        "<think>\nI think.\n\nSo.\n</think>\n\nHi. ",
        &[reasoning(), MessagePart::text("Hi. ")],
    );
    assert_parts(" <think>I think.\n\nSo.", &[reasoning()]);
    assert_parts("<think></think>Hi", &[MessagePart::text("Hi")]);
    assert_parts("<think>\n\n</think>\n", &[]);
    assert_parts("<think> a </thin", &[MessagePart::reasoning("a </thin")]);
    let text = "<think>I think.\n\nSo.</think><function=fs__write></function>";
    assert_parts(text, &[reasoning(), call(1, "fs__write", json!({}))]);
    for text in [
        "<thin",
        "Hi <think>a</think>",
        "<thinking>a</thinking>",
        "</think> a",
    ] {
        assert_is_text(text);
    }
}

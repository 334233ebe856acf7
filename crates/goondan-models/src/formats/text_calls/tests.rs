use std::collections::HashSet;
use std::sync::Arc;

use goondan_core::ports::model::ModelChunk;
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::json;

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

fn answer(parts: Vec<Part>) -> CompletedAnswer {
    CompletedAnswer {
        parts,
        ..CompletedAnswer::default()
    }
}

fn recovered(answer: CompletedAnswer) -> CompletedAnswer {
    recover(answer, &tools(), &mut CallIds::new(&HashSet::new()))
}

fn call(number: u32, name: &str, input: Value) -> Part {
    Part::ToolCall(ToolCall::new(format!("call_{number}"), name, input))
}

/// Asserts that `text` becomes `parts`, however it arrives.
fn assert_parts(text: &str, parts: &[Part]) {
    let whole = answer(vec![Part::text(text)]);
    assert_eq!(recovered(whole.clone()).parts, parts, "{text}");
    let letters: Vec<&str> = text.split_inclusive(|_: char| true).collect();
    assert_eq!(shown(&letters), readable(&recovered(whole)), "{text}");
}

fn assert_is_text(text: &str) {
    assert_parts(text, &[Part::text(text)]);
}

/// Returns the reasoning and the text of an answer.
fn readable(answer: &CompletedAnswer) -> (String, String) {
    let reasoning = answer.parts.iter().filter_map(|part| match part {
        Part::Reasoning { text, .. } => Some(text.as_str()),
        _ => None,
    });
    (
        reasoning.collect(),
        answer.parts.iter().filter_map(Part::as_text).collect(),
    )
}

/// Returns the reasoning and the text that are shown when an answer arrives in `pieces`.
fn shown(pieces: &[&str]) -> (String, String) {
    let mut filter = TextCallFilter::new(tools());
    let finish = ModelChunk::Finish(Box::new(recovered(answer(vec![Part::text(
        pieces.concat(),
    )]))));
    let chunks = pieces
        .iter()
        .map(|piece| ModelChunk::Text((*piece).to_owned()))
        .chain([finish]);
    let mut shown = (String::new(), String::new());
    for chunk in chunks
        .flat_map(|chunk| filter.filter(chunk))
        .collect::<Vec<_>>()
    {
        match chunk {
            ModelChunk::Reasoning(text) => shown.0 += &text,
            ModelChunk::Text(text) => shown.1 += &text,
            ModelChunk::Finish(_) => {}
        }
    }
    shown
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
            Part::text("I look."),
            weather.clone(),
            write,
            Part::text(" Done."),
        ],
    );
    let unclosed = r#"<tool_call>{"name":"weather__now","arguments":{"city":"Ulm"}}
{"name":"fs__write","arguments":{}}<tool_call>{"name":"fs__write"}"#;
    let writes = [2, 3].map(|number| call(number, "fs__write", json!({})));
    assert_parts(unclosed, &[vec![weather], writes.to_vec()].concat());
}

#[test]
fn tags_for_each_argument_are_recovered() {
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
fn values_keep_their_text() {
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
fn everything_else_stays_text() {
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
        assert_parts(&text, &[Part::text(before.trim_end()), write.clone()]);
    }
}

#[test]
fn only_answers_without_structured_calls_change() {
    let text = Part::text("<function=fs__write></function>");
    let structured = answer(vec![text.clone(), call(7, "weather__now", json!({}))]);
    assert_eq!(recovered(structured.clone()), structured);
    let none = recover(
        answer(vec![text.clone()]),
        &[],
        &mut CallIds::new(&HashSet::new()),
    );
    assert_eq!(none.parts, [text]);
}

#[test]
fn the_reason_becomes_tool_calls_unless_the_answer_was_cut() {
    let text = || vec![Part::text("<function=fs__write></function>")];
    let ended = |finish_reason| {
        recovered(CompletedAnswer {
            finish_reason,
            ..answer(text())
        })
        .finish_reason
    };
    assert_eq!(ended(ModelFinishReason::Stop), ModelFinishReason::ToolCalls);
    assert_eq!(ended(ModelFinishReason::Length), ModelFinishReason::Length);
    assert_eq!(
        recovered(answer(vec![Part::text("x")])).finish_reason,
        ModelFinishReason::Stop
    );
}

#[test]
fn ids_are_unique_in_the_conversation() {
    let taken = HashSet::from(["call_2".to_owned()]);
    let text = "<function=fs__write></function>";
    let answer = recover(
        answer(vec![Part::text([text, text].concat())]),
        &tools(),
        &mut CallIds::new(&taken),
    );
    let ids = answer.parts.iter().filter_map(|part| match part {
        Part::ToolCall(call) => Some(call.tool_call_id.as_str()),
        _ => None,
    });
    assert_eq!(ids.collect::<Vec<_>>(), ["call_3", "call_4"]);
}

#[test]
fn reasoning_at_the_beginning_becomes_a_part() {
    let reasoning = || Part::reasoning("I think.\n\nSo.");
    assert_parts(
        "<think>\nI think.\n\nSo.\n</think>\n\nHi. ",
        &[reasoning(), Part::text("Hi. ")],
    );
    assert_parts(" <think>I think.\n\nSo.", &[reasoning()]);
    assert_parts("<think></think>Hi", &[Part::text("Hi")]);
    assert_parts("<think>\n\n</think>\n", &[]);
    assert_parts("<think> a </thin", &[Part::reasoning("a </thin")]);
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

#[test]
fn reasoning_of_servers_that_separate_it_leaves_the_text_alone() {
    let parts = vec![Part::reasoning("a"), Part::text("<think>b</think>")];
    assert_eq!(recovered(answer(parts.clone())).parts, parts);
    let mut filter = TextCallFilter::new(tools());
    let reasoning = ModelChunk::Reasoning("a".to_owned());
    let text = ModelChunk::Text("<think>b</think>".to_owned());
    assert_eq!(filter.filter(reasoning.clone()), [reasoning]);
    assert_eq!(filter.filter(text.clone()), [text]);
    let with_call = vec![
        Part::text("<think>b</think>c"),
        call(7, "weather__now", json!({})),
    ];
    let expected = [Part::reasoning("b"), Part::text("c"), with_call[1].clone()];
    assert_eq!(recovered(answer(with_call)).parts, expected);
}

#[test]
fn text_is_shown_as_soon_as_it_is_not_a_call() {
    let mut filter = TextCallFilter::new(tools());
    let mut text = |delta: &str| -> String {
        let chunks = filter.filter(ModelChunk::Text(delta.to_owned()));
        let texts = chunks.into_iter().map(|chunk| match chunk {
            ModelChunk::Text(text) | ModelChunk::Reasoning(text) => text,
            ModelChunk::Finish(_) => String::new(),
        });
        texts.collect()
    };
    assert_eq!(text("Hi, <"), "Hi,");
    assert_eq!(text("b> \n"), " <b>");
    assert_eq!(text("<tool_call> "), "");
    assert_eq!(text("tags"), " \n<tool_call> tags");
    assert_eq!(text(" <function=fs__"), "");
    assert_eq!(text("read>"), " <function=fs__read>");
    assert_eq!(text("<function=fs__write>"), "");
    assert_eq!(text("later"), "");
}

/// Texts of pieces that are likely to confuse.
fn texts() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "<tool_call>",
        "</tool_call>",
        "<function=weather__now>",
        "<function=",
        "<parameter=city>",
        "</parameter>",
        "</function>",
        "<invoke name=\"fs__write\">",
        "<parameter name=\"text\">",
        "</invoke>",
        "<function_calls>",
        "[TOOL_CALLS]",
        "weather__now",
        "[ARGS]",
        "{\"city\": \"Ulm\"}",
        "{\"name\": \"weather__now\", \"arguments\": ",
        "{}",
        "}",
        "\n```\n",
        "```",
        "~~~\n",
        "\n",
        "  ",
        "<think>",
        "</think>",
        "<|python_tag|>",
        "é",
        "text",
        "<",
        "[",
        "<minimax:tool_call>",
        "</",
        "{",
        "\"",
    ]);
    prop::collection::vec(pieces, 0..16).prop_map(|pieces| pieces.concat())
}

fn cut<'t>(text: &'t str, cuts: &[Index]) -> Vec<&'t str> {
    let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
    ends.retain(|end| text.is_char_boundary(*end));
    ends.extend([0, text.len()]);
    ends.sort_unstable();
    ends.windows(2)
        .map(|ends| &text[ends[0]..ends[1]])
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn text_without_tags_is_not_changed(
        text in "[a-z<>\\[\\]`~{}\"/= \n\té🐝]{0,60}",
        cuts in prop::collection::vec(any::<Index>(), 0..8),
    ) {
        prop_assert_eq!(recovered(answer(vec![Part::text(text.as_str())])).parts, [Part::text(text.as_str())]);
        prop_assert_eq!(shown(&cut(&text, &cuts)), (String::new(), text.clone()));
    }

    #[test]
    fn the_shown_text_is_that_of_the_answer(
        text in texts(),
        cuts in prop::collection::vec(any::<Index>(), 0..12),
    ) {
        let whole = recovered(answer(vec![Part::text(text.as_str())]));
        prop_assert_eq!(shown(&cut(&text, &cuts)), readable(&whole));
        let is_changed = whole.parts.iter().any(|part| !matches!(part, Part::Text { .. }));
        if !is_changed && !text.trim_start().starts_with("<think>") {
            prop_assert_eq!(readable(&whole).1, text);
        }
    }
}

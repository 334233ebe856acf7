use goondan_core::ports::model::ModelChunk;
use proptest::prelude::*;
use proptest::sample::Index;

use super::*;

/// Returns the streamed reasoning and text of an answer that arrives in `pieces`.
pub(super) fn streamed(pieces: &[&str]) -> (String, String) {
    let mut filter = TextCallFilter::new(tools());
    let finish = ModelChunk::Finish(Box::new(extracted(answer(vec![MessagePart::text(
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
fn think_tags_stay_text_if_the_answer_has_reasoning_parts() {
    let parts = vec![
        MessagePart::reasoning("a"),
        MessagePart::text("<think>b</think>"),
    ];
    assert_eq!(extracted(answer(parts.clone())).parts, parts);
    let mut filter = TextCallFilter::new(tools());
    let reasoning = ModelChunk::Reasoning("a".to_owned());
    let text = ModelChunk::Text("<think>b</think>".to_owned());
    assert_eq!(filter.filter(reasoning.clone()), [reasoning]);
    assert_eq!(filter.filter(text.clone()), [text]);
    let with_call = vec![
        MessagePart::text("<think>b</think>c"),
        call(7, "weather__now", json!({})),
    ];
    let expected = [
        MessagePart::reasoning("b"),
        MessagePart::text("c"),
        with_call[1].clone(),
    ];
    assert_eq!(extracted(answer(with_call)).parts, expected);
}

#[test]
fn text_is_streamed_as_soon_as_it_cannot_be_a_call() {
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

/// Texts with parts of calls and of reasoning tags.
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
        prop_assert_eq!(extracted(answer(vec![MessagePart::text(text.as_str())])).parts, [MessagePart::text(text.as_str())]);
        prop_assert_eq!(streamed(&cut(&text, &cuts)), (String::new(), text.clone()));
    }

    #[test]
    fn streamed_text_equals_the_text_of_the_answer(
        text in texts(),
        cuts in prop::collection::vec(any::<Index>(), 0..12),
    ) {
        let whole = extracted(answer(vec![MessagePart::text(text.as_str())]));
        prop_assert_eq!(streamed(&cut(&text, &cuts)), readable(&whole));
        let is_changed = whole.parts.iter().any(|part| !matches!(part, MessagePart::Text { .. }));
        if !is_changed && !text.trim_start().starts_with("<think>") {
            prop_assert_eq!(readable(&whole).1, text);
        }
    }
}

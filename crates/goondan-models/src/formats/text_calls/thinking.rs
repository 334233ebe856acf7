//! Reasoning at the beginning of a text, from servers that do not separate it.

use goondan_core::message::MessagePart;

pub(super) const OPEN: &str = "<think>";
pub(super) const CLOSE: &str = "</think>";

/// Makes a part of the reasoning at the beginning of the first text. An answer that begins with a reasoning part comes
/// from a server that separates it.
pub(super) fn separate_reasoning(mut parts: Vec<MessagePart>) -> Vec<MessagePart> {
    let is_first = |part: &MessagePart| {
        matches!(
            part,
            MessagePart::Text { .. } | MessagePart::Reasoning { .. }
        )
    };
    let Some(at) = parts.iter().position(is_first) else {
        return parts;
    };
    let MessagePart::Text { text, .. } = &mut parts[at] else {
        return parts;
    };
    let Some((reasoning, rest)) = split_reasoning(text) else {
        return parts;
    };
    let (reasoning, rest) = (reasoning.to_owned(), rest.to_owned());
    let has_text = !rest.is_empty();
    *text = rest;
    if !has_text {
        parts.remove(at);
    }
    if !reasoning.is_empty() {
        parts.insert(at, MessagePart::reasoning(reasoning));
    }
    parts
}

/// Returns the reasoning at the beginning of `text`, and the text after it.
fn split_reasoning(text: &str) -> Option<(&str, &str)> {
    let inner = text.trim_start().strip_prefix(OPEN)?;
    let (reasoning, rest) = inner.split_once(CLOSE).unwrap_or((inner, ""));
    Some((reasoning.trim(), rest.trim_start()))
}

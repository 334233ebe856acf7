//! Detects the beginning of a tool call in arriving text, which is then held back.

use goondan_core::ports::model::ToolDefinition;

use super::blocks::{FUNCTION, INVOKES, PYTHON_TAG, TOOL_CALL, TOOL_CALLS, WRAPPERS};

/// Maximum number of bytes of white space within the beginning of a call.
const MAX_WHITE_SPACE: usize = 64;

/// Maximum length of a tag with attributes, in bytes.
const MAX_TAG_BYTES: usize = 256;

/// Result of a look at the beginning of a text. `No` and `Yes` never change when more text arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum OpeningMatch {
    /// No call begins here.
    No,
    /// More text decides.
    Maybe,
    /// Probably a call begins here.
    Yes,
}

/// A step of a match: [`OpeningMatch`] with the text after it.
enum OpeningStep<'t> {
    No,
    Maybe,
    Yes(&'t str),
}

/// Returns true if a call of one of `tools` begins at the beginning of `text`.
pub(super) fn match_opening(text: &str, tools: &[ToolDefinition]) -> OpeningMatch {
    if tools.is_empty() {
        return OpeningMatch::No;
    }
    let json = |text: &str| starts_with_any(text, &["{"]);
    let tool_call = |text: &str| json(text).max(match_element(text, tools));
    let mistral =
        |text: &str| starts_with_any(text, &["{", "["]).max(match_mistral_call(text, tools));
    let wrapped =
        WRAPPERS.map(|(open, _)| match_after(text, open, |text| match_element(text, tools)));
    match_element(text, tools)
        .max(match_after(text, TOOL_CALL, tool_call))
        .max(match_after(text, TOOL_CALLS, mistral))
        .max(match_after(text, PYTHON_TAG, json))
        .max(wrapped.into_iter().max().unwrap_or(OpeningMatch::No))
}

/// Returns true if `text` begins with a tag that names one of `tools`.
fn match_element(text: &str, tools: &[ToolDefinition]) -> OpeningMatch {
    let tags = INVOKES.iter().chain([&FUNCTION]);
    let matches = tags.map(|tags| match strip_literal(text, tags.call) {
        OpeningStep::No => OpeningMatch::No,
        OpeningStep::Maybe => OpeningMatch::Maybe,
        OpeningStep::Yes(rest) => match until_tag_end(rest) {
            Ok(tag)
                if tools
                    .iter()
                    .any(|tool| tags.name(tag) == Some(tool.name.as_str())) =>
            {
                OpeningMatch::Yes
            }
            Ok(_) => OpeningMatch::No,
            Err(opening) => opening,
        },
    });
    matches.max().unwrap_or(OpeningMatch::No)
}

/// Returns `text` up to the `>` that ends the tag. `Maybe`: the `>` may still follow. `No`: a `<`
/// comes first, or the tag is too long.
fn until_tag_end(text: &str) -> Result<&str, OpeningMatch> {
    let end = text
        .bytes()
        .take(MAX_TAG_BYTES)
        .position(|byte| matches!(byte, b'>' | b'<'));
    match end {
        Some(end) if text.as_bytes()[end] == b'>' => Ok(&text[..end]),
        None if text.len() < MAX_TAG_BYTES => Err(OpeningMatch::Maybe),
        _ => Err(OpeningMatch::No),
    }
}

/// Returns true if `text` begins with a call in Mistral's style: the name of one of `tools`,
/// followed by `[ARGS]`, `[CALL_ID]` or the arguments.
fn match_mistral_call(text: &str, tools: &[ToolDefinition]) -> OpeningMatch {
    let mut best_match = OpeningMatch::No;
    for tool in tools {
        let tool_match = match_after(text, &tool.name, |after_name| {
            starts_with_any(after_name, &["[ARGS]", "[CALL_ID]", "{"])
        });
        best_match = best_match.max(tool_match);
    }
    best_match
}

/// Applies `check` to the text after `word` and white space. Returns `No` if `text` begins with
/// something else, and `Maybe` if more text decides.
fn match_after(text: &str, word: &str, check: impl Fn(&str) -> OpeningMatch) -> OpeningMatch {
    match strip_literal(text, word) {
        OpeningStep::No => OpeningMatch::No,
        OpeningStep::Maybe => OpeningMatch::Maybe,
        OpeningStep::Yes(rest) => after_white_space(rest, check),
    }
}

/// Applies `check` to the text after white space. Returns `No` after too much white space, and
/// `Maybe` if nothing else arrived yet.
fn after_white_space(text: &str, check: impl Fn(&str) -> OpeningMatch) -> OpeningMatch {
    let rest = text.trim_start();
    match rest {
        _ if text.len() - rest.len() > MAX_WHITE_SPACE => OpeningMatch::No,
        "" => OpeningMatch::Maybe,
        rest => check(rest),
    }
}

/// Returns true if `text` begins with one of `words`; `Maybe` if `text` is only a part of a word.
fn starts_with_any(text: &str, words: &[&str]) -> OpeningMatch {
    let check = |word: &&str| match strip_literal(text, word) {
        OpeningStep::No => OpeningMatch::No,
        OpeningStep::Maybe => OpeningMatch::Maybe,
        OpeningStep::Yes(_) => OpeningMatch::Yes,
    };
    words.iter().map(check).max().unwrap_or(OpeningMatch::No)
}

/// Strips `word` from `text`. Returns `Maybe` if `text` is only a part of `word`.
fn strip_literal<'t>(text: &'t str, word: &str) -> OpeningStep<'t> {
    match text.strip_prefix(word) {
        Some(rest) => OpeningStep::Yes(rest),
        None if word.starts_with(text) => OpeningStep::Maybe,
        None => OpeningStep::No,
    }
}

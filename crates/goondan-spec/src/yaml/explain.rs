//! Mistakes in YAML, in our words and with the usual remedy.

use granit_parser::{ErrorKind, ScanError};

use super::{MAX_ALIASED_VALUES, MAX_DEPTH, YamlError};

pub(super) fn error(message: impl Into<String>, suggestion: Option<&str>) -> YamlError {
    YamlError {
        message: message.into(),
        suggestion: suggestion.map(str::to_owned),
        line: None,
        column: None,
    }
}

pub(super) fn too_deep() -> YamlError {
    error(
        format!("Lists and maps nest more than {MAX_DEPTH} deep here."),
        Some("flatten the document"),
    )
}

pub(super) fn too_many_aliases() -> YamlError {
    error(
        format!("The aliases of this document expand to more than {MAX_ALIASED_VALUES} values."),
        Some("write the values out, or use fewer aliases of aliases"),
    )
}

pub(super) fn twice(key: &str) -> YamlError {
    error(
        format!("The key `{key}` stands twice in the same map."),
        Some("keep one of the two"),
    )
}

pub(super) fn key_is_empty() -> YamlError {
    error(
        "A key must be text, but this one is empty.",
        Some("put it in quotes"),
    )
}

pub(super) fn key_is_no_text() -> YamlError {
    error("A key must be text, but this one is a list or a map.", None)
}

pub(super) fn merges_no_map() -> YamlError {
    error(
        "The merge key `<<` needs a map, or a list of maps.",
        Some("write `<<: *anchor`"),
    )
}

pub(super) fn inside_itself() -> YamlError {
    error(
        "The alias stands inside of what it refers to.",
        Some("write the value out"),
    )
}

pub(super) fn unfinished() -> YamlError {
    error(
        "The text ends in the middle of a value.",
        Some("close the quote or bracket that is still open"),
    )
}

/// Of a tab behind a value the parser names the place of the value.
pub(super) const TAB: &str = "found a tab";

/// What the parser says, by the words that it says it with, and what a person most likely did.
const SYNTAX: &[(&str, &str, &str)] = &[
    (
        "tabs disallowed",
        "A tab stands where YAML wants spaces.",
        "indent with spaces",
    ),
    (
        TAB,
        "A tab stands where YAML wants spaces.",
        "indent with spaces",
    ),
    (
        "mapping values are not allowed",
        "A `:` stands where no key can be.",
        "check the indentation of this line, put a space behind the `:` of the line above, or quote text that holds `: `",
    ),
    (
        "illegal placement of ':'",
        "A `:` stands where no key can be.",
        "close the `[` or `{` that is still open",
    ),
    (
        "did not find expected ',' or '}'",
        "A `,` or a `}` is missing before this.",
        "put a `,` between the entries, or close the `{`; text that holds one of `,[]{}` needs quotes",
    ),
    (
        "expected ',' or ']'",
        "A `,` or a `]` is missing before this.",
        "put a `,` between the items, or close the `[`; text that holds one of `,[]{}` needs quotes",
    ),
    (
        "unclosed bracket",
        "A bracket is opened here and never closed.",
        "add the closing `]` or `}`",
    ),
    (
        "misplaced bracket",
        "A closing bracket stands here that nothing opened.",
        "remove it",
    ),
    (
        "unknown escape character",
        "The text in double quotes holds an unknown escape.",
        "write `\\\\` for a backslash, or use single quotes",
    ),
    (
        "invalid indentation in multiline quoted",
        "The quoted text that begins above does not end before this line.",
        "add the closing quote",
    ),
    (
        "did not find expected '-'",
        "A key stands on the level of a list's items.",
        "indent it, or begin it with `- `",
    ),
    (
        "did not find expected key",
        "The indentation of this line fits no map above it.",
        "align it with its neighbours",
    ),
    (
        "expected <document start>",
        "A line that begins with `%` is a directive, and no document follows it.",
        "remove the line, or quote the text",
    ),
    (
        "simple key expect",
        "A key without a `:` stands here.",
        "put `: ` behind the key",
    ),
    (
        "could not find expected ':'",
        "A key without a `:` stands here.",
        "put `: ` behind the key",
    ),
    (
        "end of stream",
        "The text ends in the middle of a value.",
        "close the quote or bracket that is still open",
    ),
];

/// The parser's errors in our words.
pub(super) fn syntax(found: &ScanError) -> YamlError {
    match found.kind() {
        ErrorKind::UnknownAnchor => error(
            "The alias refers to an anchor that this document does not define.",
            Some(
                "define it with `&name` in the same document, or put quotes around text that begins with `*`",
            ),
        ),
        ErrorKind::UnexpectedCharacter { .. } => unexpected_character(&found.info()),
        _ => by_words(&found.info()),
    }
}

fn by_words(found: &str) -> YamlError {
    if found.contains("recursion limit") || found.contains("nesting") {
        return too_deep();
    }
    match SYNTAX.iter().find(|(words, _, _)| found.contains(words)) {
        Some((_, message, suggestion)) => error(*message, Some(suggestion)),
        None => error(format!("This is not YAML: {found}."), None),
    }
}

fn unexpected_character(found: &str) -> YamlError {
    let character = found
        .strip_prefix("unexpected character: `")
        .and_then(|rest| rest.strip_suffix('\''));
    match character {
        Some(escaped) if escaped.starts_with('\\') => {
            let message = format!("The character {escaped} is not allowed in YAML.");
            error(message, Some("remove it; is this a text file?"))
        }
        Some("`") => error(
            "A value cannot begin with a back quote.",
            Some("put the text in quotes"),
        ),
        Some(character) => error(
            format!("A value cannot begin with `{character}`."),
            Some("put the text in quotes"),
        ),
        None => by_words(found),
    }
}

//! Error messages and suggestions for invalid YAML.

use granit_parser::{ErrorKind, ScanError};

use super::{MAX_ALIASED_BYTES, MAX_ALIASED_VALUES, MAX_NESTING_DEPTH, YamlError};

/// Creates an error without a position.
pub(super) fn error(message: impl Into<String>, suggestion: Option<&str>) -> YamlError {
    YamlError {
        message: message.into(),
        suggestion: suggestion.map(str::to_owned),
        line: None,
        column: None,
    }
}

/// Creates the error for a document that is nested too deep.
pub(super) fn too_deep() -> YamlError {
    error(
        format!("Lists and maps are nested more than {MAX_NESTING_DEPTH} levels deep here."),
        Some("flatten the document"),
    )
}

/// Creates the error for aliases that expand to too many values.
pub(super) fn too_many_aliases() -> YamlError {
    error(
        format!("The aliases of this document expand to more than {MAX_ALIASED_VALUES} values."),
        Some("write the values out, or use fewer aliases of aliases"),
    )
}

/// Creates the error for aliases that expand to too much text.
pub(super) fn too_large_aliases() -> YamlError {
    let max_mib = MAX_ALIASED_BYTES / (1024 * 1024);
    error(
        format!("The aliases of this document expand to more than {max_mib} MiB."),
        Some("move large strings to a file, or use fewer aliases"),
    )
}

/// Creates the error for an integer with more than 64 bits.
pub(super) fn number_is_too_large(value: &str) -> YamlError {
    let value = crate::text::excerpt(value, 40);
    error(
        format!(
            "`{value}` is an integer with more than 64 bits, and gdn cannot keep all its digits."
        ),
        Some("put it in quotes, or write it with a decimal point"),
    )
}

/// Creates the error for a line of a flow list or map that begins too far left.
pub(super) fn flow_is_not_indented() -> YamlError {
    error(
        "This line is inside the bracket that opens above, so it needs more indentation than the \
            key before the bracket.",
        Some("close the bracket, or indent the line"),
    )
}

/// Creates the error for a key that occurs twice.
pub(super) fn duplicate_key(key: &str) -> YamlError {
    let suggestion = match key {
        "apiVersion" | "kind" | "metadata" => {
            "put a line `---` before this document, or keep one of the two keys"
        }
        _ => "keep one of the two",
    };
    error(
        format!("The key `{key}` appears twice in the same map."),
        Some(suggestion),
    )
}

pub(super) fn key_is_empty() -> YamlError {
    error(
        "A key must be a string, but this key is empty.",
        Some("put it in quotes"),
    )
}

/// Creates the error for a key that is a list or a map.
pub(super) fn key_is_no_text() -> YamlError {
    error(
        "A key must be a string, but this key is a list or a map.",
        Some("put the text in quotes: `{` begins a map and `[` a list"),
    )
}

/// Creates the error for `<<` with another value than a map.
pub(super) fn merges_no_map() -> YamlError {
    error(
        "The merge key `<<` needs a map, or a list of maps.",
        Some("write `<<: *anchor`"),
    )
}

/// Creates the error for an alias inside its own anchor.
pub(super) fn inside_itself() -> YamlError {
    error(
        "The alias is inside the value that it refers to.",
        Some("write the value out"),
    )
}

/// Creates the error for text that ends in the middle of a value.
pub(super) fn unfinished_value() -> YamlError {
    error(
        "The text ends in the middle of a value.",
        Some("close the quote or bracket that is still open"),
    )
}

/// Parser message for a tab after a value. The parser reports the position of the value, not of the
/// tab.
pub(super) const TAB_ERROR_MARKER: &str = "found a tab";

/// Parser messages (as substrings), each with our message and the most likely remedy.
const SYNTAX_ERRORS: &[(&str, &str, &str)] = &[
    (
        "tabs disallowed",
        "A tab is not allowed here; YAML requires spaces.",
        "indent with spaces",
    ),
    (
        TAB_ERROR_MARKER,
        "A tab is not allowed here; YAML requires spaces.",
        "indent with spaces",
    ),
    (
        "mapping values are not allowed",
        "A `:` is not allowed here, because no key is possible.",
        "put text that contains `: ` in quotes; else check the indentation of this line, or put a \
        space after the `:` of the line above",
    ),
    (
        "illegal placement of ':'",
        "A `:` is not allowed here, because no key is possible.",
        "close the `[` or `{` that is still open",
    ),
    (
        "did not find expected ',' or '}'",
        "A `,` or a `}` is missing before this.",
        "put a `,` between the entries, or close the `{`; text that contains one of `,[]{}` \
        needs quotes",
    ),
    (
        "expected ',' or ']'",
        "A `,` or a `]` is missing before this.",
        "put a `,` between the items, or close the `[`; text that contains one of `,[]{}` needs \
        quotes",
    ),
    (
        "unclosed bracket",
        "This bracket is never closed.",
        "add the closing `]` or `}`",
    ),
    (
        "misplaced bracket",
        "This closing bracket has no opening bracket.",
        "remove it",
    ),
    (
        "unknown escape character",
        "The double-quoted string contains an unknown escape.",
        "write `\\\\` for a backslash, or use single quotes",
    ),
    (
        "invalid indentation in multiline quoted",
        "The quoted string that begins above is not closed before this line.",
        "add the closing quote",
    ),
    (
        "did not find expected '-'",
        "A mapping key has the same indentation as the list items above it.",
        "indent it, or begin it with `- `",
    ),
    (
        "did not find expected key",
        "The indentation of this line matches no map above it.",
        "align it with the lines around it",
    ),
    (
        "expected <document start>",
        "A line that begins with `%` is a directive, but no document follows.",
        "remove the line, or quote the text",
    ),
    (
        "simple key expect",
        "This key has no `:`.",
        "put `: ` after the key",
    ),
    (
        "could not find expected ':'",
        "This key has no `:`.",
        "put `: ` after the key",
    ),
    (
        "end of stream",
        "The text ends in the middle of a value.",
        "close the quote or bracket that is still open",
    ),
];

/// Converts an error of the YAML parser.
pub(super) fn syntax_error(found: &ScanError) -> YamlError {
    match found.kind() {
        ErrorKind::UnknownAnchor => error(
            "The alias refers to an anchor that this document does not define.",
            Some(
                "define it with `&name` in the same document (anchors end at `---`), or put quotes \
                around text that begins with `*`",
            ),
        ),
        ErrorKind::UnexpectedCharacter { .. } => unexpected_character(&found.info()),
        _ => known_syntax_error(&found.info()),
    }
}

/// Replaces a message of the YAML parser by a clearer one, if there is one.
fn known_syntax_error(parser_message: &str) -> YamlError {
    if parser_message.contains("recursion limit") || parser_message.contains("nesting") {
        return too_deep();
    }
    match SYNTAX_ERRORS
        .iter()
        .find(|(words, _, _)| parser_message.contains(words))
    {
        Some((_, message, suggestion)) => error(*message, Some(suggestion)),
        None => error(format!("This is not YAML: {parser_message}."), None),
    }
}

/// Explains a character that cannot begin a value.
fn unexpected_character(parser_message: &str) -> YamlError {
    let character = parser_message
        .strip_prefix("unexpected character: `")
        .and_then(|rest| rest.strip_suffix('\''));
    match character {
        Some(escaped) if escaped.starts_with('\\') => {
            let message = format!("The character {escaped} is not allowed in YAML.");
            error(
                message,
                Some("remove it, and check that this is a text file"),
            )
        }
        Some("`") => error(
            "A value cannot begin with a back quote.",
            Some("put the text in quotes"),
        ),
        Some(character) => error(
            format!("A value cannot begin with `{character}`."),
            Some("put the text in quotes"),
        ),
        None => known_syntax_error(parser_message),
    }
}

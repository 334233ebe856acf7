//! `fs__edit`: replaces one place in a file.

use goondan_core::ports::tool::{HandlerError, ToolContext, ToolOutput};
use goondan_spec::Code;
use goondan_spec::kinds::PATH_FORMAT;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::{Deserializer, Error as _};
use serde_json::{Value, json};

use super::with_warning;
use crate::diff::DiffStat;
use crate::errors::{self, run_blocking};
use crate::file_changes::{FileChangeLock, change_text, diff, read_text};
use crate::paths::FileToolSettings;
use crate::scalar_text::scalar_to_string;
use crate::tool_operation::{ToolOperation, titled_output};

/// Maximum number of line numbers in an error.
const MAX_LISTED_LINE_NUMBERS: usize = 10;

/// Replace one place in a text file. `old_text` must occur exactly once: include enough lines
/// around it.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct EditFile {
    /// The file, relative to the working directory.
    #[schemars(length(min = 1), extend("format" = PATH_FORMAT))]
    path: String,
    /// The text to replace, exactly as in the file, without line numbers.
    #[schemars(length(min = 1))]
    old_text: String,
    /// The replacement. A number is written as its digits.
    #[schemars(schema_with = "text_or_number")]
    #[serde(deserialize_with = "read_text_or_number")]
    new_text: String,
}

/// Accepts numbers as well, because models write `"new_text": 2` to replace a number.
fn text_or_number(_generator: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": ["string", "number"]})
}

fn read_text_or_number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let value = Value::deserialize(deserializer)?;
    scalar_to_string(&value).ok_or_else(|| D::Error::custom("expected a string or a number"))
}

impl ToolOperation for EditFile {
    type Shared = FileToolSettings;

    async fn preview(
        self,
        ctx: &ToolContext,
        roots: &FileToolSettings,
    ) -> Result<Option<String>, HandlerError> {
        let root = roots.for_preview(ctx)?;
        run_blocking(move || {
            let resolved = root.resolve(&self.path)?;
            let before = read_text(&root, &resolved)?;
            let (after, _) =
                replace_once(&resolved.given, &before, &self.old_text, &self.new_text)?;
            Ok(Some(diff(&resolved.given, &before, &after)))
        })
        .await
    }

    async fn run(
        self,
        ctx: &ToolContext,
        roots: &FileToolSettings,
    ) -> Result<ToolOutput, HandlerError> {
        let (root, guard) = (roots.file_root(ctx)?, roots.stale_write_guard(ctx));
        run_blocking(move || {
            let resolved = root.resolve(&self.path)?;
            let _lock = FileChangeLock::acquire_to_write([&resolved])?;
            let change = change_text(&root, &guard, &resolved, |before| {
                replace_once(&resolved.given, before, &self.old_text, &self.new_text)
            })?;
            let diff = crate::diff::unified(&change.before, &change.after, 2);
            let metadata = DiffStat::of_hunks(&diff).metadata();
            let output =
                json!({"path": root.display_path(&resolved.path), "line": change.detail, "diff": diff});
            let output = with_warning(output, change.warning);
            Ok(ToolOutput {
                metadata,
                ..titled_output(format!("Edited {}", resolved.given), output)
            })
        })
        .await
    }
}

/// Replaces the single occurrence of `old` by `new`, and returns the text and the line number of
/// the change.
fn replace_once(
    path: &str,
    text: &str,
    old: &str,
    new: &str,
) -> Result<(String, usize), HandlerError> {
    if old.is_empty() || old == new {
        return Err(errors::invalid_argument(
            "old_text must not be empty, and new_text must differ from it",
        ));
    }
    // Files with Windows line ends are shown without them, so add them to the model's strings.
    let windows = text.contains("\r\n") && !old.contains("\r\n");
    let (old, new) = if windows {
        (with_crlf_line_ends(old), with_crlf_line_ends(new))
    } else {
        (old.to_owned(), new.to_owned())
    };
    match find_occurrences(text, &old).as_slice() {
        [] => Err(missing_text_error(path, text, &old)),
        [at] => Ok((
            format!("{}{new}{}", &text[..*at], &text[at + old.len()..]),
            line_of(text, *at),
        )),
        several => Err(ambiguous_text_error(path, text, several)),
    }
}

/// Returns `text` with CRLF line ends.
fn with_crlf_line_ends(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\n', "\r\n")
}

/// Returns all positions of `part` in `text`, including overlapping ones.
fn find_occurrences(text: &str, part: &str) -> Vec<usize> {
    let mut positions = Vec::new();
    let mut from = 0;
    while let Some(at) = text[from..].find(part) {
        positions.push(from + at);
        from += at + part.chars().next().map_or(1, char::len_utf8);
    }
    positions
}

/// Returns the line number of a position, starting at 1.
fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

/// Returns the error of a text that occurs more than once.
fn ambiguous_text_error(path: &str, text: &str, positions: &[usize]) -> HandlerError {
    let lines: Vec<String> = positions
        .iter()
        .take(MAX_LISTED_LINE_NUMBERS)
        .map(|at| line_of(text, *at).to_string())
        .collect();
    let and_more = if positions.len() > MAX_LISTED_LINE_NUMBERS {
        " and more"
    } else {
        ""
    };
    let (count, lines) = (positions.len(), lines.join(", "));
    HandlerError::new(format!(
        "old_text occurs {count} times in `{path}`, on lines {lines}{and_more}; nothing was changed"
    ))
    .code(Code::TOOL_EDIT_AMBIGUOUS)
    .suggest("include more lines before or after it in old_text, so that it occurs once")
}

/// Creates the error for a missing text. Names the place that matches without regard to white
/// space.
fn missing_text_error(path: &str, text: &str, old: &str) -> HandlerError {
    let error = HandlerError::new(format!(
        "old_text was not found in `{path}`; nothing was changed"
    ))
    .code(Code::TOOL_EDIT_NOT_FOUND);
    let old_lines: Vec<&str> = old.lines().map(str::trim).collect();
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    match lines
        .windows(old_lines.len())
        .position(|window| window == old_lines)
    {
        Some(index) => error.suggest(format!(
            "line {} has the text with different whitespace: read that part again and copy it \
            exactly",
            index + 1
        )),
        None => {
            error.suggest("read the file again, and copy the text exactly, without line numbers")
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn one_occurrence_is_replaced() {
        assert_eq!(
            replace_once("f", "a\nb\nc\n", "b", "x\ny").unwrap(),
            ("a\nx\ny\nc\n".to_owned(), 2)
        );
        assert_eq!(
            replace_once("f", "\u{FEFF}a", "a", "").unwrap().0,
            "\u{FEFF}"
        );
    }

    #[test]
    fn edits_preserve_line_endings() {
        assert_eq!(
            replace_once("f", "a\r\nb\r\n", "a\nb", "x\ny").unwrap().0,
            "x\r\ny\r\n"
        );
        assert_eq!(
            replace_once("f", "a\r\nb\r\n", "a\r\nb", "x\r\ny")
                .unwrap()
                .0,
            "x\r\ny\r\n"
        );
        assert_eq!(
            replace_once("f", "a\nb\n", "a\nb", "x\ny").unwrap().0,
            "x\ny\n"
        );
    }

    #[test]
    fn ambiguous_or_missing_occurrences_return_helpful_errors() {
        let several = replace_once("f", "two\none\ntwo\n", "two", "2").unwrap_err();
        assert!(
            several.message.contains("2 times") && several.message.contains("lines 1, 3"),
            "{several}"
        );
        assert!(
            replace_once("f", "aaa", "aa", "b")
                .unwrap_err()
                .message
                .contains("2 times")
        );
        let spaced =
            replace_once("f", "fn a() {\n    b();\n}\n", "fn a() {\n  b();", "x").unwrap_err();
        assert!(spaced.suggestion.unwrap().contains("line 1"));
        assert!(
            replace_once("f", "a", "b", "c")
                .unwrap_err()
                .suggestion
                .unwrap()
                .contains("read the file again")
        );
        assert_eq!(
            replace_once("f", "a", "a", "a")
                .unwrap_err()
                .code
                .as_deref(),
            Some(Code::TOOL_INVALID_ARGS.as_str())
        );
    }

    proptest! {
        #[test]
        fn an_edit_changes_only_the_single_occurrence(text in "[ab\\né]{0,12}", old in "[ab\\né]{1,3}", new in "[xy]{0,3}") {
            match replace_once("f", &text, &old, &new) {
                Ok((after, _)) => {
                    prop_assert_eq!(find_occurrences(&text, &old).len(), 1);
                    prop_assert_eq!(after, text.replacen(&old, &new, 1));
                }
                Err(_) => prop_assert!(find_occurrences(&text, &old).len() != 1),
            }
        }
    }
}

//! `text-transform`: small changes to a text, counted in characters.

use std::sync::Arc;

use goondan_core::ports::tool::{HandlerError, ToolContext, ToolOutput};
use goondan_spec::Code;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::builtin_tool::BuiltinTool;
use crate::errors;
use crate::scalar_text::scalar_to_string;
use crate::tool_operation::{ToolExport, ToolOperation, titled_output};

/// Maximum size of a result in bytes.
const MAX_RESULT_BYTES: usize = 16 * 1024 * 1024;

pub(crate) const BUILTIN: BuiltinTool = BuiltinTool {
    name: "text-transform",
    about: "Small changes to text. Positions and lengths are in characters.",
    open: |_| {
        let none = Arc::new(());
        Ok(vec![
            ToolExport::new::<TextReplace>("replace", &none).read_only(),
            ToolExport::new::<TextSlice>("slice", &none).read_only(),
            ToolExport::new::<TextSplit>("split", &none).read_only(),
            ToolExport::new::<TextJoin>("join", &none).read_only(),
            ToolExport::new::<TextTrim>("trim", &none).read_only(),
            ToolExport::new::<TextCase>("case", &none).read_only(),
        ])
    },
    ..BuiltinTool::DEFAULT_ROW
};

/// Replace the first or every occurrence of a literal string.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TextReplace {
    /// Text to change.
    #[schemars(length(min = 1))]
    text: String,
    /// Literal string to find.
    #[schemars(length(min = 1))]
    search: String,
    /// Replacement.
    #[serde(default)]
    replacement: String,
    /// Replace every occurrence instead of the first.
    #[serde(default)]
    all: bool,
}

impl ToolOperation for TextReplace {
    type Shared = ();

    async fn run(self, _ctx: &ToolContext, (): &()) -> Result<ToolOutput, HandlerError> {
        if self.search.is_empty() {
            return Err(errors::invalid_argument("search must not be empty"));
        }
        let limit = if self.all { usize::MAX } else { 1 };
        let replacements = self.text.matches(&self.search).take(limit).count();
        check_result_size(
            self.text
                .len()
                .saturating_add(replacements.saturating_mul(self.replacement.len())),
        )?;
        let result = self.text.replacen(&self.search, &self.replacement, limit);
        let output = json!({"original": self.text, "result": result, "replacements": replacements});
        Ok(titled_output(format!("Replaced {replacements}"), output))
    }
}

/// Return a part of a text.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TextSlice {
    /// Text.
    #[schemars(length(min = 1))]
    text: String,
    /// First character, from 0; a negative number counts from the end.
    #[serde(default)]
    start: i64,
    /// End, exclusive; default: the end of the text; a negative number counts from the end.
    end: Option<i64>,
}

impl ToolOperation for TextSlice {
    type Shared = ();

    async fn run(self, _ctx: &ToolContext, (): &()) -> Result<ToolOutput, HandlerError> {
        let length = self.text.chars().count();
        let end = self
            .end
            .unwrap_or(i64::try_from(length).unwrap_or(i64::MAX));
        let result = slice(&self.text, length, self.start, end);
        let output = json!({
            "original": self.text,
            "result": result,
            "start": self.start,
            "end": end,
            "length": result.chars().count(),
        });
        Ok(titled_output("Sliced a text", output))
    }
}

/// Returns the characters of `text` from `start` to `end`. Negative positions count from the end,
/// and all positions are clamped.
fn slice(text: &str, length: usize, start: i64, end: i64) -> String {
    let position = |index: i64| {
        let distance = usize::try_from(index.unsigned_abs()).unwrap_or(usize::MAX);
        if index < 0 {
            length.saturating_sub(distance)
        } else {
            distance.min(length)
        }
    };
    let (start, end) = (position(start), position(end));
    text.chars()
        .skip(start)
        .take(end.saturating_sub(start))
        .collect()
}

/// Maximum number of parts of a text: each takes far more memory than its characters.
const MAX_SPLIT_PARTS: usize = 100_000;

/// Split a text at a delimiter.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct TextSplit {
    /// Text to split.
    #[schemars(length(min = 1))]
    text: String,
    /// Delimiter; default: a line break. An empty delimiter splits into characters.
    #[serde(default = "line_break")]
    delimiter: String,
    /// Maximum parts; the rest is dropped.
    #[schemars(range(min = 1))]
    max_parts: Option<usize>,
}

impl ToolOperation for TextSplit {
    type Shared = ();

    async fn run(self, _ctx: &ToolContext, (): &()) -> Result<ToolOutput, HandlerError> {
        let limit = self
            .max_parts
            .unwrap_or(usize::MAX)
            .min(MAX_SPLIT_PARTS + 1);
        let parts: Vec<String> = if self.delimiter.is_empty() {
            self.text.chars().take(limit).map(String::from).collect()
        } else {
            self.text
                .split(&self.delimiter)
                .take(limit)
                .map(str::to_owned)
                .collect()
        };
        if parts.len() > MAX_SPLIT_PARTS {
            let message = format!("the text has more than {MAX_SPLIT_PARTS} parts");
            return Err(errors::invalid_argument(message).suggest("set `maxParts`"));
        }
        let title = format!("Split into {}", parts.len());
        Ok(titled_output(
            title,
            json!({"delimiter": self.delimiter, "count": parts.len(), "parts": parts}),
        ))
    }
}

/// Join parts with a delimiter between them.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TextJoin {
    /// Parts, in order: strings, numbers or booleans.
    #[schemars(schema_with = "scalars_schema")]
    parts: Vec<Value>,
    /// Delimiter; default: a line break.
    #[serde(default = "line_break")]
    delimiter: String,
}

impl ToolOperation for TextJoin {
    type Shared = ();

    async fn run(self, _ctx: &ToolContext, (): &()) -> Result<ToolOutput, HandlerError> {
        let parts = self.parts.iter().enumerate().map(|(index, part)| {
            scalar_to_string(part).ok_or_else(|| {
                errors::invalid_argument(format!(
                    "parts[{index}] must be a string, a number or a boolean"
                ))
            })
        });
        let parts: Vec<String> = parts.collect::<Result<_, _>>()?;
        let size = parts
            .iter()
            .map(|part| part.len().saturating_add(self.delimiter.len()));
        check_result_size(size.fold(0, usize::saturating_add))?;
        let result = parts.join(&self.delimiter);
        let title = format!("Joined {}", parts.len());
        Ok(titled_output(
            title,
            json!({"delimiter": self.delimiter, "count": parts.len(), "result": result}),
        ))
    }
}

fn scalars_schema(_generator: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "array", "items": {"type": ["string", "number", "boolean"]}})
}

/// Which end of a text to trim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum TrimMode {
    Start,
    End,
    #[default]
    Both,
}

/// Remove whitespace at the ends of a text.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TextTrim {
    /// Text to trim.
    #[schemars(length(min = 1))]
    text: String,
    /// End to trim.
    #[serde(default)]
    mode: TrimMode,
}

impl ToolOperation for TextTrim {
    type Shared = ();

    async fn run(self, _ctx: &ToolContext, (): &()) -> Result<ToolOutput, HandlerError> {
        let is_white = |c: char| c.is_whitespace() || c == '\u{FEFF}';
        let result = match self.mode {
            TrimMode::Start => self.text.trim_start_matches(is_white),
            TrimMode::End => self.text.trim_end_matches(is_white),
            TrimMode::Both => self.text.trim_matches(is_white),
        };
        let trimmed = self.text.chars().count() - result.chars().count();
        let output = json!({"original": self.text, "result": result, "mode": self.mode, "trimmedLength": trimmed});
        Ok(titled_output(format!("Trimmed {trimmed}"), output))
    }
}

/// Upper or lower case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum LetterCase {
    Upper,
    Lower,
}

/// Change a text to upper or lower case.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TextCase {
    /// Text to change.
    #[schemars(length(min = 1))]
    text: String,
    /// Case to change it to.
    to: LetterCase,
}

impl ToolOperation for TextCase {
    type Shared = ();

    async fn run(self, _ctx: &ToolContext, (): &()) -> Result<ToolOutput, HandlerError> {
        let result = match self.to {
            LetterCase::Upper => self.text.to_uppercase(),
            LetterCase::Lower => self.text.to_lowercase(),
        };
        Ok(titled_output(
            "Changed the case",
            json!({"original": self.text, "result": result, "to": self.to}),
        ))
    }
}

fn line_break() -> String {
    "\n".to_owned()
}

/// Refuses results larger than [`MAX_RESULT_BYTES`].
fn check_result_size(size: usize) -> Result<(), HandlerError> {
    if size <= MAX_RESULT_BYTES {
        return Ok(());
    }
    let message =
        format!("the result would have {size} bytes, more than the limit of {MAX_RESULT_BYTES}");
    Err(HandlerError::new(message)
        .code(Code::TOOL_TOO_LARGE)
        .suggest("work on smaller parts of the text"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Compares with the definition: negative indexes get the length added, then both are
        /// clamped to 0..=length.
        #[test]
        fn slice_clamps_indexes_and_counts_negative_ones_from_the_end(text in "\\PC{0,12}", start in -20i64..20, end in -20i64..20) {
            let chars: Vec<char> = text.chars().collect();
            let length = chars.len() as i64;
            let clamp = |index: i64| (if index < 0 { index + length } else { index }).clamp(0, length) as usize;
            let (from, to) = (clamp(start), clamp(end));
            let expected: String = if from < to { chars[from..to].iter().collect() } else { String::new() };
            prop_assert_eq!(slice(&text, chars.len(), start, end), expected);
        }

        #[test]
        fn slice_accepts_any_index(start: i64, end: i64) {
            prop_assert!(slice("añb", 3, start, end).chars().count() <= 3);
        }
    }
}

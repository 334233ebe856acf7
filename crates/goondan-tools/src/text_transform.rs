//! `text-transform`: small changes to a text, counted in characters.

use std::sync::Arc;

use goondan_core::ports::tool::{ToolContext, ToolError, ToolOutput};
use goondan_spec::Code;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::define::{Export, Operation, titled};
use crate::errors;
use crate::table::Builtin;

/// Maximum size of a result in bytes.
const LARGEST: usize = 16 * 1024 * 1024;

pub(crate) const BUILTIN: Builtin = Builtin {
    name: "text-transform",
    about: "Small changes to a text. Positions and lengths are counted in characters.",
    open: |_| {
        let none = Arc::new(());
        Ok(vec![
            Export::new::<Replace>("replace", &none).read_only(),
            Export::new::<Slice>("slice", &none).read_only(),
            Export::new::<Split>("split", &none).read_only(),
            Export::new::<Join>("join", &none).read_only(),
            Export::new::<Trim>("trim", &none).read_only(),
            Export::new::<Case>("case", &none).read_only(),
        ])
    },
    ..Builtin::BLANK
};

/// Replace the first or every occurrence of a literal text.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Replace {
    /// The text to change.
    #[schemars(length(min = 1))]
    text: String,
    /// What to look for, literally.
    #[schemars(length(min = 1))]
    search: String,
    /// What to put in its place.
    #[serde(default)]
    replacement: String,
    /// Replace every occurrence instead of the first.
    #[serde(default)]
    all: bool,
}

impl Operation for Replace {
    type Shared = ();

    async fn run(self, _ctx: &ToolContext, (): &()) -> Result<ToolOutput, ToolError> {
        if self.search.is_empty() {
            return Err(errors::invalid("search must not be empty"));
        }
        let limit = if self.all { usize::MAX } else { 1 };
        let replacements = self.text.matches(&self.search).take(limit).count();
        bounded(
            self.text
                .len()
                .saturating_add(replacements.saturating_mul(self.replacement.len())),
        )?;
        let result = self.text.replacen(&self.search, &self.replacement, limit);
        let output = json!({"original": self.text, "result": result, "replacements": replacements});
        Ok(titled(format!("Replaced {replacements}"), output))
    }
}

/// Take a part of a text.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Slice {
    /// The text to take from.
    #[schemars(length(min = 1))]
    text: String,
    /// The first character to take, from 0; a negative number counts from the end.
    #[serde(default)]
    start: i64,
    /// The first character to leave, the end of the text if not given; a negative number counts from the end.
    end: Option<i64>,
}

impl Operation for Slice {
    type Shared = ();

    async fn run(self, _ctx: &ToolContext, (): &()) -> Result<ToolOutput, ToolError> {
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
        Ok(titled("Sliced a text", output))
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

/// Split a text at a delimiter.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Split {
    /// The text to split.
    #[schemars(length(min = 1))]
    text: String,
    /// Where to split, a line break if not given; an empty delimiter splits into characters.
    #[serde(default = "line_break")]
    delimiter: String,
    /// How many parts to return at most; the rest is dropped.
    #[schemars(range(min = 1))]
    max_parts: Option<usize>,
}

impl Operation for Split {
    type Shared = ();

    async fn run(self, _ctx: &ToolContext, (): &()) -> Result<ToolOutput, ToolError> {
        let limit = self.max_parts.unwrap_or(usize::MAX);
        let parts: Vec<String> = if self.delimiter.is_empty() {
            self.text.chars().take(limit).map(String::from).collect()
        } else {
            self.text
                .split(&self.delimiter)
                .take(limit)
                .map(str::to_owned)
                .collect()
        };
        let title = format!("Split into {}", parts.len());
        Ok(titled(
            title,
            json!({"delimiter": self.delimiter, "count": parts.len(), "parts": parts}),
        ))
    }
}

/// Join parts with a delimiter between them.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Join {
    /// The parts, in order: texts, numbers or booleans.
    #[schemars(schema_with = "scalars")]
    parts: Vec<Value>,
    /// What to put between two parts, a line break if not given.
    #[serde(default = "line_break")]
    delimiter: String,
}

impl Operation for Join {
    type Shared = ();

    async fn run(self, _ctx: &ToolContext, (): &()) -> Result<ToolOutput, ToolError> {
        let parts = self.parts.iter().enumerate().map(|(index, part)| {
            scalar(part).ok_or_else(|| {
                errors::invalid(format!(
                    "parts[{index}] must be a text, a number or a boolean"
                ))
            })
        });
        let parts: Vec<String> = parts.collect::<Result<_, _>>()?;
        let size = parts
            .iter()
            .map(|part| part.len().saturating_add(self.delimiter.len()));
        bounded(size.fold(0, usize::saturating_add))?;
        let result = parts.join(&self.delimiter);
        let title = format!("Joined {}", parts.len());
        Ok(titled(
            title,
            json!({"delimiter": self.delimiter, "count": parts.len(), "result": result}),
        ))
    }
}

fn scalars(_generator: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "array", "items": {"type": ["string", "number", "boolean"]}})
}

/// Formats a scalar as a string. Integers have no decimal point, however they were written.
pub(crate) fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) => Some(value.to_string()),
        Value::Number(number) => Some(match number.as_f64().filter(|_| number.is_f64()) {
            Some(float) => float.to_string(),
            None => number.to_string(),
        }),
        _ => None,
    }
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

/// Remove white space at the ends of a text.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Trim {
    /// The text to trim.
    #[schemars(length(min = 1))]
    text: String,
    /// Which end to trim.
    #[serde(default)]
    mode: TrimMode,
}

impl Operation for Trim {
    type Shared = ();

    async fn run(self, _ctx: &ToolContext, (): &()) -> Result<ToolOutput, ToolError> {
        let white = |c: char| c.is_whitespace() || c == '\u{FEFF}';
        let result = match self.mode {
            TrimMode::Start => self.text.trim_start_matches(white),
            TrimMode::End => self.text.trim_end_matches(white),
            TrimMode::Both => self.text.trim_matches(white),
        };
        let trimmed = self.text.chars().count() - result.chars().count();
        let output = json!({"original": self.text, "result": result, "mode": self.mode, "trimmedLength": trimmed});
        Ok(titled(format!("Trimmed {trimmed}"), output))
    }
}

/// Upper or lower case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Target {
    Upper,
    Lower,
}

/// Change a text to upper or lower case.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Case {
    /// The text to change.
    #[schemars(length(min = 1))]
    text: String,
    /// The case to change it to.
    to: Target,
}

impl Operation for Case {
    type Shared = ();

    async fn run(self, _ctx: &ToolContext, (): &()) -> Result<ToolOutput, ToolError> {
        let result = match self.to {
            Target::Upper => self.text.to_uppercase(),
            Target::Lower => self.text.to_lowercase(),
        };
        Ok(titled(
            "Changed the case",
            json!({"original": self.text, "result": result, "to": self.to}),
        ))
    }
}

fn line_break() -> String {
    "\n".to_owned()
}

/// Refuses results larger than [`LARGEST`].
fn bounded(size: usize) -> Result<(), ToolError> {
    if size <= LARGEST {
        return Ok(());
    }
    let message =
        format!("the result would have {size} bytes, more than the {LARGEST} that this tool makes");
    Err(ToolError::new(message)
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
        fn slice_clamps_and_counts_from_the_end(text in "\\PC{0,12}", start in -20i64..20, end in -20i64..20) {
            let chars: Vec<char> = text.chars().collect();
            let length = chars.len() as i64;
            let clamp = |index: i64| (if index < 0 { index + length } else { index }).clamp(0, length) as usize;
            let (from, to) = (clamp(start), clamp(end));
            let expected: String = if from < to { chars[from..to].iter().collect() } else { String::new() };
            prop_assert_eq!(slice(&text, chars.len(), start, end), expected);
        }

        #[test]
        fn slice_survives_every_index(start: i64, end: i64) {
            prop_assert!(slice("añb", 3, start, end).chars().count() <= 3);
        }
    }

    #[test]
    fn numbers_read_as_people_write_them() {
        assert_eq!(scalar(&json!(1.0)).as_deref(), Some("1"));
        assert_eq!(scalar(&json!(1.5)).as_deref(), Some("1.5"));
        assert_eq!(scalar(&json!(-7)).as_deref(), Some("-7"));
        assert_eq!(scalar(&json!(true)).as_deref(), Some("true"));
        assert_eq!(scalar(&json!(null)), None);
    }
}

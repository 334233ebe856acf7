//! Excerpts of tool arguments and results for events (rule E2): truncated and without secrets.

use serde_json::{Map, Value};

use crate::policy::redact::SecretRedactor;
use goondan_core::limits::head;

/// Characters kept from the beginning and the end of a longer string. Error details are often at
/// the end.
const HEAD_CHARS: usize = 700;
const TAIL_CHARS: usize = 500;

/// Approximate maximum characters of all strings in an excerpt.
const MAX_EXCERPT_CHARS: usize = 2_400;

/// Characters counted for each value in addition to its text.
const VALUE_OVERHEAD_CHARS: usize = 4;

/// Maximum entries kept of a list or an object.
const MAX_EXCERPT_ENTRIES: usize = 30;

/// Maximum nesting depth; deeper values are left out.
const MAX_EXCERPT_DEPTH: usize = 4;

/// Maximum characters of a field name.
const MAX_FIELD_NAME_CHARS: usize = 80;

/// Replaces omitted content.
const OMISSION_MARKER: &str = "…";

/// Part of a value that shows the structure of the whole.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ValueExcerpt {
    /// Same shape as the whole value.
    pub(crate) value: Value,
    pub(crate) is_cut: bool,
}

/// Returns an excerpt of a value for events: without secrets, and within the size limits.
pub(crate) fn excerpt(redactor: &SecretRedactor, value: &Value) -> ValueExcerpt {
    let mut cutter = ExcerptBuilder {
        redactor,
        room: MAX_EXCERPT_CHARS,
        is_cut: false,
    };
    let value = cutter.value(value, 0);
    ValueExcerpt {
        value,
        is_cut: cutter.is_cut,
    }
}

struct ExcerptBuilder<'a> {
    redactor: &'a SecretRedactor,
    /// Remaining characters.
    room: usize,
    is_cut: bool,
}

impl ExcerptBuilder<'_> {
    /// Returns the excerpt of a value at this depth.
    fn value(&mut self, value: &Value, depth: usize) -> Value {
        self.room = self.room.saturating_sub(VALUE_OVERHEAD_CHARS);
        match value {
            Value::String(text) => Value::String(self.text(text)),
            Value::Array(_) | Value::Object(_) if depth >= MAX_EXCERPT_DEPTH => {
                self.omission_marker()
            }
            Value::Array(items) => {
                let mut excerpt: Vec<Value> = Vec::new();
                for item in items {
                    if self.is_full(excerpt.len()) {
                        excerpt.push(self.omission_marker());
                        break;
                    }
                    excerpt.push(self.value(item, depth + 1));
                }
                Value::Array(excerpt)
            }
            Value::Object(fields) => {
                let mut excerpt = Map::new();
                for (name, field) in fields {
                    if self.is_full(excerpt.len()) {
                        excerpt.insert(OMISSION_MARKER.to_owned(), self.omission_marker());
                        break;
                    }
                    let name = self.name(name);
                    excerpt.insert(name, self.value(field, depth + 1));
                }
                Value::Object(excerpt)
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }

    /// Returns true if a list with this number of entries must end.
    fn is_full(&self, entries: usize) -> bool {
        entries >= MAX_EXCERPT_ENTRIES || self.room == 0
    }

    /// Returns the marker for an omitted value and marks the excerpt as cut.
    fn omission_marker(&mut self) -> Value {
        self.is_cut = true;
        OMISSION_MARKER.into()
    }

    /// Returns a field name without secrets, cut to its limit.
    fn name(&mut self, name: &str) -> String {
        let name = self.redactor.text(name);
        let beginning = head(&name, MAX_FIELD_NAME_CHARS);
        self.is_cut |= beginning.len() < name.len();
        self.room = self.room.saturating_sub(beginning.len());
        beginning.to_owned()
    }

    /// Removes secrets before truncating: a truncated secret would no longer be recognized.
    fn text(&mut self, text: &str) -> String {
        let text = self.redactor.text(text);
        let length = text.chars().count();
        let room = self.room.min(HEAD_CHARS + TAIL_CHARS);
        let excerpt = if length <= room {
            text.into_owned()
        } else {
            self.is_cut = true;
            cut_middle(&text, length, room)
        };
        self.room = self.room.saturating_sub(length.min(room));
        excerpt
    }
}

/// Returns the beginning and the end of `text` in about `room` characters, with the number of
/// omitted characters.
fn cut_middle(text: &str, length: usize, room: usize) -> String {
    let beginning = room * HEAD_CHARS / (HEAD_CHARS + TAIL_CHARS);
    let end = room - beginning;
    let first = head(text, beginning);
    let last = &text[head(text, length - end).len()..];
    format!(
        "{first}\n{OMISSION_MARKER} {} characters {OMISSION_MARKER}\n{last}",
        length - room
    )
}

#[cfg(test)]
mod tests {
    use goondan_spec::Secret;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn excerpt_of(value: &Value) -> ValueExcerpt {
        excerpt(&SecretRedactor::new(), value)
    }

    #[test]
    fn a_short_value_is_unchanged() {
        let value = json!({"path": "a.rs", "n": [1, null, true], "deep": {"er": {"x": 1}}});
        assert_eq!(
            excerpt_of(&value),
            ValueExcerpt {
                value,
                is_cut: false
            }
        );
    }

    #[test]
    fn a_long_string_keeps_its_beginning_and_end() {
        let text = format!("first\n{}\nlast", "ä".repeat(5_000));
        let cut = excerpt_of(&json!({"exitCode": 1, "stdout": text}));
        let shown = cut.value["stdout"].as_str().unwrap();
        assert!(
            cut.is_cut && shown.starts_with("first\n") && shown.ends_with("\nlast"),
            "{shown}"
        );
        assert!(shown.contains("\n… 3811 characters …\n"), "{shown}");
        assert_eq!(cut.value["exitCode"], 1);
    }

    #[test]
    fn a_secret_at_a_cut_is_masked_completely() {
        let redactor = SecretRedactor::new();
        redactor.add_secrets([Secret::new("sk-0123456789")]);
        let text = "x".repeat(HEAD_CHARS - 5) + "sk-0123456789" + &"y".repeat(5_000);
        let shown = excerpt(&redactor, &json!({"sk-0123456789": text}))
            .value
            .to_string();
        assert!(!shown.contains("sk-") && shown.contains("***"), "{shown}");
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(json!(null)),
            any::<i64>().prop_map(Value::from),
            ".{0,3000}".prop_map(Value::from)
        ];
        leaf.prop_recursive(6, 200, 40, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..40).prop_map(Value::from),
                proptest::collection::hash_map(".{0,100}", inner, 0..40).prop_map(|map| json!(map)),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn an_excerpt_is_bounded_and_reports_whether_it_is_cut(value in values()) {
            let excerpt = excerpt_of(&value);
            prop_assert!(excerpt.value.to_string().chars().count() < 20_000);
            prop_assert_eq!(excerpt.value == value, !excerpt.is_cut);
        }
    }
}

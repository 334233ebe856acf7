//! What tools are given and what comes of them, in the little room that an event has (rule E2): cut, and without secrets.

use serde_json::{Map, Value};

use crate::policy::redact::Redactor;
use goondan_core::limits::head;

/// A longer text is cut: so many characters of its beginning stay, and of its end. What failed is told at the end.
const BEGINNING: usize = 700;
const END: usize = 500;

/// All texts of an excerpt have together about that many characters.
const MOST_TEXT: usize = 2_400;

/// What a value takes beside its text.
const OVERHEAD: usize = 4;

/// So many elements of a list, or fields of an object, are kept.
const MOST_ENTRIES: usize = 30;

/// Values that lie deeper are left out.
const DEEPEST: usize = 4;

/// The longest name of a field, in characters.
const LONGEST_NAME: usize = 80;

/// What stands where something is left out.
const LEFT_OUT: &str = "…";

/// A part of a value that tells what the whole is like.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Excerpt {
    /// Of the same shape as the whole.
    pub(crate) value: Value,
    /// Something is left out.
    pub(crate) is_cut: bool,
}

/// An excerpt of `value`.
pub(crate) fn excerpt(redactor: &Redactor, value: &Value) -> Excerpt {
    let mut cutter = Cutter {
        redactor,
        room: MOST_TEXT,
        is_cut: false,
    };
    let value = cutter.value(value, 0);
    Excerpt {
        value,
        is_cut: cutter.is_cut,
    }
}

struct Cutter<'a> {
    redactor: &'a Redactor,
    /// In characters.
    room: usize,
    is_cut: bool,
}

impl Cutter<'_> {
    fn value(&mut self, value: &Value, depth: usize) -> Value {
        self.room = self.room.saturating_sub(OVERHEAD);
        match value {
            Value::String(text) => Value::String(self.text(text)),
            Value::Array(_) | Value::Object(_) if depth >= DEEPEST => self.left_out(),
            Value::Array(items) => {
                let mut kept: Vec<Value> = Vec::new();
                for item in items {
                    if self.is_full(kept.len()) {
                        kept.push(self.left_out());
                        break;
                    }
                    kept.push(self.value(item, depth + 1));
                }
                Value::Array(kept)
            }
            Value::Object(fields) => {
                let mut kept = Map::new();
                for (name, field) in fields {
                    if self.is_full(kept.len()) {
                        kept.insert(LEFT_OUT.to_owned(), self.left_out());
                        break;
                    }
                    let name = self.name(name);
                    kept.insert(name, self.value(field, depth + 1));
                }
                Value::Object(kept)
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }

    fn is_full(&self, entries: usize) -> bool {
        entries >= MOST_ENTRIES || self.room == 0
    }

    fn left_out(&mut self) -> Value {
        self.is_cut = true;
        LEFT_OUT.into()
    }

    fn name(&mut self, name: &str) -> String {
        let name = self.redactor.text(name);
        let kept = head(&name, LONGEST_NAME);
        self.is_cut |= kept.len() < name.len();
        self.room = self.room.saturating_sub(kept.len());
        kept.to_owned()
    }

    /// Secrets are taken out first: of one that is cut, a part would stay.
    fn text(&mut self, text: &str) -> String {
        let text = self.redactor.text(text);
        let length = text.chars().count();
        let room = self.room.min(BEGINNING + END);
        let kept = match length <= room {
            true => text.into_owned(),
            false => {
                self.is_cut = true;
                cut(&text, length, room)
            }
        };
        self.room = self.room.saturating_sub(length.min(room));
        kept
    }
}

/// The beginning and the end of a text of that many characters, in about `room` of them, and how many are between.
fn cut(text: &str, length: usize, room: usize) -> String {
    let beginning = room * BEGINNING / (BEGINNING + END);
    let end = room - beginning;
    let first = head(text, beginning);
    let last = &text[head(text, length - end).len()..];
    format!(
        "{first}\n{LEFT_OUT} {} characters {LEFT_OUT}\n{last}",
        length - room
    )
}

#[cfg(test)]
mod tests {
    use goondan_spec::Secret;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn of(value: &Value) -> Excerpt {
        excerpt(&Redactor::new(), value)
    }

    #[test]
    fn what_is_short_stays_as_it_is() {
        let value = json!({"path": "a.rs", "n": [1, null, true], "deep": {"er": {"x": 1}}});
        assert_eq!(
            of(&value),
            Excerpt {
                value,
                is_cut: false
            }
        );
    }

    #[test]
    fn a_long_text_keeps_its_beginning_and_its_end() {
        let text = format!("first\n{}\nlast", "ä".repeat(5_000));
        let cut = of(&json!({"exitCode": 1, "stdout": text}));
        let shown = cut.value["stdout"].as_str().unwrap();
        assert!(
            cut.is_cut && shown.starts_with("first\n") && shown.ends_with("\nlast"),
            "{shown}"
        );
        assert!(shown.contains("\n… 3811 characters …\n"), "{shown}");
        assert_eq!(cut.value["exitCode"], 1);
    }

    #[test]
    fn no_part_of_a_secret_stays_where_a_text_is_cut() {
        let redactor = Redactor::new();
        redactor.learn([Secret::new("sk-0123456789")]);
        let text = "x".repeat(BEGINNING - 5) + "sk-0123456789" + &"y".repeat(5_000);
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
        fn an_excerpt_is_small_and_says_whether_it_is_all(value in values()) {
            let excerpt = of(&value);
            prop_assert!(excerpt.value.to_string().chars().count() < 20_000);
            prop_assert_eq!(excerpt.value == value, !excerpt.is_cut);
        }
    }
}

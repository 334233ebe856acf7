//! Cuts texts to the limits of a tool (rule T7). All limits count characters.

use serde_json::Value;

const SUFFIX: &str = "... (truncated)";

/// `message` in at most `limit` characters, the suffix that says so included.
pub fn cut_error_message(message: &str, limit: usize) -> String {
    if message.chars().count() <= limit {
        return message.to_owned();
    }
    match limit.checked_sub(SUFFIX.chars().count()) {
        Some(room) => format!("{}{SUFFIX}", head(message, room)),
        None => head(message, limit).to_owned(),
    }
}

/// The most that an event carries beside its text, in bytes of JSON (rule E2).
const MOST_METADATA: usize = 16_000;

/// `metadata` as an event may carry it: where it is too large, a note of how large it was.
pub fn bounded(metadata: &crate::JsonObject) -> crate::JsonObject {
    // Most have none: then nothing is written.
    let bytes = if metadata.is_empty() {
        0
    } else {
        serde_json::json!(metadata).to_string().len()
    };
    match bytes <= MOST_METADATA {
        true => metadata.clone(),
        false => [
            ("truncated".to_owned(), true.into()),
            ("bytes".to_owned(), bytes.into()),
        ]
        .into_iter()
        .collect(),
    }
}

/// An output that was cut, and how long it was.
#[derive(Debug, Clone, PartialEq)]
pub struct Cut {
    /// What the model gets.
    pub output: Value,
    /// The whole, as it should be saved.
    pub whole: String,
    /// Characters of the whole.
    pub length: usize,
}

/// Cuts `output` where its text is longer than `limit`; `None` where it fits. `saved_at` is told in the notice.
///
/// Text is cut at its end. In an object or array the longest texts are cut, so that its shape survives; where that is not
/// enough, its JSON is cut as text.
pub fn cut_output(output: &Value, limit: usize, saved_at: &str) -> Option<Cut> {
    if surely_fits(output, limit) {
        return None;
    }
    let whole = match output {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let length = whole.chars().count();
    if length <= limit {
        return None;
    }
    let output = match output {
        Value::String(text) => Value::String(cut_text(text, limit, saved_at)),
        other => cut_fields(other, length, limit, saved_at)
            .unwrap_or_else(|| Value::String(cut_text(&whole, limit, saved_at))),
    };
    Some(Cut {
        output,
        whole,
        length,
    })
}

fn notice(kept: usize, length: usize, saved_at: &str) -> String {
    format!(
        "\n[output truncated: {kept} of {length} characters shown; the whole output is in {saved_at}]"
    )
}

/// The first `limit` characters of `text`, and the notice.
fn cut_text(text: &str, limit: usize, saved_at: &str) -> String {
    let length = text.chars().count();
    format!(
        "{}{}",
        head(text, limit),
        notice(limit.min(length), length, saved_at)
    )
}

fn cut_fields(value: &Value, length: usize, limit: usize, saved_at: &str) -> Option<Value> {
    const ROUNDS: usize = 8;
    let mut cut = value.clone();
    let mut excess = length - limit;
    for _ in 0..ROUNDS {
        let text = longest_text(&mut cut)?;
        let room = written(text).checked_sub(excess).filter(|room| *room > 0);
        let kept = room.map_or_else(|| text.chars().count() / 8, |room| fitting(text, room));
        *text = cut_text(text, kept, saved_at);
        let now = cut.to_string().chars().count();
        // Notices are not counted against the limit, but nothing may grow past it by much.
        if now <= limit + 1_000 {
            return Some(cut);
        }
        excess = now - limit;
    }
    None
}

fn longest_text(value: &mut Value) -> Option<&mut String> {
    match value {
        Value::String(text) => Some(text),
        Value::Array(items) => items
            .iter_mut()
            .filter_map(longest_text)
            .max_by_key(|text| written(text)),
        Value::Object(fields) => fields
            .iter_mut()
            .filter_map(|(_, field)| longest_text(field))
            .max_by_key(|text| written(text)),
        _ => None,
    }
}

/// How many characters `text` takes in JSON, quotes aside.
fn written(text: &str) -> usize {
    text.chars().map(escaped).sum()
}

/// How many of the first characters of `text` take at most `room` characters in JSON.
fn fitting(text: &str, room: usize) -> usize {
    let mut taken = 0;
    let fits = |character: &char| {
        taken += escaped(*character);
        taken <= room
    };
    text.chars().take_while(fits).count()
}

/// How many characters one character is in JSON.
fn escaped(character: char) -> usize {
    match character {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '\0'..'\u{20}' => 6,
        _ => 1,
    }
}

/// Whether a cheap upper bound says that `output` need not be cut, as for most: six bytes for each byte of text in JSON
/// (`\u00XX`), a handful for everything else.
pub fn surely_fits(output: &Value, limit: usize) -> bool {
    fn bound(value: &Value, left: usize) -> Option<usize> {
        match value {
            Value::String(text) => left.checked_sub(6 * text.len() + 3),
            Value::Array(items) => items
                .iter()
                .try_fold(left.checked_sub(2)?, |left, item| bound(item, left)),
            Value::Object(fields) => fields
                .iter()
                .try_fold(left.checked_sub(2)?, |left, (key, field)| {
                    bound(field, left.checked_sub(6 * key.len() + 4)?)
                }),
            _ => left.checked_sub(26),
        }
    }
    match output {
        Value::String(text) => text.len() <= limit,
        other => bound(other, limit).is_some(),
    }
}

/// The first `count` characters.
pub fn head(text: &str, count: usize) -> &str {
    match text.char_indices().nth(count) {
        Some((end, _)) => &text[..end],
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_suffix_counts_and_a_tiny_limit_has_no_room_for_it() {
        assert_eq!(
            cut_error_message("äöüäöüäöüäöüäöüäöü", 17),
            "äö... (truncated)"
        );
        assert_eq!(cut_error_message("a long message", 5), "a lon");
        assert_eq!(cut_error_message("short", 5), "short");
    }

    #[test]
    fn an_object_keeps_its_shape() {
        let output = json!({"exitCode": 0, "stdout": "x".repeat(500), "stderr": "fine"});
        let cut = cut_output(&output, 200, "files/1.txt").unwrap();
        assert_eq!(cut.output["exitCode"], 0);
        assert_eq!(cut.output["stderr"], "fine");
        assert!(
            cut.output["stdout"]
                .as_str()
                .unwrap()
                .contains("the whole output is in files/1.txt")
        );
        assert_eq!(cut.whole, output.to_string());
    }

    /// Texts of plain characters, of such that JSON escapes, and of both.
    fn texts() -> impl Strategy<Value = String> {
        prop_oneof![
            "[a-zäé]{300,600}",
            "[\"\\\\\n\t]{300,600}",
            "[\u{1}-\u{1f}]{300,600}",
            "[a-z\"\n\u{1}]{300,600}"
        ]
    }

    proptest! {
        #[test]
        fn what_characters_take_is_what_json_writes(text in any::<String>()) {
            prop_assert_eq!(written(&text) + 2, json!(text).to_string().chars().count());
        }

        #[test]
        fn a_field_is_cut_to_the_limit_and_no_further(text in texts(), other in "[a-z\"]{0,30}", limit in 100usize..300) {
            let output = json!({"stdout": text, "stderr": other});
            let cut = cut_output(&output, limit, "f").unwrap();
            let shown = cut.output["stdout"].as_str().unwrap();
            let kept = &shown[..shown.rfind("\n[output truncated").unwrap()];
            prop_assert!(text.starts_with(kept));
            prop_assert_eq!(&cut.output["stderr"], &json!(other));
            let size = json!({"stdout": kept, "stderr": other}).to_string().chars().count();
            // One character more would have been too much; it may be six in JSON.
            prop_assert!(size <= limit && size + 6 > limit, "{} of {}", size, limit);
        }

        #[test]
        fn a_message_never_exceeds_its_limit(text in ".{0,200}", limit in 0usize..100) {
            prop_assert!(cut_error_message(&text, limit).chars().count() <= limit.max(text.chars().count().min(limit)));
        }

        #[test]
        fn what_is_cut_says_how_much_and_keeps_the_whole(
            texts in proptest::collection::vec("[a-zé\"\n]{0,120}", 1..4),
            limit in 10usize..120,
        ) {
            let fields = texts.iter().enumerate().map(|(n, text)| (n.to_string(), json!(text)));
            let output = Value::Object(fields.collect());
            match cut_output(&output, limit, "f") {
                None => prop_assert!(output.to_string().chars().count() <= limit),
                Some(cut) => {
                    prop_assert_eq!(&cut.whole, &output.to_string());
                    prop_assert_eq!(cut.length, cut.whole.chars().count());
                    prop_assert!(cut.output.to_string().contains("the whole output is in f"));
                    prop_assert!(cut.output.to_string().chars().count() <= limit + 1_100);
                }
            }
        }

        #[test]
        fn what_fits_is_left_alone(text in ".{0,80}", limit in 0usize..100) {
            let cut = cut_output(&Value::String(text.clone()), limit, "f");
            prop_assert_eq!(cut.is_none(), text.chars().count() <= limit);
        }
    }
}

//! Truncates strings to the limits of a tool (rule T7). All limits count characters.

use serde_json::Value;

const TRUNCATION_SUFFIX: &str = "... (truncated)";

/// Returns `message` in at most `limit` characters, including the suffix that marks a truncation.
pub fn cut_error_message(message: &str, limit: usize) -> String {
    if message.chars().count() <= limit {
        return message.to_owned();
    }
    match limit.checked_sub(TRUNCATION_SUFFIX.chars().count()) {
        Some(room) => format!("{}{TRUNCATION_SUFFIX}", head(message, room)),
        None => head(message, limit).to_owned(),
    }
}

/// Maximum size of an event's metadata, in bytes of JSON (rule E2).
const MAX_METADATA_BYTES: usize = 16_000;

/// Returns `metadata` within the limit of events; if it is too large, only a note of its size.
pub fn bounded_metadata(metadata: &crate::JsonObject) -> crate::JsonObject {
    // Avoids the serialization for most events.
    let bytes = if metadata.is_empty() {
        0
    } else {
        serde_json::json!(metadata).to_string().len()
    };
    if bytes <= MAX_METADATA_BYTES {
        metadata.clone()
    } else {
        [
            ("truncated".to_owned(), true.into()),
            ("bytes".to_owned(), bytes.into()),
        ]
        .into_iter()
        .collect()
    }
}

/// A truncated output, with the original.
#[derive(Debug, Clone, PartialEq)]
pub struct OutputTruncation {
    /// Output for the model.
    pub output: Value,
    /// The complete output, to be saved.
    pub whole: String,
    /// Number of characters of the complete output.
    pub length: usize,
}

/// Truncates `output` if its text is longer than `limit`; `None` if it fits. The notice names
/// `saved_at`.
///
/// A string is cut at its end. In an object or array the longest strings are cut, so that its
/// structure is preserved. If that is not enough, its JSON is cut as a string.
pub fn cut_output(output: &Value, limit: usize, saved_at: &str) -> Option<OutputTruncation> {
    if surely_fits(output, limit) {
        return None;
    }
    let full_text = match output {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let length = full_text.chars().count();
    if length <= limit {
        return None;
    }
    let output = match output {
        Value::String(text) => Value::String(cut_text(text, limit, saved_at)),
        other => cut_fields(other, length, limit, saved_at)
            .unwrap_or_else(|| Value::String(cut_text(&full_text, limit, saved_at))),
    };
    Some(OutputTruncation {
        output,
        whole: full_text,
        length,
    })
}

/// Returns the text that replaces the removed part of an output of `length` characters.
fn truncation_notice(shown_length: usize, length: usize, saved_at: &str) -> String {
    format!(
        "\n[output truncated: {shown_length} of {length} characters shown; the whole output is in \
        {saved_at}]"
    )
}

/// Returns the first `limit` characters of `text`, followed by the truncation notice.
fn cut_text(text: &str, limit: usize, saved_at: &str) -> String {
    let length = text.chars().count();
    format!(
        "{}{}",
        head(text, limit),
        truncation_notice(limit.min(length), length, saved_at)
    )
}

/// Shortens the longest strings in `value` until its JSON has about `limit` characters; `length`:
/// its length before. `None` if a few rounds are not enough.
fn cut_fields(value: &Value, length: usize, limit: usize, saved_at: &str) -> Option<Value> {
    const ROUNDS: usize = 8;
    let mut cut = value.clone();
    let mut excess = length - limit;
    for _ in 0..ROUNDS {
        let text = longest_text(&mut cut)?;
        let room = json_length(text)
            .checked_sub(excess)
            .filter(|room| *room > 0);
        let shown_length = room.map_or_else(
            || text.chars().count() / 8,
            |room| fitting_characters(text, room),
        );
        *text = cut_text(text, shown_length, saved_at);
        let new_length = cut.to_string().chars().count();
        // Notices do not count against the limit, but the excess must stay small.
        if new_length <= limit + 1_000 {
            return Some(cut);
        }
        excess = new_length - limit;
    }
    None
}

/// Returns the string in `value`, at any depth, that takes most characters in JSON; `None` without
/// strings.
fn longest_text(value: &mut Value) -> Option<&mut String> {
    match value {
        Value::String(text) => Some(text),
        Value::Array(items) => items
            .iter_mut()
            .filter_map(longest_text)
            .max_by_key(|text| json_length(text)),
        Value::Object(fields) => fields
            .iter_mut()
            .filter_map(|(_, field)| longest_text(field))
            .max_by_key(|text| json_length(text)),
        _ => None,
    }
}

/// Returns the number of characters of `text` in JSON, without quotes.
fn json_length(text: &str) -> usize {
    text.chars().map(escaped_length).sum()
}

/// Returns how many characters from the start of `text` take at most `room` characters in JSON.
fn fitting_characters(text: &str, room: usize) -> usize {
    let mut used_bytes = 0;
    let has_room = |character: &char| {
        used_bytes += escaped_length(*character);
        used_bytes <= room
    };
    text.chars().take_while(has_room).count()
}

/// Returns the number of characters of one character in JSON.
fn escaped_length(character: char) -> usize {
    match character {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '\0'..'\u{20}' => 6,
        _ => 1,
    }
}

/// Returns true if `output` certainly needs no truncation, by a cheap upper bound. The bound
/// assumes six bytes for each byte of a string in JSON (`\u00XX`), and a few for all else.
pub fn surely_fits(output: &Value, limit: usize) -> bool {
    /// Subtracts the upper bound of `value` from `remaining`; `None` if it does not fit.
    fn subtract_bound(value: &Value, remaining: usize) -> Option<usize> {
        match value {
            Value::String(text) => remaining.checked_sub(6 * text.len() + 3),
            Value::Array(items) => items
                .iter()
                .try_fold(remaining.checked_sub(2)?, |remaining, item| {
                    subtract_bound(item, remaining)
                }),
            Value::Object(fields) => {
                fields
                    .iter()
                    .try_fold(remaining.checked_sub(2)?, |remaining, (key, field)| {
                        subtract_bound(field, remaining.checked_sub(6 * key.len() + 4)?)
                    })
            }
            _ => remaining.checked_sub(26),
        }
    }
    match output {
        Value::String(text) => text.len() <= limit,
        other => subtract_bound(other, limit).is_some(),
    }
}

/// Returns the first `count` characters.
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
    fn the_truncation_suffix_counts_and_is_omitted_for_tiny_limits() {
        assert_eq!(
            cut_error_message("äöüäöüäöüäöüäöüäöü", 17),
            "äö... (truncated)"
        );
        assert_eq!(cut_error_message("a long message", 5), "a lon");
        assert_eq!(cut_error_message("short", 5), "short");
    }

    #[test]
    fn a_truncated_object_keeps_its_fields() {
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

    /// Generates strings of plain characters, of characters that JSON escapes, and of both.
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
        fn the_json_length_equals_the_serialized_length(text in any::<String>()) {
            prop_assert_eq!(json_length(&text) + 2, json!(text).to_string().chars().count());
        }

        #[test]
        fn a_field_is_truncated_exactly_to_the_limit(text in texts(), other in "[a-z\"]{0,30}", limit in 100usize..300) {
            let output = json!({"stdout": text, "stderr": other});
            let cut = cut_output(&output, limit, "f").unwrap();
            let shown = cut.output["stdout"].as_str().unwrap();
            let shown_text = &shown[..shown.rfind("\n[output truncated").unwrap()];
            prop_assert!(text.starts_with(shown_text));
            prop_assert_eq!(&cut.output["stderr"], &json!(other));
            let size = json!({"stdout": shown_text, "stderr": other}).to_string().chars().count();
            // One more character would exceed the limit. JSON can write it as six characters.
            prop_assert!(size <= limit && size + 6 > limit, "{} of {}", size, limit);
        }

        #[test]
        fn an_error_message_never_exceeds_its_limit(text in ".{0,200}", limit in 0usize..100) {
            prop_assert!(cut_error_message(&text, limit).chars().count() <= limit.max(text.chars().count().min(limit)));
        }

        #[test]
        fn a_truncated_output_reports_its_length_and_keeps_the_whole_text(
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
        fn an_output_within_the_limit_is_unchanged(text in ".{0,80}", limit in 0usize..100) {
            let cut = cut_output(&Value::String(text.clone()), limit, "f");
            prop_assert_eq!(cut.is_none(), text.chars().count() <= limit);
        }
    }
}

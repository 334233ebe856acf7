//! YAML writer for files that people read and edit: block style, plain scalars if unambiguous,
//! literal blocks for multi-line strings.

use goondan::internal::untrusted_text::{self, KeptCharacters, TextEscaper};
use serde_json::Value;

/// Formats a value as a YAML document in block style.
pub(super) fn write(value: &Value) -> String {
    let mut text = String::new();
    match value {
        Value::Object(_) | Value::Array(_) => write_block(value, 0, &mut text),
        scalar => text.push_str(&format!("{}\n", format_inline(scalar))),
    }
    text
}

/// Writes a map or a list in block style with an indentation of `depth` levels.
fn write_block(value: &Value, depth: usize, out: &mut String) {
    match value {
        Value::Object(fields) => {
            for (index, (key, value)) in fields.iter().enumerate() {
                // The first key may follow the dash of a list item.
                if index > 0 || !out.ends_with("- ") {
                    write_indent(depth, out);
                }
                out.push_str(&format!("{}:", format_scalar(key)));
                write_nested(value, depth + 1, out);
            }
        }
        Value::Array(items) => {
            for item in items {
                write_indent(depth, out);
                out.push('-');
                match item {
                    Value::Object(fields) if !fields.is_empty() => {
                        out.push(' ');
                        write_block(item, depth + 1, out);
                    }
                    other => write_nested(other, depth + 1, out),
                }
            }
        }
        other => out.push_str(&format!(" {}\n", format_inline(other))),
    }
}

/// Writes the value after a key or a dash.
fn write_nested(value: &Value, depth: usize, out: &mut String) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            out.push('\n');
            write_block(value, depth, out);
        }
        Value::Array(items) if !items.is_empty() => {
            out.push('\n');
            write_block(value, depth, out);
        }
        Value::String(text) if is_literal(text) => {
            out.push_str(if text.ends_with('\n') {
                " |\n"
            } else {
                " |-\n"
            });
            for line in text.lines() {
                if !line.is_empty() {
                    write_indent(depth, out);
                    out.push_str(line);
                }
                out.push('\n');
            }
        }
        other => out.push_str(&format!(" {}\n", format_inline(other))),
    }
}

/// Writes the indentation of a line.
fn write_indent(depth: usize, out: &mut String) {
    out.push_str(&"  ".repeat(depth));
}

/// Formats a scalar or an empty collection on one line.
fn format_inline(value: &Value) -> String {
    match value {
        Value::String(text) => format_scalar(text),
        other => other.to_string(),
    }
}

/// Returns true if a literal block preserves the string, and all of its characters are visible.
fn is_literal(text: &str) -> bool {
    text.contains('\n')
        && !text.contains('\t')
        && TextEscaper::new(KeptCharacters::Writing).escape(text) == text
        && !text.starts_with([' ', '\n'])
        && !text.ends_with("\n\n")
        && !text.trim_end_matches('\n').is_empty()
}

/// Writes a plain scalar if it is unambiguous, or else JSON, which is valid YAML.
fn format_scalar(text: &str) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '/' | '.' | ' ');
    let has_letter_first = text.starts_with(|c: char| c.is_ascii_alphabetic());
    let words = [
        "true", "false", "null", "yes", "no", "on", "off", "y", "n", "nan", "inf",
    ];
    let is_plain = has_letter_first
        && text.chars().all(is_word)
        && !text.ends_with(' ')
        && !words.contains(&text.to_lowercase().as_str());
    if is_plain {
        text.to_owned()
    } else {
        escape_invisible(text)
    }
}

/// Writes JSON with invisible characters as YAML escapes, so that nothing is hidden from a reader
/// of the test case.
fn escape_invisible(text: &str) -> String {
    let json = Value::from(text).to_string();
    let escape_char = |c: char| match u32::from(c) {
        _ if untrusted_text::is_visible(c) => c.to_string(),
        code @ ..=0xffff => format!("\\u{code:04x}"),
        code => format!("\\U{code:08x}"),
    };
    json.chars().map(escape_char).collect()
}

#[cfg(test)]
mod tests {
    use goondan::internal::yaml;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_written_as_block_yaml() {
        let value = json!({"case": "a-b", "steps": [{"send": {"input": "Hi: there"}, "expect": {"n": 1}}, "no"], "text": "a\n  b\n", "e": {}});
        insta::assert_snapshot!(write(&value));
    }

    #[test]
    fn invisible_characters_are_escaped() {
        let hidden = json!({"a": "x\u{202e}y\u{200b}", "b": "one\ntw\u{2066}o", "c": "\u{e0041}", "d": "日本 🙂\nmore"});
        insta::assert_snapshot!(write(&hidden), @r#"
        a: "x\u202ey\u200b"
        b: "one\ntw\u2066o"
        c: "\U000e0041"
        d: |-
          日本 🙂
          more
        "#);
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            ".*".prop_map(Value::from),
            "[a-z{}:#|> \\n-]{0,12}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 20, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-z$ :]{1,6}", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn written_yaml_parses_to_the_same_value(value in values()) {
            let value = json!({"value": value});
            let text = write(&value);
            let read = yaml::documents_from_str::<Value>(&text);
            prop_assert_eq!(read.map_err(|error| error.to_string()), Ok(vec![value]), "{}", text);
        }
    }
}

//! References such as `${name.output.field}` to saved results of earlier steps.

use std::collections::BTreeMap;

use serde_json::Value;

/// Saved results by name.
pub(crate) type Saved = BTreeMap<String, Value>;

/// Replaces all references in a value. A string that consists of one reference gets the type of the
/// saved value.
pub(crate) fn value(value: &Value, saved: &Saved) -> Result<Value, String> {
    Ok(match value {
        Value::String(template) => match sole_reference(template, saved) {
            Some(reference) => lookup(reference, saved)?.clone(),
            None => Value::String(text(template, saved)?),
        },
        Value::Array(items) => items
            .iter()
            .map(|item| self::value(item, saved))
            .collect::<Result<_, _>>()?,
        Value::Object(map) => {
            let entries = map
                .iter()
                .map(|(key, item)| Ok((key.clone(), self::value(item, saved)?)));
            Value::Object(entries.collect::<Result<_, String>>()?)
        }
        scalar => scalar.clone(),
    })
}

/// Replaces all references in a string. `${…}` with an unknown name stays, because shells use the
/// same syntax.
pub(crate) fn text(template: &str, saved: &Saved) -> Result<String, String> {
    let mut result = String::new();
    let mut rest = template;
    while let Some(start) = rest.find("${") {
        let (before, after) = rest.split_at(start);
        result.push_str(before);
        match after[2..].split_once('}') {
            Some((reference, tail)) if is_known(reference, saved) => {
                match lookup(reference, saved)? {
                    Value::String(text) => result.push_str(text),
                    other => result.push_str(&other.to_string()),
                }
                rest = tail;
            }
            _ => {
                result.push_str("${");
                rest = &after[2..];
            }
        }
    }
    result.push_str(rest);
    Ok(result)
}

/// Returns the reference if the whole template is one `${…}` of a saved result; else `None`.
fn sole_reference<'t>(template: &'t str, saved: &Saved) -> Option<&'t str> {
    let reference = template.strip_prefix("${")?.strip_suffix('}')?;
    (!reference.contains('}') && is_known(reference, saved)).then_some(reference)
}

/// Returns true if the reference starts with the name of a saved result.
fn is_known(reference: &str, saved: &Saved) -> bool {
    reference
        .split_once('.')
        .is_some_and(|(name, _)| saved.contains_key(name))
}

/// Returns the value that a reference `NAME.PATH` selects from a saved result.
fn lookup<'s>(reference: &str, saved: &'s Saved) -> Result<&'s Value, String> {
    let mut parts = reference.split('.');
    let result = parts.next().and_then(|name| saved.get(name));
    let value_at_path = parts
        .try_fold(result, |value, part| {
            value.map(|value| step_into(value, part))
        })
        .flatten();
    value_at_path.ok_or_else(|| {
        let saved = result.map(ToString::to_string).unwrap_or_default();
        format!("`${{{reference}}}` is not in the saved result, which is {saved}")
    })
}

/// Returns a field of a map, or a list item by its index; `None` if there is no such part.
fn step_into<'s>(value: &'s Value, part: &str) -> Option<&'s Value> {
    match value {
        Value::Array(items) => items.get(part.parse::<usize>().ok()?),
        other => other.get(part),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn saved() -> Saved {
        Saved::from([(
            "p".to_owned(),
            json!({"output": {"id": "x-1", "n": 3, "list": [{"a": true}]}}),
        )])
    }

    #[test]
    fn references_are_filled_in() {
        let filled = value(
            &json!({"id": "${p.output.id}", "n": "${p.output.n}", "t": ["n is ${p.output.n}!"]}),
            &saved(),
        );
        assert_eq!(filled, Ok(json!({"id": "x-1", "n": 3, "t": ["n is 3!"]})));
        assert_eq!(
            value(&json!("${p.output.list.0.a}"), &saved()),
            Ok(json!(true))
        );
        assert_eq!(
            text("${p.output.id}${p.output.id}", &saved()).as_deref(),
            Ok("x-1x-1")
        );
    }

    #[test]
    fn unknown_references_are_not_substituted() {
        for template in [
            "${HOME}/x",
            "${p}",
            "$p.output",
            "${p",
            "${q.output.id}",
            "a}b{c$",
        ] {
            assert_eq!(text(template, &saved()).as_deref(), Ok(template));
        }
    }

    #[test]
    fn a_reference_to_a_missing_field_is_an_error() {
        let error = text("${p.output.nothing}", &saved()).expect_err("an error");
        assert!(
            error.starts_with("`${p.output.nothing}` is not in the saved result"),
            "{error}"
        );
        assert!(value(&json!("${p.output.list.9}"), &saved()).is_err());
    }

    proptest! {
        #[test]
        fn text_without_saved_names_is_not_changed(template in "[a-z${}. ]{0,30}") {
            prop_assert_eq!(text(&template, &Saved::new()), Ok(template));
        }
    }
}

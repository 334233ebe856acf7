//! Paths into a JSON document: `users[0].name`, `.items`, `["odd key"]`.

use goondan_core::ports::tool::ToolError;
use serde_json::Value;

use crate::errors;

/// Returns the value at `path`, if it exists.
pub(super) fn find<'a>(data: &'a Value, path: &str) -> Result<Option<&'a Value>, ToolError> {
    let segments = parse(path).map_err(|problem| {
        errors::invalid(format!("the path `{path}` is invalid: {problem}")).suggest(
            "write it like `users[0].name`, or `[\"odd key\"]` for a key with dots or brackets",
        )
    })?;
    Ok(segments
        .iter()
        .try_fold(data, |value, segment| step(value, segment)))
}

/// Returns the value of an object's key or at an array's index.
fn step<'a>(value: &'a Value, segment: &str) -> Option<&'a Value> {
    match value {
        Value::Object(fields) => fields.get(segment),
        Value::Array(items) => segment
            .parse::<usize>()
            .ok()
            .and_then(|index| items.get(index)),
        _ => None,
    }
}

/// Parses the keys and indexes of `path`, from the outside in. Surrounding white space is ignored.
fn parse(path: &str) -> Result<Vec<String>, String> {
    let mut segments = Vec::new();
    let mut rest = path.trim();
    rest = rest.strip_prefix('.').unwrap_or(rest);
    while !rest.is_empty() {
        let (segment, after) = match rest.strip_prefix('[') {
            Some(inner) => bracket(inner)?,
            None => name(rest)?,
        };
        segments.push(segment);
        rest = match after.strip_prefix('.') {
            Some("") => return Err("it ends with a dot".to_owned()),
            Some(next) => next,
            None if after.is_empty() || after.starts_with('[') => after,
            None => return Err(format!("a dot or a bracket is missing before `{after}`")),
        };
    }
    Ok(segments)
}

/// Splits a name off the beginning of `rest`.
fn name(rest: &str) -> Result<(String, &str), String> {
    let end = rest.find(['.', '[', ']']).unwrap_or(rest.len());
    if end == 0 {
        return Err(format!("a name is missing before `{rest}`"));
    }
    Ok((rest[..end].to_owned(), &rest[end..]))
}

/// Parses the contents of brackets: an index, or a key in single or double quotes.
fn bracket(inner: &str) -> Result<(String, &str), String> {
    for quote in ['"', '\''] {
        if let Some(key) = inner.strip_prefix(quote) {
            let (key, after) = key
                .split_once(quote)
                .ok_or_else(|| format!("the quote in `[{inner}` is not closed"))?;
            let after = after
                .strip_prefix(']')
                .ok_or_else(|| format!("`]` is missing in `[{inner}`"))?;
            return Ok((key.to_owned(), after));
        }
    }
    let (segment, after) = inner
        .split_once(']')
        .ok_or_else(|| format!("`]` is missing in `[{inner}`"))?;
    if segment.is_empty() {
        return Err("the brackets are empty".to_owned());
    }
    Ok((segment.to_owned(), after))
}

#[cfg(test)]
mod tests {
    use goondan_spec::Code;

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_name_keys_and_positions() {
        let data = json!({"users": [{"name": "Ann"}, {"name": "Bob"}], "a.b": {"c": 1}, "n": null});
        let found = |path: &str| find(&data, path).unwrap().cloned();
        assert_eq!(found("."), Some(data.clone()));
        assert_eq!(found(""), Some(data.clone()));
        assert_eq!(found("users[1].name"), Some(json!("Bob")));
        assert_eq!(found(".users.0.name"), Some(json!("Ann")));
        assert_eq!(found("[\"a.b\"].c"), Some(json!(1)));
        assert_eq!(found("['a.b']['c']"), Some(json!(1)));
        assert_eq!(found("[users][0]"), Some(json!({"name": "Ann"})));
        assert_eq!(found("n"), Some(Value::Null));
        assert_eq!(found("users[9]"), None);
        assert_eq!(found("users[-1]"), None);
        assert_eq!(found("n.x"), None);
    }

    #[test]
    fn wrong_paths_say_what_is_wrong() {
        for path in [
            "a..b", "a.", "a[", "a[]", "a[\"x]", "a[\"x\"", "a]b", "a[0]b", "..",
        ] {
            let error = find(&json!({}), path).unwrap_err();
            assert!(error.message.contains(path), "{path}: {}", error.message);
            assert_eq!(
                error.code.as_deref(),
                Some(Code::TOOL_INVALID_ARGS.as_str())
            );
        }
    }

    proptest! {
        #[test]
        fn any_key_can_be_reached_in_quotes(key in "[^\"]{1,8}") {
            let data = json!({key.clone(): 7});
            let path = format!("[\"{key}\"]");
            prop_assert_eq!(find(&data, &path).unwrap(), Some(&json!(7)));
        }

        #[test]
        fn no_path_panics(path in "\\PC{0,20}") {
            let _ = find(&json!([[1], {"a": 2}]), &path);
        }
    }
}

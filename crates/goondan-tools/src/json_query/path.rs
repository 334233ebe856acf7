//! Paths into a JSON document: `users[0].name`, `$.items[-1]`, `items[*].id`, `["odd key"]`.
//!
//! The subset of JSONPath that models write. The JSONPath crates bring a parser generator and
//! regular expressions for filters, which a model can't use without practice.

use goondan_core::ports::tool::HandlerError;
use serde_json::Value;

use crate::errors;

/// Part of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
enum PathSegment {
    /// A key of an object, or an index of an array. A negative index counts from the end.
    Child(String),
    /// All values of an array or object.
    All,
}

/// Returns the value at `path`, if it exists. With a wildcard, returns a list of all values.
pub(super) fn find(data: &Value, path: &str) -> Result<Option<Value>, HandlerError> {
    let segments = parse(path).map_err(|problem| {
        errors::invalid_argument(format!("the path `{path}` is invalid: {problem}")).suggest(
            "write it like `users[0].name`, `items[-1]` or `items[*].id`, or `[\"odd key\"]` for a \
                key with dots or brackets",
        )
    })?;
    let mut values = vec![data];
    for segment in &segments {
        values = match segment {
            PathSegment::Child(name) => values
                .into_iter()
                .filter_map(|value| child_value(value, name))
                .collect(),
            PathSegment::All => values.into_iter().flat_map(children).collect(),
        };
    }
    Ok(if segments.contains(&PathSegment::All) {
        Some(values.into_iter().cloned().collect())
    } else {
        values.first().copied().cloned()
    })
}

/// Returns the value of an object's key, or of an array's index. `-1` is the last item.
fn child_value<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    match value {
        Value::Object(fields) => fields.get(name),
        Value::Array(items) => {
            let index = match name.strip_prefix('-') {
                Some(from_end) => {
                    let count = from_end.parse::<usize>().ok().filter(|count| *count > 0)?;
                    items.len().checked_sub(count)?
                }
                None => name.parse().ok()?,
            };
            items.get(index)
        }
        _ => None,
    }
}

/// Returns the values of an array or object; none for any other value.
fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Object(fields) => fields.values().collect(),
        Value::Array(items) => items.iter().collect(),
        _ => Vec::new(),
    }
}

/// Parses the segments of `path`, from the outside in. Ignores surrounding white space, and the `$`
/// of JSONPath for the whole document.
fn parse(path: &str) -> Result<Vec<PathSegment>, String> {
    let mut segments = Vec::new();
    let mut rest = path.trim();
    rest = match rest.strip_prefix('$') {
        // A key may begin with `$`, such as `$ref`.
        Some(after) if after.is_empty() || after.starts_with(['.', '[']) => after,
        _ => rest,
    };
    rest = rest.strip_prefix('.').unwrap_or(rest);
    while !rest.is_empty() {
        let (segment, after) = match rest.strip_prefix('[') {
            Some(inner) => parse_bracket(inner)?,
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
fn name(rest: &str) -> Result<(PathSegment, &str), String> {
    let end = rest.find(['.', '[', ']']).unwrap_or(rest.len());
    if end == 0 {
        return Err(format!("a name is missing before `{rest}`"));
    }
    Ok((unquoted_segment(&rest[..end]), &rest[end..]))
}

/// Parses the contents of brackets: an index, `*`, or a key in single or double quotes.
fn parse_bracket(inner: &str) -> Result<(PathSegment, &str), String> {
    for quote in ['"', '\''] {
        if let Some(key) = inner.strip_prefix(quote) {
            let (key, after) = key
                .split_once(quote)
                .ok_or_else(|| format!("the quote in `[{inner}` is not closed"))?;
            let after = after
                .strip_prefix(']')
                .ok_or_else(|| format!("`]` is missing in `[{inner}`"))?;
            return Ok((PathSegment::Child(key.to_owned()), after));
        }
    }
    let (segment, after) = inner
        .split_once(']')
        .ok_or_else(|| format!("`]` is missing in `[{inner}`"))?;
    if segment.is_empty() {
        return Err("the brackets are empty".to_owned());
    }
    let is_slice = segment.contains([':', ','])
        && segment
            .chars()
            .all(|c| c.is_ascii_digit() || ":,- ".contains(c));
    if is_slice || segment.starts_with(['?', '(']) {
        return Err(format!(
            "`[{segment}]` is a slice, a list of indexes or a filter, which paths do not support"
        ));
    }
    Ok((unquoted_segment(segment.trim()), after))
}

/// Returns the segment of a name without quotes.
fn unquoted_segment(name: &str) -> PathSegment {
    match name {
        "*" => PathSegment::All,
        name => PathSegment::Child(name.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use goondan_spec::Code;

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_select_keys_and_array_indexes() {
        let data = json!({"users": [{"name": "Ann"}, {"name": "Bob"}], "a.b": {"c": 1}, "n": null});
        let found = |path: &str| find(&data, path).unwrap();
        assert_eq!(found("."), Some(data.clone()));
        assert_eq!(found(""), Some(data.clone()));
        assert_eq!(found("users[1].name"), Some(json!("Bob")));
        assert_eq!(found(".users.0.name"), Some(json!("Ann")));
        assert_eq!(found("[\"a.b\"].c"), Some(json!(1)));
        assert_eq!(found("['a.b']['c']"), Some(json!(1)));
        assert_eq!(found("[users][0]"), Some(json!({"name": "Ann"})));
        assert_eq!(found("n"), Some(Value::Null));
        assert_eq!(found("users[9]"), None);
        assert_eq!(found("users[-1].name"), Some(json!("Bob")));
        assert_eq!(found("users[-2].name"), Some(json!("Ann")));
        assert_eq!(found("users[-3]"), None);
        assert_eq!(found("users[-0]"), None);
        assert_eq!(found("n[-1]"), None);
        assert_eq!(found("n.x"), None);
    }

    #[test]
    fn dollar_is_the_root_and_star_matches_every_value() {
        let data = json!({"a": [{"id": 1}, {"id": 2}, {}], "$ref": "r", "*": 0, "o": {"x": [7]}});
        let found = |path: &str| find(&data, path).unwrap();
        assert_eq!(found("$"), Some(data.clone()));
        assert_eq!(found(" $.a[0].id "), Some(json!(1)));
        assert_eq!(found("$['a'][-2].id"), Some(json!(2)));
        assert_eq!(found("$ref"), Some(json!("r")));
        assert_eq!(found("$.$ref"), Some(json!("r")));
        assert_eq!(found("a[*].id"), Some(json!([1, 2])));
        assert_eq!(found("$.a.*.id"), Some(json!([1, 2])));
        assert_eq!(found("o.*[*]"), Some(json!([7])));
        assert_eq!(found("missing[*]"), Some(json!([])));
        assert_eq!(found("['*']"), Some(json!(0)));
    }

    #[test]
    fn invalid_paths_return_an_error_with_the_path() {
        for path in [
            "a..b",
            "a.",
            "a[",
            "a[]",
            "a[\"x]",
            "a[\"x\"",
            "a]b",
            "a[0]b",
            "..",
            "$..id",
            "a[0:2]",
            "a[::-1]",
            "a[0,1]",
            "a[?(@.id > 1)]",
            "a[(@.length-1)]",
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
        fn any_key_can_be_selected_in_quotes(key in "[^\"]{1,8}") {
            let data = json!({key.clone(): 7});
            let path = format!("[\"{key}\"]");
            prop_assert_eq!(find(&data, &path).unwrap(), Some(json!(7)));
        }

        #[test]
        fn find_never_panics(path in "\\PC{0,20}") {
            let _ = find(&json!([[1], {"a": 2}]), &path);
        }
    }
}

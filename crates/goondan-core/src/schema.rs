//! Validation of arguments against the JSON Schema of an export (rule T4), and of answers against
//! an agent's output schema.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use goondan_spec::schema_expansion::{MAX_SCHEMA_EXPANSION, SchemaExpansion, expansion};
use jsonschema::Validator;
use jsonschema::error::ValidationErrorKind;
use serde_json::Value;

use crate::JsonObject;

/// Maximum number of reported problems.
const MAX_REPORTED_PROBLEMS: usize = 5;

/// JSON Schema of an export's arguments. Compiled at its first use, because most tools of a catalog
/// are never called.
#[derive(Clone)]
pub struct ArgumentSchema(Arc<SchemaState>);

struct SchemaState {
    schema: Value,
    validator: OnceLock<Result<Validator, String>>,
    expansion: OnceLock<SchemaExpansion>,
    /// Number of checks that took too long and still run, because nothing can stop them.
    abandoned: AtomicUsize,
}

impl SchemaState {
    fn expansion(&self) -> SchemaExpansion {
        *self.expansion.get_or_init(|| expansion(&self.schema))
    }

    /// Returns the validator, or the reason why the schema cannot be used.
    fn validator(&self) -> &Result<Validator, String> {
        self.validator.get_or_init(|| {
            if self.expansion().size > MAX_SCHEMA_EXPANSION {
                return Err(format!(
                    "the schema can't be used: its references expand to more than \
                    {MAX_SCHEMA_EXPANSION} values"
                ));
            }
            jsonschema::draft202012::new(&self.schema)
                .map_err(|error| format!("the schema can't be used: {error}"))
        })
    }
}

/// Maximum size of a schema, in values, for a check without a separate thread.
const MAX_INLINE_EXPANSION: u64 = 1_000;

/// Maximum time of a check on a separate thread.
const MAX_CHECK_TIME: Duration = Duration::from_secs(2);

/// Problem of a check that was given up.
const TOO_SLOW: &str =
    "the check against the schema takes more than 2 s; send less deeply nested values";

/// Error of arguments that do not match the schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidArguments {
    /// The problems, with JSON paths.
    pub message: String,
    /// The required and allowed keys.
    pub suggestion: String,
}

impl ArgumentSchema {
    /// Returns the schema in the tool's declared form. Its validity was checked when the bundle was
    /// loaded.
    pub fn new(schema: Value) -> Self {
        ArgumentSchema(Arc::new(SchemaState {
            schema,
            validator: OnceLock::new(),
            expansion: OnceLock::new(),
            abandoned: AtomicUsize::new(0),
        }))
    }

    /// Returns the JSON form of the schema.
    pub fn as_value(&self) -> &Value {
        &self.0.schema
    }

    /// Returns the arguments with defaults filled in.
    ///
    /// # Errors
    /// The arguments do not match the schema.
    pub fn check(&self, input: &Value) -> Result<JsonObject, InvalidArguments> {
        let mut arguments = match input {
            Value::Object(arguments) => Value::Object(arguments.clone()),
            // Some providers send nothing if there are no arguments.
            Value::Null => Value::Object(JsonObject::new()),
            Value::String(text) if text.trim().is_empty() => Value::Object(JsonObject::new()),
            other => return Err(self.invalid_arguments(vec![not_an_object_problem(other)])),
        };
        fill_defaults(&self.0.schema, &mut arguments);
        let problems = match self.0.validator() {
            Ok(validator) if validator.is_valid(&arguments) => Vec::new(),
            Ok(validator) => validator
                .iter_errors(&arguments)
                .map(|error| format_error("args", &error))
                .collect(),
            Err(broken) => vec![broken.clone()],
        };
        match arguments {
            Value::Object(arguments) if problems.is_empty() => Ok(arguments),
            _ => Err(self.invalid_arguments(problems)),
        }
    }

    /// Returns the arguments like [`ArgumentSchema::check`], without holding up other tasks: a
    /// schema that is large or contains itself is checked on a separate thread.
    ///
    /// # Errors
    /// The arguments do not match the schema, or such a check takes more than two seconds.
    pub async fn check_in_time(&self, input: &Value) -> Result<JsonObject, InvalidArguments> {
        self.run_in_time(input, ArgumentSchema::check, |problem| {
            self.invalid_arguments(vec![problem])
        })
        .await
    }

    /// Checks an answer like [`ArgumentSchema::check_in_time`] checks arguments. Paths in the error
    /// begin with `answer`.
    ///
    /// # Errors
    /// The answer does not match the schema, or the check takes more than two seconds; the problems
    /// are in one line.
    pub async fn check_answer_in_time(&self, answer: &Value) -> Result<(), String> {
        self.run_in_time(answer, ArgumentSchema::check_answer, |problem| problem)
            .await
    }

    /// Runs `check` on a value, on a separate thread if the schema is large or contains itself.
    /// `refuse` creates the error of a check that did not end.
    async fn run_in_time<T: Send + 'static, E: Send + 'static>(
        &self,
        value: &Value,
        check: fn(&ArgumentSchema, &Value) -> Result<T, E>,
        refuse: impl Fn(String) -> E,
    ) -> Result<T, E> {
        let state = &self.0;
        let expansion = state.expansion();
        if !expansion.is_recursive && expansion.size <= MAX_INLINE_EXPANSION {
            return check(self, value);
        }
        if state.abandoned.load(Ordering::Acquire) > 0 {
            return Err(refuse(TOO_SLOW.to_owned()));
        }
        // Set by the first of two events: the check ends, or its time is over.
        let is_settled = Arc::new(AtomicBool::new(false));
        let (sender, checked) = tokio::sync::oneshot::channel();
        let (schema, value, is_settled_in_thread) =
            (self.clone(), value.clone(), Arc::clone(&is_settled));
        // Not a thread of the runtime, whose end would wait for it.
        let started = std::thread::Builder::new().spawn(move || {
            let checked = check(&schema, &value);
            if is_settled_in_thread.swap(true, Ordering::AcqRel) {
                schema.0.abandoned.fetch_sub(1, Ordering::AcqRel);
            }
            // After the time is over, no one receives the result.
            let _ = sender.send(checked);
        });
        if let Err(error) = started {
            return Err(refuse(format!("the check could not be started: {error}")));
        }
        match tokio::time::timeout(MAX_CHECK_TIME, checked).await {
            Ok(Ok(checked)) => checked,
            Ok(Err(failed)) => Err(refuse(format!("the check failed: {failed}"))),
            Err(_) => {
                // Counted first, so that the check finds its count if it ends now.
                state.abandoned.fetch_add(1, Ordering::AcqRel);
                if is_settled.swap(true, Ordering::AcqRel) {
                    state.abandoned.fetch_sub(1, Ordering::AcqRel);
                }
                Err(refuse(TOO_SLOW.to_owned()))
            }
        }
    }

    /// Checks an answer. Paths in the error begin with `answer`.
    ///
    /// # Errors
    /// The answer does not match the schema; the problems are in one line.
    fn check_answer(&self, answer: &Value) -> Result<(), String> {
        match self.0.validator() {
            Ok(validator) if validator.is_valid(answer) => Ok(()),
            Ok(validator) => Err(first_problems(
                validator
                    .iter_errors(answer)
                    .map(|error| format_error("answer", &error))
                    .collect(),
            )),
            Err(broken) => Err(broken.clone()),
        }
    }

    /// Returns the error for arguments with these problems, with the allowed keys as the
    /// suggestion.
    fn invalid_arguments(&self, problems: Vec<String>) -> InvalidArguments {
        InvalidArguments {
            message: format!("invalid arguments: {}", first_problems(problems)),
            suggestion: self.keys_sentence(),
        }
    }

    /// Returns a sentence that lists the required and the allowed keys.
    fn keys_sentence(&self) -> String {
        let required = name_list(
            self.0
                .schema
                .get("required")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .map(text),
        );
        let properties = self.0.schema.get("properties").and_then(Value::as_object);
        let allowed = name_list(
            properties
                .into_iter()
                .flatten()
                .map(|(name, _)| name.clone()),
        );
        format!("Send one JSON object. Required keys: {required}. Allowed keys: {allowed}.")
    }
}

/// Returns the first problems, and the number of the others.
fn first_problems(problems: Vec<String>) -> String {
    let unreported = problems.len().saturating_sub(MAX_REPORTED_PROBLEMS);
    let mut text = problems
        .into_iter()
        .take(MAX_REPORTED_PROBLEMS)
        .collect::<Vec<_>>()
        .join("; ");
    if unreported > 0 {
        text.push_str(&format!(" (+{unreported} more)"));
    }
    text
}

/// Returns the problem for arguments that are not a JSON object.
fn not_an_object_problem(input: &Value) -> String {
    match input {
        Value::String(text) => {
            let cause = serde_json::from_str::<Value>(text).err();
            match cause {
                Some(cause) => format!("args: not valid JSON ({cause})"),
                None => "args: expected an object, got a string".to_owned(),
            }
        }
        Value::Array(_) => "args: expected an object, got an array".to_owned(),
        Value::Bool(_) => "args: expected an object, got a boolean".to_owned(),
        _ => "args: expected an object, got a number".to_owned(),
    }
}

/// Returns a validation error as text, with the path of the value; `root`: name of the whole value.
fn format_error(root: &str, error: &jsonschema::ValidationError<'_>) -> String {
    // The message repeats the value, which can be huge.
    let message = match error.kind() {
        ValidationErrorKind::Enum { options } => {
            let options = options.as_array().map(Vec::as_slice).unwrap_or_default();
            allowed_values_problem(&error.instance().to_string(), options)
        }
        _ => error.to_string(),
    };
    let short_message = crate::limits::cut_error_message(&message, 200);
    format!(
        "{root}{}: {short_message}",
        json_path(&error.instance_path().to_string())
    )
}

/// Returns all allowed values. The validator itself lists only two.
fn allowed_values_problem(value: &str, options: &[Value]) -> String {
    let options: Vec<String> = options.iter().map(Value::to_string).collect();
    format!(
        "{} is none of {}",
        crate::limits::cut_error_message(value, 60),
        options.join(", ")
    )
}

/// Converts `/list/0/name` to `.list[0].name`.
fn json_path(pointer: &str) -> String {
    let part = |token: &str| {
        let token = token.replace("~1", "/").replace("~0", "~");
        if token.bytes().all(|byte| byte.is_ascii_digit()) {
            format!("[{token}]")
        } else {
            format!(".{token}")
        }
    };
    pointer.split('/').skip(1).map(part).collect()
}

/// Fills in `default` of absent properties, including those of nested objects that are present.
fn fill_defaults(schema: &Value, value: &mut Value) {
    let (Some(properties), Some(object)) = (
        schema.get("properties").and_then(Value::as_object),
        value.as_object_mut(),
    ) else {
        return;
    };
    for (name, property) in properties {
        match (object.get_mut(name), property.get("default")) {
            (Some(present), _) => fill_defaults(property, present),
            (None, Some(default)) if !default.is_null() => {
                object.insert(name.clone(), default.clone());
            }
            (None, _) => {}
        }
    }
}

/// Returns a JSON string as text; empty for any other value.
fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Joins names with commas; `none` if the list is empty.
fn name_list(names: impl Iterator<Item = String>) -> String {
    let joined = names.collect::<Vec<_>>().join(", ");
    if joined.is_empty() {
        "none".to_owned()
    } else {
        joined
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema() -> ArgumentSchema {
        ArgumentSchema::new(json!({
            "type": "object",
            "properties": {
                "text": {"type": "string"},
                "to": {"enum": ["upper", "lower"], "default": "upper"},
                "deep": {"type": "object", "properties": {"n": {"type": "integer", "default": 3}}},
            },
            "required": ["text"],
            "additionalProperties": false,
        }))
    }

    #[test]
    fn defaults_are_filled_in_including_nested_ones() {
        let arguments = schema().check(&json!({"text": "a", "deep": {}})).unwrap();
        assert_eq!(
            Value::Object(arguments),
            json!({"text": "a", "deep": {"n": 3}, "to": "upper"})
        );
    }

    #[test]
    fn errors_contain_paths_and_the_suggestion_lists_the_keys() {
        let error = schema()
            .check(&json!({"deep": {"n": "x"}, "to": "sideways", "extra": true}))
            .unwrap_err();
        for part in [
            "args.deep.n: ",
            "args.to: ",
            "\"text\" is a required property",
            "extra",
        ] {
            assert!(error.message.contains(part), "{part} in {}", error.message);
        }
        assert_eq!(
            error.suggestion,
            "Send one JSON object. Required keys: text. Allowed keys: text, to, deep."
        );
    }

    #[test]
    fn arguments_that_are_not_an_object_are_rejected() {
        for (input, expected) in [
            (json!("{not json"), "args: not valid JSON"),
            (json!([1]), "args: expected an object, got an array"),
            (json!(1), "args: expected an object, got a number"),
            (
                json!("\"quoted\""),
                "args: expected an object, got a string",
            ),
        ] {
            let error = schema().check(&input).unwrap_err();
            assert!(
                error.message.contains(expected),
                "{expected} in {}",
                error.message
            );
        }
    }

    #[test]
    fn null_and_an_empty_string_count_as_no_arguments() {
        let open = ArgumentSchema::new(json!({"type": "object"}));
        for input in [json!(null), json!(""), json!({})] {
            assert_eq!(open.check(&input), Ok(JsonObject::new()));
        }
    }

    #[test]
    fn errors_after_the_fifth_are_only_counted() {
        let strict = ArgumentSchema::new(
            json!({"type": "object", "required": ["a", "b", "c", "d", "e", "f", "g"]}),
        );
        assert!(
            strict
                .check(&json!({}))
                .unwrap_err()
                .message
                .ends_with("(+2 more)")
        );
    }

    #[test]
    fn a_schema_with_excessive_expansion_is_rejected() {
        let mut defs = serde_json::Map::new();
        for level in 0..12 {
            let next = json!({"$ref": format!("#/$defs/y{}", level + 1)});
            defs.insert(format!("y{level}"), json!({"anyOf": vec![next; 6]}));
        }
        defs.insert("y12".to_owned(), json!({"const": 1}));
        let hostile = ArgumentSchema::new(json!({
            "type": "object", "properties": {"a": {"$ref": "#/$defs/y0"}}, "$defs": defs,
        }));
        let error = hostile.check(&json!({"a": "x"})).unwrap_err();
        assert!(error.message.contains("expand"), "{}", error.message);
    }

    #[tokio::test]
    async fn the_check_of_a_recursive_schema_has_a_time_limit() {
        // Each level of the value is checked against both branches, so each level doubles the time.
        let branch = |name: &str| json!({"required": [name], "properties": {"in": {"$ref": "#/$defs/tree"}}});
        let hostile = ArgumentSchema::new(json!({
            "type": "object",
            "properties": {"tree": {"$ref": "#/$defs/tree"}},
            "$defs": {"tree": {"anyOf": [branch("a"), branch("b")]}},
        }));
        let nested =
            |depth| (0..depth).fold(json!({}), |inner, _| json!({"a": 1, "b": 1, "in": inner}));
        assert!(
            hostile
                .check_in_time(&json!({"tree": {"a": 1}}))
                .await
                .is_ok()
        );
        let error = hostile
            .check_in_time(&json!({"tree": nested(40)}))
            .await
            .unwrap_err();
        assert!(error.message.contains("2 s"), "{}", error.message);
        // No other check starts while this check runs.
        let next = hostile.check_in_time(&json!({"tree": {"a": 1}})).await;
        assert!(next.unwrap_err().message.contains("2 s"));
        let answer = hostile.check_answer_in_time(&json!({"tree": {}})).await;
        assert!(answer.unwrap_err().contains("2 s"));
    }
}

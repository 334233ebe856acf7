//! Checks that `parameters` is a JSON Schema of type object.

use jsonschema::draft202012::meta;
use serde_json::Value;

use crate::decode::FieldReader;
use crate::diagnostic::{Code, Diagnostic};
use crate::diagnostic_sink::DiagnosticSink;
use crate::schema_expansion::{MAX_SCHEMA_EXPANSION, expansion};

/// Keywords whose values the meta-schema does not check. A schema with one of them is also
/// compiled.
const COMPILED_KEYWORDS: [&str; 5] = [
    "pattern",
    "patternProperties",
    "$ref",
    "$dynamicRef",
    "$schema",
];

/// Reads a JSON Schema of type `object`; `None`, with an error, if it is invalid.
pub(crate) fn read(field: &FieldReader<'_>, findings: &mut DiagnosticSink) -> Option<Value> {
    let schema = field.node.to_json();
    match check(&schema) {
        Ok(()) => Some(schema),
        Err(problem) => {
            findings.add(schema_diagnostic(field, &problem));
            None
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SchemaProblem {
    /// JSON pointer.
    pointer: String,
    message: String,
    suggestion: Option<&'static str>,
}

/// Checks that `schema` is a valid JSON Schema (draft 2020-12) with `type: object` at the root.
pub(crate) fn check(schema: &Value) -> Result<(), SchemaProblem> {
    let Some(object) = schema.as_object() else {
        return Err(root_problem(
            "a JSON Schema must be a map here",
            "write `{type: object, properties: {…}}`",
        ));
    };
    if let Err(error) = meta::validate(schema) {
        let pointer = error.instance_path().to_string();
        if pointer.ends_with("/type") {
            let suggestion = "use `string`, `number`, `integer`, `boolean`, `object`, `array` or \
                `null`, or a list of them";
            let message = format!("{} is not a type", error.instance());
            return Err(SchemaProblem {
                pointer,
                message,
                suggestion: Some(suggestion),
            });
        }
        let deprecated =
            matches!(error.instance().as_ref(), Value::Bool(_)) && pointer.ends_with("/required");
        let suggestion = if deprecated {
            Some("list the required names next to `properties`: `required: [name]`")
        } else {
            Some("compare it with the example that `gdn explain E_CONFIG_INVALID_PARAMETERS` shows")
        };
        return Err(SchemaProblem {
            pointer,
            message: error.to_string(),
            suggestion,
        });
    }
    match object.get("type") {
        Some(Value::String(kind)) if kind == "object" => {}
        Some(_) => {
            return Err(type_problem(
                "arguments and outputs are objects, so the root's `type` must be `object`",
            ));
        }
        None => return Err(root_problem("the root has no `type`", "add `type: object`")),
    }
    if expansion(schema).size > MAX_SCHEMA_EXPANSION {
        return Err(root_problem(
            "the references of this schema expand to more than 100,000 values, which takes too \
            long to check",
            "refer to a subschema from fewer places",
        ));
    }
    if uses_any(schema, &COMPILED_KEYWORDS)
        // Calling the generic options builder would compile the validator a second time in this
        // crate.
        && let Err(error) = jsonschema::draft202012::new(schema)
    {
        return Err(SchemaProblem {
            pointer: error.instance_path().to_string(),
            message: error.to_string(),
            suggestion: None,
        });
    }
    Ok(())
}

/// Checks that a value is a JSON Schema for arguments or outputs.
///
/// # Errors
/// Returns a message without a final period.
pub fn check_schema(schema: &Value) -> Result<(), String> {
    check(schema).map_err(|problem| problem.to_string())
}

impl std::fmt::Display for SchemaProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.pointer.as_str() {
            "" => f.write_str(&self.message),
            pointer => write!(f, "{} (at `{pointer}`)", self.message),
        }
    }
}

/// Creates a problem of the whole schema.
fn root_problem(message: &str, suggestion: &'static str) -> SchemaProblem {
    SchemaProblem {
        pointer: String::new(),
        message: message.to_owned(),
        suggestion: Some(suggestion),
    }
}

/// Creates a problem of the `type` of the schema.
fn type_problem(message: &str) -> SchemaProblem {
    SchemaProblem {
        pointer: "/type".to_owned(),
        message: message.to_owned(),
        suggestion: Some("write `type: object`"),
    }
}

/// Returns true if one of the keywords occurs at any depth.
fn uses_any(schema: &Value, keywords: &[&str]) -> bool {
    match schema {
        Value::Object(map) => map
            .iter()
            .any(|(key, value)| keywords.contains(&key.as_str()) || uses_any(value, keywords)),
        Value::Array(items) => items.iter().any(|item| uses_any(item, keywords)),
        _ => false,
    }
}

/// Converts a problem to a diagnostic at the position of the part that it concerns.
fn schema_diagnostic(field: &FieldReader<'_>, problem: &SchemaProblem) -> Diagnostic {
    let segments: Vec<String> = problem.pointer.split('/').skip(1).map(unescape).collect();
    let node = field
        .node
        .follow_pointer(segments.iter().map(String::as_str));
    let path = segments.iter().fold(field.path.clone(), |path, segment| {
        format!("{path}.{segment}")
    });
    let message = format!(
        "`{path}` is not a valid JSON Schema: {}.",
        problem.message.trim_end_matches('.')
    );
    let position = if std::ptr::eq(node, field.node) {
        field.position()
    } else {
        node.at
    };
    let diagnostic = Diagnostic::new(Code::INVALID_PARAMETERS, message)
        .at(position)
        .field(path);
    match problem.suggestion {
        Some(suggestion) => diagnostic.suggest(suggestion),
        None => diagnostic,
    }
}

/// Decodes a segment of a JSON pointer.
fn unescape(segment: &str) -> String {
    segment.replace("~1", "/").replace("~0", "~")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pointer(schema: Value) -> Option<String> {
        check(&schema).err().map(|problem| problem.pointer)
    }

    #[test]
    fn schemas_of_type_object_pass() {
        assert_eq!(pointer(json!({"type": "object"})), None);
        assert_eq!(
            pointer(
                json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "^x$"}}, "required": ["a"]})
            ),
            None
        );
    }

    #[test]
    fn an_invalid_schema_has_an_error_pointer() {
        assert_eq!(pointer(json!({"type": 7})).as_deref(), Some("/type"));
        assert_eq!(pointer(json!({"type": "array"})).as_deref(), Some("/type"));
        assert_eq!(pointer(json!({"properties": {}})).as_deref(), Some(""));
        let required =
            json!({"type": "object", "properties": {"a": {"type": "string", "required": true}}});
        assert_eq!(pointer(required).as_deref(), Some("/properties/a/required"));
        let pattern =
            json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}});
        assert!(pointer(pattern).is_some());
        assert!(
            pointer(json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/none"}}}))
                .is_some()
        );
    }
}

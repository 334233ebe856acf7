//! `json-query`: reads values from a JSON document.

mod path;

use std::sync::Arc;

use goondan_core::JsonObject;
use goondan_core::ports::tool::{HandlerError, ToolContext, ToolOutput};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::builtin_tool::BuiltinTool;
use crate::errors;
use crate::tool_operation::{ToolExport, ToolOperation, titled_output};

pub(crate) const BUILTIN: BuiltinTool = BuiltinTool {
    name: "json-query",
    about: "Reads values from JSON.",
    open: |_| {
        let none = Arc::new(());
        Ok(vec![
            ToolExport::new::<JsonValueQuery>("query", &none).read_only(),
            ToolExport::new::<JsonPick>("pick", &none).read_only(),
            ToolExport::new::<JsonCount>("count", &none).read_only(),
            ToolExport::new::<JsonFlatten>("flatten", &none).read_only(),
        ])
    },
    ..BuiltinTool::DEFAULT_ROW
};

/// Read one value from JSON by its path.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct JsonValueQuery {
    /// JSON text.
    #[schemars(length(min = 1))]
    data: String,
    /// The path of the value, such as `users[0].name`, `items[-1]` or `["odd key"].x`; `.` is the
    /// whole document. `items[*].id` gives a list.
    #[serde(default = "default_path")]
    path: String,
}

impl ToolOperation for JsonValueQuery {
    type Shared = ();

    async fn run(self, _ctx: &ToolContext, (): &()) -> Result<ToolOutput, HandlerError> {
        let data = parse(&self.data)?;
        let value = path::find(&data, &self.path)?;
        let output = json!({"path": self.path, "found": value.is_some(), "value": value});
        Ok(titled_output(format!("Looked up {}", self.path), output))
    }
}

/// Keep only some keys of a JSON object.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct JsonPick {
    /// JSON text, an object.
    #[schemars(length(min = 1))]
    data: String,
    /// Keys to keep. Keys that the object does not have are ignored.
    keys: Vec<String>,
}

impl ToolOperation for JsonPick {
    type Shared = ();

    async fn run(self, _ctx: &ToolContext, (): &()) -> Result<ToolOutput, HandlerError> {
        let Value::Object(data) = parse(&self.data)? else {
            return Err(errors::invalid_argument("data must be a JSON object"));
        };
        let existing = self
            .keys
            .iter()
            .filter_map(|key| Some((key.clone(), data.get(key)?.clone())));
        let result: JsonObject = existing.collect();
        let title = format!("Picked {} of {} keys", result.len(), self.keys.len());
        Ok(titled_output(
            title,
            json!({"keys": self.keys, "result": result}),
        ))
    }
}

/// Count the elements, keys or characters of a JSON value.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct JsonCount {
    /// JSON text.
    #[schemars(length(min = 1))]
    data: String,
    /// Path, such as `items`; `.` is the whole document.
    #[serde(default = "default_path")]
    path: String,
}

impl ToolOperation for JsonCount {
    type Shared = ();

    async fn run(self, _ctx: &ToolContext, (): &()) -> Result<ToolOutput, HandlerError> {
        let data = parse(&self.data)?;
        let (count, kind) = match path::find(&data, &self.path)? {
            None | Some(Value::Null) => (0, "null"),
            Some(Value::Array(items)) => (items.len(), "array"),
            Some(Value::Object(fields)) => (fields.len(), "object"),
            Some(Value::String(text)) => (text.chars().count(), "string"),
            Some(Value::Number(_)) => (1, "number"),
            Some(Value::Bool(_)) => (1, "boolean"),
        };
        Ok(titled_output(
            format!("Counted {count}"),
            json!({"path": self.path, "count": count, "type": kind}),
        ))
    }
}

/// Flatten nested arrays of a JSON array.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct JsonFlatten {
    /// JSON text, an array.
    #[schemars(length(min = 1))]
    data: String,
    /// Number of levels to flatten.
    #[serde(default = "default_depth")]
    depth: u32,
}

impl ToolOperation for JsonFlatten {
    type Shared = ();

    async fn run(self, _ctx: &ToolContext, (): &()) -> Result<ToolOutput, HandlerError> {
        let Value::Array(items) = parse(&self.data)? else {
            return Err(errors::invalid_argument("data must be a JSON array"));
        };
        let mut result = Vec::new();
        flatten_into(items, self.depth, &mut result);
        let title = format!("Flattened to {}", result.len());
        Ok(titled_output(
            title,
            json!({"depth": self.depth, "count": result.len(), "result": result}),
        ))
    }
}

/// Appends `items` to `result`, with arrays flattened `depth` levels deep. The recursion is safe,
/// because the parser limits the nesting of arrays.
fn flatten_into(items: Vec<Value>, depth: u32, result: &mut Vec<Value>) {
    for item in items {
        match item {
            Value::Array(inner) if depth > 0 => flatten_into(inner, depth - 1, result),
            other => result.push(other),
        }
    }
}

/// Parses a JSON document.
fn parse(data: &str) -> Result<Value, HandlerError> {
    serde_json::from_str(data).map_err(|error| {
        errors::invalid_argument(format!("data is not valid JSON: {error}"))
            .suggest("pass the complete JSON document as a string")
    })
}

/// Returns the default path, which selects the whole document.
fn default_path() -> String {
    ".".to_owned()
}

fn default_depth() -> u32 {
    1
}

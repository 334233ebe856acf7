//! `json-query`: reads values from a JSON document.

mod path;

use std::sync::Arc;

use goondan_core::JsonObject;
use goondan_core::ports::tool::{ToolContext, ToolError, ToolOutput};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::define::{Export, Operation, titled};
use crate::errors;
use crate::table::Builtin;

pub(crate) const BUILTIN: Builtin = Builtin {
    name: "json-query",
    about: "Reads values from a JSON text.",
    open: |_| {
        let none = Arc::new(());
        Ok(vec![
            Export::new::<Query>("query", &none).read_only(),
            Export::new::<Pick>("pick", &none).read_only(),
            Export::new::<Count>("count", &none).read_only(),
            Export::new::<Flatten>("flatten", &none).read_only(),
        ])
    },
    ..Builtin::BLANK
};

/// Read one value from a JSON text by its path.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Query {
    /// The JSON text.
    #[schemars(length(min = 1))]
    data: String,
    /// Where the value is, such as `users[0].name` or `["odd key"].x`; `.` is the whole document.
    #[serde(default = "whole")]
    path: String,
}

impl Operation for Query {
    type Shared = ();

    async fn run(self, _ctx: &ToolContext, (): &()) -> Result<ToolOutput, ToolError> {
        let data = parse(&self.data)?;
        let value = path::find(&data, &self.path)?;
        let output = json!({"path": self.path, "found": value.is_some(), "value": value});
        Ok(titled(format!("Looked up {}", self.path), output))
    }
}

/// Keep only some keys of a JSON object.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Pick {
    /// The JSON text; it must be an object.
    #[schemars(length(min = 1))]
    data: String,
    /// The keys to keep. Keys that the object does not have are ignored.
    keys: Vec<String>,
}

impl Operation for Pick {
    type Shared = ();

    async fn run(self, _ctx: &ToolContext, (): &()) -> Result<ToolOutput, ToolError> {
        let Value::Object(data) = parse(&self.data)? else {
            return Err(errors::invalid("data must be a JSON object"));
        };
        let existing = self
            .keys
            .iter()
            .filter_map(|key| Some((key.clone(), data.get(key)?.clone())));
        let result: JsonObject = existing.collect();
        let title = format!("Picked {} of {} keys", result.len(), self.keys.len());
        Ok(titled(title, json!({"keys": self.keys, "result": result})))
    }
}

/// Count the elements, keys or characters of a value in a JSON text.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Count {
    /// The JSON text.
    #[schemars(length(min = 1))]
    data: String,
    /// Where the value is, such as `items`; `.` is the whole document.
    #[serde(default = "whole")]
    path: String,
}

impl Operation for Count {
    type Shared = ();

    async fn run(self, _ctx: &ToolContext, (): &()) -> Result<ToolOutput, ToolError> {
        let data = parse(&self.data)?;
        let (count, kind) = match path::find(&data, &self.path)? {
            None | Some(Value::Null) => (0, "null"),
            Some(Value::Array(items)) => (items.len(), "array"),
            Some(Value::Object(fields)) => (fields.len(), "object"),
            Some(Value::String(text)) => (text.chars().count(), "string"),
            Some(Value::Number(_)) => (1, "number"),
            Some(Value::Bool(_)) => (1, "boolean"),
        };
        Ok(titled(
            format!("Counted {count}"),
            json!({"path": self.path, "count": count, "type": kind}),
        ))
    }
}

/// Flatten nested arrays of a JSON array.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Flatten {
    /// The JSON text; it must be an array.
    #[schemars(length(min = 1))]
    data: String,
    /// How many levels to flatten.
    #[serde(default = "one")]
    depth: u32,
}

impl Operation for Flatten {
    type Shared = ();

    async fn run(self, _ctx: &ToolContext, (): &()) -> Result<ToolOutput, ToolError> {
        let Value::Array(items) = parse(&self.data)? else {
            return Err(errors::invalid("data must be a JSON array"));
        };
        let mut result = Vec::new();
        flatten(items, self.depth, &mut result);
        let title = format!("Flattened to {}", result.len());
        Ok(titled(
            title,
            json!({"depth": self.depth, "count": result.len(), "result": result}),
        ))
    }
}

/// Appends `items` to `result`, with arrays flattened `depth` levels deep. The parser limits the
/// nesting.
fn flatten(items: Vec<Value>, depth: u32, result: &mut Vec<Value>) {
    for item in items {
        match item {
            Value::Array(inner) if depth > 0 => flatten(inner, depth - 1, result),
            other => result.push(other),
        }
    }
}

fn parse(data: &str) -> Result<Value, ToolError> {
    serde_json::from_str(data).map_err(|error| {
        errors::invalid(format!("data is not valid JSON: {error}"))
            .suggest("pass the JSON document as text, with its quotes and brackets complete")
    })
}

fn whole() -> String {
    ".".to_owned()
}

fn one() -> u32 {
    1
}

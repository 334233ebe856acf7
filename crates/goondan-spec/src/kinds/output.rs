//! `spec.output` of an Agent: structured answers.

use std::sync::Arc;

use schemars::JsonSchema;
use serde_json::Value;

use super::ResourceScope;
use crate::JsonObject;
use crate::decode::FieldReader;
use crate::diagnostic::Code;
use crate::diagnostic_sink::DiagnosticSink;
use crate::parameters;
use crate::text::closest;

/// Schema of an agent's structured answers.
#[derive(Debug, Clone, PartialEq)]
pub struct AnswerFormat {
    /// JSON Schema of type object.
    pub schema: Arc<Value>,
    /// Method that makes the model follow the schema. `None` leaves the choice to the provider.
    pub mode: Option<AnswerMode>,
}

/// Method that makes a model follow a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerMode {
    /// The provider receives the schema.
    Native,
    /// The model gets a tool whose arguments are the answer.
    Tool,
}

const ANSWER_MODES: [(&str, AnswerMode); 2] =
    [("native", AnswerMode::Native), ("tool", AnswerMode::Tool)];

/// Reads `output` of an Agent: the schema of the answer, and how the provider enforces it.
pub(super) fn read(
    field: &FieldReader<'_>,
    scope: &ResourceScope<'_>,
    findings: &mut DiagnosticSink,
) -> Option<AnswerFormat> {
    let mut fields = field.fields(findings)?;
    let schema_field = fields.optional("schema");
    let file = fields.optional("schemaFile");
    let mode = fields
        .optional("mode")
        .map(|field| read_mode(&field, findings));
    fields.finish(findings);
    let schema = match (schema_field, file) {
        (Some(schema_field), None) => parameters::read(&schema_field, findings),
        (None, Some(file)) => read_file(&file, scope, findings),
        (Some(_), Some(file)) => {
            let message = "An output has `schema` or `schemaFile`, not both.";
            findings.add(file.invalid_value(message).suggest("keep one of the two"));
            None
        }
        (None, None) => {
            let message = format!("`{}` has no schema.", field.path);
            findings.add(
                field
                    .invalid_value(message)
                    .suggest("add `schema: {type: object, …}`, or `schemaFile` with a JSON file"),
            );
            None
        }
    };
    Some(AnswerFormat {
        schema: Arc::new(schema?),
        mode: mode.map_or(Some(None), |mode| mode.map(Some))?,
    })
}

/// Reads `mode`: `native` or `tool`.
fn read_mode(field: &FieldReader<'_>, findings: &mut DiagnosticSink) -> Option<AnswerMode> {
    let text = field.text(findings)?;
    let mode = ANSWER_MODES.into_iter().find(|(word, _)| *word == text);
    if mode.is_none() {
        let words = ANSWER_MODES.map(|(word, _)| word);
        let diagnostic =
            field.invalid_value(format!("`{}` must be `native` or `tool`.", field.path));
        findings.add(match closest(text, &words) {
            Some(near) => diagnostic.suggest(format!("did you mean `{near}`?")),
            None => diagnostic.suggest("remove it to use the provider's default"),
        });
    }
    mode.map(|(_, mode)| mode)
}

/// Reads the schema from a file.
fn read_file(
    field: &FieldReader<'_>,
    scope: &ResourceScope<'_>,
    findings: &mut DiagnosticSink,
) -> Option<Value> {
    let (path, text) = scope.folder.text_at(field, findings)?;
    let problem = match serde_json::from_str::<Value>(&text) {
        Ok(schema) => match parameters::check(&schema) {
            Ok(()) => return Some(schema),
            Err(problem) => format!("`{path}` is not a valid JSON Schema: {problem}."),
        },
        Err(error) => format!("`{path}` is not valid JSON: {error}."),
    };
    findings.add(
        field
            .diagnostic(Code::INVALID_PARAMETERS, problem)
            .suggest("correct the file"),
    );
    None
}

/// Makes the agent's answers structured: a turn ends with JSON that fits a schema, or with an
/// error.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Output")]
#[expect(dead_code, reason = "read only by the schema generator")]
pub(crate) struct OutputShape {
    /// The JSON Schema of the answer. Its root has `type: object`. It excludes `schemaFile`.
    schema: Option<JsonObject>,
    /// The path of a JSON file in the project with the schema. It excludes `schema`.
    #[schemars(length(min = 1))]
    schema_ref: Option<String>,
    /// The method that makes the model follow the schema. Without it, `native` if all models of the
    /// agent are known to support it, else `tool`.
    mode: Option<AnswerModeShape>,
}

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "OutputMode")]
#[expect(dead_code, reason = "read only by the schema generator")]
pub(crate) enum AnswerModeShape {
    /// The provider receives the schema.
    Native,
    /// The model gets a tool whose arguments are the answer.
    Tool,
}

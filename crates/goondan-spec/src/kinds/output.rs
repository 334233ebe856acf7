//! `spec.output` of an Agent: its answers as data.

use std::sync::Arc;

use schemars::JsonSchema;
use serde_json::Value;

use super::Scope;
use crate::JsonObject;
use crate::decode::Field;
use crate::diagnostic::Code;
use crate::findings::Findings;
use crate::parameters;
use crate::text::closest;

/// An agent's answers as data: JSON that fits a schema.
#[derive(Debug, Clone, PartialEq)]
pub struct AnswerFormat {
    /// A JSON Schema of type object.
    pub schema: Arc<Value>,
    /// How the model is brought to fit it; `None` leaves that to the provider.
    pub mode: Option<AnswerMode>,
}

/// How a model is brought to answer as a schema says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerMode {
    /// The provider is given the schema.
    Native,
    /// The model is given a tool whose arguments are the answer.
    Tool,
}

/// The words for the modes.
const MODES: [(&str, AnswerMode); 2] = [("native", AnswerMode::Native), ("tool", AnswerMode::Tool)];

pub(super) fn read(
    field: &Field<'_>,
    scope: &Scope<'_>,
    findings: &mut Findings,
) -> Option<AnswerFormat> {
    let mut fields = field.fields(findings)?;
    let stated = fields.optional("schema");
    let file = fields.optional("schemaRef");
    let mode = fields
        .optional("mode")
        .map(|field| read_mode(&field, findings));
    fields.finish(findings);
    let schema = match (stated, file) {
        (Some(stated), None) => parameters::read(&stated, findings),
        (None, Some(file)) => read_file(&file, scope, findings),
        (Some(_), Some(file)) => {
            let message = "An output has `schema` or `schemaRef`, not both.";
            findings.add(file.invalid(message).suggest("keep one of the two"));
            None
        }
        (None, None) => {
            let message = format!("`{}` has no schema.", field.path);
            findings.add(
                field
                    .invalid(message)
                    .suggest("add `schema: {type: object, …}`, or `schemaRef` with a JSON file"),
            );
            None
        }
    };
    Some(AnswerFormat {
        schema: Arc::new(schema?),
        mode: mode.map_or(Some(None), |mode| mode.map(Some))?,
    })
}

fn read_mode(field: &Field<'_>, findings: &mut Findings) -> Option<AnswerMode> {
    let text = field.text(findings)?;
    let mode = MODES.into_iter().find(|(word, _)| *word == text);
    if mode.is_none() {
        let words = MODES.map(|(word, _)| word);
        let diagnostic = field.invalid(format!("`{}` must be `native` or `tool`.", field.path));
        findings.add(match closest(text, &words) {
            Some(near) => diagnostic.suggest(format!("did you mean `{near}`?")),
            None => diagnostic.suggest("remove it: then the provider decides"),
        });
    }
    mode.map(|(_, mode)| mode)
}

fn read_file(field: &Field<'_>, scope: &Scope<'_>, findings: &mut Findings) -> Option<Value> {
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
            .problem(Code::INVALID_PARAMETERS, problem)
            .suggest("correct the file"),
    );
    None
}

/// Makes the agent's answers data: a turn ends with JSON that fits a schema, or with an error.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Output")]
#[expect(dead_code, reason = "read by the schema generator alone")]
pub(crate) struct OutputShape {
    /// The JSON Schema that the answer fits. Its root has `type: object`. It excludes `schemaRef`.
    schema: Option<JsonObject>,
    /// The path of a JSON file in the project that holds the schema. It excludes `schema`.
    #[schemars(length(min = 1))]
    schema_ref: Option<String>,
    /// How the model is brought to fit it. Without it, `native` where all models of the agent are known to support that, else
    /// `tool`.
    mode: Option<ModeShape>,
}

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "OutputMode")]
#[expect(dead_code, reason = "read by the schema generator alone")]
pub(crate) enum ModeShape {
    /// The provider is given the schema.
    Native,
    /// The model is given a tool whose arguments are the answer.
    Tool,
}

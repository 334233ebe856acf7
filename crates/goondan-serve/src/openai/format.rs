//! Requested answer format: `response_format` of chats, `text.format` of responses.

use goondan::spec::check_schema;
use serde_json::{Value, json};

use super::error::OpenAiError;
use super::request::OpenAiRequest;
use crate::service::Service;

/// Largest accepted schema, in bytes.
const MAX_SCHEMA_BYTES: usize = 128 * 1024;

/// Parameter names of one API.
#[derive(Clone, Copy)]
pub(super) struct FormatParams {
    pub(super) kind: &'static str,
    pub(super) schema: &'static str,
}

pub(super) const CHAT_FORMAT_PARAMS: FormatParams = FormatParams {
    kind: "response_format.type",
    schema: "response_format.json_schema.schema",
};
pub(super) const RESPONSE_FORMAT_PARAMS: FormatParams = FormatParams {
    kind: "text.format.type",
    schema: "text.format.schema",
};

/// Returns the schema that the answer must match; `None` for text, or if the agent always answers
/// in that format.
pub(super) fn requested_schema(
    request: &OpenAiRequest,
    names: FormatParams,
    agent: &str,
    service: &Service,
) -> Result<Option<Value>, OpenAiError> {
    let own = service.swarm().output_of(agent);
    match request.text(names.kind)? {
        None | Some("text") => Ok(None),
        Some("json_object") => Ok(own.is_none().then(|| json!({"type": "object"}))),
        Some("json_schema") => {
            let schema = schema(request, names.schema)?;
            match own {
                None => Ok(Some(schema)),
                Some(own) if *own == schema => Ok(None),
                Some(_) => {
                    let message = format!(
                        "Agent `{agent}` defines its own `output` schema; send that schema or \
                        `json_object`."
                    );
                    Err(OpenAiError::invalid_param(names.schema, message)
                        .code("unsupported_parameter"))
                }
            }
        }
        Some(_) => Err(OpenAiError::invalid_param(
            names.kind,
            "The format must be `text`, `json_object` or `json_schema`.",
        )
        .code("unsupported_parameter")),
    }
}

/// Returns the JSON Schema from the request.
fn schema(request: &OpenAiRequest, name: &str) -> Result<Value, OpenAiError> {
    let wrong =
        |message: String| OpenAiError::invalid_param(name, message).code("invalid_json_schema");
    let schema = request
        .get(name)
        .ok_or_else(|| wrong(format!("`{name}` is missing. Add the schema.")))?;
    if schema.to_string().len() > MAX_SCHEMA_BYTES {
        return Err(wrong(format!(
            "`{name}` is larger than {MAX_SCHEMA_BYTES} bytes."
        )));
    }
    match check_schema(schema) {
        Ok(()) => Ok(schema.clone()),
        Err(problem) => Err(wrong(format!(
            "`{name}` is not a supported schema: {}.",
            problem.trim_end_matches('.')
        ))),
    }
}

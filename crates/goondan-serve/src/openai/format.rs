//! The form that a client wants answers in: `response_format` of chats, `text.format` of responses.

use goondan::spec::check_schema;
use serde_json::{Value, json};

use super::error::ApiError;
use super::request::Request;
use crate::service::Service;

/// A larger schema is refused.
const LARGEST_SCHEMA: usize = 128 * 1024;

/// Where the parameters of one API stand.
#[derive(Clone, Copy)]
pub(super) struct Names {
    /// The word for the form.
    pub(super) kind: &'static str,
    /// The schema.
    pub(super) schema: &'static str,
}

pub(super) const CHAT: Names = Names {
    kind: "response_format.type",
    schema: "response_format.json_schema.schema",
};
pub(super) const RESPONSES: Names = Names {
    kind: "text.format.type",
    schema: "text.format.schema",
};

/// The schema that the answer has to fit; nothing for text, or where the agent answers in that form anyway.
pub(super) fn wanted(
    request: &Request,
    names: Names,
    agent: &str,
    service: &Service,
) -> Result<Option<Value>, ApiError> {
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
                        "The agent `{agent}` answers in a form of its own, by its project's `output`."
                    );
                    Err(ApiError::parameter(names.schema, message).code("unsupported_parameter"))
                }
            }
        }
        Some(_) => Err(ApiError::parameter(
            names.kind,
            "An agent answers with text, `json_object` or `json_schema`.",
        )
        .code("unsupported_parameter")),
    }
}

fn schema(request: &Request, name: &str) -> Result<Value, ApiError> {
    let wrong = |message: String| ApiError::parameter(name, message).code("invalid_json_schema");
    let schema = request
        .get(name)
        .ok_or_else(|| wrong(format!("`{name}` is missing: state the schema.")))?;
    if schema.to_string().len() > LARGEST_SCHEMA {
        return Err(wrong(format!(
            "`{name}` is larger than {LARGEST_SCHEMA} bytes."
        )));
    }
    match check_schema(schema) {
        Ok(()) => Ok(schema.clone()),
        Err(problem) => Err(wrong(format!(
            "`{name}` is not a schema for answers: {}.",
            problem.trim_end_matches('.')
        ))),
    }
}

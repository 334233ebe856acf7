//! Check of the arguments of a tool call.

use goondan_core::JsonObject;
use goondan_core::message::ToolCall;
use goondan_core::ports::tool::HandlerError;
use goondan_core::schema::{ArgumentSchema, InvalidArguments};
use goondan_spec::Code;

/// Returns the arguments of a call with defaults filled in, or the error for the model.
pub(crate) async fn checked_arguments(
    schema: &ArgumentSchema,
    call: &ToolCall,
) -> Result<JsonObject, HandlerError> {
    let checked = schema.check_in_time(&call.input).await;
    checked.map_err(invalid_arguments)
}

/// Returns the error for arguments that do not match the schema.
fn invalid_arguments(invalid: InvalidArguments) -> HandlerError {
    HandlerError::new(invalid.message)
        .code(Code::TOOL_INVALID_ARGS)
        .suggest(invalid.suggestion)
}

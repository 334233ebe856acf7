//! Results of tool calls: errors, and excerpts for events.

use goondan_core::JsonObject;
use goondan_core::event::{ShownError, ShownResult};
use goondan_core::limits::{bounded_metadata, cut_error_message, head};
use goondan_core::message::ToolCall;
use goondan_core::ports::tool::{HandlerError, ToolCallError, ToolCallResult, ToolCallStatus};
use goondan_spec::Code;

use crate::policy::redact::SecretRedactor;
use crate::tooling::excerpt::excerpt;

/// Maximum characters of a title in an event.
const MAX_TITLE_CHARS: usize = 200;

const MAX_MESSAGE_CHARS: usize = 600;

/// Returns the excerpt of a result for events. The result must not contain secrets.
pub(crate) fn shown_result(redactor: &SecretRedactor, result: &ToolCallResult) -> Box<ShownResult> {
    let output = result
        .output
        .as_ref()
        .map(|output| excerpt(redactor, output));
    let is_cut = output.as_ref().is_some_and(|output| output.is_cut);
    let error = result.error.as_ref().map(|error| ShownError {
        code: head(&error.code, MAX_TITLE_CHARS).to_owned(),
        message: cut_error_message(&error.message, MAX_MESSAGE_CHARS),
    });
    Box::new(ShownResult {
        title: result
            .title
            .as_deref()
            .map(|title| head(title, MAX_TITLE_CHARS).to_owned()),
        metadata: bounded_metadata(&result.metadata),
        output: output.map(|output| output.value).unwrap_or_default(),
        is_cut,
        error,
    })
}

/// Returns the result of a failed call; its message has at most `limit` characters.
pub(crate) fn error_result(call: &ToolCall, limit: usize, error: HandlerError) -> ToolCallResult {
    ToolCallResult {
        tool_call_id: call.tool_call_id.clone(),
        tool_name: call.tool_name.clone(),
        status: ToolCallStatus::Error,
        output: None,
        error: Some(ToolCallError {
            name: error.name,
            message: cut_error_message(&error.message, limit),
            code: error.code.unwrap_or_else(|| Code::TOOL_FAILED.into()),
            suggestion: error.suggestion,
            help_url: error.help_url,
        }),
        title: None,
        metadata: JsonObject::new(),
        attachments: Vec::new(),
    }
}

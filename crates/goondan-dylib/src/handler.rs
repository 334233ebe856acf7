//! A library export as a [`ToolHandler`].

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use goondan_abi::wire::CallRequest;
use goondan_core::JsonObject;
use goondan_core::plugin_session::{PluginCall, call_context, never_ended_error, run_tool_call};
use goondan_core::ports::tool::{HandlerError, ToolContext, ToolHandler, ToolOutput};
use goondan_spec::Code;

use crate::opened_library::OpenedLibrary;

pub(crate) struct ExportHandler {
    pub(crate) library: Arc<OpenedLibrary>,
    /// Hash of the library's file.
    pub(crate) content: String,
    pub(crate) tool: String,
    pub(crate) export: String,
    pub(crate) config: JsonObject,
    /// Maximum duration of a call. The engine enforces it; the library receives the value, and the
    /// handler reports the correct code.
    pub(crate) timeout: Duration,
    /// The field that sets the timeout.
    pub(crate) timeout_field: &'static str,
}

#[async_trait]
impl ToolHandler for ExportHandler {
    async fn call(&self, ctx: &ToolContext, input: JsonObject) -> Result<ToolOutput, HandlerError> {
        let started = Instant::now();
        let connection = self.library.connect().await?;
        let request = CallRequest {
            tool: self.tool.clone(),
            export: self.export.clone(),
            arguments: input,
            config: self.config.clone(),
            context: call_context(ctx, &ctx.project_dir, self.timeout),
        };
        let call = PluginCall::begin(connection, request.into())?;
        match run_tool_call(call, ctx).await {
            Some(ended) => ended.outcome,
            None => Err(self.timeout_error(started.elapsed())),
        }
    }

    fn code(&self) -> Option<&str> {
        Some(&self.content)
    }
}

impl ExportHandler {
    /// Returns the error of a call that did not end within `after`.
    fn timeout_error(&self, after: Duration) -> HandlerError {
        let name = format!("{}__{}", self.tool, self.export);
        if after < self.timeout {
            return never_ended_error(&name);
        }
        HandlerError::new(format!(
            "{name} did not finish within {} ms",
            self.timeout.as_millis()
        ))
        .code(Code::TOOL_TIMEOUT)
        .suggest(format!(
            "Request less per call, or raise `{}` of the Tool.",
            self.timeout_field
        ))
    }
}

//! A module export as a tool.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use goondan_core::JsonObject;
use goondan_core::ports::tool::{ToolContext, ToolError, ToolHandler, ToolOutput};

use crate::host::ScriptHost;
use crate::running_call::RunningScriptCall;
use crate::wire::{ScriptCall, ScriptCallContext, ShimCommand};

pub(crate) struct ModuleHandler {
    pub(crate) host: Arc<ScriptHost>,
    pub(crate) module: PathBuf,
    pub(crate) export: String,
    /// The tool's config without the settings for programs.
    pub(crate) config: Arc<JsonObject>,
    /// `timeoutMs`. The engine enforces it; the handler only receives the value.
    pub(crate) timeout: Duration,
    pub(crate) files: Arc<[PathBuf]>,
    /// Hash of the contents of the tool's source files when the tool was opened.
    pub(crate) code: Arc<str>,
}

#[async_trait]
impl ToolHandler for ModuleHandler {
    async fn call(&self, ctx: &ToolContext, input: JsonObject) -> Result<ToolOutput, ToolError> {
        let process = tokio::select! {
            biased;
            process = self.host.connect(&ctx.sandboxes, &ctx.workdir, &ctx.approved_files) => process?,
            () = ctx.cancellation.cancelled() => return Err(crate::errors::cancelled()),
        };
        let receivers = process.calls().begin()?;
        let module = self.module.to_string_lossy();
        let package = self.host.definition().package.to_string_lossy();
        process.tell(&ShimCommand::Call(ScriptCall {
            id: receivers.id,
            module: &module,
            package: &package,
            export: &self.export,
            session: None,
            input: &input,
            config: &self.config,
            context: context(ctx, &self.host, self.timeout),
        }));
        RunningScriptCall::new(process, receivers, ctx)
            .run()
            .await
            .outcome
    }

    /// Identifies the content that a running process may have loaded, even if a file has other
    /// content now.
    fn code(&self) -> Option<&str> {
        Some(&self.code)
    }

    async fn programs(&self, _ctx: &ToolContext, _input: &JsonObject) -> Vec<PathBuf> {
        self.files.to_vec()
    }
}

/// Returns the context of a call as the runtime process receives it.
pub(crate) fn context<'a>(
    ctx: &'a ToolContext,
    host: &ScriptHost,
    timeout: Duration,
) -> ScriptCallContext<'a> {
    ScriptCallContext {
        agent_name: &ctx.agent_name,
        instance_key: &ctx.instance_key,
        turn_id: &ctx.turn_id,
        trace_id: &ctx.trace_id,
        tool_call_id: &ctx.tool_call_id,
        message: &ctx.message,
        workdir: ctx.workdir.to_string_lossy().into_owned(),
        project_dir: host.definition().project.to_string_lossy().into_owned(),
        permissions: ctx.granted.iter().copied().collect(),
        timeout_ms: u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX),
    }
}

//! A module export as a tool.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use goondan_core::JsonObject;
use goondan_core::loaded_files::shadowing_files;
use goondan_core::plugin_session::wire::CallRequest;
use goondan_core::plugin_session::{PluginCall, call_context, run_tool_call};
use goondan_core::ports::tool::{HandlerError, ToolContext, ToolHandler, ToolOutput};

use crate::errors;
use crate::host::ScriptHost;
use crate::transport::ModuleTransport;

/// Directories of a package with installed packages, which its modules import.
const PACKAGE_DIRECTORIES: [&str; 3] = [".venv", "venv", "node_modules"];

pub(crate) struct ModuleHandler {
    pub(crate) host: Arc<ScriptHost>,
    pub(crate) module: PathBuf,
    pub(crate) tool: String,
    pub(crate) export: String,
    /// The tool's config without the settings for programs.
    pub(crate) config: Arc<JsonObject>,
    /// `timeoutMs`. The engine enforces it; the handler only receives the value.
    pub(crate) timeout: Duration,
    pub(crate) files: Arc<[PathBuf]>,
    /// Directories from which the code imports modules by a computed path.
    pub(crate) computed: Arc<[PathBuf]>,
    /// Hash of the contents of the tool's source files when the tool was opened.
    pub(crate) code: Arc<str>,
}

#[async_trait]
impl ToolHandler for ModuleHandler {
    async fn call(&self, ctx: &ToolContext, input: JsonObject) -> Result<ToolOutput, HandlerError> {
        let process = tokio::select! {
            biased;
            process = self.host.connect(&ctx.sandboxes, &ctx.workdir, &ctx.approved_files) => process?,
            () = ctx.cancellation.cancelled() => return Err(errors::cancelled()),
        };
        let definition = self.host.definition();
        let request = CallRequest {
            tool: self.tool.clone(),
            export: self.export.clone(),
            arguments: input,
            config: self.config.as_ref().clone(),
            context: call_context(ctx, &definition.project, self.timeout),
        };
        let module = self.module.to_string_lossy().into_owned();
        let transport = ModuleTransport::new(process, &self.host, module);
        let call = PluginCall::begin(Arc::new(transport), request.into())?;
        match run_tool_call(call, ctx).await {
            Some(ended) => ended.outcome,
            None => Err(errors::cancelled()),
        }
    }

    /// Identifies the content that a running process may have loaded, even if a file has other
    /// content now.
    fn code(&self) -> Option<&str> {
        Some(&self.code)
    }

    /// Returns the files of the module, those that the runtime may load in their place, and the
    /// directories from which the code may import others.
    async fn executed_files(&self, _ctx: &ToolContext, _input: &JsonObject) -> Vec<PathBuf> {
        let (files, computed) = (Arc::clone(&self.files), Arc::clone(&self.computed));
        let package = self.host.definition().package.clone();
        let finding = tokio::task::spawn_blocking(move || {
            let shadowing = files.iter().flat_map(|file| shadowing_files(file));
            let packages = PACKAGE_DIRECTORIES.map(|name| package.join(name));
            let packages = packages.into_iter().chain(computed.iter().cloned());
            let packages = packages.filter(|folder| folder.is_dir());
            let all_files = files.iter().cloned().chain(shadowing).chain(packages);
            all_files.collect()
        });
        finding.await.unwrap_or_else(|_| self.files.to_vec())
    }
}

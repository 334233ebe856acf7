//! Tools whose entry is a folder with a `tool.yaml` (rule T2): one export that runs the folder's program.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use goondan_core::JsonObject;
use goondan_core::ports::tool::{OpenError, ToolContext, ToolError, ToolHandler, ToolOutput, ToolSet, ToolSource};
use goondan_spec::Resource;
use goondan_spec::kinds::{Entry, Tool};
use serde_json::Value;

use crate::confine::{Helper, HelperCommand, Launcher};
use crate::custom_tools::program;
use crate::custom_tools::shelf::{Ready, inspect};
use crate::define::titled;
use crate::errors::blocking;
use crate::shell::Settings;

/// Opens tools with an executable entry.
///
/// The program runs in the working directory of the call, with the arguments as `--key=value` and an environment that
/// holds no keys but those that `config.env` lists. A call has no time limit but that of the Tool.
#[derive(Debug, Clone, Default)]
pub struct ExecutableTools {
    helper: Option<Arc<Helper>>,
}

impl ExecutableTools {
    /// Contains programs with the help of that command, where a sandbox or limits are wanted, and has it end those that
    /// are left behind where this program is killed.
    pub fn new(helper: Option<HelperCommand>) -> Self {
        ExecutableTools { helper: helper.map(Helper::new) }
    }
}

#[async_trait]
impl ToolSource for ExecutableTools {
    async fn open(&self, tool: &Resource<Tool>, bundle_root: &Path) -> Result<ToolSet, OpenError> {
        let failed = |message: String| OpenError { tool: tool.id.clone(), message, suggestion: None, export: None };
        let Entry::Executable(path) = &tool.spec.entry else {
            return Err(failed("its entry is not a folder with a tool.yaml".to_owned()));
        };
        let settings: Settings = serde_json::from_value(Value::Object(tool.spec.config.clone()))
            .map_err(|error| failed(format!("its config is wrong: {error}")))?;
        let folder = bundle_root.join(path);
        let ready = blocking(move || Ok(inspect(&folder))).await.map_err(|error| failed(error.message))?;
        let ready = ready.map_err(|reason| failed(format!("`{path}` cannot be used: {reason}")))?;
        if ready.is_library {
            let problem = format!("the entrypoint of `{path}` is a library");
            let suggestion =
                Some(format!("name the library in the Tool: `entry: {path}/{}`", ready.manifest.entrypoint));
            return Err(OpenError { suggestion, ..failed(problem) });
        }
        let export = ready.manifest.export();
        let handler: Arc<dyn ToolHandler> =
            Arc::new(Program { tool: ready, launcher: Launcher::new(settings, self.helper.as_ref()) });
        Ok(ToolSet { exports: vec![(export, handler)] })
    }
}

/// The program of one tool.
struct Program {
    tool: Ready,
    launcher: Launcher,
}

#[async_trait]
impl ToolHandler for Program {
    async fn call(&self, ctx: &ToolContext, input: JsonObject) -> Result<ToolOutput, ToolError> {
        let output = program::run(ctx, &self.tool, input, &self.launcher, None).await?;
        Ok(titled(format!("Ran {}", self.tool.manifest.name), output))
    }

    async fn programs(&self, _ctx: &ToolContext, _input: &JsonObject) -> Vec<PathBuf> {
        vec![self.tool.program.clone()]
    }
}

//! Tools whose entry is a directory with a `tool.yaml` (rule T2). The single export runs its
//! program.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use goondan_core::JsonObject;
use goondan_core::package_copies::code_path;
use goondan_core::ports::tool::{
    EntryOpenError, HandlerError, ToolContext, ToolHandler, ToolOutput, ToolSet, ToolSource,
};
use goondan_spec::kinds::{Tool, ToolEntry};
use goondan_spec::{Resource, regular_file};
use serde_json::Value;

use crate::custom_tools::program;
use crate::custom_tools::tool_catalog::{UsableCustomTool, inspect_tool};
use crate::errors::run_blocking;
use crate::sandbox::{HelperCommand, ProgramLauncher, SandboxHelper};
use crate::shell::ShellSettings;
use crate::tool_operation::titled_output;

/// Opens tools with an executable entry.
///
/// The program runs in the call's working directory, with the arguments as `--key=value`. Its
/// environment contains no keys except those in `config.env`. Only the Tool's time limit applies.
#[derive(Debug, Clone, Default)]
pub struct ExecutableTools {
    helper: Option<Arc<SandboxHelper>>,
}

impl ExecutableTools {
    /// Creates a source. `helper` applies sandboxes and limits, and ends leftover processes if this
    /// program is killed.
    pub fn new(helper: Option<HelperCommand>) -> Self {
        ExecutableTools {
            helper: helper.map(SandboxHelper::new),
        }
    }
}

#[async_trait]
impl ToolSource for ExecutableTools {
    async fn open(
        &self,
        tool: &Resource<Tool>,
        bundle_root: &Path,
    ) -> Result<ToolSet, EntryOpenError> {
        let failed = |message: String| EntryOpenError::new(&tool.id, message);
        let ToolEntry::Executable(path) = &tool.spec.entry else {
            return Err(failed(
                "its entry is not a directory with a tool.yaml".to_owned(),
            ));
        };
        let settings: ShellSettings =
            serde_json::from_value(Value::Object(tool.spec.config.clone()))
                .map_err(|error| failed(format!("its config is invalid: {error}")))?;
        let folder = code_path(&bundle_root.join(path));
        let ready = run_blocking(move || Ok(inspect_tool(&folder)))
            .await
            .map_err(|error| failed(error.message))?;
        let ready = ready.map_err(|reason| failed(format!("`{path}` cannot be used: {reason}")))?;
        if ready.is_library {
            let problem = format!("the entrypoint of `{path}` is a library");
            let suggestion = format!(
                "set the library as entry of the Tool: `entry: {path}/{}`",
                ready.manifest.entrypoint
            );
            return Err(failed(problem).suggest(suggestion));
        }
        let export = ready.manifest.export();
        let handler: Arc<dyn ToolHandler> = Arc::new(ExecutableTool {
            tool: ready,
            launcher: ProgramLauncher::new(settings, self.helper.as_ref()),
        });
        Ok(ToolSet {
            exports: vec![(export, handler)],
            unavailable: None,
        })
    }
}

/// An error in an executable entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryFault {
    /// The entry is unusable for this reason.
    Unusable(String),
    /// The interpreter of the script is missing on this machine.
    NoInterpreter {
        /// Path of the script.
        program: String,
        /// Name of the interpreter.
        interpreter: String,
    },
}

/// Returns the error that prevents the program in `folder` from running, as far as it can be
/// detected without starting it. Blocks.
pub fn entry_fault(folder: &Path) -> Option<EntryFault> {
    let ready = match inspect_tool(folder) {
        Ok(ready) if ready.is_library => return None,
        Ok(ready) => ready,
        Err(reason) => return Some(EntryFault::Unusable(reason.to_string())),
    };
    let interpreter =
        script_interpreter(&ready.program).filter(|interpreter| !is_there(interpreter))?;
    Some(EntryFault::NoInterpreter {
        program: ready.manifest.entrypoint,
        interpreter,
    })
}

/// Maximum length in bytes of a first line that the kernel reads.
const MAX_SHEBANG_BYTES: u64 = 256;

/// Returns the interpreter in the first line of a script.
fn script_interpreter(script: &Path) -> Option<String> {
    let line = regular_file::read_start(script, MAX_SHEBANG_BYTES).ok()?;
    let line = line
        .strip_prefix(b"#!")?
        .split(|byte| *byte == b'\n')
        .next()?;
    let mut words = std::str::from_utf8(line).ok()?.split_ascii_whitespace();
    let program = words.next()?;
    if !program.ends_with("/env") {
        return Some(program.to_owned());
    }
    words
        .find(|word| !word.starts_with('-') && !word.contains('='))
        .map(str::to_owned)
}

/// Returns true if a program exists at its path, or in a directory of `PATH`.
fn is_there(program: &str) -> bool {
    if program.contains('/') {
        return Path::new(program).is_file();
    }
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(program).is_file()))
}

struct ExecutableTool {
    tool: UsableCustomTool,
    launcher: ProgramLauncher,
}

#[async_trait]
impl ToolHandler for ExecutableTool {
    async fn call(&self, ctx: &ToolContext, input: JsonObject) -> Result<ToolOutput, HandlerError> {
        let output = program::run(ctx, &self.tool, input, &self.launcher, None).await?;
        Ok(titled_output(
            format!("Ran {}", self.tool.manifest.name),
            output,
        ))
    }

    async fn executed_files(&self, _ctx: &ToolContext, _input: &JsonObject) -> Vec<PathBuf> {
        vec![self.tool.program.clone()]
    }
}

//! Tools whose entry is a folder with a `tool.yaml` (rule T2): one export that runs the folder's program.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use goondan_core::JsonObject;
use goondan_core::ports::tool::{
    OpenError, ToolContext, ToolError, ToolHandler, ToolOutput, ToolSet, ToolSource,
};
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
        ExecutableTools {
            helper: helper.map(Helper::new),
        }
    }
}

#[async_trait]
impl ToolSource for ExecutableTools {
    async fn open(&self, tool: &Resource<Tool>, bundle_root: &Path) -> Result<ToolSet, OpenError> {
        let failed = |message: String| OpenError::new(&tool.id, message);
        let Entry::Executable(path) = &tool.spec.entry else {
            return Err(failed(
                "its entry is not a folder with a tool.yaml".to_owned(),
            ));
        };
        let settings: Settings = serde_json::from_value(Value::Object(tool.spec.config.clone()))
            .map_err(|error| failed(format!("its config is wrong: {error}")))?;
        let folder = bundle_root.join(path);
        let ready = blocking(move || Ok(inspect(&folder)))
            .await
            .map_err(|error| failed(error.message))?;
        let ready = ready.map_err(|reason| failed(format!("`{path}` cannot be used: {reason}")))?;
        if ready.is_library {
            let problem = format!("the entrypoint of `{path}` is a library");
            let suggestion = format!(
                "name the library in the Tool: `entry: {path}/{}`",
                ready.manifest.entrypoint
            );
            return Err(failed(problem).suggest(suggestion));
        }
        let export = ready.manifest.export();
        let handler: Arc<dyn ToolHandler> = Arc::new(Program {
            tool: ready,
            launcher: Launcher::new(settings, self.helper.as_ref()),
        });
        Ok(ToolSet {
            exports: vec![(export, handler)],
        })
    }
}

/// What is wrong with an executable entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryFault {
    /// It can't be used.
    Unusable(String),
    /// The program that reads its script is not on this machine.
    NoInterpreter {
        /// The script.
        program: String,
        /// The program.
        interpreter: String,
    },
}

/// What keeps the program in `folder` from running, as far as that can be told without starting it. Blocks.
pub fn entry_fault(folder: &Path) -> Option<EntryFault> {
    let ready = match inspect(folder) {
        Ok(ready) if ready.is_library => return None,
        Ok(ready) => ready,
        Err(reason) => return Some(EntryFault::Unusable(reason.to_string())),
    };
    let interpreter = interpreter(&ready.program).filter(|interpreter| !is_there(interpreter))?;
    Some(EntryFault::NoInterpreter {
        program: ready.manifest.entrypoint,
        interpreter,
    })
}

/// The longest first line that the kernel reads, in bytes.
const LONGEST_LINE: u64 = 256;

/// The program that the first line of a script names.
fn interpreter(script: &Path) -> Option<String> {
    let mut line = Vec::new();
    std::fs::File::open(script)
        .ok()?
        .take(LONGEST_LINE)
        .read_to_end(&mut line)
        .ok()?;
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

/// Whether a program is there, by its path or in the folders of `PATH`.
fn is_there(program: &str) -> bool {
    if program.contains('/') {
        return Path::new(program).is_file();
    }
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(program).is_file()))
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

//! Runs a custom tool that is a dynamic library, loaded into this program.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use goondan_core::JsonObject;
use goondan_core::ports::tool::{HandlerError, ToolContext, ToolOutput, ToolSet, ToolSource};
use goondan_core::schema::ArgumentSchema;
use goondan_spec::kinds::{Tool, ToolEntry};
use goondan_spec::{Code, Kind, Resource, ResourceId};
use serde_json::{Value, json};

use super::tool_catalog::UsableCustomTool;
use crate::errors;
use crate::mutex_lock::lock;

/// The loaded libraries. An unchanged library stays loaded with its state. A changed one is loaded
/// again, and the old one is closed after its last call.
#[derive(Default)]
pub(crate) struct LoadedLibraries {
    sets: Mutex<HashMap<PathBuf, Arc<ToolSet>>>,
}

pub(super) struct LibraryCall<'a> {
    pub(super) source: Option<&'a Arc<dyn ToolSource>>,
    pub(super) loaded: &'a LoadedLibraries,
    pub(super) tool: &'a UsableCustomTool,
    pub(super) arguments: JsonObject,
    pub(super) limit: Duration,
}

/// Opens the library, validates the arguments against its schema, and calls it.
pub(super) async fn run(
    ctx: &ToolContext,
    run: LibraryCall<'_>,
) -> Result<ToolOutput, HandlerError> {
    let name = &run.tool.manifest.name;
    let set = open(&run).await?;
    // In a library with several exports, the one with the tool's name is called.
    let export_named = |name: &str| set.exports.iter().find(|(export, _)| export.name == name);
    let (export, handler) = match set.exports.as_slice() {
        [only] => only,
        _ => export_named(name)
            .or_else(|| export_named(&name.replace('-', "_")))
            .ok_or_else(|| {
                let exports: Vec<&str> = set
                    .exports
                    .iter()
                    .map(|(export, _)| export.name.as_str())
                    .collect();
                let message = format!(
                    "the library has no export `{name}`; its exports are {}",
                    exports.join(", ")
                );
                HandlerError::new(message).code(Code::TOOL_CUSTOM_TOOL_BROKEN)
            })?,
    };
    let schema = ArgumentSchema::new(export.parameters.clone());
    let arguments = schema
        .check(&Value::Object(run.arguments))
        .map_err(|invalid| errors::invalid_argument(invalid.message).suggest(invalid.suggestion))?;
    let started = Instant::now();
    let called = tokio::time::timeout(run.limit, handler.call(ctx, arguments)).await;
    let output = called.map_err(|_| {
        let message = format!("`{name}` did not finish within {} s", run.limit.as_secs());
        HandlerError::new(message)
            .code(Code::TOOL_TIMEOUT)
            .suggest("request less per call, or pass a longer `timeout`")
    })??;
    let duration = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    let result = json!({"tool": name, "output": output.output, "durationMs": duration});
    Ok(ToolOutput {
        output: result,
        ..output
    })
}

/// Opens the library of a custom tool and caches its exports. Fails if the library cannot be
/// loaded.
async fn open(run: &LibraryCall<'_>) -> Result<Arc<ToolSet>, HandlerError> {
    let broken_tool_error =
        |message: String| HandlerError::new(message).code(Code::TOOL_CUSTOM_TOOL_BROKEN);
    let source = run
        .source
        .ok_or_else(|| broken_tool_error("this program cannot load libraries".to_owned()))?;
    let (Some(folder), Some(file)) = (run.tool.program.parent(), run.tool.program.file_name())
    else {
        return Err(broken_tool_error("the library has no name".to_owned()));
    };
    let resource = Resource {
        id: ResourceId::base(Kind::Tool, &run.tool.manifest.name),
        labels: Default::default(),
        annotations: Default::default(),
        origin: None,
        spec: Tool {
            timeout: run.limit,
            ..Tool::new(ToolEntry::Library(file.to_string_lossy().into_owned()))
        },
    };
    let opened = source.open(&resource, folder).await.map_err(|error| {
        let cause = broken_tool_error(error.cause.to_string());
        error
            .suggestion
            .map_or(cause.clone(), |suggestion| cause.suggest(suggestion))
    })?;
    let set = Arc::new(opened);
    lock(&run.loaded.sets).insert(run.tool.program.clone(), Arc::clone(&set));
    Ok(set)
}

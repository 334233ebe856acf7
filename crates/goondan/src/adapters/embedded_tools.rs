//! Tools whose functions are part of the program that embeds the swarm.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use goondan_core::JsonObject;
use goondan_core::ports::tool::{
    EntryOpenError, HandlerError, ToolContext, ToolHandler, ToolOutput, ToolSet, ToolSource,
};
use goondan_spec::kinds::{EMBEDDED_ENTRY, Tool};
use goondan_spec::{Code, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Functions for a Tool resource with `entry: embedded`. The resource declares the exports with
/// their schemas and permissions.
#[derive(Clone)]
pub struct EmbeddedTool {
    name: String,
    functions: HashMap<String, Arc<dyn ToolHandler>>,
}

impl EmbeddedTool {
    /// Creates the tool for the Tool resource with this name, without functions.
    pub fn new(name: impl Into<String>) -> Self {
        EmbeddedTool {
            name: name.into(),
            functions: HashMap::new(),
        }
    }

    /// Sets the function of an export. A call decodes the arguments as `A`; its output is the
    /// JSON form of `R`.
    #[must_use]
    pub fn function<A, R, F>(
        self,
        export: impl Into<String>,
        function: impl Fn(ToolContext, A) -> F + Send + Sync + 'static,
    ) -> Self
    where
        A: DeserializeOwned + 'static,
        R: Serialize,
        F: Future<Output = Result<R, HandlerError>> + Send + 'static,
    {
        let call = move |context: ToolContext, arguments: JsonObject| {
            let arguments = serde_json::from_value(Value::Object(arguments));
            let running = arguments.map(|arguments| function(context, arguments));
            async move {
                let result = running.map_err(invalid_arguments)?.await?;
                let output = serde_json::to_value(result).map_err(|error| {
                    HandlerError::new(format!("the result has no JSON form: {error}"))
                })?;
                Ok(ToolOutput::from(output))
            }
        };
        self.handler(export, Arc::new(TypedFunction(call)))
    }

    /// Sets the handler of an export, for previews, attachments or metadata.
    #[must_use]
    pub fn handler(mut self, export: impl Into<String>, handler: Arc<dyn ToolHandler>) -> Self {
        self.functions.insert(export.into(), handler);
        self
    }
}

/// Returns the error for arguments that match the schema but not the type of the function.
fn invalid_arguments(error: serde_json::Error) -> HandlerError {
    HandlerError::new(format!("the arguments are invalid: {error}")).code(Code::TOOL_INVALID_ARGS)
}

/// Handler for a function with decoded arguments.
struct TypedFunction<C>(C);

#[async_trait]
impl<C, F> ToolHandler for TypedFunction<C>
where
    C: Fn(ToolContext, JsonObject) -> F + Send + Sync,
    F: Future<Output = Result<ToolOutput, HandlerError>> + Send,
{
    async fn call(&self, ctx: &ToolContext, input: JsonObject) -> Result<ToolOutput, HandlerError> {
        (self.0)(ctx.clone(), input).await
    }
}

/// Source of the tools that the program provides, by the name of their resource.
#[derive(Clone, Default)]
pub(crate) struct EmbeddedTools(HashMap<String, EmbeddedTool>);

impl EmbeddedTools {
    /// Adds a tool. Replaces an earlier one for the same resource.
    pub(crate) fn add(&mut self, tool: EmbeddedTool) {
        self.0.insert(tool.name.clone(), tool);
    }
}

#[async_trait]
impl ToolSource for EmbeddedTools {
    async fn open(&self, tool: &Resource<Tool>, _: &Path) -> Result<ToolSet, EntryOpenError> {
        let Some(embedded) = self.0.get(&tool.id.name) else {
            let cause = format!(
                "`entry: {EMBEDDED_ENTRY}` needs a program that provides the tool, and this program does not"
            );
            return Err(EntryOpenError::new(&tool.id, cause).suggest(
                "start the program that embeds the swarm, or give `SwarmBuilder::tool` the tool",
            ));
        };
        let exports =
            tool.spec
                .exports
                .iter()
                .map(|export| match embedded.functions.get(&export.name) {
                    Some(handler) => Ok((export.clone(), Arc::clone(handler))),
                    None => Err(EntryOpenError {
                        export: Some(export.name.clone()),
                        ..EntryOpenError::new(
                            &tool.id,
                            format!(
                                "the program has no function for the export `{}`",
                                export.name
                            ),
                        )
                        .suggest("add it with `EmbeddedTool::function`, or remove the export")
                    }),
                });
        Ok(ToolSet {
            exports: exports.collect::<Result<_, _>>()?,
            unavailable: None,
        })
    }
}

//! Turns a parameter struct with its behavior into an export: schema, decoding and execution in one
//! place.

use std::marker::PhantomData;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use goondan_core::JsonObject;
use goondan_core::ports::tool::{HandlerError, ToolContext, ToolHandler, ToolOutput, WrittenFile};
use goondan_spec::Code;
use goondan_spec::kinds::{ExportSpec, Permission};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{errors, schema};

/// The parameters of one export, and its behavior.
///
/// The doc comment of the struct is the export's description for the model. The doc comments of
/// fields describe parameters, and `serde` defaults appear in the schema.
pub(crate) trait ToolOperation: DeserializeOwned + JsonSchema + Send + 'static {
    /// State that the exports of one opened tool share, such as settings or a client.
    type Shared: Send + Sync + 'static;

    /// True if `run` watches `ctx.cancellation` itself, because it needs an orderly end. Otherwise
    /// the future is dropped when the token fires.
    const WATCHES_CANCELLATION: bool = false;

    /// Describes the effect of the call for an approval prompt. Changes nothing.
    fn preview(
        self,
        _ctx: &ToolContext,
        _shared: &Self::Shared,
    ) -> impl Future<Output = Result<Option<String>, HandlerError>> + Send {
        std::future::ready(Ok(None))
    }

    /// Returns the files that the call runs, in addition to those in its arguments.
    fn executed_files(
        self,
        _ctx: &ToolContext,
        _shared: &Self::Shared,
    ) -> impl Future<Output = Vec<PathBuf>> + Send {
        std::future::ready(Vec::new())
    }

    /// Returns the files that the call writes, except those in arguments that are paths.
    fn written_files(
        self,
        _ctx: &ToolContext,
        _shared: &Self::Shared,
    ) -> impl Future<Output = Vec<WrittenFile>> + Send {
        std::future::ready(Vec::new())
    }

    /// Returns arguments with ids that no other thing can have, for those that another thing can have
    /// later.
    fn unique_arguments(self, _ctx: &ToolContext, _shared: &Self::Shared) -> JsonObject {
        JsonObject::new()
    }

    fn run(
        self,
        ctx: &ToolContext,
        shared: &Self::Shared,
    ) -> impl Future<Output = Result<ToolOutput, HandlerError>> + Send;
}

pub(crate) struct ToolExport {
    pub(crate) spec: ExportSpec,
    pub(crate) handler: Arc<dyn ToolHandler>,
}

impl ToolExport {
    pub(crate) fn new<O: ToolOperation>(name: &str, shared: &Arc<O::Shared>) -> ToolExport {
        let (description, parameters) = schema::describe::<O>();
        let spec = ExportSpec {
            name: name.to_owned(),
            description,
            parameters,
            ..ExportSpec::default()
        };
        let handler = OperationHandler::<O> {
            shared: Arc::clone(shared),
            operation: PhantomData,
        };
        ToolExport {
            spec,
            handler: Arc::new(handler),
        }
    }

    /// Declares a required permission (rule S1).
    pub(crate) fn with_permission(mut self, permission: Permission) -> ToolExport {
        self.spec.permissions.insert(permission);
        self
    }

    /// Declares a permission that a call uses if it is allowed.
    pub(crate) fn with_optional_permission(mut self, permission: Permission) -> ToolExport {
        self.spec.optional_permissions.insert(permission);
        self
    }

    /// Declares that the export changes nothing.
    pub(crate) fn read_only(mut self) -> ToolExport {
        self.spec.read_only = true;
        self
    }

    /// Declares that repeating a call has no further effect.
    pub(crate) fn idempotent(mut self) -> ToolExport {
        self.spec.idempotent = true;
        self
    }
}

/// Adapts an [`ToolOperation`] to the engine's interface.
struct OperationHandler<O: ToolOperation> {
    shared: Arc<O::Shared>,
    operation: PhantomData<fn() -> O>,
}

#[async_trait]
impl<O: ToolOperation> ToolHandler for OperationHandler<O> {
    async fn call(&self, ctx: &ToolContext, input: JsonObject) -> Result<ToolOutput, HandlerError> {
        let operation = decode::<O>(input)?;
        let run = operation.run(ctx, &self.shared);
        if O::WATCHES_CANCELLATION {
            return run.await;
        }
        tokio::select! {
            biased;
            output = run => output,
            () = ctx.cancellation.cancelled() => Err(errors::cancelled_error()),
        }
    }

    async fn preview(&self, ctx: &ToolContext, input: &JsonObject) -> Option<String> {
        let operation = decode::<O>(input.clone()).ok()?;
        match operation.preview(ctx, &self.shared).await {
            Ok(preview) => preview,
            Err(error) => Some(format!("the call would fail: {}", error.message)),
        }
    }

    fn unique_arguments(&self, ctx: &ToolContext, input: &JsonObject) -> JsonObject {
        match decode::<O>(input.clone()) {
            Ok(operation) => operation.unique_arguments(ctx, &self.shared),
            Err(_) => JsonObject::new(),
        }
    }

    async fn executed_files(&self, ctx: &ToolContext, input: &JsonObject) -> Vec<PathBuf> {
        match decode::<O>(input.clone()) {
            Ok(operation) => operation.executed_files(ctx, &self.shared).await,
            Err(_) => Vec::new(),
        }
    }

    async fn written_files(&self, ctx: &ToolContext, input: &JsonObject) -> Vec<WrittenFile> {
        match decode::<O>(input.clone()) {
            Ok(operation) => operation.written_files(ctx, &self.shared).await,
            Err(_) => Vec::new(),
        }
    }
}

/// Parses the arguments. They were already validated against the schema; this covers callers that
/// did not.
fn decode<O: ToolOperation>(mut input: JsonObject) -> Result<O, HandlerError> {
    for value in input.values_mut() {
        whole_float_to_integer(value);
    }
    serde_json::from_value(Value::Object(input)).map_err(|error| {
        HandlerError::new(format!("the arguments are invalid: {error}"))
            .code(Code::TOOL_INVALID_ARGS)
    })
}

/// Converts a whole float such as `3.0` to an integer. JSON Schema accepts it as an integer and
/// models send it, but serde does not accept it.
fn whole_float_to_integer(value: &mut Value) {
    if let Some(float) = value.as_f64().filter(|_| value.is_f64()) {
        *value = json_number(float);
    }
}

/// Returns a JSON number, without a decimal point if it is an integer.
pub(crate) fn json_number(float: f64) -> Value {
    /// Every integer up to this value is exact as an `f64`.
    const MAX_EXACT_INTEGER: f64 = 9_007_199_254_740_992.0;
    if float.fract() == 0.0 && float.abs() <= MAX_EXACT_INTEGER {
        Value::from(float as i64)
    } else {
        Value::from(float)
    }
}

/// Creates a result with a short summary for users.
pub(crate) fn titled_output(title: impl Into<String>, output: Value) -> ToolOutput {
    ToolOutput {
        output,
        title: Some(title.into()),
        ..ToolOutput::default()
    }
}

//! Turns a parameter struct that knows how to run into an export: schema, decoding and behaviour in one place.

use std::marker::PhantomData;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use goondan_core::JsonObject;
use goondan_core::ports::tool::{ToolContext, ToolError, ToolHandler, ToolOutput};
use goondan_spec::Code;
use goondan_spec::kinds::{ExportSpec, Permission};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{errors, schema};

/// The parameters of one export, and what to do with them.
///
/// The doc comment of the struct is the description that the model sees, the doc comment of a field that of the
/// parameter, and a `serde` default is declared in the schema.
pub(crate) trait Operation: DeserializeOwned + JsonSchema + Send + 'static {
    /// What the exports of one opened tool share: settings, a client, a registry.
    type Shared: Send + Sync + 'static;

    /// Whether `run` watches `ctx.cancellation` itself, because it has something to end in an orderly way. Everything
    /// else is dropped when the token fires.
    const WATCHES_CANCELLATION: bool = false;

    /// What the call would do, for somebody who is asked to allow it. It changes nothing.
    fn preview(
        self,
        _ctx: &ToolContext,
        _shared: &Self::Shared,
    ) -> impl Future<Output = Result<Option<String>, ToolError>> + Send {
        std::future::ready(Ok(None))
    }

    /// The files that the call runs, beside those that its arguments name.
    fn programs(
        self,
        _ctx: &ToolContext,
        _shared: &Self::Shared,
    ) -> impl Future<Output = Vec<PathBuf>> + Send {
        std::future::ready(Vec::new())
    }

    /// Runs one call.
    fn run(
        self,
        ctx: &ToolContext,
        shared: &Self::Shared,
    ) -> impl Future<Output = Result<ToolOutput, ToolError>> + Send;
}

/// An export with the handler behind it.
pub(crate) struct Export {
    /// What is declared.
    pub(crate) spec: ExportSpec,
    /// What runs.
    pub(crate) handler: Arc<dyn ToolHandler>,
}

impl Export {
    /// The export `name` that runs `O`.
    pub(crate) fn new<O: Operation>(name: &str, shared: &Arc<O::Shared>) -> Export {
        let (description, parameters) = schema::describe::<O>();
        let spec = ExportSpec {
            name: name.to_owned(),
            description,
            parameters,
            ..ExportSpec::default()
        };
        let handler = Typed::<O> {
            shared: Arc::clone(shared),
            operation: PhantomData,
        };
        Export {
            spec,
            handler: Arc::new(handler),
        }
    }

    /// Declares a permission that the export needs (rule S1).
    pub(crate) fn needs(mut self, permission: Permission) -> Export {
        self.spec.permissions.insert(permission);
        self
    }

    /// Declares that the export changes nothing.
    pub(crate) fn read_only(mut self) -> Export {
        self.spec.read_only = true;
        self
    }

    /// Declares that running a call twice is the same as running it once.
    pub(crate) fn idempotent(mut self) -> Export {
        self.spec.idempotent = true;
        self
    }
}

/// An [`Operation`] as the engine calls it.
struct Typed<O: Operation> {
    shared: Arc<O::Shared>,
    operation: PhantomData<fn() -> O>,
}

#[async_trait]
impl<O: Operation> ToolHandler for Typed<O> {
    async fn call(&self, ctx: &ToolContext, input: JsonObject) -> Result<ToolOutput, ToolError> {
        let operation = decode::<O>(input)?;
        let run = operation.run(ctx, &self.shared);
        if O::WATCHES_CANCELLATION {
            return run.await;
        }
        tokio::select! {
            biased;
            output = run => output,
            () = ctx.cancellation.cancelled() => Err(errors::cancelled()),
        }
    }

    async fn preview(&self, ctx: &ToolContext, input: &JsonObject) -> Option<String> {
        let operation = decode::<O>(input.clone()).ok()?;
        match operation.preview(ctx, &self.shared).await {
            Ok(preview) => preview,
            Err(error) => Some(format!("the call would fail: {}", error.message)),
        }
    }

    async fn programs(&self, ctx: &ToolContext, input: &JsonObject) -> Vec<PathBuf> {
        match decode::<O>(input.clone()) {
            Ok(operation) => operation.programs(ctx, &self.shared).await,
            Err(_) => Vec::new(),
        }
    }
}

/// Reads the arguments. They were checked against the schema before; this catches a caller that did not.
fn decode<O: Operation>(mut input: JsonObject) -> Result<O, ToolError> {
    for value in input.values_mut() {
        whole_float_to_integer(value);
    }
    serde_json::from_value(Value::Object(input)).map_err(|error| {
        ToolError::new(format!("the arguments do not fit: {error}")).code(Code::TOOL_INVALID_ARGS)
    })
}

/// JSON Schema counts `3.0` as an integer, and models write it; serde does not.
fn whole_float_to_integer(value: &mut Value) {
    if let Some(float) = value.as_f64().filter(|_| value.is_f64()) {
        *value = number(float);
    }
}

/// A number as JSON has it, without a decimal point where it is whole.
pub(crate) fn number(float: f64) -> Value {
    /// Every whole number up to here has an exact `f64`.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if float.fract() == 0.0 && float.abs() <= EXACT {
        Value::from(float as i64)
    } else {
        Value::from(float)
    }
}

/// A result with a short summary for people.
pub(crate) fn titled(title: impl Into<String>, output: Value) -> ToolOutput {
    ToolOutput {
        output,
        title: Some(title.into()),
        ..ToolOutput::default()
    }
}

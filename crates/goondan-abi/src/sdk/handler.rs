//! Adapts plain and async functions to JSON arguments.

use std::marker::PhantomData;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::context::ToolContext;
use super::output::Output;
use crate::wire::{JsonObject, ToolError, ToolOutput, code};

/// A function that can be a tool: an `fn` or `async fn` of `(ToolContext, Arguments)` that returns
/// a `Result`.
///
/// `M` only distinguishes the forms; it is inferred.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tool function",
    note = "a tool is `fn` or `async fn` of `(ToolContext, Arguments) -> Result<T, ToolError>`, \
        where `Arguments` derives \
            `Deserialize` and `JsonSchema`, and `T` is `Serialize` or `Output`"
)]
pub trait Handler<M>: Send + Sync + 'static {
    /// The type of the arguments.
    type Arguments: DeserializeOwned + JsonSchema;

    /// Runs the function to its end on this thread.
    ///
    /// # Errors
    ///
    /// Returns the function's error.
    fn call(&self, ctx: ToolContext, arguments: Self::Arguments) -> Result<ToolOutput, ToolError>;
}

/// A return value of a tool. `M` only distinguishes the forms; it is inferred.
pub trait IntoOutput<M> {
    /// Returns the output for the model and for users.
    ///
    /// # Errors
    ///
    /// Returns the function's error, or fails if the value has no JSON form.
    fn into_output(self) -> Result<ToolOutput, ToolError>;
}

/// Marks results whose value is the output.
pub struct PlainResult;
/// Marks results that are an [`Output`].
pub struct RichResult;
/// Marks functions that block.
pub struct BlockingFunction<A, M>(PhantomData<(A, M)>);
/// Marks functions that return a future.
pub struct AsyncFunction<A, M>(PhantomData<(A, M)>);

impl<T: Serialize, E: Into<ToolError>> IntoOutput<PlainResult> for Result<T, E> {
    fn into_output(self) -> Result<ToolOutput, ToolError> {
        let output = serde_json::to_value(self.map_err(Into::into)?)?;
        Ok(ToolOutput {
            output,
            ..ToolOutput::default()
        })
    }
}

impl<E: Into<ToolError>> IntoOutput<RichResult> for Result<Output, E> {
    fn into_output(self) -> Result<ToolOutput, ToolError> {
        self.map(|output| output.0).map_err(Into::into)
    }
}

impl<F, A, R, M> Handler<BlockingFunction<A, M>> for F
where
    F: Fn(ToolContext, A) -> R + Send + Sync + 'static,
    A: DeserializeOwned + JsonSchema,
    R: IntoOutput<M>,
{
    type Arguments = A;

    fn call(&self, ctx: ToolContext, arguments: A) -> Result<ToolOutput, ToolError> {
        self(ctx, arguments).into_output()
    }
}

impl<F, A, R, M> Handler<AsyncFunction<A, M>> for F
where
    F: Fn(ToolContext, A) -> R + Send + Sync + 'static,
    A: DeserializeOwned + JsonSchema,
    R: Future<Output: IntoOutput<M>>,
{
    type Arguments = A;

    fn call(&self, ctx: ToolContext, arguments: A) -> Result<ToolOutput, ToolError> {
        pollster::block_on(self(ctx, arguments)).into_output()
    }
}

pub(super) trait ErasedTool: Send + Sync {
    /// Decodes the arguments and runs the handler to its end on this thread.
    fn run(&self, ctx: ToolContext, arguments: JsonObject) -> Result<ToolOutput, ToolError>;
}

/// Hides the type of a handler.
pub(super) fn erase<M: 'static>(handler: impl Handler<M>) -> Box<dyn ErasedTool> {
    struct ErasedHandler<H, M>(H, PhantomData<fn() -> M>);

    impl<H: Handler<M>, M: 'static> ErasedTool for ErasedHandler<H, M> {
        fn run(&self, ctx: ToolContext, arguments: JsonObject) -> Result<ToolOutput, ToolError> {
            let arguments =
                serde_json::from_value(Value::Object(arguments)).map_err(|mistake| {
                    // The host has validated the schema; this covers the requirements that a schema
                    // cannot express.
                    ToolError::new(format!("the arguments are invalid: {mistake}"))
                        .code(code::INVALID_ARGS)
                })?;
            self.0.call(ctx, arguments)
        }
    }

    Box::new(ErasedHandler(handler, PhantomData))
}

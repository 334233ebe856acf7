//! Operations that a layer can request while it runs, for each of the three kinds.

use async_trait::async_trait;
use goondan_core::JsonObject;
use goondan_core::event::TurnError;
use goondan_core::ports::extension::{LayerChanges, LayerHost, LayerRequest, WrappedResult};
use goondan_core::ports::tool::{HandlerError, ToolCallResult};
use goondan_spec::Code;
use serde_json::{Value, json};

use super::layer_requests::{LayerRequests, RequestMode, RequestOutcome};
use super::wire_types::TurnMetadata;
use super::{events, extension_error, invalid_value, results};
use crate::middleware::{StepNext, ToolCallNext, TurnNext};
use crate::tooling::dispatch::ToolCallContext;
use crate::turn::step::{StepContext, StepOutcome};
use crate::turn::{TurnContext, TurnOutcome};

type LayerResult = Result<(Value, LayerChanges), HandlerError>;

/// Result of `next`, for a layer around a turn or a step.
struct NextOutcome<T> {
    outcome: Option<Result<T, TurnError>>,
    /// Error that must end the turn, regardless of the layer's result.
    fatal: Option<TurnError>,
}

impl<T> NextOutcome<T> {
    fn new() -> Self {
        NextOutcome {
            outcome: None,
            fatal: None,
        }
    }

    /// Converts an error for the layer.
    fn layer_error(&mut self, error: TurnError) -> HandlerError {
        let layer_error = HandlerError {
            code: Some(error.code.clone()),
            suggestion: error.suggestion.clone(),
            ..HandlerError::new(error.message.clone())
        };
        if [Code::STORE, Code::JOURNAL, Code::TURN_CANCELLED]
            .iter()
            .any(|code| error.code == *code)
        {
            self.fatal.get_or_insert(error);
        }
        layer_error
    }

    /// Returns the error of `next` if the layer only forwards it, otherwise the layer's own error.
    fn error(&mut self, extension: &str, error: HandlerError) -> TurnError {
        match self.outcome.take() {
            Some(Err(inner)) if error.code.as_deref() == Some(&inner.code) => inner,
            _ => extension_error(extension, error),
        }
    }
}

/// Returns the error for a layer that calls `next` a second time.
fn called_twice_error() -> HandlerError {
    HandlerError::new("`next` was called a second time")
        .code(Code::EXT_NEXT)
        .suggest("Call `next` once, and keep its result.")
}

/// Returns the answer to a request of a layer. An error that ends the turn is also saved in
/// `inner`.
fn answer<T>(
    inner: &mut NextOutcome<T>,
    outcome: Result<RequestOutcome, TurnError>,
) -> Result<Value, HandlerError> {
    outcome.unwrap_or_else(|error| Err(inner.layer_error(error)))
}

/// Removes `metadata` from the changed fields and returns it; `None` if the layer did not change
/// it. Fails if it is not an object.
fn take_metadata(fields: &mut JsonObject) -> Result<Option<JsonObject>, HandlerError> {
    match fields.shift_remove("metadata") {
        None => Ok(None),
        Some(Value::Object(metadata)) => Ok(Some(metadata)),
        Some(other) => Err(invalid_value(format_args!(
            "`metadata` must be an object, not {other}"
        ))),
    }
}

pub(super) struct TurnLayerHost<'a, 'n> {
    extension: &'a str,
    context: &'a mut TurnContext,
    next: Option<TurnNext<'n>>,
    inner: NextOutcome<TurnOutcome>,
    requests: LayerRequests,
}

impl<'a, 'n> TurnLayerHost<'a, 'n> {
    pub(super) fn new(
        extension: &'a str,
        location: String,
        context: &'a mut TurnContext,
        next: TurnNext<'n>,
    ) -> Self {
        TurnLayerHost {
            extension,
            context,
            next: Some(next),
            inner: NextOutcome::new(),
            requests: LayerRequests::new(location),
        }
    }

    /// Applies the changes of the layer: its metadata, other changed fields, and message events.
    async fn apply_changes(&mut self, mut changes: LayerChanges) -> Result<(), TurnError> {
        let metadata = take_metadata(&mut changes.fields)
            .map_err(|error| extension_error(self.extension, error))?;
        if let Some(metadata) = metadata {
            self.context.note::<TurnMetadata>().0 = metadata;
        }
        events::apply_events(self.context, self.extension, changes.events).await
    }

    /// Applies the last changes of the layer and decodes its result.
    pub(super) async fn end(mut self, end: LayerResult) -> Result<TurnOutcome, TurnError> {
        if let Some(fatal) = self.inner.fatal.take() {
            return Err(fatal);
        }
        let (value, changes) = end.map_err(|error| self.inner.error(self.extension, error))?;
        self.apply_changes(changes).await?;
        let inner = self.inner.outcome.take().and_then(Result::ok);
        results::to_turn(self.context, self.extension, value, inner)
    }
}

#[async_trait]
impl LayerHost for TurnLayerHost<'_, '_> {
    async fn next(&mut self, changes: LayerChanges) -> Result<WrappedResult, HandlerError> {
        let next = self.next.take().ok_or_else(called_twice_error)?;
        let outcome = match self.apply_changes(changes).await {
            Ok(()) => next.run(self.context).await,
            Err(error) => Err(error),
        };
        let layer_result = outcome
            .as_ref()
            .map(|outcome| results::turn_result_json(self.context, outcome))
            .map_err(Clone::clone);
        self.inner.outcome = Some(outcome);
        let result = layer_result.map_err(|error| self.inner.layer_error(error))?;
        Ok(WrappedResult {
            result,
            metadata: self.context.note::<TurnMetadata>().0.clone(),
        })
    }

    async fn request(&mut self, message: LayerRequest) -> Result<Value, HandlerError> {
        let outcome = self
            .requests
            .send(self.context, message, RequestMode::Request)
            .await;
        answer(&mut self.inner, outcome)
    }

    async fn send(&mut self, message: LayerRequest) -> Result<Value, HandlerError> {
        let outcome = self
            .requests
            .send(self.context, message, RequestMode::Send)
            .await;
        answer(&mut self.inner, outcome)
    }
}

pub(super) struct StepLayerHost<'a, 'c, 'n> {
    extension: &'a str,
    context: &'a mut StepContext<'c>,
    next: Option<StepNext<'n>>,
    inner: NextOutcome<StepOutcome>,
    requests: LayerRequests,
}

impl<'a, 'c, 'n> StepLayerHost<'a, 'c, 'n> {
    pub(super) fn new(
        extension: &'a str,
        location: String,
        context: &'a mut StepContext<'c>,
        next: StepNext<'n>,
    ) -> Self {
        StepLayerHost {
            extension,
            context,
            next: Some(next),
            inner: NextOutcome::new(),
            requests: LayerRequests::new(location),
        }
    }

    /// Applies the changes of the layer: its metadata, other changed fields, and message events.
    async fn apply_changes(&mut self, mut changes: LayerChanges) -> Result<(), TurnError> {
        let layer_failure = |error| extension_error(self.extension, error);
        if let Some(metadata) = take_metadata(&mut changes.fields).map_err(layer_failure)? {
            self.context.metadata = metadata;
        }
        if let Some(stated) = changes.fields.shift_remove("toolCatalog") {
            self.context.catalog = self.catalog(stated).map_err(layer_failure)?;
        }
        events::apply_events(self.context.turn(), self.extension, changes.events).await
    }

    /// Returns the tools that the layer has kept, in its order. Tools that it added are omitted
    /// because they have no handler.
    fn catalog(
        &self,
        stated: Value,
    ) -> Result<crate::tooling::registry::ToolCatalog, HandlerError> {
        let Value::Array(stated) = stated else {
            return Err(invalid_value("`toolCatalog` must be a list"));
        };
        let names: Vec<&str> = stated
            .iter()
            .filter_map(|item| item.get("name")?.as_str())
            .collect();
        let (catalog, unknown) = self.context.all_tools().select_tools(&names);
        for name in unknown {
            tracing::warn!(target: "gdn::extension", extension = self.extension, name, "the \
                extension put an unknown tool into `toolCatalog`; ignoring it");
        }
        Ok(catalog)
    }

    /// Applies the last changes of the layer and decodes its result.
    pub(super) async fn end(mut self, end: LayerResult) -> Result<StepOutcome, TurnError> {
        if let Some(fatal) = self.inner.fatal.take() {
            return Err(fatal);
        }
        let (value, changes) = end.map_err(|error| self.inner.error(self.extension, error))?;
        self.apply_changes(changes).await?;
        let inner = self.inner.outcome.take().and_then(Result::ok);
        results::to_step(self.context, self.extension, value, inner)
    }
}

#[async_trait]
impl LayerHost for StepLayerHost<'_, '_, '_> {
    async fn next(&mut self, changes: LayerChanges) -> Result<WrappedResult, HandlerError> {
        let next = self.next.take().ok_or_else(called_twice_error)?;
        let outcome = match self.apply_changes(changes).await {
            Ok(()) => next.run(self.context).await,
            Err(error) => Err(error),
        };
        let layer_result = outcome
            .as_ref()
            .map(|outcome| results::step_result_json(outcome, &self.context.metadata));
        let layer_result = layer_result.map_err(Clone::clone);
        self.inner.outcome = Some(outcome);
        let result = layer_result.map_err(|error| self.inner.layer_error(error))?;
        Ok(WrappedResult {
            result,
            metadata: self.context.metadata.clone(),
        })
    }

    async fn request(&mut self, message: LayerRequest) -> Result<Value, HandlerError> {
        let outcome = self
            .requests
            .send(self.context.turn(), message, RequestMode::Request)
            .await;
        answer(&mut self.inner, outcome)
    }

    async fn send(&mut self, message: LayerRequest) -> Result<Value, HandlerError> {
        let outcome = self
            .requests
            .send(self.context.turn(), message, RequestMode::Send)
            .await;
        answer(&mut self.inner, outcome)
    }
}

pub(super) struct ToolCallLayerHost<'a, 'n> {
    context: &'a mut ToolCallContext,
    next: Option<ToolCallNext<'n>>,
    inner: Option<ToolCallResult>,
}

impl<'a, 'n> ToolCallLayerHost<'a, 'n> {
    pub(super) fn new(context: &'a mut ToolCallContext, next: ToolCallNext<'n>) -> Self {
        ToolCallLayerHost {
            context,
            next: Some(next),
            inner: None,
        }
    }

    /// Applies the changes of the layer: its metadata, other changed fields, and message events.
    fn apply_changes(&mut self, mut changes: LayerChanges) -> Result<(), HandlerError> {
        if let Some(metadata) = take_metadata(&mut changes.fields)? {
            self.context.metadata = metadata;
        }
        if let Some(arguments) = changes.fields.shift_remove("args") {
            self.context.call.input = arguments;
        }
        if changes.events.is_empty() {
            Ok(())
        } else {
            Err(invalid_value(
                "a layer around a tool call cannot change the conversation",
            ))
        }
    }

    /// Applies the last changes of the layer and decodes its result.
    pub(super) fn end(mut self, end: LayerResult) -> Result<ToolCallResult, HandlerError> {
        let (value, changes) = end?;
        self.apply_changes(changes)?;
        results::to_tool_call(self.context, value, self.inner.as_ref())
    }
}

#[async_trait]
impl LayerHost for ToolCallLayerHost<'_, '_> {
    async fn next(&mut self, changes: LayerChanges) -> Result<WrappedResult, HandlerError> {
        let next = self.next.take().ok_or_else(called_twice_error)?;
        self.apply_changes(changes)?;
        let result = next.run(self.context).await;
        let wrapped = WrappedResult {
            result: json!(result),
            metadata: self.context.metadata.clone(),
        };
        self.inner = Some(result);
        Ok(wrapped)
    }

    async fn request(&mut self, _message: LayerRequest) -> Result<Value, HandlerError> {
        Err(no_agents_error())
    }

    async fn send(&mut self, _message: LayerRequest) -> Result<Value, HandlerError> {
        Err(no_agents_error())
    }
}

/// Returns the error for a request from a layer around a tool call.
fn no_agents_error() -> HandlerError {
    HandlerError::new("a layer around a tool call cannot reach other agents")
        .suggest("Use a layer around the turn or the step.")
}

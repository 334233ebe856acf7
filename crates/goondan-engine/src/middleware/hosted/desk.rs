//! What a layer can have done while it runs, for each of the three kinds.

use async_trait::async_trait;
use goondan_core::JsonObject;
use goondan_core::event::TurnError;
use goondan_core::ports::extension::{AgentQuestion, Changes, LayerDesk, Wrapped};
use goondan_core::ports::tool::{ToolCallResult, ToolError};
use goondan_spec::Code;
use serde_json::{Value, json};

use super::questions::{How, Questions, Told};
use super::shapes::TurnMetadata;
use super::{events, failed, results, senseless};
use crate::middleware::{StepNext, ToolCallNext, TurnNext};
use crate::tooling::dispatch::ToolCallContext;
use crate::turn::step::{StepContext, StepOutcome};
use crate::turn::{TurnContext, TurnOutcome};

/// How a layer ended.
type End = Result<(Value, Changes), ToolError>;

/// What `next` came to, for a layer around a turn or a step.
struct Inner<T> {
    outcome: Option<Result<T, TurnError>>,
    /// What must end the turn, whatever the layer makes of it.
    fatal: Option<TurnError>,
}

impl<T> Inner<T> {
    fn new() -> Self {
        Inner {
            outcome: None,
            fatal: None,
        }
    }

    /// What the layer is told of an error.
    fn told(&mut self, error: TurnError) -> ToolError {
        let told = ToolError {
            code: Some(error.code.clone()),
            suggestion: error.suggestion.clone(),
            ..ToolError::new(error.message.clone())
        };
        if [Code::STORE, Code::JOURNAL, Code::TURN_CANCELLED]
            .iter()
            .any(|code| error.code == *code)
        {
            self.fatal.get_or_insert(error);
        }
        told
    }

    /// The error of the layer: where it only passes on what `next` came to, that.
    fn error(&mut self, extension: &str, error: ToolError) -> TurnError {
        match self.outcome.take() {
            Some(Err(inner)) if error.code.as_deref() == Some(&inner.code) => inner,
            _ => failed(extension, error),
        }
    }
}

fn called_twice() -> ToolError {
    ToolError::new("`next` was called a second time")
        .code(Code::EXT_NEXT)
        .suggest("Call it once, and keep its result.")
}

fn answer<T>(inner: &mut Inner<T>, asked: Result<Told, TurnError>) -> Result<Value, ToolError> {
    asked.unwrap_or_else(|error| Err(inner.told(error)))
}

fn metadata(fields: &mut JsonObject) -> Result<Option<JsonObject>, ToolError> {
    match fields.shift_remove("metadata") {
        None => Ok(None),
        Some(Value::Object(metadata)) => Ok(Some(metadata)),
        Some(other) => Err(senseless(format_args!(
            "`metadata` is an object, not {other}"
        ))),
    }
}

/// Around a turn.
pub(super) struct TurnDesk<'a, 'n> {
    extension: &'a str,
    context: &'a mut TurnContext,
    next: Option<TurnNext<'n>>,
    inner: Inner<TurnOutcome>,
    questions: Questions,
}

impl<'a, 'n> TurnDesk<'a, 'n> {
    pub(super) fn new(
        extension: &'a str,
        place: String,
        context: &'a mut TurnContext,
        next: TurnNext<'n>,
    ) -> Self {
        TurnDesk {
            extension,
            context,
            next: Some(next),
            inner: Inner::new(),
            questions: Questions::new(place),
        }
    }

    async fn take_up(&mut self, mut changes: Changes) -> Result<(), TurnError> {
        let metadata =
            metadata(&mut changes.fields).map_err(|error| failed(self.extension, error))?;
        if let Some(metadata) = metadata {
            self.context.note::<TurnMetadata>().0 = metadata;
        }
        events::take_up(self.context, self.extension, changes.events).await
    }

    pub(super) async fn end(mut self, end: End) -> Result<TurnOutcome, TurnError> {
        if let Some(fatal) = self.inner.fatal.take() {
            return Err(fatal);
        }
        let (value, changes) = end.map_err(|error| self.inner.error(self.extension, error))?;
        self.take_up(changes).await?;
        let inner = self.inner.outcome.take().and_then(Result::ok);
        results::to_turn(self.context, self.extension, value, inner)
    }
}

#[async_trait]
impl LayerDesk for TurnDesk<'_, '_> {
    async fn next(&mut self, changes: Changes) -> Result<Wrapped, ToolError> {
        let next = self.next.take().ok_or_else(called_twice)?;
        let outcome = match self.take_up(changes).await {
            Ok(()) => next.run(self.context).await,
            Err(error) => Err(error),
        };
        let told = outcome
            .as_ref()
            .map(|outcome| results::of_turn(self.context, outcome))
            .map_err(Clone::clone);
        self.inner.outcome = Some(outcome);
        let result = told.map_err(|error| self.inner.told(error))?;
        Ok(Wrapped {
            result,
            metadata: self.context.note::<TurnMetadata>().0.clone(),
        })
    }

    async fn request(&mut self, what: AgentQuestion) -> Result<Value, ToolError> {
        let asked = self.questions.ask(self.context, what, How::Request).await;
        answer(&mut self.inner, asked)
    }

    async fn send(&mut self, what: AgentQuestion) -> Result<Value, ToolError> {
        let asked = self.questions.ask(self.context, what, How::Send).await;
        answer(&mut self.inner, asked)
    }
}

/// Around a step.
pub(super) struct StepDesk<'a, 'c, 'n> {
    extension: &'a str,
    context: &'a mut StepContext<'c>,
    next: Option<StepNext<'n>>,
    inner: Inner<StepOutcome>,
    questions: Questions,
}

impl<'a, 'c, 'n> StepDesk<'a, 'c, 'n> {
    pub(super) fn new(
        extension: &'a str,
        place: String,
        context: &'a mut StepContext<'c>,
        next: StepNext<'n>,
    ) -> Self {
        StepDesk {
            extension,
            context,
            next: Some(next),
            inner: Inner::new(),
            questions: Questions::new(place),
        }
    }

    async fn take_up(&mut self, mut changes: Changes) -> Result<(), TurnError> {
        let refuse = |error| failed(self.extension, error);
        if let Some(metadata) = metadata(&mut changes.fields).map_err(refuse)? {
            self.context.metadata = metadata;
        }
        if let Some(stated) = changes.fields.shift_remove("toolCatalog") {
            self.context.catalog = self.catalog(stated).map_err(refuse)?;
        }
        events::take_up(self.context.turn(), self.extension, changes.events).await
    }

    /// The tools that the layer has left, in its order. What it added can't be run by anybody, so it is left out.
    fn catalog(&self, stated: Value) -> Result<crate::tooling::registry::Catalog, ToolError> {
        let Value::Array(stated) = stated else {
            return Err(senseless("`toolCatalog` is a list"));
        };
        let names: Vec<&str> = stated
            .iter()
            .filter_map(|item| item.get("name")?.as_str())
            .collect();
        let (catalog, unknown) = self.context.all_tools().chosen(&names);
        for name in unknown {
            tracing::warn!(target: "gdn::extension", extension = self.extension, name, "it offers a tool that nobody has");
        }
        Ok(catalog)
    }

    pub(super) async fn end(mut self, end: End) -> Result<StepOutcome, TurnError> {
        if let Some(fatal) = self.inner.fatal.take() {
            return Err(fatal);
        }
        let (value, changes) = end.map_err(|error| self.inner.error(self.extension, error))?;
        self.take_up(changes).await?;
        let inner = self.inner.outcome.take().and_then(Result::ok);
        results::to_step(self.context, self.extension, value, inner)
    }
}

#[async_trait]
impl LayerDesk for StepDesk<'_, '_, '_> {
    async fn next(&mut self, changes: Changes) -> Result<Wrapped, ToolError> {
        let next = self.next.take().ok_or_else(called_twice)?;
        let outcome = match self.take_up(changes).await {
            Ok(()) => next.run(self.context).await,
            Err(error) => Err(error),
        };
        let told = outcome
            .as_ref()
            .map(|outcome| results::of_step(outcome, &self.context.metadata));
        let told = told.map_err(Clone::clone);
        self.inner.outcome = Some(outcome);
        let result = told.map_err(|error| self.inner.told(error))?;
        Ok(Wrapped {
            result,
            metadata: self.context.metadata.clone(),
        })
    }

    async fn request(&mut self, what: AgentQuestion) -> Result<Value, ToolError> {
        let asked = self
            .questions
            .ask(self.context.turn(), what, How::Request)
            .await;
        answer(&mut self.inner, asked)
    }

    async fn send(&mut self, what: AgentQuestion) -> Result<Value, ToolError> {
        let asked = self
            .questions
            .ask(self.context.turn(), what, How::Send)
            .await;
        answer(&mut self.inner, asked)
    }
}

/// Around a tool call.
pub(super) struct ToolCallDesk<'a, 'n> {
    context: &'a mut ToolCallContext,
    next: Option<ToolCallNext<'n>>,
    inner: Option<ToolCallResult>,
}

impl<'a, 'n> ToolCallDesk<'a, 'n> {
    pub(super) fn new(context: &'a mut ToolCallContext, next: ToolCallNext<'n>) -> Self {
        ToolCallDesk {
            context,
            next: Some(next),
            inner: None,
        }
    }

    fn take_up(&mut self, mut changes: Changes) -> Result<(), ToolError> {
        if let Some(metadata) = metadata(&mut changes.fields)? {
            self.context.metadata = metadata;
        }
        if let Some(arguments) = changes.fields.shift_remove("args") {
            self.context.call.input = arguments;
        }
        match changes.events.is_empty() {
            true => Ok(()),
            false => Err(senseless(
                "a layer around a tool call cannot change the conversation",
            )),
        }
    }

    pub(super) fn end(mut self, end: End) -> Result<ToolCallResult, ToolError> {
        let (value, changes) = end?;
        self.take_up(changes)?;
        results::to_tool_call(self.context, value, self.inner.as_ref())
    }
}

#[async_trait]
impl LayerDesk for ToolCallDesk<'_, '_> {
    async fn next(&mut self, changes: Changes) -> Result<Wrapped, ToolError> {
        let next = self.next.take().ok_or_else(called_twice)?;
        self.take_up(changes)?;
        let result = next.run(self.context).await;
        let told = Wrapped {
            result: json!(result),
            metadata: self.context.metadata.clone(),
        };
        self.inner = Some(result);
        Ok(told)
    }

    async fn request(&mut self, _what: AgentQuestion) -> Result<Value, ToolError> {
        Err(no_agents())
    }

    async fn send(&mut self, _what: AgentQuestion) -> Result<Value, ToolError> {
        Err(no_agents())
    }
}

fn no_agents() -> ToolError {
    ToolError::new("a layer around a tool call cannot reach other agents")
        .suggest("Use a layer around the turn or the step.")
}

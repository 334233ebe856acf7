//! A layer whose code runs elsewhere, as middleware.
//!
//! The code talks over a desk (`desk.rs`): `next` runs what the layer wraps, once at most. What it sees and returns is in the
//! shapes of the reference (`shapes.rs`, `results.rs`). Errors of what is wrapped keep their code on their way through the
//! code, and what must not be swallowed is not: a store that fails, and a cancel.

mod desk;
mod events;
mod journal;
mod questions;
mod results;
mod shapes;

use std::sync::Arc;

use async_trait::async_trait;
use goondan_core::event::TurnError;
use goondan_core::ports::extension::{AttachedExtension, LayerKind};
use goondan_core::ports::tool::{ToolCallResult, ToolError};
use goondan_spec::Code;

use self::desk::{StepDesk, ToolCallDesk, TurnDesk};
pub(crate) use self::journal::Journalist;
use super::{Middleware, StepNext, ToolCallNext, TurnNext};
use crate::tooling::dispatch::{self, ToolCallContext};
use crate::turn::step::{StepContext, StepOutcome};
use crate::turn::{TurnContext, TurnOutcome};

/// Characters of an error message of a layer around a tool call.
const ERROR_LIMIT: usize = 1_000;

/// One layer of an extension.
pub(super) struct HostedLayer {
    extension: String,
    attached: Arc<dyn AttachedExtension>,
    index: usize,
    kind: LayerKind,
}

impl HostedLayer {
    pub(super) fn new(
        extension: &str,
        attached: Arc<dyn AttachedExtension>,
        index: usize,
        kind: LayerKind,
    ) -> Self {
        HostedLayer {
            extension: extension.to_owned(),
            attached,
            index,
            kind,
        }
    }

    /// The layer's place in its turn, for the ids of what it does.
    fn place(&self) -> String {
        format!("{}/layer-{}", self.extension, self.index)
    }
}

#[async_trait]
impl Middleware for HostedLayer {
    fn name(&self) -> &str {
        &self.extension
    }

    async fn turn(
        &self,
        context: &mut TurnContext,
        next: TurnNext<'_>,
    ) -> Result<TurnOutcome, TurnError> {
        if self.kind != LayerKind::Turn {
            return next.run(context).await;
        }
        let fields = shapes::turn(context);
        let mut desk = TurnDesk::new(&self.extension, self.place(), context, next);
        let end = self.attached.run(self.index, fields, &mut desk).await;
        desk.end(end).await
    }

    async fn step(
        &self,
        context: &mut StepContext<'_>,
        next: StepNext<'_>,
    ) -> Result<StepOutcome, TurnError> {
        if self.kind != LayerKind::Step {
            return next.run(context).await;
        }
        let fields = shapes::step(context);
        let place = format!("step-{}/{}", context.index, self.place());
        let mut desk = StepDesk::new(&self.extension, place, context, next);
        let end = self.attached.run(self.index, fields, &mut desk).await;
        desk.end(end).await
    }

    async fn tool_call(
        &self,
        context: &mut ToolCallContext,
        next: ToolCallNext<'_>,
    ) -> ToolCallResult {
        if self.kind != LayerKind::ToolCall {
            return next.run(context).await;
        }
        let fields = shapes::tool_call(context);
        let call = context.call.clone();
        let mut desk = ToolCallDesk::new(context, next);
        let end = self.attached.run(self.index, fields, &mut desk).await;
        desk.end(end).unwrap_or_else(|error| {
            let error = named(&self.extension, error);
            dispatch::failed(&call, ERROR_LIMIT, error)
        })
    }
}

/// The error of an extension, which says whose it is.
fn named(extension: &str, mut error: ToolError) -> ToolError {
    error.message = format!("the extension {extension} failed: {}", error.message);
    error.code.get_or_insert_with(|| Code::EXT_FAILED.into());
    error
}

/// The error of a turn that an extension has ended.
pub(super) fn failed(extension: &str, error: ToolError) -> TurnError {
    let error = named(extension, error);
    TurnError {
        code: error.code.unwrap_or_else(|| Code::EXT_FAILED.into()),
        message: error.message,
        suggestion: error.suggestion,
        status: None,
    }
}

/// The error of a layer that returned, or changed, what makes no sense.
fn senseless(what: impl std::fmt::Display) -> ToolError {
    ToolError::new(what.to_string()).code(Code::EXT_RESULT)
}

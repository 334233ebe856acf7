//! Middleware for layers whose code runs outside this program.
//!
//! The code uses the operations in `layer_host.rs`: `next` runs the wrapped part, at most once.
//! The JSON formats are in `wire_types.rs` and `results.rs`.
//!
//! An error of the wrapped part keeps its code when the layer forwards it. A layer cannot suppress
//! a store error or a cancellation.

mod events;
mod layer_host;
mod layer_requests;
mod results;
mod state_journal;
mod wire_types;

use std::sync::Arc;

use async_trait::async_trait;
use goondan_core::event::TurnError;
use goondan_core::ports::extension::{AttachedExtension, LayerKind};
use goondan_core::ports::tool::{HandlerError, ToolCallResult};
use goondan_spec::Code;

use self::layer_host::{StepLayerHost, ToolCallLayerHost, TurnLayerHost};
pub(crate) use self::state_journal::StateJournal;
use super::{Middleware, StepNext, ToolCallNext, TurnNext};
use crate::tooling::dispatch::{self, ToolCallContext};
use crate::turn::step::{StepContext, StepOutcome};
use crate::turn::{TurnContext, TurnOutcome};

/// Length limit of an error message of a tool-call layer, in characters.
const MAX_ERROR_CHARS: usize = 1_000;

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

    /// Returns the position of the layer in its turn, for effect ids.
    fn layer_path(&self) -> String {
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
        let fields = wire_types::turn(context);
        let mut layer_host = TurnLayerHost::new(&self.extension, self.layer_path(), context, next);
        let end = self.attached.run(self.index, fields, &mut layer_host).await;
        layer_host.end(end).await
    }

    async fn step(
        &self,
        context: &mut StepContext<'_>,
        next: StepNext<'_>,
    ) -> Result<StepOutcome, TurnError> {
        if self.kind != LayerKind::Step {
            return next.run(context).await;
        }
        let fields = wire_types::step(context);
        let location = format!("step-{}/{}", context.index, self.layer_path());
        let mut layer_host = StepLayerHost::new(&self.extension, location, context, next);
        let end = self.attached.run(self.index, fields, &mut layer_host).await;
        layer_host.end(end).await
    }

    async fn tool_call(
        &self,
        context: &mut ToolCallContext,
        next: ToolCallNext<'_>,
    ) -> ToolCallResult {
        if self.kind != LayerKind::ToolCall {
            return next.run(context).await;
        }
        let fields = wire_types::tool_call(context);
        let call = context.call.clone();
        let mut layer_host = ToolCallLayerHost::new(context, next);
        let end = self.attached.run(self.index, fields, &mut layer_host).await;
        layer_host.end(end).unwrap_or_else(|error| {
            let error = with_extension_name(&self.extension, error);
            dispatch::error_result(&call, MAX_ERROR_CHARS, error)
        })
    }
}

/// Adds the extension name to an error.
fn with_extension_name(extension: &str, mut error: HandlerError) -> HandlerError {
    error.message = format!("the extension {extension} failed: {}", error.message);
    error.code.get_or_insert_with(|| Code::EXT_FAILED.into());
    error
}

/// Returns the error of a turn that an extension has ended.
pub(super) fn extension_error(extension: &str, error: HandlerError) -> TurnError {
    let error = with_extension_name(extension, error);
    TurnError {
        code: error.code.unwrap_or_else(|| Code::EXT_FAILED.into()),
        message: error.message,
        suggestion: error.suggestion,
        status: None,
    }
}

/// Returns the error of a layer that returned or changed something invalid.
fn invalid_value(message: impl std::fmt::Display) -> HandlerError {
    HandlerError::new(message.to_string()).code(Code::EXT_RESULT)
}

//! The origin of a tool call: a swarm, or a direct session.

use std::sync::Arc;

use rmcp::model::RequestMetaObject;
use tokio_util::sync::CancellationToken;

use crate::place::Place;
use goondan_core::caller::Caller;
use goondan_core::ports::tool::{ProgressSink, ToolContext};

pub(crate) struct Asker {
    pub(crate) place: Place,
    /// The caller identity that is sent to the server.
    pub(crate) caller: Option<Caller>,
    pub(crate) progress: Arc<dyn ProgressSink>,
    /// Fires when the call is cancelled.
    pub(crate) cancellation: CancellationToken,
}

impl Asker {
    pub(crate) fn of(ctx: &ToolContext) -> Self {
        Asker {
            place: Place::of(ctx),
            caller: ctx.caller.clone(),
            progress: Arc::clone(&ctx.progress),
            cancellation: ctx.cancellation.clone(),
        }
    }

    pub(crate) fn meta(&self) -> Option<RequestMetaObject> {
        let mut meta = RequestMetaObject::new();
        for (name, value) in self.caller.iter().flat_map(Caller::headers) {
            meta.insert(name.to_owned(), value.into());
        }
        (!meta.is_empty()).then_some(meta)
    }
}

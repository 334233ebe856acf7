//! Who calls a tool of a server: a call of a swarm, or whoever looks at the server outside of one.

use std::sync::Arc;

use rmcp::model::RequestMetaObject;
use tokio_util::sync::CancellationToken;

use crate::place::Place;
use goondan_core::caller::Caller;
use goondan_core::ports::tool::{ProgressSink, ToolContext};

/// Who calls.
pub(crate) struct Asker {
    pub(crate) place: Place,
    /// As whom the server sees it.
    pub(crate) caller: Option<Caller>,
    /// Is told how far the call is.
    pub(crate) progress: Arc<dyn ProgressSink>,
    /// Fires when nobody waits any more.
    pub(crate) cancellation: CancellationToken,
}

impl Asker {
    /// A tool's call.
    pub(crate) fn of(ctx: &ToolContext) -> Self {
        Asker {
            place: Place::of(ctx),
            caller: ctx.caller.clone(),
            progress: Arc::clone(&ctx.progress),
            cancellation: ctx.cancellation.clone(),
        }
    }

    /// What goes along with its request.
    pub(crate) fn meta(&self) -> Option<RequestMetaObject> {
        let mut meta = RequestMetaObject::new();
        for (name, value) in self.caller.iter().flat_map(Caller::headers) {
            meta.insert(name.to_owned(), value.into());
        }
        (!meta.is_empty()).then_some(meta)
    }
}

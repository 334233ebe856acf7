//! The origin of a tool call: a swarm, or a direct session.

use std::sync::Arc;

use rmcp::model::RequestMetaObject;
use tokio_util::sync::CancellationToken;

use crate::call_scope::CallScope;
use goondan_core::JsonObject;
use goondan_core::caller::CallerTrace;
use goondan_core::ports::tool::{ApprovedFile, ProgressSink, ToolContext};

pub(crate) struct ElicitationContext {
    pub(crate) scope: CallScope,
    /// The caller identity that is sent to the server.
    pub(crate) caller: Option<CallerTrace>,
    pub(crate) progress: Arc<dyn ProgressSink>,
    /// Fires when the call is cancelled.
    pub(crate) cancellation: CancellationToken,
    /// Files that an approval of the call covers.
    pub(crate) approved_files: Arc<[ApprovedFile]>,
    /// Definition of the tool that an approval of the call covers.
    pub(crate) approved_code: Option<String>,
}

/// Receiver of progress that no caller reads.
struct DiscardedProgress;

impl ProgressSink for DiscardedProgress {
    fn update(&self, _title: &str, _metadata: JsonObject) {}
}

impl ElicitationContext {
    /// Returns the context of a call outside of a turn, with the access `scope`.
    pub(crate) fn without_caller(scope: CallScope) -> Self {
        ElicitationContext {
            scope,
            caller: None,
            progress: Arc::new(DiscardedProgress),
            cancellation: CancellationToken::new(),
            approved_files: Arc::default(),
            approved_code: None,
        }
    }

    /// Returns the context of a tool call.
    pub(crate) fn from_context(ctx: &ToolContext) -> Self {
        ElicitationContext {
            scope: CallScope::from_context(ctx),
            caller: ctx.caller.clone(),
            progress: Arc::clone(&ctx.progress),
            cancellation: ctx.cancellation.clone(),
            approved_files: Arc::clone(&ctx.approved_files),
            approved_code: ctx.approved_code.clone(),
        }
    }

    /// Returns the trace headers of the caller for `_meta`; `None` without a trace.
    pub(crate) fn request_meta(&self) -> Option<RequestMetaObject> {
        let mut meta = RequestMetaObject::new();
        for (name, value) in self.caller.iter().flat_map(CallerTrace::headers) {
            meta.insert(name.to_owned(), value.into());
        }
        (!meta.is_empty()).then_some(meta)
    }
}

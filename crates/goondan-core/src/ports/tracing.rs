//! What servers outside are told of the trace that a question to them is part of.

use crate::caller::Caller;
use crate::ids::TraceContext;

/// Decides what goes along with what is asked of other servers: models, MCP servers, agents of other programs.
pub trait Tracing: Send + Sync {
    /// As whom a server sees who asks in this span; `None` where it is told nothing.
    fn caller(&self, span: &TraceContext) -> Option<Caller>;

    /// Whether whoever watches is to have what is said in that span.
    fn wants_words(&self, _span: &TraceContext) -> bool {
        false
    }
}

/// Passes on what the one who handed the input in has told of its own trace, as the W3C asks of whoever records no spans.
#[derive(Debug, Clone, Copy, Default)]
pub struct PassOn;

impl Tracing for PassOn {
    fn caller(&self, span: &TraceContext) -> Option<Caller> {
        span.caller.as_deref().cloned()
    }
}

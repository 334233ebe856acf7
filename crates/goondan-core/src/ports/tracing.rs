//! Trace context in requests to external servers.

use crate::caller::CallerTrace;
use crate::ids::TraceContext;

/// Chooses the trace context for requests to other servers: models, MCP servers, agents of other
/// programs.
pub trait TracePolicy: Send + Sync {
    /// Returns the trace context for requests in this span; `None` to send none.
    fn caller_trace(&self, span: &TraceContext) -> Option<CallerTrace>;

    /// Returns true if telemetry captures the content of this span.
    fn wants_words(&self, _span: &TraceContext) -> bool {
        false
    }
}

/// Forwards the trace context of the input's sender. W3C requires this from programs that record no
/// spans.
#[derive(Debug, Clone, Copy, Default)]
pub struct ForwardCallerTrace;

impl TracePolicy for ForwardCallerTrace {
    fn caller_trace(&self, span: &TraceContext) -> Option<CallerTrace> {
        span.caller.as_deref().cloned()
    }
}

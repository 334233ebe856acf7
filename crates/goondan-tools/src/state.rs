//! What outlives a call.

use std::sync::Arc;

use crate::processes::Processes;

/// What the tools of one [`BuiltinTools`](crate::BuiltinTools) keep between calls, across reloads too.
#[derive(Default)]
pub(crate) struct State {
    /// Background processes.
    pub(crate) processes: Arc<Processes>,
}

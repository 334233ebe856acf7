//! State that outlives a call.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use goondan_core::ids::InstanceId;
use goondan_core::ports::tool::{ToolContext, ToolSource};
use goondan_spec::Environment;

use crate::confine::Helper;
use crate::custom_tools::library::Loaded;
use crate::processes::Processes;
use crate::squad::Sessions;

/// State that the tools of one [`BuiltinTools`](crate::BuiltinTools) keep between calls and across
/// reloads.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) processes: Arc<Processes>,
    /// Sessions that `squad__route` has opened.
    pub(crate) squad_sessions: Arc<Sessions>,
    /// Restricts programs, and ends leftover processes.
    pub(crate) helper: Option<Arc<Helper>>,
    pub(crate) environment: Mutex<Environment>,
    /// Directory for reproducible data.
    pub(crate) cache_dir: Option<PathBuf>,
    /// Loaded libraries of custom tools.
    pub(crate) loaded: Arc<Loaded>,
    /// Opens dynamic libraries.
    pub(crate) libraries: Option<Arc<dyn ToolSource>>,
}

/// The agent instance that owns an object.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Owner {
    agent: String,
    instance_key: String,
}

impl Owner {
    pub(crate) fn of_instance(id: &InstanceId) -> Owner {
        Owner {
            agent: id.agent.clone(),
            instance_key: id.instance_key.clone(),
        }
    }

    /// Returns the calling instance.
    pub(crate) fn of(ctx: &ToolContext) -> Owner {
        Owner {
            agent: ctx.agent_name.clone(),
            instance_key: ctx.instance_key.clone(),
        }
    }
}

/// Locks data that is never left in an inconsistent state, so a poisoned lock is ignored.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

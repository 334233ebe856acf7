//! What outlives a call.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use goondan_core::ids::InstanceId;
use goondan_core::ports::tool::{ToolContext, ToolSource};
use goondan_spec::Environment;

use crate::confine::Helper;
use crate::custom_tools::library::Loaded;
use crate::processes::Processes;
use crate::squad::Sessions;

/// What the tools of one [`BuiltinTools`](crate::BuiltinTools) keep between calls, across reloads too.
#[derive(Default)]
pub(crate) struct State {
    /// Background processes.
    pub(crate) processes: Arc<Processes>,
    /// Sessions that `squad__route` has opened.
    pub(crate) squad_sessions: Arc<Sessions>,
    /// What contains programs, and ends those that are left behind.
    pub(crate) helper: Option<Arc<Helper>>,
    /// What value sources see.
    pub(crate) environment: Mutex<Environment>,
    /// Where things may be kept that can be had again.
    pub(crate) cache_dir: Option<PathBuf>,
    /// Libraries of custom tools that were run.
    pub(crate) loaded: Arc<Loaded>,
    /// Opens dynamic libraries.
    pub(crate) libraries: Option<Arc<dyn ToolSource>>,
}

/// The agent instance that something belongs to.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Owner {
    agent: String,
    instance_key: String,
}

impl Owner {
    /// An instance.
    pub(crate) fn of_instance(id: &InstanceId) -> Owner {
        Owner {
            agent: id.agent.clone(),
            instance_key: id.instance_key.clone(),
        }
    }

    /// The instance that makes the call.
    pub(crate) fn of(ctx: &ToolContext) -> Owner {
        Owner {
            agent: ctx.agent_name.clone(),
            instance_key: ctx.instance_key.clone(),
        }
    }
}

/// Locks what is never left half done, so that a panic elsewhere does not matter.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

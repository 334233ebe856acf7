//! What all parts of a running swarm share.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use arc_swap::ArcSwap;
use goondan_spec::kinds::Workdir;
use tokio::sync::mpsc::UnboundedSender;

use crate::budget::Spent;
use crate::bus::EventBus;
use crate::ids::InstanceId;
use crate::orchestrator::Command;
use crate::plan::{AgentPlan, Generation};
use crate::policy::{ApprovalBook, SharedApprover};
use crate::ports::clock::Clock;
use crate::ports::journal::Journal;
use crate::ports::reload::Reloader;
use crate::ports::store::Store;
use crate::ports::tool::InstanceObserver;
use crate::redact::Redactor;
use crate::schedule::Timetable;

/// The ports of a running swarm, and its current generation.
pub struct Engine {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) journal: Arc<dyn Journal>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) approver: SharedApprover,
    /// Keeps secrets out of what is written down.
    pub(crate) redactor: Redactor,
    /// Approvals that hold always.
    pub(crate) approvals: Arc<dyn ApprovalBook>,
    /// Held while the approvals of a conversation change.
    pub(crate) granting: Mutex<()>,
    pub(crate) bus: EventBus,
    pub(crate) generation: ArcSwap<Generation>,
    /// Held while a list of dead letters changes.
    pub(crate) dead_letters: Mutex<()>,
    /// Held while something that a tool keeps is written.
    pub(crate) tool_states: tokio::sync::Mutex<()>,
    /// What all turns of this run have used up.
    pub(crate) spent: Spent,
    /// Prompts that come by the clock.
    pub(crate) timetable: Arc<Timetable>,
    /// Is told which instances were put away.
    pub(crate) observer: Arc<dyn InstanceObserver>,
    /// Lets tools work there, whatever the agents say.
    pub(crate) workdir: Option<PathBuf>,
    /// Reads the project again.
    pub(crate) reloader: Option<Arc<dyn Reloader>>,
    /// Set by a kill: nothing that ends from then on is recorded.
    pub(crate) dead: AtomicBool,
    /// The orchestrator. Unbounded: its senders are turns, whose number is limited, and inputs, whose queues are.
    pub(crate) commands: UnboundedSender<Command>,
}

impl Engine {
    /// What comes of `work`; never, once the swarm was killed. A dying runtime makes I/O fail, and a failure that only came
    /// from that must not be taken for an outcome.
    pub(crate) async fn outcome_of<T>(&self, work: impl Future<Output = T>) -> T {
        let value = work.await;
        if self.dead.load(Ordering::Acquire) {
            std::future::pending::<()>().await;
        }
        value
    }

    /// The agent as it is planned now.
    pub(crate) fn agent(&self, name: &str) -> Option<Arc<AgentPlan>> {
        self.generation.load().agent(name).cloned()
    }

    /// Where the tools of `instance` work: what the run says, what its spawn said, what its agent says.
    pub(crate) fn workdir(&self, agent: &AgentPlan, instance: &InstanceId, cwd: Option<&Path>) -> PathBuf {
        let root = || self.generation.load().bundle.root().to_owned();
        if let Some(workdir) = &self.workdir {
            return workdir.clone();
        }
        if let Some(cwd) = cwd {
            return cwd.to_owned();
        }
        match &agent.workdir {
            Workdir::Instance => self.store.workdir(instance),
            Workdir::Project => root(),
            Workdir::Path(path) => root().join(path),
            Workdir::Repository(folder) => folder.clone(),
        }
    }
}

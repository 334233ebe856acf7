//! Facts about a turn and a tool call, as middleware and policies receive them.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use goondan_core::JsonObject;
use goondan_core::agent_event::{AgentEvent, AnswerCall, TurnTerms};
use goondan_core::event::RuntimeEventKind;
use goondan_core::ids::{InstanceId, TraceContext};
use goondan_core::message::{Message, ToolCall};
use goondan_core::ports::journal::TurnJournal;
use goondan_core::tool_allowlist::ToolAllowlist;
use tokio_util::sync::CancellationToken;

use crate::activity::ActivityTracker;
use crate::engine::Engine;
use crate::middleware::MiddlewareStack;
use crate::plan::AgentPlan;
use crate::tooling::registry::ToolCatalog;

/// Facts shared by all calls of a turn.
#[derive(Clone)]
pub struct TurnScope {
    pub(crate) instance: InstanceId,
    pub(crate) turn_id: String,
    pub(crate) trace: TraceContext,
    /// Instances that called this one, outermost first.
    pub(crate) callers: Vec<InstanceId>,
    /// Time at which the chain of callers began.
    pub(crate) since: DateTime<Utc>,
    /// Agents outside the call chain whose policies also restrict the turn.
    pub(crate) bound_by: BTreeSet<String>,
    /// The only tools that may run in the turn.
    pub(crate) narrowing: Option<ToolAllowlist>,
    /// Call that answers the sender of the event.
    pub(crate) answer_call: Option<Arc<AnswerCall>>,
    /// The agent as it was when the turn began.
    pub(crate) agent: Arc<AgentPlan>,
    pub(crate) workdir: PathBuf,
    /// Directory that must contain the working directory after links are resolved. `None` if the
    /// user has set the working directory, and for instance directories.
    pub(crate) anchor: Option<PathBuf>,
    /// Middleware around the turn and its parts.
    pub(crate) layers: Arc<MiddlewareStack>,
    /// Activity of the instance.
    pub(crate) tracker: Arc<ActivityTracker>,
}

impl TurnScope {
    /// Returns the agents whose policies restrict the turn (rule S1b), with the instances of those
    /// in the call chain.
    pub(crate) fn narrowing_agents(&self) -> impl Iterator<Item = (&str, Option<&InstanceId>)> {
        let callers = self
            .callers
            .iter()
            .map(|caller| (caller.agent.as_str(), Some(caller)));
        callers.chain(self.bound_by.iter().map(|agent| (agent.as_str(), None)))
    }

    /// Adds the restrictions of an event that joined the turn. Later actions may follow the event's
    /// text, so they need the same limits as a turn of that event.
    pub(crate) fn join(&mut self, event: &AgentEvent) {
        let agents = event
            .callers
            .iter()
            .map(|caller| &caller.agent)
            .chain(&event.terms.bound_by);
        let strangers =
            agents.filter(|agent| self.callers.iter().all(|caller| caller.agent != **agent));
        self.bound_by.extend(strangers.cloned());
        self.narrowing =
            ToolAllowlist::intersection(self.narrowing.as_ref(), event.terms.narrowing.as_ref());
    }

    /// Returns the restrictions that do not come from the call chain.
    pub(crate) fn terms(&self) -> TurnTerms {
        TurnTerms {
            narrowing: self.narrowing.clone(),
            bound_by: self.bound_by.clone(),
            since: Some(self.since),
            answer_call: self.answer_call.clone(),
            ..TurnTerms::default()
        }
    }
}

/// A tool call, as middleware receives it.
pub struct ToolCallContext {
    /// The call; middleware may change its arguments.
    pub call: ToolCall,
    pub(crate) engine: Arc<Engine>,
    pub(crate) facts: Arc<TurnScope>,
    pub(crate) step_id: String,
    pub(crate) catalog: ToolCatalog,
    pub(crate) message: Arc<Message>,
    pub(crate) trace: TraceContext,
    pub(crate) cancel: CancellationToken,
    /// Activity of the call: pending approvals and agents that it waits for.
    pub(crate) tracker: Arc<ActivityTracker>,
    /// Metadata that the middleware of this call share.
    pub(crate) metadata: JsonObject,
    /// Journal and effect id of the approval; `None` for a call outside a turn.
    pub(crate) approval: Option<(Arc<dyn TurnJournal>, String)>,
}

impl ToolCallContext {
    /// Returns the calling instance.
    pub fn instance(&self) -> &InstanceId {
        &self.facts.instance
    }

    /// Returns the id of the turn.
    pub fn turn_id(&self) -> &str {
        &self.facts.turn_id
    }

    /// Publishes a runtime event of this call.
    pub(crate) fn publish(&self, kind: RuntimeEventKind) {
        self.engine
            .bus
            .runtime(&self.facts.instance, &self.trace, kind);
    }
}

//! `ctx.runtime`: access of a tool to other agents (rules A1 to A8). Every call is a message to the
//! orchestrator and a reply.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use goondan_spec::Code;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::activity::ActivityTracker;
use crate::delivery::orchestrator::{InstanceSpawnRequest, OrchestratorCommand, SubmitError};
use crate::delivery::responses::{answer_id, response_of, timeout_message};
use crate::engine::Engine;
use crate::policy::untrusted_content;
use crate::tooling::dispatch::{ToolCallContext, TurnScope};
use crate::turn::TurnContext;
use crate::turn::store_retry::StoreRetry;
use goondan_core::agent_event::{AgentEvent, EventTrace, ReplyTo, TurnTerms};
use goondan_core::event::{RuntimeEventKind, TurnResult};
use goondan_core::ids::{InstanceId, TraceContext, derived_id};
use goondan_core::ports::capabilities::{
    ConversationAccess, EmbeddingModels, PromptScheduler, ToolStateStore,
};
use goondan_core::ports::reload::ProjectReloader;
use goondan_core::ports::store::{InstanceMeta, InstanceStatus, StoreError};
use goondan_core::ports::tool::{
    AgentCatalog, AgentEventInput, AgentRequestResult, AgentSendResult, AgentSpawnResult,
    AgentToolRuntime, HandlerError, RequestOptions, SpawnOptions, SpawnedAgentInfo,
};
use goondan_core::real_path::real_path;
use goondan_core::reserved_names;
use goondan_core::tool_allowlist::ToolAllowlist;

/// Maximum time without a heartbeat of the called agent if the request sets no time-out (rule A2).
const DEFAULT_REQUEST_TIMEOUT: Duration = Duration::from_secs(30 * 60);

/// Access of one tool call or extension to other agents.
pub(crate) struct AgentCalls {
    pub(crate) engine: Arc<Engine>,
    pub(crate) facts: Arc<TurnScope>,
    /// Tool of the call; `None` for an extension.
    pub(super) tool_name: Option<String>,
    /// Position of the call in the turn. Event ids are derived from the position, so that a call
    /// that runs again sends the same events.
    place: String,
    trace: TraceContext,
    cancel: CancellationToken,
    /// Activity of the call.
    tracker: Arc<ActivityTracker>,
    asked: AtomicU32,
}

impl AgentCalls {
    /// Creates the access of a tool during a call.
    pub(crate) fn of_call(context: &ToolCallContext, cancel: CancellationToken) -> Self {
        AgentCalls {
            engine: Arc::clone(&context.engine),
            facts: Arc::clone(&context.facts),
            tool_name: Some(context.call.tool_name.clone()),
            place: format!("{}/{}", context.step_id, context.call.tool_call_id),
            trace: context.trace.clone(),
            cancel,
            tracker: Arc::clone(&context.tracker),
            asked: AtomicU32::new(0),
        }
    }

    /// Creates the access of an extension around a turn or a step.
    pub(crate) fn of_turn(context: &TurnContext, place: &str) -> Self {
        let place = format!("{}/{place}", context.turn_id());
        AgentCalls {
            engine: Arc::clone(&context.engine),
            facts: Arc::clone(&context.facts),
            tool_name: None,
            trace: context.facts.trace.clone(),
            place,
            cancel: context.cancel.clone(),
            tracker: ActivityTracker::new(),
            asked: AtomicU32::new(0),
        }
    }

    /// Builds the event for `input`. Every event of a tool is created here.
    fn event(
        &self,
        target: &str,
        input: AgentEventInput,
        default_type: &str,
    ) -> Result<AgentEvent, HandlerError> {
        reserved_names::check(input.event_type.as_deref(), &input.metadata)?;
        let number = self.asked.fetch_add(1, Ordering::Relaxed).to_string();
        let caller = &self.facts.instance;
        let key = input
            .instance_key
            .unwrap_or_else(|| caller.instance_key.clone());
        Ok(AgentEvent {
            id: format!(
                "evt-{}",
                derived_id(&[&caller.to_string(), &self.place, &number])
            ),
            event_type: input.event_type.unwrap_or_else(|| default_type.to_owned()),
            created_at: self.engine.clock.now(),
            target: InstanceId::new(target, key),
            input: input.input,
            files: Vec::new(),
            history: Vec::new(),
            metadata: input.metadata,
            instructions: input.instructions,
            trace: EventTrace::from(&self.trace),
            callers: self
                .facts
                .callers
                .iter()
                .cloned()
                .chain([caller.clone()])
                .collect(),
            reply_to: None,
            terms: TurnTerms {
                narrowing: self.narrow_allowlist(input.terms.narrowing.as_ref()),
                bound_by: self
                    .facts
                    .bound_by
                    .union(&input.terms.bound_by)
                    .cloned()
                    .collect(),
                since: Some(self.facts.since),
                ..input.terms
            },
        })
    }

    /// Returns the position of the call in the turn; the ids of the call's requests are derived
    /// from this position.
    pub(crate) fn call_path(&self) -> &str {
        &self.place
    }

    /// Combines `requested` with the tool restrictions of the calling turn, which cannot be widened
    /// (rule S1b).
    fn narrow_allowlist(&self, requested: Option<&ToolAllowlist>) -> Option<ToolAllowlist> {
        ToolAllowlist::intersection(self.facts.narrowing.as_ref(), requested)
    }

    /// Submits `event` and waits until the event is durable. During a store outage, it waits and
    /// submits the event again. Returns the result of the turn if the caller `waits` for it.
    async fn submit(
        &self,
        event: AgentEvent,
        waits: bool,
    ) -> Result<Option<oneshot::Receiver<TurnResult>>, HandlerError> {
        let mut retry = StoreRetry::new(&self.facts.instance, &self.cancel);
        loop {
            let refused = match self.submit_once(event.clone(), waits).await {
                Ok(result) => return Ok(result),
                Err(SubmissionFailure::Refused(refused)) => refused,
                Err(SubmissionFailure::Failed(error)) => return Err(error),
            };
            match &refused {
                SubmitError::Store(error) if retry.wait(error).await => {}
                _ => return Err(refused.into()),
            }
        }
    }

    /// Submits `event` once.
    async fn submit_once(
        &self,
        event: AgentEvent,
        waits: bool,
    ) -> Result<Option<oneshot::Receiver<TurnResult>>, SubmissionFailure> {
        let passed_on =
            untrusted_content::taint_receiver(&self.engine, &self.facts.instance, &event.target)
                .await;
        match passed_on {
            Err(error) if error.is_passing() => {
                return Err(SubmissionFailure::Refused(error.into()));
            }
            passed_on => passed_on.map_err(taint_error)?,
        }
        let (accepted, answer) = oneshot::channel();
        let (waiter, result) = waits.then(oneshot::channel).unzip();
        let command = OrchestratorCommand::Submit {
            event: Box::new(event),
            waiter,
            accepted,
        };
        self.engine
            .commands
            .send(command)
            .map_err(|_| stopped_error())?;
        let accepted = answer.await.map_err(|_| stopped_error())?;
        accepted.map_err(SubmissionFailure::Refused)?;
        Ok(result)
    }

    /// Resolves the working directory of a spawned instance. The directory must be inside the
    /// caller's own directory (rule S1b).
    fn folder_inside(&self, cwd: &str) -> Result<String, HandlerError> {
        let folder = real_path(&self.facts.workdir).unwrap_or_else(|_| self.facts.workdir.clone());
        match real_path(&folder.join(cwd)) {
            Ok(real) if real.starts_with(&folder) => Ok(real.display().to_string()),
            _ => Err(HandlerError::new(format!(
                "`{cwd}` is outside the working directory {}",
                folder.display()
            ))
            .code(Code::TOOL_PATH_ESCAPE)
            .suggest("Use a directory inside the working directory.")),
        }
    }

    /// Returns the metadata of all instances, oldest first.
    pub(crate) async fn instance_metas(&self) -> Result<Vec<InstanceMeta>, HandlerError> {
        let (answer, metas) = oneshot::channel();
        self.engine
            .commands
            .send(OrchestratorCommand::List { answer })
            .map_err(|_| stopped_error())?;
        metas.await.map_err(|_| stopped_error())
    }

    /// Withdraws an event that this caller no longer waits for.
    fn abandon(&self, event_id: String, reason: &str) {
        let command = OrchestratorCommand::Abandon {
            event_id,
            reason: reason.to_owned(),
        };
        // Without an orchestrator there is nothing to abandon.
        let _ = self.engine.commands.send(command);
    }

    /// Waits for the answer while the called agent sends heartbeats. A caller that stops waiting
    /// withdraws its event. Approvals that are pending there pause the caller's clocks.
    async fn wait(
        &self,
        event: &AgentEvent,
        answer: oneshot::Receiver<TurnResult>,
        limit: Duration,
    ) -> Result<TurnResult, HandlerError> {
        let target = &event.target.agent;
        let (target_activity, caller_activities) = (
            self.engine.activity.tracker_for(&event.target),
            [&self.tracker, &self.facts.tracker],
        );
        let _waiting = caller_activities.map(|tracker| tracker.wait_for(&target_activity));
        tokio::select! {
            result = answer => result.map_err(|_| stopped_error()),
            () = target_activity.forward_approvals(caller_activities) => unreachable!("it holds for as long as this waits"),
            () = target_activity.wait_for_silence(limit) => {
                self.abandon(event.id.clone(), "the request timed out");
                Err(HandlerError::new(timeout_message(target, limit))
                    .code(Code::AGENT_REQUEST_TIMEOUT)
                    .suggest("Request less, raise timeoutMs, or use async: true."))
            }
            () = self.cancel.cancelled() => {
                self.abandon(event.id.clone(), "the caller was cancelled");
                Err(HandlerError::new(format!("the request to agent {target} was cancelled")).code(Code::TOOL_CANCELLED))
            }
        }
    }
}

/// Returns the error for untrusted input that could not be marked as untrusted.
fn taint_error(error: StoreError) -> HandlerError {
    HandlerError::new(format!(
        "the message is untrusted, and recording that failed: {error}"
    ))
}

#[async_trait]
impl AgentToolRuntime for AgentCalls {
    async fn request(
        &self,
        target: &str,
        input: AgentEventInput,
        options: RequestOptions,
    ) -> Result<AgentRequestResult, HandlerError> {
        if input.instance_key.is_none() {
            self.check_default_key(target).await?;
        }
        let mut event = self.event(target, input, reserved_names::REQUEST_EVENT)?;
        let correlation_id = format!("req-{}", event.id.trim_start_matches("evt-"));
        event.reply_to = Some(ReplyTo {
            caller: self.facts.instance.clone(),
            turn_id: self.facts.turn_id.clone(),
            correlation_id: correlation_id.clone(),
            async_: options.async_,
            timeout_ms: options.timeout_ms.filter(|_| options.async_),
            terms: self.facts.terms(),
        });
        let mut result = AgentRequestResult {
            event_id: event.id.clone(),
            target: target.to_owned(),
            response: None,
            correlation_id,
            accepted: true,
            asynchronous: options.async_,
        };
        if options.async_ {
            self.submit(event, false).await?;
            return Ok(result);
        }
        let answer = self.submit(event.clone(), true).await?;
        let answer = answer.ok_or_else(stopped_error)?;
        let limit = options
            .timeout_ms
            .filter(|ms| *ms > 0)
            .map_or(DEFAULT_REQUEST_TIMEOUT, Duration::from_millis);
        let turn = self.wait(&event, answer, limit).await?;
        untrusted_content::taint_receiver(&self.engine, &event.target, &self.facts.instance)
            .await
            .map_err(taint_error)?;
        result.event_id = answer_id(&event.id);
        result.response = Some(response_of(target, &turn)?);
        Ok(result)
    }

    async fn send(
        &self,
        target: &str,
        input: AgentEventInput,
    ) -> Result<AgentSendResult, HandlerError> {
        if input.instance_key.is_none() {
            self.check_default_key(target).await?;
        }
        let event = self.event(target, input, reserved_names::SEND_EVENT)?;
        let event_id = event.id.clone();
        self.submit(event, false).await?;
        Ok(AgentSendResult {
            event_id,
            target: target.to_owned(),
            accepted: true,
        })
    }

    async fn spawn(
        &self,
        target: &str,
        options: SpawnOptions,
    ) -> Result<AgentSpawnResult, HandlerError> {
        let instance_key = options.instance_key.unwrap_or_else(|| {
            let number = self.asked.fetch_add(1, Ordering::Relaxed).to_string();
            let caller = self.facts.instance.to_string();
            format!(
                "{target}-{}",
                &derived_id(&[&caller, &self.place, &number, "spawn"])[..8]
            )
        });
        let cwd = options
            .cwd
            .map(|cwd| self.folder_inside(&cwd))
            .transpose()?;
        let (answer, spawned) = oneshot::channel();
        let request = InstanceSpawnRequest {
            id: InstanceId::new(target, &*instance_key),
            owner: Some(self.facts.instance.clone()),
            cwd: cwd.clone(),
            narrowing: self.narrow_allowlist(options.narrowing.as_ref()),
        };
        self.engine
            .commands
            .send(OrchestratorCommand::Spawn { request, answer })
            .map_err(|_| stopped_error())?;
        let spawned = spawned
            .await
            .map_err(|_| stopped_error())?
            .map_err(HandlerError::from)?;
        if spawned {
            let kind = RuntimeEventKind::AgentSpawned {
                turn_id: self.facts.turn_id.clone(),
                target: target.to_owned(),
                target_instance_key: instance_key.clone(),
                cwd: cwd.clone(),
            };
            self.engine
                .bus
                .runtime(&self.facts.instance, &self.trace, kind);
        }
        // An existing instance keeps its working directory.
        let cwd = cwd.filter(|_| spawned);
        Ok(AgentSpawnResult {
            target: target.to_owned(),
            instance_key,
            spawned,
            cwd,
        })
    }

    async fn list_instances(
        &self,
        include_all: bool,
    ) -> Result<Vec<SpawnedAgentInfo>, HandlerError> {
        let metas = self.instance_metas().await?;
        let own_id = Some(&self.facts.instance);
        let listed_metas = metas
            .into_iter()
            .filter(|meta| include_all || (meta.owner.as_ref() == own_id && !is_retired(meta)));
        Ok(listed_metas
            .map(crate::delivery::orchestrator::describe_instance)
            .collect())
    }

    async fn within_reach(&self, ids: Vec<InstanceId>) -> Result<Vec<InstanceId>, HandlerError> {
        AgentCalls::within_reach(self, ids).await
    }

    async fn catalog(&self) -> Result<AgentCatalog, HandlerError> {
        Ok(self
            .engine
            .generation
            .load()
            .seen_from(&self.facts.instance.agent))
    }

    fn reloader(&self) -> Option<&dyn ProjectReloader> {
        self.engine.reloader.as_deref()
    }

    fn sessions(&self) -> Option<&dyn ConversationAccess> {
        Some(self)
    }

    fn state(&self) -> Option<&dyn ToolStateStore> {
        Some(self)
    }

    fn prompt_scheduler(&self) -> Option<&dyn PromptScheduler> {
        Some(self)
    }

    fn embeddings(&self) -> Option<&dyn EmbeddingModels> {
        Some(self)
    }
}

/// Failure to submit an event once.
enum SubmissionFailure {
    /// The event was not accepted. After a store outage, it can be submitted again.
    Refused(SubmitError),
    Failed(HandlerError),
}

impl From<HandlerError> for SubmissionFailure {
    fn from(error: HandlerError) -> Self {
        SubmissionFailure::Failed(error)
    }
}

/// Returns true for a retired instance.
fn is_retired(meta: &InstanceMeta) -> bool {
    meta.status == InstanceStatus::Retired
}

impl From<SubmitError> for HandlerError {
    fn from(refusal: SubmitError) -> Self {
        let error = HandlerError::new(refusal.to_string()).code(refusal.code());
        match refusal.suggestion() {
            Some(suggestion) => error.suggest(suggestion),
            None => error,
        }
    }
}

/// Returns the error for a request after the orchestrator has stopped.
pub(crate) fn stopped_error() -> HandlerError {
    HandlerError::new("the swarm is stopping").code(Code::SWARM_STOPPING)
}

//! A running swarm, as the facade owns it.

pub mod conversations;
mod node;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;

use crate::activity::ActivityTracker;
use crate::cluster::{WorkerPool, leader_service};
use crate::delivery::bus::EventObserver;
use crate::delivery::failed_events;
use crate::delivery::orchestrator::{
    AcceptanceKind, EventState, InstanceTable, Orchestrator, OrchestratorCommand, SubmitError,
};
use crate::delivery::schedule::{self, JobTable};
use crate::engine::Engine;
use crate::plan::Generation;
use crate::tooling::dispatch::{self, ToolCallContext, TurnScope};
use goondan_core::JsonObject;
use goondan_core::agent_event::{AgentEvent, AnswerCall, EventTrace, InputDelivery, TurnTerms};
use goondan_core::caller::CallerTrace;
use goondan_core::conversation::Conversation;
use goondan_core::event::{RuntimeEvent, RuntimeEventKind, SwarmEvent, TurnResult};
use goondan_core::ids::{InstanceId, TraceContext};
use goondan_core::message::{
    Message, MessageData, MessagePart, MessageRole, MessageSource, ToolCall,
};
use goondan_core::model_calls::ModelCallLog;
use goondan_core::ports::approval::{ApprovalStore, SharedApprover};
use goondan_core::ports::capabilities::ScheduledJob;
use goondan_core::ports::cluster::ClusterMembership;
use goondan_core::ports::reload::ProjectReloader;
use goondan_core::ports::store::{InstanceMeta, StoreError};
use goondan_core::ports::tool::{Attachment, ToolCallResult};
use goondan_core::reserved_names;

use node::NodeRole;
pub use node::{EngineNodeParts, WorkerControl, work};

/// Parts of a runtime: the parts of every node and the parts of only the leader.
pub struct RuntimeParts {
    /// Parts that every node has.
    pub node: EngineNodeParts,
    /// Answers approval requests of the policy.
    pub approver: SharedApprover,
    /// Remembered approvals.
    pub approvals: Arc<dyn ApprovalStore>,
    /// Reloads the project when a tool requests it.
    pub reloader: Option<Arc<dyn ProjectReloader>>,
    /// Receive every event, including events of turns that resume at the start.
    pub watchers: Vec<UnboundedSender<SwarmEvent>>,
    /// Worker nodes, if the leader accepts them.
    pub crew: Option<Arc<dyn ClusterMembership>>,
}

/// A running swarm.
pub struct SwarmRuntime {
    engine: Arc<Engine>,
    task: AbortHandle,
    /// Fires scheduled jobs.
    timer: AbortHandle,
    /// Receives the messages of worker nodes.
    leader_task: Option<AbortHandle>,
}

/// An accepted event.
pub struct AcceptedEvent {
    /// Event id.
    pub event_id: String,
    /// Trace that the event starts or continues.
    pub trace_id: String,
    /// Kind of acceptance: as a new event, or as a repetition of an earlier one.
    pub acceptance: AcceptanceKind,
    /// Receives the result when the turn is over.
    pub result: oneshot::Receiver<TurnResult>,
}

/// A submitted event that may not be durable yet.
pub struct SubmittedEvent {
    /// Event id.
    pub event_id: String,
    /// Trace that the event starts or continues.
    pub trace_id: String,
    accepted: oneshot::Receiver<Result<AcceptanceKind, SubmitError>>,
    result: oneshot::Receiver<TurnResult>,
}

impl SubmittedEvent {
    /// Waits until the event is durable.
    pub async fn accepted(self) -> Result<AcceptedEvent, SubmitError> {
        let acceptance = self.accepted.await.map_err(|_| SubmitError::Ended)??;
        Ok(AcceptedEvent {
            acceptance,
            event_id: self.event_id,
            trace_id: self.trace_id,
            result: self.result,
        })
    }
}

/// An input from outside the swarm.
#[derive(Debug, Clone)]
pub struct ExternalInput {
    /// Instance that handles the input.
    pub target: InstanceId,
    /// Text of the user message.
    pub text: String,
    /// Attachments that follow the text, such as images.
    pub files: Vec<Attachment>,
    /// Earlier messages from elsewhere. They become the beginning of an empty conversation;
    /// otherwise they are ignored.
    pub history: Vec<MessageData>,
    /// Text added to the system prompt for this turn.
    pub instructions: Option<String>,
    /// Metadata of the user message. Reserved keys are refused.
    pub metadata: JsonObject,
    /// Idempotency key: the same id starts only one turn. Default: a generated id.
    pub id: Option<String>,
    /// Caller's trace, which the new trace joins.
    pub caller: Option<CallerTrace>,
    /// JSON schema for the answer; used if the agent has no output schema.
    pub output: Option<Arc<Value>>,
    /// Call that answers the sender of the input.
    pub answer_call: Option<AnswerCall>,
    /// Handling of the input while a turn of its conversation runs.
    pub delivery: InputDelivery,
}

impl ExternalInput {
    /// Creates an input that contains only text.
    pub fn text(target: InstanceId, text: impl Into<String>) -> Self {
        ExternalInput {
            target,
            text: text.into(),
            files: Vec::new(),
            history: Vec::new(),
            instructions: None,
            metadata: JsonObject::new(),
            id: None,
            caller: None,
            output: None,
            answer_call: None,
            delivery: InputDelivery::default(),
        }
    }
}

impl SwarmRuntime {
    /// Recovers the state from the store and starts the swarm. The subscription includes the events
    /// of turns that resume at once.
    pub async fn start(
        parts: RuntimeParts,
    ) -> Result<(Self, UnboundedReceiver<SwarmEvent>), StoreError> {
        let node = parts.node;
        let recovered = node.store.recover().await?;
        for warning in &recovered.warnings {
            tracing::warn!("{warning}");
        }
        let instances = InstanceTable::restore(&*node.store, &recovered).await?;
        let timetable = Arc::new(JobTable::restore(&*node.store).await?);
        let (commands, queue) = unbounded_channel();
        let worker_pool = parts.crew.map(WorkerPool::new);
        let engine = node.build_engine(NodeRole {
            approver: parts.approver,
            approvals: parts.approvals,
            reloader: parts.reloader,
            timetable: Arc::clone(&timetable),
            leader_client: None,
            worker_pool: worker_pool.clone(),
            commands,
        });
        let events = engine.bus.subscribe();
        for watcher in parts.watchers.into_iter() {
            engine.bus.pass_to(watcher);
        }
        let orchestrator = Orchestrator::new(Arc::clone(&engine), recovered, instances);
        let task = tokio::spawn(orchestrator.run(queue)).abort_handle();
        let timer = schedule::run(
            Arc::downgrade(&engine),
            timetable,
            Arc::clone(&engine.clock),
        );
        let timer = tokio::spawn(timer).abort_handle();
        let leader_task = worker_pool.map(|worker_pool| {
            tokio::spawn(leader_service::listen(Arc::downgrade(&engine), worker_pool))
                .abort_handle()
        });
        Ok((
            SwarmRuntime {
                engine,
                task,
                timer,
                leader_task,
            },
            events,
        ))
    }

    /// Returns the generation that is in use.
    pub fn generation(&self) -> Arc<Generation> {
        self.engine.generation.load_full()
    }

    /// Replaces the generation. Running steps keep theirs (rule R3); agents that are no longer
    /// defined drain (R4).
    pub fn swap(&self, generation: Generation) {
        if let Some(worker_pool) = &self.engine.worker_pool {
            // Workers still have the previous project until they report the new one.
            worker_pool.mark_all_unfit();
        }
        self.engine.generation.store(Arc::new(generation));
        // Without an orchestrator no instance is left to evict.
        let _ = self.engine.commands.send(OrchestratorCommand::Swapped);
    }

    /// Publishes an event about the whole swarm, under its entry agent and the key `*`. The event
    /// is not part of a conversation's file.
    pub fn announce(&self, kind: RuntimeEventKind) {
        let clock = &self.engine.clock;
        let event = RuntimeEvent {
            kind,
            sequence: self.engine.bus.next_sequence(),
            timestamp: clock.now(),
            agent_name: self.generation().entry_agent.clone(),
            instance_key: "*".to_owned(),
            trace: TraceContext::root(&clock.random_hex(32), None, "reload"),
        };
        self.engine
            .bus
            .publish(SwarmEvent::Runtime(Arc::new(event)));
    }

    /// Subscribes to all events from now on.
    pub fn subscribe(&self) -> UnboundedReceiver<SwarmEvent> {
        self.engine.bus.subscribe()
    }

    /// Calls `observer` for every event from now on.
    pub fn observe(&self, observer: EventObserver) {
        self.engine.bus.observe(observer);
    }

    /// Submits an input and waits until it is durable.
    pub async fn send(&self, input: ExternalInput) -> Result<AcceptedEvent, SubmitError> {
        self.submit_input(input)?.accepted().await
    }

    /// Submits an input; inputs keep the order of the calls.
    pub fn submit_input(&self, input: ExternalInput) -> Result<SubmittedEvent, SubmitError> {
        reserved_names::check(None, &input.metadata).map_err(SubmitError::Reserved)?;
        let clock = &self.engine.clock;
        let event = AgentEvent {
            id: input
                .id
                .unwrap_or_else(|| format!("evt-{}", clock.random_hex(16))),
            event_type: reserved_names::INPUT_EVENT.to_owned(),
            created_at: clock.now(),
            target: input.target,
            input: input.text,
            files: input.files,
            history: input.history,
            metadata: input.metadata,
            instructions: input.instructions,
            trace: EventTrace {
                trace_id: clock.random_hex(32),
                parent_span_id: None,
                caller: input.caller.map(Arc::new),
            },
            callers: Vec::new(),
            reply_to: None,
            terms: TurnTerms {
                output: input.output,
                answer_call: input.answer_call.map(Arc::new),
                delivery: input.delivery,
                ..TurnTerms::default()
            },
        };
        self.submit(event)
    }

    /// Retries a failed event under a new id and removes it from the dead letters.
    pub async fn retry(
        &self,
        instance: &InstanceId,
        event_id: &str,
    ) -> Result<AcceptedEvent, SubmitError> {
        let failed_event = failed_events::find(&self.engine, instance, event_id).await;
        let mut event = failed_event?.ok_or_else(|| SubmitError::NoSuchEvent {
            instance: instance.clone(),
            event: event_id.to_owned(),
        })?;
        event.id = format!("{}-retry-{}", event.id, self.engine.clock.random_hex(4));
        let accepted = self.submit(event)?.accepted().await?;
        failed_events::remove(&self.engine, instance, event_id).await?;
        Ok(accepted)
    }

    /// Sends an event to the orchestrator. The returned receivers yield the acceptance and the
    /// result.
    fn submit(&self, event: AgentEvent) -> Result<SubmittedEvent, SubmitError> {
        let (event_id, trace_id) = (event.id.clone(), event.trace.trace_id.clone());
        let (waiter, result) = oneshot::channel();
        let (answer, accepted) = oneshot::channel();
        let command = OrchestratorCommand::Submit {
            event: Box::new(event),
            waiter: Some(waiter),
            accepted: answer,
        };
        self.engine
            .commands
            .send(command)
            .map_err(|_| SubmitError::Ended)?;
        Ok(SubmittedEvent {
            event_id,
            trace_id,
            accepted,
            result,
        })
    }

    /// Runs one tool call of `instance`'s agent through dispatch, without a model. Returns `None`
    /// if the agent does not exist.
    pub async fn call_tool(
        &self,
        instance: InstanceId,
        tool: &str,
        arguments: Value,
    ) -> Option<ToolCallResult> {
        let agent = self.engine.agent(&instance.agent)?;
        let clock = &self.engine.clock;
        let turn_id = format!("call-{}", clock.random_hex(16));
        let call = ToolCall::new(turn_id.clone(), tool.to_owned(), arguments);
        let trace = TraceContext::root(&clock.random_hex(32), None, &turn_id);
        let catalog = agent.catalog.clone();
        let facts = TurnScope {
            workdir: self.engine.workdir(&agent, &instance, None),
            anchor: self.engine.workdir_anchor(&agent, None),
            trace: trace.clone(),
            callers: Vec::new(),
            since: clock.now(),
            bound_by: Default::default(),
            narrowing: None,
            answer_call: None,
            turn_id: turn_id.clone(),
            tracker: self.engine.activity.tracker_for(&instance),
            instance,
            layers: Arc::clone(agent.extensions.built_in()),
            agent,
        };
        let message = Message {
            id: format!("{turn_id}-m0"),
            data: MessageData {
                role: MessageRole::Assistant,
                content: vec![MessagePart::ToolCall(call.clone())],
            },
            metadata: JsonObject::new(),
            created_at: clock.now(),
            source: MessageSource::Assistant {
                step_id: turn_id.clone(),
            },
        };
        let context = ToolCallContext {
            call,
            engine: Arc::clone(&self.engine),
            facts: Arc::new(facts),
            step_id: turn_id,
            catalog,
            message: Arc::new(message),
            trace,
            cancel: CancellationToken::new(),
            tracker: ActivityTracker::new(),
            metadata: JsonObject::new(),
            approval: None,
        };
        Some(dispatch::call(context).await)
    }

    /// Cancels the running turn of `instance`. Returns false if no turn is running.
    pub async fn cancel(&self, instance: &InstanceId) -> bool {
        let (answer, cancelled) = oneshot::channel();
        let command = OrchestratorCommand::Cancel {
            instance: instance.clone(),
            answer,
        };
        self.engine.commands.send(command).is_ok() && cancelled.await.unwrap_or(false)
    }

    /// Cancels a queued event or its running turn. Returns false if neither exists.
    pub async fn cancel_event(&self, event_id: &str) -> bool {
        let (answer, cancelled) = oneshot::channel();
        let command = OrchestratorCommand::CancelEvent {
            event_id: event_id.to_owned(),
            answer,
        };
        self.engine.commands.send(command).is_ok() && cancelled.await.unwrap_or(false)
    }

    /// Returns the state of an event. `None`: the event was never accepted, or its result has
    /// expired.
    pub async fn find(&self, event_id: &str) -> Option<EventState> {
        let (answer, state) = oneshot::channel();
        self.engine
            .commands
            .send(OrchestratorCommand::Find {
                event_id: event_id.to_owned(),
                answer,
            })
            .ok()?;
        state.await.ok()?
    }

    /// Returns the events of an instance with a sequence greater than `after`, oldest first.
    pub async fn events(
        &self,
        instance: &InstanceId,
        after: u64,
    ) -> Result<Vec<RuntimeEvent>, StoreError> {
        self.engine.store.events(instance, after).await
    }

    /// Returns the log of model calls. It records nothing until it is switched on.
    pub fn model_calls(&self) -> &ModelCallLog {
        &self.engine.model_calls
    }

    /// Returns a sequence number that is greater than those of earlier processes and less than
    /// those of this process.
    pub fn sequence_at_start(&self) -> u64 {
        self.engine.bus.sequence_at_start()
    }

    /// Waits until no turn runs and no event is queued in the given trace, or until the swarm ends.
    /// Does not wait for a turn whose result could not be stored.
    pub async fn settled(&self, trace_id: &str) {
        let (answer, settled) = oneshot::channel();
        let _ = self.engine.commands.send(OrchestratorCommand::Settled {
            trace_id: trace_id.to_owned(),
            answer,
        });
        let _ = settled.await;
    }

    /// Returns the metadata of all instances, oldest first.
    pub async fn instances(&self) -> Vec<InstanceMeta> {
        let (answer, metas) = oneshot::channel();
        match self
            .engine
            .commands
            .send(OrchestratorCommand::List { answer })
        {
            Ok(()) => metas.await.unwrap_or_default(),
            Err(_) => Vec::new(),
        }
    }

    /// Returns the scheduled jobs of all instances.
    pub fn scheduled_jobs(&self) -> Vec<(InstanceId, ScheduledJob)> {
        self.engine.timetable.all_jobs()
    }

    /// Returns true if the instance exists.
    pub async fn has_instance(&self, instance: &InstanceId) -> bool {
        let (answer, exists) = oneshot::channel();
        let command = OrchestratorCommand::Has {
            instance: instance.clone(),
            answer,
        };
        self.engine.commands.send(command).is_ok() && exists.await.unwrap_or(false)
    }

    /// Returns the stored conversation of `instance`.
    pub async fn conversation(
        &self,
        instance: &InstanceId,
    ) -> Result<Vec<Arc<Message>>, StoreError> {
        let stored = self.engine.store.read(instance).await?;
        for warning in &stored.warnings {
            tracing::warn!(%instance, "{warning}");
        }
        Ok(Conversation::restore(stored).0.messages().to_vec())
    }

    /// Returns the stored latest `count` messages of `instance`, and the number of messages before
    /// them.
    pub async fn latest_messages(
        &self,
        instance: &InstanceId,
        count: usize,
    ) -> Result<(usize, Vec<Arc<Message>>), StoreError> {
        let latest = self.engine.store.read_latest(instance, count).await?;
        for warning in &latest.stored.warnings {
            tracing::warn!(%instance, "{warning}");
        }
        let mut messages = Conversation::restore(latest.stored).0.messages().to_vec();
        let excess = messages.len().saturating_sub(count);
        messages.drain(..excess);
        Ok((latest.omitted + excess, messages))
    }

    /// Returns at least the first `count` stored messages of `instance`, and the number of messages
    /// after them. Some stores read more messages, or all.
    pub async fn first_messages(
        &self,
        instance: &InstanceId,
        count: usize,
    ) -> Result<(Vec<Arc<Message>>, usize), StoreError> {
        let first = self.engine.store.read_first(instance, count).await?;
        for warning in &first.stored.warnings {
            tracing::warn!(%instance, "{warning}");
        }
        let messages = Conversation::restore(first.stored).0.messages().to_vec();
        Ok((messages, first.omitted))
    }

    /// Returns the default working directory of an instance.
    pub fn workdir(&self, instance: &InstanceId) -> PathBuf {
        self.engine.store.workdir(instance)
    }

    /// Aborts all turns as if the process had crashed; they resume at the next start. Has no effect
    /// after a shutdown.
    pub fn kill(&self) {
        self.engine.dead.store(true, Ordering::Release);
        self.task.abort();
        self.timer.abort();
        if let Some(task) = self.leader_task.as_ref() {
            task.abort();
        }
    }

    /// Keeps approval requests open from now on, although clients disconnect during the shutdown.
    pub fn begin_shutdown(&self) {
        self.engine.stopping.store(true, Ordering::Release);
    }

    /// Stops accepting inputs and waits up to `grace` for running turns. Turns that wait for an
    /// approval, and turns that still run after that time, resume at the next start. Returns false
    /// if there are such turns.
    pub async fn shutdown(&self, grace: Duration) -> bool {
        self.begin_shutdown();
        // If the orchestrator is gone, the swarm has already shut down.
        let _ = self
            .engine
            .commands
            .send(OrchestratorCommand::Shutdown { grace });
        self.engine.commands.closed().await;
        self.timer.abort();
        if let Some(task) = self.leader_task.as_ref() {
            task.abort();
        }
        !self.engine.dead.load(Ordering::Acquire)
    }

    /// Withdraws an event that has not started: its sender no longer waits for the answer.
    pub fn abandon(&self, event_id: &str, reason: &str) {
        // Without an orchestrator no event starts.
        let (event_id, reason) = (event_id.to_owned(), reason.to_owned());
        let _ = self
            .engine
            .commands
            .send(OrchestratorCommand::Abandon { event_id, reason });
    }
}

impl Drop for SwarmRuntime {
    fn drop(&mut self) {
        self.kill();
    }
}

//! A running swarm, as the facade holds it.

mod conversations;
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

use crate::cluster::{Roster, desk};
use crate::delivery::bus::Observer;
use crate::delivery::dead_letters;
use crate::delivery::orchestrator::{Command, Found, Instances, Orchestrator, Refusal};
use crate::delivery::schedule::{self, Timetable};
use crate::engine::Engine;
use crate::life::Life;
use crate::plan::Generation;
use crate::tooling::dispatch::{self, ToolCallContext, TurnFacts};
use goondan_core::JsonObject;
use goondan_core::caller::Caller;
use goondan_core::conversation::Conversation;
use goondan_core::event::{RuntimeEvent, RuntimeEventKind, SwarmEvent, TurnResult};
use goondan_core::ids::{InstanceId, TraceContext};
use goondan_core::inbound::{AgentEvent, EventTrace, Terms};
use goondan_core::message::{Message, MessageData, MessageSource, Part, Role, ToolCall};
use goondan_core::ports::approval::{ApprovalBook, SharedApprover};
use goondan_core::ports::cluster::Crew;
use goondan_core::ports::reload::Reloader;
use goondan_core::ports::store::{InstanceMeta, StoreError};
use goondan_core::ports::tool::{Attachment, ToolCallResult};
use goondan_core::reserved;

use node::Duties;
pub use node::{NodeParts, Orders, work};

/// What a runtime is made of: the node, and what only the one has that leads.
pub struct RuntimeParts {
    /// The node.
    pub node: NodeParts,
    /// Answers what a policy asks.
    pub approver: SharedApprover,
    /// Approvals that hold always.
    pub approvals: Arc<dyn ApprovalBook>,
    /// Reads the project again when a tool asks for it.
    pub reloader: Option<Arc<dyn Reloader>>,
    /// Get every event, also of what resumes at once.
    pub watchers: Vec<UnboundedSender<SwarmEvent>>,
    /// Nodes that work for this one, where there may be some.
    pub crew: Option<Arc<dyn Crew>>,
}

/// A running swarm.
pub struct Runtime {
    engine: Arc<Engine>,
    /// The orchestrator.
    task: AbortHandle,
    /// What fires jobs.
    timer: AbortHandle,
    /// What hears the nodes that work for this one.
    desk: Option<AbortHandle>,
}

/// An accepted event.
pub struct Accepted {
    /// Its id.
    pub event_id: String,
    /// The chain that begins with it, or goes on.
    pub trace_id: String,
    /// Its result, once its turn is over.
    pub result: oneshot::Receiver<TurnResult>,
}

/// An event that was handed in.
pub struct Submitted {
    /// Its id.
    pub event_id: String,
    /// The chain that begins with it, or goes on.
    pub trace_id: String,
    accepted: oneshot::Receiver<Result<(), Refusal>>,
    result: oneshot::Receiver<TurnResult>,
}

impl Submitted {
    /// Waits until it is accepted: it is on disk.
    pub async fn accepted(self) -> Result<Accepted, Refusal> {
        self.accepted.await.map_err(|_| Refusal::Ended)??;
        Ok(Accepted {
            event_id: self.event_id,
            trace_id: self.trace_id,
            result: self.result,
        })
    }
}

/// An input from outside.
#[derive(Debug, Clone)]
pub struct ExternalInput {
    /// Who handles it.
    pub target: InstanceId,
    /// The text.
    pub text: String,
    /// What goes behind the text: images and the like.
    pub files: Vec<Attachment>,
    /// What was said before, elsewhere: it opens the conversation where that is still empty.
    pub history: Vec<MessageData>,
    /// Put behind the system prompt of its turn.
    pub instructions: Option<String>,
    /// Becomes the metadata of the user message. Keys that the engine reads are refused.
    pub metadata: JsonObject,
    /// The same id twice starts one turn; one is made up by default.
    pub id: Option<String>,
    /// Whose trace the chain is part of.
    pub caller: Option<Caller>,
    /// The schema that the answer has to fit, where the agent states none.
    pub output: Option<Arc<Value>>,
}

impl ExternalInput {
    /// An input of text alone.
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
        }
    }
}

impl Runtime {
    /// Takes up what was left in the store, and runs. The subscription misses nothing, not even what resumes at once.
    pub async fn start(
        parts: RuntimeParts,
    ) -> Result<(Self, UnboundedReceiver<SwarmEvent>), StoreError> {
        let node = parts.node;
        let recovered = node.store.recover().await?;
        for warning in &recovered.warnings {
            tracing::warn!("{warning}");
        }
        let instances = Instances::restore(&*node.store, &recovered).await?;
        let timetable = Arc::new(Timetable::restore(&*node.store).await?);
        let (commands, queue) = unbounded_channel();
        let roster = parts.crew.map(Roster::new);
        let engine = node.engine(Duties {
            approver: parts.approver,
            approvals: parts.approvals,
            reloader: parts.reloader,
            timetable: Arc::clone(&timetable),
            uplink: None,
            roster: roster.clone(),
            commands,
        });
        let events = engine.bus.subscribe();
        parts
            .watchers
            .into_iter()
            .for_each(|watcher| engine.bus.pass_to(watcher));
        let orchestrator = Orchestrator::new(Arc::clone(&engine), recovered, instances);
        let task = tokio::spawn(orchestrator.run(queue)).abort_handle();
        let timer = schedule::run(
            Arc::downgrade(&engine),
            timetable,
            Arc::clone(&engine.clock),
        );
        let timer = tokio::spawn(timer).abort_handle();
        let desk = roster.map(|roster| {
            tokio::spawn(desk::listen(Arc::downgrade(&engine), roster)).abort_handle()
        });
        Ok((
            Runtime {
                engine,
                task,
                timer,
                desk,
            },
            events,
        ))
    }

    /// The generation that serves now.
    pub fn generation(&self) -> Arc<Generation> {
        self.engine.generation.load_full()
    }

    /// Puts another generation in place. Running steps keep theirs (rule R3); agents that it does not have drain (R4).
    pub fn swap(&self, generation: Generation) {
        if let Some(roster) = &self.engine.roster {
            // Who works for this node has the project of before, until the crew says otherwise.
            roster.doubt_all();
        }
        self.engine.generation.store(Arc::new(generation));
        // Without an orchestrator there is nobody to put away.
        let _ = self.engine.commands.send(Command::Swapped);
    }

    /// Something happened to the swarm as a whole: it is published under its entry agent and the key `*`, and belongs to no
    /// conversation's file.
    pub fn announce(&self, kind: RuntimeEventKind) {
        let clock = &self.engine.clock;
        let event = RuntimeEvent {
            kind,
            sequence: self.engine.bus.next_sequence(),
            timestamp: clock.now(),
            agent_name: self.generation().entry_agent.clone(),
            instance_key: "*".to_owned(),
            trace: TraceContext::root(&clock.hex(32), None, "reload"),
        };
        self.engine
            .bus
            .publish(SwarmEvent::Runtime(Arc::new(event)));
    }

    /// Everything that happens from now on.
    pub fn subscribe(&self) -> UnboundedReceiver<SwarmEvent> {
        self.engine.bus.subscribe()
    }

    /// Tells `observer` of everything that happens from now on.
    pub fn observe(&self, observer: Observer) {
        self.engine.bus.observe(observer);
    }

    /// Hands in an input; returns once it is on disk.
    pub async fn send(&self, input: ExternalInput) -> Result<Accepted, Refusal> {
        self.submit_input(input)?.accepted().await
    }

    /// Hands in an input, in the order of the calls.
    pub fn submit_input(&self, input: ExternalInput) -> Result<Submitted, Refusal> {
        reserved::check(None, &input.metadata).map_err(Refusal::Reserved)?;
        let clock = &self.engine.clock;
        let event = AgentEvent {
            id: input.id.unwrap_or_else(|| format!("evt-{}", clock.hex(16))),
            event_type: reserved::INPUT.to_owned(),
            created_at: clock.now(),
            target: input.target,
            input: input.text,
            files: input.files,
            history: input.history,
            metadata: input.metadata,
            instructions: input.instructions,
            trace: EventTrace {
                trace_id: clock.hex(32),
                parent_span_id: None,
                caller: input.caller.map(Arc::new),
            },
            callers: Vec::new(),
            reply_to: None,
            terms: Terms {
                output: input.output,
                ..Terms::default()
            },
        };
        self.submit(event)
    }

    /// Starts an event again whose turn failed, under an id of its own, and takes it off the list of dead letters.
    pub async fn retry(&self, instance: &InstanceId, event_id: &str) -> Result<Accepted, Refusal> {
        let found = dead_letters::find(&self.engine, instance, event_id).await;
        let mut event = found?.ok_or_else(|| Refusal::NoSuchEvent {
            instance: instance.clone(),
            event: event_id.to_owned(),
        })?;
        event.id = format!("{}-retry-{}", event.id, self.engine.clock.hex(4));
        let accepted = self.submit(event)?.accepted().await?;
        dead_letters::remove(&self.engine, instance, event_id).await?;
        Ok(accepted)
    }

    fn submit(&self, event: AgentEvent) -> Result<Submitted, Refusal> {
        let (event_id, trace_id) = (event.id.clone(), event.trace.trace_id.clone());
        let (waiter, result) = oneshot::channel();
        let (answer, accepted) = oneshot::channel();
        let command = Command::Submit {
            event: Box::new(event),
            waiter: Some(waiter),
            accepted: answer,
        };
        self.engine
            .commands
            .send(command)
            .map_err(|_| Refusal::Ended)?;
        Ok(Submitted {
            event_id,
            trace_id,
            accepted,
            result,
        })
    }

    /// Calls one tool of `instance`'s agent through dispatch, without a model. `None` where there is no such agent.
    pub async fn call_tool(
        &self,
        instance: InstanceId,
        tool: &str,
        arguments: Value,
    ) -> Option<ToolCallResult> {
        let agent = self.engine.agent(&instance.agent)?;
        let clock = &self.engine.clock;
        let turn_id = format!("call-{}", clock.hex(16));
        let call = ToolCall::new(turn_id.clone(), tool.to_owned(), arguments);
        let trace = TraceContext::root(&clock.hex(32), None, &turn_id);
        let catalog = agent.catalog.clone();
        let facts = TurnFacts {
            workdir: self.engine.workdir(&agent, &instance, None),
            anchor: self.engine.anchor(&agent, None),
            trace: trace.clone(),
            callers: Vec::new(),
            bound_by: Default::default(),
            narrowing: None,
            turn_id: turn_id.clone(),
            life: self.engine.lives.of(&instance),
            instance,
            layers: Arc::clone(agent.extensions.built_in()),
            agent,
        };
        let message = Message {
            id: format!("{turn_id}-m0"),
            data: MessageData {
                role: Role::Assistant,
                content: vec![Part::ToolCall(call.clone())],
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
            life: Life::new(),
            metadata: JsonObject::new(),
            approval: None,
        };
        Some(dispatch::call(context).await)
    }

    /// Cancels the running turn of `instance`; false where none runs.
    pub async fn cancel(&self, instance: &InstanceId) -> bool {
        let (answer, cancelled) = oneshot::channel();
        let command = Command::Cancel {
            instance: instance.clone(),
            answer,
        };
        self.engine.commands.send(command).is_ok() && cancelled.await.unwrap_or(false)
    }

    /// Cancels an event: its turn where it runs, the event itself where it waits. False where nothing is left to cancel.
    pub async fn cancel_event(&self, event_id: &str) -> bool {
        let (answer, cancelled) = oneshot::channel();
        let command = Command::CancelEvent {
            event_id: event_id.to_owned(),
            answer,
        };
        self.engine.commands.send(command).is_ok() && cancelled.await.unwrap_or(false)
    }

    /// What has become of an event; `None` for one that was never accepted, or ended too long ago.
    pub async fn find(&self, event_id: &str) -> Option<Found> {
        let (answer, found) = oneshot::channel();
        self.engine
            .commands
            .send(Command::Find {
                event_id: event_id.to_owned(),
                answer,
            })
            .ok()?;
        found.await.ok()?
    }

    /// The events of an instance whose sequence is greater than `after`, oldest first.
    pub async fn events(
        &self,
        instance: &InstanceId,
        after: u64,
    ) -> Result<Vec<RuntimeEvent>, StoreError> {
        self.engine.store.events(instance, after).await
    }

    /// A number that lies between the events of earlier processes and those of this one.
    pub fn sequence_at_start(&self) -> u64 {
        self.engine.bus.sequence_at_start()
    }

    /// Waits until nothing is left to do in the chain of that trace: no turn runs in it and no event waits. A turn that could
    /// not be put on disk stands still and is not waited for. Where the swarm ends first, so does this.
    pub async fn settled(&self, trace_id: &str) {
        let (answer, told) = oneshot::channel();
        let _ = self.engine.commands.send(Command::Settled {
            trace_id: trace_id.to_owned(),
            answer,
        });
        let _ = told.await;
    }

    /// What is known of all instances, oldest first.
    pub async fn instances(&self) -> Vec<InstanceMeta> {
        let (answer, metas) = oneshot::channel();
        match self.engine.commands.send(Command::List { answer }) {
            Ok(()) => metas.await.unwrap_or_default(),
            Err(_) => Vec::new(),
        }
    }

    /// Whether there is that instance.
    pub async fn has_instance(&self, instance: &InstanceId) -> bool {
        let (answer, known) = oneshot::channel();
        let command = Command::Has {
            instance: instance.clone(),
            answer,
        };
        self.engine.commands.send(command).is_ok() && known.await.unwrap_or(false)
    }

    /// The conversation of `instance` as it lies in the store.
    pub async fn conversation(
        &self,
        instance: &InstanceId,
    ) -> Result<Vec<Arc<Message>>, StoreError> {
        let stored = self.engine.store.read(instance).await?;
        Ok(Conversation::restore(stored).0.messages().to_vec())
    }

    /// The folder of an instance that its tools work in by default.
    pub fn workdir(&self, instance: &InstanceId) -> PathBuf {
        self.engine.store.workdir(instance)
    }

    /// Drops turns where they stand, as if the process had died; they resume at the next start. After a shutdown there are
    /// none.
    pub fn kill(&self) {
        self.engine.dead.store(true, Ordering::Release);
        self.task.abort();
        self.timer.abort();
        self.desk.iter().for_each(AbortHandle::abort);
    }

    /// Takes no more inputs, waits for running turns up to `grace`, then cancels them; returns when all have ended.
    pub async fn shutdown(&self, grace: Duration) {
        // Without an orchestrator it has ended already.
        let _ = self.engine.commands.send(Command::Shutdown { grace });
        self.engine.commands.closed().await;
        self.timer.abort();
        self.desk.iter().for_each(AbortHandle::abort);
    }

    /// Withdraws an event whose turn has not begun: nobody waits any more for its answer.
    pub fn abandon(&self, event_id: &str, reason: &str) {
        // Without an orchestrator nothing begins any more.
        let (event_id, reason) = (event_id.to_owned(), reason.to_owned());
        let _ = self
            .engine
            .commands
            .send(Command::Abandon { event_id, reason });
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        self.kill();
    }
}

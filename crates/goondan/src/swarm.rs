//! A running swarm.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use goondan_core::JsonObject;
use goondan_core::caller::Caller;
use goondan_core::event::{RuntimeEvent, SwarmEvent, TurnResult};
use goondan_core::ids::InstanceId;
use goondan_core::message::{Message, MessageData};
use goondan_core::ports::model::ToolDefinition;
use goondan_core::ports::store::{DeadLetter, InstanceMeta, StoreError};
use goondan_core::ports::tool::{Attachment, ToolCallResult};
use goondan_engine::delivery::orchestrator::{self as engine, Refusal};
use goondan_engine::plan::PlanPorts;
use goondan_engine::policy::redact::Redactor;
use goondan_engine::runtime::{Accepted, ExternalInput, Runtime, Submitted};
use goondan_spec::{Bundle, Code, Diagnostic};
use goondan_telemetry::Telemetry;
use serde_json::Value;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::adapters::ToolSources;
use crate::builder::SwarmBuilder;
use crate::contents::Contents;
use crate::database::Node;
use crate::generation::Notebook;
use crate::reload::{ReadBefore, ReloadCheck, ReloadListeners, ReloadState};
use crate::variables::Variables;
use crate::workspace::StateRoot;

/// The conversation of an input that names none.
pub const DEFAULT_INSTANCE_KEY: &str = "main";

/// A running swarm. Cheap to clone. It ends with [`Swarm::shutdown`]; its workspace is free once every clone is dropped.
#[derive(Clone)]
pub struct Swarm {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) node: Option<Node>,
    pub(crate) runtime: Runtime,
    pub(crate) ports: PlanPorts,
    pub(crate) tools: Arc<ToolSources>,
    pub(crate) redactor: Redactor,
    pub(crate) variables: Variables,
    pub(crate) contents: Arc<Contents>,
    pub(crate) state_root: StateRoot,
    pub(crate) notebook: Notebook,
    /// One reload at a time.
    pub(crate) reloading: Arc<tokio::sync::Mutex<ReloadState>>,
    /// What goes on beside the first turns.
    pub(crate) stocktaking: Mutex<Option<JoinHandle<()>>>,
    pub(crate) reload_check: Option<ReloadCheck>,
    pub(crate) read_before: ReadBefore,
    pub(crate) reload_listeners: ReloadListeners,
    pub(crate) telemetry: Option<Telemetry>,
}

/// An input from outside.
#[derive(Debug, Clone, Default)]
pub struct Input {
    /// The text.
    pub text: String,
    /// The agent; the swarm's entry agent by default.
    pub agent: Option<String>,
    /// The conversation; `main` by default.
    pub instance_key: Option<String>,
    /// The same id twice starts one turn.
    pub id: Option<String>,
    /// What goes behind the text: images and the like.
    pub files: Vec<Attachment>,
    /// What was said before, elsewhere. It opens the conversation where that is still empty, and changes nothing otherwise.
    pub history: Vec<MessageData>,
    /// Put behind the system prompt of the turn.
    pub instructions: Option<String>,
    /// Becomes the metadata of the user message. Keys that the engine reads are refused.
    pub metadata: JsonObject,
    /// Whose trace it is part of.
    pub caller: Option<Caller>,
    /// The JSON Schema that the answer has to fit, where the agent states no `output`.
    pub output: Option<Value>,
}

impl Input {
    /// An input for the entry agent's main conversation.
    pub fn text(text: impl Into<String>) -> Self {
        Input {
            text: text.into(),
            ..Input::default()
        }
    }
}

/// An input that was handed in.
pub struct Submission {
    /// The instance that handles it.
    pub instance: InstanceId,
    submitted: Submitted,
}

impl Submission {
    /// The id of the event.
    pub fn event_id(&self) -> &str {
        &self.submitted.event_id
    }

    /// The trace of the chain that begins with it.
    pub fn trace_id(&self) -> &str {
        &self.submitted.trace_id
    }

    /// Waits until it is accepted.
    pub async fn accepted(self) -> Result<Turn, SendError> {
        Ok(Turn::of(self.submitted.accepted().await?, self.instance))
    }
}

/// An accepted input: it is on disk.
pub struct Turn {
    /// The id of the event.
    pub event_id: String,
    /// The trace of the chain that begins with it. Where an input of the same id had been accepted before, that is not its chain.
    pub trace_id: String,
    /// The instance that handles it.
    pub instance: InstanceId,
    result: oneshot::Receiver<TurnResult>,
}

impl Turn {
    fn of(accepted: Accepted, instance: InstanceId) -> Self {
        let Accepted {
            event_id,
            trace_id,
            result,
        } = accepted;
        Turn {
            event_id,
            trace_id,
            instance,
            result,
        }
    }

    /// Waits until the turn is over. `None` where the swarm ended first; the turn then resumes at the next start.
    pub async fn result(self) -> Option<TurnResult> {
        self.result.await.ok()
    }
}

/// What has become of an event.
pub enum Found {
    /// It is over.
    Over(Box<TurnResult>),
    /// It waits, or its turn runs.
    Open(Turn),
}

/// Why the swarm did not take an input.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SendError {
    /// A stable code, such as `AGENT_NOT_FOUND`.
    pub code: Code,
    /// A sentence that stands alone.
    pub message: String,
    /// What to do about it.
    pub suggestion: Option<String>,
}

impl Swarm {
    /// Begins with the defaults: the bundle's only swarm (or `default`), the process environment with the bundle's `.env`
    /// files, state under `~/.goondan`.
    pub fn builder(bundle: Arc<Bundle>) -> SwarmBuilder {
        SwarmBuilder::new(bundle)
    }

    /// Hands in an input; returns once it is accepted.
    pub async fn send(&self, input: Input) -> Result<Turn, SendError> {
        self.submit(input)?.accepted().await
    }

    /// Hands in an input, in the order of the calls, and does not wait: many that are handed in together are accepted together.
    pub fn submit(&self, input: Input) -> Result<Submission, SendError> {
        let instance = self.instance(input.agent.as_deref(), input.instance_key.as_deref());
        let Input {
            text,
            id,
            files,
            history,
            instructions,
            metadata,
            caller,
            output,
            ..
        } = input;
        let target = instance.clone();
        let output = output.map(Arc::new);
        let external = ExternalInput {
            target,
            text,
            id,
            files,
            history,
            instructions,
            metadata,
            caller,
            output,
        };
        Ok(Submission {
            submitted: self.inner.runtime.submit_input(external)?,
            instance,
        })
    }

    /// Starts an event again whose turn failed, as a new event, and takes it off the list of dead letters.
    pub async fn retry(&self, instance: &InstanceId, event_id: &str) -> Result<Turn, SendError> {
        let accepted = self.inner.runtime.retry(instance, event_id).await?;
        Ok(Turn::of(accepted, instance.clone()))
    }

    /// The events whose turns failed and that nobody has had tried again, oldest failure first.
    pub async fn dead_letters(&self) -> Result<Vec<DeadLetter>, StoreError> {
        self.inner.runtime.dead_letters().await
    }

    /// Takes an event whose turn failed off the list of dead letters: nobody wants it tried again.
    pub async fn discard(&self, instance: &InstanceId, event_id: &str) -> Result<(), SendError> {
        Ok(self.inner.runtime.discard(instance, event_id).await?)
    }

    /// Says that the conversation `to`, which is yet to begin, will hold what was said in `source`: where that has read untrusted output,
    /// so has `to`.
    pub async fn inherit(&self, source: &InstanceId, to: &InstanceId) -> Result<(), SendError> {
        Ok(self
            .inner
            .runtime
            .inherit(source, to)
            .await
            .map_err(Refusal::from)?)
    }

    /// Makes a new conversation of the same agent that begins with the messages of `instance` up to `message_id`, or with all
    /// of them. It is on disk when this is back. `None` where there is no such message.
    pub async fn fork(
        &self,
        instance: &InstanceId,
        message_id: Option<&str>,
    ) -> Result<Option<InstanceId>, SendError> {
        Ok(self.inner.runtime.fork(instance, message_id).await?)
    }

    /// Calls one tool through the same dispatch as a model's call, without a model. `agent` and `instance_key` as in [`Input`].
    pub async fn call_tool(
        &self,
        agent: Option<&str>,
        instance_key: Option<&str>,
        tool: &str,
        arguments: Value,
    ) -> Result<ToolCallResult, SendError> {
        let instance = self.instance(agent, instance_key);
        let result = self
            .inner
            .runtime
            .call_tool(instance.clone(), tool, arguments)
            .await;
        result.ok_or_else(|| SendError {
            code: Code::AGENT_NOT_FOUND,
            message: format!(
                "the swarm {} has no agent `{}`",
                self.name(),
                instance.agent
            ),
            suggestion: Some(format!("its agents are: {}", self.agents().join(", "))),
        })
    }

    /// Waits until nothing is left to do in the chain of that trace: no turn runs in it and no event waits. A turn that could
    /// not be put on disk stands still and is not waited for. Where the swarm ends first, so does this.
    pub async fn settled(&self, trace_id: &str) {
        self.inner.runtime.settled(trace_id).await;
    }

    /// Cancels the running turn of `instance`; false where none runs.
    pub async fn cancel(&self, instance: &InstanceId) -> bool {
        self.inner.runtime.cancel(instance).await
    }

    /// Cancels an event: its turn where it runs, the event itself where it waits. False where nothing is left to cancel.
    pub async fn cancel_event(&self, event_id: &str) -> bool {
        self.inner.runtime.cancel_event(event_id).await
    }

    /// What has become of an event; `None` for one that was never accepted, or ended too long ago.
    pub async fn find(&self, event_id: &str) -> Option<Found> {
        Some(match self.inner.runtime.find(event_id).await? {
            engine::Found::Over(result) => Found::Over(result),
            engine::Found::Open {
                target,
                trace_id,
                result,
            } => Found::Open(Turn {
                event_id: event_id.to_owned(),
                trace_id,
                instance: target,
                result,
            }),
        })
    }

    /// The events of an instance whose [sequence](RuntimeEvent::sequence) is greater than `after`, oldest first.
    pub async fn events(
        &self,
        instance: &InstanceId,
        after: u64,
    ) -> Result<Vec<RuntimeEvent>, StoreError> {
        self.inner.runtime.events(instance, after).await
    }

    /// A number that lies between the events of earlier processes and those of this one.
    pub fn sequence_at_start(&self) -> u64 {
        self.inner.runtime.sequence_at_start()
    }

    /// What `agent`'s model is offered at the first step of a turn.
    pub fn catalog(&self, agent: &str) -> Option<Vec<ToolDefinition>> {
        let generation = self.inner.runtime.generation();
        generation
            .agent(agent)
            .map(|agent| agent.catalog.definitions().to_vec())
    }

    /// Everything that happens from now on. Unbounded: a subscriber that stops reading should drop the receiver.
    pub fn subscribe(&self) -> UnboundedReceiver<SwarmEvent> {
        self.inner.runtime.subscribe()
    }

    /// Tells `observer` of everything that happens from now on, where it happens, for as long as it answers `true`. The whole
    /// swarm waits for it meanwhile: it may take note of something, and must neither wait nor call the swarm.
    pub fn observe(&self, observer: impl FnMut(&SwarmEvent) -> bool + Send + 'static) {
        self.inner.runtime.observe(Box::new(observer));
    }

    /// The conversation of `instance` as it stands.
    pub async fn conversation(
        &self,
        instance: &InstanceId,
    ) -> Result<Vec<Arc<Message>>, StoreError> {
        self.inner.runtime.conversation(instance).await
    }

    /// Whether there is that instance.
    pub async fn has_instance(&self, instance: &InstanceId) -> bool {
        self.inner.runtime.has_instance(instance).await
    }

    /// What is known of all instances, oldest first.
    pub async fn instances(&self) -> Vec<InstanceMeta> {
        self.inner.runtime.instances().await
    }

    /// The folder of an instance that its tools work in by default.
    pub fn workdir(&self, instance: &InstanceId) -> PathBuf {
        self.inner.runtime.workdir(instance)
    }

    /// The name of the running Swarm resource.
    pub fn name(&self) -> String {
        self.inner.notebook.swarm.name.clone()
    }

    /// What was noticed when the tools of the running generation were opened and keeps nothing from running.
    pub fn warnings(&self) -> Vec<Diagnostic> {
        self.inner.runtime.generation().warnings.clone()
    }

    /// The entry agent's name.
    pub fn entry_agent(&self) -> String {
        self.inner.runtime.generation().entry_agent.clone()
    }

    /// The number of the generation that serves; a reload counts it up.
    pub fn generation(&self) -> u64 {
        self.inner.runtime.generation().number
    }

    /// The names of all agents, sorted.
    pub fn agents(&self) -> Vec<String> {
        self.inner
            .runtime
            .generation()
            .agents()
            .map(|agent| agent.name.clone())
            .collect()
    }

    /// The schema that an agent's answers fit, where its `output` states one.
    pub fn output_of(&self, agent: &str) -> Option<Arc<Value>> {
        let bundle = self.bundle();
        let agent = bundle
            .agents()
            .values()
            .find(|known| known.id.name == agent)?;
        agent
            .spec
            .output
            .as_ref()
            .map(|format| Arc::clone(&format.schema))
    }

    /// What an agent is there for, where its annotation `description` says so.
    pub fn description(&self, agent: &str) -> Option<String> {
        self.inner
            .runtime
            .generation()
            .agent(agent)?
            .description
            .clone()
    }

    /// Where this swarm keeps its state.
    pub fn workspace_dir(&self) -> PathBuf {
        self.inner.notebook.workspace.dir.clone()
    }

    /// Takes no more inputs, waits for running turns within the policy's grace period, and ends.
    pub async fn shutdown(&self) {
        let grace = self.inner.runtime.generation().policy.shutdown_grace;
        self.inner.runtime.shutdown(grace).await;
        self.inner.tools.shutdown().await;
        let stocktaking = self
            .inner
            .stocktaking
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(stocktaking) = stocktaking {
            // A panic was told, and what runs no more need not be written down.
            let _ = stocktaking.await;
        }
        if let Some(telemetry) = &self.inner.telemetry {
            telemetry.end().await;
        }
        if let Some(node) = &self.inner.node {
            node.store.flush_events().await;
        }
    }

    /// Is done when another node has taken over the workspace, so that nothing can be kept here any more. Without a
    /// [database](SwarmBuilder::database) it never is.
    pub fn taken_over(&self) -> impl Future<Output = ()> + Send + use<> {
        let lost = self.inner.node.as_ref().map(|node| node.store.lost());
        async move {
            match lost {
                Some(lost) => lost.await,
                None => std::future::pending().await,
            }
        }
    }

    /// Ends as if the process had died: turns are dropped where they stand and resume at the next start. For tests of
    /// recovery; dropping the last clone does the same.
    pub fn kill(&self) {
        self.inner.runtime.kill();
    }

    pub(crate) fn of(inner: Arc<Inner>) -> Self {
        Swarm { inner }
    }

    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.inner
    }

    fn instance(&self, agent: Option<&str>, instance_key: Option<&str>) -> InstanceId {
        let agent = agent.map_or_else(|| self.entry_agent(), str::to_owned);
        InstanceId::new(agent, instance_key.unwrap_or(DEFAULT_INSTANCE_KEY))
    }
}

impl From<Refusal> for SendError {
    fn from(refusal: Refusal) -> Self {
        SendError {
            code: refusal.code(),
            message: refusal.to_string(),
            suggestion: refusal.suggestion(),
        }
    }
}

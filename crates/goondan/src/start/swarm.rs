//! Handle of a running swarm.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use goondan_core::JsonObject;
use goondan_core::agent_event::{AnswerCall, ConversationOperation, InputDelivery};
use goondan_core::caller::CallerTrace;
use goondan_core::event::{RuntimeEvent, SwarmEvent, TurnResult};
use goondan_core::ids::InstanceId;
use goondan_core::message::{Message, MessageData};
use goondan_core::model_calls::ModelCallLog;
use goondan_core::ports::capabilities::ScheduledJob;
use goondan_core::ports::model::ToolDefinition;
use goondan_core::ports::store::{DeadLetter, InstanceMeta, StoreError};
use goondan_core::ports::tool::{Attachment, HandlerError, ToolCallResult};
use goondan_engine::delivery::orchestrator::{self as engine, AcceptanceKind, SubmitError};
use goondan_engine::plan::PlanPorts;
use goondan_engine::policy::redact::SecretRedactor;
use goondan_engine::runtime::{AcceptedEvent, ExternalInput, SubmittedEvent, SwarmRuntime};
use goondan_mcp::{PromptInput, ServerPrompt};
use goondan_spec::{Bundle, Code, Diagnostic};
use goondan_telemetry::TelemetryExporter;
use serde_json::Value;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::adapters::EntryToolSource;
use crate::reload::file_fingerprints::FingerprintCache;
use crate::reload::{ReloadCache, ReloadCheck, ReloadListeners, ReloadState};
use crate::start::builder::SwarmBuilder;
use crate::start::environment::VariableSource;
use crate::workspace::StateRoot;
use crate::workspace::database::LeadingNode;
use crate::workspace::running_record::GenerationRecorder;

/// Conversation of inputs that name none.
pub const DEFAULT_INSTANCE_KEY: &str = "main";

/// Running swarm. Cheap to clone. It ends with [`Swarm::shutdown`]. Its workspace is free after the
/// last clone is dropped.
#[derive(Clone)]
pub struct Swarm {
    inner: Arc<SwarmInner>,
}

/// State that all handles of a swarm share.
pub(crate) struct SwarmInner {
    pub(crate) node: Option<LeadingNode>,
    pub(crate) runtime: SwarmRuntime,
    pub(crate) ports: PlanPorts,
    pub(crate) tools: Arc<EntryToolSource>,
    pub(crate) redactor: SecretRedactor,
    pub(crate) variables: VariableSource,
    pub(crate) contents: Arc<FingerprintCache>,
    pub(crate) state_root: StateRoot,
    pub(crate) notebook: GenerationRecorder,
    /// Lock for reloads: only one runs at a time.
    pub(crate) reloading: Arc<tokio::sync::Mutex<ReloadState>>,
    /// Task that computes the basis for reloads during the first turns.
    pub(crate) stocktaking: Mutex<Option<JoinHandle<()>>>,
    pub(crate) reload_check: Option<ReloadCheck>,
    pub(crate) read_before: ReloadCache,
    pub(crate) reload_listeners: ReloadListeners,
    pub(crate) telemetry: Option<TelemetryExporter>,
}

/// External input.
#[derive(Debug, Clone, Default)]
pub struct Input {
    /// Text of the message.
    pub text: String,
    /// Name of the agent. Default: the swarm's entry agent.
    pub agent: Option<String>,
    /// Key of the conversation. Default: `main`.
    pub instance_key: Option<String>,
    /// Deduplication ID: two inputs with the same ID start one turn.
    pub id: Option<String>,
    /// Attachments after the text, such as images.
    pub files: Vec<Attachment>,
    /// Earlier messages from elsewhere. They start the conversation if it is empty, and are ignored
    /// otherwise.
    pub history: Vec<MessageData>,
    /// Text appended to the system prompt of the turn.
    pub instructions: Option<String>,
    /// Metadata of the user message. Keys that the engine uses are rejected.
    pub metadata: JsonObject,
    /// Trace context of the caller.
    pub caller: Option<CallerTrace>,
    /// JSON Schema for the answer, used if the agent declares no `output`.
    pub output: Option<Value>,
    /// Call that answers the sender. Without a written rule about it, it needs no approval.
    pub answer_call: Option<AnswerCall>,
    /// Handling of the input while a turn of its conversation runs. Default: the input waits for
    /// the end of the turn.
    pub delivery: InputDelivery,
}

impl Input {
    /// Creates an input for the entry agent's main conversation.
    pub fn text(text: impl Into<String>) -> Self {
        Input {
            text: text.into(),
            ..Input::default()
        }
    }
}

/// Submitted input.
pub struct SubmittedInput {
    /// Instance that handles the input.
    pub instance: InstanceId,
    submitted: SubmittedEvent,
}

impl SubmittedInput {
    /// Returns the event ID.
    pub fn event_id(&self) -> &str {
        &self.submitted.event_id
    }

    /// Returns the ID of the trace that starts with the input.
    pub fn trace_id(&self) -> &str {
        &self.submitted.trace_id
    }

    /// Waits until the input is accepted.
    pub async fn accepted(self) -> Result<Turn, SendError> {
        Ok(Turn::of(self.submitted.accepted().await?, self.instance))
    }
}

/// Accepted input, which is stored on disk.
pub struct Turn {
    /// Event ID.
    pub event_id: String,
    /// ID of the trace that starts with the input. If an earlier input had the same ID, its trace
    /// has another ID.
    pub trace_id: String,
    /// Instance that handles the input.
    pub instance: InstanceId,
    pub(crate) acceptance: AcceptanceKind,
    pub(crate) result: oneshot::Receiver<TurnResult>,
}

impl Turn {
    /// Creates the handle of an accepted input.
    fn of(accepted: AcceptedEvent, instance: InstanceId) -> Self {
        let AcceptedEvent {
            event_id,
            trace_id,
            acceptance,
            result,
        } = accepted;
        Turn {
            event_id,
            trace_id,
            instance,
            acceptance,
            result,
        }
    }

    /// Waits for the end of the turn. Returns `None` if the swarm ends first; the turn then resumes
    /// at the next start.
    pub async fn result(self) -> Option<TurnResult> {
        self.result.await.ok()
    }
}

/// State of an event.
pub enum SubmittedEventState {
    /// The turn has ended with this result.
    Over(Box<TurnResult>),
    /// The event is queued or its turn is running.
    Open(Turn),
}

/// Reason why the swarm rejected an input.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SendError {
    /// Stable error code, such as `AGENT_NOT_FOUND`.
    pub code: Code,
    /// Reason why the input was rejected, as a complete sentence.
    pub message: String,
    /// Fix, if there is one.
    pub suggestion: Option<String>,
}

impl Swarm {
    /// Creates a builder with defaults: the bundle's only swarm (or `default`), the process
    /// environment with the bundle's `.env` files, and state in `~/.goondan`.
    pub fn builder(bundle: Arc<Bundle>) -> SwarmBuilder {
        SwarmBuilder::new(bundle)
    }

    /// Sends an input and waits until it is accepted.
    pub async fn send(&self, input: Input) -> Result<Turn, SendError> {
        self.submit(input)?.accepted().await
    }

    /// Submits an input without waiting. Inputs are processed in call order, and a batch of them is
    /// accepted together.
    pub fn submit(&self, input: Input) -> Result<SubmittedInput, SendError> {
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
            answer_call,
            delivery,
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
            answer_call,
            delivery,
        };
        Ok(SubmittedInput {
            submitted: self.inner.runtime.submit_input(external)?,
            instance,
        })
    }

    /// Returns the prompts of the swarm's MCP servers, sorted by chat command.
    pub fn prompts(&self) -> Vec<ServerPrompt> {
        self.inner.tools.mcp().prompts()
    }

    /// Returns a receiver that changes when [`Swarm::prompts`] returns other prompts.
    pub fn prompt_changes(&self) -> tokio::sync::watch::Receiver<()> {
        self.inner.tools.mcp().prompt_changes()
    }

    /// Returns the input for a chat command such as `/git:review a.rs`. Returns `None` if no MCP
    /// server of the swarm has the command's name.
    ///
    /// # Errors
    /// Fails if the server has no such prompt, an argument is missing, or the server does not
    /// answer.
    pub async fn expand_prompt(&self, line: &str) -> Option<Result<PromptInput, HandlerError>> {
        self.inner.tools.mcp().expand_prompt(line).await
    }

    /// Retries a failed event as a new event and removes it from the dead letters.
    pub async fn retry(&self, instance: &InstanceId, event_id: &str) -> Result<Turn, SendError> {
        let accepted = self.inner.runtime.retry(instance, event_id).await?;
        Ok(Turn::of(accepted, instance.clone()))
    }

    /// Returns the failed events that are neither retried nor discarded, oldest failure first.
    pub async fn dead_letters(&self) -> Result<Vec<DeadLetter>, StoreError> {
        self.inner.runtime.dead_letters().await
    }

    /// Removes a failed event from the dead letters without a retry.
    pub async fn discard(&self, instance: &InstanceId, event_id: &str) -> Result<(), SendError> {
        Ok(self.inner.runtime.discard(instance, event_id).await?)
    }

    /// Declares that the new conversation `to` will contain messages of `source`. If `source`
    /// contains untrusted content, `to` is tainted as well.
    pub async fn inherit(&self, source: &InstanceId, to: &InstanceId) -> Result<(), SendError> {
        Ok(self
            .inner
            .runtime
            .inherit(source, to)
            .await
            .map_err(SubmitError::from)?)
    }

    /// Creates a conversation of the same agent from the messages of `instance`, up to `message_id`
    /// or all of them. It is durable when this function returns. Returns `None` if the message does
    /// not exist.
    pub async fn fork(
        &self,
        instance: &InstanceId,
        message_id: Option<&str>,
    ) -> Result<Option<InstanceId>, SendError> {
        Ok(self.inner.runtime.fork(instance, message_id).await?)
    }

    /// Replaces the messages of a conversation with a summary, as the agent's `message-compaction`
    /// does. The output of the result has `messagesBefore`, `messagesAfter`, and the approximate
    /// `tokensBefore` and `tokensAfter`. If the model fails, the conversation is unchanged.
    pub async fn compact(&self, instance: &InstanceId) -> Result<Turn, SendError> {
        self.operate(instance, ConversationOperation::Compact).await
    }

    /// Removes the last input of a conversation and everything after it. Effects of tools remain. The
    /// output of the result has the text of the `input` (null if none is left), the number of removed
    /// `toolCalls`, and the sizes as in [`Swarm::compact`]. Fails with
    /// [`Code::AGENT_TURN_RUNNING`] if a turn of the conversation runs or waits.
    pub async fn undo(&self, instance: &InstanceId) -> Result<Turn, SendError> {
        self.operate(instance, ConversationOperation::Undo).await
    }

    /// Submits an operation on a conversation.
    async fn operate(
        &self,
        instance: &InstanceId,
        operation: ConversationOperation,
    ) -> Result<Turn, SendError> {
        let accepted = self.inner.runtime.operate(instance, operation).await?;
        Ok(Turn::of(accepted, instance.clone()))
    }

    /// Calls a tool without a model, through the same dispatch as a model's tool call. `agent` and
    /// `instance_key` have the same meaning as in [`Input`].
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
            message: format!("Swarm `{}` has no agent `{}`.", self.name(), instance.agent),
            suggestion: Some(format!("Use one of: {}.", self.agents().join(", "))),
        })
    }

    /// Waits until the trace has no running turn and no queued event, or until the swarm ends. A
    /// turn that could not be stored is suspended and not waited for.
    pub async fn settled(&self, trace_id: &str) {
        self.inner.runtime.settled(trace_id).await;
    }

    /// Cancels the running turn of `instance`. Returns false if there is none.
    pub async fn cancel(&self, instance: &InstanceId) -> bool {
        self.inner.runtime.cancel(instance).await
    }

    /// Cancels an event: its running turn, or the queued event itself. Returns false if there is
    /// nothing to cancel.
    pub async fn cancel_event(&self, event_id: &str) -> bool {
        self.inner.runtime.cancel_event(event_id).await
    }

    /// Returns the state of an event; `None` if it was never accepted or its result has expired.
    pub async fn find(&self, event_id: &str) -> Option<SubmittedEventState> {
        Some(match self.inner.runtime.find(event_id).await? {
            engine::EventState::Over(result) => SubmittedEventState::Over(result),
            engine::EventState::Open {
                target,
                trace_id,
                result,
            } => SubmittedEventState::Open(Turn {
                event_id: event_id.to_owned(),
                trace_id,
                instance: target,
                acceptance: AcceptanceKind::Repeated,
                result,
            }),
        })
    }

    /// Returns the events of an instance with a [sequence](RuntimeEvent::sequence) greater than
    /// `after`, oldest first.
    pub async fn events(
        &self,
        instance: &InstanceId,
        after: u64,
    ) -> Result<Vec<RuntimeEvent>, StoreError> {
        self.inner.runtime.events(instance, after).await
    }

    /// Returns the log of this process's model calls. It records nothing until it is switched on,
    /// or if `policy.telemetry.modelCalls` is 0.
    pub fn model_calls(&self) -> &ModelCallLog {
        self.inner.runtime.model_calls()
    }

    /// Returns the maximum number of recorded model calls.
    pub fn recorded_model_calls(&self) -> usize {
        self.inner.runtime.generation().policy.recorded_model_calls
    }

    /// Returns a sequence number that is higher than the numbers of events of earlier processes, and
    /// lower than the numbers of events of this process.
    pub fn sequence_at_start(&self) -> u64 {
        self.inner.runtime.sequence_at_start()
    }

    /// Returns the tools that `agent`'s model gets at the first step of a turn.
    pub fn catalog(&self, agent: &str) -> Option<Vec<ToolDefinition>> {
        let generation = self.inner.runtime.generation();
        generation
            .agent(agent)
            .map(|agent| agent.catalog.definitions().to_vec())
    }

    /// Subscribes to all events from this call on. The channel is unbounded: a subscriber that
    /// stops reading should drop the receiver.
    pub fn subscribe(&self) -> UnboundedReceiver<SwarmEvent> {
        self.inner.runtime.subscribe()
    }

    /// Calls `observer` synchronously for each event until it returns `false`. The whole swarm
    /// waits during the call, so the observer must neither block nor call the swarm.
    pub fn observe(&self, observer: impl FnMut(&SwarmEvent) -> bool + Send + 'static) {
        self.inner.runtime.observe(Box::new(observer));
    }

    /// Returns the messages of a conversation, without opaque provider data.
    pub async fn conversation(
        &self,
        instance: &InstanceId,
    ) -> Result<Vec<Arc<Message>>, StoreError> {
        let messages = self.inner.runtime.conversation(instance).await?;
        Ok(messages.into_iter().map(Message::for_reader).collect())
    }

    /// Returns the latest `count` messages of a conversation, without opaque provider data, and the
    /// number of messages before them.
    pub async fn latest_messages(
        &self,
        instance: &InstanceId,
        count: usize,
    ) -> Result<(usize, Vec<Arc<Message>>), StoreError> {
        let (omitted, messages) = self.inner.runtime.latest_messages(instance, count).await?;
        let messages = messages.into_iter().map(Message::for_reader);
        Ok((omitted, messages.collect()))
    }

    /// Returns at least the first `count` messages of a conversation, without opaque provider data,
    /// and the number of messages after them.
    pub async fn first_messages(
        &self,
        instance: &InstanceId,
        count: usize,
    ) -> Result<(Vec<Arc<Message>>, usize), StoreError> {
        let (messages, omitted) = self.inner.runtime.first_messages(instance, count).await?;
        let messages = messages.into_iter().map(Message::for_reader);
        Ok((messages.collect(), omitted))
    }

    /// Returns true if the instance exists.
    pub async fn has_instance(&self, instance: &InstanceId) -> bool {
        self.inner.runtime.has_instance(instance).await
    }

    /// Returns the metadata of all instances, oldest first.
    pub async fn instances(&self) -> Vec<InstanceMeta> {
        self.inner.runtime.instances().await
    }

    /// Returns the scheduled jobs of all conversations.
    pub fn scheduled_jobs(&self) -> Vec<(InstanceId, ScheduledJob)> {
        self.inner.runtime.scheduled_jobs()
    }

    /// Returns the default working directory of an instance's tools.
    pub fn workdir(&self, instance: &InstanceId) -> PathBuf {
        self.inner.runtime.workdir(instance)
    }

    /// Returns the name of the running Swarm resource.
    pub fn name(&self) -> String {
        self.inner.notebook.swarm.name.clone()
    }

    /// Returns the warnings from opening the tools of the current generation.
    pub fn warnings(&self) -> Vec<Diagnostic> {
        self.inner.runtime.generation().warnings.clone()
    }

    /// Returns the name of the entry agent.
    pub fn entry_agent(&self) -> String {
        self.inner.runtime.generation().entry_agent.clone()
    }

    /// Returns the number of the current generation, which each reload increments.
    pub fn generation(&self) -> u64 {
        self.inner.runtime.generation().number
    }

    /// Returns the names of all agents, sorted.
    pub fn agents(&self) -> Vec<String> {
        self.inner
            .runtime
            .generation()
            .agents()
            .map(|agent| agent.name.clone())
            .collect()
    }

    /// Returns the schema of an agent's answers, if its `output` declares one.
    pub fn output_of(&self, agent: &str) -> Option<Arc<Value>> {
        let bundle = self.bundle();
        let agent = bundle
            .agents()
            .values()
            .find(|resource| resource.id.name == agent)?;
        agent
            .spec
            .output
            .as_ref()
            .map(|format| Arc::clone(&format.schema))
    }

    /// Returns the annotation `description` of an agent.
    pub fn description(&self, agent: &str) -> Option<String> {
        self.inner
            .runtime
            .generation()
            .agent(agent)?
            .description
            .clone()
    }

    /// Returns the directory of the swarm's workspace.
    pub fn workspace_dir(&self) -> PathBuf {
        self.inner.notebook.workspace.dir.clone()
    }

    /// Keeps approval requests open from now on, although clients disconnect during the shutdown.
    /// Call this before [`Swarm::shutdown`] if clients disconnect first.
    pub fn begin_shutdown(&self) {
        self.inner.runtime.begin_shutdown();
    }

    /// Stops accepting inputs, waits for running turns within the policy's grace period, and ends
    /// the swarm. Turns that wait for an approval or need longer resume at the next start. Returns
    /// `false` if there are such turns.
    pub async fn shutdown(&self) -> bool {
        let grace = self.inner.runtime.generation().policy.shutdown_grace;
        let are_turns_over = self.inner.runtime.shutdown(grace).await;
        self.inner.tools.shutdown().await;
        let stocktaking = self
            .inner
            .stocktaking
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(stocktaking) = stocktaking {
            // A panic is already logged, and an ended swarm needs no record.
            let _ = stocktaking.await;
        }
        if let Some(telemetry) = &self.inner.telemetry {
            telemetry.end().await;
        }
        if let Some(node) = &self.inner.node {
            node.store.flush_events().await;
        }
        are_turns_over
    }

    /// Completes when another node takes over the workspace, after which nothing can be stored.
    /// Never completes without a [database](SwarmBuilder::database).
    pub fn taken_over(&self) -> impl Future<Output = ()> + Send + use<> {
        let lost = self.inner.node.as_ref().map(|node| node.store.lost());
        async move {
            match lost {
                Some(lost) => lost.await,
                None => std::future::pending().await,
            }
        }
    }

    /// Ends the swarm like a crash: turns are dropped immediately and resume at the next start. For
    /// recovery tests; dropping the last clone has the same effect.
    pub fn kill(&self) {
        self.inner.runtime.kill();
    }

    /// Creates a handle of the swarm.
    pub(crate) fn of(inner: Arc<SwarmInner>) -> Self {
        Swarm { inner }
    }

    /// Returns the state that all handles share.
    pub(crate) fn inner(&self) -> &Arc<SwarmInner> {
        &self.inner
    }

    /// Returns the conversation of an input.
    pub(crate) fn instance_of(&self, input: &Input) -> InstanceId {
        self.instance(input.agent.as_deref(), input.instance_key.as_deref())
    }

    /// Returns the conversation of an agent and a key, with defaults for the agent and the key.
    fn instance(&self, agent: Option<&str>, instance_key: Option<&str>) -> InstanceId {
        let agent = agent.map_or_else(|| self.entry_agent(), str::to_owned);
        InstanceId::new(agent, instance_key.unwrap_or(DEFAULT_INSTANCE_KEY))
    }
}

impl From<SubmitError> for SendError {
    fn from(refusal: SubmitError) -> Self {
        SendError {
            code: refusal.code(),
            message: refusal.to_string(),
            suggestion: refusal.suggestion(),
        }
    }
}

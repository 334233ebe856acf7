//! A small swarm on a file system that fails. Agent `a` calls three tools; one of them sends a
//! request to agent `b`. Agent `w` answers and removes old messages. Agent `q` sends a request to
//! `b`, waits for the answer, and then makes a non-idempotent call.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use goondan_spec::kinds::{ExportSpec, Model, Tool, ToolManifest};
use goondan_spec::{BasePackage, Bundle, Environment, LoadInput, MemoryFiles, Resource, load};
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;

use goondan_core::JsonObject;
use goondan_core::event::{SwarmEvent, TurnResult};
use goondan_core::ids::InstanceId;
use goondan_core::message::{Message, MessagePart, MessageRole, ToolCall};
use goondan_core::ports::approval::ApproveAll;
use goondan_core::ports::clock::{Clock, SystemClock};
use goondan_core::ports::model::{
    ModelChunk, ModelClient, ModelError, ModelFactory, ModelRequest, ModelStream,
};
use goondan_core::ports::store::Store;
use goondan_core::ports::tool::{
    AgentEventInput, EntryOpenError, HandlerError, RequestOptions, ToolContext, ToolHandler,
    ToolOutput, ToolSet, ToolSource,
};
use goondan_core::ports::tracing::ForwardCallerTrace;
use goondan_core::reserved_names::INTER_AGENT_RESPONSE_KEY;
use goondan_engine::plan::{PlanPorts, plan};
use goondan_engine::runtime::{EngineNodeParts, ExternalInput, RuntimeParts, SwarmRuntime};
use goondan_store::fs::sim::SimFs;
use goondan_store::jsonl::JsonlStore;

pub(crate) const WORKSPACE: &str = "/state/workspaces/w";

const BUNDLE: &str = "
apiVersion: goondan.ai/v1
kind: Model
metadata: {name: m}
spec: {provider: scripted, model: any}
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: a}
spec: {modelConfig: {modelRef: Model/m}, tools: [{ref: Tool/world}], permissions: {default: allow}}
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: b}
spec: {modelConfig: {modelRef: Model/m}}
---
apiVersion: goondan.ai/v1
kind: Extension
metadata: {name: window}
spec: {entry: 'builtin:message-window', config: {maxMessages: 3}}
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: w}
spec: {modelConfig: {modelRef: Model/m}, extensions: [{ref: Extension/window}]}
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: q}
spec: {modelConfig: {modelRef: Model/m}, tools: [{ref: Tool/world}], permissions: {default: allow}}
---
apiVersion: goondan.ai/v1
kind: Swarm
metadata: {name: default}
spec:
  entryAgent: Agent/a
  agents: [{ref: Agent/a}, {ref: Agent/b}, {ref: Agent/w}, {ref: Agent/q}]
  policy: POLICY
";

/// Number of executions of each tool call, by call ID.
pub(crate) type World = Arc<Mutex<HashMap<String, usize>>>;

/// The instance that receives the inputs of most tests.
pub(crate) fn a() -> InstanceId {
    InstanceId::new("a", "main")
}

/// The instance that answers requests.
pub(crate) fn b() -> InstanceId {
    InstanceId::new("b", "main")
}

/// The instance that removes old messages.
pub(crate) fn w() -> InstanceId {
    InstanceId::new("w", "main")
}

/// The instance that waits for answers.
pub(crate) fn q() -> InstanceId {
    InstanceId::new("q", "main")
}

/// A process that runs the swarm.
pub(crate) struct Process {
    pub(crate) runtime: SwarmRuntime,
    pub(crate) events: UnboundedReceiver<SwarmEvent>,
}

impl Process {
    /// Starts the swarm on the files of `fs`. Returns `None` if the process is killed during it.
    pub(crate) async fn start(fs: &SimFs, world: &World) -> Option<Process> {
        let store: Arc<dyn Store> =
            Arc::new(JsonlStore::on(Arc::new(fs.clone()), Path::new(WORKSPACE)).ok()?);
        Process::start_with(store, fs, world, Arc::new(SystemClock), "{}").await
    }

    /// Does the same as [`Process::start`], with another store, clock, or policy (in YAML).
    pub(crate) async fn start_with(
        store: Arc<dyn Store>,
        fs: &SimFs,
        world: &World,
        clock: Arc<dyn Clock>,
        policy: &str,
    ) -> Option<Process> {
        let tools = Tools {
            fs: fs.clone(),
            world: Arc::clone(world),
        };
        let ports = PlanPorts {
            tools: Arc::new(tools),
            extensions: Arc::new(()),
            models: Arc::new(Models),
        };
        let bundle = Arc::new(bundle(policy));
        let swarm = bundle.choose_swarm(None).unwrap();
        let node = EngineNodeParts {
            tracing: Arc::new(ForwardCallerTrace),
            has_sandbox: false,
            redactor: goondan_engine::policy::redact::SecretRedactor::new(),
            generation: Arc::new(
                plan(&bundle, swarm, 1, &ports, &Environment::default(), None)
                    .await
                    .ok()?,
            ),
            store,
            clock,
            workdir: Some(std::env::temp_dir()),
            observer: Arc::new(()),
        };
        let parts = RuntimeParts {
            node,
            approvals: Arc::new(goondan_core::ports::approval::InMemoryApprovals::default()),
            approver: Arc::new(ApproveAll),
            watchers: Vec::new(),
            crew: None,
            reloader: None,
        };
        let (runtime, events) = SwarmRuntime::start(parts).await.ok()?;
        Some(Process { runtime, events })
    }

    /// Sends an event and waits for its result. Returns `None` if the event was not accepted.
    pub(crate) async fn send(&self, id: &str) -> Option<TurnResult> {
        self.send_to(a(), id).await
    }

    /// Does the same as [`Process::send`], for another instance.
    pub(crate) async fn send_to(&self, target: InstanceId, id: &str) -> Option<TurnResult> {
        let input = ExternalInput {
            id: Some(id.to_owned()),
            ..ExternalInput::text(target, format!("input {id}"))
        };
        within(self.runtime.send(input))
            .await
            .ok()?
            .result
            .await
            .ok()
    }

    /// Waits until `is_complete` accepts the conversation of `a`. Returns the conversation.
    pub(crate) async fn wait_for(
        &mut self,
        is_complete: impl Fn(&[Arc<Message>]) -> bool,
    ) -> Vec<Arc<Message>> {
        loop {
            let messages = within(async {
                loop {
                    // An unreliable store may fail to return the conversation.
                    if let Ok(messages) = self.runtime.conversation(&a()).await {
                        return messages;
                    }
                }
            })
            .await;
            if is_complete(&messages) {
                return messages;
            }
            while !matches!(
                within(self.events.recv()).await.unwrap(),
                SwarmEvent::TurnEnded { .. }
            ) {}
        }
    }
}

/// Fails if the work hangs. The limit is longer than the longest retry delay, which is 60 s.
pub(crate) async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(600), work)
        .await
        .expect("the work hangs")
}

/// Returns the number of answers of `b` in a conversation.
pub(crate) fn answers(messages: &[Arc<Message>]) -> usize {
    messages
        .iter()
        .filter(|message| message.metadata.contains_key(INTER_AGENT_RESPONSE_KEY))
        .count()
}

fn bundle(policy: &str) -> Bundle {
    let export = |name: &str, idempotent| ExportSpec {
        name: name.to_owned(),
        description: "Does something.".to_owned(),
        parameters: json!({"type": "object"}),
        idempotent,
        ..ExportSpec::default()
    };
    let world = ToolManifest {
        name: "world".to_owned(),
        exports: vec![
            export("once", false),
            export("again", true),
            export("ask", true),
            export("wait", true),
        ]
        .into(),
        ..ToolManifest::default()
    };
    let extensions = vec![("message-window".to_owned(), JsonObject::new())];
    let base = BasePackage {
        tools: vec![world],
        extensions,
        ..BasePackage::default()
    };
    let files = MemoryFiles::new().file("/p/goondan.yaml", BUNDLE.replace("POLICY", policy));
    let loaded = load(LoadInput {
        root: Path::new("/p"),
        files: &files,
        base: &base,
    });
    loaded
        .bundle
        .unwrap_or_else(|| panic!("{:?}", loaded.diagnostics))
}

struct Tools {
    fs: SimFs,
    world: World,
}

#[async_trait]
impl ToolSource for Tools {
    async fn open(&self, tool: &Resource<Tool>, _root: &Path) -> Result<ToolSet, EntryOpenError> {
        let handler = |export: &ExportSpec| {
            let waits_for_b = ["ask", "wait"]
                .contains(&&*export.name)
                .then(|| export.name == "wait");
            Arc::new(Handler {
                fs: self.fs.clone(),
                world: Arc::clone(&self.world),
                waits_for_b,
            }) as Arc<dyn ToolHandler>
        };
        Ok(ToolSet {
            exports: tool
                .spec
                .exports
                .iter()
                .map(|export| (export.clone(), handler(export)))
                .collect(),
            unavailable: None,
        })
    }
}

struct Handler {
    fs: SimFs,
    world: World,
    /// If set, the tool sends a request to `b`; true if it waits for the answer.
    waits_for_b: Option<bool>,
}

#[async_trait]
impl ToolHandler for Handler {
    async fn call(
        &self,
        ctx: &ToolContext,
        _input: JsonObject,
    ) -> Result<ToolOutput, HandlerError> {
        if self.fs.is_dead() {
            // The tools of a killed process have no effects and never return.
            std::future::pending::<()>().await;
        }
        *self
            .world
            .lock()
            .unwrap()
            .entry(ctx.tool_call_id.clone())
            .or_default() += 1;
        if let Some(waits) = self.waits_for_b {
            let input = AgentEventInput {
                input: format!("question of {}", ctx.turn_id),
                ..AgentEventInput::default()
            };
            let accepted = ctx
                .runtime
                .request(
                    "b",
                    input,
                    RequestOptions {
                        timeout_ms: None,
                        async_: !waits,
                    },
                )
                .await?;
            if let Some(answer) = accepted.response {
                return Ok(ToolOutput::from(answer));
            }
        }
        Ok(ToolOutput::from(json!("done")))
    }
}

struct Models;

impl ModelFactory for Models {
    fn client(
        &self,
        _model: &Resource<Model>,
        _root: &Path,
        _environment: &Environment,
    ) -> Result<Arc<dyn ModelClient>, ModelError> {
        Ok(Arc::new(Models))
    }
}

#[async_trait]
impl ModelClient for Models {
    /// Answers an input first with tool calls and then with text. Answers other messages, and
    /// inputs whose ID starts with `quiet`, only with text.
    async fn stream(&self, request: ModelRequest) -> Result<ModelStream, ModelError> {
        let parts = match (
            &*request.instance.agent,
            unanswered_input(&request.messages),
        ) {
            ("q", Some(event)) => vec![call("wait", &event)],
            ("q", None) => after_the_wait(&request.messages),
            // Each answer of `b` is unique.
            ("b", _) => vec![MessagePart::text(format!(
                "answer {}",
                ANSWERS_GIVEN.fetch_add(1, Ordering::Relaxed)
            ))],
            (_, Some(event)) => vec![
                call("once", &event),
                call("again", &event),
                call("ask", &event),
            ],
            (_, None) => vec![MessagePart::text(format!(
                "answer to {}",
                request.messages.last().unwrap().id
            ))],
        };
        let answer = ModelChunk::finish(parts, None);
        Ok(futures::stream::iter([Ok(answer)]).boxed())
    }
}

fn unanswered_input(messages: &[Arc<Message>]) -> Option<String> {
    let turn = messages
        .iter()
        .rev()
        .take_while(|message| message.data.role == MessageRole::User);
    let mut inputs =
        turn.filter_map(|message| message.text().strip_prefix("input ").map(str::to_owned));
    inputs.next().filter(|event| !event.starts_with("quiet"))
}

fn after_the_wait(messages: &[Arc<Message>]) -> Vec<MessagePart> {
    let last = messages
        .iter()
        .rev()
        .find_map(|message| message.tool_results().next())
        .unwrap();
    match last.tool_call_id.strip_prefix("wait-") {
        Some(event) => vec![call("once", event)],
        None => vec![MessagePart::text("done")],
    }
}

fn call(export: &str, event: &str) -> MessagePart {
    MessagePart::ToolCall(ToolCall::new(
        format!("{export}-{event}"),
        format!("world__{export}"),
        Value::Object(JsonObject::new()),
    ))
}

/// Number of answers that `b` gave.
static ANSWERS_GIVEN: AtomicUsize = AtomicUsize::new(0);

//! A mock engine: validates arguments, fills in defaults, creates the context, calls the handler.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use goondan_core::JsonObject;
use goondan_core::ids::InstanceId;
use goondan_core::message::{Message, MessageData, MessagePart, MessageRole, MessageSource};
use goondan_core::ports::capabilities::{ConversationAccess, EmbeddingModels, ToolStateStore};
use goondan_core::ports::model::TokenUsage;
use goondan_core::ports::store::{AccumulatedUsage, InstanceMeta, InstanceStatus};
use goondan_core::ports::tool::{
    AgentCatalog, AgentEventInput, AgentRequestResult, AgentSendResult, AgentSpawnResult,
    AgentToolRuntime, HandlerError, LogLevel, ProgressSink, RequestOptions, SpawnOptions,
    SpawnedAgentInfo, ToolContext, ToolHandler, ToolLogger, ToolOutput, ToolSource as _,
};
use goondan_core::schema::ArgumentSchema;
use goondan_spec::kinds::{ExportSpec, Tool, ToolEntry};
use goondan_spec::{Code, Kind, Resource, ResourceId};
use goondan_tools::BuiltinTools;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

pub(crate) struct MockEngine {
    pub(crate) tools: BuiltinTools,
    pub(crate) dir: TempDir,
    pub(crate) runtime: Arc<FakeRuntime>,
    pub(crate) cancellation: CancellationToken,
    config: JsonObject,
}

impl MockEngine {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("work")).unwrap();
        MockEngine {
            tools: BuiltinTools::new(),
            dir,
            runtime: Arc::default(),
            cancellation: CancellationToken::new(),
            config: JsonObject::new(),
        }
    }

    pub(crate) fn config(mut self, config: Value) -> Self {
        self.config = object(config);
        self
    }

    /// Sets the environment of value sources.
    pub(crate) fn environment(mut self, environment: goondan_spec::Environment) -> Self {
        self.tools = std::mem::take(&mut self.tools).environment(environment);
        self
    }

    /// Sets the cache directory.
    pub(crate) fn cache(mut self, path: &Path) -> Self {
        self.tools = std::mem::take(&mut self.tools).cache_dir(path);
        self
    }

    /// Returns the working directory without symbolic links.
    pub(crate) fn work(&self) -> std::path::PathBuf {
        self.dir.path().join("work").canonicalize().unwrap()
    }

    pub(crate) fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.work().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    pub(crate) fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.work().join(path)).unwrap()
    }

    /// Calls `resource__export` like the engine: arguments that violate the schema never reach the
    /// handler.
    pub(crate) async fn call(&self, name: &str, args: Value) -> Result<ToolOutput, HandlerError> {
        let (spec, handler) = self.open(name).await;
        let mut context = self.context();
        context
            .granted
            .extend(spec.permissions.iter().chain(&spec.optional_permissions));
        let input = ArgumentSchema::new(spec.parameters)
            .check(&args)
            .map_err(|invalid| {
                HandlerError::new(invalid.message)
                    .code(Code::TOOL_INVALID_ARGS)
                    .suggest(invalid.suggestion)
            })?;
        handler.call(&context, input).await
    }

    /// Calls an export that must succeed, and returns its output.
    pub(crate) async fn ok(&self, name: &str, args: Value) -> Value {
        self.call(name, args)
            .await
            .unwrap_or_else(|error| panic!("{name} failed: {error:?}"))
            .output
    }

    /// Calls an export that must fail, and returns the code and the message.
    pub(crate) async fn err(&self, name: &str, args: Value) -> (String, String) {
        let error = self
            .call(name, args)
            .await
            .expect_err("the call should fail");
        (error.code.unwrap_or_default(), error.message)
    }

    pub(crate) async fn open(&self, name: &str) -> (ExportSpec, Arc<dyn ToolHandler>) {
        let (resource, export) = name.split_once("__").unwrap();
        let tool = resource_of(
            resource,
            ToolEntry::Builtin(resource.to_owned()),
            self.config.clone(),
        );
        let set = self.tools.open(&tool, self.dir.path()).await.unwrap();
        set.exports
            .into_iter()
            .find(|(spec, _)| spec.name == export)
            .unwrap()
    }

    /// Opens the tool of `resource__export` with the config, and returns only the error.
    pub(crate) async fn try_open(&self, name: &str) -> Result<(), String> {
        let resource = name.split_once("__").unwrap().0;
        let tool = resource_of(
            resource,
            ToolEntry::Builtin(resource.to_owned()),
            self.config.clone(),
        );
        self.tools
            .open(&tool, self.dir.path())
            .await
            .map(|_| ())
            .map_err(|error| error.cause.to_string())
    }

    pub(crate) fn context(&self) -> ToolContext {
        let message = Message {
            id: "m1".to_owned(),
            data: MessageData {
                role: MessageRole::Assistant,
                content: Vec::new(),
            },
            metadata: JsonObject::new(),
            created_at: chrono::Utc::now(),
            source: MessageSource::Assistant {
                step_id: "s1".to_owned(),
            },
        };
        ToolContext {
            agent_name: "assistant".to_owned(),
            instance_key: "main".to_owned(),
            turn_id: "t1".to_owned(),
            trace_id: "0".repeat(32),
            caller: None,
            tool_call_id: "c1".to_owned(),
            message: Arc::new(message),
            workdir: self.work(),
            project_dir: self.dir.path().to_owned(),
            sandboxes: Vec::new(),
            run_mode: Default::default(),
            granted: Default::default(),
            approved_files: Default::default(),
            approved_code: None,
            runtime: Arc::clone(&self.runtime) as Arc<dyn AgentToolRuntime>,
            logger: Arc::new(DiscardOutput),
            progress: Arc::new(DiscardOutput),
            cancellation: self.cancellation.clone(),
        }
    }
}

pub(crate) fn resource_of(name: &str, entry: ToolEntry, config: JsonObject) -> Resource<Tool> {
    let spec = Tool {
        entry,
        config,
        error_message_limit: 1000,
        output_limit: 100_000,
        timeout: std::time::Duration::from_secs(120),
        exports: Default::default(),
        overrides: Vec::new(),
        isolation: Default::default(),
        build: None,
        variables: Vec::new(),
    };
    Resource {
        id: ResourceId::base(Kind::Tool, name),
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        origin: None,
        spec,
    }
}

pub(crate) fn object(value: Value) -> JsonObject {
    match value {
        Value::Object(object) => object,
        other => panic!("{other} is not an object"),
    }
}

pub(crate) fn exists(path: impl AsRef<Path>) -> bool {
    path.as_ref().symlink_metadata().is_ok()
}

struct DiscardOutput;

impl ToolLogger for DiscardOutput {
    fn log(&self, _level: LogLevel, _message: &str, _fields: JsonObject) {}
}

impl ProgressSink for DiscardOutput {
    fn update(&self, _title: &str, _metadata: JsonObject) {}
}

/// A swarm with the agents `assistant` and `worker`, which answer requests with the reversed input.
#[derive(Default)]
pub(crate) struct FakeRuntime {
    /// Values that tools store.
    state: Mutex<BTreeMap<String, Value>>,
    /// Agents and keys of spawned conversations, which are all running.
    spawned: Mutex<Vec<(String, String)>>,
    /// Number of embedded texts.
    embedded: Mutex<usize>,
    /// Received operations, as text.
    pub(crate) log: Mutex<Vec<String>>,
}

impl FakeRuntime {
    pub(crate) fn embedded(&self) -> usize {
        *self.embedded.lock().unwrap()
    }

    fn record(&self, operation: String) {
        self.log.lock().unwrap().push(operation);
    }

    fn check_agent(target: &str) -> Result<(), HandlerError> {
        match target {
            "assistant" | "worker" => Ok(()),
            other => Err(HandlerError::new(format!("there is no agent `{other}`"))
                .code(Code::AGENT_NOT_FOUND)),
        }
    }
}

#[async_trait]
impl AgentToolRuntime for FakeRuntime {
    async fn request(
        &self,
        target: &str,
        event: AgentEventInput,
        options: RequestOptions,
    ) -> Result<AgentRequestResult, HandlerError> {
        self.record(format!("request {target} {event:?} {options:?}"));
        FakeRuntime::check_agent(target)?;
        if event.input == "never" {
            std::future::pending::<()>().await;
        }
        let response =
            (!options.async_).then(|| Value::from(event.input.chars().rev().collect::<String>()));
        Ok(AgentRequestResult {
            event_id: "e2".to_owned(),
            target: target.to_owned(),
            response,
            correlation_id: "k1".to_owned(),
            accepted: true,
            asynchronous: options.async_,
        })
    }

    async fn send(
        &self,
        target: &str,
        event: AgentEventInput,
    ) -> Result<AgentSendResult, HandlerError> {
        self.record(format!("send {target} {event:?}"));
        FakeRuntime::check_agent(target)?;
        Ok(AgentSendResult {
            event_id: "e1".to_owned(),
            target: target.to_owned(),
            accepted: true,
        })
    }

    async fn spawn(
        &self,
        target: &str,
        options: SpawnOptions,
    ) -> Result<AgentSpawnResult, HandlerError> {
        self.record(format!("spawn {target} {options:?}"));
        FakeRuntime::check_agent(target)?;
        let instance_key = options
            .instance_key
            .unwrap_or_else(|| format!("{target}-1"));
        self.spawned
            .lock()
            .unwrap()
            .push((target.to_owned(), instance_key.clone()));
        Ok(AgentSpawnResult {
            target: target.to_owned(),
            instance_key,
            spawned: true,
            cwd: options.cwd,
        })
    }

    async fn list_instances(
        &self,
        include_all: bool,
    ) -> Result<Vec<SpawnedAgentInfo>, HandlerError> {
        let info = |owner: &str| SpawnedAgentInfo {
            target: "worker".to_owned(),
            instance_key: "k".to_owned(),
            owner_agent: owner.to_owned(),
            owner_instance_key: "main".to_owned(),
            created_at: "2026-01-15T10:00:00.000Z".to_owned(),
            cwd: None,
        };
        Ok(if include_all {
            vec![info("assistant"), info("")]
        } else {
            vec![info("assistant")]
        })
    }

    async fn within_reach(&self, ids: Vec<InstanceId>) -> Result<Vec<InstanceId>, HandlerError> {
        Ok(ids)
    }

    async fn catalog(&self) -> Result<AgentCatalog, HandlerError> {
        Ok(AgentCatalog {
            swarm_name: "default".to_owned(),
            entry_agent: "assistant".to_owned(),
            self_agent: "assistant".to_owned(),
            available_agents: vec!["assistant".to_owned(), "worker".to_owned()],
            callable_agents: vec!["worker".to_owned()],
            descriptions: Default::default(),
        })
    }

    fn sessions(&self) -> Option<&dyn ConversationAccess> {
        Some(self)
    }

    fn state(&self) -> Option<&dyn ToolStateStore> {
        Some(self)
    }

    fn embeddings(&self) -> Option<&dyn EmbeddingModels> {
        Some(self)
    }
}

/// Embeds a text as one of two vectors: texts about cats, and other texts.
#[async_trait]
impl EmbeddingModels for FakeRuntime {
    fn model_identity(&self, model: &str) -> Result<String, HandlerError> {
        Ok(model.to_owned())
    }

    async fn embed(&self, model: &str, texts: Vec<String>) -> Result<Vec<Vec<f32>>, HandlerError> {
        if model == "broken" {
            return Err(HandlerError::new("the model does not respond"));
        }
        *self.embedded.lock().unwrap() += texts.len();
        let is_cat = |text: &str| text.contains("cat") || text.contains("feline");
        Ok(texts
            .iter()
            .map(|text| {
                if is_cat(text) {
                    vec![1.0, 0.0]
                } else {
                    vec![0.0, 1.0]
                }
            })
            .collect())
    }
}

/// The conversations: `assistant:main` is idle; its subagent `worker:k` is running, and its last
/// message is "hi".
#[async_trait]
impl ConversationAccess for FakeRuntime {
    async fn sessions(&self) -> Result<Vec<InstanceMeta>, HandlerError> {
        let meta = |agent: &str, key: &str, status, owner, second: i64| InstanceMeta {
            status,
            agent: agent.to_owned(),
            instance_key: key.to_owned(),
            created_at: chrono::DateTime::UNIX_EPOCH,
            updated_at: chrono::DateTime::UNIX_EPOCH + chrono::TimeDelta::seconds(second),
            owner,
            cwd: None,
            released_at: None,
            retired_at: None,
            narrowing: None,
            spending: AccumulatedUsage {
                usage: TokenUsage {
                    prompt_tokens: 10,
                    completion_tokens: 5,
                    total_tokens: 15,
                    ..TokenUsage::default()
                },
                cost: (agent == "worker").then_some(0.1 + 0.2),
            },
        };
        let main = InstanceId::new("assistant", "main");
        let mut all = vec![
            meta("assistant", "main", InstanceStatus::Idle, None, 1),
            meta("worker", "k", InstanceStatus::Processing, Some(main), 2),
        ];
        let spawned = self.spawned.lock().unwrap();
        all.extend(
            spawned
                .iter()
                .map(|(agent, key)| meta(agent, key, InstanceStatus::Processing, None, 3)),
        );
        Ok(all)
    }

    async fn history(&self, id: &InstanceId) -> Result<Vec<Arc<Message>>, HandlerError> {
        let texts = ["one", "two", "hi"]
            .into_iter()
            .filter(|_| id.agent == "worker");
        let message = |text: &str| Message {
            id: text.to_owned(),
            data: MessageData {
                role: MessageRole::User,
                content: vec![MessagePart::text(text)],
            },
            metadata: JsonObject::new(),
            created_at: chrono::DateTime::UNIX_EPOCH,
            source: MessageSource::User,
        };
        Ok(texts.map(|text| Arc::new(message(text))).collect())
    }

    async fn currency(&self, _id: &InstanceId) -> Option<String> {
        Some("EUR".to_owned())
    }
}

#[async_trait]
impl ToolStateStore for FakeRuntime {
    async fn load(&self, name: &str) -> Result<Option<Value>, HandlerError> {
        Ok(self.state.lock().unwrap().get(name).cloned())
    }

    async fn save(&self, name: &str, value: Value) -> Result<(), HandlerError> {
        self.state.lock().unwrap().insert(name.to_owned(), value);
        Ok(())
    }

    async fn all_values(&self, name: &str) -> Result<Vec<(InstanceId, Value)>, HandlerError> {
        let own = InstanceId::new("tester", "main");
        Ok(self
            .load(name)
            .await?
            .map(|value| (own, value))
            .into_iter()
            .collect())
    }
}

/// Returns the keys of an object, in order.
pub(crate) fn keys(value: &Value) -> Vec<&str> {
    value
        .as_object()
        .map(|object| object.keys().map(String::as_str).collect())
        .unwrap_or_default()
}

/// Adds a parameter that every export must reject.
pub(crate) fn with_unknown(mut args: Value) -> Value {
    args["noSuchParameter"] = json!(1);
    args
}

/// Waits until `is_true` returns true. Panics after 30 seconds.
pub(crate) async fn until(what: &str, mut is_true: impl FnMut() -> bool) {
    let wait = async {
        while !is_true() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(30), wait)
        .await
        .unwrap_or_else(|_| panic!("timed out waiting for {what}"));
}

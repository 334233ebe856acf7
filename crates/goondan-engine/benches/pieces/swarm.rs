//! A swarm in memory, whose model and tool cost nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt;
use goondan_core::JsonObject;
use goondan_core::ids::InstanceId;
use goondan_core::message::{MessagePart, MessageRole, ToolCall};
use goondan_core::ports::approval::ApproveAll;
use goondan_core::ports::clock::SystemClock;
use goondan_core::ports::model::{
    ModelChunk, ModelClient, ModelError, ModelFactory, ModelRequest, ModelStream,
};
use goondan_core::ports::tool::{
    EntryOpenError, HandlerError, ToolContext, ToolHandler, ToolOutput, ToolSet, ToolSource,
};
use goondan_core::ports::tracing::ForwardCallerTrace;
use goondan_engine::plan::{PlanPorts, plan};
use goondan_engine::runtime::{EngineNodeParts, ExternalInput, RuntimeParts, SwarmRuntime};
use goondan_spec::kinds::{ExportSpec, Model, Tool, ToolManifest};
use goondan_spec::{BasePackage, Environment, LoadInput, MemoryFiles, Resource, load};
use goondan_store::memory::MemoryStore;
use serde_json::{Value, json};

const STEPS: usize = 50;

const BUNDLE: &str = "
apiVersion: goondan.ai/v1
kind: Model
metadata: {name: m}
spec: {provider: scripted, model: any}
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: a}
spec: {modelConfig: {modelRef: Model/m}, tools: [{ref: Tool/empty}], permissions: {default: allow}}
---
apiVersion: goondan.ai/v1
kind: Swarm
metadata: {name: default}
spec: {entryAgent: Agent/a, agents: [{ref: Agent/a}], policy: {maxStepsPerTurn: 1000, repetition: {exclude: [empty__call]}}}
";

/// One call through dispatch.
pub(super) fn call() -> Box<dyn FnMut()> {
    let (executor, runtime) = start();
    Box::new(move || {
        let id = InstanceId::new("a", "main");
        let result = executor.block_on(runtime.call_tool(
            id,
            "empty__call",
            Value::Object(JsonObject::new()),
        ));
        assert!(result.expect("the agent is there").error.is_none());
    })
}

/// One turn in a conversation of its own.
pub(super) fn turn() -> Box<dyn FnMut()> {
    let (executor, runtime) = start();
    let mut number = 0;
    Box::new(move || {
        number += 1;
        let target = InstanceId::new("a", format!("i{number}"));
        let result = executor.block_on(async {
            let accepted = runtime.send(ExternalInput::text(target, "go")).await;
            accepted
                .expect("it is accepted")
                .result
                .await
                .expect("it ends")
        });
        assert!(result.error.is_none(), "{:?}", result.error);
    })
}

fn start() -> (tokio::runtime::Runtime, SwarmRuntime) {
    // The fewest threads that there can be, so that instructions can be counted.
    let executor = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(1)
        .build();
    let executor = executor.expect("an executor");
    let runtime = executor.block_on(async {
        let base = BasePackage {
            tools: vec![manifest()],
            ..BasePackage::default()
        };
        let files = MemoryFiles::new().file("/p/goondan.yaml", BUNDLE.to_owned());
        let loaded = load(LoadInput {
            root: Path::new("/p"),
            files: &files,
            base: &base,
        });
        let bundle = Arc::new(loaded.bundle.expect("the bundle is valid"));
        let swarm = bundle.choose_swarm(None).expect("a swarm");
        let ports = PlanPorts {
            tools: Arc::new(Empty),
            extensions: Arc::new(()),
            models: Arc::new(Calls),
        };
        let generation = plan(&bundle, swarm, 1, &ports, &Environment::default(), None)
            .await
            .expect("a plan");
        let node = EngineNodeParts {
            tracing: Arc::new(ForwardCallerTrace),
            has_sandbox: false,
            redactor: goondan_engine::policy::redact::SecretRedactor::new(),
            generation: Arc::new(generation),
            store: Arc::new(MemoryStore::new(PathBuf::from("/nowhere"))),
            clock: Arc::new(SystemClock),
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
        SwarmRuntime::start(parts).await.expect("it starts").0
    });
    (executor, runtime)
}

fn manifest() -> ToolManifest {
    let export = ExportSpec {
        name: "call".to_owned(),
        description: "Does nothing.".to_owned(),
        parameters: json!({"type": "object"}),
        ..ExportSpec::default()
    };
    ToolManifest {
        name: "empty".to_owned(),
        exports: vec![export].into(),
        ..ToolManifest::default()
    }
}

struct Empty;

#[async_trait]
impl ToolSource for Empty {
    async fn open(&self, tool: &Resource<Tool>, _root: &Path) -> Result<ToolSet, EntryOpenError> {
        let exports = tool
            .spec
            .exports
            .iter()
            .map(|export| (export.clone(), Arc::new(Empty) as Arc<dyn ToolHandler>));
        Ok(ToolSet {
            exports: exports.collect(),
            unavailable: None,
        })
    }
}

#[async_trait]
impl ToolHandler for Empty {
    async fn call(
        &self,
        _ctx: &ToolContext,
        _input: JsonObject,
    ) -> Result<ToolOutput, HandlerError> {
        Ok(ToolOutput::from(Value::Null))
    }
}

struct Calls;

impl ModelFactory for Calls {
    fn client(
        &self,
        _model: &Resource<Model>,
        _root: &Path,
        _environment: &Environment,
    ) -> Result<Arc<dyn ModelClient>, ModelError> {
        Ok(Arc::new(Calls))
    }
}

#[async_trait]
impl ModelClient for Calls {
    async fn stream(&self, request: ModelRequest) -> Result<ModelStream, ModelError> {
        let results = request
            .messages
            .iter()
            .filter(|message| message.data.role == MessageRole::Tool)
            .count();
        let part = if results < STEPS {
            let arguments = Value::Object(JsonObject::new());
            MessagePart::ToolCall(ToolCall::new(
                format!("c{results}"),
                "empty__call",
                arguments,
            ))
        } else {
            MessagePart::text("done")
        };
        let answer = ModelChunk::finish(vec![part], None);
        Ok(futures::stream::iter([Ok(answer)]).boxed())
    }
}

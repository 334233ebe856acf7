//! Builds the example libraries and provides a mock engine.

#[path = "../../../../tests/src/nested_cargo.rs"]
pub(crate) mod nested_cargo;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use chrono::DateTime;
use goondan_core::JsonObject;
use goondan_core::ids::InstanceId;
use goondan_core::message::{Message, MessageData, MessageRole, MessageSource};
use goondan_core::ports::tool::{
    AgentCatalog, AgentEventInput, AgentRequestResult, AgentSendResult, AgentSpawnResult,
    AgentToolRuntime, EntryOpenError, HandlerError, LogLevel, ProgressSink, RequestOptions,
    SpawnOptions, SpawnedAgentInfo, ToolContext, ToolHandler, ToolLogger, ToolOutput, ToolSet,
    ToolSource,
};
use goondan_dylib::{DynamicLibraries, HostCommand, LibraryLimits};
use goondan_spec::kinds::{ExportSpec, Tool, ToolEntry};
use goondan_spec::{Code, Kind, Resource, ResourceId};
use serde_json::Value;
use tempfile::TempDir;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// File names and paths of the libraries and programs, built once for all tests.
static BUILT: LazyLock<BTreeMap<String, PathBuf>> = LazyLock::new(build);

pub(crate) fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn build() -> BTreeMap<String, PathBuf> {
    let packages = ["text-utils", "counter", "ask-agent", "slow", "hostile"];
    let mut cargo = nested_cargo::nested_cargo();
    cargo.current_dir(workspace()).args([
        "build",
        "--quiet",
        "--message-format=json-render-diagnostics",
    ]);
    cargo.args(packages.iter().flat_map(|package| ["-p", package]));
    // Includes the CLI crate, so that dependencies are built with the same features and not twice.
    cargo.args([
        "-p",
        "goondan-dylib",
        "-p",
        "goondan-cli",
        "--lib",
        "--example",
        "tool-host",
    ]);
    artifacts(&mut cargo)
}

fn artifacts(cargo: &mut Command) -> BTreeMap<String, PathBuf> {
    // Use the profile of this program, because a benchmark measures release builds.
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    let output = cargo
        .stderr(std::process::Stdio::inherit())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "the plug-ins do not build");
    let lines = String::from_utf8(output.stdout).expect("JSON");
    let messages = lines
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut built = BTreeMap::new();
    for message in messages.filter(|message| message["reason"] == "compiler-artifact") {
        let name = message["target"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        for file in message["filenames"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
        {
            let is_library = file.ends_with(std::env::consts::DLL_SUFFIX);
            if is_library || message["executable"].as_str() == Some(file) {
                built.insert(name.clone(), PathBuf::from(file));
            }
        }
    }
    built
}

/// Returns the library of the example `name`, such as `text_utils`.
pub(crate) fn plugin(name: &str) -> &'static Path {
    &BUILT[name]
}

pub(crate) fn host_command() -> HostCommand {
    HostCommand {
        program: BUILT["tool-host"].clone(),
        args: Vec::new(),
    }
}

/// Compiles a C library to `target`. `defines` have the form `MAGIC=1`.
pub(crate) fn compile_c(source: &str, defines: &[&str], target: &Path) {
    let folder = workspace();
    let status = Command::new("cc")
        .args([
            "-shared",
            "-fPIC",
            "-pthread",
            "-std=c11",
            "-Wall",
            "-Wextra",
            "-Wno-unused-function",
            "-Werror",
            "-I",
        ])
        .arg(folder.join("include"))
        .args(defines.iter().map(|define| format!("-D{define}")))
        .arg(folder.join("examples/plugins").join(source))
        .arg("-o")
        .arg(target)
        .status()
        .expect("`cc` exists, because Rust links with it");
    assert!(
        status.success(),
        "{source} does not compile with {defines:?}"
    );
}

/// Directory with libraries, and the loader that opens them.
pub(crate) struct LibraryFixture {
    pub(crate) folder: TempDir,
    pub(crate) libraries: DynamicLibraries,
}

pub(crate) fn count(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

/// Returns short time limits, so that tests are fast.
pub(crate) fn short_limits() -> LibraryLimits {
    LibraryLimits {
        open_timeout: Duration::from_secs(20),
        cancel_grace: Duration::from_millis(50),
        close_grace: Duration::from_millis(50),
        max_written_off: 2,
        ..LibraryLimits::default()
    }
}

impl LibraryFixture {
    pub(crate) fn new() -> LibraryFixture {
        LibraryFixture::with_limits(short_limits())
    }

    pub(crate) fn with_limits(limits: LibraryLimits) -> LibraryFixture {
        let folder = tempfile::tempdir().expect("a folder");
        let libraries = DynamicLibraries::new(folder.path().join("staging"), limits);
        LibraryFixture { folder, libraries }
    }

    pub(crate) fn hosted(limits: LibraryLimits) -> LibraryFixture {
        let folder = tempfile::tempdir().expect("a folder");
        let libraries =
            DynamicLibraries::hosted(folder.path().join("staging"), limits, host_command());
        LibraryFixture { folder, libraries }
    }

    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.folder.path().join(file)
    }

    /// Opens `entry`, relative to the directory.
    pub(crate) async fn open(&self, entry: &str) -> Result<Exports, EntryOpenError> {
        self.open_tool(&tool(entry)).await
    }

    pub(crate) async fn open_tool(&self, tool: &Resource<Tool>) -> Result<Exports, EntryOpenError> {
        self.libraries
            .open(tool, self.folder.path())
            .await
            .map(Exports)
    }

    /// Copies the library of an example into the directory, and opens it.
    pub(crate) async fn example(&self, name: &str) -> Exports {
        std::fs::copy(plugin(name), self.path("libsubject.so")).expect("copied");
        self.open("libsubject.so").await.expect("the library opens")
    }

    /// Compiles the hostile C library into the directory, and opens it.
    pub(crate) async fn c_hostile(&self, defines: &[&str]) -> Result<Exports, EntryOpenError> {
        compile_c("c-hostile/hostile.c", defines, &self.path("libsubject.so"));
        self.open("libsubject.so").await
    }
}

pub(crate) fn tool(entry: &str) -> Resource<Tool> {
    Resource {
        id: ResourceId {
            package: None,
            kind: Kind::Tool,
            name: "subject".to_owned(),
        },
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        origin: None,
        spec: Tool::new(ToolEntry::Library(entry.to_owned())),
    }
}

pub(crate) struct Exports(pub(crate) ToolSet);

impl Exports {
    pub(crate) fn spec(&self, export: &str) -> &ExportSpec {
        &self
            .0
            .exports
            .iter()
            .find(|(spec, _)| spec.name == export)
            .expect("the export exists")
            .0
    }

    pub(crate) fn handler(&self, export: &str) -> Arc<dyn ToolHandler> {
        let found = self.0.exports.iter().find(|(spec, _)| spec.name == export);
        Arc::clone(&found.expect("the export exists").1)
    }

    /// Calls an export with a new context.
    pub(crate) async fn call(
        &self,
        export: &str,
        arguments: Value,
    ) -> Result<ToolOutput, HandlerError> {
        self.call_in(&MockEngine::new(), export, arguments).await
    }

    pub(crate) async fn call_in(
        &self,
        engine: &MockEngine,
        export: &str,
        arguments: Value,
    ) -> Result<ToolOutput, HandlerError> {
        let Value::Object(arguments) = arguments else {
            panic!("the arguments are not an object")
        };
        self.handler(export).call(&engine.context, arguments).await
    }

    /// Calls an export, and returns the error code.
    pub(crate) async fn code(&self, export: &str) -> Option<String> {
        self.call(export, serde_json::json!({}))
            .await
            .expect_err("the call fails")
            .code
    }
}

/// Mock engine: a tool context and the calls that it records.
pub(crate) struct MockEngine {
    pub(crate) context: ToolContext,
    pub(crate) recorded: Arc<RecordedCalls>,
}

#[derive(Default)]
pub(crate) struct RecordedCalls {
    pub(crate) lines: Mutex<Vec<(LogLevel, String, JsonObject)>>,
    pub(crate) titles: Mutex<Vec<String>>,
    pub(crate) agent_requests: Mutex<Vec<String>>,
    activity: Notify,
}

impl MockEngine {
    pub(crate) fn new() -> MockEngine {
        let recorded = Arc::new(RecordedCalls::default());
        let message = Message {
            id: "m1".to_owned(),
            data: MessageData {
                role: MessageRole::Assistant,
                content: Vec::new(),
            },
            metadata: JsonObject::new(),
            created_at: DateTime::UNIX_EPOCH,
            source: MessageSource::System,
        };
        let context = ToolContext {
            agent_name: "assistant".to_owned(),
            instance_key: "main".to_owned(),
            turn_id: "t1".to_owned(),
            trace_id: "0".repeat(32),
            caller: None,
            tool_call_id: "c1".to_owned(),
            message: Arc::new(message),
            workdir: std::env::temp_dir(),
            project_dir: std::env::temp_dir(),
            sandboxes: Vec::new(),
            run_mode: Default::default(),
            granted: Default::default(),
            approved_files: Default::default(),
            approved_code: None,
            runtime: Arc::clone(&recorded) as _,
            logger: Arc::clone(&recorded) as _,
            progress: Arc::clone(&recorded) as _,
            cancellation: CancellationToken::new(),
        };
        MockEngine { context, recorded }
    }

    /// Waits for the first progress update or agent request of the call.
    pub(crate) async fn wait_for_progress(&self) {
        self.recorded.activity.notified().await;
    }
}

impl ToolLogger for RecordedCalls {
    fn log(&self, level: LogLevel, message: &str, fields: JsonObject) {
        self.lines
            .lock()
            .expect("not poisoned")
            .push((level, message.to_owned(), fields));
    }
}

impl ProgressSink for RecordedCalls {
    fn update(&self, title: &str, _metadata: JsonObject) {
        self.titles
            .lock()
            .expect("not poisoned")
            .push(title.to_owned());
        self.activity.notify_one();
    }
}

/// Echoes the input. The agent `silent` never answers, and the agent `nobody` does not exist.
#[async_trait]
impl AgentToolRuntime for RecordedCalls {
    async fn request(
        &self,
        target: &str,
        event: AgentEventInput,
        options: RequestOptions,
    ) -> Result<AgentRequestResult, HandlerError> {
        self.agent_requests
            .lock()
            .expect("not poisoned")
            .push(format!("request {target}: {}", event.input));
        self.activity.notify_one();
        match target {
            "nobody" => Err(HandlerError::new("no agent `nobody`")
                .code(Code::AGENT_NOT_FOUND)
                .suggest("ask writer")),
            "silent" => std::future::pending().await,
            _ => Ok(AgentRequestResult {
                event_id: "e1".to_owned(),
                target: target.to_owned(),
                response: Some(Value::String(format!("you asked: {}", event.input))),
                correlation_id: "k1".to_owned(),
                accepted: true,
                asynchronous: options.async_,
            }),
        }
    }

    async fn send(
        &self,
        target: &str,
        event: AgentEventInput,
    ) -> Result<AgentSendResult, HandlerError> {
        let key = event.instance_key.unwrap_or_default();
        self.agent_requests
            .lock()
            .expect("not poisoned")
            .push(format!("send {target}:{key}: {}", event.input));
        Ok(AgentSendResult {
            event_id: "e2".to_owned(),
            target: target.to_owned(),
            accepted: true,
        })
    }

    async fn spawn(
        &self,
        target: &str,
        options: SpawnOptions,
    ) -> Result<AgentSpawnResult, HandlerError> {
        let instance_key = options
            .instance_key
            .unwrap_or_else(|| format!("{target}-1"));
        Ok(AgentSpawnResult {
            target: target.to_owned(),
            instance_key,
            spawned: true,
            cwd: options.cwd,
        })
    }

    async fn list_instances(
        &self,
        _include_all: bool,
    ) -> Result<Vec<SpawnedAgentInfo>, HandlerError> {
        Ok(vec![SpawnedAgentInfo {
            target: "writer".to_owned(),
            instance_key: "writer-1".to_owned(),
            owner_agent: "assistant".to_owned(),
            owner_instance_key: "main".to_owned(),
            created_at: "1970-01-01T00:00:00Z".to_owned(),
            cwd: None,
        }])
    }

    async fn within_reach(&self, ids: Vec<InstanceId>) -> Result<Vec<InstanceId>, HandlerError> {
        Ok(ids)
    }

    async fn catalog(&self) -> Result<AgentCatalog, HandlerError> {
        Ok(AgentCatalog {
            swarm_name: "default".to_owned(),
            entry_agent: "assistant".to_owned(),
            self_agent: "assistant".to_owned(),
            available_agents: vec!["assistant".to_owned(), "writer".to_owned()],
            callable_agents: vec!["writer".to_owned()],
            descriptions: Default::default(),
        })
    }
}

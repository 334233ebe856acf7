//! Configuration of all swarms of a test case.

use std::path::PathBuf;
use std::sync::Arc;

use goondan::mcp::ServerMocks;
use goondan::ports::model::ModelFactory;
use goondan::spec::{Bundle, Environment};
use goondan::{HostCommand, SharedDatabase, StateRoot, Swarm, SwarmBuilder, ToolStubs};
use tokio::runtime::{Builder, Runtime};

use super::approval::ScriptedApprover;
use super::case_context::CaseContext;
use super::clock::CaseClock;
use super::logs::CaseLogs;
use super::mcp_mocks::McpServers;
use super::models::CaseModels;
use super::tool_mocks::ToolMocks;

/// Configuration of all swarms of a test case. Clones share its state.
#[derive(Clone)]
pub(super) struct SwarmConfig {
    bundle: Arc<Bundle>,
    state_root: PathBuf,
    /// Workspace id.
    pub(super) workspace: String,
    environment: Environment,
    answers: ScriptedApprover,
    clock: CaseClock,
    mcp: Arc<McpServers>,
    tools: Arc<ToolMocks>,
    pub(super) models: Arc<CaseModels>,
    pub(super) logs: CaseLogs,
    tool_host: Option<HostCommand>,
}

impl SwarmConfig {
    /// Returns the configuration with the current bundle.
    pub(super) fn new(context: &CaseContext<'_>, bundle: Arc<Bundle>) -> Self {
        SwarmConfig {
            state_root: context.state_root(),
            workspace: workspace(&bundle),
            environment: context.environment(),
            answers: context.answers.clone(),
            clock: context.clock.clone(),
            mcp: Arc::clone(&context.mcp),
            tools: Arc::clone(&context.tools),
            models: Arc::clone(&context.models),
            logs: context.logs.clone(),
            tool_host: context.tool_host.clone(),
            bundle,
        }
    }

    /// Changes the state root to a directory of the node, inside the state root of the test case.
    pub(super) fn of_node(mut self, number: usize) -> Self {
        if number > 1 {
            self.state_root = self.state_root.join("nodes").join(number.to_string());
        }
        self
    }

    /// Returns a builder with the models of the test case.
    pub(super) fn builder(&self, database: Option<SharedDatabase>) -> SwarmBuilder {
        self.builder_with(database, Arc::clone(&self.models) as Arc<dyn ModelFactory>)
    }

    /// Creates the builder of the swarm with the mocks and settings of the test case.
    pub(super) fn builder_with(
        &self,
        database: Option<SharedDatabase>,
        models: Arc<dyn ModelFactory>,
    ) -> SwarmBuilder {
        let mut builder = Swarm::builder(Arc::clone(&self.bundle));
        if let Some(database) = database {
            builder = builder.database(database);
        }
        if let Some(host) = &self.tool_host {
            builder = builder.tool_host(host.clone());
        }
        builder
            .state_root(self.state_root.clone())
            .workspace(StateRoot(self.state_root.clone()).workspace(&self.workspace))
            .environment(self.environment.clone())
            .redactor(self.logs.redactor.clone())
            .approver(Arc::new(self.answers.clone()))
            .clock(Arc::new(self.clock.clone()))
            .mcp_mocks(Arc::clone(&self.mcp) as Arc<dyn ServerMocks>)
            .tool_stubs(Arc::clone(&self.tools) as Arc<dyn ToolStubs>)
            .models(models)
    }

    /// Returns a single-threaded runtime, whose tasks run only while a caller blocks on it. A kill
    /// therefore drops all tasks at once. Tasks on worker threads would run until they notice the
    /// end, and would record failures.
    pub(super) fn current_thread_runtime(&self) -> Runtime {
        build_runtime(Builder::new_current_thread(), &self.logs)
    }
}

/// Returns a runtime whose threads log to the test case's log.
pub(super) fn build_runtime(mut builder: Builder, logs: &CaseLogs) -> Runtime {
    let dispatch = logs.dispatch();
    let set_log = move || std::mem::forget(tracing::dispatcher::set_default(&dispatch));
    let built = builder.enable_all().on_thread_start(set_log).build();
    built.expect("the system lets us open a file descriptor or two")
}

/// Returns the workspace id for the swarm name or its `instanceKey`. It does not depend on the
/// project path, so test cases can name paths in the workspace.
fn workspace(bundle: &Bundle) -> String {
    let swarm = bundle.choose_swarm(None).ok();
    let key = swarm.map(|swarm| swarm.spec.instance_key.as_deref().unwrap_or(&swarm.id.name));
    // A bundle without a swarm does not start.
    StateRoot(PathBuf::new())
        .workspace(key.unwrap_or_default())
        .id
}

//! Tool source that selects the adapter by the form of a tool's entry.

pub mod connectors;
pub(crate) mod embedded_tools;
pub(crate) mod mcp_servers;
pub(crate) mod script_hosts;
pub(crate) mod tool_stubs;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use goondan_core::JsonObject;
use goondan_core::connector_host::{ConnectorHost, ConnectorStart};
use goondan_core::ids::InstanceId;
use goondan_core::ports::extension::{ExtensionCode, ExtensionSource};
use goondan_core::ports::model::ModelFactory;
use goondan_core::ports::tool::{
    EntryOpenError, HandlerError, InstanceObserver, ToolSet, ToolSource,
};
use goondan_core::redact::SecretRedactor;
use goondan_dylib::{DynamicLibraries, HostCommand, LibraryLimits};
use goondan_engine::plan::PlanPorts;
use goondan_hosts::ScriptModules;
use goondan_mcp::{A2aTools, McpTools, ServerMocks};
use goondan_spec::kinds::{
    ConnectorEntry, Extension, ExtensionEntry, Tool, ToolEntry, ToolIsolation,
};
use goondan_spec::{Environment, Resource, ResourceId};
use goondan_tools::{BuiltinTools, ExecutableTools, HelperCommand, ServerPrograms};

use crate::adapters::embedded_tools::EmbeddedTools;
use crate::adapters::mcp_servers::ServerDialer;
use crate::adapters::script_hosts::HostStarter;
use crate::workspace::StateRoot;

/// Maximum time that libraries have to end their work when a swarm ends.
const LIBRARY_SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// Opens tools by the form of their entry (rule T2). It exists as long as its swarm. So an
/// unchanged library is opened once, however often the swarm reloads.
pub(crate) struct EntryToolSource {
    builtin: BuiltinTools,
    executable: ExecutableTools,
    libraries: Arc<DynamicLibraries>,
    /// Loader for libraries in their own processes, if this program can act as such a process.
    hosted: Option<DynamicLibraries>,
    modules: ScriptModules,
    mcp: McpTools,
    a2a: A2aTools,
    embedded: EmbeddedTools,
    state_root: StateRoot,
}

impl EntryToolSource {
    /// Creates the source. Copies of libraries and the tool state shared by all swarms are stored
    /// below `state_root`.
    pub(crate) fn new(
        state_root: &Path,
        host: Option<HostCommand>,
        helper: Option<HelperCommand>,
        mocks: Option<Arc<dyn ServerMocks>>,
        environment: Environment,
    ) -> Self {
        let dialer = Arc::new(ServerDialer(ServerPrograms::new(helper.clone())));
        let modules = ScriptModules::new(
            state_root,
            Arc::new(HostStarter(ServerPrograms::new(helper.clone()))),
        );
        let state_directory = StateRoot(state_root.to_owned());
        state_directory.protect();
        let staging = &state_root.join("plugins");
        let libraries = Arc::new(DynamicLibraries::new(staging, LibraryLimits::default()));
        let builtin = BuiltinTools::new()
            .with_helper(helper.clone())
            .environment(environment.clone())
            .cache_dir(state_root.join("cache"))
            .libraries(Arc::clone(&libraries) as Arc<dyn ToolSource>);
        EntryToolSource {
            builtin,
            executable: ExecutableTools::new(helper),
            libraries,
            hosted: host
                .map(|host| DynamicLibraries::hosted(staging, LibraryLimits::default(), host)),
            modules,
            mcp: McpTools::new(state_root, dialer, environment.clone()).mocks(mocks),
            a2a: A2aTools::new(environment),
            embedded: EmbeddedTools::default(),
            state_root: state_directory,
        }
    }

    /// Returns the state root, for copies of installed packages.
    pub(crate) fn state_root(&self) -> &StateRoot {
        &self.state_root
    }

    /// Sets the redactor that masks secrets in the tool lists of MCP servers.
    pub(crate) fn redactor(mut self, redactor: SecretRedactor) -> Self {
        self.mcp = self.mcp.redactor(redactor);
        self
    }

    /// Sets the tools that the embedding program provides.
    pub(crate) fn embedded(mut self, tools: EmbeddedTools) -> Self {
        self.embedded = tools;
        self
    }

    /// Sets the variables for value sources of tools that are opened later.
    pub(crate) fn set_environment(&self, environment: Environment) {
        self.builtin.set_environment(environment.clone());
        self.mcp.set_environment(environment.clone());
        self.a2a.set_environment(environment);
    }

    /// Returns the ports for planning a generation.
    pub(crate) fn ports(self: &Arc<Self>, models: Arc<dyn ModelFactory>) -> PlanPorts {
        let tools = Arc::clone(self) as Arc<dyn ToolSource>;
        PlanPorts {
            tools,
            extensions: Arc::clone(self) as Arc<dyn ExtensionSource>,
            models,
        }
    }

    /// Runs a connector from a file or a library until it ends. Built-in connectors run in another
    /// crate.
    ///
    /// # Errors
    /// Fails if the connector cannot start or fails, or if its process exits.
    pub(crate) async fn run_connector(
        &self,
        (id, entry): (&ResourceId, &ConnectorEntry),
        bundle_root: &Path,
        values: ConnectorStart,
        host: Arc<dyn ConnectorHost>,
    ) -> Result<(), HandlerError> {
        match entry {
            ConnectorEntry::Builtin(_) => Ok(()),
            ConnectorEntry::Module(module) => {
                self.modules
                    .run_connector(id, module, bundle_root, values, host)
                    .await
            }
            ConnectorEntry::Library(path) => {
                let libraries = self.hosted.as_ref().unwrap_or(&self.libraries);
                libraries
                    .run_connector(id, path, bundle_root, values, host)
                    .await
            }
        }
    }

    /// Returns the registry of MCP tools.
    pub(crate) fn mcp(&self) -> &McpTools {
        &self.mcp
    }

    /// Stops running tool work and closes all libraries.
    pub(crate) async fn shutdown(&self) {
        tokio::join!(
            self.builtin.shutdown(),
            self.modules.shutdown(),
            self.mcp.shutdown()
        );
        let mut stuck = self.libraries.shutdown(LIBRARY_SHUTDOWN_TIMEOUT).await;
        if let Some(hosted) = &self.hosted {
            stuck.extend(hosted.shutdown(LIBRARY_SHUTDOWN_TIMEOUT).await);
        }
        for library in stuck {
            tracing::warn!(
                library,
                "a library did not close after the request to shut down"
            );
        }
    }

    /// Opens a library in this process, or in its own process (`isolation: process`).
    async fn open_library(
        &self,
        tool: &Resource<Tool>,
        bundle_root: &Path,
    ) -> Result<ToolSet, EntryOpenError> {
        match (tool.spec.isolation, &self.hosted) {
            (ToolIsolation::None, _) => {
                ToolSource::open(self.libraries.as_ref(), tool, bundle_root).await
            }
            (ToolIsolation::Process, Some(hosted)) => {
                ToolSource::open(hosted, tool, bundle_root).await
            }
            (ToolIsolation::Process, None) => {
                let cause = "`isolation: process` needs a program that can host libraries, and \
                    this program cannot";
                let suggestion =
                    "give `SwarmBuilder::tool_host` a command, or leave `isolation` out";
                Err(EntryOpenError::new(&tool.id, cause).suggest(suggestion))
            }
        }
    }
}

impl InstanceObserver for EntryToolSource {
    fn on_instance_end(&self, id: &InstanceId) {
        self.builtin.instance_ended(id);
        self.modules.instance_ended(id);
        self.libraries.instance_ended(id);
    }
}

#[async_trait]
impl ExtensionSource for EntryToolSource {
    async fn open(
        &self,
        extension: &Resource<Extension>,
        config: JsonObject,
        bundle_root: &Path,
    ) -> Result<Arc<dyn ExtensionCode>, EntryOpenError> {
        match &extension.spec.entry {
            ExtensionEntry::Library(_) => {
                ExtensionSource::open(self.libraries.as_ref(), extension, config, bundle_root).await
            }
            ExtensionEntry::Module(_) | ExtensionEntry::Builtin(_) => {
                ExtensionSource::open(&self.modules, extension, config, bundle_root).await
            }
        }
    }
}

#[async_trait]
impl ToolSource for EntryToolSource {
    async fn open(
        &self,
        tool: &Resource<Tool>,
        bundle_root: &Path,
    ) -> Result<ToolSet, EntryOpenError> {
        match &tool.spec.entry {
            ToolEntry::Builtin(_) => self.builtin.open(tool, bundle_root).await,
            ToolEntry::Library(_) => self.open_library(tool, bundle_root).await,
            ToolEntry::Executable(_) => self.executable.open(tool, bundle_root).await,
            ToolEntry::Module(_) => ToolSource::open(&self.modules, tool, bundle_root).await,
            ToolEntry::Mcp(_) => self.mcp.open(tool, bundle_root).await,
            ToolEntry::A2a(_) => self.a2a.open(tool, bundle_root).await,
            ToolEntry::Embedded => self.embedded.open(tool, bundle_root).await,
        }
    }
}

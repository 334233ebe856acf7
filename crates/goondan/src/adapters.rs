//! Which adapter serves which form of entry.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use goondan_core::JsonObject;
use goondan_core::connecting::{ConnectorDesk, ConnectorValues};
use goondan_core::ids::InstanceId;
use goondan_core::ports::extension::{ExtensionCode, ExtensionSource};
use goondan_core::ports::model::ModelFactory;
use goondan_core::ports::tool::{InstanceObserver, OpenError, ToolError, ToolSet, ToolSource};
use goondan_dylib::{HostCommand, Libraries, Limits};
use goondan_engine::plan::PlanPorts;
use goondan_hosts::Modules;
use goondan_mcp::{A2aTools, McpTools, StandIns};
use goondan_spec::kinds::{ConnectorEntry, Entry, Extension, ExtensionEntry, Isolation, Tool};
use goondan_spec::{Environment, Resource, ResourceId};
use goondan_tools::{BuiltinTools, ExecutableTools, HelperCommand, ServerPrograms};

use crate::hosts::HostStarter;
use crate::servers::ServerDialer;

/// How long libraries may take to end what they do when a swarm ends.
const PATIENCE: Duration = Duration::from_secs(5);

/// Opens tools by the form of their entry (rule T2). Lives as long as its swarm: a library that did not change is opened
/// once, however often the swarm reloads.
pub(crate) struct ToolSources {
    builtin: BuiltinTools,
    executable: ExecutableTools,
    libraries: Arc<Libraries>,
    /// Libraries in processes of their own, where this program can be such a process.
    hosted: Option<Libraries>,
    modules: Modules,
    mcp: McpTools,
    a2a: A2aTools,
}

impl ToolSources {
    /// Copies of libraries, and what tools keep for all swarms, lie below `state_root`.
    pub(crate) fn new(
        state_root: &Path,
        host: Option<HostCommand>,
        helper: Option<HelperCommand>,
        stand_ins: Option<Arc<dyn StandIns>>,
        environment: Environment,
    ) -> Self {
        let dialer = Arc::new(ServerDialer(ServerPrograms::new(helper.clone())));
        let modules = Modules::new(
            state_root,
            Arc::new(HostStarter(ServerPrograms::new(helper.clone()))),
        );
        let staging = &state_root.join("plugins");
        let libraries = Arc::new(Libraries::new(staging, Limits::default()));
        let builtin = BuiltinTools::new()
            .with_helper(helper.clone())
            .environment(environment.clone())
            .cache_dir(state_root.join("cache"))
            .libraries(Arc::clone(&libraries) as Arc<dyn ToolSource>);
        ToolSources {
            builtin,
            executable: ExecutableTools::new(helper),
            libraries,
            hosted: host.map(|host| Libraries::hosted(staging, Limits::default(), host)),
            modules,
            mcp: McpTools::new(state_root, dialer, environment.clone()).stand_ins(stand_ins),
            a2a: A2aTools::new(environment),
        }
    }

    /// What value sources of tools that are opened from now on see.
    pub(crate) fn set_environment(&self, environment: Environment) {
        self.builtin.set_environment(environment.clone());
        self.mcp.set_environment(environment.clone());
        self.a2a.set_environment(environment);
    }

    /// What a plan is made with.
    pub(crate) fn ports(self: &Arc<Self>, models: Arc<dyn ModelFactory>) -> PlanPorts {
        let tools = Arc::clone(self) as Arc<dyn ToolSource>;
        PlanPorts {
            tools,
            extensions: Arc::clone(self) as Arc<dyn ExtensionSource>,
            models,
        }
    }

    /// Runs a connector that is a file or a library until it ends. One that is built in is run elsewhere.
    ///
    /// # Errors
    /// It can't be started, has failed, or its process has ended.
    pub(crate) async fn run_connector(
        &self,
        (id, entry): (&ResourceId, &ConnectorEntry),
        bundle_root: &Path,
        values: ConnectorValues,
        desk: Arc<dyn ConnectorDesk>,
    ) -> Result<(), ToolError> {
        match entry {
            ConnectorEntry::Builtin(_) => Ok(()),
            ConnectorEntry::Module(module) => {
                self.modules
                    .run_connector(id, module, bundle_root, values, desk)
                    .await
            }
            ConnectorEntry::Library(path) => {
                let libraries = self.hosted.as_ref().unwrap_or(&self.libraries);
                libraries
                    .run_connector(id, path, bundle_root, values, desk)
                    .await
            }
        }
    }

    /// The tools of MCP servers.
    pub(crate) fn mcp(&self) -> &McpTools {
        &self.mcp
    }

    /// Ends what tools have running, and closes all libraries.
    pub(crate) async fn shutdown(&self) {
        tokio::join!(
            self.builtin.shutdown(),
            self.modules.shutdown(),
            self.mcp.shutdown()
        );
        let mut stuck = self.libraries.shutdown(PATIENCE).await;
        if let Some(hosted) = &self.hosted {
            stuck.extend(hosted.shutdown(PATIENCE).await);
        }
        for library in stuck {
            tracing::warn!(library, "a library did not end when it was asked to");
        }
    }

    async fn open_library(
        &self,
        tool: &Resource<Tool>,
        bundle_root: &Path,
    ) -> Result<ToolSet, OpenError> {
        match (tool.spec.isolation, &self.hosted) {
            (Isolation::None, _) => {
                ToolSource::open(self.libraries.as_ref(), tool, bundle_root).await
            }
            (Isolation::Process, Some(hosted)) => ToolSource::open(hosted, tool, bundle_root).await,
            (Isolation::Process, None) => {
                let cause = "`isolation: process` needs a program that can host libraries, and this one cannot";
                let suggestion =
                    "give `SwarmBuilder::tool_host` a command, or leave `isolation` out";
                Err(OpenError::new(&tool.id, cause).suggest(suggestion))
            }
        }
    }
}

impl InstanceObserver for ToolSources {
    fn ended(&self, id: &InstanceId) {
        self.builtin.instance_ended(id);
        self.modules.instance_ended(id);
        self.libraries.instance_ended(id);
    }
}

#[async_trait]
impl ExtensionSource for ToolSources {
    async fn open(
        &self,
        extension: &Resource<Extension>,
        config: JsonObject,
        bundle_root: &Path,
    ) -> Result<Arc<dyn ExtensionCode>, OpenError> {
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
impl ToolSource for ToolSources {
    async fn open(&self, tool: &Resource<Tool>, bundle_root: &Path) -> Result<ToolSet, OpenError> {
        match &tool.spec.entry {
            Entry::Builtin(_) => self.builtin.open(tool, bundle_root).await,
            Entry::Library(_) => self.open_library(tool, bundle_root).await,
            Entry::Executable(_) => self.executable.open(tool, bundle_root).await,
            Entry::Module(_) => ToolSource::open(&self.modules, tool, bundle_root).await,
            Entry::Mcp(_) => self.mcp.open(tool, bundle_root).await,
            Entry::A2a(_) => self.a2a.open(tool, bundle_root).await,
        }
    }
}

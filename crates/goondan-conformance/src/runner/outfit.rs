//! What every swarm of a case is made with.

use std::path::PathBuf;
use std::sync::Arc;

use goondan::mcp::StandIns;
use goondan::ports::model::ModelFactory;
use goondan::spec::{Bundle, Environment};
use goondan::{Database, HostCommand, StateRoot, Swarm, SwarmBuilder, ToolStandIns};
use tokio::runtime::{Builder, Runtime};

use super::approval::Answers;
use super::clock::CaseClock;
use super::logs::Logs;
use super::mcp::McpServers;
use super::models::CaseModels;
use super::tools::PlayedTools;
use super::world::World;

/// What every swarm of a case is made with. Clones share what a case has once.
#[derive(Clone)]
pub(super) struct Outfit {
    bundle: Arc<Bundle>,
    state_root: PathBuf,
    /// The id of its workspace.
    pub(super) workspace: String,
    environment: Environment,
    answers: Answers,
    clock: CaseClock,
    mcp: Arc<McpServers>,
    tools: Arc<PlayedTools>,
    pub(super) models: Arc<CaseModels>,
    pub(super) logs: Logs,
    tool_host: Option<HostCommand>,
}

impl Outfit {
    /// That of the case, with the bundle as it is now.
    pub(super) fn of(world: &World<'_>, bundle: Arc<Bundle>) -> Self {
        Outfit {
            state_root: world.state_root(),
            workspace: workspace(&bundle),
            environment: world.environment(),
            answers: world.answers.clone(),
            clock: world.clock.clone(),
            mcp: Arc::clone(&world.mcp),
            tools: Arc::clone(&world.tools),
            models: Arc::clone(&world.models),
            logs: world.logs.clone(),
            tool_host: world.tool_host.clone(),
            bundle,
        }
    }

    /// The same, with a state root of its own for a node below the one of the case.
    pub(super) fn of_node(mut self, number: usize) -> Self {
        if number > 1 {
            self.state_root = self.state_root.join("nodes").join(number.to_string());
        }
        self
    }

    /// A swarm that is about to start, whose models are those of the case.
    pub(super) fn builder(&self, database: Option<Database>) -> SwarmBuilder {
        self.builder_with(database, Arc::clone(&self.models) as Arc<dyn ModelFactory>)
    }

    pub(super) fn builder_with(
        &self,
        database: Option<Database>,
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
            .mcp_stand_ins(Arc::clone(&self.mcp) as Arc<dyn StandIns>)
            .tool_stand_ins(Arc::clone(&self.tools) as Arc<dyn ToolStandIns>)
            .models(models)
    }

    /// Tasks run on the thread that blocks on it alone. So nothing moves once that is back, and a kill drops tasks where they
    /// stand: workers of their own would go on until they notice, and write down that things fail.
    pub(super) fn runtime(&self) -> Runtime {
        built(Builder::new_current_thread(), &self.logs)
    }
}

/// A runtime whose threads log where the case does.
pub(super) fn built(mut builder: Builder, logs: &Logs) -> Runtime {
    let dispatch = logs.dispatch();
    let hear = move || std::mem::forget(tracing::dispatcher::set_default(&dispatch));
    let built = builder.enable_all().on_thread_start(hear).build();
    built.expect("the system lets us open a file descriptor or two")
}

/// The workspace of the swarm's name, or of the `instanceKey` that it states: a case can say what lies where in it, wherever its
/// project happens to be.
fn workspace(bundle: &Bundle) -> String {
    let swarm = bundle.choose_swarm(None).ok();
    let key = swarm.map(|swarm| swarm.spec.instance_key.as_deref().unwrap_or(&swarm.id.name));
    // A bundle without a swarm does not start.
    StateRoot(PathBuf::new())
        .workspace(key.unwrap_or_default())
        .id
}

//! Errors that a start of a swarm would report, found without running or loading anything of the
//! project.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use goondan_core::JsonObject;
use goondan_core::ports::extension::{
    AttachedExtension, ExtensionCode, ExtensionContext, ExtensionSource,
};
use goondan_core::ports::tool::{
    EntryOpenError, HandlerError, ToolContext, ToolHandler, ToolOutput, ToolSet, ToolSource,
};
use goondan_engine::plan::{PlanPorts, plan};
use goondan_models::ModelProviders;
use goondan_spec::kinds::{Agent, Extension, ExtensionEntry, Swarm, Tool, ToolEntry};
use goondan_spec::{Bundle, Code, Diagnostic, Environment, Resource, Severity};

use super::script_modules;
use crate::adapters::EntryToolSource;
use crate::reload::FIRST_GENERATION;
use crate::workspace::StateRoot;

/// Returns the reasons why no swarm, or no swarm by default, can be chosen. A published package
/// needs no swarm.
pub(super) fn missing_swarm(bundle: &Bundle) -> Option<Diagnostic> {
    let is_published = bundle
        .package()
        .is_some_and(|package| package.spec.version.is_some());
    if bundle.swarms().is_empty() && is_published {
        return None;
    }
    let mut problem = bundle.choose_swarm(None).err()?;
    if !bundle.swarms().is_empty() {
        // `--swarm NAME` starts each of them.
        problem.severity = Severity::Warning;
    }
    Some(problem)
}

/// Returns the variables that the swarms need and `environment` lacks. These are warnings, because
/// another machine may have them.
pub(super) fn missing_variables(bundle: &Bundle, environment: &Environment) -> Vec<Diagnostic> {
    let mut missing: Vec<Diagnostic> = Vec::new();
    for swarm in bundle.swarms().keys() {
        for problem in bundle.missing_environment(swarm, environment) {
            let problem = as_warning(problem);
            if !missing.contains(&problem) {
                missing.push(problem);
            }
        }
    }
    missing
}

/// Returns the errors of planning each swarm. Built-in tools and libraries are not opened, handler
/// files are not started, and no server is contacted.
pub async fn startability(
    bundle: &Arc<Bundle>,
    environment: &Environment,
    state_root: &StateRoot,
) -> Vec<Diagnostic> {
    let entries = EntryToolSource::new(&state_root.0, None, None, None, environment.clone());
    entries.mcp().keep_quiet();
    let mut problems = entries.mcp().undefined_servers(bundle);
    // A start reports the missing variables of these resources first.
    let lacking: HashSet<Option<String>> = missing_variables(bundle, environment)
        .into_iter()
        .map(|problem| problem.resource)
        .collect();
    let source = Arc::new(UnopenedEntries {
        entries: Arc::new(entries),
    });
    let ports = PlanPorts {
        tools: Arc::clone(&source) as Arc<dyn ToolSource>,
        extensions: source as Arc<dyn ExtensionSource>,
        models: Arc::new(ModelProviders::default()),
    };
    for swarm in bundle.swarms().values() {
        let planned = plan(bundle, swarm, FIRST_GENERATION, &ports, environment, None).await;
        let unknown = AgentsWithUnknownTools::of(bundle, swarm);
        for problem in planned.err().unwrap_or_default() {
            let problem = graded(bundle, problem);
            if !unknown.explains(&problem)
                && !lacking.contains(&problem.resource)
                && !problems.contains(&problem)
            {
                problems.push(problem);
            }
        }
    }
    problems
}

/// Turns a problem of this machine into a warning.
fn graded(bundle: &Bundle, problem: Diagnostic) -> Diagnostic {
    let lacks_runtime = |id: &str| {
        script_modules(bundle)
            .find(|(owner, ..)| owner.to_string() == id)
            .is_some_and(|(_, _, module)| goondan_hosts::problem(module, bundle.root()).is_some())
    };
    let is_of_machine =
        problem.code == Code::ENV_MISSING || problem.resource.as_deref().is_some_and(lacks_runtime);
    match is_of_machine {
        true => as_warning(problem),
        false => problem,
    }
}

/// Returns the problem as a warning with the same code.
fn as_warning(problem: Diagnostic) -> Diagnostic {
    Diagnostic {
        severity: Severity::Warning,
        ..problem
    }
}

/// Agents with tools whose exports only show when the entry is opened.
struct AgentsWithUnknownTools(HashSet<String>);

impl AgentsWithUnknownTools {
    /// Collects these agents of a swarm.
    fn of(bundle: &Bundle, swarm: &Resource<Swarm>) -> Self {
        let is_unknown = |agent: &&Arc<Resource<Agent>>| {
            agent.spec.tools.iter().any(|used| {
                matches!(
                    bundle.tools()[&used.tool].spec.entry,
                    ToolEntry::Mcp(_) | ToolEntry::Library(_)
                )
            })
        };
        let agents = swarm.spec.agents.iter();
        let agents = agents.filter_map(|id| bundle.agents().get(id));
        AgentsWithUnknownTools(
            agents
                .filter(is_unknown)
                .map(|agent| agent.id.to_string())
                .collect(),
        )
    }

    /// Returns true if the problem may result from the unknown exports.
    fn explains(&self, problem: &Diagnostic) -> bool {
        let of_tools = |field: &str| {
            ["spec.tools", "spec.requiredTools", "spec.extensions"]
                .iter()
                .any(|prefix| field.starts_with(prefix))
        };
        problem
            .resource
            .as_ref()
            .is_some_and(|id| self.0.contains(id))
            && problem.field.as_deref().is_some_and(of_tools)
    }
}

/// Source of tools and extensions that runs no code of the project.
struct UnopenedEntries {
    entries: Arc<EntryToolSource>,
}

#[async_trait]
impl ToolSource for UnopenedEntries {
    async fn open(
        &self,
        tool: &Resource<Tool>,
        bundle_root: &Path,
    ) -> Result<ToolSet, EntryOpenError> {
        match &tool.spec.entry {
            ToolEntry::Builtin(_) | ToolEntry::Library(_) | ToolEntry::Embedded => Ok(ToolSet {
                exports: tool
                    .spec
                    .exports
                    .iter()
                    .map(|export| (export.clone(), Arc::new(UnopenedHandler) as _))
                    .collect(),
                unavailable: None,
            }),
            ToolEntry::Executable(_)
            | ToolEntry::Module(_)
            | ToolEntry::Mcp(_)
            | ToolEntry::A2a(_) => ToolSource::open(&*self.entries, tool, bundle_root).await,
        }
    }
}

#[async_trait]
impl ExtensionSource for UnopenedEntries {
    async fn open(
        &self,
        extension: &Resource<Extension>,
        config: JsonObject,
        bundle_root: &Path,
    ) -> Result<Arc<dyn ExtensionCode>, EntryOpenError> {
        match &extension.spec.entry {
            ExtensionEntry::Library(_) => Ok(Arc::new(UnopenedExtension)),
            ExtensionEntry::Module(_) | ExtensionEntry::Builtin(_) => {
                ExtensionSource::open(&*self.entries, extension, config, bundle_root).await
            }
        }
    }
}

/// Handler of an export that is never called.
struct UnopenedHandler;

#[async_trait]
impl ToolHandler for UnopenedHandler {
    async fn call(
        &self,
        _ctx: &ToolContext,
        _input: JsonObject,
    ) -> Result<ToolOutput, HandlerError> {
        Err(HandlerError::new("the entry is not opened"))
    }
}

/// Extension that is never attached.
struct UnopenedExtension;

#[async_trait]
impl ExtensionCode for UnopenedExtension {
    async fn attach(
        self: Arc<Self>,
        _seat: Arc<ExtensionContext>,
    ) -> Result<Arc<dyn AttachedExtension>, HandlerError> {
        Err(HandlerError::new("the library is not opened"))
    }
}

//! Turns a bundle and ports into a [`Generation`]: binds handlers, creates model clients, and
//! resolves prompts.

mod agent;
mod call_targets;
mod problems;
mod unavailable;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use goondan_spec::kinds::{
    Agent, AnswerFormat, AnswerMode, ExportOverride, ExportSpec, Model, ModelPricing, RateLimits,
    Swarm, SwarmPolicy, Tool, ToolEntry, ToolUse,
};
use goondan_spec::{Bundle, Code, Diagnostic, Environment, Resource, ResourceId};

pub use self::agent::AgentPlan;
pub(crate) use self::problems::at;
use self::problems::{at_tool, model_problem, no_such_export, tool_problem};
pub(crate) use self::unavailable::UnavailableTool;
use self::unavailable::system_prompt;
use crate::middleware::{self, AgentExtensions, ExtensionInputs, StructuredOutput};
use crate::tooling::registry::{RegisteredTool, ToolCatalog, ToolLimits, ToolRegistry};
use crate::tooling::schema_difference::difference;
use crate::tooling::skills;
use crate::turn::rate_limiter::RateLimiter;
use goondan_core::ids::derived_id;
use goondan_core::ports::extension::ExtensionSource;
use goondan_core::ports::model::{ModelClient, ModelError, ModelFactory, ToolDefinition};
use goondan_core::ports::tool::{AgentCatalog, ToolHandler, ToolSet, ToolSource};

/// Context window of a model that neither the Model nor the client states, in tokens.
const DEFAULT_CONTEXT_WINDOW: u64 = 128_000;

/// Retries of a model call if `options.maxRetries` is absent (rule M4).
const DEFAULT_MAX_RETRIES: u32 = 3;

/// Time limit of an answer if `options.totalTimeoutSeconds` is absent.
const DEFAULT_TOTAL_TIMEOUT: Duration = Duration::from_secs(60 * 60);

/// Longest wait before a retry if `options.maxRetryWaitMs` is absent.
const DEFAULT_MAX_RETRY_WAIT: Duration = Duration::from_secs(60);

/// Estimated schema tokens above which MCP tools are deferred: models must search for them. `defer`
/// overrides this.
pub const DEFER_TOKENS: usize = 10_000;

/// Ports that planning needs.
#[derive(Clone)]
pub struct PlanPorts {
    /// Opens tools.
    pub tools: Arc<dyn ToolSource>,
    /// Opens extensions that are files.
    pub extensions: Arc<dyn ExtensionSource>,
    /// Creates model clients.
    pub models: Arc<dyn ModelFactory>,
}

/// A running configuration. Immutable: a reload creates another one, and a running step keeps its
/// own.
pub struct Generation {
    /// Number of the generation, from 1.
    pub number: u64,
    /// Bundle from which the generation was planned.
    pub bundle: Arc<Bundle>,
    /// Absolute path of the project directory; external programs receive it.
    pub project: PathBuf,
    /// The Swarm resource.
    pub swarm: ResourceId,
    /// Agent that receives inputs without a target.
    pub entry_agent: String,
    /// Limits and budgets.
    pub policy: SwarmPolicy,
    /// Rate limits for the model calls of all agents together.
    pub limits: RateLimits,
    /// Warnings from opening tools.
    pub warnings: Vec<Diagnostic>,
    agents: BTreeMap<String, Arc<AgentPlan>>,
    /// Tools that the agents use.
    tools: HashMap<ResourceId, ToolPlan>,
    /// Planned models by name. An unused model may lack a key, for example; its error is reported
    /// when the model is called.
    models: BTreeMap<String, Result<ModelPlan, ModelError>>,
}

/// Provider and name of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelName {
    /// Provider, as in the Model resource.
    pub provider: String,
    /// Provider's name of the model.
    pub model: String,
}

/// A model that can be called.
#[derive(Clone)]
pub struct ModelPlan {
    /// Provider and name.
    pub name: Arc<ModelName>,
    /// Identity of the model: provider, name and endpoint.
    pub identity: String,
    /// Client of the provider.
    pub client: Arc<dyn ModelClient>,
    /// Maximum retries of a failed call.
    pub max_retries: u32,
    /// Longest wait before a retry. If the provider asks for a longer wait, the call is not
    /// retried.
    pub max_retry_wait: Duration,
    /// Time limit of a whole answer.
    pub total_timeout: Duration,
    /// Prices, if the Model resource states them.
    pub pricing: Option<ModelPricing>,
    /// Rate limits of the model.
    pub limits: RateLimits,
    /// Rate limiter, shared by all generations.
    pub(crate) pace: Arc<RateLimiter>,
    /// True if the provider receives the output schema.
    pub is_schema_sent: bool,
    /// Context window in tokens.
    pub context_window: u64,
}

impl Generation {
    /// Returns an agent by name.
    pub fn agent(&self, name: &str) -> Option<&Arc<AgentPlan>> {
        self.agents.get(name)
    }

    /// Returns all agents, sorted by name.
    pub fn agents(&self) -> impl Iterator<Item = &Arc<AgentPlan>> {
        self.agents.values()
    }

    /// Returns a model by name, or the reason why it cannot be called.
    pub fn model(&self, name: &str) -> Option<&Result<ModelPlan, ModelError>> {
        self.models.get(name)
    }

    /// Returns the first rate-limited model with that identity.
    pub(crate) fn rate_limited_model(&self, identity: &str) -> Option<ModelPlan> {
        let planned = self.models.values().filter_map(|model| model.as_ref().ok());
        planned
            .filter(|model| !model.limits.is_none())
            .find(|model| model.identity == identity)
            .cloned()
    }

    /// Returns the names of all Model resources, sorted.
    pub fn models(&self) -> impl Iterator<Item = &str> {
        self.models.keys().map(String::as_str)
    }

    /// Returns the swarm's agents as the agent `viewer` sees them (rule A6).
    pub fn seen_from(&self, viewer: &str) -> AgentCatalog {
        let available: Vec<String> = self.agents.keys().cloned().collect();
        AgentCatalog {
            swarm_name: self.swarm.name.clone(),
            entry_agent: self.entry_agent.clone(),
            self_agent: viewer.to_owned(),
            callable_agents: available
                .iter()
                .filter(|name| *name != viewer)
                .cloned()
                .collect(),
            available_agents: available,
            descriptions: self
                .agents
                .values()
                .filter_map(|agent| Some((agent.name.clone(), agent.description.clone()?)))
                .collect(),
        }
    }
}

/// The generation in use while another one is planned.
#[derive(Clone, Copy)]
pub struct ServingGeneration<'a> {
    /// The generation in use.
    pub generation: &'a Generation,
    /// Tools that are unchanged in the new bundle, including the files and variables that they
    /// reference.
    pub unchanged: &'a HashSet<ResourceId>,
}

impl ServingGeneration<'_> {
    /// Returns an already planned built-in tool. Libraries are opened again, because their warnings
    /// must be reported with current positions. That is cheap, since a library is already loaded.
    fn tool(&self, tool: &Resource<Tool>) -> Option<ToolPlan> {
        let is_builtin = matches!(tool.spec.entry, ToolEntry::Builtin(_));
        let planned = self
            .generation
            .tools
            .get(&tool.id)
            .filter(|_| is_builtin && self.unchanged.contains(&tool.id));
        planned.cloned()
    }
}

/// Plans `swarm` of `bundle` and reports all errors at once. Unchanged tools are taken over from
/// `serving`.
pub async fn plan(
    bundle: &Arc<Bundle>,
    swarm: &Resource<Swarm>,
    number: u64,
    ports: &PlanPorts,
    environment: &Environment,
    serving: Option<ServingGeneration<'_>>,
) -> Result<Generation, Vec<Diagnostic>> {
    let (models, problems) = (BTreeMap::new(), Vec::new());
    let mut planner = GenerationPlanner {
        bundle,
        ports,
        environment,
        serving,
        purposes: call_targets::AgentPurposes::of(bundle, swarm),
        tools: HashMap::new(),
        models,
        problems,
    };
    let mut agents = BTreeMap::new();
    for id in &swarm.spec.agents {
        if let Some(agent) = planner.agent(&bundle.agents()[id]).await {
            agents.insert(agent.name.clone(), Arc::new(agent));
        }
    }
    let (problems, warnings): (Vec<_>, Vec<_>) = std::mem::take(&mut planner.problems)
        .into_iter()
        .partition(Diagnostic::is_error);
    if !problems.is_empty() {
        return Err(problems);
    }
    bundle
        .models()
        .values()
        .for_each(|model| drop(planner.model(model)));
    Ok(Generation {
        number,
        bundle: Arc::clone(bundle),
        project: project(bundle),
        swarm: swarm.id.clone(),
        entry_agent: swarm.spec.entry_agent.name.clone(),
        policy: swarm.spec.policy.clone(),
        limits: swarm.spec.limits,
        warnings,
        agents,
        tools: planner.tools,
        models: planner
            .models
            .into_iter()
            .map(|(id, model)| (id.name, model))
            .collect(),
    })
}

/// Returns the purpose of an agent: its `description`, else the annotation of that name.
fn description_of(agent: &Resource<Agent>) -> Option<&str> {
    let annotation = || agent.annotations.get("description");
    agent
        .spec
        .description
        .as_ref()
        .or_else(annotation)
        .map(String::as_str)
}

/// Returns the absolute path of the project directory.
fn project(bundle: &Bundle) -> PathBuf {
    std::path::absolute(bundle.root()).unwrap_or_else(|_| bundle.root().to_owned())
}

struct GenerationPlanner<'a> {
    bundle: &'a Arc<Bundle>,
    ports: &'a PlanPorts,
    environment: &'a Environment,
    serving: Option<ServingGeneration<'a>>,
    purposes: call_targets::AgentPurposes,
    models: BTreeMap<ResourceId, Result<ModelPlan, ModelError>>,
    /// Contains an empty plan for a tool that failed to open, so that the error is reported once.
    tools: HashMap<ResourceId, ToolPlan>,
    problems: Vec<Diagnostic>,
}

impl GenerationPlanner<'_> {
    /// Plans an agent; `None` if its models have errors.
    async fn agent(&mut self, agent: &Resource<Agent>) -> Option<AgentPlan> {
        let models = self.models_of(agent);
        let mut registry = self.registry(&agent.spec.tools).await;
        let unavailable = self.unavailable(&agent.spec.tools);
        call_targets::describe(&mut registry, &self.purposes);
        self.offer_skills(agent, &mut registry);
        let serving = self
            .serving
            .and_then(|serving| serving.generation.agent(&agent.id.name));
        let agent_tools = registry.catalog_like(serving.map(|agent| &agent.catalog));
        let deferred = self.deferred(&agent.spec.tools, &agent_tools);
        let is_schema_sent = agent
            .spec
            .output
            .as_ref()
            .is_some_and(|format| is_schema_sent(format, models.as_deref()));
        let extensions = self
            .extensions(agent, &agent_tools, &deferred, is_schema_sent)
            .await;
        self.check_required_tools(agent, &registry);
        extensions.tools().for_each(|tool| registry.register(tool));
        Some(AgentPlan {
            name: agent.id.name.clone(),
            description: description_of(agent).map(str::to_owned),
            system: system_prompt(agent.spec.system(), &unavailable),
            unavailable: unavailable.into(),
            instructions: agent
                .spec
                .instructions
                .iter()
                .flat_map(|instructions| instructions.names.clone())
                .collect(),
            models: models?,
            params: Arc::new(agent.spec.params.clone()),
            answers_as_data: agent.spec.output.is_some(),
            answer_tool: None,
            output: agent
                .spec
                .output
                .as_ref()
                .filter(|_| is_schema_sent)
                .map(|format| Arc::clone(&format.schema)),
            catalog: registry.catalog_like(Some(&agent_tools)),
            registry,
            permissions: agent.spec.permissions.clone(),
            max_parallel_tool_calls: agent.spec.max_parallel_tool_calls.max(1),
            workdir: agent.spec.workdir.clone(),
            extensions,
        })
    }

    /// Adds the tool that loads skills, if the agent has skills.
    fn offer_skills(&mut self, agent: &Resource<Agent>, registry: &mut ToolRegistry) {
        let Some(tool) = skills::tool(&agent.spec.skills, self.bundle.root()) else {
            return;
        };
        if registry.get(tool.name.as_str()).is_some() {
            let message = format!(
                "the agent has a tool `{}`, but its `skills` reserve this name",
                tool.name
            );
            let diagnostic = Diagnostic::new(Code::SCHEMA_INVALID, message)
                .suggest("give the Tool another name");
            self.problem(at(
                diagnostic,
                &agent.id,
                agent.origin.as_ref(),
                "spec.skills",
            ));
        }
        registry.register(Arc::new(tool));
    }

    /// Returns the models of an agent, or `None` if one of them cannot be called.
    fn models_of(&mut self, agent: &Resource<Agent>) -> Option<Arc<[ModelPlan]>> {
        let mut models = Vec::new();
        let bundle = Arc::clone(self.bundle);
        for model in agent.spec.models().map(|id| &bundle.models()[id]) {
            models.push(
                self.model(model)
                    .map_err(|error| self.problem(model_problem(&bundle, model, &error)))
                    .ok(),
            );
        }
        models.into_iter().collect()
    }

    /// Returns a planned model. Agents with the same model share the plan.
    fn model(&mut self, model: &Resource<Model>) -> Result<ModelPlan, ModelError> {
        if let Some(known) = self.models.get(&model.id) {
            return known.clone();
        }
        let client = self
            .ports
            .models
            .client(model, self.bundle.root(), self.environment);
        let (max_retries, pricing) = (
            model
                .spec
                .options
                .max_retries
                .unwrap_or(DEFAULT_MAX_RETRIES),
            model.spec.pricing.clone(),
        );
        let endpoint = model.spec.endpoint.as_deref().unwrap_or_default();
        let identity = format!("{} {} {endpoint}", model.spec.provider, model.spec.model);
        let (provider, name) = (model.spec.provider.clone(), model.spec.model.clone());
        let name = Arc::new(ModelName {
            provider,
            model: name,
        });
        let stated = model.spec.capabilities.structured_output;
        let stated_window = model.spec.options.context_window;
        let known = self
            .serving
            .and_then(|serving| serving.generation.model(&model.id.name)?.as_ref().ok());
        let known = known
            .filter(|known| known.identity == identity)
            .map(|known| Arc::clone(&known.pace));
        let (limits, pace) = (model.spec.limits, known.unwrap_or_default());
        let planned = client.map(|client| {
            let is_schema_sent = stated.unwrap_or_else(|| client.is_schema_sent());
            let context_window = stated_window
                .or_else(|| client.context_window())
                .unwrap_or(DEFAULT_CONTEXT_WINDOW);
            ModelPlan {
                name,
                identity,
                client,
                max_retries,
                max_retry_wait: model
                    .spec
                    .options
                    .max_retry_wait_ms
                    .map_or(DEFAULT_MAX_RETRY_WAIT, Duration::from_millis),
                total_timeout: model
                    .spec
                    .options
                    .total_timeout_seconds
                    .map_or(DEFAULT_TOTAL_TIMEOUT, Duration::from_secs_f64),
                pricing,
                limits,
                pace,
                is_schema_sent,
                context_window,
            }
        });
        self.models.insert(model.id.clone(), planned.clone());
        planned
    }

    /// Returns the tools that a model must search for. Without `defer`, MCP tools are deferred if
    /// their schemas exceed [`DEFER_TOKENS`] in total.
    fn deferred(&self, uses: &[ToolUse], tools: &ToolCatalog) -> Vec<String> {
        let is_server = |used: &ToolUse| {
            matches!(
                self.bundle.tools()[&used.tool].spec.entry,
                ToolEntry::Mcp(_)
            )
        };
        let of = |used: &ToolUse| {
            let resource = used.tool.name.clone();
            tools
                .definitions()
                .iter()
                .filter(move |tool| tool.resource() == resource)
        };
        let undecided = uses
            .iter()
            .filter(|used| used.defer.is_none() && is_server(used));
        let tokens: usize = undecided.flat_map(of).map(ToolDefinition::tokens).sum();
        let is_deferred = |used: &&ToolUse| {
            used.defer
                .unwrap_or_else(|| is_server(used) && tokens > DEFER_TOKENS)
        };
        uses.iter()
            .filter(is_deferred)
            .flat_map(of)
            .map(|tool| tool.name.clone())
            .collect()
    }

    /// Plans the extensions of an agent and records their problems.
    async fn extensions(
        &mut self,
        agent: &Resource<Agent>,
        tools: &ToolCatalog,
        deferred: &[String],
        is_schema_sent: bool,
    ) -> AgentExtensions {
        let (extensions, code) = (self.bundle.extensions(), &*self.ports.extensions);
        let sources = ExtensionInputs {
            extensions,
            code,
            root: self.bundle.root(),
        };
        let output = agent
            .spec
            .output
            .as_ref()
            .map(|format| StructuredOutput::new(&format.schema, is_schema_sent));
        let (chain, problems) = middleware::chain(agent, &sources, tools, deferred, output).await;
        problems
            .into_iter()
            .for_each(|problem| self.problem(problem));
        chain
    }

    /// Opens the tools of an agent and returns them; records the problems of missing exports.
    async fn registry(&mut self, uses: &[ToolUse]) -> ToolRegistry {
        let mut registry = ToolRegistry::default();
        for tool_use in uses {
            let bundle = Arc::clone(self.bundle);
            let tool = &bundle.tools()[&tool_use.tool];
            if !self.tools.contains_key(&tool.id) {
                let planned = match self.serving.and_then(|serving| serving.tool(tool)) {
                    Some(planned) => planned,
                    None => self.open(tool).await,
                };
                self.tools.insert(tool.id.clone(), planned);
            }
            let (tools, missing) = self.tools[&tool.id].select(tool_use);
            tools.into_iter().for_each(|tool| registry.register(tool));
            missing
                .into_iter()
                .for_each(|problem| self.problem(problem));
        }
        registry
    }

    /// Returns the opened tools in `uses` whose exports are missing for now.
    fn unavailable(&self, uses: &[ToolUse]) -> Vec<UnavailableTool> {
        let unavailable = |tool_use: &ToolUse| {
            Some(UnavailableTool {
                resource: tool_use.tool.name.clone(),
                reason: self.tools.get(&tool_use.tool)?.unavailable.clone()?,
            })
        };
        uses.iter().filter_map(unavailable).collect()
    }

    /// Opens a tool. A tool that cannot be opened becomes a problem and has no exports.
    async fn open(&mut self, tool: &Resource<Tool>) -> ToolPlan {
        match self.ports.tools.open(tool, self.bundle.root()).await {
            Ok(set) => {
                self.warn_of_other_schemas(tool, &set);
                ToolPlan::new(self.bundle, tool, &set, &self.variables())
            }
            Err(error) => {
                self.problem(tool_problem(self.bundle, tool, &error));
                ToolPlan::default()
            }
        }
    }

    /// Warns about stated arguments that the library does not define and would ignore or refuse.
    fn warn_of_other_schemas(&mut self, tool: &Resource<Tool>, set: &ToolSet) {
        if !matches!(tool.spec.entry, ToolEntry::Library(_)) {
            return;
        }
        for (index, stated) in tool.spec.overrides.iter().enumerate() {
            let export = set
                .exports
                .iter()
                .find(|(export, _)| export.name == stated.name);
            let (Some((export, _)), Some(parameters)) = (export, &stated.parameters) else {
                continue;
            };
            let Some(difference) = difference(&export.parameters, parameters) else {
                continue;
            };
            let message = format!(
                "The `parameters` of the export `{}` differ from the library's schema: \
                    {difference}.",
                export.name
            );
            let diagnostic = Diagnostic::new(Code::SCHEMA_DIFFERS, message).suggest(
                "remove `parameters` to use the library's schema, or correct them; models receive \
                    the schema from the YAML",
            );
            self.problem(at_tool(
                self.bundle,
                diagnostic,
                tool,
                format!("spec.exports[{index}].parameters"),
            ));
        }
    }

    /// Returns the variables of description files.
    fn variables(&self) -> [(&'static str, String); 3] {
        let root = project(self.bundle).display().to_string();
        let workspace = self
            .environment
            .get("AGENT_WORKSPACE_ROOT")
            .map_or_else(|| root.clone(), str::to_owned);
        [
            ("${workspace}", workspace),
            ("${directory}", root.clone()),
            ("${cwd}", root),
        ]
    }

    /// Reports each required tool that the agent does not have.
    fn check_required_tools(&mut self, agent: &Resource<Agent>, registry: &ToolRegistry) {
        for name in agent
            .spec
            .required_tools
            .iter()
            .filter(|name| registry.get(name).is_none())
        {
            let names = registry
                .tools()
                .map(|tool| tool.name.as_str())
                .collect::<Vec<_>>()
                .join(", ");
            let message = format!(
                "Agent/{} requires the tool `{name}`, which it does not have",
                agent.id.name
            );
            let diagnostic = Diagnostic::new(Code::SCHEMA_INVALID, message)
                .suggest(format!("the tools of the agent are: {names}"));
            self.problem(at(
                diagnostic,
                &agent.id,
                agent.origin.as_ref(),
                "spec.requiredTools",
            ));
        }
    }

    /// Records a diagnostic once.
    fn problem(&mut self, diagnostic: Diagnostic) {
        if !self.problems.contains(&diagnostic) {
            self.problems.push(diagnostic);
        }
    }
}

/// An opened Tool resource: its exports by name, each ready to run or with an error. Agents share
/// it.
#[derive(Clone, Default)]
struct ToolPlan {
    exports: Arc<[(String, PlannedExport)]>,
    /// Reason why the exports are missing for now.
    unavailable: Option<Arc<str>>,
}

type PlannedExport = Result<Arc<RegisteredTool>, Diagnostic>;

impl ToolPlan {
    /// Creates the plan from the exports that the resource declares, or from all exports of the
    /// entry.
    fn new(
        bundle: &Bundle,
        tool: &Resource<Tool>,
        set: &ToolSet,
        variables: &[(&str, String)],
    ) -> Self {
        if let Some(reason) = &set.unavailable {
            // Exports that `spec.exports` declares are not errors of the project.
            return ToolPlan {
                exports: Arc::default(),
                unavailable: Some(Arc::from(reason.as_str())),
            };
        }
        let declared: Vec<(&str, Option<&ExportOverride>)> = match tool.spec.overrides.as_slice() {
            [] => set
                .exports
                .iter()
                .map(|(spec, _)| (spec.name.as_str(), None))
                .collect(),
            some => some
                .iter()
                .map(|stated| (stated.name.as_str(), Some(stated)))
                .collect(),
        };
        let settings = settings_hash(tool);
        let plan = |(name, stated): (&str, Option<&ExportOverride>)| {
            let own = set.exports.iter().find(|(spec, _)| spec.name == name);
            let registered = own
                .map(|(spec, handler)| register(tool, spec, stated, handler, variables))
                .map(|tool| Arc::new(tool.with_settings(settings.clone())));
            (
                name.to_owned(),
                registered.ok_or_else(|| no_such_export(bundle, tool, set, name)),
            )
        };
        ToolPlan {
            exports: declared.into_iter().map(plan).collect(),
            unavailable: None,
        }
    }

    /// Returns the exports that an agent uses, and the problems of those that cannot be used.
    fn select(&self, tool_use: &ToolUse) -> (Vec<Arc<RegisteredTool>>, Vec<Diagnostic>) {
        let is_used = |name: &String| {
            tool_use
                .exports
                .as_ref()
                .is_none_or(|names| names.iter().any(|used| used == name))
        };
        let (mut tools, mut missing) = (Vec::new(), Vec::new());
        for (_, export) in self.exports.iter().filter(|(name, _)| is_used(name)) {
            match export {
                Ok(tool) => tools.push(Arc::clone(tool)),
                Err(problem) => missing.push(problem.clone()),
            }
        }
        (tools, missing)
    }
}

/// Registers an export of an entry with the overrides of the resource.
fn register(
    tool: &Resource<Tool>,
    spec: &ExportSpec,
    stated: Option<&ExportOverride>,
    handler: &Arc<dyn ToolHandler>,
    variables: &[(&str, String)],
) -> RegisteredTool {
    let (timeout, timeout_field) = tool.spec.timeout_of(&spec.name);
    let limits = ToolLimits {
        error_message: tool.spec.error_message_limit,
        output: tool.spec.output_limit,
        timeout,
    };
    let lay = |stated: &ExportOverride| match &tool.spec.entry {
        ToolEntry::Builtin(_) | ToolEntry::A2a(_) => stated.apply_to_builtin(spec),
        ToolEntry::Library(_)
        | ToolEntry::Executable(_)
        | ToolEntry::Module(_)
        | ToolEntry::Embedded
        | ToolEntry::Mcp(_) => stated.apply(spec),
    };
    let mut spec = stated.map_or_else(|| spec.clone(), lay);
    if stated.is_some_and(|stated| stated.description_is_template) {
        for (name, value) in variables {
            spec.description = spec.description.replace(name, value);
        }
    }
    let registered = RegisteredTool::new(&tool.id.name, spec, Arc::clone(handler), limits)
        .timed_by(timeout_field);
    match &tool.spec.entry {
        ToolEntry::Builtin(set) => registered.of_builtin(set),
        ToolEntry::Library(_)
        | ToolEntry::Executable(_)
        | ToolEntry::Module(_)
        | ToolEntry::Embedded
        | ToolEntry::Mcp(_)
        | ToolEntry::A2a(_) => registered,
    }
}

/// Returns a hash of the entry and `config`, so that a grant ends if they change. `None` for a
/// built-in tool without `config`.
fn settings_hash(tool: &Resource<Tool>) -> Option<String> {
    let spec = &tool.spec;
    let is_default = match &spec.entry {
        ToolEntry::Builtin(set) => *set == tool.id.name && spec.config.is_empty(),
        _ => false,
    };
    let settings = || format!("{:?}{:?}{:?}", spec.entry, spec.isolation, spec.config);
    (!is_default).then(|| derived_id(&[&settings()]))
}

/// Returns true if the output schema is sent to the providers of all `models`. If no model is
/// available, assumes true.
fn is_schema_sent(format: &AnswerFormat, models: Option<&[ModelPlan]>) -> bool {
    match format.mode {
        Some(mode) => mode == AnswerMode::Native,
        None => models
            .unwrap_or_default()
            .iter()
            .all(|model| model.is_schema_sent),
    }
}

//! Bundle and ports become a [`Generation`]: handlers bound, models chosen, prompts at hand.

mod agent;
mod problems;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use goondan_spec::kinds::{
    Agent, AnswerFormat, AnswerMode, Entry, ExportOverride, ExportSpec, Model, Policy, Pricing,
    RateLimits, Swarm, Tool, ToolUse,
};
use goondan_spec::{Bundle, Code, Diagnostic, Environment, Resource, ResourceId};

pub use self::agent::AgentPlan;
pub(crate) use self::problems::at;
use self::problems::{at_tool, model_problem, no_such_export, tool_problem};
use crate::middleware::{self, Extensions, Sources, StructuredOutput};
use crate::tooling::registry::{Catalog, RegisteredTool, Registry, ToolLimits};
use crate::tooling::schema_difference::difference;
use crate::tooling::skills;
use crate::turn::pace::Pace;
use goondan_core::ports::extension::ExtensionSource;
use goondan_core::ports::model::{ModelClient, ModelError, ModelFactory, ToolDefinition};
use goondan_core::ports::tool::{AgentCatalog, ToolHandler, ToolSet, ToolSource};

/// Retries of a model call where `options.maxRetries` says nothing (rule M4).
const DEFAULT_MAX_RETRIES: u32 = 3;

/// Longest wait before a retry, if `options.maxRetryWaitMs` is absent.
const DEFAULT_MAX_RETRY_WAIT: Duration = Duration::from_secs(60);

/// Above so many tokens of schemas, roughly counted, the tools of MCP servers are offered only once a model has looked for
/// them, unless `defer` says otherwise.
pub const DEFER_TOKENS: usize = 10_000;

/// What a plan is made with.
#[derive(Clone)]
pub struct PlanPorts {
    /// Opens tools.
    pub tools: Arc<dyn ToolSource>,
    /// Opens extensions that are files.
    pub extensions: Arc<dyn ExtensionSource>,
    /// Makes model clients.
    pub models: Arc<dyn ModelFactory>,
}

/// A running configuration. A value: reloading makes a new one beside it, a step keeps the one it began with.
pub struct Generation {
    /// Counts from 1.
    pub number: u64,
    /// The bundle that it was planned from.
    pub bundle: Arc<Bundle>,
    /// The project's folder, as programs are told that run elsewhere: its path is absolute.
    pub project: PathBuf,
    /// The Swarm resource.
    pub swarm: ResourceId,
    /// Who gets inputs that name nobody.
    pub entry_agent: String,
    /// Limits.
    pub policy: Policy,
    /// How much all agents together may ask models in a minute.
    pub limits: RateLimits,
    /// What was noticed while its tools were opened and keeps nothing from running.
    pub warnings: Vec<Diagnostic>,
    agents: BTreeMap<String, Arc<AgentPlan>>,
    /// The tools that its agents use.
    tools: HashMap<ResourceId, ToolPlan>,
    /// By name. One that no agent uses may lack what it needs; that is told when it is asked for.
    models: BTreeMap<String, Result<ModelPlan, ModelError>>,
}

/// What a model is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelName {
    /// As its resource says.
    pub provider: String,
    /// The provider's name for it.
    pub model: String,
}

/// A model, ready to be asked.
#[derive(Clone)]
pub struct ModelPlan {
    /// What it is called.
    pub name: Arc<ModelName>,
    /// What tells it from other models: provider, name and address.
    pub identity: String,
    /// Its client.
    pub client: Arc<dyn ModelClient>,
    /// How often a failed call is repeated.
    pub max_retries: u32,
    /// Longest wait before a retry. A provider that asks for a longer wait is not retried.
    pub max_retry_wait: Duration,
    /// What its tokens cost, where the Model says so.
    pub pricing: Option<Pricing>,
    /// How much it may be asked in a minute.
    pub limits: RateLimits,
    /// What it was asked in the last minute; the same in all generations.
    pub(crate) pace: Arc<Pace>,
    /// Whether its provider is sent the schema that an answer shall fit.
    pub is_schema_sent: bool,
}

impl Generation {
    /// The agent of that name.
    pub fn agent(&self, name: &str) -> Option<&Arc<AgentPlan>> {
        self.agents.get(name)
    }

    /// All agents, sorted by name.
    pub fn agents(&self) -> impl Iterator<Item = &Arc<AgentPlan>> {
        self.agents.values()
    }

    /// The Model resource of that name, or why it can't be asked.
    pub fn model(&self, name: &str) -> Option<&Result<ModelPlan, ModelError>> {
        self.models.get(name)
    }

    /// The first model that is told from others by that, and whose requests are limited.
    pub(crate) fn model_like(&self, identity: &str) -> Option<ModelPlan> {
        let planned = self.models.values().filter_map(|model| model.as_ref().ok());
        planned
            .filter(|model| !model.limits.is_none())
            .find(|model| model.identity == identity)
            .cloned()
    }

    /// The names of all Model resources, sorted.
    pub fn models(&self) -> impl Iterator<Item = &str> {
        self.models.keys().map(String::as_str)
    }

    /// The swarm as the agent `own` sees it (rule A6).
    pub fn seen_from(&self, own: &str) -> AgentCatalog {
        let available: Vec<String> = self.agents.keys().cloned().collect();
        AgentCatalog {
            swarm_name: self.swarm.name.clone(),
            entry_agent: self.entry_agent.clone(),
            self_agent: own.to_owned(),
            callable_agents: available
                .iter()
                .filter(|name| *name != own)
                .cloned()
                .collect(),
            available_agents: available,
        }
    }
}

/// The generation that serves while another one is planned beside it.
#[derive(Clone, Copy)]
pub struct Serving<'a> {
    /// What it is.
    pub generation: &'a Generation,
    /// The Tools that mean the same in both bundles, with the files and variables that they name.
    pub unchanged: &'a HashSet<ResourceId>,
}

impl Serving<'_> {
    /// A tool as it is planned already. What opening a library tells (its warnings have places, which may have moved) is to
    /// be told again, so it is opened again; that costs little, for it is open.
    fn tool(&self, tool: &Resource<Tool>) -> Option<ToolPlan> {
        let is_builtin = matches!(tool.spec.entry, Entry::Builtin(_));
        let known = self
            .generation
            .tools
            .get(&tool.id)
            .filter(|_| is_builtin && self.unchanged.contains(&tool.id));
        known.cloned()
    }
}

/// Plans `swarm` of `bundle`. All problems come at once. What did not change is taken over from `serving`.
pub async fn plan(
    bundle: &Arc<Bundle>,
    swarm: &Resource<Swarm>,
    number: u64,
    ports: &PlanPorts,
    environment: &Environment,
    serving: Option<Serving<'_>>,
) -> Result<Generation, Vec<Diagnostic>> {
    let (models, problems) = (BTreeMap::new(), Vec::new());
    let mut planner = Planner {
        bundle,
        ports,
        environment,
        serving,
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

/// The absolute path of a bundle's folder.
fn project(bundle: &Bundle) -> PathBuf {
    std::path::absolute(bundle.root()).unwrap_or_else(|_| bundle.root().to_owned())
}

struct Planner<'a> {
    bundle: &'a Arc<Bundle>,
    ports: &'a PlanPorts,
    environment: &'a Environment,
    serving: Option<Serving<'a>>,
    models: BTreeMap<ResourceId, Result<ModelPlan, ModelError>>,
    /// Nothing for a tool that failed to open, so that it is told once.
    tools: HashMap<ResourceId, ToolPlan>,
    problems: Vec<Diagnostic>,
}

impl Planner<'_> {
    async fn agent(&mut self, agent: &Resource<Agent>) -> Option<AgentPlan> {
        let models = self.models_of(agent);
        let mut registry = self.registry(&agent.spec.tools).await;
        self.offer_skills(agent, &mut registry);
        let serving = self
            .serving
            .and_then(|serving| serving.generation.agent(&agent.id.name));
        let own = registry.catalog_like(serving.map(|agent| &agent.catalog));
        let deferred = self.deferred(&agent.spec.tools, &own);
        let is_sent = agent
            .spec
            .output
            .as_ref()
            .is_some_and(|format| is_schema_sent(format, models.as_deref()));
        let extensions = self.extensions(agent, &own, &deferred, is_sent).await;
        self.check_required_tools(agent, &registry);
        extensions.tools().for_each(|tool| registry.register(tool));
        Some(AgentPlan {
            name: agent.id.name.clone(),
            description: agent.annotations.get("description").cloned(),
            system: agent.spec.system(),
            instructions: agent
                .spec
                .instructions
                .iter()
                .flat_map(|found| found.names.clone())
                .collect(),
            models: models?,
            params: Arc::new(agent.spec.params.clone()),
            answers_as_data: agent.spec.output.is_some(),
            answer_tool: None,
            output: agent
                .spec
                .output
                .as_ref()
                .filter(|_| is_sent)
                .map(|format| Arc::clone(&format.schema)),
            catalog: registry.catalog_like(Some(&own)),
            registry,
            permissions: agent.spec.permissions.clone(),
            max_parallel_tool_calls: agent.spec.max_parallel_tool_calls.max(1),
            workdir: agent.spec.workdir.clone(),
            extensions,
        })
    }

    /// Adds the tool that loads skills, where the agent has some.
    fn offer_skills(&mut self, agent: &Resource<Agent>, registry: &mut Registry) {
        let Some(tool) = skills::tool(&agent.spec.skills, self.bundle.root()) else {
            return;
        };
        if registry.get(tool.name.as_str()).is_some() {
            let message = format!(
                "the agent has another tool `{}`, which is the one that loads its skills",
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

    /// The models of an agent; `None` where one of them can't be asked.
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

    /// A client for a model. Agents with the same model share it.
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
        let known = self
            .serving
            .and_then(|serving| serving.generation.model(&model.id.name)?.as_ref().ok());
        let known = known
            .filter(|known| known.identity == identity)
            .map(|known| Arc::clone(&known.pace));
        let (limits, pace) = (model.spec.limits, known.unwrap_or_default());
        let planned = client.map(|client| {
            let is_schema_sent = stated.unwrap_or_else(|| client.is_schema_sent());
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
                pricing,
                limits,
                pace,
                is_schema_sent,
            }
        });
        self.models.insert(model.id.clone(), planned.clone());
        planned
    }

    /// The tools that a model has to look for. Where nothing is said, those of MCP servers are among them once their schemas
    /// have more than [`DEFER_TOKENS`] tokens.
    fn deferred(&self, uses: &[ToolUse], tools: &Catalog) -> Vec<String> {
        let is_server =
            |used: &ToolUse| matches!(self.bundle.tools()[&used.tool].spec.entry, Entry::Mcp(_));
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

    async fn extensions(
        &mut self,
        agent: &Resource<Agent>,
        tools: &Catalog,
        deferred: &[String],
        is_schema_sent: bool,
    ) -> Extensions {
        let (extensions, code) = (self.bundle.extensions(), &*self.ports.extensions);
        let sources = Sources {
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

    async fn registry(&mut self, uses: &[ToolUse]) -> Registry {
        let mut registry = Registry::default();
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
            let (found, missing) = self.tools[&tool.id].select(tool_use);
            found.into_iter().for_each(|found| registry.register(found));
            missing
                .into_iter()
                .for_each(|problem| self.problem(problem));
        }
        registry
    }

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

    /// An argument that the library does not know of is one that it ignores or refuses.
    fn warn_of_other_schemas(&mut self, tool: &Resource<Tool>, set: &ToolSet) {
        if !matches!(tool.spec.entry, Entry::Library(_)) {
            return;
        }
        for (index, stated) in tool.spec.overrides.iter().enumerate() {
            let own = set.exports.iter().find(|(own, _)| own.name == stated.name);
            let (Some((own, _)), Some(parameters)) = (own, &stated.parameters) else {
                continue;
            };
            let Some(difference) = difference(&own.parameters, parameters) else {
                continue;
            };
            let message = format!(
                "The `parameters` of the export `{}` are other ones than the library describes: {difference}.",
                own.name
            );
            let diagnostic = Diagnostic::new(Code::SCHEMA_DIFFERS, message).suggest(
                "remove `parameters` to use the library's, or correct them; the model is shown those of the YAML",
            );
            self.problem(at_tool(
                self.bundle,
                diagnostic,
                tool,
                format!("spec.exports[{index}].parameters"),
            ));
        }
    }

    /// What may stand in a description file: the workspace, which a variable may name, and the bundle's folder.
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

    fn check_required_tools(&mut self, agent: &Resource<Agent>, registry: &Registry) {
        for name in agent
            .spec
            .required_tools
            .iter()
            .filter(|name| registry.get(name).is_none())
        {
            let known = registry
                .tools()
                .map(|tool| tool.name.as_str())
                .collect::<Vec<_>>()
                .join(", ");
            let message = format!(
                "Agent/{} requires the tool `{name}`, which it does not have",
                agent.id.name
            );
            let diagnostic = Diagnostic::new(Code::SCHEMA_INVALID, message)
                .suggest(format!("its tools are: {known}"));
            self.problem(at(
                diagnostic,
                &agent.id,
                agent.origin.as_ref(),
                "spec.requiredTools",
            ));
        }
    }

    fn problem(&mut self, diagnostic: Diagnostic) {
        if !self.problems.contains(&diagnostic) {
            self.problems.push(diagnostic);
        }
    }
}

/// A Tool resource, opened: its exports by name, each ready to run, or why it can't be had. Agents that use it share them.
#[derive(Clone, Default)]
struct ToolPlan {
    exports: Arc<[(String, PlannedExport)]>,
}

type PlannedExport = Result<Arc<RegisteredTool>, Diagnostic>;

impl ToolPlan {
    /// The exports that the resource declares, out of those that its entry has.
    fn new(
        bundle: &Bundle,
        tool: &Resource<Tool>,
        set: &ToolSet,
        variables: &[(&str, String)],
    ) -> Self {
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
        let plan = |(name, stated): (&str, Option<&ExportOverride>)| {
            let own = set.exports.iter().find(|(spec, _)| spec.name == name);
            let registered = own
                .map(|(spec, handler)| Arc::new(register(tool, spec, stated, handler, variables)));
            (
                name.to_owned(),
                registered.ok_or_else(|| no_such_export(bundle, tool, set, name)),
            )
        };
        ToolPlan {
            exports: declared.into_iter().map(plan).collect(),
        }
    }

    /// What an agent uses of it.
    fn select(&self, tool_use: &ToolUse) -> (Vec<Arc<RegisteredTool>>, Vec<Diagnostic>) {
        let wanted = |name: &String| {
            tool_use
                .exports
                .as_ref()
                .is_none_or(|names| names.iter().any(|wanted| wanted == name))
        };
        let (mut found, mut missing) = (Vec::new(), Vec::new());
        for (_, export) in self.exports.iter().filter(|(name, _)| wanted(name)) {
            match export {
                Ok(tool) => found.push(Arc::clone(tool)),
                Err(problem) => missing.push(problem.clone()),
            }
        }
        (found, missing)
    }
}

/// An export of an entry, with what the resource states laid over it.
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
        Entry::Builtin(_) | Entry::A2a(_) => stated.apply_to_builtin(spec),
        Entry::Library(_) | Entry::Executable(_) | Entry::Module(_) | Entry::Mcp(_) => {
            stated.apply(spec)
        }
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
        Entry::Builtin(set) => registered.of_builtin(set),
        Entry::Library(_)
        | Entry::Executable(_)
        | Entry::Module(_)
        | Entry::Mcp(_)
        | Entry::A2a(_) => registered,
    }
}

/// Whether the schema of an output is sent to the providers of all `models`. Of models that can't be had nothing is known.
fn is_schema_sent(format: &AnswerFormat, models: Option<&[ModelPlan]>) -> bool {
    match format.mode {
        Some(mode) => mode == AnswerMode::Native,
        None => models
            .unwrap_or_default()
            .iter()
            .all(|model| model.is_schema_sent),
    }
}

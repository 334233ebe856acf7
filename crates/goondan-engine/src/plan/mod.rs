//! Turns a bundle and ports into a [`Generation`]: binds handlers, creates model clients, and
//! resolves prompts.

mod agent;
mod call_targets;
mod generation;
mod problems;
mod tool_plan;
mod unavailable;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use goondan_spec::kinds::{
    Agent, AnswerFormat, AnswerMode, Model, Swarm, Tool, ToolEntry, ToolUse,
};
use goondan_spec::{Bundle, Code, Diagnostic, Environment, Resource, ResourceId};

pub use self::agent::AgentPlan;
pub use self::generation::{Generation, ModelName, ModelPlan, ServingGeneration};
pub(crate) use self::problems::point_at;
use self::problems::{at_tool, model_problem, tool_problem};
use self::tool_plan::ToolPlan;
pub(crate) use self::unavailable::UnavailableTool;
use self::unavailable::system_prompt;
use crate::middleware::{self, AgentExtensions, ExtensionInputs, StructuredOutput};
use crate::tooling::registry::{ToolCatalog, ToolRegistry};
use crate::tooling::schema_difference::describe_difference;
use crate::tooling::skills;
use goondan_core::ports::extension::ExtensionSource;
use goondan_core::ports::model::{ModelError, ModelFactory, ToolDefinition};
use goondan_core::ports::tool::{ToolSet, ToolSource};

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
        purposes: call_targets::AgentPurposes::from_swarm(bundle, swarm),
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
    for model in bundle.models().values() {
        drop(planner.model(model));
    }
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
        let unavailable = self.unavailable_tools(&agent.spec.tools);
        call_targets::describe_targets(&mut registry, &self.purposes);
        self.offer_skills(agent, &mut registry);
        let serving = self
            .serving
            .and_then(|serving| serving.generation.agent(&agent.id.name));
        let agent_tools = registry.catalog_like(serving.map(|agent| &agent.catalog));
        let deferred = self.deferred_tools(&agent.spec.tools, &agent_tools);
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
            self.add_diagnostic(point_at(
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
                    .map_err(|error| self.add_diagnostic(model_problem(&bundle, model, &error)))
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
        let stated_support = model.spec.capabilities.structured_output;
        let stated_window = model.spec.options.context_window;
        let serving_model = self
            .serving
            .and_then(|serving| serving.generation.model(&model.id.name)?.as_ref().ok());
        let serving_pace = serving_model
            .filter(|serving| serving.identity == identity)
            .map(|serving| Arc::clone(&serving.rate_limiter));
        let (limits, rate_limiter) = (model.spec.limits, serving_pace.unwrap_or_default());
        let planned = client.map(|client| {
            let is_schema_sent = stated_support.unwrap_or_else(|| client.is_schema_sent());
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
                rate_limiter,
                is_schema_sent,
                context_window,
            }
        });
        self.models.insert(model.id.clone(), planned.clone());
        planned
    }

    /// Returns the tools that a model must search for. Without `defer`, MCP tools are deferred if
    /// their schemas exceed [`DEFER_TOKENS`] in total.
    fn deferred_tools(&self, uses: &[ToolUse], tools: &ToolCatalog) -> Vec<String> {
        let is_server = |used: &ToolUse| {
            matches!(
                self.bundle.tools()[&used.tool].spec.entry,
                ToolEntry::Mcp(_)
            )
        };
        let tools_of = |used: &ToolUse| {
            let resource = used.tool.name.clone();
            tools
                .definitions()
                .iter()
                .filter(move |tool| tool.resource() == resource)
        };
        let undecided = uses
            .iter()
            .filter(|used| used.defer.is_none() && is_server(used));
        let tokens: usize = undecided
            .flat_map(tools_of)
            .map(ToolDefinition::tokens)
            .sum();
        let is_deferred = |used: &&ToolUse| {
            used.defer
                .unwrap_or_else(|| is_server(used) && tokens > DEFER_TOKENS)
        };
        uses.iter()
            .filter(is_deferred)
            .flat_map(tools_of)
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
        let (chain, problems) =
            middleware::build_chain(agent, &sources, tools, deferred, output).await;
        for problem in problems {
            self.add_diagnostic(problem);
        }
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
            let (tools, missing) = self.tools[&tool.id].select_exports(tool_use);
            for tool in tools {
                registry.register(tool);
            }
            for problem in missing {
                self.add_diagnostic(problem);
            }
        }
        registry
    }

    /// Returns the opened tools in `uses` whose exports are missing for now.
    fn unavailable_tools(&self, uses: &[ToolUse]) -> Vec<UnavailableTool> {
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
                ToolPlan::new(self.bundle, tool, &set, &self.description_placeholders())
            }
            Err(error) => {
                self.add_diagnostic(tool_problem(self.bundle, tool, &error));
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
            let Some(difference) = describe_difference(&export.parameters, parameters) else {
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
            self.add_diagnostic(at_tool(
                self.bundle,
                diagnostic,
                tool,
                format!("spec.exports[{index}].parameters"),
            ));
        }
    }

    /// Returns the placeholders in tool descriptions from files (`descriptionFile`), with their
    /// values.
    fn description_placeholders(&self) -> [(&'static str, String); 3] {
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
            self.add_diagnostic(point_at(
                diagnostic,
                &agent.id,
                agent.origin.as_ref(),
                "spec.requiredTools",
            ));
        }
    }

    /// Records a diagnostic once.
    fn add_diagnostic(&mut self, diagnostic: Diagnostic) {
        if !self.problems.contains(&diagnostic) {
            self.problems.push(diagnostic);
        }
    }
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

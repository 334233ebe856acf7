//! `kind: Agent`: reads and checks the spec of an agent.

use std::collections::HashSet;

use schemars::JsonSchema;

use super::agent_workdir::AgentWorkdir;
use super::instructions::{self, AgentInstructions};
use super::model_config::{self, ModelConfig, ModelConfigShape};
use super::model_params::ModelParams;
use super::output::{self, AnswerFormat, OutputShape};
use super::permissions::{self, Permissions, PermissionsShape};
use super::skill::{self, Skill};
use super::{DecodeScope, export, free_config, qualified_name};
use crate::decode::FieldReader;
use crate::diagnostic::Code;
use crate::diagnostic_sink::DiagnosticSink;
use crate::meta::Kind;
use crate::references::{self, RefShape};
use crate::text::{closest, excerpt, format_list};
use crate::{JsonObject, ResourceId};

/// Prompt, model, tools and policy of an agent.
#[derive(Debug, Clone, PartialEq)]
pub struct Agent {
    /// Purpose of the agent, for other agents, clients and people.
    pub description: Option<String>,
    /// Model that is called first.
    pub model: ResourceId,
    /// Models to call, in this order, after `model` fails.
    pub fallbacks: Vec<ResourceId>,
    /// Sampling settings of its model calls.
    pub params: ModelParams,
    /// System prompt, stated inline or read from a file.
    pub prompt: Option<SystemPrompt>,
    /// Instruction files of the working directory and its parents. `None` if the agent reads none.
    pub instructions: Option<AgentInstructions>,
    /// Skills listed in the system prompt.
    pub skills: Vec<Skill>,
    /// Directories, relative to the bundle, in which each new skill becomes one of the agent.
    pub skill_collections: Vec<String>,
    /// Tools offered to the model.
    pub tools: Vec<ToolUse>,
    /// Middleware, outermost first.
    pub extensions: Vec<ExtensionUse>,
    /// Policy for tool calls. `None` if the agent states none (rule S1).
    pub permissions: Option<Permissions>,
    /// Maximum number of parallel tool calls in one step. Default: 8.
    pub max_parallel_tool_calls: usize,
    /// Schema of the answers. `None` for plain text.
    pub output: Option<AnswerFormat>,
    /// At least one of these tools must succeed before a text answer ends a turn (rule M5).
    pub required_tools: Vec<String>,
    /// Working directory of the tools.
    pub workdir: AgentWorkdir,
}

impl Agent {
    /// Returns the system prompt: own prompt, instructions and skills. `None` if all are empty.
    pub fn system(&self) -> Option<String> {
        let prompt = self.prompt.as_ref().map(|prompt| prompt.text.clone());
        let instructions = self
            .instructions
            .as_ref()
            .and_then(AgentInstructions::prompt);
        let parts: Vec<String> = [prompt, instructions, skill::prompt_section(&self.skills)]
            .into_iter()
            .flatten()
            .collect();
        (!parts.is_empty()).then(|| parts.join("\n\n"))
    }

    /// Returns the models in call order.
    pub fn models(&self) -> impl Iterator<Item = &ResourceId> {
        std::iter::once(&self.model).chain(&self.fallbacks)
    }
}

/// System prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SystemPrompt {
    /// Prompt contents.
    pub text: String,
    /// Source file, relative to the bundle. `None` for an inline prompt.
    pub file: Option<String>,
}

/// Reference to a tool and to the exports that the agent uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolUse {
    /// Referenced Tool.
    pub tool: ResourceId,
    /// Selected exports. `None` selects all.
    pub exports: Option<Vec<String>>,
    /// Hides the exports until the model finds them with `tool-search`. `None` hides MCP tools if
    /// their schemas are long.
    pub defer: Option<bool>,
}

impl ToolUse {
    /// Returns true if the agent uses the export.
    pub fn selects(&self, export: &str) -> bool {
        let exports = self.exports.as_ref();
        exports.is_none_or(|exports| exports.iter().any(|selected| selected == export))
    }
}

/// Reference to an extension, with settings for this agent.
#[derive(Debug, Clone, PartialEq)]
pub struct ExtensionUse {
    /// Referenced Extension.
    pub extension: ResourceId,
    /// Settings that override the extension's own `config`.
    pub config: JsonObject,
}

const DEFAULT_PARALLEL_TOOL_CALLS: usize = 8;

const INSTANCE_WORKDIR: &str = "instance";
const PROJECT_WORKDIR: &str = "project";

/// Decodes the spec of an Agent; `None` if a field is invalid.
pub(crate) fn decode(
    spec: &FieldReader<'_>,
    scope: &DecodeScope<'_>,
    findings: &mut DiagnosticSink,
) -> Option<Agent> {
    let mut fields = spec.fields(findings)?;
    // A string is read as `modelConfig` already, so this value has another type.
    if let Some(field) = fields.optional("model") {
        let message = format!(
            "`spec.model` must be a string, but is {}.",
            field.node.type_phrase()
        );
        findings.add(
            field
                .invalid_value(message)
                .suggest("write `model: NAME` or `modelConfig: {modelRef: Model/NAME}`"),
        );
    }
    // A model in another field has its own error.
    let config_field = if fields.has_key("model") || fields.has_key("modelRef") {
        fields.optional("modelConfig")
    } else {
        fields.required("modelConfig", findings)
    };
    let description = fields
        .optional("description")
        .map(|field| field.text(findings));
    let config = config_field.and_then(|field| model_config::read(&field, scope, findings));
    let workdir = fields
        .optional("workdir")
        .map_or(Some(AgentWorkdir::Instance), |field| {
            read_workdir(&field, scope, findings)
        });
    let prompt = fields
        .optional("prompt")
        .map(|field| read_prompt(&field, workdir.as_ref(), scope, findings));
    let skills_field = fields.optional("skills");
    let skill_collections = skills_field
        .as_ref()
        .map(|field| skill::collections(field, scope));
    let skills = skills_field.map(|field| skill::read(&field, scope, findings));
    let tools_field = fields.optional("tools");
    let tools = tools_field
        .as_ref()
        .map_or(Some(Vec::new()), |field| read_tools(field, scope, findings));
    let extensions = fields
        .optional("extensions")
        .map(|field| read_extensions(&field, scope, findings));
    let used_tools = tools.as_deref().unwrap_or_default();
    let has_own_skills = skills
        .as_ref()
        .and_then(Option::as_ref)
        .is_some_and(|skills| !skills.is_empty())
        .then_some(skill::SKILL_TOOL);
    let required_tools = fields
        .optional("requiredTools")
        .map(|field| read_required(&field, used_tools, has_own_skills, scope, findings));
    let permissions = fields
        .optional("permissions")
        .map(|field| permissions::read(&field, used_tools, scope, findings));
    let parallel = fields
        .optional("maxParallelToolCalls")
        .map(|field| field.unsigned_as(1, findings));
    let output = fields
        .optional("output")
        .map(|field| output::read(&field, scope, findings));
    fields.finish(findings);
    let ModelConfig {
        model,
        fallbacks,
        params,
    } = config?;
    if let Some(field) = tools_field.filter(|_| !used_tools.is_empty()) {
        let models = std::iter::once(&model).chain(&fallbacks);
        for model in models {
            check_capability(model, &field, scope, findings);
        }
    }
    let (prompt, instructions) = prompt.unwrap_or(Some((None, None)))?;
    Some(Agent {
        description: description
            .map_or(Some(None), |text| text.map(Some))?
            .map(str::to_owned),
        model,
        fallbacks,
        params,
        prompt,
        instructions,
        skills: skills.unwrap_or_else(|| Some(Vec::new()))?,
        skill_collections: skill_collections.unwrap_or_default(),
        tools: tools?,
        extensions: extensions.unwrap_or_else(|| Some(Vec::new()))?,
        permissions: permissions.map_or(Some(None), |permissions| permissions.map(Some))?,
        max_parallel_tool_calls: parallel.unwrap_or(Some(DEFAULT_PARALLEL_TOOL_CALLS))?,
        output: output.map_or(Some(None), |output| output.map(Some))?,
        required_tools: required_tools.unwrap_or_else(|| Some(Vec::new()))?,
        workdir: workdir?,
    })
}

/// Reads the agent's own prompt and the instruction files. A wrong `workdir` yields no
/// instructions, because there is no directory to search.
fn read_prompt(
    field: &FieldReader<'_>,
    workdir: Option<&AgentWorkdir>,
    scope: &DecodeScope<'_>,
    findings: &mut DiagnosticSink,
) -> Option<(Option<SystemPrompt>, Option<AgentInstructions>)> {
    let mut fields = field.fields(findings)?;
    let (system, file) = (fields.optional("system"), fields.optional("systemRef"));
    let instructions = fields.optional("instructions");
    fields.finish(findings);
    let own_prompt = read_own_prompt(system, file, scope, findings);
    let instructions = match instructions.zip(workdir) {
        Some((field, workdir)) => Some(instructions::read(&field, workdir, scope, findings)?),
        None => None,
    };
    Some((own_prompt?, instructions))
}

/// Reads `system` or `systemRef`. A blank file means no prompt.
fn read_own_prompt(
    system: Option<FieldReader<'_>>,
    file: Option<FieldReader<'_>>,
    scope: &DecodeScope<'_>,
    findings: &mut DiagnosticSink,
) -> Option<Option<SystemPrompt>> {
    match (system, file) {
        (Some(_), Some(file)) => {
            let message = "A prompt has `system` or `systemRef`, not both.";
            findings.add(file.invalid_value(message).suggest("keep one of the two"));
            None
        }
        (Some(system), None) => {
            let text = system.text(findings)?;
            Some(Some(SystemPrompt {
                text: text.to_owned(),
                file: None,
            }))
        }
        (None, Some(file)) => {
            let (path, text) = scope.folder.text_at(&file, findings)?;
            Some((!text.trim().is_empty()).then_some(SystemPrompt {
                text,
                file: Some(path),
            }))
        }
        (None, None) => Some(None),
    }
}

/// Reads `tools`: the used Tools with their selected exports.
fn read_tools(
    field: &FieldReader<'_>,
    scope: &DecodeScope<'_>,
    findings: &mut DiagnosticSink,
) -> Option<Vec<ToolUse>> {
    let mut tools: Vec<ToolUse> = Vec::new();
    let mut names = HashSet::new();
    for item in field.list(findings)? {
        let Some((mut fields, reference)) = references::read_item(&item, findings) else {
            continue;
        };
        let tool = scope.resolve(&reference, Kind::Tool, findings);
        let decoded = tool
            .as_ref()
            .and_then(|id| scope.decoded_resources().tools.get(id));
        let offered = decoded.map(|tool| &*tool.spec.exports).unwrap_or_default();
        let exports = fields
            .optional("exports")
            .map(|field| export::read_selection(&field, offered, findings));
        let defer = fields
            .optional("defer")
            .and_then(|field| field.boolean(findings));
        fields.finish(findings);
        let (Some(tool), Some(exports)) =
            (tool, exports.map_or(Some(None), |names| names.map(Some)))
        else {
            continue;
        };
        if !names.insert(tool.name.clone()) {
            let message = format!("A tool called `{}` is already in the list.", tool.name);
            findings.add(
                reference
                    .invalid_value(message)
                    .suggest("list each tool once, with all its `exports`"),
            );
            continue;
        }
        tools.push(ToolUse {
            tool,
            exports,
            defer,
        });
    }
    Some(tools)
}

/// Reads `extensions`: the used Extensions with their config.
fn read_extensions(
    field: &FieldReader<'_>,
    scope: &DecodeScope<'_>,
    findings: &mut DiagnosticSink,
) -> Option<Vec<ExtensionUse>> {
    let mut extensions: Vec<ExtensionUse> = Vec::new();
    for item in field.list(findings)? {
        let Some((mut fields, reference)) = references::read_item(&item, findings) else {
            continue;
        };
        let extension = scope.resolve(&reference, Kind::Extension, findings);
        let config = free_config(fields.optional("config"), false, findings);
        fields.finish(findings);
        let (Some(extension), Some(config)) = (extension, config) else {
            continue;
        };
        if extensions.iter().any(|other| other.extension == extension) {
            findings.add(reference.invalid_value(format!("`{extension}` is already in the list.")));
        }
        extensions.push(ExtensionUse { extension, config });
    }
    Some(extensions)
}

/// Returns the qualified tool names, or `None` while a library has not listed its exports.
pub(super) fn catalog(tools: &[ToolUse], scope: &DecodeScope<'_>) -> Option<Vec<String>> {
    let mut names = Vec::new();
    for used in tools {
        let exports = &scope
            .decoded_resources()
            .tools
            .get(&used.tool)?
            .spec
            .exports;
        match &used.exports {
            Some(selected) => names.extend(
                selected
                    .iter()
                    .map(|export| qualified_name(&used.tool.name, export)),
            ),
            None if exports.is_empty() => return None,
            None => names.extend(
                exports
                    .iter()
                    .map(|export| qualified_name(&used.tool.name, &export.name)),
            ),
        }
    }
    Some(names)
}

/// Reads `requiredTools`. `own` is the implicit tool that loads skills.
fn read_required(
    field: &FieldReader<'_>,
    tools: &[ToolUse],
    own: Option<&str>,
    scope: &DecodeScope<'_>,
    findings: &mut DiagnosticSink,
) -> Option<Vec<String>> {
    let items = field.unique_strings(findings)?;
    for item in &items {
        record_tool_link(item, tools, findings);
    }
    if let Some(mut known) = catalog(tools, scope) {
        known.extend(own.map(str::to_owned));
        for item in &items {
            let name = item.node.text().unwrap_or_default();
            if known.iter().any(|candidate| candidate == name) {
                continue;
            }
            let diagnostic =
                item.invalid_value(format!("The agent has no tool `{}`.", excerpt(name, 80)));
            findings.add(match closest(name, &known) {
                Some(near) => item.did_you_mean(diagnostic, near),
                None if known.is_empty() => diagnostic.suggest("add the tool to `spec.tools`"),
                None => diagnostic.suggest(format!(
                    "add it to `spec.tools`, or use one of {}",
                    format_list(&known, 12)
                )),
            });
        }
    }
    Some(
        items
            .iter()
            .filter_map(|item| item.node.text())
            .map(str::to_owned)
            .collect(),
    )
}

/// Links `field` to the agent's tool that it names. It contains a name such as `tool__export` or a
/// pattern.
pub(super) fn record_tool_link(
    field: &FieldReader<'_>,
    tools: &[ToolUse],
    findings: &mut DiagnosticSink,
) {
    let name = field
        .node
        .text()
        .and_then(|text| text.split_once("__"))
        .map(|(name, _)| name);
    if let Some(used) = tools
        .iter()
        .find(|used| Some(used.tool.name.as_str()) == name)
    {
        findings.record_link(field, 0, &used.tool);
    }
}

/// Reads `workdir`: `instance`, `project`, `repository` or a directory.
fn read_workdir(
    field: &FieldReader<'_>,
    scope: &DecodeScope<'_>,
    findings: &mut DiagnosticSink,
) -> Option<AgentWorkdir> {
    findings.record_position(field);
    match field.text(findings)? {
        INSTANCE_WORKDIR => Some(AgentWorkdir::Instance),
        PROJECT_WORKDIR => Some(AgentWorkdir::Project),
        "repository" => match scope.folder.repository_root() {
            Some(top) if top == scope.folder.canonical_root() => Some(AgentWorkdir::Project),
            Some(top) => Some(AgentWorkdir::Repository(top.clone())),
            None => {
                let message = "The agent works in the git repository around the project, but the \
                    project is not in a git repository.";
                findings.add(field.diagnostic(Code::ENTRY_NOT_FOUND, message).suggest(
                    "run `git init` in the top directory of the repository, or write `project`",
                ));
                None
            }
        },
        path if path.split('/').next() == Some("..") => read_outside(field, path, scope, findings),
        _ => {
            let path = scope.folder.path_in_project(field, findings)?;
            if scope.folder.is_file(&path) {
                let message = format!(
                    "`{}` is `{path}`, which is a file and not a directory.",
                    field.path
                );
                findings.add(
                    field
                        .invalid_value(message)
                        .suggest("write a directory, `instance` or `project`"),
                );
                return None;
            }
            Some(if path == "." {
                AgentWorkdir::Project
            } else {
                AgentWorkdir::Path(path)
            })
        }
    }
}

/// Decodes the path of a working directory outside the bundle. The directory must be in the git
/// repository that contains the bundle.
fn read_outside(
    field: &FieldReader<'_>,
    path: &str,
    scope: &DecodeScope<'_>,
    findings: &mut DiagnosticSink,
) -> Option<AgentWorkdir> {
    let path_excerpt = excerpt(path, 200);
    let Some(top) = scope.folder.repository_root() else {
        let message = format!(
            "`{}` is `{path_excerpt}`, which leaves the bundle, and there is no git repository around it.",
            field.path
        );
        findings.add(field.diagnostic(Code::PATH_ESCAPE, message).suggest(
            "use a directory of the project, or run `git init` in the top directory of the \
            repository",
        ));
        return None;
    };
    match scope.folder.folder_outside(path) {
        Some(folder) if folder == scope.folder.canonical_root() => Some(AgentWorkdir::Project),
        Some(folder) if folder.starts_with(top) => Some(AgentWorkdir::Repository(folder)),
        Some(_) => {
            let message = format!(
                "`{}` is `{path_excerpt}`, which leaves the git repository around the project.",
                field.path
            );
            findings.add(
                field
                    .diagnostic(Code::PATH_ESCAPE, message)
                    .suggest("use a directory of the repository; `repository` is all of it"),
            );
            None
        }
        None => {
            let message = format!(
                "`{}` is `{path_excerpt}`, but there is no such directory.",
                field.path
            );
            findings.add(
                field
                    .diagnostic(Code::ENTRY_NOT_FOUND, message)
                    .suggest("create it, or write `repository` for all of it"),
            );
            None
        }
    }
}

/// Reports an agent that has tools although its model states `toolCalling: false`.
fn check_capability(
    model: &ResourceId,
    tools: &FieldReader<'_>,
    scope: &DecodeScope<'_>,
    findings: &mut DiagnosticSink,
) {
    let says = scope
        .decoded_resources()
        .models
        .get(model)
        .and_then(|model| model.spec.capabilities.tool_calling);
    if says == Some(false) {
        let message = format!("The agent has tools, but `{model}` has `toolCalling: false`.");
        findings.add(
            tools
                .invalid_value(message)
                .suggest("remove the tools, or use a model that can call them"),
        );
    }
}

/// A model with a prompt, tools and permissions.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Agent")]
#[schemars(extend("allOf" = [{"anyOf": [{"required": ["model"]}, {"required": ["modelConfig"]}]}]))]
#[expect(dead_code, reason = "read only by the schema generator")]
pub(crate) struct AgentSpec {
    /// The purpose of the agent, in one or two sentences. Other agents see it when they choose an
    /// agent to call, and so do MCP and A2A clients.
    #[schemars(length(min = 1))]
    description: Option<String>,
    /// The model, as the name of a Model or as `provider/model`, such as
    /// `anthropic/claude-sonnet-4-5`. The second form needs no Model resource. Every agent has a
    /// `model` or a `modelConfig`.
    #[schemars(length(min = 1), extend("x-goondan-names" = "Model"))]
    model: Option<String>,
    /// The model that the agent uses, and its sampling settings.
    model_config: Option<ModelConfigShape>,
    /// The system prompt.
    prompt: Option<PromptShape>,
    /// Directories with a `SKILL.md`, or `./skills/*` for all skills in a directory. The system
    /// prompt lists them, and the model loads one when a task needs it. [Skills and
    /// AGENTS.md](skills.md) explains them.
    #[schemars(extend("x-goondan-names" = "folder"))]
    skills: Option<Vec<String>>,
    /// The tools that the model may call.
    tools: Option<Vec<ToolUseShape>>,
    /// The extensions that wrap turns, steps and tool calls, the outermost first.
    extensions: Option<Vec<ExtensionUseShape>>,
    /// The permission rules for the agent's tool calls.
    permissions: Option<PermissionsShape>,
    /// The maximum number of tool calls of one step that run in parallel. Other calls wait. Calls
    /// that change the same file run one after another, in the order of the answer.
    #[schemars(range(min = 1), extend("default" = DEFAULT_PARALLEL_TOOL_CALLS))]
    max_parallel_tool_calls: Option<u64>,
    /// Tools, written `tool__export`. A text answer ends a turn only after one of them has
    /// succeeded in that turn.
    #[schemars(extend("x-goondan-names" = "tool"))]
    required_tools: Option<Vec<String>>,
    /// The schema of the agent's answers, if they are data instead of plain text. [Structured
    /// output](structured-output.md) explains it.
    output: Option<OutputShape>,
    /// The working directory of the agent's tools: `instance` (a separate directory per
    /// conversation), `project` (the project directory), `repository` (the surrounding git
    /// repository), or a path from the project directory. The path may use `..` within that
    /// repository.
    #[schemars(length(min = 1), extend("default" = INSTANCE_WORKDIR))]
    #[schemars(extend("x-goondan-names" = "folder"))]
    workdir: Option<String>,
}

/// A system prompt, stated inline or read from a file, and the instruction files of the working
/// directory.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Prompt")]
#[expect(dead_code, reason = "read only by the schema generator")]
pub(crate) struct PromptShape {
    /// The text of the prompt. It excludes `systemRef`.
    #[schemars(length(min = 1))]
    system: Option<String>,
    /// The path of a project file that contains the prompt. It excludes `system`.
    #[schemars(length(min = 1))]
    #[schemars(extend("x-goondan-names" = "file"))]
    system_ref: Option<String>,
    /// The names of instruction files, such as `[AGENTS.md]`. `gdn` looks for them in the working
    /// directory and its parents, up to the top of the git repository. In each directory, the first
    /// existing file counts. [Skills and AGENTS.md](skills.md#agentsmd) explains them.
    #[schemars(length(min = 1))]
    instructions: Option<Vec<String>>,
}

/// A Tool that the agent uses.
#[derive(JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "ToolUse")]
#[expect(dead_code, reason = "read only by the schema generator")]
pub(crate) enum ToolUseShape {
    /// Short form, `Tool/name` or `name`.
    Short(
        #[schemars(regex(pattern = "^(Tool/)?[^/]+$"), extend("x-goondan-names" = "Tool"))] String,
    ),
    /// Map with the reference.
    Item(ToolUseFieldsShape),
}

#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ToolUseFields")]
#[expect(dead_code, reason = "read only by the schema generator")]
pub(crate) struct ToolUseFieldsShape {
    /// The Tool.
    #[schemars(extend("x-goondan-names" = "Tool"))]
    r#ref: RefShape,
    /// The exports that the agent gets. Without it, the agent gets all.
    #[schemars(length(min = 1))]
    #[schemars(extend("x-goondan-names" = "export"))]
    exports: Option<Vec<String>>,
    /// Offers the exports only after the model has found them with `tool-search`. By default, MCP
    /// tools are deferred if their schemas are long.
    defer: Option<bool>,
}

/// An Extension that the agent uses.
#[derive(JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "ExtensionUse")]
#[expect(dead_code, reason = "read only by the schema generator")]
pub(crate) enum ExtensionUseShape {
    /// Short form, `Extension/name` or `name`.
    Short(
        #[schemars(regex(pattern = "^(Extension/)?[^/]+$"), extend("x-goondan-names" = "Extension"))]
         String,
    ),
    /// Map with the reference.
    Item(ExtensionUseFieldsShape),
}

#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ExtensionUseFields")]
#[expect(dead_code, reason = "read only by the schema generator")]
pub(crate) struct ExtensionUseFieldsShape {
    /// The Extension.
    #[schemars(extend("x-goondan-names" = "Extension"))]
    r#ref: RefShape,
    /// Settings for this agent. They replace fields of the same name in the Extension's own
    /// `config`.
    config: Option<JsonObject>,
}

//! `kind: Agent`.

use std::collections::HashSet;
use std::path::PathBuf;

use schemars::JsonSchema;

use super::instructions::{self, Instructions};
use super::model_config::{self, ModelConfig, ModelConfigShape};
use super::model_params::ModelParams;
use super::output::{self, AnswerFormat, OutputShape};
use super::permissions::{self, Permissions, PermissionsShape};
use super::skill::{self, Skill};
use super::{Scope, export, free_map, qualified_name};
use crate::decode::Field;
use crate::diagnostic::Code;
use crate::findings::Findings;
use crate::meta::Kind;
use crate::references::{self, RefShape};
use crate::text::{closest, excerpt, list};
use crate::{JsonObject, ResourceId};

/// A prompt, a model and tools under one name.
#[derive(Debug, Clone, PartialEq)]
pub struct Agent {
    /// The model it talks to.
    pub model: ResourceId,
    /// Those that are asked where it fails, in their order.
    pub fallbacks: Vec<ResourceId>,
    /// How it talks to it.
    pub params: ModelParams,
    /// Its system prompt, read from the file where it is one.
    pub prompt: Option<Prompt>,
    /// What the folders that it works in say of how to work there; `None` where it does not look.
    pub instructions: Option<Instructions>,
    /// The skills that it is told of.
    pub skills: Vec<Skill>,
    /// The tools it is offered.
    pub tools: Vec<ToolUse>,
    /// Its middleware, outermost first.
    pub extensions: Vec<ExtensionUse>,
    /// What its tools may do; `None` where the agent states nothing (rule S1).
    pub permissions: Option<Permissions>,
    /// How many calls of one step run at the same time (default 8).
    pub max_parallel_tool_calls: usize,
    /// What its answers have to fit; `None` where they are text.
    pub output: Option<AnswerFormat>,
    /// Any of these must have succeeded before a text answer ends a turn (rule M5).
    pub required_tools: Vec<String>,
    /// Where its tools work.
    pub workdir: Workdir,
}

impl Agent {
    /// What a model is told before the conversation.
    pub fn system(&self) -> Option<String> {
        let prompt = self.prompt.as_ref().map(|prompt| prompt.text.clone());
        let instructions = self.instructions.as_ref().and_then(Instructions::prompt);
        let parts: Vec<String> = [prompt, instructions, skill::prompt(&self.skills)]
            .into_iter()
            .flatten()
            .collect();
        (!parts.is_empty()).then(|| parts.join("\n\n"))
    }

    /// The models that may be asked, in their order.
    pub fn models(&self) -> impl Iterator<Item = &ResourceId> {
        std::iter::once(&self.model).chain(&self.fallbacks)
    }
}

/// A system prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// The text itself.
    pub text: String,
    /// The file it came from, relative to the bundle.
    pub file: Option<String>,
}

/// A tool that an agent uses, whole or in part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolUse {
    /// The resource.
    pub tool: ResourceId,
    /// Only these exports; `None` means all.
    pub exports: Option<Vec<String>>,
    /// Whether the model is offered them only once it has looked for them. Where nothing is said, those of MCP servers are
    /// where there are many.
    pub defer: Option<bool>,
}

/// An extension that an agent uses.
#[derive(Debug, Clone, PartialEq)]
pub struct ExtensionUse {
    /// The resource.
    pub extension: ResourceId,
    /// Laid over the extension's own `config`.
    pub config: JsonObject,
}

/// Where the tools of an agent work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Workdir {
    /// A folder of the instance's own under the state root (the default).
    Instance,
    /// The bundle's folder.
    Project,
    /// A folder in the bundle, relative to its root.
    Path(String),
    /// A folder outside of the bundle, in the git repository around it: absolute, without links.
    Repository(PathBuf),
}

/// How many tool calls of one step run at the same time where nothing else is said.
const MAX_PARALLEL_TOOL_CALLS: usize = 8;

/// The word for [`Workdir::Instance`].
const INSTANCE: &str = "instance";
/// The word for [`Workdir::Project`].
const PROJECT: &str = "project";

pub(crate) fn decode(
    spec: &Field<'_>,
    scope: &Scope<'_>,
    findings: &mut Findings,
) -> Option<Agent> {
    let mut fields = spec.fields(findings)?;
    let config = fields
        .required("modelConfig", findings)
        .and_then(|field| model_config::read(&field, scope, findings));
    let workdir = fields
        .optional("workdir")
        .map_or(Some(Workdir::Instance), |field| {
            read_workdir(&field, scope, findings)
        });
    let prompt = fields
        .optional("prompt")
        .map(|field| read_prompt(&field, workdir.as_ref(), scope, findings));
    let skills = fields
        .optional("skills")
        .map(|field| skill::read(&field, scope, findings));
    let tools_field = fields.optional("tools");
    let tools = tools_field
        .as_ref()
        .map_or(Some(Vec::new()), |field| read_tools(field, scope, findings));
    let extensions = fields
        .optional("extensions")
        .map(|field| read_extensions(&field, scope, findings));
    let used = tools.as_deref().unwrap_or_default();
    let own = skills
        .as_ref()
        .and_then(Option::as_ref)
        .is_some_and(|skills| !skills.is_empty())
        .then_some(skill::SKILL_TOOL);
    let required_tools = fields
        .optional("requiredTools")
        .map(|field| read_required(&field, used, own, scope, findings));
    let permissions = fields
        .optional("permissions")
        .map(|field| permissions::read(&field, used, scope, findings));
    let parallel = fields
        .optional("maxParallelToolCalls")
        .map(|field| field.whole_as(1, findings));
    let output = fields
        .optional("output")
        .map(|field| output::read(&field, scope, findings));
    fields.finish(findings);
    let ModelConfig {
        model,
        fallbacks,
        params,
    } = config?;
    if let Some(field) = tools_field.filter(|_| !used.is_empty()) {
        let models = std::iter::once(&model).chain(&fallbacks);
        models.for_each(|model| check_capability(model, &field, scope, findings));
    }
    let (prompt, instructions) = prompt.unwrap_or(Some((None, None)))?;
    Some(Agent {
        model,
        fallbacks,
        params,
        prompt,
        instructions,
        skills: skills.unwrap_or_else(|| Some(Vec::new()))?,
        tools: tools?,
        extensions: extensions.unwrap_or_else(|| Some(Vec::new()))?,
        permissions: permissions.map_or(Some(None), |permissions| permissions.map(Some))?,
        max_parallel_tool_calls: parallel.unwrap_or(Some(MAX_PARALLEL_TOOL_CALLS))?,
        output: output.map_or(Some(None), |output| output.map(Some))?,
        required_tools: required_tools.unwrap_or_else(|| Some(Vec::new()))?,
        workdir: workdir?,
    })
}

/// What an agent is told before the conversation: its own prompt, and what its folders say. An agent whose `workdir` is wrong
/// has no folders.
fn read_prompt(
    field: &Field<'_>,
    workdir: Option<&Workdir>,
    scope: &Scope<'_>,
    findings: &mut Findings,
) -> Option<(Option<Prompt>, Option<Instructions>)> {
    let mut fields = field.fields(findings)?;
    let (system, file) = (fields.optional("system"), fields.optional("systemRef"));
    let instructions = fields.optional("instructions");
    fields.finish(findings);
    let own = read_own_prompt(system, file, scope, findings);
    let instructions = match instructions.zip(workdir) {
        Some((field, workdir)) => Some(instructions::read(&field, workdir, scope, findings)?),
        None => None,
    };
    Some((own?, instructions))
}

/// A blank file means no prompt, as it does in a text.
fn read_own_prompt(
    system: Option<Field<'_>>,
    file: Option<Field<'_>>,
    scope: &Scope<'_>,
    findings: &mut Findings,
) -> Option<Option<Prompt>> {
    match (system, file) {
        (Some(_), Some(file)) => {
            let message = "A prompt has `system` or `systemRef`, not both.";
            findings.add(file.invalid(message).suggest("keep one of the two"));
            None
        }
        (Some(system), None) => {
            let text = system.text(findings)?;
            Some(Some(Prompt {
                text: text.to_owned(),
                file: None,
            }))
        }
        (None, Some(file)) => {
            let (path, text) = scope.folder.text_at(&file, findings)?;
            Some((!text.trim().is_empty()).then_some(Prompt {
                text,
                file: Some(path),
            }))
        }
        (None, None) => Some(None),
    }
}

fn read_tools(
    field: &Field<'_>,
    scope: &Scope<'_>,
    findings: &mut Findings,
) -> Option<Vec<ToolUse>> {
    let mut tools: Vec<ToolUse> = Vec::new();
    let mut names = HashSet::new();
    for item in field.list(findings)? {
        let Some((mut fields, reference)) = references::item(&item, findings) else {
            continue;
        };
        let tool = scope.resolve(&reference, Kind::Tool, findings);
        let own = tool.as_ref().and_then(|id| scope.decoded().tools.get(id));
        let own = own.map(|tool| &*tool.spec.exports).unwrap_or_default();
        let exports = fields
            .optional("exports")
            .map(|field| export::read_selection(&field, own, findings));
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
            let message = format!("A tool called `{}` is in the list already.", tool.name);
            findings.add(
                reference
                    .invalid(message)
                    .suggest("name each tool once, with all the `exports` that you want"),
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

fn read_extensions(
    field: &Field<'_>,
    scope: &Scope<'_>,
    findings: &mut Findings,
) -> Option<Vec<ExtensionUse>> {
    let mut extensions: Vec<ExtensionUse> = Vec::new();
    for item in field.list(findings)? {
        let Some((mut fields, reference)) = references::item(&item, findings) else {
            continue;
        };
        let extension = scope.resolve(&reference, Kind::Extension, findings);
        let config = free_map(fields.optional("config"), findings);
        fields.finish(findings);
        let (Some(extension), Some(config)) = (extension, config) else {
            continue;
        };
        if extensions.iter().any(|other| other.extension == extension) {
            findings.add(reference.invalid(format!("`{extension}` is in the list already.")));
        }
        extensions.push(ExtensionUse { extension, config });
    }
    Some(extensions)
}

/// The names that the model is offered, or `None` where a library has yet to say its own.
pub(super) fn catalog(tools: &[ToolUse], scope: &Scope<'_>) -> Option<Vec<String>> {
    let mut names = Vec::new();
    for used in tools {
        let exports = &scope.decoded().tools.get(&used.tool)?.spec.exports;
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

/// Reads `requiredTools`. `own` is the tool that the agent has without naming it.
fn read_required(
    field: &Field<'_>,
    tools: &[ToolUse],
    own: Option<&str>,
    scope: &Scope<'_>,
    findings: &mut Findings,
) -> Option<Vec<String>> {
    let items = field.texts(findings)?;
    items
        .iter()
        .for_each(|item| note_tool(item, tools, findings));
    if let Some(mut known) = catalog(tools, scope) {
        known.extend(own.map(str::to_owned));
        for item in &items {
            let name = item.node.text().unwrap_or_default();
            if known.iter().any(|candidate| candidate == name) {
                continue;
            }
            let diagnostic =
                item.invalid(format!("The agent has no tool `{}`.", excerpt(name, 80)));
            findings.add(match closest(name, &known) {
                Some(near) => item.did_you_mean(diagnostic, near),
                None if known.is_empty() => diagnostic.suggest("add the tool to `spec.tools`"),
                None => diagnostic.suggest(format!(
                    "add it to `spec.tools`, or use one of {}",
                    list(&known, 12)
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

/// Notes that `field`, which holds a name such as `tool__export` or a pattern, names one of the agent's tools.
pub(super) fn note_tool(field: &Field<'_>, tools: &[ToolUse], findings: &mut Findings) {
    let name = field
        .node
        .text()
        .and_then(|text| text.split_once("__"))
        .map(|(name, _)| name);
    if let Some(used) = tools
        .iter()
        .find(|used| Some(used.tool.name.as_str()) == name)
    {
        findings.note_link(field, 0, &used.tool);
    }
}

fn read_workdir(field: &Field<'_>, scope: &Scope<'_>, findings: &mut Findings) -> Option<Workdir> {
    match field.text(findings)? {
        INSTANCE => Some(Workdir::Instance),
        PROJECT => Some(Workdir::Project),
        "repository" => match scope.folder.repository() {
            Some(top) if top == scope.folder.canonical() => Some(Workdir::Project),
            Some(top) => Some(Workdir::Repository(top.clone())),
            None => {
                let message =
                    "The agent works in the git repository around the project, but there is none.";
                findings.add(field.problem(Code::ENTRY_NOT_FOUND, message).suggest(
                    "run `git init` where the repository shall begin, or write `project`",
                ));
                None
            }
        },
        path if path.split('/').next() == Some("..") => read_outside(field, path, scope, findings),
        _ => {
            let path = scope.folder.path_in_project(field, findings)?;
            if scope.folder.is_file(&path) {
                let message = format!(
                    "`{}` is `{path}`, which is a file and not a folder.",
                    field.path
                );
                findings.add(
                    field
                        .invalid(message)
                        .suggest("name a folder, or write `instance` or `project`"),
                );
                return None;
            }
            Some(if path == "." {
                Workdir::Project
            } else {
                Workdir::Path(path)
            })
        }
    }
}

/// A folder above the bundle or beside it, as far up as the repository around it reaches.
fn read_outside(
    field: &Field<'_>,
    path: &str,
    scope: &Scope<'_>,
    findings: &mut Findings,
) -> Option<Workdir> {
    let shown = excerpt(path, 200);
    let Some(top) = scope.folder.repository() else {
        let message = format!(
            "`{}` is `{shown}`, which leaves the bundle, and there is no git repository around it.",
            field.path
        );
        findings.add(field.problem(Code::PATH_ESCAPE, message).suggest(
            "use a folder of the project, or run `git init` where the repository shall begin",
        ));
        return None;
    };
    match scope.folder.folder_outside(path) {
        Some(folder) if folder == scope.folder.canonical() => Some(Workdir::Project),
        Some(folder) if folder.starts_with(top) => Some(Workdir::Repository(folder)),
        Some(_) => {
            let message = format!(
                "`{}` is `{shown}`, which leaves the git repository around the project.",
                field.path
            );
            findings.add(
                field
                    .problem(Code::PATH_ESCAPE, message)
                    .suggest("use a folder of the repository; `repository` is all of it"),
            );
            None
        }
        None => {
            let message = format!(
                "`{}` is `{shown}`, but there is no such folder.",
                field.path
            );
            findings.add(
                field
                    .problem(Code::ENTRY_NOT_FOUND, message)
                    .suggest("create it, or write `repository` for all of it"),
            );
            None
        }
    }
}

/// A model that says it cannot call tools is no model for an agent that has some.
fn check_capability(
    model: &ResourceId,
    tools: &Field<'_>,
    scope: &Scope<'_>,
    findings: &mut Findings,
) {
    let says = scope
        .decoded()
        .models
        .get(model)
        .and_then(|model| model.spec.capabilities.tool_calling);
    if says == Some(false) {
        let message = format!("The agent has tools, but `{model}` says `toolCalling: false`.");
        findings.add(
            tools
                .invalid(message)
                .suggest("remove the tools, or use a model that can call them"),
        );
    }
}

/// A model with a prompt, tools and permissions.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Agent")]
#[expect(dead_code, reason = "read by the schema generator alone")]
pub(crate) struct AgentSpec {
    /// The model that the agent uses, and how it samples.
    model_config: ModelConfigShape,
    /// The system prompt.
    prompt: Option<PromptShape>,
    /// Folders with a `SKILL.md`, or `./skills/*` for all that are in a folder. The model is told what they are for, and loads
    /// one when a task needs it. [Skills and AGENTS.md](skills.md) explains them.
    #[schemars(extend("x-goondan-names" = "folder"))]
    skills: Option<Vec<String>>,
    /// The tools that the model may call.
    tools: Option<Vec<ToolUseShape>>,
    /// The extensions that wrap turns, steps and tool calls, the outermost first.
    extensions: Option<Vec<ExtensionUseShape>>,
    /// What the agent's tools may do.
    permissions: Option<PermissionsShape>,
    /// How many tool calls of one step run at the same time. The others wait.
    #[schemars(range(min = 1), extend("default" = MAX_PARALLEL_TOOL_CALLS))]
    max_parallel_tool_calls: Option<u64>,
    /// Tools, written `tool__export`. A text answer ends a turn only after one of them has succeeded in that turn.
    #[schemars(extend("x-goondan-names" = "tool"))]
    required_tools: Option<Vec<String>>,
    /// What the agent's answers have to fit, where they are data and not text. [Structured output](structured-output.md) explains
    /// it.
    output: Option<OutputShape>,
    /// The folder in which the agent's tools work: `instance` (a folder that each conversation has for itself), `project`
    /// (the project folder), `repository` (the git repository around the project), or a path from the project folder, which
    /// may climb by `..` as far as that repository.
    #[schemars(length(min = 1), extend("default" = INSTANCE))]
    #[schemars(extend("x-goondan-names" = "folder"))]
    workdir: Option<String>,
}

/// A system prompt: the text, or a file that holds it, and the instructions of the folders that the agent works in.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Prompt")]
#[expect(dead_code, reason = "read by the schema generator alone")]
pub(crate) struct PromptShape {
    /// The text of the prompt. It excludes `systemRef`.
    #[schemars(length(min = 1))]
    system: Option<String>,
    /// The path of a file in the project that holds the prompt. It excludes `system`.
    #[schemars(length(min = 1))]
    #[schemars(extend("x-goondan-names" = "file"))]
    system_ref: Option<String>,
    /// The names of files with instructions, such as `[AGENTS.md]`, which are looked for in the folder that the agent works in
    /// and in those above it, up to the top of the git repository. Of each folder the first that is there counts.
    /// [Skills and AGENTS.md](skills.md#agentsmd) explains them.
    #[schemars(length(min = 1))]
    instructions: Option<Vec<String>>,
}

#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ToolUse")]
#[expect(dead_code, reason = "read by the schema generator alone")]
pub(crate) struct ToolUseShape {
    /// The Tool.
    #[schemars(extend("x-goondan-names" = "Tool"))]
    r#ref: RefShape,
    /// The exports that the agent gets. Without it, the agent gets all.
    #[schemars(length(min = 1))]
    #[schemars(extend("x-goondan-names" = "export"))]
    exports: Option<Vec<String>>,
    /// Offers them only once the model has looked for them with `tool-search`. By default those of MCP servers are kept back
    /// where their schemas are long.
    defer: Option<bool>,
}

#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ExtensionUse")]
#[expect(dead_code, reason = "read by the schema generator alone")]
pub(crate) struct ExtensionUseShape {
    /// The Extension.
    #[schemars(extend("x-goondan-names" = "Extension"))]
    r#ref: RefShape,
    /// Settings for this agent. They replace fields of the same name in the Extension's own `config`.
    config: Option<JsonObject>,
}

//! `gdn policy explain`: the decision on a tool call, without making the call.

use std::path::{Path, PathBuf};

use clap::Args;
use goondan::internal::ArgumentSchema;
use goondan::policy::{PathEnvironment, PolicyQuestion, ResolvedPaths};
use goondan::spec::kinds::{Agent, AgentWorkdir, ExportSpec, MarkedArguments, ToolEntry};
use goondan::spec::{Bundle, Resource};
use goondan::trust::effective_permissions::AgentCallers;
use serde_json::{Map, Value};

use super::explanation_output::{AgentVerdict, PolicyExplanation};
use crate::complete;
use crate::exit::CliError;
use crate::output::CommandOutput;
use crate::project;
use crate::project_path::ProjectPathOption;

const EXAMPLES: &str = "\
Examples:
  gdn policy explain --agent assistant --tool bash__exec --args '{\"command\": \"git log; rm x\"}'
  gdn policy explain --agent worker --tool fs__write --caller lead   When called by `lead`";

/// Arguments of `gdn policy explain`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct PolicyExplainArgs {
    /// The agent that makes the call
    #[arg(short, long, value_name = "NAME", add = complete::agents())]
    agent: String,
    /// The tool, written `resource__export`
    #[arg(short, long, value_name = "NAME", add = complete::exports())]
    tool: String,
    /// The arguments of the call
    #[arg(long, value_name = "JSON", default_value = "{}")]
    args: String,
    /// An agent that called the agent, directly or through others; may be repeated
    #[arg(short, long, value_name = "NAME")]
    caller: Vec<String>,
    /// Resolve paths from this directory, as a run would [default: the agent's `workdir`, if it is
    /// in the project]
    #[arg(short, long, value_name = "PATH")]
    workdir: Option<PathBuf>,
    #[command(flatten)]
    project: ProjectPathOption,
}

/// Prints the decision on a call, and the decisions of the agents that may have caused the call.
pub(super) fn run(args: &PolicyExplainArgs, output: &CommandOutput) -> Result<(), CliError> {
    let bundle = project::load_valid(&args.project.find(output)?, output)?.1;
    let arguments = parse_arguments(&args.args)?;
    let agent = find_agent(&bundle, &args.agent)?;
    let (export, is_builtin) = find_export(&bundle, agent, &args.tool)?;
    let (arguments, refusal) = match ArgumentSchema::new(export.parameters.clone())
        .check(&Value::Object(arguments.clone()))
    {
        Ok(complete) => (complete, None),
        Err(invalid) => (arguments, Some(invalid.message)),
    };
    let marked = export.marked_arguments();
    let workdir = args
        .workdir
        .clone()
        .or_else(|| shared_workdir(&bundle, agent));
    let resolved_paths =
        resolve_paths(&bundle, workdir.as_deref(), is_builtin, &marked, &arguments)?;
    let paths = resolved_paths.arguments();
    let needs = &export.permissions;
    let question = PolicyQuestion {
        tool_name: &args.tool,
        needs,
        arguments: &arguments,
        marked: &marked,
        paths,
    };
    let verdict = |agent| AgentVerdict::of(agent, question, &resolved_paths);
    let mut verdicts = vec![verdict(agent)];
    for caller in &args.caller {
        verdicts.push(verdict(find_agent(&bundle, caller)?));
    }
    let callers = match args.caller.as_slice() {
        [] => AgentCallers::of(&bundle).callers_of(&agent.id).collect(),
        _ => Vec::new(),
    };
    let explanation = PolicyExplanation {
        tool: &args.tool,
        has_line: marked
            .commands
            .iter()
            .any(|name| arguments.contains_key(name)),
        verdicts,
        callers: callers.iter().copied().map(verdict).collect(),
        notes: explanation_notes(refusal, workdir.is_none() && !paths.is_empty()),
    };
    if output.json {
        output.json_pretty(&explanation.json())
    } else {
        output.line(explanation.text().trim_end())
    }
}

/// Resolves the paths of the call against the directory `folder`. Without a directory, paths are
/// compared as strings.
fn resolve_paths(
    bundle: &Bundle,
    folder: Option<&Path>,
    is_builtin: bool,
    marked: &MarkedArguments,
    arguments: &Map<String, Value>,
) -> Result<ResolvedPaths, CliError> {
    let Some(folder) = folder else {
        return Ok(ResolvedPaths::by_text(marked, arguments));
    };
    let workdir = &std::path::absolute(folder)?;
    let path_environment = PathEnvironment {
        bundle,
        workdir,
        own_folder: Path::new(PLACEHOLDER_DIRECTORY),
        is_builtin,
        can_write: true,
    };
    Ok(ResolvedPaths::of(&path_environment, marked, arguments))
}

/// Placeholder for the directory of a conversation, because none is given.
const PLACEHOLDER_DIRECTORY: &str = "/.gdn/workspace/conversations/nobody";

/// Returns the working directory, if all conversations of the agent share it.
fn shared_workdir(bundle: &Bundle, agent: &Resource<Agent>) -> Option<PathBuf> {
    match &agent.spec.workdir {
        AgentWorkdir::Instance => None,
        AgentWorkdir::Project => Some(bundle.root().to_owned()),
        AgentWorkdir::Path(path) => Some(bundle.root().join(path)),
        AgentWorkdir::Repository(folder) => Some(folder.clone()),
    }
}

/// Returns notes on invalid arguments and on unresolved paths.
fn explanation_notes(refusal: Option<String>, by_text: bool) -> Vec<String> {
    let refused = refusal.map(|message| {
        format!("A call with these arguments is rejected before the rules apply: {message}")
    });
    let by_text = by_text.then(|| {
        "Paths are compared as strings, because each conversation of this agent has its own \
            directory. A run follows symbolic links and may decide differently; `--workdir DIR` \
            does so here."
            .to_owned()
    });
    refused.into_iter().chain(by_text).collect()
}

/// Parses `--args`, which must be a JSON object.
fn parse_arguments(text: &str) -> Result<Map<String, Value>, CliError> {
    serde_json::from_str(text).map_err(|error| {
        CliError::usage(format!("`--args` is not a JSON object: {error}."))
            .suggest(r#"Quote the object for the shell: --args '{"command": "ls"}'"#)
    })
}

/// Returns the agent with this name. Fails and lists the names if there is none.
fn find_agent<'b>(bundle: &'b Bundle, name: &str) -> Result<&'b Resource<Agent>, CliError> {
    let agent = bundle.agents().values().find(|agent| agent.id.name == name);
    agent.map(AsRef::as_ref).ok_or_else(|| {
        let names: Vec<&str> = bundle.agents().keys().map(|id| id.name.as_str()).collect();
        CliError::usage(format!("The project has no agent `{name}`."))
            .suggest(format!("Use one of: {}.", names.join(", ")))
    })
}

/// Finds an export by its full name, and returns true if its tool is built in.
fn find_export<'b>(
    bundle: &'b Bundle,
    agent: &Resource<Agent>,
    tool: &str,
) -> Result<(&'b ExportSpec, bool), CliError> {
    let mut names = Vec::new();
    for used in &agent.spec.tools {
        let resource = &bundle.tools()[&used.tool];
        let is_chosen = |export: &&ExportSpec| used.selects(&export.name);
        for export in resource.spec.exports.iter().filter(is_chosen) {
            let name = format!("{}__{}", used.tool.name, export.name);
            if name == tool {
                return Ok((export, matches!(resource.spec.entry, ToolEntry::Builtin(_))));
            }
            names.push(name);
        }
    }
    let error = CliError::usage(format!(
        "The agent `{}` has no tool `{tool}` that the YAML describes.",
        agent.id.name
    ));
    Err(error.suggest(if names.is_empty() {
        NO_EXPORTS_HINT.to_owned()
    } else {
        format!(
            "Known before the swarm starts: {}. {LATE_EXPORTS_HINT}",
            names.join(", ")
        )
    }))
}

const LATE_EXPORTS_HINT: &str =
    "Exports of a library are only known at run time; list them in `spec.exports` of the Tool.";
const NO_EXPORTS_HINT: &str = "No tool in its `spec.tools` has exports that are known before the \
    swarm starts. Exports of a library are only known at run time; list them in `spec.exports` of \
    the Tool.";

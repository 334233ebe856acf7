//! `gdn policy explain`: judges a call as a run would, without making it.

use std::path::{Path, PathBuf};

use clap::Args;
use goondan::chain::Callers;
use goondan::inside::ArgumentSchema;
use goondan::policy::{Ground, Places, PolicyQuestion};
use goondan::spec::kinds::{Agent, Entry, ExportSpec, MarkedArguments, Workdir};
use goondan::spec::{Bundle, Resource};
use serde_json::{Map, Value};

use super::explained::{Explanation, Verdict};
use crate::complete;
use crate::exit::CliError;
use crate::output::Output;
use crate::place::ProjectOption;
use crate::project;

const EXAMPLES: &str = "\
Examples:
  gdn policy explain --agent assistant --tool bash__exec --args '{\"command\": \"git log; rm x\"}'
  gdn policy explain --agent worker --tool fs__write --caller lead   As a callee of `lead`";

/// Arguments of `gdn policy explain`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ExplainArgs {
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
    /// Follow paths from this folder, as a run would [default: the agent's `workdir`, where that is in the project]
    #[arg(short, long, value_name = "PATH")]
    workdir: Option<PathBuf>,
    #[command(flatten)]
    project: ProjectOption,
}

/// Explains.
pub(super) fn run(args: &ExplainArgs, output: &Output) -> Result<(), CliError> {
    let bundle = project::load_valid(&args.project.find(output)?, output)?.1;
    let arguments = arguments(&args.args)?;
    let agent = find_agent(&bundle, &args.agent)?;
    let (export, is_builtin) = find_export(&bundle, agent, &args.tool)?;
    let (arguments, refusal) = match ArgumentSchema::new(export.parameters.clone())
        .check(&Value::Object(arguments.clone()))
    {
        Ok(whole) => (whole, None),
        Err(invalid) => (arguments, Some(invalid.message)),
    };
    let marked = export.marked_arguments();
    let folder = args
        .workdir
        .clone()
        .or_else(|| known_folder(&bundle, agent));
    let places = places(&bundle, folder.as_deref(), is_builtin, &marked, &arguments)?;
    let paths = places.arguments();
    let needs = &export.permissions;
    let question = PolicyQuestion {
        tool_name: &args.tool,
        needs,
        arguments: &arguments,
        marked: &marked,
        paths,
    };
    let says = |agent| Verdict::of(agent, question, &places);
    let mut verdicts = vec![says(agent)];
    for caller in &args.caller {
        verdicts.push(says(find_agent(&bundle, caller)?));
    }
    let callers = match args.caller.as_slice() {
        [] => Callers::of(&bundle).of_agent(&agent.id).collect(),
        _ => Vec::new(),
    };
    let explanation = Explanation {
        tool: &args.tool,
        has_line: marked
            .commands
            .iter()
            .any(|name| arguments.contains_key(name)),
        verdicts,
        callers: callers.iter().copied().map(says).collect(),
        notes: notes(refusal, folder.is_none() && !paths.is_empty()),
    };
    match output.json {
        true => output.json_pretty(&explanation.json()),
        false => output.line(explanation.text().trim_end()),
    }
}

/// Where the paths of the call lead, as far as that is known.
fn places(
    bundle: &Bundle,
    folder: Option<&Path>,
    is_builtin: bool,
    marked: &MarkedArguments,
    arguments: &Map<String, Value>,
) -> Result<Places, CliError> {
    let Some(folder) = folder else {
        return Ok(Places::by_text(marked, arguments));
    };
    let workdir = &std::path::absolute(folder)?;
    let ground = Ground {
        bundle,
        workdir,
        own_folder: Path::new(OF_NOBODY),
        is_builtin,
    };
    Ok(Places::of(&ground, marked, arguments))
}

/// The folder that a conversation has for itself, where no conversation is asked about.
const OF_NOBODY: &str = "/.gdn/workspace/conversations/nobody";

/// Where the agent works, if that is the same for all of its conversations.
fn known_folder(bundle: &Bundle, agent: &Resource<Agent>) -> Option<PathBuf> {
    match &agent.spec.workdir {
        Workdir::Instance => None,
        Workdir::Project => Some(bundle.root().to_owned()),
        Workdir::Path(path) => Some(bundle.root().join(path)),
        Workdir::Repository(folder) => Some(folder.clone()),
    }
}

/// What else there is to know.
fn notes(refusal: Option<String>, by_text: bool) -> Vec<String> {
    let refused = refusal.map(|message| {
        format!("A call with these arguments is refused before any rule is asked: {message}")
    });
    let by_text = by_text.then(|| {
        "Paths are compared by their text here: each conversation of this agent has a folder of its own. A run follows \
         links, so where a part of the path is a link it may decide differently; `--workdir FOLDER` does the same."
            .to_owned()
    });
    refused.into_iter().chain(by_text).collect()
}

fn arguments(text: &str) -> Result<Map<String, Value>, CliError> {
    serde_json::from_str(text).map_err(|error| {
        CliError::usage(format!("`--args` is not a JSON object: {error}."))
            .suggest(r#"Quote the object for the shell: --args '{"command": "ls"}'"#)
    })
}

fn find_agent<'b>(bundle: &'b Bundle, name: &str) -> Result<&'b Resource<Agent>, CliError> {
    let agent = bundle.agents().values().find(|agent| agent.id.name == name);
    agent.map(AsRef::as_ref).ok_or_else(|| {
        let known: Vec<&str> = bundle.agents().keys().map(|id| id.name.as_str()).collect();
        CliError::usage(format!("The project has no agent `{name}`."))
            .suggest(format!("Its agents are: {}.", known.join(", ")))
    })
}

/// The export, and whether its tool is built in.
fn find_export<'b>(
    bundle: &'b Bundle,
    agent: &Resource<Agent>,
    tool: &str,
) -> Result<(&'b ExportSpec, bool), CliError> {
    let mut known = Vec::new();
    for used in &agent.spec.tools {
        let resource = &bundle.tools()[&used.tool];
        let is_chosen = |export: &&ExportSpec| {
            used.exports
                .as_ref()
                .is_none_or(|names| names.contains(&export.name))
        };
        for export in resource.spec.exports.iter().filter(is_chosen) {
            let name = format!("{}__{}", used.tool.name, export.name);
            if name == tool {
                return Ok((export, matches!(resource.spec.entry, Entry::Builtin(_))));
            }
            known.push(name);
        }
    }
    let error = CliError::usage(format!(
        "The agent `{}` has no tool `{tool}` that the YAML describes.",
        agent.id.name
    ));
    Err(error.suggest(match known.is_empty() {
        true => NONE_KNOWN.to_owned(),
        false => format!(
            "Known before the swarm starts: {}. {LATER}",
            known.join(", ")
        ),
    }))
}

const LATER: &str = "A library tells its exports later; name them in `spec.exports` of the Tool.";
const NONE_KNOWN: &str = "It has none in `spec.tools` whose exports are known before the swarm starts. A library tells its \
                          exports later; name them in `spec.exports` of the Tool.";

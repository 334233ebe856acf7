//! `gdn tool`.

use clap::{Args, Subcommand};
use goondan::StateRoot;
use goondan::inside::shown;
use goondan::ports::model::ToolDefinition;
use goondan::ports::tool::{ToolCallResult, ToolCallStatus};
use goondan::spec::Code;
use goondan_serve::client::segment;
use goondan_serve::wire::CallBody;
use serde_json::Value;
use std::path::Path;

use crate::commands::run::{Asked, Elsewhere, Session, Signals, Unsaid, watched};
use crate::complete;
use crate::exit::{CliError, Exit};
use crate::output::{Output, style};
use crate::place::ProjectOption;
use crate::project::{Launch, StartArgs};
use crate::reading;
use crate::remote::NotStarted;

const EXAMPLES: &str = "\
Examples:
  gdn tool list                           List the tools of the entry agent
  gdn tool list --agent writer --json     List the tools of another agent as JSON
  gdn tool call text-transform__case --args '{\"text\": \"hi\", \"to\": \"upper\"}'
  gdn tool call bash__exec --args '{\"command\": \"ls\"}' --yes";

/// Arguments of `gdn tool`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ToolArgs {
    #[command(subcommand)]
    command: ToolCommand,
}

#[derive(Debug, Subcommand)]
enum ToolCommand {
    /// List the tools that an agent offers its model
    List(ListArgs),
    /// Call a tool as the agent would, with its permissions and limits
    Call(CallArgs),
}

/// Where the tools are.
#[derive(Debug, Args)]
#[command(mut_arg("node_turns", |arg| arg.hide(true)))]
struct Place {
    #[command(flatten)]
    project: ProjectOption,
    /// Act as this agent [default: the swarm's entry agent]
    #[arg(short, long, value_name = "NAME", add = complete::agents())]
    agent: Option<String>,
    #[command(flatten)]
    start: StartArgs,
}

#[derive(Debug, Args)]
struct ListArgs {
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, Args)]
struct CallArgs {
    /// The tool, written `resource__export`
    #[arg(value_name = "NAME", add = complete::exports())]
    tool: String,
    /// Pass these arguments (`-` for standard input)
    #[arg(long, value_name = "JSON", default_value = "{}")]
    args: String,
    /// Work in the folder of the conversation with this key
    #[arg(short = 'k', long, value_name = "KEY", default_value = "main")]
    instance_key: String,
    #[command(flatten)]
    place: Place,
}

/// Lists or calls tools.
pub(crate) async fn run(
    args: ToolArgs,
    state_root: &StateRoot,
    output: &Output,
) -> Result<(), CliError> {
    watched(async |signals| match args.command {
        ToolCommand::List(args) => list(&args, signals, state_root, output).await,
        ToolCommand::Call(args) => call(&args, signals, state_root, output).await,
    })
    .await
}

async fn list(
    args: &ListArgs,
    signals: Signals,
    state_root: &StateRoot,
    output: &Output,
) -> Result<(), CliError> {
    let project = args.place.project.find(output)?;
    let (agent, tools) = match start(&args.place, &project, signals, state_root, output).await {
        Ok(session) => {
            let agent = args
                .place
                .agent
                .clone()
                .unwrap_or_else(|| session.swarm.entry_agent());
            let (name, tools) = (session.swarm.name(), session.swarm.catalog(&agent));
            session.shut_down().await?;
            let tools = tools.ok_or_else(|| {
                CliError::usage(format!("The swarm `{name}` has no agent `{agent}`."))
                    .suggest("`gdn validate` checks the project; the Swarm's `spec.agents` lists its agents.")
            });
            (agent, tools?)
        }
        Err(NotStarted::Elsewhere(remote, _)) => {
            let agent = args
                .place
                .agent
                .clone()
                .unwrap_or_else(|| remote.swarm.entry_agent.clone());
            let tools: Vec<ToolDefinition> = remote
                .client
                .get(&format!("/api/tools?agent={}", segment(&agent)))
                .await?;
            (agent, tools)
        }
        Err(not_started) => return Err(not_started.into()),
    };
    if output.json {
        return output.json_pretty(&tools);
    }
    if tools.is_empty() {
        return output.note(&format!("The agent `{}` has no tools.", shown::line(agent)));
    }
    let colour = style::NAME;
    let width = tools.iter().map(|tool| tool.name.len()).max().unwrap_or(0);
    for tool in &tools {
        let (name, about) = (
            shown::line(&tool.name).to_string(),
            shown::line(first_sentence(&tool.description)),
        );
        output.line(&format!("{colour}{name:width$}{colour:#}  {about}"))?;
    }
    Ok(())
}

/// The beginning of a description, which says what the tool does. `--json` has all of it.
fn first_sentence(description: &str) -> &str {
    let line = description.lines().next().unwrap_or_default();
    line.find(". ").map_or(line, |end| &line[..=end])
}

async fn call(
    args: &CallArgs,
    mut signals: Signals,
    state_root: &StateRoot,
    output: &Output,
) -> Result<(), CliError> {
    let arguments = arguments(&args.args)?;
    let project = args.place.project.find(output)?;
    let outcome = loop {
        match start(&args.place, &project, signals, state_root, output).await {
            Ok(mut session) => {
                let agent = args.place.agent.as_deref();
                let outcome = session
                    .call_tool(agent, &args.instance_key, &args.tool, arguments)
                    .await?;
                session.shut_down().await?;
                break outcome;
            }
            Err(NotStarted::Elsewhere(remote, given)) => {
                let (agent, instance_key) =
                    (args.place.agent.clone(), Some(args.instance_key.clone()));
                let body = CallBody {
                    agent,
                    instance_key,
                    arguments: arguments.clone(),
                };
                let mut there =
                    Elsewhere::begin(*remote, "call", &args.place.start, given, output)?;
                match there.call_tool(&args.tool, &body).await {
                    Err(Unsaid::NotBegun(why)) => signals = there.outlive(why).await?,
                    called => break called?,
                }
            }
            Err(not_started) => return Err(not_started.into()),
        }
    };
    show(&outcome, output).map_err(|error| match error.code == Code::TOOL_NOT_IN_CATALOG {
        true => not_listed(&args.tool, &project, error),
        false => error,
    })
}

/// The error of a tool that the agent has not, where nobody is in a step.
fn not_listed(tool: &str, project: &Path, error: CliError) -> CliError {
    let message = format!("The agent has no tool `{tool}`.");
    let bundle = goondan::load(project).bundle;
    let resource = tool.split_once("__").map_or(tool, |(resource, _)| resource);
    let is_there = bundle.is_some_and(|bundle| bundle.tools().keys().any(|id| id.name == resource));
    let listed = error.suggestion.clone().unwrap_or_default();
    let suggestion = match is_there && !listed.contains(&format!(" {resource}__")) {
        true => format!("Add `- ref: Tool/{resource}` to `spec.tools` of the agent. {listed}"),
        false => listed,
    };
    CliError { message, ..error }.suggest(suggestion)
}

async fn start(
    place: &Place,
    project: &Path,
    signals: Signals,
    state_root: &StateRoot,
    output: &Output,
) -> Result<Session, NotStarted> {
    let launch = Launch {
        project,
        args: &place.start,
        record: None,
        watch: false,
        asked: Asked::Terminal,
        waits: false,
    };
    Session::start(launch, signals, state_root, output).await
}

/// The arguments as a model would send them: any JSON. Whether the tool takes them is the runtime's check.
fn arguments(text: &str) -> Result<Value, CliError> {
    let text = match text {
        "-" => reading::text(std::io::stdin().lock(), "Standard input")?,
        given => given.to_owned(),
    };
    serde_json::from_str(&text).map_err(|error| {
        CliError::usage(format!("`--args` is not JSON: {error}."))
            .suggest(r#"Quote the object for the shell: --args '{"text": "hi"}'"#)
    })
}

/// The output on standard output; a failure as the error that ends the command.
fn show(result: &ToolCallResult, output: &Output) -> Result<(), CliError> {
    if output.json {
        output.json_pretty(result)?;
    }
    match (result.status, &result.error) {
        (ToolCallStatus::Ok, _) if output.json => Ok(()),
        (ToolCallStatus::Ok, _) => match result.output.as_ref().unwrap_or(&Value::Null) {
            Value::String(text) => output.foreign(&format!("{text}\n")),
            value => output.json_pretty(value),
        },
        (ToolCallStatus::Error, Some(error)) => {
            let failure =
                CliError::passed_on(Exit::Failure, error.code.clone(), error.message.clone());
            let help_url = error.help_url.clone().or(failure.help_url);
            Err(CliError {
                suggestion: error.suggestion.clone(),
                help_url,
                ..failure
            })
        }
        (ToolCallStatus::Error, None) => Err(CliError::failure(
            Code::TOOL_FAILED,
            "The tool failed without saying why.",
        )),
    }
}

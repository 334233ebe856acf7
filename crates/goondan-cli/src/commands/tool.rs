//! `gdn tool`: lists an agent's tools, or calls one without a model.

use clap::{Args, Subcommand};
use goondan::StateRoot;
use goondan::internal::untrusted_text;
use goondan::ports::model::ToolDefinition;
use goondan::ports::tool::{ToolCallResult, ToolCallStatus};
use goondan::spec::{Bundle, Code};
use goondan_serve::client::segment;
use goondan_serve::wire::CallBody;
use serde_json::Value;
use std::path::Path;

use crate::commands::run::{
    ApprovalResponder, RemoteClient, RunSession, SignalReceiver, TurnFailure, run_with_signals,
};
use crate::complete;
use crate::exit::{CliError, CommandExit};
use crate::input_files;
use crate::output::{CommandOutput, style};
use crate::project::{StartArgs, SwarmLaunch};
use crate::project_path::ProjectPathOption;
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
    List(ToolListArgs),
    /// Call a tool as the agent would, with its permissions and limits
    Call(ToolCallArgs),
}

/// Options that select the project and the agent.
#[derive(Debug, Args)]
#[command(mut_arg("node_turns", |arg| arg.hide(true)))]
#[command(mut_arg("accept_loss", |arg| arg.hide(true)))]
struct ToolTargetArgs {
    #[command(flatten)]
    project: ProjectPathOption,
    /// Act as this agent [default: the swarm's entry agent]
    #[arg(short, long, value_name = "NAME", add = complete::agents())]
    agent: Option<String>,
    #[command(flatten)]
    start: StartArgs,
}

#[derive(Debug, Args)]
struct ToolListArgs {
    #[command(flatten)]
    target: ToolTargetArgs,
}

#[derive(Debug, Args)]
struct ToolCallArgs {
    /// The tool, written `resource__export`
    #[arg(value_name = "NAME", add = complete::exports())]
    tool: String,
    /// Pass these arguments (`-` for standard input)
    #[arg(long, value_name = "JSON", default_value = "{}")]
    args: String,
    /// Use the working directory of the conversation with this key
    #[arg(short = 'k', long, value_name = "KEY", default_value = "main")]
    instance_key: String,
    #[command(flatten)]
    target: ToolTargetArgs,
}

/// Runs the selected subcommand.
pub(crate) async fn run(
    args: ToolArgs,
    state_root: &StateRoot,
    output: &CommandOutput,
) -> Result<(), CliError> {
    run_with_signals(async |signals| match args.command {
        ToolCommand::List(args) => list_tools(&args, signals, state_root, output).await,
        ToolCommand::Call(args) => call_tool(&args, signals, state_root, output).await,
    })
    .await
}

/// Lists the tools that the agent offers its model.
async fn list_tools(
    args: &ToolListArgs,
    signals: SignalReceiver,
    state_root: &StateRoot,
    output: &CommandOutput,
) -> Result<(), CliError> {
    let project = args.target.project.find(output)?;
    let (agent, tools) =
        match start_session(&args.target, &project, signals, state_root, output).await {
            Ok(session) => {
                let agent = args
                    .target
                    .agent
                    .clone()
                    .unwrap_or_else(|| session.swarm.entry_agent());
                let (name, tools) = (session.swarm.name(), session.swarm.catalog(&agent));
                session.shut_down().await?;
                let tools = tools.ok_or_else(|| {
                    CliError::usage(format!("Swarm `{name}` has no agent `{agent}`.")).suggest(
                        "`gdn validate` checks the project; the Swarm's `spec.agents` lists \
                        its agents.",
                    )
                });
                (agent, tools?)
            }
            Err(NotStarted::Elsewhere(remote, _)) => {
                let agent = args
                    .target
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
        return output.note(&format!(
            "The agent `{}` has no tools.",
            untrusted_text::line(agent)
        ));
    }
    let colour = style::NAME;
    let width = tools.iter().map(|tool| tool.name.len()).max().unwrap_or(0);
    for tool in &tools {
        let (name, summary) = (
            untrusted_text::line(&tool.name).to_string(),
            untrusted_text::line(first_sentence(&tool.description)),
        );
        output.line(&format!("{colour}{name:width$}{colour:#}  {summary}"))?;
    }
    Ok(())
}

/// Returns the first sentence of a description; `--json` prints all of it.
fn first_sentence(description: &str) -> &str {
    let line = description.lines().next().unwrap_or_default();
    line.find(". ").map_or(line, |end| &line[..=end])
}

/// Calls a tool, in this process or in the process that runs the swarm, and prints the result.
async fn call_tool(
    args: &ToolCallArgs,
    mut signals: SignalReceiver,
    state_root: &StateRoot,
    output: &CommandOutput,
) -> Result<(), CliError> {
    let arguments = arguments(&args.args)?;
    let project = args.target.project.find(output)?;
    let outcome = loop {
        match start_session(&args.target, &project, signals, state_root, output).await {
            Ok(mut session) => {
                let agent = args.target.agent.as_deref();
                let outcome = session
                    .call_tool(agent, &args.instance_key, &args.tool, arguments)
                    .await?;
                session.shut_down().await?;
                break outcome;
            }
            Err(NotStarted::Elsewhere(remote, returned_signals)) => {
                let (agent, instance_key) =
                    (args.target.agent.clone(), Some(args.instance_key.clone()));
                let body = CallBody {
                    agent,
                    instance_key,
                    arguments: arguments.clone(),
                };
                let mut client = RemoteClient::begin(
                    *remote,
                    "call",
                    &args.target.start,
                    returned_signals,
                    output,
                )?;
                match client.call_tool(&args.tool, &body).await {
                    Err(TurnFailure::NotBegun(reason)) => {
                        signals = client.wait_for_exit(reason).await?
                    }
                    outcome => break outcome?,
                }
            }
            Err(not_started) => return Err(not_started.into()),
        }
    };
    print_result(&outcome, output).map_err(|error| {
        let is_unknown = error.code == Code::TOOL_NOT_IN_CATALOG;
        if is_unknown && !error.message.contains(" is unavailable: ") {
            unknown_tool_error(&args.tool, &args.target, &project, error)
        } else {
            error
        }
    })
}

/// Rewords the error of an unknown tool, because no model made this call.
fn unknown_tool_error(
    tool: &str,
    target: &ToolTargetArgs,
    project: &Path,
    error: CliError,
) -> CliError {
    let message = format!("The agent has no tool `{tool}`.");
    let bundle = goondan::load(project).bundle;
    let resource = tool.split_once("__").map_or(tool, |(resource, _)| resource);
    let owner = bundle
        .as_deref()
        .and_then(|bundle| other_owner(bundle, target, resource));
    if let Some(name) = owner {
        let suggestion =
            format!("Agent `{name}` has tools of Tool/{resource}: add `--agent {name}`.");
        return CliError { message, ..error }.suggest(suggestion);
    }
    let is_defined =
        bundle.is_some_and(|bundle| bundle.tools().keys().any(|id| id.name == resource));
    let hint = error.suggestion.clone().unwrap_or_default();
    let suggestion = if is_defined && !hint.contains(&format!(" {resource}__")) {
        format!("Add `- ref: Tool/{resource}` to `spec.tools` of the agent. {hint}")
    } else {
        hint
    };
    CliError { message, ..error }.suggest(suggestion)
}

/// Returns an agent that uses the Tool `resource`, unless the caller uses it.
fn other_owner(bundle: &Bundle, target: &ToolTargetArgs, resource: &str) -> Option<String> {
    let swarm = bundle.choose_swarm(target.start.swarm.as_deref()).ok()?;
    let caller = target
        .agent
        .as_ref()
        .unwrap_or(&swarm.spec.entry_agent.name);
    let mut owners = bundle.agents().values().filter(|agent| {
        let mut tools = agent.spec.tools.iter();
        tools.any(|used| used.tool.name == resource)
    });
    let owner = owners.next()?.id.name.clone();
    let has_caller = owner == *caller || owners.any(|other| other.id.name == *caller);
    (!has_caller).then_some(owner)
}

/// Starts the swarm for this command.
async fn start_session(
    target: &ToolTargetArgs,
    project: &Path,
    signals: SignalReceiver,
    state_root: &StateRoot,
    output: &CommandOutput,
) -> Result<RunSession, NotStarted> {
    let launch = SwarmLaunch {
        project,
        args: &target.start,
        record: None,
        watch: false,
        asked: ApprovalResponder::Terminal,
        waits: false,
    };
    RunSession::start(launch, signals, state_root, output).await
}

/// Parses the arguments: any JSON value, as a model could send it. The runtime validates them.
fn arguments(text: &str) -> Result<Value, CliError> {
    let text = match text {
        "-" => input_files::read_text(std::io::stdin().lock(), "Standard input")?,
        json => json.to_owned(),
    };
    serde_json::from_str(&text).map_err(|error| {
        CliError::usage(format!("`--args` is not JSON: {error}."))
            .suggest(r#"Quote the object for the shell: --args '{"text": "hi"}'"#)
    })
}

/// Prints the output, or returns a failed call as the error of the command.
fn print_result(result: &ToolCallResult, output: &CommandOutput) -> Result<(), CliError> {
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
            let failure = CliError::with_foreign_code(
                CommandExit::Failure,
                error.code.clone(),
                error.message.clone(),
            );
            let help_url = error.help_url.clone().or(failure.help_url);
            Err(CliError {
                suggestion: error.suggestion.clone(),
                help_url,
                ..failure
            })
        }
        (ToolCallStatus::Error, None) => Err(CliError::failure(
            Code::TOOL_FAILED,
            "The tool failed without a reason.",
        )),
    }
}

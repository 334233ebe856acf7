//! `gdn send`.

use std::path::Path;
use std::time::Duration;

use clap::Args;
use goondan::database::{self, Database, Posted};
use goondan::inside::shown;
use goondan::spec::Code;
use goondan::{Input, StateRoot};
use goondan_serve::wire::InputState;
use serde_json::{Value, json};

use crate::complete;
use crate::exit::{CliError, Exit};
use crate::output::Output;
use crate::place::ProjectOption;
use crate::project;
use crate::remote::{self, Remote};
use crate::store::{self, StoreArgs};

const EXAMPLES: &str = "\
Examples:
  gdn send \"And the summary?\"               Hand an input to the process that runs this project
  gdn send -k ticket-42 \"Any news?\" --json  Print the ids of the input
  gdn run --input \"And now?\"                Wait for the answer, too";

/// Arguments of `gdn send`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SendArgs {
    /// The text
    #[arg(value_name = "TEXT")]
    text: String,
    #[command(flatten)]
    project: ProjectOption,
    /// Send it to this agent [default: the swarm's entry agent]
    #[arg(short, long, value_name = "NAME", add = complete::agents())]
    agent: Option<String>,
    /// Continue the conversation with this key, or start it
    #[arg(short = 'k', long, value_name = "KEY", default_value = "main")]
    instance_key: String,
    /// Give the input this id; the same id twice starts one turn
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    /// Send it to this Swarm [default: the only one, or the one named `default`]
    #[arg(short, long, value_name = "NAME", add = complete::swarms())]
    swarm: Option<String>,
    #[command(flatten)]
    store: StoreArgs,
}

/// So long the command waits for the node that works in the workspace to take an input.
const PATIENCE: Duration = Duration::from_secs(3);

/// Hands an input to the process that runs the swarm. It is on disk when the command returns.
pub(crate) async fn run(
    args: SendArgs,
    state_root: &StateRoot,
    output: &Output,
) -> Result<(), CliError> {
    if let Some(database) = args.store.database()? {
        return post(args, &database, state_root, output).await;
    }
    let remote = find(&args.project, args.swarm.as_deref(), state_root, output).await?;
    let input = Input {
        text: args.text,
        agent: args.agent,
        instance_key: Some(args.instance_key),
        id: args.id,
        ..Input::default()
    };
    let state: InputState = remote
        .client
        .post("/api/inputs", &remote::body(input))
        .await?;
    if output.json {
        return output.json_line(&state);
    }
    output.note(&format!(
        "Accepted as {}. Its answer comes where the swarm runs, and in `gdn logs` and `gdn attach`.",
        shown::line(&state.id)
    ))
}

/// Hands an input to whichever node works in the workspace, or will.
async fn post(
    args: SendArgs,
    database: &Database,
    state_root: &StateRoot,
    output: &Output,
) -> Result<(), CliError> {
    let (bundle, id) =
        project::chosen_swarm(&args.project.find(output)?, args.swarm.as_deref(), output)?;
    let swarm = bundle
        .choose_swarm(Some(&id.name))
        .map_err(|problem| CliError::configuration(problem.message))?;
    let workspace = state_root.workspace_of(&bundle, swarm);
    let event = args.id.unwrap_or_else(database::new_id);
    let input = Input {
        text: args.text,
        agent: args.agent,
        instance_key: Some(args.instance_key),
        ..Input::default()
    };
    let posted = database
        .post(&workspace.id, event.clone(), input, PATIENCE)
        .await;
    let state = match posted.map_err(|error| store::unusable(&error))? {
        Posted::Accepted => "accepted",
        Posted::Waits => "kept",
        Posted::Refused(refusal) => return Err(refused(&refusal)),
    };
    if output.json {
        return output.json_line(&json!({"id": event, "state": state}));
    }
    let event = shown::line(&event);
    output.note(&match state {
        "kept" => {
            format!("Kept as {event}: no node works in the workspace now; the next one takes it.")
        }
        _ => format!("Accepted as {event}. Its answer is in `gdn logs` and `gdn instance show`."),
    })
}

/// The error of an input that the swarm of another node did not take.
fn refused(refusal: &Value) -> CliError {
    let text = |name: &str| refusal[name].as_str().map(str::to_owned);
    let (code, message) = (
        text("code").unwrap_or_default(),
        text("message").unwrap_or_default(),
    );
    let exit = if code == Code::AGENT_NOT_FOUND.as_str() {
        Exit::Usage
    } else {
        Exit::Failure
    };
    CliError {
        suggestion: text("suggestion"),
        ..CliError::passed_on(exit, code, message)
    }
}

/// The swarm of that name, or the only one, that runs in a workspace of the project in `root`, which does not load.
async fn in_spite_of_errors(
    root: &Path,
    swarm: Option<&str>,
    state_root: &StateRoot,
) -> Result<Option<Remote>, CliError> {
    let mut running = remote::running_in(root, state_root).await?;
    running.retain(|remote| swarm.is_none_or(|name| remote.swarm.name == name));
    match running.len() {
        0 | 1 => Ok(running.pop()),
        _ => {
            let names: Vec<String> = running
                .iter()
                .map(|remote| shown::line(&remote.swarm.name).to_string())
                .collect();
            Err(CliError::usage(format!(
                "The project runs several swarms: {}.",
                names.join(", ")
            ))
            .suggest("Name one of them with `--swarm`."))
        }
    }
}

/// The swarm of the project, which another process must run.
pub(crate) async fn find(
    project: &ProjectOption,
    swarm: Option<&str>,
    state_root: &StateRoot,
    output: &Output,
) -> Result<Remote, CliError> {
    let path = project.find(output)?;
    let loaded = project::load(&path)?;
    if loaded.bundle.is_none()
        && let Some(remote) = in_spite_of_errors(&loaded.root, swarm, state_root).await?
    {
        let errors = loaded
            .diagnostics
            .iter()
            .filter(|diagnostic| diagnostic.is_error())
            .count();
        output.note(&format!(
            "The project has {errors} errors now; what runs goes on as it was loaded. `gdn validate` shows them."
        ))?;
        return Ok(remote);
    }
    let (bundle, id) = project::chosen_swarm(&path, swarm, output)?;
    remote::running(&bundle, Some(&id.name), state_root, remote::patience())
        .await
        .ok_or_else(|| {
            CliError::failure(
                Code::NOT_RUNNING,
                format!(
                    "No process is running the swarm `{}`.",
                    shown::line(&id.name)
                ),
            )
            .suggest("Start it with `gdn serve` or `gdn run`.")
        })
}

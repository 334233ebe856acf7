//! `gdn send`.

use std::path::Path;
use std::time::Duration;

use clap::Args;
use goondan::event::InputDelivery;
use goondan::internal::untrusted_text;
use goondan::spec::Code;
use goondan::workspace::database::{self, MailboxInputState, SharedDatabase};
use goondan::{Input, StateRoot};
use serde_json::{Value, json};

use crate::complete;
use crate::exit::{CliError, CommandExit};
use crate::output::CommandOutput;
use crate::project;
use crate::project_path::ProjectPathOption;
use crate::remote::{self, RemoteSwarm};
use crate::store::{self, StoreArgs};

const EXAMPLES: &str = "\
Examples:
  gdn send \"And the summary?\"               Send an input to the process that runs this project
  gdn send -k ticket-42 \"Any news?\" --json  Print the ids of the input
  gdn send --steer \"Only the tests\"          Join the running turn before its next step
  gdn run --input \"And now?\"                Send an input and wait for the answer";

/// Arguments of `gdn send`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[command(mut_arg("store", store::help("Send the input through")))]
pub(crate) struct SendArgs {
    /// The input
    #[arg(value_name = "TEXT")]
    text: String,
    #[command(flatten)]
    project: ProjectPathOption,
    /// Send it to this agent [default: the swarm's entry agent]
    #[arg(short, long, value_name = "NAME", add = complete::agents())]
    agent: Option<String>,
    /// Continue the conversation with this key, or start it
    #[arg(short = 'k', long, value_name = "KEY", default_value = "main")]
    instance_key: String,
    /// Use this input id; the same id twice starts one turn
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    /// Join the running turn before its next step, instead of waiting for its end
    #[arg(long)]
    steer: bool,
    /// Send it to this Swarm [default: the only one, or the one named `default`]
    #[arg(short, long, value_name = "NAME", add = complete::swarms())]
    swarm: Option<String>,
    #[command(flatten)]
    store: StoreArgs,
}

/// Time to wait until the node that works in the workspace accepts an input.
const ACCEPT_TIMEOUT: Duration = Duration::from_secs(3);

/// Sends an input to the process that runs the swarm. The input is on disk when this returns.
pub(crate) async fn run(
    args: SendArgs,
    state_root: &StateRoot,
    output: &CommandOutput,
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
        delivery: delivery(args.steer),
        ..Input::default()
    };
    let state = remote.submit(input).await?;
    if output.json {
        return output.json_line(&state);
    }
    output.note(&format!(
        "Accepted as {}. The answer appears where the swarm runs, in `gdn logs` and in `gdn \
            attach`.",
        untrusted_text::line(&state.id)
    ))
}

/// Returns the handling of an input while a turn runs.
fn delivery(steers: bool) -> InputDelivery {
    match steers {
        true => InputDelivery::Steer,
        false => InputDelivery::Queue,
    }
}

/// Queues an input in the database for the node that works in the workspace, or the next one.
async fn post(
    args: SendArgs,
    database: &SharedDatabase,
    state_root: &StateRoot,
    output: &CommandOutput,
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
        delivery: delivery(args.steer),
        ..Input::default()
    };
    let posted = database
        .post(&workspace.id, event.clone(), input, ACCEPT_TIMEOUT)
        .await;
    let state = match posted.map_err(|error| store::unusable_error(&error))? {
        MailboxInputState::Accepted => "accepted",
        MailboxInputState::Waits => "kept",
        MailboxInputState::Refused(refusal) => return Err(rejection_error(&refusal)),
    };
    if output.json {
        return output.json_line(&json!({"id": event, "state": state}));
    }
    let event = untrusted_text::line(&event);
    output.note(&match state {
        "kept" => {
            format!(
                "Stored as {event}: no node works in the workspace; the next node will \
                process the input."
            )
        }
        _ => format!(
            "Accepted as {event}. The answer appears in `gdn logs` and `gdn conversation \
            show`."
        ),
    })
}

/// Error of an input that another node rejected.
fn rejection_error(refusal: &Value) -> CliError {
    let text = |name: &str| refusal[name].as_str().map(str::to_owned);
    let (code, message) = (
        text("code").unwrap_or_default(),
        text("message").unwrap_or_default(),
    );
    let exit = if code == Code::AGENT_NOT_FOUND.as_str() {
        CommandExit::Usage
    } else {
        CommandExit::Failure
    };
    CliError {
        suggestion: text("suggestion"),
        ..CliError::with_foreign_code(exit, code, message)
    }
}

/// Finds a running swarm of a project that does not load, by name or as the only one.
/// Fails if there are several.
async fn running_despite_errors(
    root: &Path,
    swarm: Option<&str>,
    state_root: &StateRoot,
) -> Result<Option<RemoteSwarm>, CliError> {
    let mut running = remote::running_in(root, state_root).await?;
    running.retain(|remote| swarm.is_none_or(|name| remote.swarm.name == name));
    match running.len() {
        0 | 1 => Ok(running.pop()),
        _ => {
            let names: Vec<String> = running
                .iter()
                .map(|remote| untrusted_text::line(&remote.swarm.name).to_string())
                .collect();
            Err(CliError::usage(format!(
                "The project runs several swarms: {}.",
                names.join(", ")
            ))
            .suggest("Select one with `--swarm`."))
        }
    }
}

/// Finds the process that runs the project's swarm. Fails with `NOT_RUNNING` if there is none.
pub(crate) async fn find(
    project: &ProjectPathOption,
    swarm: Option<&str>,
    state_root: &StateRoot,
    output: &CommandOutput,
) -> Result<RemoteSwarm, CliError> {
    let path = project.find(output)?;
    let loaded = project::load(&path)?;
    if loaded.bundle.is_none()
        && let Some(remote) = running_despite_errors(&loaded.root, swarm, state_root).await?
    {
        let errors = loaded
            .diagnostics
            .iter()
            .filter(|diagnostic| diagnostic.is_error())
            .count();
        output.note(&format!(
            "The project has {errors} errors; the running swarm is unchanged. List the errors \
                with `gdn validate`."
        ))?;
        return Ok(remote);
    }
    let (bundle, id) = project::chosen_swarm(&path, swarm, output)?;
    remote::running(&bundle, Some(&id.name), state_root, remote::wait_end())
        .await
        .ok_or_else(|| {
            CliError::failure(
                Code::NOT_RUNNING,
                format!(
                    "No process is running the swarm `{}`.",
                    untrusted_text::line(&id.name)
                ),
            )
            .suggest("Start the swarm with `gdn serve` or `gdn run`.")
        })
}

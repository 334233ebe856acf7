//! `gdn conversation retry`: retries the failed events of a conversation.

use clap::Args;
use goondan::ids::InstanceId;
use goondan::internal::untrusted_text;
use goondan::{StateRoot, Workspace};

use crate::commands::run::{
    ApprovalResponder, LocalClient, RemoteClient, RunSession, SignalReceiver, SwarmClient,
    TurnView, follow, follow_chain, run_with_signals,
};
use crate::complete;
use crate::exit::CliError;
use crate::instances::{self, ConversationScope};
use crate::output::{CommandOutput, write_error};
use crate::project::{StartArgs, SwarmLaunch};
use crate::project_path::ProjectPathOption;
use crate::remote::NotStarted;
use crate::store;

/// Arguments of `gdn conversation retry`.
#[derive(Debug, Args)]
#[command(mut_arg("node_turns", |arg| arg.hide(true)))]
#[command(mut_arg("accept_loss", |arg| arg.hide(true)))]
pub(super) struct InstanceRetryArgs {
    /// The conversation as `agent:key`, or only its agent or key if unique
    #[arg(value_name = "INSTANCE", add = complete::instances())]
    name: String,
    /// The event id, as `gdn conversation show` lists it [default: all failed events]
    #[arg(value_name = "EVENT_ID")]
    event: Option<String>,
    #[command(flatten)]
    project: ProjectPathOption,
    #[command(flatten)]
    start: StartArgs,
}

/// Retries failed events of a conversation, in the process that runs the swarm or in a new swarm.
pub(super) async fn run(
    args: &InstanceRetryArgs,
    state_root: &StateRoot,
    output: &CommandOutput,
) -> Result<(), CliError> {
    run_with_signals(async |signals| start(args, signals, state_root, output).await).await
}

/// Starts the swarm, or connects to the process that runs it, and retries the events.
async fn start(
    args: &InstanceRetryArgs,
    signals: SignalReceiver,
    state_root: &StateRoot,
    output: &CommandOutput,
) -> Result<(), CliError> {
    let project = args.project.find(output)?;
    let launch = SwarmLaunch {
        project: &project,
        args: &args.start,
        record: None,
        watch: false,
        asked: ApprovalResponder::Terminal,
        waits: false,
    };
    match RunSession::start(launch, signals, state_root, output).await {
        Ok(session) => {
            let dir = session.swarm.workspace_dir();
            let id = dir
                .file_name()
                .and_then(|name| name.to_str())
                .unwrap_or_default()
                .to_owned();
            let client = LocalClient::new(session);
            retry(args, client, &Workspace { id, dir }, state_root, output).await
        }
        Err(NotStarted::Elsewhere(remote, signals)) => {
            let client = RemoteClient::begin(*remote, "retry", &args.start, signals, output)?;
            let workspace = client.workspace().clone();
            retry(args, client, &workspace, state_root, output).await
        }
        Err(not_started) => Err(not_started.into()),
    }
}

/// Retries the failed events in the workspace, and ends the client.
async fn retry<C: SwarmClient>(
    args: &InstanceRetryArgs,
    mut client: C,
    workspace: &Workspace,
    state_root: &StateRoot,
    output: &CommandOutput,
) -> Result<(), CliError> {
    let retried = match failed_events(args, workspace, state_root).await {
        Ok((id, events)) if events.is_empty() => {
            report_no_failed_events(&id, output).map(|()| None)
        }
        Ok((id, events)) => retry_all(&mut client, &id, &events, output).await,
        Err(error) => Err(error),
    };
    let ended = client.end_client(None).await;
    match retried? {
        Some(failed) => Err(failed),
        None => ended,
    }
}

/// Reports that the conversation has no failed events.
fn report_no_failed_events(id: &InstanceId, output: &CommandOutput) -> Result<(), CliError> {
    output.note(&format!(
        "{} has no failed events, so there is nothing to retry.",
        untrusted_text::line(id)
    ))
}

/// Error of the last failed turn. Earlier errors are written at once.
#[derive(Default)]
struct LastTurnError(Option<CliError>);

impl LastTurnError {
    /// Stores the error, if any. An error stored before is written to standard error.
    fn replace(&mut self, error: Option<CliError>, output: &CommandOutput) -> Result<(), CliError> {
        if let Some(error) = error
            && let Some(earlier) = self.0.replace(error)
        {
            write_error(&earlier, output.json)?;
        }
        Ok(())
    }
}

/// Returns the conversation and the ids of the events to retry.
async fn failed_events(
    args: &InstanceRetryArgs,
    workspace: &Workspace,
    state_root: &StateRoot,
) -> Result<(InstanceId, Vec<String>), CliError> {
    let scope = ConversationScope::Workspace(workspace.id.clone());
    let database = args.start.store.database()?;
    let all_instances = instances::all(database.as_ref(), state_root, &scope).await?;
    let chosen = instances::choose(&all_instances, &args.name)?;
    let id = chosen
        .ok_or_else(|| instances::unknown_conversation_error(&scope, &args.name))?
        .summary
        .id;
    let dead_letters = match (&args.event, database) {
        (Some(event), _) => return Ok((id, vec![event.clone()])),
        (None, None) => workspace.dead_letters(&id)?,
        (None, Some(database)) => {
            let looking = database
                .look(workspace)
                .await
                .map_err(|error| store::unusable_error(&error))?;
            looking
                .dead_letters(&id)
                .await
                .map_err(|error| store::read_error(&error))?
        }
    };
    Ok((
        id,
        dead_letters
            .into_iter()
            .map(|letter| letter.event.id)
            .collect(),
    ))
}

/// Retries events one after the other. Returns the error of the last turn that failed again.
async fn retry_all<C: SwarmClient>(
    client: &mut C,
    id: &InstanceId,
    events: &[String],
    output: &CommandOutput,
) -> Result<Option<CliError>, CliError> {
    let mut last_error = LastTurnError::default();
    for event in events {
        if client.is_stopping() {
            break;
        }
        client.retry(id, event).await?;
        let mut view = if output.json {
            TurnView::silent()
        } else {
            TurnView::text(output)
        };
        let mut followed = follow(client, &mut view, output).await?;
        view.end(&followed.result)?;
        follow_chain(&mut followed, client, &mut view, output).await?;
        let error = followed.take_error();
        if output.json {
            output.json_line(&followed.report())?;
        }
        last_error.replace(error, output)?;
    }
    Ok(last_error.0)
}

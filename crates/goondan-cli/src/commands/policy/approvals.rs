//! `gdn policy approvals`: lists and revokes remembered approvals.

use std::path::Path;

use clap::{Args, Subcommand};
use goondan::approvals::{ApprovalFile, forget_of_conversation, of_conversation};
use goondan::internal::untrusted_text;
use goondan::ports::approval::{ApprovalGrant, ApprovalStore};
use goondan::spec::Code;
use goondan::{StateRoot, Workspace};
use serde::Serialize;

use crate::commands::instance::not_opened;
use crate::exit::CliError;
use crate::output::CommandOutput;
use crate::project;
use crate::project_path::ProjectPathOption;

const EXAMPLES: &str = "\
Examples:
  gdn policy approvals              List approvals that are remembered
  gdn policy approvals remove 2     Revoke the second approval
  gdn policy approvals remove --all Revoke all approvals";

/// Arguments of `gdn policy approvals`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(super) struct PolicyApprovalsArgs {
    #[command(subcommand)]
    command: Option<ApprovalsCommand>,
    #[command(flatten)]
    project: ProjectPathOption,
}

#[derive(Debug, Subcommand)]
enum ApprovalsCommand {
    /// Revoke approvals; the next matching call prompts again
    Remove(ApprovalsRemoveArgs),
}

#[derive(Debug, Args)]
struct ApprovalsRemoveArgs {
    /// The number of the approval in the list; may be repeated
    #[arg(value_name = "N", required_unless_present = "all")]
    numbers: Vec<usize>,
    /// Revoke all approvals
    #[arg(long, conflicts_with = "numbers")]
    all: bool,
    #[command(flatten)]
    project: ProjectPathOption,
}

/// Remembered approval with its workspace.
struct StoredApproval {
    workspace: Workspace,
    /// Conversation that it is limited to; `None` if it always applies.
    instance: Option<goondan::ids::InstanceId>,
    grant: ApprovalGrant,
}

/// Approval in JSON output.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ApprovalRow<'a> {
    number: usize,
    scope: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    instance: Option<String>,
    workspace: &'a str,
    #[serde(flatten)]
    grant: &'a ApprovalGrant,
}

pub(super) async fn run(
    args: &PolicyApprovalsArgs,
    state_root: &StateRoot,
    output: &CommandOutput,
) -> Result<(), CliError> {
    match &args.command {
        None => list(&args.project, state_root, output),
        Some(ApprovalsCommand::Remove(args)) => remove(args, state_root, output).await,
    }
}

fn list(
    project: &ProjectPathOption,
    state_root: &StateRoot,
    output: &CommandOutput,
) -> Result<(), CliError> {
    let held = all(&root(project, output)?, state_root)?;
    if output.json {
        let rows = held.iter().enumerate().map(|(index, held)| ApprovalRow {
            number: index + 1,
            scope: if held.instance.is_some() {
                "conversation"
            } else {
                "always"
            },
            instance: held.instance.as_ref().map(ToString::to_string),
            workspace: &held.workspace.id,
            grant: &held.grant,
        });
        return output.json_pretty(&rows.collect::<Vec<_>>());
    }
    if held.is_empty() {
        return output.note("The project has no remembered approvals.");
    }
    held.iter()
        .enumerate()
        .try_for_each(|(index, held)| output.line(&format!("{:>3}  {}", index + 1, words(held))))
}

fn words(held: &StoredApproval) -> String {
    let until = match &held.instance {
        Some(instance) => format!("In the conversation {instance}: "),
        None => "Always: ".to_owned(),
    };
    untrusted_text::line(format!("{until}{}", held.grant)).to_string()
}

async fn remove(
    args: &ApprovalsRemoveArgs,
    state_root: &StateRoot,
    output: &CommandOutput,
) -> Result<(), CliError> {
    let root = root(&args.project, output)?;
    let held = all(&root, state_root)?;
    if let Some(number) = args
        .numbers
        .iter()
        .find(|number| **number == 0 || **number > held.len())
    {
        let known = match held.len() {
            0 => "The project has no remembered approvals.".to_owned(),
            many => {
                format!(
                    "Approvals are numbered from 1 to {many}; list them with `gdn policy \
                    approvals`."
                )
            }
        };
        return Err(CliError::usage(format!("There is no approval {number}.")).suggest(known));
    }
    let is_meant = |index: usize| args.all || args.numbers.contains(&(index + 1));
    let taken = held
        .into_iter()
        .enumerate()
        .filter(|(index, _)| is_meant(*index))
        .map(|(_, held)| held);
    let taken: Vec<StoredApproval> = taken.collect();
    for held in &taken {
        let grants = std::slice::from_ref(&held.grant);
        match &held.instance {
            Some(instance) => {
                let done = forget_of_conversation(&held.workspace, instance, grants).await;
                done.map_err(|error| not_opened(&error))?;
            }
            None => {
                let done = file(&held.workspace, &root)?.forget(grants);
                done.map_err(|error| {
                    CliError::failure(
                        Code::WORKSPACE_ERROR,
                        format!("The approvals could not be changed: {error}."),
                    )
                })?;
            }
        }
        if !output.json {
            output.line(&format!("Revoked. {}", words(held)))?;
        }
    }
    if output.json {
        return output.json_pretty(&serde_json::json!({ "removed": taken.len() }));
    }
    Ok(())
}

/// Returns the approvals of the project in a stable order, because commands use their numbers.
fn all(root: &Path, state_root: &StateRoot) -> Result<Vec<StoredApproval>, CliError> {
    let mut held = Vec::new();
    for workspace in state_root.workspaces_of(root)? {
        let grants = file(&workspace, root)?.grants();
        held.extend(grants.into_iter().map(|grant| StoredApproval {
            workspace: workspace.clone(),
            instance: None,
            grant,
        }));
        let mut instances: Vec<_> = workspace
            .instances()?
            .into_iter()
            .map(|summary| summary.id)
            .collect();
        instances.sort();
        for id in instances {
            let grants = of_conversation(&workspace, &id)?.into_iter();
            held.extend(grants.map(|grant| StoredApproval {
                workspace: workspace.clone(),
                instance: Some(id.clone()),
                grant,
            }));
        }
    }
    Ok(held)
}

fn file(workspace: &Workspace, root: &Path) -> Result<ApprovalFile, CliError> {
    ApprovalFile::of(&workspace.dir, root).map_err(|found| {
        let error = CliError::failure(Code::PARSE_ERROR, found.message);
        match found.suggestion {
            Some(suggestion) => error.suggest(suggestion),
            None => error,
        }
    })
}

fn root(
    project: &ProjectPathOption,
    output: &CommandOutput,
) -> Result<std::path::PathBuf, CliError> {
    Ok(project::load(&project.find(output)?)?.root)
}

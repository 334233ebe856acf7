//! `gdn policy approvals`: lists and revokes remembered approvals.

use std::path::Path;

use clap::{Args, Subcommand};
use goondan::approvals::{ApprovalFile, forget_of_conversation, of_conversation};
use goondan::internal::untrusted_text;
use goondan::ports::approval::{ApprovalGrant, ApprovalStore};
use goondan::spec::Code;
use goondan::{StateRoot, Workspace};
use serde::Serialize;

use crate::commands::instance::workspace_open_error;
use crate::exit::CliError;
use crate::output::CommandOutput;
use crate::project;
use crate::project_path::ProjectPathOption;

const EXAMPLES: &str = "\
Examples:
  gdn policy approvals                 List approvals that are remembered
  gdn policy approvals remove 2        Revoke the second approval
  gdn policy approvals remove --all    Revoke all approvals";

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
    /// Conversation to which the approval is limited; `None` if it applies to all conversations.
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

/// Lists or revokes the remembered approvals of the project.
pub(super) async fn run(
    args: &PolicyApprovalsArgs,
    state_root: &StateRoot,
    output: &CommandOutput,
) -> Result<(), CliError> {
    match &args.command {
        None => list_approvals(&args.project, state_root, output),
        Some(ApprovalsCommand::Remove(args)) => remove(args, state_root, output).await,
    }
}

/// Lists the approvals with the numbers that `remove` accepts.
fn list_approvals(
    project: &ProjectPathOption,
    state_root: &StateRoot,
    output: &CommandOutput,
) -> Result<(), CliError> {
    let approvals = stored_approvals(&root(project, output)?, state_root)?;
    if output.json {
        let rows = approvals
            .iter()
            .enumerate()
            .map(|(index, approval)| ApprovalRow {
                number: index + 1,
                scope: if approval.instance.is_some() {
                    "conversation"
                } else {
                    "always"
                },
                instance: approval.instance.as_ref().map(ToString::to_string),
                workspace: &approval.workspace.id,
                grant: &approval.grant,
            });
        return output.json_pretty(&rows.collect::<Vec<_>>());
    }
    if approvals.is_empty() {
        return output.note("The project has no remembered approvals.");
    }
    approvals
        .iter()
        .enumerate()
        .try_for_each(|(index, approval)| {
            output.line(&format!("{:>3}  {}", index + 1, approval_text(approval)))
        })
}

/// Describes an approval: where it applies, and which calls it covers.
fn approval_text(approval: &StoredApproval) -> String {
    let scope = match &approval.instance {
        Some(instance) => format!("In the conversation {instance}: "),
        None => "Always: ".to_owned(),
    };
    untrusted_text::line(format!("{scope}{}", approval.grant)).to_string()
}

/// Revokes the approvals with the given numbers, or all. Fails before any change if a number is
/// invalid.
async fn remove(
    args: &ApprovalsRemoveArgs,
    state_root: &StateRoot,
    output: &CommandOutput,
) -> Result<(), CliError> {
    let root = root(&args.project, output)?;
    let approvals = stored_approvals(&root, state_root)?;
    if let Some(number) = args
        .numbers
        .iter()
        .find(|number| **number == 0 || **number > approvals.len())
    {
        let hint = match approvals.len() {
            0 => "The project has no remembered approvals.".to_owned(),
            count => {
                format!(
                    "Approvals are numbered from 1 to {count}; list them with `gdn policy \
                    approvals`."
                )
            }
        };
        return Err(CliError::usage(format!("There is no approval {number}.")).suggest(hint));
    }
    let is_selected = |index: usize| args.all || args.numbers.contains(&(index + 1));
    let mut revoked = Vec::new();
    for (index, approval) in approvals.into_iter().enumerate() {
        if is_selected(index) {
            revoked.push(approval);
        }
    }
    for approval in &revoked {
        let grants = std::slice::from_ref(&approval.grant);
        match &approval.instance {
            Some(instance) => {
                let result = forget_of_conversation(&approval.workspace, instance, grants).await;
                result.map_err(|error| workspace_open_error(&error))?;
            }
            None => {
                let result = open_approval_file(&approval.workspace, &root)?.forget(grants);
                result.map_err(|error| {
                    CliError::failure(
                        Code::WORKSPACE_ERROR,
                        format!("The approvals could not be changed: {error}."),
                    )
                })?;
            }
        }
        if !output.json {
            output.line(&format!("Revoked. {}", approval_text(approval)))?;
        }
    }
    if output.json {
        return output.json_pretty(&serde_json::json!({ "removed": revoked.len() }));
    }
    Ok(())
}

/// Returns the approvals of the project in a stable order, because commands use their numbers.
fn stored_approvals(root: &Path, state_root: &StateRoot) -> Result<Vec<StoredApproval>, CliError> {
    let mut approvals = Vec::new();
    for workspace in state_root.workspaces_of(root)? {
        for grant in open_approval_file(&workspace, root)?.grants() {
            approvals.push(StoredApproval {
                workspace: workspace.clone(),
                instance: None,
                grant,
            });
        }
        let summaries = workspace.instances()?;
        let mut instances: Vec<_> = summaries.into_iter().map(|summary| summary.id).collect();
        instances.sort();
        for id in instances {
            for grant in of_conversation(&workspace, &id)? {
                approvals.push(StoredApproval {
                    workspace: workspace.clone(),
                    instance: Some(id.clone()),
                    grant,
                });
            }
        }
    }
    Ok(approvals)
}

/// Opens the file with the approvals that always apply.
fn open_approval_file(workspace: &Workspace, root: &Path) -> Result<ApprovalFile, CliError> {
    ApprovalFile::of(&workspace.dir, root).map_err(|problem| {
        let error = CliError::failure(Code::PARSE_ERROR, problem.message);
        match problem.suggestion {
            Some(suggestion) => error.suggest(suggestion),
            None => error,
        }
    })
}

/// Returns the directory of the project.
fn root(
    project: &ProjectPathOption,
    output: &CommandOutput,
) -> Result<std::path::PathBuf, CliError> {
    Ok(project::load(&project.find(output)?)?.root)
}

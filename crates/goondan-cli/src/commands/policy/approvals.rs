//! `gdn policy approvals`: what people have allowed that holds on, and how it is taken back.

use std::path::Path;

use clap::{Args, Subcommand};
use goondan::approvals::{ApprovalFile, forget_of_conversation, of_conversation};
use goondan::inside::shown;
use goondan::ports::approval::{ApprovalBook, Grant};
use goondan::spec::Code;
use goondan::{StateRoot, Workspace};
use serde::Serialize;

use crate::commands::instance::not_opened;
use crate::exit::CliError;
use crate::output::Output;
use crate::place::ProjectOption;
use crate::project;

const EXAMPLES: &str = "\
Examples:
  gdn policy approvals              List what was allowed for good, or for a conversation
  gdn policy approvals remove 2     Take the second one back
  gdn policy approvals remove --all Take all of them back";

/// Arguments of `gdn policy approvals`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(super) struct ApprovalsArgs {
    #[command(subcommand)]
    command: Option<ApprovalsCommand>,
    #[command(flatten)]
    project: ProjectOption,
}

#[derive(Debug, Subcommand)]
enum ApprovalsCommand {
    /// Take approvals back: such calls are asked about again
    Remove(RemoveArgs),
}

#[derive(Debug, Args)]
struct RemoveArgs {
    /// The number of the approval in the list; may be repeated
    #[arg(value_name = "N", required_unless_present = "all")]
    numbers: Vec<usize>,
    /// Take all of them back
    #[arg(long, conflicts_with = "numbers")]
    all: bool,
    #[command(flatten)]
    project: ProjectOption,
}

/// An approval, and where it is kept.
struct Held {
    workspace: Workspace,
    /// The conversation that it holds for; none where it holds for all.
    instance: Option<goondan::ids::InstanceId>,
    grant: Grant,
}

/// An approval, for programs.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Row<'a> {
    number: usize,
    scope: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    instance: Option<String>,
    workspace: &'a str,
    #[serde(flatten)]
    grant: &'a Grant,
}

/// Lists, or takes back.
pub(super) async fn run(
    args: &ApprovalsArgs,
    state_root: &StateRoot,
    output: &Output,
) -> Result<(), CliError> {
    match &args.command {
        None => list(&args.project, state_root, output),
        Some(ApprovalsCommand::Remove(args)) => remove(args, state_root, output).await,
    }
}

fn list(project: &ProjectOption, state_root: &StateRoot, output: &Output) -> Result<(), CliError> {
    let held = all(&root(project, output)?, state_root)?;
    if output.json {
        let rows = held.iter().enumerate().map(|(index, held)| Row {
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

fn words(held: &Held) -> String {
    let until = match &held.instance {
        Some(instance) => format!("In the conversation {instance}: "),
        None => "Always: ".to_owned(),
    };
    shown::line(format!("{until}{}", held.grant)).to_string()
}

async fn remove(
    args: &RemoveArgs,
    state_root: &StateRoot,
    output: &Output,
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
                format!("They are numbered from 1 to {many}; `gdn policy approvals` lists them.")
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
    let taken: Vec<Held> = taken.collect();
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
                    CliError::failure(Code::WORKSPACE_ERROR, format!("It {error}."))
                })?;
            }
        }
        if !output.json {
            output.line(&format!("Taken back. {}", words(held)))?;
        }
    }
    if output.json {
        return output.json_pretty(&serde_json::json!({ "removed": taken.len() }));
    }
    Ok(())
}

/// What holds on in the project, in an order that stays.
fn all(root: &Path, state_root: &StateRoot) -> Result<Vec<Held>, CliError> {
    let mut held = Vec::new();
    for workspace in state_root.workspaces_of(root)? {
        let grants = file(&workspace, root)?.grants();
        held.extend(grants.into_iter().map(|grant| Held {
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
            held.extend(grants.map(|grant| Held {
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

fn root(project: &ProjectOption, output: &Output) -> Result<std::path::PathBuf, CliError> {
    Ok(project::load(&project.find(output)?)?.root)
}

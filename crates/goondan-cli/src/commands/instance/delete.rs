//! `gdn conversation delete`: deletes a conversation and its working directory.

use std::io::BufRead;

use clap::Args;
use goondan::StateRoot;
use goondan::internal::untrusted_text;

use super::{InstanceTargetArgs, workspace_open_error};
use crate::exit::CliError;
use crate::instances::{self, FoundConversation};
use crate::output::CommandOutput;
use crate::store::{self, StoreArgs};
use crate::suggested_command;

/// Arguments of `gdn conversation delete`.
#[derive(Debug, Args)]
#[command(mut_arg("store", store::help("Delete from")))]
pub(super) struct InstanceDeleteArgs {
    #[command(flatten)]
    which: InstanceTargetArgs,
    #[command(flatten)]
    store: StoreArgs,
    /// Delete without confirmation
    #[arg(short, long)]
    force: bool,
}

/// Deletes a conversation. A missing conversation counts as deleted.
pub(super) async fn run(
    args: &InstanceDeleteArgs,
    state_root: &StateRoot,
    output: &CommandOutput,
) -> Result<(), CliError> {
    let (name, scope) = (&args.which.name, args.which.scope(state_root, output)?);
    let database = args.store.database()?;
    let all_instances = instances::all(database.as_ref(), state_root, &scope).await?;
    let Some(found) = instances::choose(&all_instances, name)? else {
        let in_scope = instances::scope_suffix(&scope);
        return output.note(&format!(
            "There is no conversation `{}`{in_scope}; nothing was deleted.",
            untrusted_text::line(name)
        ));
    };
    if !args.force && !ask_for_confirmation(&found)? {
        return output.note("Nothing was deleted.");
    }
    let id = &found.summary.id;
    match &database {
        Some(database) => {
            let holding = database
                .hold(&found.workspace)
                .await
                .map_err(|error| store::unusable_error(&error))?;
            holding
                .delete(id)
                .await
                .map_err(|error| store::read_error(&error))?;
        }
        None => drop(
            found
                .workspace
                .delete(id)
                .await
                .map_err(|error| workspace_open_error(&error))?,
        ),
    }
    output.note(&format!("Deleted {}.", untrusted_text::line(found.name())))
}

/// Asks the user whether to delete the conversation. Fails without a terminal.
fn ask_for_confirmation(found: &FoundConversation) -> Result<bool, CliError> {
    if !CommandOutput::stdin_is_terminal() {
        return Err(CliError::usage(
            "Deletion requires confirmation, and there is no terminal for the prompt.",
        )
        .suggest(suggested_command::repeat_command("--force").map_or_else(
            || "Add `--force` to the command.".to_owned(),
            |again| format!("Add `--force`: {again}"),
        )));
    }
    let (name, messages) = (untrusted_text::line(found.name()), found.summary.messages);
    CommandOutput::note_styled(&format!("Delete {name} with {messages} messages? [y/N] "))?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

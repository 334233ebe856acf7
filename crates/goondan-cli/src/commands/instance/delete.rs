//! `gdn instance delete`.

use std::io::BufRead;

use clap::Args;
use goondan::StateRoot;
use goondan::inside::shown;

use super::{Which, not_opened};
use crate::exit::CliError;
use crate::instances::{self, Found};
use crate::output::Output;
use crate::retyped;
use crate::store::{self, StoreArgs};

/// Arguments of `gdn instance delete`.
#[derive(Debug, Args)]
pub(super) struct DeleteArgs {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    store: StoreArgs,
    /// Delete without asking
    #[arg(short, long)]
    force: bool,
}

/// Deletes a conversation. What is not there counts as deleted.
pub(super) async fn run(
    args: &DeleteArgs,
    state_root: &StateRoot,
    output: &Output,
) -> Result<(), CliError> {
    let (name, scope) = (&args.which.name, args.which.scope(state_root, output)?);
    let database = args.store.database()?;
    let all = instances::all(database.as_ref(), state_root, &scope).await?;
    let Some(found) = instances::choose(&all, name)? else {
        let of = instances::of(&scope);
        return output.note(&format!(
            "There is no instance `{}`{of}; nothing was deleted.",
            shown::line(name)
        ));
    };
    if !args.force && !confirmed(&found)? {
        return output.note("Nothing was deleted.");
    }
    let id = &found.summary.id;
    match &database {
        Some(database) => {
            let holding = database
                .hold(&found.workspace)
                .await
                .map_err(|error| store::unusable(&error))?;
            holding
                .delete(id)
                .await
                .map_err(|error| store::failed(&error))?;
        }
        None => drop(
            found
                .workspace
                .delete(id)
                .await
                .map_err(|error| not_opened(&error))?,
        ),
    }
    output.note(&format!("Deleted {}.", shown::line(found.name())))
}

fn confirmed(found: &Found) -> Result<bool, CliError> {
    if !Output::stdin_is_terminal() {
        return Err(CliError::usage(
            "Deleting must be confirmed, and there is no terminal to ask on.",
        )
        .suggest(retyped::again("--force").map_or_else(
            || "Add `--force` to the command.".to_owned(),
            |again| format!("Add `--force`: {again}"),
        )));
    }
    let (name, messages) = (shown::line(found.name()), found.summary.messages);
    Output::note_styled(&format!("Delete {name} with {messages} messages? [y/N] "))?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

//! `gdn instance delete`.

use std::io::BufRead;

use clap::Args;
use goondan::StateRoot;
use goondan::inside::shown;

use super::{Which, not_opened};
use crate::exit::CliError;
use crate::instances::{self, Found};
use crate::output::Output;

/// Arguments of `gdn instance delete`.
#[derive(Debug, Args)]
pub(super) struct DeleteArgs {
    #[command(flatten)]
    which: Which,
    /// Delete without asking
    #[arg(short, long)]
    force: bool,
}

/// Deletes a conversation. What is not there counts as deleted.
pub(super) async fn run(args: &DeleteArgs, state_root: &StateRoot, output: &Output) -> Result<(), CliError> {
    let (name, scope) = (&args.which.name, args.which.scope(state_root, output)?);
    let Some(found) = instances::named(state_root, &scope, name)? else {
        let of = instances::of(&scope);
        return output.note(&format!("There is no instance `{}`{of}; nothing was deleted.", shown::line(name)));
    };
    if !args.force && !confirmed(&found)? {
        return output.note("Nothing was deleted.");
    }
    found.workspace.delete(&found.summary.id).await.map_err(|error| not_opened(&error))?;
    output.note(&format!("Deleted {}.", shown::line(found.name())))
}

fn confirmed(found: &Found) -> Result<bool, CliError> {
    if !Output::stdin_is_terminal() {
        return Err(CliError::usage("Deleting must be confirmed, and there is no terminal to ask on.")
            .suggest(format!("Add `--force`: gdn instance delete {} --force", found.name())));
    }
    let (name, messages) = (shown::line(found.name()), found.summary.messages);
    Output::note_styled(&format!("Delete {name} with {messages} messages? [y/N] "))?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

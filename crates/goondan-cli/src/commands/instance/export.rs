//! `gdn conversation export`: writes conversations as JSON Lines.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use goondan::StateRoot;
use goondan::internal::untrusted_text;
use goondan::models::CassetteMask;
use goondan::spec::Code;
use goondan::workspace::database::SharedDatabase;

use crate::complete;
use crate::exit::CliError;
use crate::input_files;
use crate::instances::{self, ConversationScope, FoundConversation, ScopeArgs};
use crate::output::CommandOutput;
use crate::store::{self, StoreArgs};

/// Arguments of `gdn conversation export`.
#[derive(Debug, Args)]
#[command(mut_arg("store", store::help("Read from")))]
pub(super) struct InstanceExportArgs {
    /// The conversation as `agent:key`, or only its agent or key if unique
    #[arg(value_name = "INSTANCE", add = complete::instances(), required_unless_present = "all", conflicts_with = "all")]
    name: Option<String>,
    /// Write all conversations of the project
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    scope: ScopeArgs,
    #[command(flatten)]
    store: StoreArgs,
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Writes conversations. A running swarm may continue during the export.
pub(super) async fn run(
    args: &InstanceExportArgs,
    state_root: &StateRoot,
    output: &CommandOutput,
) -> Result<(), CliError> {
    let scope = args.scope.scope(false, state_root, output)?;
    let database = args.store.database()?;
    let all_instances = instances::all(database.as_ref(), state_root, &scope).await?;
    let selected = select_conversations(args, &scope, all_instances)?;
    let mask = CassetteMask::of_environment(&environment(&scope)?);
    match &args.output {
        None if CommandOutput::stdout_is_terminal() => {
            let mut text = Vec::new();
            write_all(database.as_ref(), &selected, &mask, &mut text).await?;
            output.json_text(&String::from_utf8_lossy(&text))
        }
        None => {
            write_all(
                database.as_ref(),
                &selected,
                &mask,
                &mut io::stdout().lock(),
            )
            .await
        }
        Some(path) => {
            let written = write_file(database.as_ref(), &selected, &mask, path).await;
            written.map_err(|error| input_files::add_written_path(path, error))?;
            let exported = selected
                .iter()
                .map(FoundConversation::name)
                .collect::<Vec<_>>()
                .join(", ");
            output.note(&format!(
                "Exported {} to {}.",
                untrusted_text::line(exported),
                untrusted_text::line(path.display())
            ))
        }
    }
}

/// Returns the conversation that the arguments name, or all. Fails if there is none, or if several
/// workspaces have a conversation of the same name.
fn select_conversations(
    args: &InstanceExportArgs,
    scope: &ConversationScope,
    all: Vec<FoundConversation>,
) -> Result<Vec<FoundConversation>, CliError> {
    if let Some(name) = &args.name {
        return Ok(vec![instances::choose(&all, name)?.ok_or_else(|| {
            instances::unknown_conversation_error(scope, name)
        })?]);
    }
    // Names are unique only within a workspace.
    let mut names: Vec<String> = all.iter().map(FoundConversation::name).collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(CliError::usage(format!(
            "Several workspaces have a conversation `{}`.",
            pair[0]
        ))
        .suggest(
            "Choose a workspace with `--workspace`; `gdn conversation list` shows the workspaces.",
        )),
        None if all.is_empty() => Err(CliError::failure(
            Code::INSTANCE_NOT_FOUND,
            format!(
                "There are no conversations{}.",
                instances::scope_suffix(scope)
            ),
        )),
        None => Ok(all),
    }
}

/// Returns the variables of the process and of the project's `.env` files.
/// Without a project, the `.env` files of the current directory apply. Secret values are masked.
fn environment(scope: &ConversationScope) -> Result<goondan::spec::Environment, CliError> {
    let folder = if let ConversationScope::Project(root, _) = scope {
        root
    } else {
        Path::new(".")
    };
    goondan::environment(folder, None)
        .map_err(|diagnostic| CliError::configuration(diagnostic.message))
}

/// Writes the file as a whole or not at all.
async fn write_file(
    database: Option<&SharedDatabase>,
    found: &[FoundConversation],
    mask: &CassetteMask,
    path: &Path,
) -> Result<(), CliError> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let write_error = |error: io::Error| input_files::unwritable_file_error(path, &error);
    if path.is_dir() {
        return Err(write_error(io::ErrorKind::IsADirectory.into()));
    }
    // The original error names a temporary file, which means nothing to the user.
    let created = tempfile::NamedTempFile::new_in(folder);
    let mut file = created.map_err(|error| write_error(error.kind().into()))?;
    write_all(database, found, mask, file.as_file_mut()).await?;
    file.persist(path)
        .map_err(|error| write_error(error.error))?;
    Ok(())
}

/// Writes the conversations to `out`, one after the other. Fails if a conversation was deleted
/// since the list was read.
async fn write_all(
    database: Option<&SharedDatabase>,
    found: &[FoundConversation],
    mask: &CassetteMask,
    out: &mut dyn Write,
) -> Result<(), CliError> {
    for found in found {
        let text = match database {
            Some(database) => {
                let looking = database
                    .look(&found.workspace)
                    .await
                    .map_err(|error| store::unusable_error(&error))?;
                looking
                    .export(&found.summary.id, mask)
                    .await
                    .map_err(|error| store::read_error(&error))?
            }
            None => {
                let mut text = Vec::new();
                found
                    .workspace
                    .export(&found.summary.id, mask, &mut text)?
                    .then_some(text)
            }
        };
        let deleted_error = || {
            instances::unknown_conversation_error(
                &ConversationScope::Workspace(found.workspace.id.clone()),
                &found.name(),
            )
        };
        out.write_all(&text.ok_or_else(deleted_error)?)?;
    }
    Ok(out.flush()?)
}

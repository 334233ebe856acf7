//! `gdn conversation import`: imports conversations that `gdn conversation export` wrote.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use clap::Args;
use goondan::ImportError;
use goondan::ids::InstanceId;
use goondan::internal::untrusted_text;
use goondan::workspace::database::SharedDatabase;
use goondan::{ImportFailed, StateRoot, Workspace};

use super::{in_sentence_case, workspace_open_error};
use crate::exit::CliError;
use crate::input_files;
use crate::output::CommandOutput;
use crate::project;
use crate::project_path::ProjectPathOption;
use crate::store::{self, StoreArgs};

/// Arguments of `gdn conversation import`.
#[derive(Debug, Args)]
#[command(mut_arg("store", store::help("Import into")))]
pub(super) struct InstanceImportArgs {
    /// The file that `gdn conversation export` wrote (`-` for standard input)
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Import a single conversation under this name
    #[arg(long = "as", value_name = "AGENT:KEY", value_parser = instance_id)]
    target: Option<InstanceId>,
    #[command(flatten)]
    project: ProjectPathOption,
    /// Import into this workspace, new or existing [default: the project's workspace, or the only
    /// one]
    #[arg(long, value_name = "ID", conflicts_with = "project")]
    workspace: Option<String>,
    #[command(flatten)]
    store: StoreArgs,
}

/// Parses `AGENT:KEY`.
fn instance_id(text: &str) -> Result<InstanceId, String> {
    match text.split_once(':') {
        Some((agent, key)) if !agent.is_empty() && !key.is_empty() => {
            Ok(InstanceId::new(agent, key))
        }
        _ => Err("write it as AGENT:KEY".to_owned()),
    }
}

/// Imports conversations into a workspace that no swarm uses.
pub(super) async fn run(
    args: &InstanceImportArgs,
    state_root: &StateRoot,
    output: &CommandOutput,
) -> Result<(), CliError> {
    let database = args.store.database()?;
    let workspace = target_workspace(args, database.as_ref(), state_root, output).await?;
    state_root.prepare_or_warn();
    let mut input: Box<dyn BufRead> = match args.file.to_str() {
        Some("-") => Box::new(io::stdin().lock()),
        _ => Box::new(BufReader::new(open_file(&args.file)?)),
    };
    let imported = match &database {
        Some(database) => {
            let holding = database
                .hold(&workspace)
                .await
                .map_err(|error| store::unusable_error(&error))?;
            holding
                .import(args.target.clone(), &mut input)
                .await
                .map_err(ImportFailed::from)
        }
        None => workspace.import(args.target.clone(), &mut input).await,
    };
    let imported = imported.map_err(|error| import_error(&error))?;
    let ids: Vec<String> = imported.iter().map(|meta| meta.id().to_string()).collect();
    if output.json {
        return output
            .json_pretty(&serde_json::json!({"workspace": workspace.id, "imported": ids}));
    }
    output.note(&format!(
        "Imported {} into {}.",
        untrusted_text::line(ids.join(", ")),
        untrusted_text::line(&workspace.id)
    ))
}

/// Opens the file to import. Fails if it is a directory.
fn open_file(path: &Path) -> Result<File, CliError> {
    let name = format!("The file `{}`", path.display());
    // A directory can also be opened, and only reading it fails.
    if path.is_dir() {
        Err(input_files::unreadable_input_error(
            &name,
            &io::ErrorKind::IsADirectory.into(),
        ))
    } else {
        input_files::open(path, &name)
    }
}

/// Returns the workspace to import into: the stated one, the project's, or the only one that
/// exists.
async fn target_workspace(
    args: &InstanceImportArgs,
    database: Option<&SharedDatabase>,
    state_root: &StateRoot,
    output: &CommandOutput,
) -> Result<Workspace, CliError> {
    if let Some(id) = &args.workspace {
        let workspace = state_root.workspace(id);
        if workspace.id != *id {
            return Err(
                CliError::usage(format!("`{id}` is not a valid workspace id."))
                    .suggest(format!("Did you mean `{}`?", workspace.id)),
            );
        }
        return Ok(workspace);
    }
    if let Some(root) = args.project.find_optional(output)? {
        let (bundle, swarm) = project::chosen_swarm(&root, None, output)?;
        return Ok(state_root.workspace_of(&bundle, &bundle.swarms()[&swarm]));
    }
    let ids = match database {
        Some(database) => database
            .workspaces()
            .await
            .map_err(|error| store::unusable_error(&error))?,
        None => state_root
            .workspaces()?
            .into_iter()
            .map(|workspace| workspace.id)
            .collect(),
    };
    match ids.as_slice() {
        [only] => Ok(state_root.workspace(only)),
        [] => Err(CliError::usage("There is no workspace yet.").suggest(
            "Run the command in a project directory, which has its own workspace, or name a \
                workspace with `--workspace`.",
        )),
        several => Err(
            CliError::usage("There are several workspaces.").suggest(format!(
                "Choose one with `--workspace`: {}.",
                several.join(", ")
            )),
        ),
    }
}

/// Converts the error, and suggests how to continue.
fn import_error(error: &ImportFailed) -> CliError {
    let base_error = CliError::failure(
        error.code(),
        format!("{}.", in_sentence_case(&error.to_string())),
    );
    match error {
        ImportFailed::Workspace(error) => workspace_open_error(error),
        ImportFailed::Import(ImportError::Exists(_)) => base_error.suggest(
            "Nothing was imported. Choose another name with `--as AGENT:KEY`, or delete the \
                existing conversation first.",
        ),
        ImportFailed::Import(ImportError::Store(_)) => base_error,
        ImportFailed::Import(_) => base_error.suggest("Nothing was imported."),
    }
}

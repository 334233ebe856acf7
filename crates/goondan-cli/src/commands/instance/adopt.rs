//! `gdn conversation adopt`: adopts the workspace that a moved or renamed project had before.

use clap::Args;
use goondan::spec::Code;
use goondan::{AdoptError, StateRoot};
use serde_json::json;

use super::{in_sentence_case, workspace_open_error};
use crate::complete;
use crate::exit::CliError;
use crate::instances::{self, ConversationScope};
use crate::output::CommandOutput;
use crate::project;
use crate::project_path::ProjectPathOption;
use crate::store::{self, StoreArgs};
use crate::suggested_command;

/// Arguments of `gdn conversation adopt`.
#[derive(Debug, Args)]
#[command(mut_arg("store", store::help("Adopt the workspace from")))]
pub(super) struct InstanceAdoptArgs {
    /// The id of the workspace to adopt
    #[arg(value_name = "ID")]
    workspace: String,
    #[command(flatten)]
    project: ProjectPathOption,
    #[command(flatten)]
    store: StoreArgs,
    /// Adopt the workspace for this Swarm [default: the only one, or the one named `default`]
    #[arg(short, long, value_name = "NAME", add = complete::swarms())]
    swarm: Option<String>,
}

/// Makes an existing workspace the workspace of the project. If the project already has a workspace
/// with contents, that workspace gets another id.
pub(super) async fn run(
    args: &InstanceAdoptArgs,
    state_root: &StateRoot,
    output: &CommandOutput,
) -> Result<(), CliError> {
    let (bundle, swarm_name) =
        project::chosen_swarm(&args.project.find(output)?, args.swarm.as_deref(), output)?;
    let swarm = &bundle.swarms()[&swarm_name];
    let (from, result) = match args.store.database()? {
        Some(database) => {
            let from = state_root.workspace(&args.workspace);
            let result = database.adopt(state_root, &from, &bundle, swarm).await;
            (from, result)
        }
        None => {
            let scope = ConversationScope::Workspace(args.workspace.clone());
            // Fails if there is no such workspace, so there is exactly one.
            let from = instances::workspaces(state_root, &scope)?.remove(0);
            let result = state_root.adopt(&from, &bundle, swarm);
            (from, result)
        }
    };
    let previous_workspace = result.map_err(|error| adopt_error(&error))?;
    let own_workspace = state_root.workspace_of(&bundle, swarm);
    if output.json {
        let previous_workspace = previous_workspace.map(|workspace| workspace.id);
        return output
            .json_pretty(&json!({ "workspace": own_workspace.id, "adopted": from.id, "aside": previous_workspace }));
    }
    output.line(&format!(
        "The workspace `{}` now belongs to this project, with the id `{}`.",
        from.id, own_workspace.id
    ))?;
    match previous_workspace {
        Some(previous_workspace) => output.line(&format!(
            "The project's previous state is in the workspace `{}`.",
            previous_workspace.id
        )),
        None => Ok(()),
    }
}

/// Converts the error, and suggests how to continue.
fn adopt_error(error: &AdoptError) -> CliError {
    let base_error = CliError::failure(
        Code::WORKSPACE_ERROR,
        format!("{}.", in_sentence_case(&error.to_string())),
    );
    match error {
        AdoptError::Workspace(error) => workspace_open_error(error),
        AdoptError::Held(error) => store::unusable_error(error),
        AdoptError::Store(error) => store::read_error(error),
        AdoptError::Nothing(_) => base_error
            .suggest("Nothing was changed. List all conversations with `gdn conversation list --all`."),
        AdoptError::Owned(workspace, _) => base_error.suggest(format!(
            "Nothing was changed. Copy conversations with `gdn conversation export --all --workspace \
            {}{}` and `gdn conversation import`.",
            workspace.id,
            suggested_command::state_root()
        )),
        AdoptError::Own(_) | AdoptError::Io(_) => base_error.suggest("Nothing was changed."),
    }
}

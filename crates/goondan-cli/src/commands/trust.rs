//! `gdn trust`: lists, adds and revokes trusted projects and packages.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use goondan::internal::untrusted_text;
use goondan::{
    StateRoot, TrustList, TrustedDirectory, folders_to_trust, packages_to_trust, requested_access,
};
use serde_json::json;

use crate::exit::CliError;
use crate::output::{CommandOutput, TextTable, style};
use crate::project_path;
use crate::trust::{
    TrustSettings, capability_list, trust_command, trust_list_write_error,
    unreadable_trust_list_error,
};

const EXAMPLES: &str = "\
Examples:
  gdn trust                   Trust the project in this directory
  gdn trust ~/src             Trust this directory and everything below it
  gdn trust list              List the trusted directories
  gdn trust remove ~/src      Revoke trust in a directory, or in a package by name";

/// Arguments of `gdn trust`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct TrustArgs {
    #[command(subcommand)]
    command: Option<TrustCommand>,
    /// The directory of one or more projects [default: the project around this directory, else this
    /// directory]
    #[arg(value_name = "PATH")]
    folder: Option<PathBuf>,
    /// List the trusted directories
    #[arg(long, hide = true, conflicts_with_all = ["folder", "revoke"])]
    list: bool,
    /// Revoke trust in this directory, or in the package of that name
    #[arg(long, hide = true, value_name = "PATH", conflicts_with = "folder")]
    revoke: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum TrustCommand {
    /// Trust a directory
    Add {
        /// The directory of one or more projects [default: the project around this directory, else
        /// this directory]
        #[arg(value_name = "PATH")]
        folder: Option<PathBuf>,
    },
    /// List the trusted directories
    List,
    /// Revoke trust in a directory, or in a package
    Remove {
        /// The directory, or the name of the package
        #[arg(value_name = "PATH")]
        folder: PathBuf,
    },
}

/// Trusts a directory, revokes trust, or lists the trusted directories.
pub(crate) fn run(
    args: &TrustArgs,
    state_root: &StateRoot,
    output: &CommandOutput,
) -> Result<(), CliError> {
    let list = TrustList::of(state_root);
    let (folder, revoked, is_list) = match &args.command {
        Some(TrustCommand::Add { folder }) => (folder.as_ref(), None, false),
        Some(TrustCommand::List) => (None, None, true),
        Some(TrustCommand::Remove { folder }) => (None, Some(folder), false),
        None => (args.folder.as_ref(), args.revoke.as_ref(), args.list),
    };
    match revoked {
        Some(folder) => revoke_trust(&list, folder, output),
        None if is_list => print_trust_list(&list, output),
        None => {
            let folder = match folder {
                Some(folder) => folder_of(folder).to_owned(),
                None => project_path::find_around(output)?.unwrap_or_else(|| PathBuf::from(".")),
            };
            trust_directory(&list, &folder, state_root, output)
        }
    }
}

/// Lists the access that the project requests, and trusts the directory.
fn trust_directory(
    list: &TrustList,
    folder: &Path,
    state_root: &StateRoot,
    output: &CommandOutput,
) -> Result<(), CliError> {
    if !folder.is_dir() {
        return Err(CliError::configuration(format!(
            "The directory `{}` does not exist.",
            folder.display()
        ))
        .suggest("Check the path; it is relative to the current directory."));
    }
    if list.is_inside(folder) {
        let path = folder.display();
        output.note(&format!(
            "The state root is inside {path}. To run a project in that directory itself, use \
                `--trust`."
        ))?;
    }
    let project = goondan::manifest_in(folder).map(|_| goondan::load(folder));
    let requested_access_list = project
        .as_ref()
        .map(|project| requested_access(project, state_root))
        .unwrap_or_default();
    let trusted = list
        .add(folder)
        .map_err(|error| trust_list_write_error(list, &error))?;
    list.add_packages(&packages_to_trust(&requested_access_list))
        .map_err(|error| trust_list_write_error(list, &error))?;
    if output.json {
        return output.json_pretty(&json!({ "trusted": trusted, "wants": requested_access_list }));
    }
    if !requested_access_list.is_empty() {
        output.note(&capability_list(folder, &requested_access_list))?;
    }
    let good = style::GOOD;
    output.line(&format!(
        "{good}Trusted{good:#} {} and everything below it.",
        trusted.path.display()
    ))?;
    let untrusted_access = match project {
        Some(project) => TrustSettings::new(state_root, false).untrusted_capabilities(&project)?,
        None => Vec::new(),
    };
    let folders = if untrusted_access.is_empty() {
        Vec::new()
    } else {
        folders_to_trust(folder, &untrusted_access)
    };
    folders.iter().try_for_each(|folder| {
        output.note(&format!(
            "The project also uses files outside of this directory. Review them, then run `{}`.",
            trust_command(folder)
        ))
    })
}

/// Lists the trusted directories and packages.
fn print_trust_list(list: &TrustList, output: &CommandOutput) -> Result<(), CliError> {
    let folders = list
        .folders()
        .map_err(|error| unreadable_trust_list_error(list, &error))?;
    if output.json {
        return output.json_pretty(&folders);
    }
    let packages = list
        .packages()
        .map_err(|error| unreadable_trust_list_error(list, &error))?;
    if folders.is_empty() && packages.is_empty() {
        return output.note("No directory is trusted.");
    }
    let mut table = TextTable::new(&["DIRECTORY", "SINCE"]);
    for TrustedDirectory { path, since } in &folders {
        table.row([
            path.display().to_string(),
            since.format("%Y-%m-%d %H:%M:%S").to_string(),
        ]);
    }
    table
        .lines()
        .iter()
        .try_for_each(|line| output.line(line))?;
    if packages.is_empty() {
        return Ok(());
    }
    let mut table = TextTable::new(&["PACKAGE", "VERSION", "CONTENT"]);
    for package in packages {
        table.row([package.name, package.version, package.contents]);
    }
    table.lines().iter().try_for_each(|line| output.line(line))
}

/// Revokes trust in a directory, or in the package of that name if there is no such directory.
fn revoke_trust(list: &TrustList, folder: &Path, output: &CommandOutput) -> Result<(), CliError> {
    let folder = folder_of(folder);
    if let Some(name) = folder.to_str().filter(|_| !folder.exists())
        && list
            .remove_package(name)
            .map_err(|error| trust_list_write_error(list, &error))?
    {
        return if output.json {
            output.json_pretty(&json!({ "revoked": true }))
        } else {
            output.line(&format!(
                "The package {} is no longer trusted.",
                untrusted_text::line(name)
            ))
        };
    }
    let was_listed = list
        .remove(folder)
        .map_err(|error| trust_list_write_error(list, &error))?;
    let trusted_parent = list
        .trusts(folder)
        .map_err(|error| unreadable_trust_list_error(list, &error))?;
    if output.json {
        return output
            .json_pretty(&json!({ "revoked": was_listed, "stillTrustedBy": trusted_parent }));
    }
    let path = folder.display();
    output.line(&if was_listed {
        format!("{path} was removed from the list of trusted directories.")
    } else {
        format!("{path} was not on the list of trusted directories.")
    })?;
    match trusted_parent {
        Some(trusted_parent) => output.line(&format!(
            "The directory is still trusted, because {} is trusted.",
            trusted_parent.path.display()
        )),
        None => Ok(()),
    }
}

/// Returns the directory of a project. `path` may also be its goondan.yaml.
fn folder_of(path: &Path) -> &Path {
    if path.is_file() {
        path.parent()
            .filter(|parent| !parent.as_os_str().is_empty())
            .unwrap_or(Path::new("."))
    } else {
        path
    }
}

//! `gdn trust`.

use std::path::{Path, PathBuf};

use clap::Args;
use goondan::inside::shown;
use goondan::{StateRoot, TrustList, Trusted, folders_to_trust, packages_to_trust, wants};
use serde_json::json;

use crate::exit::CliError;
use crate::output::{Output, Table, style};
use crate::place;
use crate::trust::{Trust, listing, trusting, unreadable, unwritten};

const EXAMPLES: &str = "\
Examples:
  gdn trust                   Trust the project in this folder
  gdn trust ~/src             Trust this folder and everything below it
  gdn trust --list            List the trusted folders
  gdn trust --revoke ~/src    Take this folder off the list, or a package by its name";

/// Arguments of `gdn trust`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TrustArgs {
    /// The folder of a project, or a folder with several projects [default: the project around this folder, else this folder]
    #[arg(value_name = "PATH")]
    folder: Option<PathBuf>,
    /// List the trusted folders
    #[arg(long, conflicts_with_all = ["folder", "revoke"])]
    list: bool,
    /// Take this folder, or the package of that name, off the list
    #[arg(long, value_name = "PATH", conflicts_with = "folder")]
    revoke: Option<PathBuf>,
}

/// Looks at the list of trusted folders, or changes it.
pub(crate) fn run(
    args: &TrustArgs,
    state_root: &StateRoot,
    output: &Output,
) -> Result<(), CliError> {
    let list = TrustList::of(state_root);
    match &args.revoke {
        Some(folder) => revoke(&list, folder, output),
        None if args.list => show(&list, output),
        None => {
            let folder = match &args.folder {
                Some(folder) => folder_of(folder).to_owned(),
                None => place::around(output)?.unwrap_or_else(|| PathBuf::from(".")),
            };
            trust(&list, &folder, state_root, output)
        }
    }
}

fn trust(
    list: &TrustList,
    folder: &Path,
    state_root: &StateRoot,
    output: &Output,
) -> Result<(), CliError> {
    if !folder.is_dir() {
        return Err(CliError::configuration(format!(
            "The folder `{}` does not exist.",
            folder.display()
        ))
        .suggest("Check the path: it starts from the folder that you are in."));
    }
    if list.lies_in(folder) {
        let shown = folder.display();
        output.note(&format!(
            "The state root lies in {shown}: for a project in that folder itself, use `--trust`."
        ))?;
    }
    let project = goondan::manifest_in(folder).map(|_| goondan::load(folder));
    let wants = project
        .as_ref()
        .map(|project| wants(project, state_root))
        .unwrap_or_default();
    let trusted = list.add(folder).map_err(|error| unwritten(list, &error))?;
    list.add_packages(&packages_to_trust(&wants))
        .map_err(|error| unwritten(list, &error))?;
    if output.json {
        return output.json_pretty(&json!({ "trusted": trusted, "wants": wants }));
    }
    if !wants.is_empty() {
        output.note(&listing(folder, &wants))?;
    }
    let good = style::GOOD;
    output.line(&format!(
        "{good}Trusted{good:#} {} and all that is below it.",
        trusted.path.display()
    ))?;
    let open = match project {
        Some(project) => Trust::new(state_root, false).open_wants(&project)?,
        None => Vec::new(),
    };
    let folders = if open.is_empty() {
        Vec::new()
    } else {
        folders_to_trust(folder, &open)
    };
    folders.iter().try_for_each(|folder| {
        output.note(&format!(
            "Something that it obeys lies outside of it: look there, and run `{}`, too.",
            trusting(folder)
        ))
    })
}

fn show(list: &TrustList, output: &Output) -> Result<(), CliError> {
    let folders = list.folders().map_err(|error| unreadable(list, &error))?;
    if output.json {
        return output.json_pretty(&folders);
    }
    let packages = list.packages().map_err(|error| unreadable(list, &error))?;
    if folders.is_empty() && packages.is_empty() {
        return output.note("No folder is trusted.");
    }
    let mut table = Table::new(&["FOLDER", "SINCE"]);
    for Trusted { path, since } in &folders {
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
    let mut table = Table::new(&["PACKAGE", "VERSION", "CONTENT"]);
    packages
        .into_iter()
        .for_each(|one| table.row([one.name, one.version, one.contents]));
    table.lines().iter().try_for_each(|line| output.line(line))
}

fn revoke(list: &TrustList, folder: &Path, output: &Output) -> Result<(), CliError> {
    let folder = folder_of(folder);
    if let Some(name) = folder.to_str().filter(|_| !folder.exists())
        && list
            .remove_package(name)
            .map_err(|error| unwritten(list, &error))?
    {
        return match output.json {
            true => output.json_pretty(&json!({ "revoked": true })),
            false => output.line(&format!(
                "The package {} is no longer on the list.",
                shown::line(name)
            )),
        };
    }
    let is_less = list
        .remove(folder)
        .map_err(|error| unwritten(list, &error))?;
    let above = list
        .trusts(folder)
        .map_err(|error| unreadable(list, &error))?;
    if output.json {
        return output.json_pretty(&json!({ "revoked": is_less, "stillTrustedBy": above }));
    }
    let shown = folder.display();
    output.line(&match is_less {
        true => format!("{shown} is no longer on the list."),
        false => format!("{shown} was not on the list."),
    })?;
    match above {
        Some(above) => output.line(&format!(
            "It is still trusted, because {} is.",
            above.path.display()
        )),
        None => Ok(()),
    }
}

/// The folder of a project that may be named by its goondan.yaml.
fn folder_of(path: &Path) -> &Path {
    match path.is_file() {
        true => path
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty())
            .unwrap_or(Path::new(".")),
        false => path,
    }
}

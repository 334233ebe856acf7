//! `gdn package list`: lists the dependencies of a project with their locked versions.

use std::path::Path;

use clap::Args;
use goondan::internal::{contents, installed_folder};
use goondan_packages::PackageManifest;
use goondan_packages::install::read_lock;
use serde_json::{Value, json};

use super::install::folder;
use crate::exit::CliError;
use crate::output::{CommandOutput, TextTable};
use crate::packages::package_error;
use crate::project_path::ProjectPathArg;

/// Arguments of `gdn package list`.
#[derive(Debug, Args)]
pub(crate) struct PackageListArgs {
    #[command(flatten)]
    project: ProjectPathArg,
}

/// Dependency in the output.
struct PackageRow {
    name: String,
    version: String,
    range: Option<String>,
    state: &'static str,
    from: String,
}

/// Lists the dependencies with their state.
pub(super) fn run(args: &PackageListArgs, output: &CommandOutput) -> Result<(), CliError> {
    let rows = package_rows(&folder(&args.project.find(output)?))?;
    if output.json {
        let value = |row: &PackageRow| -> Value {
            json!({
                "name": row.name, "version": row.version, "range": row.range, "state": row.state, "resolved": row.from,
            })
        };
        return output.json_pretty(&rows.iter().map(value).collect::<Vec<_>>());
    }
    if rows.is_empty() {
        return output.note("The project has no dependencies.");
    }
    let mut table = TextTable::new(&["PACKAGE", "VERSION", "WANTED", "STATE", "FROM"]);
    for row in rows {
        table.row([
            row.name,
            row.version,
            row.range.unwrap_or_default(),
            row.state.to_owned(),
            row.from,
        ]);
    }
    table.lines().iter().try_for_each(|line| output.line(line))
}

/// Returns a row per locked package, then a row per dependency that is not locked yet.
fn package_rows(root: &Path) -> Result<Vec<PackageRow>, CliError> {
    let manifest = PackageManifest::read(root).map_err(package_error)?;
    let lock = read_lock(root).map_err(package_error)?;
    let mut rows = Vec::new();
    for (key, locked) in &lock.packages {
        let name = key.rsplit_once('@').map_or(key.as_str(), |(name, _)| name);
        let range = manifest
            .dependencies
            .iter()
            .find(|dependency| dependency.name == name)
            .map(|dependency| dependency.range.clone());
        let folder = root.join(installed_folder(name));
        let state = match contents(&folder) {
            _ if !folder.is_dir() => "not installed",
            Ok(checksum) if Some(&checksum) == locked.contents.as_ref() => "installed",
            _ => "changed",
        };
        let (version, from) = (locked.version.clone(), locked.resolved.clone());
        rows.push(PackageRow {
            name: name.to_owned(),
            version,
            range,
            state,
            from,
        });
    }
    for dependency in manifest
        .dependencies
        .iter()
        .filter(|dependency| lock.find(&dependency.name).is_none())
    {
        let from = dependency.source.clone().unwrap_or_default();
        let (name, range) = (dependency.name.clone(), Some(dependency.range.clone()));
        rows.push(PackageRow {
            name,
            version: String::new(),
            range,
            state: "not locked",
            from,
        });
    }
    Ok(rows)
}

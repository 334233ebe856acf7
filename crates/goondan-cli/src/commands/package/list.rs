//! `gdn package list`.

use std::path::Path;

use clap::Args;
use goondan::inside::{contents, installed_folder};
use goondan_packages::Manifest;
use goondan_packages::install::read_lock;
use serde_json::{Value, json};

use super::install::folder;
use crate::exit::CliError;
use crate::output::{Output, Table};
use crate::packages::refused;
use crate::place::ProjectPath;

/// Arguments of `gdn package list`.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    project: ProjectPath,
}

struct Row {
    name: String,
    version: String,
    range: Option<String>,
    state: &'static str,
    from: String,
}

pub(super) fn run(args: &ListArgs, output: &Output) -> Result<(), CliError> {
    let rows = rows(&folder(&args.project.find(output)?))?;
    if output.json {
        let value = |row: &Row| -> Value {
            json!({
                "name": row.name, "version": row.version, "range": row.range, "state": row.state, "resolved": row.from,
            })
        };
        return output.json_pretty(&rows.iter().map(value).collect::<Vec<_>>());
    }
    if rows.is_empty() {
        return output.note("The project depends on no package.");
    }
    let mut table = Table::new(&["PACKAGE", "VERSION", "WANTED", "STATE", "FROM"]);
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

fn rows(root: &Path) -> Result<Vec<Row>, CliError> {
    let manifest = Manifest::read(root).map_err(refused)?;
    let lock = read_lock(root).map_err(refused)?;
    let mut rows = Vec::new();
    for (key, locked) in &lock.packages {
        let name = key.rsplit_once('@').map_or(key.as_str(), |(name, _)| name);
        let range = manifest
            .dependencies
            .iter()
            .find(|one| one.name == name)
            .map(|one| one.range.clone());
        let there = root.join(installed_folder(name));
        let state = match contents(&there) {
            _ if !there.is_dir() => "not installed",
            Ok(found) if Some(&found) == locked.contents.as_ref() => "installed",
            _ => "changed",
        };
        let (version, from) = (locked.version.clone(), locked.resolved.clone());
        rows.push(Row {
            name: name.to_owned(),
            version,
            range,
            state,
            from,
        });
    }
    for one in manifest
        .dependencies
        .iter()
        .filter(|one| lock.find(&one.name).is_none())
    {
        let from = one.source.clone().unwrap_or_default();
        let (name, range) = (one.name.clone(), Some(one.range.clone()));
        rows.push(Row {
            name,
            version: String::new(),
            range,
            state: "not locked",
            from,
        });
    }
    Ok(rows)
}

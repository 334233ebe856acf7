//! `gdn mcp import`.

use std::path::{Path, PathBuf};

use clap::Args;
use goondan::inside::shown;
use goondan::mcp::{Found, Imported, import};
use goondan::spec::reason;
use serde_json::json;

use crate::exit::CliError;
use crate::output::Output;
use crate::reading;

/// Files in which other programs keep their servers, below a project.
const KNOWN: [&str; 4] = [
    ".mcp.json",
    ".vscode/mcp.json",
    ".cursor/mcp.json",
    ".gemini/settings.json",
];

/// Where they are written. Files in this folder are part of a bundle.
const TARGET: &str = "tools/mcp.yaml";

#[derive(Debug, Args)]
pub(super) struct ImportArgs {
    /// The file of another program [default: the first of .mcp.json, .vscode/mcp.json, .cursor/mcp.json, .gemini/settings.json]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// The project folder
    #[arg(short, long, value_name = "PATH", default_value = ".")]
    project: PathBuf,
    /// Write tools/mcp.yaml instead of printing it
    #[arg(long)]
    write: bool,
}

pub(super) fn run(args: &ImportArgs, output: &Output) -> Result<(), CliError> {
    let file = match &args.file {
        Some(file) => file.clone(),
        None => find(&args.project)?,
    };
    let what = format!("`{}`", file.display());
    let text = reading::text(reading::open(&file, &what)?, &what)?;
    let Found {
        servers: found,
        left_out,
    } = import(&text).map_err(|why| {
        CliError::configuration(format!("`{}` lists no MCP servers: {why}.", file.display()))
            .suggest("Name a file with `mcpServers`, such as .mcp.json.")
    })?;
    for (own, why) in &left_out {
        output.note(&format!("{}: left out: {why}", shown::line(own)))?;
    }
    if found.is_empty() {
        let message = format!(
            "`{}` lists no MCP server that can be taken over.",
            file.display()
        );
        return Err(CliError::configuration(message)
            .suggest("Give a server `command` or `url` in that file."));
    }
    let yaml = found
        .iter()
        .map(|one| one.yaml.as_str())
        .collect::<Vec<_>>()
        .join("---\n");
    if output.json {
        let servers: Vec<_> = found
            .iter()
            .map(|one| json!({"name": one.name, "yaml": one.yaml, "variables": one.variables, "notes": one.notes}))
            .collect();
        output.json_pretty(&servers)?;
    } else if !args.write {
        output.foreign(&yaml)?;
    }
    if args.write {
        write(&args.project, &yaml, output)?;
    }
    found.iter().try_for_each(|one| tell(one, output))
}

fn find(project: &Path) -> Result<PathBuf, CliError> {
    let found = KNOWN
        .iter()
        .map(|name| project.join(name))
        .find(|file| file.is_file());
    found.ok_or_else(|| {
        let place = match project == Path::new(".") {
            true => "This folder".to_owned(),
            false => format!("`{}`", project.display()),
        };
        CliError::usage(format!(
            "{place} has none of the files {}.",
            KNOWN.join(", ")
        ))
        .suggest("Name the file: gdn mcp import ~/.cursor/mcp.json")
    })
}

fn write(project: &Path, yaml: &str, output: &Output) -> Result<(), CliError> {
    let target = project.join(TARGET);
    let failed = |error: std::io::Error| {
        let message = format!(
            "`{}` can't be written: {}.",
            target.display(),
            reason(&error)
        );
        CliError::configuration(message)
            .suggest("Print it without `--write`, and put it where you like.")
    };
    if let Some(folder) = target.parent() {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    // What somebody has written there stays.
    let mut file = std::fs::File::create_new(&target).map_err(failed)?;
    std::io::Write::write_all(&mut file, yaml.as_bytes()).map_err(failed)?;
    output.note(&format!(
        "Wrote {}. Agents that are to have the tools list them in `spec.tools`.",
        target.display()
    ))
}

fn tell(one: &Imported, output: &Output) -> Result<(), CliError> {
    for note in &one.notes {
        output.note(&format!("{}: {}", shown::line(&one.own), shown::line(note)))?;
    }
    match one.variables.as_slice() {
        [] => Ok(()),
        some => output.note(&format!(
            "{}: needs {}",
            shown::line(&one.own),
            shown::line(some.join(", "))
        )),
    }
}

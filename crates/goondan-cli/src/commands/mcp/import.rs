//! `gdn mcp import`: converts another program's list of MCP servers to Tools of the project.

use std::path::{Path, PathBuf};

use clap::Args;
use goondan::internal::regular_file;
use goondan::internal::{line_end_at, nofollow_fs, untrusted_text, with_line_end};
use goondan::mcp::{ImportedServer, ImportedServers, import};
use goondan::spec::reason;
use serde_json::json;

use crate::exit::CliError;
use crate::input_files::{self, MAX_PROJECT_FILE_BYTES};
use crate::output::CommandOutput;

/// Files in which other programs list MCP servers, relative to the project.
const KNOWN_FILES: [&str; 4] = [
    ".mcp.json",
    ".vscode/mcp.json",
    ".cursor/mcp.json",
    ".gemini/settings.json",
];

/// Output file. Files in this directory are part of a bundle.
const OUTPUT_FILE: &str = "tools/mcp.yaml";

#[derive(Debug, Args)]
pub(super) struct McpImportArgs {
    /// MCP client configuration to import [default: the first of .mcp.json, .vscode/mcp.json,
    /// .cursor/mcp.json, .gemini/settings.json]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// The project directory
    #[arg(short, long, value_name = "PATH", default_value = ".")]
    project: PathBuf,
    /// Write tools/mcp.yaml instead of printing it
    #[arg(long)]
    write: bool,
}

/// Converts the servers of another program's configuration to Tools. Prints or writes their YAML,
/// with notes on each server.
pub(super) fn run(args: &McpImportArgs, output: &CommandOutput) -> Result<(), CliError> {
    let file = match &args.file {
        Some(file) => file.clone(),
        None => find_configuration(&args.project)?,
    };
    let source_name = format!("`{}`", file.display());
    let text = input_files::read_text(input_files::open(&file, &source_name)?, &source_name)?;
    let ImportedServers {
        servers: found,
        left_out,
    } = import(&text).map_err(|why| {
        CliError::configuration(format!("`{}` lists no MCP servers: {why}.", file.display()))
            .suggest("Name a file with `mcpServers`, such as .mcp.json.")
    })?;
    for (server_name, reason) in &left_out {
        output.note(&format!(
            "{}: skipped: {reason}",
            untrusted_text::line(server_name)
        ))?;
    }
    if found.is_empty() {
        let message = format!(
            "`{}` lists no MCP server that can be imported.",
            file.display()
        );
        return Err(CliError::configuration(message)
            .suggest("Add `command` or `url` to a server in that file."));
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
        write_tools(&args.project, &yaml, output)?;
    }
    found.iter().try_for_each(|one| print_notes(one, output))
}

/// Finds the first known configuration file in the project. Fails if there is none.
fn find_configuration(project: &Path) -> Result<PathBuf, CliError> {
    let configuration = KNOWN_FILES
        .iter()
        .map(|name| project.join(name))
        .find(|file| file.is_file());
    configuration.ok_or_else(|| {
        let directory = if project == Path::new(".") {
            "This directory".to_owned()
        } else {
            format!("`{}`", project.display())
        };
        CliError::usage(format!(
            "{directory} has none of the files {}.",
            KNOWN_FILES.join(", ")
        ))
        .suggest("Name the file: gdn mcp import ~/.cursor/mcp.json")
    })
}

/// Writes the YAML to tools/mcp.yaml, with the line ends of the manifest. Fails if the file exists.
fn write_tools(project: &Path, yaml: &str, output: &CommandOutput) -> Result<(), CliError> {
    let target = project.join(OUTPUT_FILE);
    let failed = |error: std::io::Error| {
        let message = format!(
            "`{}` can't be written: {}.",
            target.display(),
            reason(&error)
        );
        CliError::configuration(message)
            .suggest("Omit `--write` to print the YAML, and save it to another file.")
    };
    let manifest = goondan::manifest_in(project)
        .and_then(|path| regular_file::read_text(&path, MAX_PROJECT_FILE_BYTES).ok());
    let line_end = line_end_at(manifest.as_deref().unwrap_or_default(), 0);
    let yaml = with_line_end(yaml, line_end);
    // An existing file is never overwritten.
    nofollow_fs::write_inside(project, &target, yaml.as_bytes(), true).map_err(failed)?;
    output.note(&format!(
        "Wrote {}. To use these tools, add them to an agent's `spec.tools`.",
        target.display()
    ))
}

/// Prints the notes on a server, and the variables that the server needs.
fn print_notes(server: &ImportedServer, output: &CommandOutput) -> Result<(), CliError> {
    for note in &server.notes {
        output.note(&format!(
            "{}: {}",
            untrusted_text::line(&server.own),
            untrusted_text::line(note)
        ))?;
    }
    match server.variables.as_slice() {
        [] => Ok(()),
        variables => output.note(&format!(
            "{}: needs {}",
            untrusted_text::line(&server.own),
            untrusted_text::line(variables.join(", "))
        )),
    }
}

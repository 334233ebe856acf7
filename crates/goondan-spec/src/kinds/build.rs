//! `spec.build`: the command that builds the entry of a Tool, an Extension or a Connector.

use std::time::Duration;

use globset::Glob;
use schemars::JsonSchema;

use super::call_timeout::MAX_TIMEOUT_MS;
use super::tool_build::{BuildCommand, BuildSettings, ToolBuild};
use super::{ResourceScope, SourceLocation};
use crate::decode::{FieldReader, MapReader};
use crate::diagnostic::Code;
use crate::diagnostic_sink::DiagnosticSink;
use crate::entry;
use crate::node::NodeContent;
use crate::paths;
use crate::text::excerpt;

/// Default time limit, in milliseconds. The first build compiles all dependencies.
const DEFAULT_BUILD_TIMEOUT_MS: u64 = 10 * 60 * 1_000;

/// Reads `build`. It is also recorded separately, because a resource with a missing entry cannot be
/// decoded.
pub(super) fn read(
    field: Option<&FieldReader<'_>>,
    entry: Option<&FieldReader<'_>>,
    scope: &ResourceScope<'_>,
    findings: &mut DiagnosticSink,
) -> Option<Option<BuildSettings>> {
    let Some(field) = field else {
        return Some(None);
    };
    // Installed packages are used as they are: their entries are never built here.
    if scope.folder.is_installed() {
        return Some(None);
    }
    let build = read_build(field, scope, findings)?;
    let Some(stated) = entry.and_then(|entry| entry.node.text()) else {
        return Some(Some(build));
    };
    if entry::is_builtin(stated) {
        let message = format!(
            "`{}` is built into gdn, so there is nothing to build.",
            excerpt(stated, 100)
        );
        findings.add(field.invalid_value(message).suggest("remove `build`"));
        return None;
    }
    if let Ok(entry) = paths::normalize_path(stated) {
        let written = SourceLocation(Some((findings.file.clone(), field.position())));
        findings.builds.push(ToolBuild {
            tool: scope.id.clone(),
            entry,
            build: build.clone(),
            written,
        });
    }
    Some(Some(build))
}

/// Reads a command line for the shell, a list, or a map with more settings.
fn read_build(
    field: &FieldReader<'_>,
    scope: &ResourceScope<'_>,
    findings: &mut DiagnosticSink,
) -> Option<BuildSettings> {
    if !matches!(field.node.content, NodeContent::Map(_)) {
        let timeout = Duration::from_millis(DEFAULT_BUILD_TIMEOUT_MS);
        return Some(BuildSettings {
            command: read_command(field, findings)?,
            cwd: None,
            sources: Vec::new(),
            timeout,
        });
    }
    let mut fields = field.fields(findings)?;
    let command = fields
        .required("command", findings)
        .and_then(|field| read_command(&field, findings));
    let cwd = fields
        .optional("cwd")
        .map(|field| read_cwd(&field, scope, findings));
    let sources = fields
        .optional("sources")
        .map(|field| read_sources(&field, findings));
    let timeout = read_timeout(&mut fields, findings);
    fields.finish(findings);
    Some(BuildSettings {
        command: command?,
        cwd: cwd.map_or(Some(None), |cwd| cwd.map(Some))?,
        sources: sources.unwrap_or_else(|| Some(Vec::new()))?,
        timeout: timeout?,
    })
}

/// Reads `command` as a string or as a list of a program and its arguments.
fn read_command(field: &FieldReader<'_>, findings: &mut DiagnosticSink) -> Option<BuildCommand> {
    match &field.node.content {
        NodeContent::Text(_) => field
            .text(findings)
            .map(|line| BuildCommand::Shell(line.to_owned())),
        NodeContent::List(_) => read_program(field, findings),
        _ => {
            let message = format!(
                "`{}` must be a command, but is {}.",
                field.path,
                field.node.type_phrase()
            );
            let suggestion =
                "write a line for the shell, or a list such as `[cargo, build, --release]`";
            findings.add(field.invalid_value(message).suggest(suggestion));
            None
        }
    }
}

/// Reads a command that is a list; it runs without a shell.
fn read_program(field: &FieldReader<'_>, findings: &mut DiagnosticSink) -> Option<BuildCommand> {
    let items = field.filled_list("word: the program", findings)?;
    let words: Vec<Option<&str>> = items.iter().map(|item| item.text(findings)).collect();
    let words: Option<Vec<String>> = words
        .into_iter()
        .map(|word| word.map(str::to_owned))
        .collect();
    let mut words = words?.into_iter();
    Some(BuildCommand::Program {
        program: words.next()?,
        arguments: words.collect(),
    })
}

/// Reads the working directory of the build.
fn read_cwd(
    field: &FieldReader<'_>,
    scope: &ResourceScope<'_>,
    findings: &mut DiagnosticSink,
) -> Option<String> {
    let path = scope.folder.path(field, findings)?;
    if scope.folder.is_folder(&path) {
        return Some(path);
    }
    let message = format!(
        "`{}` is `{}`, but there is no such directory.",
        field.path,
        excerpt(&path, 200)
    );
    findings.add(field.diagnostic(Code::ENTRY_NOT_FOUND, message).suggest(
        "create it, or correct the path; it is relative to the directory of goondan.yaml",
    ));
    None
}

/// Reads the patterns of the source files.
fn read_sources(field: &FieldReader<'_>, findings: &mut DiagnosticSink) -> Option<Vec<String>> {
    field.filled_list("glob", findings)?;
    let mut globs = Vec::new();
    for item in field.unique_strings(findings)? {
        let Some(text) = item.text(findings) else {
            continue;
        };
        match Glob::new(text) {
            Ok(_) => globs.push(text.to_owned()),
            Err(error) => {
                let message = format!(
                    "`{}` is not a valid glob: {}.",
                    excerpt(text, 60),
                    error.kind()
                );
                findings.add(
                    item.invalid_value(message)
                        .suggest("write something like `src/**/*.rs`"),
                );
            }
        }
    }
    Some(globs)
}

/// Reads the time limit of the build; `None` if it is missing or invalid.
fn read_timeout(fields: &mut MapReader<'_>, findings: &mut DiagnosticSink) -> Option<Duration> {
    let timeout = fields
        .optional("timeout")
        .map(|field| super::call_timeout::read_timeout(&field, findings));
    timeout
        .unwrap_or(Some(DEFAULT_BUILD_TIMEOUT_MS))
        .map(Duration::from_millis)
}

/// A command line for the shell, a program with its arguments, or a map with more settings.
#[derive(JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "Build")]
#[expect(dead_code, reason = "read only by the schema generator")]
pub(super) enum BuildShape {
    /// Only a command.
    Command(BuildCommandShape),
    /// A command with more settings.
    Full(BuildSettingsShape),
}

/// A command line for the shell, or a program with its arguments.
#[derive(JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "BuildCommand")]
#[expect(dead_code, reason = "read only by the schema generator")]
pub(super) enum BuildCommandShape {
    /// A command line for the shell.
    Line(#[schemars(length(min = 1))] String),
    /// A program and its arguments.
    Words(#[schemars(length(min = 1))] Vec<String>),
}

/// The command that builds the entry, and the source files of the entry.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "BuildSettings")]
#[expect(dead_code, reason = "read only by the schema generator")]
pub(super) struct BuildSettingsShape {
    /// The command: a command line for the shell, or a list of a program and its arguments.
    command: BuildCommandShape,
    /// The working directory of the command. Without it, the project directory.
    #[schemars(length(min = 1))]
    #[schemars(extend("x-goondan-names" = "folder"))]
    cwd: Option<String>,
    /// Globs of the source files, relative to the command's working directory. Without it, all
    /// files below `cwd` count. Without `cwd`, `gdn` uses the nearest directory around the entry
    /// that contains a `Cargo.toml`, a `Makefile` or a similar file.
    #[schemars(length(min = 1))]
    sources: Option<Vec<String>>,
    /// The time limit of the command, in milliseconds.
    #[schemars(range(min = 1, max = MAX_TIMEOUT_MS), extend("default" = DEFAULT_BUILD_TIMEOUT_MS))]
    timeout_ms: Option<u64>,
}

//! How the entry of a Tool, an Extension or a Connector is made: `spec.build`.

use std::fmt;
use std::time::Duration;

use globset::Glob;
use schemars::JsonSchema;

use super::tool::MAX_TIMEOUT_MS;
use super::{Scope, Written};
use crate::decode::{Field, Fields};
use crate::diagnostic::Code;
use crate::entry;
use crate::findings::Findings;
use crate::meta::ResourceId;
use crate::node::Content;
use crate::paths;
use crate::text::excerpt;

/// The command that makes an entry, and what it is made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Build {
    /// What is run.
    pub command: BuildCommand,
    /// The folder that it runs in, relative to the bundle; the bundle's own where it says none.
    pub cwd: Option<String>,
    /// Globs of the files that it is made from, relative to the folder that the command runs in. Empty where they were
    /// not said.
    pub sources: Vec<String>,
    /// How long it may take (default ten minutes).
    pub timeout: Duration,
}

/// A command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BuildCommand {
    /// A line for the shell.
    Shell(String),
    /// A program with its arguments, as they are.
    Program {
        /// Looked up in `PATH`.
        program: String,
        /// Without the program's name.
        arguments: Vec<String>,
    },
}

impl fmt::Display for BuildCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildCommand::Shell(line) => f.write_str(line),
            BuildCommand::Program { program, arguments } => {
                f.write_str(program)?;
                arguments
                    .iter()
                    .try_for_each(|argument| write!(f, " {argument}"))
            }
        }
    }
}

/// A tool, an extension or a connector that says how it is built. Known even where its entry is still missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolBuild {
    /// Whose entry it makes.
    pub tool: ResourceId,
    /// The entry as it is stated, relative to the bundle.
    pub entry: String,
    /// How.
    pub build: Build,
    /// Where that is said.
    pub written: Written,
}

/// How long a build may take where nothing else is said, in milliseconds: a first build compiles every dependency.
const TIMEOUT_MS: u64 = 10 * 60 * 1_000;

/// Reads `build`, and notes it apart from its resource as well: it is what brings a missing entry about.
pub(super) fn read(
    field: Option<&Field<'_>>,
    entry: Option<&Field<'_>>,
    scope: &Scope<'_>,
    findings: &mut Findings,
) -> Option<Option<Build>> {
    let Some(field) = field else {
        return Some(None);
    };
    // An installed package comes as it is: nothing of it is built here.
    if scope.folder.is_installed() {
        return Some(None);
    }
    let build = read_build(field, scope, findings)?;
    let Some(stated) = entry.and_then(|entry| entry.node.text()) else {
        return Some(Some(build));
    };
    if entry::is_builtin(stated) {
        let message = format!(
            "`{}` is a part of this program, so there is nothing to build.",
            excerpt(stated, 100)
        );
        findings.add(field.invalid(message).suggest("remove `build`"));
        return None;
    }
    if let Ok(entry) = paths::normal(stated) {
        let written = Written(Some((findings.file.clone(), field.at())));
        findings.builds.push(ToolBuild {
            tool: scope.id.clone(),
            entry,
            build: build.clone(),
            written,
        });
    }
    Some(Some(build))
}

/// Reads a line for the shell, a list, or a map with more to say.
fn read_build(field: &Field<'_>, scope: &Scope<'_>, findings: &mut Findings) -> Option<Build> {
    if !matches!(field.node.content, Content::Map(_)) {
        let timeout = Duration::from_millis(TIMEOUT_MS);
        return Some(Build {
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
    Some(Build {
        command: command?,
        cwd: cwd.map_or(Some(None), |cwd| cwd.map(Some))?,
        sources: sources.unwrap_or_else(|| Some(Vec::new()))?,
        timeout: timeout?,
    })
}

fn read_command(field: &Field<'_>, findings: &mut Findings) -> Option<BuildCommand> {
    match &field.node.content {
        Content::Text(_) => field
            .text(findings)
            .map(|line| BuildCommand::Shell(line.to_owned())),
        Content::List(_) => read_program(field, findings),
        _ => {
            let message = format!(
                "`{}` must be a command, but is {}.",
                field.path,
                field.node.what()
            );
            let suggestion =
                "write a line for the shell, or a list such as `[cargo, build, --release]`";
            findings.add(field.invalid(message).suggest(suggestion));
            None
        }
    }
}

fn read_program(field: &Field<'_>, findings: &mut Findings) -> Option<BuildCommand> {
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

fn read_cwd(field: &Field<'_>, scope: &Scope<'_>, findings: &mut Findings) -> Option<String> {
    let path = scope.folder.path(field, findings)?;
    if scope.folder.is_folder(&path) {
        return Some(path);
    }
    let message = format!(
        "`{}` is `{}`, but there is no such folder.",
        field.path,
        excerpt(&path, 200)
    );
    findings.add(
        field
            .problem(Code::ENTRY_NOT_FOUND, message)
            .suggest("create it, or correct the path; it starts from the folder of goondan.yaml"),
    );
    None
}

fn read_sources(field: &Field<'_>, findings: &mut Findings) -> Option<Vec<String>> {
    field.filled_list("glob", findings)?;
    let mut globs = Vec::new();
    for item in field.texts(findings)? {
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
                    item.invalid(message)
                        .suggest("write something like `src/**/*.rs`"),
                );
            }
        }
    }
    Some(globs)
}

fn read_timeout(fields: &mut Fields<'_>, findings: &mut Findings) -> Option<Duration> {
    let timeout = fields
        .optional("timeoutMs")
        .map(|field| super::tool::read_timeout(&field, findings));
    timeout
        .unwrap_or(Some(TIMEOUT_MS))
        .map(Duration::from_millis)
}

/// A line for the shell, a program with its arguments, or a map with more settings.
#[derive(JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "Build")]
#[expect(dead_code, reason = "read by the schema generator alone")]
pub(super) enum BuildShape {
    /// A command alone.
    Command(CommandShape),
    /// A command with more settings.
    Full(FullShape),
}

/// A line for the shell, or a program with its arguments.
#[derive(JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "BuildCommand")]
#[expect(dead_code, reason = "read by the schema generator alone")]
pub(super) enum CommandShape {
    /// A line for the shell.
    Line(#[schemars(length(min = 1))] String),
    /// A program and its arguments.
    Words(#[schemars(length(min = 1))] Vec<String>),
}

/// The command that makes the entry, and what the entry is made from.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "BuildSettings")]
#[expect(dead_code, reason = "read by the schema generator alone")]
pub(super) struct FullShape {
    /// The command: a line for the shell, or a list of a program and its arguments.
    command: CommandShape,
    /// The folder in which the command runs. Without it, the project folder.
    #[schemars(length(min = 1))]
    #[schemars(extend("x-goondan-names" = "folder"))]
    cwd: Option<String>,
    /// Globs of the files that the entry is made from, relative to that folder. Without it, everything below `cwd`, or
    /// else below the nearest folder around the entry that holds a `Cargo.toml`, a `Makefile` or the like.
    #[schemars(length(min = 1))]
    sources: Option<Vec<String>>,
    /// How many milliseconds the command may take.
    #[schemars(range(min = 1, max = MAX_TIMEOUT_MS), extend("default" = TIMEOUT_MS))]
    timeout_ms: Option<u64>,
}

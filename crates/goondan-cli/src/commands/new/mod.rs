//! `gdn new`: creates a part of a project, such as an agent, a model or a tool.

mod resource;
mod scaffold;
mod sdk;

use std::path::{Path, PathBuf};

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand, ValueEnum};
use goondan::internal::{nofollow_fs, untrusted_text};
use serde_json::json;

use self::scaffold::{
    CONNECTOR, EXTENSION, ScaffoldFile, ScaffoldKind, ScaffoldLanguage, ScaffoldPlan, TOOL,
};
use super::doctor::typescript_problem;
use super::init::{is_name, quoted};
use crate::exit::CliError;
use crate::output::{CommandOutput, style};
use crate::project_path;
use goondan::spec::reason;

const TOOL_EXAMPLES: &str = "\
Examples:
  gdn new tool word-count                  Create a file in TypeScript in tools/word-count, and a \
    Tool resource
  gdn new tool weather --lang js           Create it in JavaScript; also: python
  gdn new tool dice --lang rust            Create a library in Rust; also: c
  gdn new tool word-count --path libs/wc   Create it in another directory";

const EXTENSION_EXAMPLES: &str = "\
Examples:
  gdn new extension turn-count               Create a file in TypeScript in extensions/turn-count, \
    and an Extension resource
  gdn new extension turn-count --lang js     Create it in JavaScript; also: rust, c, python
  gdn new extension turn-count --path lib/t  Create it in another directory";

const CONNECTOR_EXAMPLES: &str = "\
Examples:
  gdn new connector kitchen               Create a file in TypeScript in connectors/kitchen, and a \
    Connector with a Connection
  gdn new connector kitchen --lang js     Create it in JavaScript; also: rust, python
  gdn new connector kitchen --path lib/k  Create it in another directory";

/// Rust keywords and dependencies of the new crate, which can't be crate names.
const RESERVED_CRATE_NAMES: &str = "as async await break const continue crate dyn else enum extern \
    false fn for goondan-abi if impl in \
    let loop match mod move mut pub ref return schemars self serde serde-json static struct super \
    test \
    trait true type use";

/// Arguments of `gdn new`.
#[derive(Debug, Args)]
pub(crate) struct NewArgs {
    #[command(subcommand)]
    what: NewCommand,
}

#[derive(Debug, Subcommand)]
enum NewCommand {
    /// Create a tool that runs without changes, with a test case
    Tool(NewToolArgs),
    /// Create an extension that runs without changes, with a test case
    Extension(NewExtensionArgs),
    /// Create a connector that runs without changes, with a test case
    Connector(NewConnectorArgs),
    /// Create an Agent in the project
    Agent(resource::NewAgentArgs),
    /// Create a Model in the project
    Model(resource::NewModelArgs),
    /// Create a Connection in the project
    Connection(resource::NewConnectionArgs),
    /// Create a Tool with an MCP server in the project
    Mcp(resource::NewMcpArgs),
}

/// Arguments of `gdn new tool`.
#[derive(Debug, Args)]
#[command(after_help = TOOL_EXAMPLES)]
struct NewToolArgs {
    /// The name of the tool: lower-case letters, digits and hyphens
    #[arg(value_name = "NAME")]
    name: String,
    /// Write the tool in this language
    #[arg(short, long, value_parser = langs(&TOOL), default_value = "ts")]
    lang: ScaffoldLanguage,
    /// Create the tool in this directory, which must not exist yet [default: tools/NAME]
    #[arg(short, long, value_name = "DIR")]
    path: Option<PathBuf>,
    /// Use the crate `goondan-abi` from this checkout of gdn [default: the checkout that this gdn
    /// was built in, or else its repository]
    #[arg(long, value_name = "DIR")]
    sdk: Option<PathBuf>,
}

/// Arguments of `gdn new extension`.
#[derive(Debug, Args)]
#[command(after_help = EXTENSION_EXAMPLES)]
struct NewExtensionArgs {
    /// The name of the extension: lower-case letters, digits and hyphens
    #[arg(value_name = "NAME")]
    name: String,
    /// Write the extension in this language
    #[arg(short, long, value_parser = langs(&EXTENSION), default_value = "ts")]
    lang: ScaffoldLanguage,
    /// Create the extension in this directory, which must not exist yet [default: extensions/NAME]
    #[arg(short, long, value_name = "DIR")]
    path: Option<PathBuf>,
    /// Use the crate `goondan-abi` in this directory: a checkout of gdn, or the crate itself
    #[arg(long, value_name = "DIR")]
    sdk: Option<PathBuf>,
}

/// Arguments of `gdn new connector`.
#[derive(Debug, Args)]
#[command(after_help = CONNECTOR_EXAMPLES)]
struct NewConnectorArgs {
    /// The name of the connector: lower-case letters, digits and hyphens
    #[arg(value_name = "NAME")]
    name: String,
    /// Write the connector in this language
    #[arg(short, long, value_parser = langs(&CONNECTOR), default_value = "ts")]
    lang: ScaffoldLanguage,
    /// Create the connector in this directory, which must not exist yet [default: connectors/NAME]
    #[arg(short, long, value_name = "DIR")]
    path: Option<PathBuf>,
    /// Use the crate `goondan-abi` in this directory: a checkout of gdn, or the crate itself
    #[arg(long, value_name = "DIR")]
    sdk: Option<PathBuf>,
}

/// Returns a parser for the languages that the subject supports.
fn langs(subject: &ScaffoldKind) -> impl TypedValueParser<Value = ScaffoldLanguage> {
    let values: Vec<PossibleValue> = subject
        .langs()
        .filter_map(|lang| lang.to_possible_value())
        .collect();
    PossibleValuesParser::new(values).try_map(|name| ScaffoldLanguage::from_str(&name, false))
}

/// Creates the scaffold of a tool, an extension or a connector, or another resource.
pub(crate) fn run(args: &NewArgs, output: &CommandOutput) -> Result<(), CliError> {
    let (subject, name, lang, path, sdk) = match &args.what {
        NewCommand::Tool(NewToolArgs {
            name,
            lang,
            path,
            sdk,
        }) => (&TOOL, name, *lang, path, sdk),
        NewCommand::Extension(NewExtensionArgs {
            name,
            lang,
            path,
            sdk,
        }) => (&EXTENSION, name, *lang, path, sdk),
        NewCommand::Connector(NewConnectorArgs {
            name,
            lang,
            path,
            sdk,
        }) => (&CONNECTOR, name, *lang, path, sdk),
        NewCommand::Agent(args) => return resource::agent(args, output),
        NewCommand::Model(args) => return resource::model(args, output),
        NewCommand::Connection(args) => return resource::connection(args, output),
        NewCommand::Mcp(args) => return resource::mcp(args, output),
    };
    let request = ScaffoldRequest {
        subject,
        name,
        lang,
        path: path.as_deref(),
        sdk: sdk.as_deref(),
    };
    request.write_scaffold(output)
}

/// Arguments common to all subcommands.
struct ScaffoldRequest<'a> {
    subject: &'static ScaffoldKind,
    name: &'a str,
    lang: ScaffoldLanguage,
    path: Option<&'a Path>,
    sdk: Option<&'a Path>,
}

impl ScaffoldRequest<'_> {
    /// Writes the scaffold with a project to try it. Inside a project, also writes the resource.
    fn write_scaffold(&self, output: &CommandOutput) -> Result<(), CliError> {
        let ScaffoldRequest {
            subject,
            name,
            lang,
            path,
            ..
        } = self;
        self.check_name()?;
        // For a project in the current directory, paths get no prefix.
        let project = project_path::find_around(output)?
            .map(|root| root.strip_prefix(".").map(Path::to_owned).unwrap_or(root));
        let folder = path.map(Path::to_owned).unwrap_or_else(|| {
            let kind_folder = project
                .as_deref()
                .unwrap_or(Path::new(""))
                .join(subject.folder);
            kind_folder.join(name)
        });
        let sdk = self.dependency(&folder)?;
        let scaffold = ScaffoldPlan {
            subject,
            name,
            lang: *lang,
            sdk: &sdk,
        };
        let mut files = scaffold.files(&folder);
        let path_and_root = project.and_then(|root| Some((path_in_project(&root, &folder)?, root)));
        let is_in_project = path_and_root.is_some();
        let base = match (&path_and_root, path) {
            (Some((_, root)), _) => Path::new(".").join(root),
            (None, Some(folder)) => folder.to_path_buf(),
            (None, None) => PathBuf::from("."),
        };
        files.extend(path_and_root.map(|(folder, root)| scaffold.resource(&root, &folder)));
        refuse_existing_files(&folder, &files)?;
        files.iter().try_for_each(|file| write(&base, file))?;
        self.report(&folder, &files, is_in_project, output)
    }

    /// Fails if the name is invalid, or reserved for crates.
    fn check_name(&self) -> Result<(), CliError> {
        let ScaffoldRequest {
            subject:
                ScaffoldKind {
                    article,
                    name: what,
                    ..
                },
            name,
            lang,
            ..
        } = self;
        if !is_name(name) {
            return Err(CliError::usage(format!(
                "`{name}` is not a valid name for {article} {what}."
            ))
            .suggest(
                "Use lower-case letters, digits and hyphens, a letter first, at most 63 \
                    characters.",
            ));
        }
        if *lang == ScaffoldLanguage::Rust
            && RESERVED_CRATE_NAMES.split(' ').any(|word| word == *name)
        {
            return Err(CliError::usage(format!(
                "`{name}` can't be the name of a crate: the name is reserved in Rust."
            ))
            .suggest(format!("Choose another name, such as `my-{name}`.")));
        }
        Ok(())
    }

    /// Returns the SDK dependency of a crate; empty for other languages.
    fn dependency(&self, folder: &Path) -> Result<String, CliError> {
        match (self.lang, self.sdk) {
            (ScaffoldLanguage::Rust, sdk) => sdk::dependency(sdk, folder),
            (_, None) => Ok(String::new()),
            (_, Some(_)) => {
                let message = format!("`--sdk` only applies to {} in Rust.", self.subject.folder);
                Err(CliError::usage(message).suggest("Omit `--sdk`, or use `--lang rust`."))
            }
        }
    }

    /// Prints the created files and the commands to run next.
    fn report(
        &self,
        folder: &Path,
        files: &[ScaffoldFile],
        is_in_project: bool,
        output: &CommandOutput,
    ) -> Result<(), CliError> {
        let ScaffoldRequest {
            subject:
                ScaffoldKind {
                    name: kind_name,
                    input,
                    used_as,
                    folder: agent_field,
                    ..
                },
            name,
            lang,
            ..
        } = self;
        let shell_path = quoted(&folder.to_string_lossy());
        let case = quoted(&folder.join(format!("{name}.case.yaml")).to_string_lossy());
        let build = lang.is_built().then(|| format!("gdn build {shell_path}"));
        let try_command = match input {
            Some(input) => format!("gdn run {shell_path} --input {input}"),
            // The log lines of the server show the answers.
            None => format!("gdn serve -vv {shell_path}"),
        };
        let try_commands = [format!("gdn test {case}"), try_command];
        let next: Vec<String> = build.into_iter().chain(try_commands).collect();
        if output.json {
            let paths: Vec<_> = files
                .iter()
                .map(|file| file.path.to_string_lossy())
                .collect();
            return output.json_pretty(
                &json!({ "name": name, "path": folder.to_string_lossy(), "files": paths, "next": next }),
            );
        }
        let good = style::GOOD;
        output.line(&format!("{good}Created{good:#} the {kind_name} {name}:"))?;
        for file in files {
            output.line(&format!("  {}", untrusted_text::line(file.path.display())))?;
        }
        output.line(&format!("\nNext:\n  {}", next.join("\n  ")))?;
        if let Some(kind) = used_as.filter(|_| is_in_project) {
            output.line(&format!(
                "\nTo use it, add `- ref: {kind}/{name}` to an agent's `{agent_field}`."
            ))?;
        }
        if *lang == ScaffoldLanguage::Ts {
            warn_of_typescript(output)
        } else {
            Ok(())
        }
    }
}

/// Warns if this machine can't run TypeScript.
fn warn_of_typescript(output: &CommandOutput) -> Result<(), CliError> {
    typescript_problem().map_or(Ok(()), |problem| {
        output.note(&format!(
            "{problem}. Install Node.js 22.18 or newer, Bun or Deno to run the file, or use \
                JavaScript with `--lang js`."
        ))
    })
}

/// Returns `folder` relative to the project in `root`; `None` outside of the project.
fn path_in_project(root: &Path, folder: &Path) -> Option<String> {
    use std::path::Component;
    let absolute = |path: &Path| std::path::absolute(Path::new(".").join(path)).ok();
    let (root, folder) = (absolute(root)?, absolute(folder)?);
    let mut parts = Vec::new();
    for component in folder.strip_prefix(&root).ok()?.components() {
        match component {
            Component::Normal(part) => parts.push(part.to_str()?),
            _ => return None,
        }
    }
    (!parts.is_empty()).then(|| parts.join("/"))
}

/// Fails if the directory or one of the files already exists.
fn refuse_existing_files(folder: &Path, files: &[ScaffoldFile]) -> Result<(), CliError> {
    let mut paths = std::iter::once(folder).chain(files.iter().map(|file| file.path.as_path()));
    match paths.find(|path| path.symlink_metadata().is_ok()) {
        None => Ok(()),
        Some(path) => Err(
            CliError::configuration(format!("`{}` already exists.", path.display())).suggest(
                "Choose another name, or another directory with `--path`. Existing files are \
                    never overwritten.",
            ),
        ),
    }
}

/// Writes a new file below `base`, and creates its directory. The project may be a stranger's
/// repository, with links to directories elsewhere.
fn write(base: &Path, file: &ScaffoldFile) -> Result<(), CliError> {
    std::fs::create_dir_all(base)
        .and_then(|()| nofollow_fs::write_inside(base, &file.path, file.text.as_bytes(), true))
        .map_err(|error| {
            CliError::configuration(format!(
                "`{}` can't be written: {error}.",
                file.path.display(),
                error = reason(&error)
            ))
            .suggest("Choose a directory that you may write to.")
        })
}

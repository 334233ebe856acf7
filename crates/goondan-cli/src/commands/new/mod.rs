//! `gdn new`.

mod scaffold;
mod sdk;

use std::path::{Path, PathBuf};

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand, ValueEnum};
use goondan::inside::shown;
use serde_json::json;

use self::scaffold::{CONNECTOR, EXTENSION, File, Lang, Scaffold, Subject, TOOL};
use super::doctor::typescript_problem;
use super::init::{is_name, quoted};
use crate::exit::CliError;
use crate::output::{Output, style};
use crate::place;
use goondan::spec::reason;

const TOOL_EXAMPLES: &str = "\
Examples:
  gdn new tool word-count                  Create a crate in tools/word-count, and a Tool resource
  gdn new tool dice --lang c               Create a C library
  gdn new tool weather --lang ts           Create a file in TypeScript; also: js, python
  gdn new tool word-count --path libs/wc   Create it in another folder";

const EXTENSION_EXAMPLES: &str = "\
Examples:
  gdn new extension turn-count               Create a file in TypeScript in extensions/turn-count, and an Extension resource
  gdn new extension turn-count --lang js     Create it in JavaScript; also: rust, c, python
  gdn new extension turn-count --path lib/t  Create it in another folder";

const CONNECTOR_EXAMPLES: &str = "\
Examples:
  gdn new connector kitchen               Create a file in TypeScript in connectors/kitchen, and a Connector with a Connection
  gdn new connector kitchen --lang js     Create it in JavaScript; also: rust, python
  gdn new connector kitchen --path lib/k  Create it in another folder";

/// Words that the compiler keeps for itself, and crates that the new one depends on.
const TAKEN: &str = "as async await break const continue crate dyn else enum extern false fn for goondan-abi if impl in \
    let loop match mod move mut pub ref return schemars self serde serde-json static struct super test \
    trait true type use";

/// Arguments of `gdn new`.
#[derive(Debug, Args)]
pub(crate) struct NewArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Create a tool that runs at once, with a conformance case
    Tool(ToolArgs),
    /// Create an extension that runs at once, with a conformance case
    Extension(ExtensionArgs),
    /// Create a connector that runs at once, with a conformance case
    Connector(ConnectorArgs),
}

/// Arguments of `gdn new tool`.
#[derive(Debug, Args)]
#[command(after_help = TOOL_EXAMPLES)]
struct ToolArgs {
    /// The name of the tool: lower-case letters, digits and hyphens
    #[arg(value_name = "NAME")]
    name: String,
    /// Write the tool in this language
    #[arg(short, long, value_parser = langs(&TOOL), default_value = "rust")]
    lang: Lang,
    /// Create the tool in this folder, which must not exist yet [default: tools/NAME]
    #[arg(short, long, value_name = "DIR")]
    path: Option<PathBuf>,
    /// Take the crate `goondan-abi` from this checkout of gdn [default: the checkout that this gdn was built in, or else its repository]
    #[arg(long, value_name = "DIR")]
    sdk: Option<PathBuf>,
}

/// Arguments of `gdn new extension`.
#[derive(Debug, Args)]
#[command(after_help = EXTENSION_EXAMPLES)]
struct ExtensionArgs {
    /// The name of the extension: lower-case letters, digits and hyphens
    #[arg(value_name = "NAME")]
    name: String,
    /// Write the extension in this language
    #[arg(short, long, value_parser = langs(&EXTENSION), default_value = "ts")]
    lang: Lang,
    /// Create the extension in this folder, which must not exist yet [default: extensions/NAME]
    #[arg(short, long, value_name = "DIR")]
    path: Option<PathBuf>,
    /// Take the crate `goondan-abi` from this checkout of gdn, or from its own folder
    #[arg(long, value_name = "DIR")]
    sdk: Option<PathBuf>,
}

/// Arguments of `gdn new connector`.
#[derive(Debug, Args)]
#[command(after_help = CONNECTOR_EXAMPLES)]
struct ConnectorArgs {
    /// The name of the connector: lower-case letters, digits and hyphens
    #[arg(value_name = "NAME")]
    name: String,
    /// Write the connector in this language
    #[arg(short, long, value_parser = langs(&CONNECTOR), default_value = "ts")]
    lang: Lang,
    /// Create the connector in this folder, which must not exist yet [default: connectors/NAME]
    #[arg(short, long, value_name = "DIR")]
    path: Option<PathBuf>,
    /// Take the crate `goondan-abi` from this checkout of gdn, or from its own folder
    #[arg(long, value_name = "DIR")]
    sdk: Option<PathBuf>,
}

/// Reads the languages that a thing can be written in.
fn langs(subject: &Subject) -> impl TypedValueParser<Value = Lang> {
    let values: Vec<PossibleValue> = subject
        .langs()
        .filter_map(|lang| lang.to_possible_value())
        .collect();
    PossibleValuesParser::new(values).try_map(|name| Lang::from_str(&name, false))
}

/// Writes what was asked for.
pub(crate) fn run(args: &NewArgs, output: &Output) -> Result<(), CliError> {
    let (subject, name, lang, path, sdk) = match &args.what {
        What::Tool(ToolArgs {
            name,
            lang,
            path,
            sdk,
        }) => (&TOOL, name, *lang, path, sdk),
        What::Extension(ExtensionArgs {
            name,
            lang,
            path,
            sdk,
        }) => (&EXTENSION, name, *lang, path, sdk),
        What::Connector(ConnectorArgs {
            name,
            lang,
            path,
            sdk,
        }) => (&CONNECTOR, name, *lang, path, sdk),
    };
    let wish = Wish {
        subject,
        name,
        lang,
        path: path.as_deref(),
        sdk: sdk.as_deref(),
    };
    wish.grant(output)
}

/// What was asked for.
struct Wish<'a> {
    subject: &'static Subject,
    name: &'a str,
    lang: Lang,
    path: Option<&'a Path>,
    sdk: Option<&'a Path>,
}

impl Wish<'_> {
    /// Writes the thing with a project around it to try it, and its resource where there is a project already.
    fn grant(&self, output: &Output) -> Result<(), CliError> {
        let Wish {
            subject,
            name,
            lang,
            path,
            ..
        } = self;
        self.check_name()?;
        // Of a project in this very folder nothing is put before the paths.
        let project = place::around(output)?
            .map(|root| root.strip_prefix(".").map(Path::to_owned).unwrap_or(root));
        let folder = path.map(Path::to_owned).unwrap_or_else(|| {
            let things = project
                .as_deref()
                .unwrap_or(Path::new(""))
                .join(subject.folder);
            things.join(name)
        });
        let sdk = self.dependency(&folder)?;
        let scaffold = Scaffold {
            subject,
            name,
            lang: *lang,
            sdk: &sdk,
        };
        let mut files = scaffold.files(&folder);
        let around = project.and_then(|root| Some((inner(&root, &folder)?, root)));
        let is_in_project = around.is_some();
        files.extend(around.map(|(folder, root)| scaffold.resource(&root, &folder)));
        refuse_existing(&folder, &files)?;
        files.iter().try_for_each(write)?;
        self.report(&folder, &files, is_in_project, output)
    }

    fn check_name(&self) -> Result<(), CliError> {
        let Wish {
            subject:
                Subject {
                    article,
                    name: what,
                    ..
                },
            name,
            lang,
            ..
        } = self;
        if !is_name(name) {
            return Err(CliError::usage(format!("`{name}` can't be the name of {article} {what}."))
                .suggest("Use lower-case letters, digits and hyphens, a letter first, at most 63 characters."));
        }
        if *lang == Lang::Rust && TAKEN.split(' ').any(|word| word == *name) {
            return Err(CliError::usage(format!(
                "`{name}` can't be the name of a crate: it means something else in Rust."
            ))
            .suggest(format!("Choose another one, such as `my-{name}`.")));
        }
        Ok(())
    }

    /// What a crate depends on; nothing in other languages.
    fn dependency(&self, folder: &Path) -> Result<String, CliError> {
        match (self.lang, self.sdk) {
            (Lang::Rust, sdk) => sdk::dependency(sdk, folder),
            (_, None) => Ok(String::new()),
            (_, Some(_)) => {
                let message = format!(
                    "`--sdk` is for {} in Rust: others need none.",
                    self.subject.folder
                );
                Err(CliError::usage(message).suggest("Leave `--sdk` out, or use `--lang rust`."))
            }
        }
    }

    fn report(
        &self,
        folder: &Path,
        files: &[File],
        is_in_project: bool,
        output: &Output,
    ) -> Result<(), CliError> {
        let Wish {
            subject:
                Subject {
                    name: what,
                    input,
                    used_as,
                    folder: list,
                    ..
                },
            name,
            lang,
            ..
        } = self;
        let place = quoted(&folder.to_string_lossy());
        let case = quoted(&folder.join(format!("{name}.case.yaml")).to_string_lossy());
        let build = lang.is_built().then(|| format!("gdn build {place}"));
        let begin = match input {
            Some(input) => format!("gdn run {place} --input {input}"),
            // Its log lines say what was answered.
            None => format!("gdn serve -vv {place}"),
        };
        let run = [format!("gdn test {case}"), begin];
        let next: Vec<String> = build.into_iter().chain(run).collect();
        if output.json {
            let paths: Vec<&Path> = files.iter().map(|file| file.path.as_path()).collect();
            return output.json_pretty(
                &json!({ "name": name, "path": folder, "files": paths, "next": next }),
            );
        }
        let good = style::GOOD;
        output.line(&format!("{good}Created{good:#} the {what} {name}:"))?;
        for file in files {
            output.line(&format!("  {}", shown::line(file.path.display())))?;
        }
        output.line(&format!("\nNext:\n  {}", next.join("\n  ")))?;
        if let Some(kind) = used_as.filter(|_| is_in_project) {
            output.line(&format!(
                "\nAn agent of the project has it once its `{list}` list `- ref: {kind}/{name}`."
            ))?;
        }
        if *lang == Lang::Ts {
            warn_of_typescript(output)
        } else {
            Ok(())
        }
    }
}

/// Says so where nothing on this machine runs TypeScript.
fn warn_of_typescript(output: &Output) -> Result<(), CliError> {
    typescript_problem().map_or(Ok(()), |problem| {
        output.note(&format!(
            "{problem}. Install Node.js 22.18 or newer, Bun or Deno to run it, or write it in JavaScript with `--lang js`."
        ))
    })
}

/// `folder` in the words of the project in `root`; none where it lies elsewhere.
fn inner(root: &Path, folder: &Path) -> Option<String> {
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

fn refuse_existing(folder: &Path, files: &[File]) -> Result<(), CliError> {
    let mut taken = std::iter::once(folder).chain(files.iter().map(|file| file.path.as_path()));
    match taken.find(|path| path.symlink_metadata().is_ok()) {
        None => Ok(()),
        Some(path) => Err(CliError::configuration(format!("`{}` exists already.", path.display()))
            .suggest("Choose another name, or another folder with `--path`; nothing is ever overwritten.")),
    }
}

fn write(file: &File) -> Result<(), CliError> {
    let parent = file.path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(parent)
        .and_then(|()| std::fs::write(&file.path, &file.text))
        .map_err(|error| {
            CliError::configuration(format!(
                "`{}` can't be written: {error}.",
                file.path.display(),
                error = reason(&error)
            ))
            .suggest("Choose a folder that you may write to.")
        })
}

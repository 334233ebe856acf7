//! `gdn new`.

mod connector;
mod extension;
mod scaffold;
mod sdk;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use goondan::inside::shown;
use serde_json::json;

use self::scaffold::{File, Language, Module, Scaffold};
use super::doctor::typescript_problem;
use super::init::{is_name, quoted};
use crate::exit::CliError;
use crate::output::{Output, style};
use crate::place;

const EXAMPLES: &str = "\
Examples:
  gdn new tool word-count                  Create a crate in tools/word-count, and a Tool resource
  gdn new tool dice --lang c               Create a C library
  gdn new tool weather --lang ts           Create a file in TypeScript; also: js, python
  gdn new tool word-count --path libs/wc   Create it in another folder";

/// Words that the compiler keeps for itself, and crates that the new one depends on.
const TAKEN: [&str; 39] = [
    "as",
    "async",
    "await",
    "break",
    "const",
    "continue",
    "crate",
    "dyn",
    "else",
    "enum",
    "extern",
    "false",
    "fn",
    "for",
    "goondan-abi",
    "if",
    "impl",
    "in",
    "let",
    "loop",
    "match",
    "mod",
    "move",
    "mut",
    "pub",
    "ref",
    "return",
    "schemars",
    "self",
    "serde",
    "serde-json",
    "static",
    "struct",
    "super",
    "test",
    "trait",
    "true",
    "type",
    "use",
];

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
    Extension(extension::ExtensionArgs),
    /// Create a connector that runs at once, with a conformance case
    Connector(connector::ConnectorArgs),
}

/// Arguments of `gdn new tool`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
struct ToolArgs {
    /// The name of the tool: lower-case letters, digits and hyphens
    #[arg(value_name = "NAME")]
    name: String,
    /// Write the tool in this language
    #[arg(short, long, value_enum, default_value_t)]
    lang: Lang,
    /// Create the tool in this folder, which must not exist yet [default: tools/NAME]
    #[arg(short, long, value_name = "DIR")]
    path: Option<PathBuf>,
    /// Take the crate `goondan-abi` from this checkout of gdn [default: the checkout that this gdn was built in, or else its repository]
    #[arg(long, value_name = "DIR")]
    sdk: Option<PathBuf>,
}

/// What the tool is written in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Lang {
    /// A crate that uses the SDK
    #[default]
    Rust,
    /// One file and a header
    C,
    /// A file that Node.js, Bun or Deno runs
    Js,
    /// A file that Bun, Node.js or Deno runs
    Ts,
    /// A file that Python runs
    Python,
}

/// Writes what was asked for.
pub(crate) fn run(args: &NewArgs, output: &Output) -> Result<(), CliError> {
    match &args.what {
        What::Tool(args) => tool(args, output),
        What::Extension(args) => extension::run(args, output),
        What::Connector(args) => connector::run(args, output),
    }
}

fn tool(args: &ToolArgs, output: &Output) -> Result<(), CliError> {
    check_name(&args.name, args.lang)?;
    // Of a project in this very folder nothing is put before the paths.
    let project = place::around(output)?.map(|root| root.strip_prefix(".").map(Path::to_owned).unwrap_or(root));
    let folder = args.path.clone().unwrap_or_else(|| {
        let tools = project.as_deref().unwrap_or(Path::new("")).join("tools");
        tools.join(&args.name)
    });
    let language = match args.lang {
        lang if lang != Lang::Rust && args.sdk.is_some() => {
            let else_needed =
                if lang == Lang::C { "one in C needs nothing but its header" } else { "others need none" };
            return Err(CliError::usage(format!("`--sdk` is for tools in Rust: {else_needed}."))
                .suggest("Leave `--sdk` out, or use `--lang rust`."));
        }
        Lang::C => Language::C,
        Lang::Js => Language::Module(Module::JAVASCRIPT),
        Lang::Ts => Language::Module(Module::TYPESCRIPT),
        Lang::Python => Language::Module(Module::PYTHON),
        Lang::Rust => Language::Rust { sdk: sdk::dependency(args.sdk.as_deref(), &folder)? },
    };
    let around = project.and_then(|root| Some((inner(&root, &folder)?, root)));
    let scaffold = Scaffold { name: &args.name, language: &language };
    let mut files = scaffold.files(&folder);
    let used_by = around.is_some().then_some(("tools", "Tool"));
    files.extend(around.map(|(folder, root)| scaffold.resource(&root, &folder)));
    refuse_existing(&folder, &files)?;
    files.iter().try_for_each(write)?;
    let builds = matches!(args.lang, Lang::Rust | Lang::C);
    let input = Some("stressed");
    let made = Made { what: "tool", name: &args.name, folder: &folder, files: &files, builds, used_by, input };
    report(&made, output)
}

fn check_name(name: &str, lang: Lang) -> Result<(), CliError> {
    if !is_name(name) {
        return Err(CliError::usage(format!("`{name}` can't be the name of a tool."))
            .suggest("Use lower-case letters, digits and hyphens, a letter first, at most 63 characters."));
    }
    if lang == Lang::Rust && TAKEN.contains(&name) {
        return Err(CliError::usage(format!(
            "`{name}` can't be the name of a crate: it means something else in Rust."
        ))
        .suggest(format!("Choose another one, such as `my-{name}`.")));
    }
    Ok(())
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
    std::fs::create_dir_all(parent).and_then(|()| std::fs::write(&file.path, &file.text)).map_err(|error| {
        CliError::configuration(format!("`{}` can't be written: {error}.", file.path.display()))
            .suggest("Choose a folder that you may write to.")
    })
}

/// What was written.
struct Made<'a> {
    what: &'a str,
    name: &'a str,
    folder: &'a Path,
    files: &'a [File],
    /// It has to be built before it runs.
    builds: bool,
    /// The list in which agents of the project around it name it, and its kind; none outside of a project.
    used_by: Option<(&'a str, &'a str)>,
    /// What to try it with; what people type while it is served, without it.
    input: Option<&'a str>,
}

fn report(made: &Made<'_>, output: &Output) -> Result<(), CliError> {
    let Made { what, name, folder, files, builds, input, .. } = made;
    let place = quoted(&folder.to_string_lossy());
    let case = quoted(&folder.join(format!("{name}.case.yaml")).to_string_lossy());
    let build = builds.then(|| format!("gdn build {place}"));
    let begin = match input {
        Some(input) => format!("gdn run {place} --input {input}"),
        // Its log lines say what was answered.
        None => format!("gdn serve -vv {place}"),
    };
    let run = [format!("gdn test {case}"), begin];
    let next: Vec<String> = build.into_iter().chain(run).collect();
    if output.json {
        let paths: Vec<&Path> = files.iter().map(|file| file.path.as_path()).collect();
        return output.json_pretty(&json!({ "name": name, "path": folder, "files": paths, "next": next }));
    }
    let good = style::GOOD;
    output.line(&format!("{good}Created{good:#} the {what} {name}:"))?;
    for file in *files {
        output.line(&format!("  {}", shown::line(file.path.display())))?;
    }
    output.line(&format!("\nNext:\n  {}", next.join("\n  ")))?;
    if let Some((field, kind)) = made.used_by {
        output.line(&format!("\nAn agent of the project has it once its `{field}` list `- ref: {kind}/{name}`."))?;
    }
    warn_of_typescript(made.files, output)
}

/// Says so where nothing on this machine runs what was written in TypeScript.
fn warn_of_typescript(files: &[File], output: &Output) -> Result<(), CliError> {
    let is_typescript = files.iter().any(|file| file.path.extension().is_some_and(|extension| extension == "ts"));
    match is_typescript.then(typescript_problem).flatten() {
        None => Ok(()),
        Some(problem) => output.note(&format!(
            "{problem}. Install Node.js 22.18 or newer, Bun or Deno to run it, or write it in JavaScript with `--lang js`."
        )),
    }
}

//! `gdn new connector`. What it writes lies in `templates/connector/`.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use super::scaffold::{self, File};
use super::{Made, TAKEN, inner, is_name, refuse_existing, report, sdk, write};
use crate::exit::CliError;
use crate::output::Output;
use crate::place;

const PROJECT: &str = include_str!("../../../templates/connector/goondan.yaml");
const SCRIPT: &str = include_str!("../../../templates/connector/script.yaml");
const CASE: &str = include_str!("../../../templates/connector/case.yaml");
const RESOURCE: &str = include_str!("../../../templates/connector/resource.yaml");
const JAVASCRIPT: &str = include_str!("../../../templates/connector/connector.mjs");
const TYPESCRIPT: &str = include_str!("../../../templates/connector/connector.ts");
const PYTHON: &str = include_str!("../../../templates/connector/connector.py");
const RUST: &str = include_str!("../../../../goondan-abi/templates/connector.rs");

/// The longest name of a resource (rule L6).
const NAME_LIMIT: usize = 63;

const EXAMPLES: &str = "\
Examples:
  gdn new connector kitchen               Create a file in TypeScript in connectors/kitchen, and a Connector with a Connection
  gdn new connector kitchen --lang js     Create it in JavaScript; also: python, rust
  gdn new connector kitchen --path lib/k  Create it in another folder";

/// Arguments of `gdn new connector`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ConnectorArgs {
    /// The name of the connector: lower-case letters, digits and hyphens
    #[arg(value_name = "NAME")]
    name: String,
    /// Write the connector in this language
    #[arg(short, long, value_enum, default_value_t)]
    lang: ConnectorLang,
    /// Create the connector in this folder, which must not exist yet [default: connectors/NAME]
    #[arg(short, long, value_name = "DIR")]
    path: Option<PathBuf>,
    /// Take the crate `goondan-abi` from this checkout of gdn, or from its own folder
    #[arg(long, value_name = "DIR")]
    sdk: Option<PathBuf>,
}

/// What the connector is written in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum ConnectorLang {
    /// A file that Node.js, Bun or Deno runs
    Js,
    /// A file that Bun, Node.js or Deno runs
    #[default]
    Ts,
    /// A file that Python runs
    Python,
    /// A crate that uses the SDK
    Rust,
}

/// What is written of a connector besides the project around it.
struct Code {
    /// Files, with their texts.
    files: Vec<(&'static str, String)>,
    /// What the resource names.
    entry: String,
    /// The command that makes it; empty where there is nothing to make.
    build: &'static str,
    /// The line of its case that says without which program it is skipped.
    needs: &'static str,
}

impl ConnectorLang {
    fn code(self, name: &str, sdk: &str) -> Code {
        let module = |file: &'static str, text: &str, needs| Code {
            files: vec![(file, text.to_owned())],
            entry: file.to_owned(),
            build: "",
            needs,
        };
        match self {
            ConnectorLang::Js => module("connector.mjs", JAVASCRIPT, "needs: [node]\n"),
            ConnectorLang::Ts => module("connector.ts", TYPESCRIPT, ""),
            ConnectorLang::Python => module("connector.py", PYTHON, "needs: [python3]\n"),
            ConnectorLang::Rust => {
                let unused = ["schemars = \"1\"\n", "serde = { version = \"1\", features = [\"derive\"] }\n"];
                let cargo =
                    unused.iter().fold(scaffold::CARGO.replace("__SDK__", sdk), |cargo, line| cargo.replace(line, ""));
                Code {
                    files: vec![
                        ("Cargo.toml", cargo),
                        ("src/lib.rs", RUST.to_owned()),
                        (".gitignore", "/target\n".to_owned()),
                    ],
                    entry: format!("target/release/{name}"),
                    build: scaffold::RUST_BUILD,
                    needs: "",
                }
            }
        }
    }
}

/// What the crate depends on; nothing in other languages.
fn dependency(args: &ConnectorArgs, folder: &Path) -> Result<String, CliError> {
    match (args.lang, &args.sdk) {
        (ConnectorLang::Rust, _) if TAKEN.contains(&args.name.as_str()) => {
            let message = format!("`{}` can't be the name of a crate: it means something else in Rust.", args.name);
            Err(CliError::usage(message).suggest(format!("Choose another one, such as `my-{}`.", args.name)))
        }
        (ConnectorLang::Rust, sdk) => sdk::dependency(sdk.as_deref(), folder),
        (_, Some(_)) => Err(CliError::usage("`--sdk` is for connectors in Rust: others need none.")
            .suggest("Leave `--sdk` out, or use `--lang rust`.")),
        (_, None) => Ok(String::new()),
    }
}

/// Writes a connector with a project around it to try it, and its resources where there is a project already.
pub(super) fn run(args: &ConnectorArgs, output: &Output) -> Result<(), CliError> {
    if !is_name(&args.name) {
        return Err(CliError::usage(format!("`{}` can't be the name of a connector.", args.name))
            .suggest("Use lower-case letters, digits and hyphens, a letter first, at most 63 characters."));
    }
    // Of a project in this very folder nothing is put before the paths.
    let project = place::around(output)?.map(|root| root.strip_prefix(".").map(Path::to_owned).unwrap_or(root));
    let folder = args.path.clone().unwrap_or_else(|| {
        let connectors = project.as_deref().unwrap_or(Path::new("")).join("connectors");
        connectors.join(&args.name)
    });
    let code = args.lang.code(&args.name, &dependency(args, &folder)?);
    let filled = |template: &str| {
        let short: String = args.name.chars().take(NAME_LIMIT - "try-".len()).collect();
        let template = match code.build.is_empty() {
            true => template
                .replace("  build: __BUILD__\n", "")
                .replace("  build: {command: __BUILD__, cwd: __FOLDER__}\n", ""),
            false => template.replace("__BUILD__", code.build),
        };
        let template = template.replace("__NEEDS__", code.needs).replace("__ENTRY__", &code.entry);
        template.replace("__SHORT__", &short).replace("__NAME__", &args.name)
    };
    let case = format!("{}.case.yaml", args.name);
    let around = [("goondan.yaml", PROJECT), ("script.yaml", SCRIPT), (&*case, CASE)];
    let inside = code.files.iter().map(|(path, text)| (*path, text.as_str())).chain(around);
    let mut files: Vec<File> =
        inside.map(|(path, text)| File { path: folder.join(path), text: filled(text) }).collect();
    if let Some((inner, root)) = project.and_then(|root| Some((inner(&root, &folder)?, root))) {
        let path = root.join("connectors").join(format!("{}.yaml", args.name));
        files.push(File { path, text: filled(RESOURCE).replace("__FOLDER__", &inner) });
    }
    refuse_existing(&folder, &files)?;
    files.iter().try_for_each(write)?;
    let builds = !code.build.is_empty();
    let made = Made { what: "connector", name: &args.name, folder: &folder, files: &files, builds, input: None };
    report(&made, output)
}

//! `gdn new connector`. What it writes lies in `templates/connector/`.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use super::scaffold::File;
use super::{Made, inner, is_name, refuse_existing, report, write};
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

/// The longest name of a resource (rule L6).
const NAME_LIMIT: usize = 63;

const EXAMPLES: &str = "\
Examples:
  gdn new connector kitchen               Create a file in TypeScript in connectors/kitchen, and a Connector with a Connection
  gdn new connector kitchen --lang js     Create it in JavaScript; also: python
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
}

impl ConnectorLang {
    /// The file, its text, and the line of its case that says without which program it is skipped.
    fn code(self) -> (&'static str, &'static str, &'static str) {
        match self {
            ConnectorLang::Js => ("connector.mjs", JAVASCRIPT, "needs: [node]\n"),
            ConnectorLang::Ts => ("connector.ts", TYPESCRIPT, ""),
            ConnectorLang::Python => ("connector.py", PYTHON, "needs: [python3]\n"),
        }
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
    let (entry, code, needs) = args.lang.code();
    let filled = |template: &str| {
        let short: String = args.name.chars().take(NAME_LIMIT - "try-".len()).collect();
        let template = template.replace("__NEEDS__", needs).replace("__ENTRY__", entry);
        template.replace("__SHORT__", &short).replace("__NAME__", &args.name)
    };
    let case = format!("{}.case.yaml", args.name);
    let texts = [(entry, code), ("goondan.yaml", PROJECT), ("script.yaml", SCRIPT), (&*case, CASE)];
    let mut files: Vec<File> =
        texts.into_iter().map(|(path, text)| File { path: folder.join(path), text: filled(text) }).collect();
    if let Some((inner, root)) = project.and_then(|root| Some((inner(&root, &folder)?, root))) {
        let path = root.join("connectors").join(format!("{}.yaml", args.name));
        files.push(File { path, text: filled(RESOURCE).replace("__FOLDER__", &inner) });
    }
    refuse_existing(&folder, &files)?;
    files.iter().try_for_each(write)?;
    let (builds, used_by, input) = (false, None, None);
    let made = Made { what: "connector", name: &args.name, folder: &folder, files: &files, builds, used_by, input };
    report(&made, output)
}

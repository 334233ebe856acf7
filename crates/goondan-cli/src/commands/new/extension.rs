//! `gdn new extension`. What it writes lies in `templates/extension/`.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use super::scaffold::File;
use super::{Made, inner, is_name, refuse_existing, report, write};
use crate::exit::CliError;
use crate::output::Output;
use crate::place;

const PROJECT: &str = include_str!("../../../templates/extension/goondan.yaml");
const SCRIPT: &str = include_str!("../../../templates/extension/script.yaml");
const CASE: &str = include_str!("../../../templates/extension/case.yaml");
const RESOURCE: &str = include_str!("../../../templates/extension/resource.yaml");
const JAVASCRIPT: &str = include_str!("../../../templates/extension/extension.mjs");
const TYPESCRIPT: &str = include_str!("../../../templates/extension/extension.ts");
const PYTHON: &str = include_str!("../../../templates/extension/extension.py");

/// The longest name of a resource (rule L6).
const NAME_LIMIT: usize = 63;

const EXAMPLES: &str = "\
Examples:
  gdn new extension turn-count               Create a file in TypeScript in extensions/turn-count, and an Extension resource
  gdn new extension turn-count --lang js     Create it in JavaScript; also: python
  gdn new extension turn-count --path lib/t  Create it in another folder";

/// Arguments of `gdn new extension`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ExtensionArgs {
    /// The name of the extension: lower-case letters, digits and hyphens
    #[arg(value_name = "NAME")]
    name: String,
    /// Write the extension in this language
    #[arg(short, long, value_enum, default_value_t)]
    lang: ExtensionLang,
    /// Create the extension in this folder, which must not exist yet [default: extensions/NAME]
    #[arg(short, long, value_name = "DIR")]
    path: Option<PathBuf>,
}

/// What the extension is written in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum ExtensionLang {
    /// A file that Node.js, Bun or Deno runs
    Js,
    /// A file that Bun, Node.js or Deno runs
    #[default]
    Ts,
    /// A file that Python runs
    Python,
}

impl ExtensionLang {
    /// The file, its text, and the line of its case that says without which program it is skipped.
    fn file(self) -> (&'static str, &'static str, &'static str) {
        match self {
            ExtensionLang::Js => ("extension.mjs", JAVASCRIPT, "needs: [node]\n"),
            ExtensionLang::Ts => ("extension.ts", TYPESCRIPT, ""),
            ExtensionLang::Python => ("extension.py", PYTHON, "needs: [python3]\n"),
        }
    }
}

/// Writes an extension with a project around it to try it, and a resource where there is a project already.
pub(super) fn run(args: &ExtensionArgs, output: &Output) -> Result<(), CliError> {
    if !is_name(&args.name) {
        return Err(CliError::usage(format!("`{}` can't be the name of an extension.", args.name))
            .suggest("Use lower-case letters, digits and hyphens, a letter first, at most 63 characters."));
    }
    // Of a project in this very folder nothing is put before the paths.
    let project = place::around(output)?.map(|root| root.strip_prefix(".").map(Path::to_owned).unwrap_or(root));
    let folder = args.path.clone().unwrap_or_else(|| {
        let extensions = project.as_deref().unwrap_or(Path::new("")).join("extensions");
        extensions.join(&args.name)
    });
    let (file, text, needs) = args.lang.file();
    let filled = |template: &str| {
        let short: String = args.name.chars().take(NAME_LIMIT - "try-".len()).collect();
        let template = template.replace("__NEEDS__", needs).replace("__ENTRY__", file);
        template.replace("__SHORT__", &short).replace("__NAME__", &args.name)
    };
    let case = format!("{}.case.yaml", args.name);
    let inside = [
        (file, text.to_owned()),
        ("goondan.yaml", filled(PROJECT)),
        ("script.yaml", filled(SCRIPT)),
        (&case, filled(CASE)),
    ];
    let mut files: Vec<File> = inside.into_iter().map(|(path, text)| File { path: folder.join(path), text }).collect();
    if let Some((inner, root)) = project.and_then(|root| Some((inner(&root, &folder)?, root))) {
        let path = root.join("extensions").join(format!("{}.yaml", args.name));
        files.push(File { path, text: filled(RESOURCE).replace("__FOLDER__", &inner) });
    }
    refuse_existing(&folder, &files)?;
    files.iter().try_for_each(write)?;
    let made =
        Made { what: "extension", name: &args.name, folder: &folder, files: &files, builds: false, input: "hello" };
    report(&made, output)
}

//! `gdn new extension`. What it writes lies in `templates/extension/`.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use super::scaffold::{self, File};
use super::{Made, TAKEN, inner, is_name, refuse_existing, report, sdk, write};
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
const C: &str = include_str!("../../../templates/extension/extension.c");
const JSON: &str = include_str!("../../../../../examples/plugins/c-layers/json.h");
const RUST: &str = include_str!("../../../../goondan-abi/templates/extension.rs");

/// The longest name of a resource (rule L6).
const NAME_LIMIT: usize = 63;

const EXAMPLES: &str = "\
Examples:
  gdn new extension turn-count               Create a file in TypeScript in extensions/turn-count, and an Extension resource
  gdn new extension turn-count --lang js     Create it in JavaScript; also: rust, c, python
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
    /// Take the crate `goondan-abi` from this checkout of gdn, or from its own folder
    #[arg(long, value_name = "DIR")]
    sdk: Option<PathBuf>,
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
    /// A crate that uses the SDK
    Rust,
    /// One file and headers
    C,
}

/// What is written of an extension besides the project around it.
struct Code {
    /// Files, with their texts.
    files: Vec<(&'static str, String)>,
    /// What the resource names.
    entry: String,
    /// The command that makes it; empty where there is nothing to make.
    build: String,
    /// The line of its case that says without which program it is skipped.
    needs: &'static str,
}

impl ExtensionLang {
    fn code(self, name: &str, sdk: &str) -> Code {
        let module = |file: &'static str, text: &str, needs| Code {
            files: vec![(file, text.to_owned())],
            entry: file.to_owned(),
            build: String::new(),
            needs,
        };
        match self {
            ExtensionLang::Js => module("extension.mjs", JAVASCRIPT, "needs: [node]\n"),
            ExtensionLang::Ts => module("extension.ts", TYPESCRIPT, ""),
            ExtensionLang::Python => module("extension.py", PYTHON, "needs: [python3]\n"),
            ExtensionLang::Rust => Code {
                files: vec![
                    ("Cargo.toml", scaffold::CARGO.replace("__SDK__", sdk).replace("schemars = \"1\"\n", "")),
                    ("src/lib.rs", RUST.to_owned()),
                    (".gitignore", "/target\n".to_owned()),
                ],
                entry: format!("target/release/{name}"),
                build: scaffold::RUST_BUILD.to_owned(),
                needs: "",
            },
            ExtensionLang::C => Code {
                files: vec![
                    ("extension.c", C.to_owned()),
                    ("json.h", JSON.to_owned()),
                    ("goondan_plugin.h", scaffold::HEADER.to_owned()),
                    (".gitignore", scaffold::LIBRARIES.to_owned()),
                ],
                entry: name.to_owned(),
                build: scaffold::c_build("extension.c", name),
                needs: "",
            },
        }
    }
}

/// What the crate depends on; nothing in other languages.
fn dependency(args: &ExtensionArgs, folder: &Path) -> Result<String, CliError> {
    match (args.lang, &args.sdk) {
        (ExtensionLang::Rust, _) if TAKEN.contains(&args.name.as_str()) => {
            let message = format!("`{}` can't be the name of a crate: it means something else in Rust.", args.name);
            Err(CliError::usage(message).suggest(format!("Choose another one, such as `my-{}`.", args.name)))
        }
        (ExtensionLang::Rust, sdk) => sdk::dependency(sdk.as_deref(), folder),
        (_, Some(_)) => Err(CliError::usage("`--sdk` is for extensions in Rust: others need none.")
            .suggest("Leave `--sdk` out, or use `--lang rust`.")),
        (_, None) => Ok(String::new()),
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
    let code = args.lang.code(&args.name, &dependency(args, &folder)?);
    let filled = |template: &str| {
        let short: String = args.name.chars().take(NAME_LIMIT - "try-".len()).collect();
        let template = match code.build.is_empty() {
            true => template
                .replace("  build: __BUILD__\n", "")
                .replace("  build: {command: __BUILD__, cwd: __FOLDER__}\n", ""),
            false => template.replace("__BUILD__", &code.build),
        };
        let template = template.replace("__NEEDS__", code.needs).replace("__ENTRY__", &code.entry);
        template.replace("__SHORT__", &short).replace("__NAME__", &args.name)
    };
    let case = format!("{}.case.yaml", args.name);
    let around = [("goondan.yaml", PROJECT), ("script.yaml", SCRIPT), (&*case, CASE)];
    let inside = code.files.iter().map(|(path, text)| (*path, text.as_str())).chain(around);
    let mut files: Vec<File> =
        inside.map(|(path, text)| File { path: folder.join(path), text: filled(text) }).collect();
    let around = project.and_then(|root| Some((inner(&root, &folder)?, root)));
    let used_by = around.is_some().then_some(("extensions", "Extension"));
    if let Some((inner, root)) = around {
        let path = root.join("extensions").join(format!("{}.yaml", args.name));
        files.push(File { path, text: filled(RESOURCE).replace("__FOLDER__", &inner) });
    }
    refuse_existing(&folder, &files)?;
    files.iter().try_for_each(write)?;
    let builds = !code.build.is_empty();
    let input = Some("hello");
    let made = Made { what: "extension", name: &args.name, folder: &folder, files: &files, builds, used_by, input };
    report(&made, output)
}

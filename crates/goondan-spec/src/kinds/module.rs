//! Entries that are files in JavaScript, TypeScript or Python, which a runtime of the language runs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::decode::Field;
use crate::diagnostic::Code;
use crate::entry::below;
use crate::findings::Findings;
use crate::imports;
use crate::paths::Looks;
use crate::text::excerpt;

/// A file with handlers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Module {
    /// The file, relative to the bundle.
    pub path: String,
    /// What it is written in.
    pub language: Language,
    /// What runs it, where the resource, the file or its package says so.
    pub runtime: Option<Runtime>,
    /// The folder of the package that it belongs to, relative to the bundle: the nearest one above it with a manifest, else
    /// the bundle's own, which is empty.
    pub package: String,
    /// The file itself, and the files of the bundle that it imports by paths, with those that they import, relative to the
    /// bundle.
    pub files: Vec<String>,
}

/// What a module is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Language {
    /// Any flavour of JavaScript.
    JavaScript,
    /// TypeScript, whose types are stripped.
    TypeScript,
    /// Python 3.
    Python,
}

/// What runs a module.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Runtime {
    /// The program `node`, which is Node.js.
    Node,
    /// The program `bun`.
    Bun,
    /// The program `deno`.
    Deno,
    /// The program `python3`.
    Python,
}

/// Endings of file names, with what they say.
const ENDINGS: [(&str, Language); 7] = [
    (".ts", Language::TypeScript),
    (".mts", Language::TypeScript),
    (".cts", Language::TypeScript),
    (".js", Language::JavaScript),
    (".mjs", Language::JavaScript),
    (".cjs", Language::JavaScript),
    (".py", Language::Python),
];

/// The names of runtimes in YAML.
const NAMES: [(&str, Runtime); 4] = [
    ("node", Runtime::Node),
    ("bun", Runtime::Bun),
    ("deno", Runtime::Deno),
    ("python", Runtime::Python),
];

/// Files that make a folder a package.
const MANIFESTS: [&str; 4] = ["package.json", "deno.json", "deno.jsonc", "pyproject.toml"];

impl Language {
    /// The language of a file of that name.
    pub fn of(path: &str) -> Option<Language> {
        let lower = path.to_ascii_lowercase();
        ENDINGS
            .iter()
            .find(|(ending, _)| lower.ends_with(ending))
            .map(|(_, language)| *language)
    }

    /// What can run it, what comes first is taken first. The original runs on Bun, which takes all of TypeScript; Node.js
    /// takes what is left of it when its types are blanked out.
    pub fn runtimes(self) -> &'static [Runtime] {
        match self {
            Language::JavaScript => &[Runtime::Node, Runtime::Bun, Runtime::Deno],
            Language::TypeScript => &[Runtime::Bun, Runtime::Node, Runtime::Deno],
            Language::Python => &[Runtime::Python],
        }
    }
}

impl Runtime {
    /// What YAML calls it.
    pub fn name(self) -> &'static str {
        NAMES
            .iter()
            .find(|(_, runtime)| *runtime == self)
            .map_or("", |(name, _)| *name)
    }

    /// Reads `runtime` of a resource whose entry is a module, and lays it over what the module says of itself. Nothing else
    /// has a runtime.
    pub(crate) fn lay_over(
        field: Option<Field<'_>>,
        module: Option<&mut Module>,
        findings: &mut Findings,
    ) -> Option<()> {
        let Some(field) = field else { return Some(()) };
        let runtime = field.one_of(&NAMES, findings)?;
        let Some(module) = module else {
            let message = format!(
                "`{}` is for entries in JavaScript, TypeScript or Python.",
                field.path
            );
            findings.add(field.invalid(message).suggest("remove it"));
            return None;
        };
        if !module.language.runtimes().contains(&runtime) {
            let message = format!(
                "`{}` is `{}`, which does not run `{}`.",
                field.path,
                runtime.name(),
                module.path
            );
            let fit: Vec<&str> = module
                .language
                .runtimes()
                .iter()
                .map(|runtime| runtime.name())
                .collect();
            findings.add(
                field
                    .invalid(message)
                    .suggest(format!("use {}", fit.join(", "))),
            );
            return None;
        }
        module.runtime = Some(runtime);
        Some(())
    }

    /// The runtime that the first line of a script names.
    fn of_first_line(text: &str) -> Option<Runtime> {
        let line = text
            .trim_start_matches('\u{feff}')
            .strip_prefix("#!")?
            .lines()
            .next()?;
        let mut words = line
            .split_ascii_whitespace()
            .map(|word| word.rsplit('/').next().unwrap_or(word));
        let name =
            words.find(|word| *word != "env" && !word.starts_with('-') && !word.contains('='))?;
        let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
        NAMES
            .iter()
            .find(|(name, _)| *name == plain)
            .map(|(_, runtime)| *runtime)
    }
}

impl Module {
    /// The module at `path`, or why it can't be one.
    pub(crate) fn find(
        field: &Field<'_>,
        path: &str,
        language: Language,
        folder: &Looks<'_>,
        findings: &mut Findings,
    ) -> Option<Module> {
        let Some(path) = candidates(path)
            .into_iter()
            .find(|candidate| folder.is_file(candidate))
        else {
            let shown = excerpt(path, 200);
            let message = match folder.is_folder(path) {
                true => format!(
                    "`{}` is `{shown}`, which is a folder, and not a file.",
                    field.path
                ),
                false => format!("`{}` is `{shown}`, but there is no such file.", field.path),
            };
            let suggestion = match findings.is_buildable() {
                true => {
                    "run `gdn build`, or correct the path; it starts from the folder of goondan.yaml"
                }
                false => {
                    "create it, or correct the path; it starts from the folder of goondan.yaml"
                }
            };
            findings.add_not_built(
                field
                    .problem(Code::ENTRY_NOT_FOUND, message)
                    .suggest(suggestion),
            );
            return None;
        };
        if folder.leaves_by_link(&path) {
            let message = format!(
                "`{}` leads to `{path}`, a link to a file outside the bundle.",
                field.path
            );
            findings.add(
                field
                    .problem(Code::PATH_ESCAPE, message)
                    .suggest("copy the file into the bundle"),
            );
            return None;
        }
        let package = package_of(&path, folder);
        let language = Language::of(&path).unwrap_or(language);
        let text = folder.read(&path).unwrap_or_default();
        let stated =
            Runtime::of_first_line(&text).filter(|runtime| language.runtimes().contains(runtime));
        let runtime = stated.or_else(|| of_package(&package, language, folder));
        let files = folder.module_files(&path, || {
            let manifests = MANIFESTS
                .iter()
                .map(|name| below(&package, name))
                .filter(|name| folder.is_file(name));
            let followed = imports::followed(&path, &package, language, folder);
            followed.into_iter().chain(manifests).collect()
        });
        files
            .iter()
            .for_each(|file| findings.depends_on(file.clone()));
        Some(Module {
            path,
            language,
            runtime,
            package,
            files,
        })
    }
}

/// Where the file of an entry may be: what a build made of a TypeScript file comes before the file itself.
fn candidates(path: &str) -> Vec<String> {
    let built = [(".ts", ".js"), (".mts", ".mjs"), (".cts", ".cjs")];
    let stem = built
        .iter()
        .find_map(|(source, made)| Some(format!("{}{made}", path.strip_suffix(source)?)));
    let Some(sibling) = stem else {
        return vec![path.to_owned()];
    };
    let in_dist = sibling.starts_with("src/").then(|| below("dist", &sibling));
    in_dist
        .into_iter()
        .chain([sibling, path.to_owned()])
        .collect()
}

/// The nearest folder above `path` that has a manifest; the bundle's own where none has.
fn package_of(path: &str, folder: &Looks<'_>) -> String {
    let mut at = path;
    while let Some((above, _)) = at.rsplit_once('/') {
        let is_top = folder.is_installed() && above == folder.base();
        if is_top
            || MANIFESTS
                .iter()
                .any(|name| folder.is_file(&below(above, name)))
        {
            return above.to_owned();
        }
        at = above;
    }
    String::new()
}

/// The runtime that a package is made for, where its manifest says so.
fn of_package(package: &str, language: Language, folder: &Looks<'_>) -> Option<Runtime> {
    if language == Language::Python {
        return None;
    }
    if ["deno.json", "deno.jsonc"]
        .iter()
        .any(|name| folder.is_file(&below(package, name)))
    {
        return Some(Runtime::Deno);
    }
    if !folder.is_file(&below(package, "package.json")) {
        return None;
    }
    let manifest: serde_json::Value =
        serde_json::from_str(&folder.read(&below(package, "package.json")).ok()?).ok()?;
    let manager = manifest
        .get("packageManager")
        .and_then(serde_json::Value::as_str)?;
    manager.starts_with("bun@").then_some(Runtime::Bun)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_built_comes_first() {
        assert_eq!(
            candidates("src/a.ts"),
            ["dist/src/a.js", "src/a.js", "src/a.ts"]
        );
        assert_eq!(candidates("tools/a.mts"), ["tools/a.mjs", "tools/a.mts"]);
        assert_eq!(candidates("tools/a.py"), ["tools/a.py"]);
    }

    #[test]
    fn the_first_line_may_name_a_runtime() {
        let named = |text: &str| Runtime::of_first_line(text);
        assert_eq!(named("#!/usr/bin/env bun\n"), Some(Runtime::Bun));
        assert_eq!(named("#!/usr/bin/env -S deno run\n"), Some(Runtime::Deno));
        assert_eq!(named("#!/usr/bin/python3.12\n"), Some(Runtime::Python));
        assert_eq!(named("#!/bin/sh\n"), None);
        assert_eq!(named("// #!/usr/bin/env bun\n"), None);
    }
}

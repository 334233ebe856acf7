//! Handler files in JavaScript, TypeScript or Python, which a language runtime runs.

use std::collections::BTreeSet;

use super::script_language::{RUNTIME_NAMES, ScriptLanguage, ScriptRuntime};
use crate::computed_imports::{ComputedPlace, ModuleFiles};
use crate::decode::FieldReader;
use crate::diagnostic::{Code, Diagnostic};
use crate::diagnostic_sink::DiagnosticSink;
use crate::imports;
use crate::paths::PathLookups;
use crate::relative_paths::join_relative;
use crate::text::excerpt;

/// File with handlers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptModule {
    /// File, relative to the bundle.
    pub path: String,
    /// Language of the file.
    pub language: ScriptLanguage,
    /// Runtime stated by the resource, the file or its package.
    pub runtime: Option<ScriptRuntime>,
    /// Package directory, relative to the bundle. It is the nearest parent directory with a
    /// manifest, or empty for the bundle itself.
    pub package: String,
    /// The file, the bundle files that it imports by path (transitively), and the manifests of its
    /// package. All paths are relative to the bundle.
    pub files: Vec<String>,
    /// Possible files of the entry, such as the build output of a TypeScript file. They may not
    /// exist. The first one that exists is the entry.
    pub candidates: Vec<String>,
    /// Directories with the modules that the files import by a path that they compute, relative to
    /// the bundle. Empty names stand for the bundle itself.
    pub computed: Vec<String>,
}

/// Files that make a directory a package.
const PACKAGE_MANIFESTS: [&str; 4] = ["package.json", "deno.json", "deno.jsonc", "pyproject.toml"];

impl ScriptRuntime {
    /// Reads `runtime` of a resource and applies it to the module. Reports an error if the entry is
    /// not a module, or if the runtime does not support its language.
    pub(crate) fn apply_field(
        field: Option<FieldReader<'_>>,
        module: Option<&mut ScriptModule>,
        findings: &mut DiagnosticSink,
    ) -> Option<()> {
        let Some(field) = field else { return Some(()) };
        let runtime = field.one_of(&RUNTIME_NAMES, findings)?;
        let Some(module) = module else {
            let message = format!(
                "`{}` is for entries in JavaScript, TypeScript or Python.",
                field.path
            );
            findings.add(field.invalid_value(message).suggest("remove it"));
            return None;
        };
        if !module.language.runtimes().contains(&runtime) {
            let message = format!(
                "`{}` selects the runtime `{}`, which cannot run the file `{}`.",
                field.path,
                runtime.name(),
                module.path
            );
            let supported: Vec<&str> = module
                .language
                .runtimes()
                .iter()
                .map(|runtime| runtime.name())
                .collect();
            findings.add(
                field
                    .invalid_value(message)
                    .suggest(format!("use {}", supported.join(", "))),
            );
            return None;
        }
        module.runtime = Some(runtime);
        Some(())
    }
}

impl ScriptModule {
    /// Locates the module at `path` and the files that it imports. Reports an error if there is no
    /// such file.
    pub(crate) fn find(
        field: &FieldReader<'_>,
        path: &str,
        language: ScriptLanguage,
        lookups: &PathLookups<'_>,
        findings: &mut DiagnosticSink,
    ) -> Option<ScriptModule> {
        let candidates = entry_candidates(path);
        let existing = candidates.iter().find(|path| lookups.is_file(path));
        let Some(path) = existing.cloned() else {
            let path_excerpt = excerpt(path, 200);
            let message = if lookups.is_folder(path) {
                format!(
                    "`{}` is `{path_excerpt}`, which is a directory, not a file.",
                    field.path
                )
            } else {
                format!(
                    "`{}` is `{path_excerpt}`, but there is no such file.",
                    field.path
                )
            };
            let suggestion = if findings.is_buildable() {
                "run `gdn build`, or correct the path; it is relative to the directory of \
                    goondan.yaml"
            } else {
                "create it, or correct the path; it is relative to the directory of \
                    goondan.yaml"
            };
            findings.add_not_built(
                field
                    .diagnostic(Code::ENTRY_NOT_FOUND, message)
                    .suggest(suggestion),
            );
            return None;
        };
        if lookups.leaves_by_link(&path) {
            let message = format!(
                "`{}` leads to `{path}`, a link to a file outside the bundle.",
                field.path
            );
            findings.add(
                field
                    .diagnostic(Code::PATH_ESCAPE, message)
                    .suggest("copy the file into the bundle"),
            );
            return None;
        }
        let package = package_directory(&path, lookups);
        let language = ScriptLanguage::of(&path).unwrap_or(language);
        let text = lookups.read(&path).unwrap_or_default();
        let stated_runtime = ScriptRuntime::from_shebang(&text)
            .filter(|runtime| language.runtimes().contains(runtime));
        let runtime = stated_runtime.or_else(|| runtime_of_package(&package, language, lookups));
        let ModuleFiles { files, computed } = lookups.module_files(&path, || {
            let manifests = PACKAGE_MANIFESTS
                .iter()
                .map(|name| join_relative(&package, name))
                .filter(|name| lookups.is_file(name));
            let mut found = imports::followed_imports(&path, &package, language, lookups);
            found.files.extend(manifests);
            found
        });
        if !lookups.is_installed() {
            for warning in computed_import_warnings(field, &computed) {
                findings.add(warning);
            }
        }
        let computed = computed.into_iter().map(|place| place.directory);
        let computed: BTreeSet<String> = computed
            .map(|directory| directory.unwrap_or_else(|| package.clone()))
            .collect();
        for file in &files {
            findings.depends_on(file.clone());
        }
        Some(ScriptModule {
            path,
            language,
            runtime,
            package,
            files,
            candidates,
            computed: computed.into_iter().collect(),
        })
    }
}

/// Returns a warning for each file of a module that computes paths of imports.
fn computed_import_warnings(
    field: &FieldReader<'_>,
    computed: &[ComputedPlace],
) -> Vec<Diagnostic> {
    let mut files = BTreeSet::new();
    let first_of_file = computed.iter().filter(|place| files.insert(&place.file));
    first_of_file
        .map(|place| {
            let (file, line) = (&place.file, place.line);
            let scope = match &place.directory {
                Some(directory) => format!("in `{directory}`"),
                None => "of the project".to_owned(),
            };
            let message = format!(
                "`{file}:{line}` imports a module by a path that it computes, so any code {scope} \
                can run as a part of it."
            );
            field
                .diagnostic(Code::COMPUTED_IMPORT, message)
                .suggest("write the path of the module as a string")
        })
        .collect()
}

/// Returns the possible files of an entry. The build output of a TypeScript file comes before the
/// source.
fn entry_candidates(path: &str) -> Vec<String> {
    let built = [(".ts", ".js"), (".mts", ".mjs"), (".cts", ".cjs")];
    let stem = built
        .iter()
        .find_map(|(source, made)| Some(format!("{}{made}", path.strip_suffix(source)?)));
    let Some(sibling) = stem else {
        return vec![path.to_owned()];
    };
    let dist_path = sibling
        .starts_with("src/")
        .then(|| join_relative("dist", &sibling));
    dist_path
        .into_iter()
        .chain([sibling, path.to_owned()])
        .collect()
}

/// Returns the nearest parent directory of `path` with a manifest, or an empty path for the bundle.
fn package_directory(path: &str, lookups: &PathLookups<'_>) -> String {
    let mut directory = path;
    while let Some((above, _)) = directory.rsplit_once('/') {
        let is_top = lookups.is_installed() && above == lookups.package_directory();
        if is_top
            || PACKAGE_MANIFESTS
                .iter()
                .any(|name| lookups.is_file(&join_relative(above, name)))
        {
            return above.to_owned();
        }
        directory = above;
    }
    String::new()
}

/// Returns the runtime that the manifest of a package states.
fn runtime_of_package(
    package: &str,
    language: ScriptLanguage,
    lookups: &PathLookups<'_>,
) -> Option<ScriptRuntime> {
    if language == ScriptLanguage::Python {
        return None;
    }
    if ["deno.json", "deno.jsonc"]
        .iter()
        .any(|name| lookups.is_file(&join_relative(package, name)))
    {
        return Some(ScriptRuntime::Deno);
    }
    if !lookups.is_file(&join_relative(package, "package.json")) {
        return None;
    }
    let manifest: serde_json::Value =
        serde_json::from_str(&lookups.read(&join_relative(package, "package.json")).ok()?).ok()?;
    let manager = manifest
        .get("packageManager")
        .and_then(serde_json::Value::as_str)?;
    manager.starts_with("bun@").then_some(ScriptRuntime::Bun)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_files_are_the_first_entry_candidates() {
        assert_eq!(
            entry_candidates("src/a.ts"),
            ["dist/src/a.js", "src/a.js", "src/a.ts"]
        );
        assert_eq!(
            entry_candidates("tools/a.mts"),
            ["tools/a.mjs", "tools/a.mts"]
        );
        assert_eq!(entry_candidates("tools/a.py"), ["tools/a.py"]);
    }

    #[test]
    fn the_shebang_line_selects_the_runtime() {
        let named = |text: &str| ScriptRuntime::from_shebang(text);
        assert_eq!(named("#!/usr/bin/env bun\n"), Some(ScriptRuntime::Bun));
        assert_eq!(
            named("#!/usr/bin/env -S deno run\n"),
            Some(ScriptRuntime::Deno)
        );
        assert_eq!(
            named("#!/usr/bin/python3.12\n"),
            Some(ScriptRuntime::Python)
        );
        assert_eq!(named("#!/bin/sh\n"), None);
        assert_eq!(named("// #!/usr/bin/env bun\n"), None);
    }
}

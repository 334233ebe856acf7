//! Finds the files that a module imports by path.
//!
//! The result determines which files are watched and covered by an approval, not what runs. So the
//! scan is approximate. In JavaScript and TypeScript, it follows every quoted string that begins
//! with `./` or `../` and names an existing file. In Python, it follows `import`, `from` and calls such
//! as `import_module("x")`. For a path that is computed at run time, it finds the directory.

use std::collections::BTreeSet;

use crate::computed_imports::{ComputedPlace, ModuleFiles, called_imports, computed_imports};
use crate::kinds::ScriptLanguage;
use crate::paths::{PathLookups, normalize_path};
use crate::relative_paths::join_relative;

/// Maximum number of files that are followed from one entry.
const MAX_FOLLOWED_FILES: usize = 1_000;

/// Maximum length of an import path, in bytes.
const MAX_IMPORT_PATH_BYTES: usize = 300;

/// Suffixes that an import may omit, or that replace the written one.
const JAVASCRIPT_SUFFIXES: [&str; 12] = [
    "",
    ".ts",
    ".mts",
    ".tsx",
    ".js",
    ".mjs",
    ".cjs",
    ".jsx",
    ".json",
    "/index.ts",
    "/index.js",
    "/index.mjs",
];

/// Returns `entry` and its direct and indirect imports.
pub(crate) fn followed_imports(
    entry: &str,
    package: &str,
    language: ScriptLanguage,
    lookups: &PathLookups<'_>,
) -> ModuleFiles {
    let mut files = vec![entry.to_owned()];
    let mut computed = Vec::new();
    let mut known_files = BTreeSet::from([entry.to_owned()]);
    let mut next = 0;
    while let Some(file) = files.get(next).cloned() {
        next += 1;
        let Ok(text) = lookups.read(&file) else {
            continue;
        };
        let directory = file.rsplit_once('/').map_or("", |(folder, _)| folder);
        computed.extend(computed_imports(&text, language).into_iter().map(|import| {
            let path = import
                .directory
                .map(|path| normalize_path(&join_relative(directory, &path)));
            ComputedPlace {
                file: file.clone(),
                line: import.line,
                directory: path.and_then(Result::ok),
            }
        }));
        let imported = match language {
            ScriptLanguage::Python => python_imports(&text, directory, package),
            ScriptLanguage::JavaScript | ScriptLanguage::TypeScript => {
                javascript_imports(&text, directory)
            }
        };
        for candidates in imported {
            let found = candidates
                .into_iter()
                .find(|path| lookups.is_file(path) && !lookups.leaves_by_link(path));
            if let Some(path) = found
                .filter(|path| files.len() < MAX_FOLLOWED_FILES && known_files.insert(path.clone()))
            {
                files.push(path);
            }
        }
    }
    ModuleFiles { files, computed }
}

/// Returns the candidate files of each quoted path.
fn javascript_imports(text: &str, directory: &str) -> Vec<Vec<String>> {
    let mut imports = Vec::new();
    for (at, quote) in text.match_indices(['"', '\'', '`']) {
        let rest = &text[at + quote.len()..];
        if !rest.starts_with("./") && !rest.starts_with("../") {
            continue;
        }
        let end = rest.find(['"', '\'', '`', '\n']).unwrap_or(rest.len());
        if end > MAX_IMPORT_PATH_BYTES {
            continue;
        }
        let Ok(path) = normalize_path(&join_relative(directory, &rest[..end])) else {
            continue;
        };
        let mut candidates: Vec<String> = JAVASCRIPT_SUFFIXES
            .iter()
            .map(|ending| format!("{path}{ending}"))
            .collect();
        // TypeScript imports name the compiled file.
        for (compiled, source) in [(".js", ".ts"), (".mjs", ".mts"), (".cjs", ".cts")] {
            candidates.extend(
                path.strip_suffix(compiled)
                    .map(|stem| format!("{stem}{source}")),
            );
        }
        imports.push(candidates);
    }
    imports
}

/// Returns the candidate files of each imported module.
fn python_imports(text: &str, directory: &str, package: &str) -> Vec<Vec<String>> {
    let mut imports = Vec::new();
    for line in text.lines().map(str::trim_start) {
        if let Some(rest) = line.strip_prefix("from ") {
            let (module, names) = rest.split_once(" import ").unwrap_or((rest, ""));
            imports.push(python_files(module.trim(), directory, package));
            let names = names
                .split(['(', ')', ','])
                .filter_map(|name| name.split_ascii_whitespace().next());
            for name in names {
                let dot = if module.trim().ends_with('.') {
                    ""
                } else {
                    "."
                };
                imports.push(python_files(
                    &format!("{}{dot}{name}", module.trim()),
                    directory,
                    package,
                ));
            }
        } else if let Some(rest) = line.strip_prefix("import ") {
            let modules = rest
                .split(',')
                .filter_map(|module| module.split_ascii_whitespace().next());
            imports.extend(modules.map(|module| python_files(module, directory, package)));
        }
    }
    for module in called_imports(text, ScriptLanguage::Python).literal {
        imports.push(if module.ends_with(".py") {
            [directory, package]
                .iter()
                .filter_map(|folder| normalize_path(&join_relative(folder, &module)).ok())
                .collect()
        } else {
            python_files(&module, directory, package)
        });
    }
    imports
}

/// Returns the files that a Python import may load. `directory` is the directory of the importing
/// file, `package` that of the entry file; leading dots select parent directories.
fn python_files(module: &str, directory: &str, package: &str) -> Vec<String> {
    let dots = module.len() - module.trim_start_matches('.').len();
    let path = module[dots..].replace('.', "/");
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '/');
    if path.is_empty() || path.len() > MAX_IMPORT_PATH_BYTES || !path.chars().all(is_name) {
        return Vec::new();
    }
    let folders = match dots {
        0 => vec![directory.to_owned(), package.to_owned()],
        dots => vec![join_relative(directory, &"../".repeat(dots - 1))],
    };
    let module_files = |folder: &String| {
        let base = normalize_path(&join_relative(folder, &path)).ok()?;
        Some([format!("{base}.py"), format!("{base}/__init__.py")])
    };
    folders.iter().filter_map(module_files).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_javascript_paths_are_imports() {
        let text = "import a from './a.js';\nexport * from \"../b\"; import('./c.json'); import x \
            from 'fs'; `./${d}`";
        let found = javascript_imports(text, "tools/x");
        assert_eq!(found.len(), 4);
        assert!(
            found[0].contains(&"tools/x/a.js".to_owned())
                && found[0].contains(&"tools/x/a.ts".to_owned())
        );
        assert!(
            found[1].contains(&"tools/b.ts".to_owned())
                && found[1].contains(&"tools/b/index.ts".to_owned())
        );
        assert!(javascript_imports("'../../x'", "tools").is_empty());
    }

    #[test]
    fn python_imports_resolve_to_module_files() {
        let text = "import os, util.text as t\nfrom . import one, two\nfrom ..up import (x)\nfrom \
            lib import y\n";
        let found: Vec<String> = python_imports(text, "p/tools", "p")
            .into_iter()
            .flatten()
            .collect();
        for file in [
            "p/tools/util/text.py",
            "p/util/text.py",
            "p/tools/one.py",
            "p/tools/two.py",
            "p/up.py",
            "p/up/x.py",
            "p/lib/y.py",
        ] {
            assert!(found.contains(&file.to_owned()), "{file} in {found:?}");
        }
        assert!(
            python_imports("from ....x import y", "p", "")
                .into_iter()
                .flatten()
                .next()
                .is_none()
        );
    }
}

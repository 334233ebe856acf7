//! Finds the files that a module imports by path.
//!
//! The result determines which files are watched and covered by an approval, not what runs. So the
//! scan is approximate. In JavaScript and TypeScript, it follows every quoted string that begins
//! with `./` or `../` and names an existing file. In Python, it follows `import` and `from`. A path
//! computed at run time is not found.

use std::collections::BTreeSet;

use crate::entry::below;
use crate::kinds::ScriptLanguage;
use crate::paths::{PathLookups, normal};

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

/// Returns `entry` and its direct and indirect imports, in the order of discovery.
pub(crate) fn followed_imports(
    entry: &str,
    package: &str,
    language: ScriptLanguage,
    folder: &PathLookups<'_>,
) -> Vec<String> {
    let mut files = vec![entry.to_owned()];
    let mut known = BTreeSet::from([entry.to_owned()]);
    let mut next = 0;
    while let Some(file) = files.get(next).cloned() {
        next += 1;
        let Ok(text) = folder.read(&file) else {
            continue;
        };
        let directory = file.rsplit_once('/').map_or("", |(folder, _)| folder);
        let imported = match language {
            ScriptLanguage::Python => python(&text, directory, package),
            ScriptLanguage::JavaScript | ScriptLanguage::TypeScript => javascript(&text, directory),
        };
        for candidates in imported {
            let found = candidates
                .into_iter()
                .find(|path| folder.is_file(path) && !folder.leaves_by_link(path));
            if let Some(path) =
                found.filter(|path| files.len() < MAX_FOLLOWED_FILES && known.insert(path.clone()))
            {
                files.push(path);
            }
        }
    }
    files
}

/// Returns the candidate files of each quoted path.
fn javascript(text: &str, directory: &str) -> Vec<Vec<String>> {
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
        let Ok(path) = normal(&below(directory, &rest[..end])) else {
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
fn python(text: &str, directory: &str, package: &str) -> Vec<Vec<String>> {
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
        dots => vec![below(directory, &"../".repeat(dots - 1))],
    };
    let of = |folder: &String| {
        let base = normal(&below(folder, &path)).ok()?;
        Some([format!("{base}.py"), format!("{base}/__init__.py")])
    };
    folders.iter().filter_map(of).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_in_quotes_are_imports() {
        let text = "import a from './a.js';\nexport * from \"../b\"; import('./c.json'); import x \
            from 'fs'; `./${d}`";
        let found = javascript(text, "tools/x");
        assert_eq!(found.len(), 4);
        assert!(
            found[0].contains(&"tools/x/a.js".to_owned())
                && found[0].contains(&"tools/x/a.ts".to_owned())
        );
        assert!(
            found[1].contains(&"tools/b.ts".to_owned())
                && found[1].contains(&"tools/b/index.ts".to_owned())
        );
        assert!(javascript("'../../x'", "tools").is_empty());
    }

    #[test]
    fn python_names_modules() {
        let text = "import os, util.text as t\nfrom . import one, two\nfrom ..up import (x)\nfrom \
            lib import y\n";
        let found: Vec<String> = python(text, "p/tools", "p").into_iter().flatten().collect();
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
            python("from ....x import y", "p", "")
                .into_iter()
                .flatten()
                .next()
                .is_none()
        );
    }
}

//! Which files of the bundle a module is made of, as far as its text tells: the imports that name paths.
//!
//! This decides what is watched and what an approval is about, not what runs. So it reads no grammar: in JavaScript and
//! TypeScript whatever stands in quotes and begins with `./` or `../` is followed where a file is there, in Python what
//! follows `import` and `from`. A path that is put together at run time is not seen.

use std::collections::BTreeSet;

use crate::entry::below;
use crate::kinds::Language;
use crate::paths::{Looks, normal};

/// How many files are followed from one entry.
const MOST_FILES: usize = 1_000;

/// The longest path that is believed.
const LONGEST_PATH: usize = 300;

/// What may be left out at the end of an import, or stand for something else.
const JAVASCRIPT_ENDINGS: [&str; 12] = [
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

/// `entry`, and what it imports directly or not; in the order in which they are found.
pub(crate) fn followed(
    entry: &str,
    package: &str,
    language: Language,
    folder: &Looks<'_>,
) -> Vec<String> {
    let mut files = vec![entry.to_owned()];
    let mut known = BTreeSet::from([entry.to_owned()]);
    let mut next = 0;
    while let Some(file) = files.get(next).cloned() {
        next += 1;
        let Ok(text) = folder.read(&file) else {
            continue;
        };
        let here = file.rsplit_once('/').map_or("", |(folder, _)| folder);
        let imported = match language {
            Language::Python => python(&text, here, package),
            Language::JavaScript | Language::TypeScript => javascript(&text, here),
        };
        for candidates in imported {
            let found = candidates
                .into_iter()
                .find(|path| folder.is_file(path) && !folder.leaves_by_link(path));
            if let Some(path) =
                found.filter(|path| files.len() < MOST_FILES && known.insert(path.clone()))
            {
                files.push(path);
            }
        }
    }
    files
}

/// For each path in quotes the files that it may stand for.
fn javascript(text: &str, here: &str) -> Vec<Vec<String>> {
    let mut imports = Vec::new();
    for (at, quote) in text.match_indices(['"', '\'', '`']) {
        let rest = &text[at + quote.len()..];
        if !rest.starts_with("./") && !rest.starts_with("../") {
            continue;
        }
        let end = rest.find(['"', '\'', '`', '\n']).unwrap_or(rest.len());
        if end > LONGEST_PATH {
            continue;
        }
        let Ok(path) = normal(&below(here, &rest[..end])) else {
            continue;
        };
        let mut candidates: Vec<String> = JAVASCRIPT_ENDINGS
            .iter()
            .map(|ending| format!("{path}{ending}"))
            .collect();
        // TypeScript names the file that a build would make.
        for (made, source) in [(".js", ".ts"), (".mjs", ".mts"), (".cjs", ".cts")] {
            candidates.extend(
                path.strip_suffix(made)
                    .map(|stem| format!("{stem}{source}")),
            );
        }
        imports.push(candidates);
    }
    imports
}

/// For each module that is named the files that it may stand for.
fn python(text: &str, here: &str, package: &str) -> Vec<Vec<String>> {
    let mut imports = Vec::new();
    for line in text.lines().map(str::trim_start) {
        if let Some(rest) = line.strip_prefix("from ") {
            let (module, names) = rest.split_once(" import ").unwrap_or((rest, ""));
            imports.push(python_files(module.trim(), here, package));
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
                    here,
                    package,
                ));
            }
        } else if let Some(rest) = line.strip_prefix("import ") {
            let modules = rest
                .split(',')
                .filter_map(|module| module.split_ascii_whitespace().next());
            imports.extend(modules.map(|module| python_files(module, here, package)));
        }
    }
    imports
}

fn python_files(module: &str, here: &str, package: &str) -> Vec<String> {
    let dots = module.len() - module.trim_start_matches('.').len();
    let path = module[dots..].replace('.', "/");
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '/');
    if path.is_empty() || path.len() > LONGEST_PATH || !path.chars().all(is_name) {
        return Vec::new();
    }
    let folders = match dots {
        0 => vec![here.to_owned(), package.to_owned()],
        dots => vec![below(here, &"../".repeat(dots - 1))],
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
        let text = "import a from './a.js';\nexport * from \"../b\"; import('./c.json'); import x from 'fs'; `./${d}`";
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
        let text = "import os, util.text as t\nfrom . import one, two\nfrom ..up import (x)\nfrom lib import y\n";
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

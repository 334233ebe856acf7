//! Names under which a script imports code of its project. A new file with one of these names can
//! run in place of the imported file.

use std::collections::BTreeSet;

use crate::computed_imports::called_imports;
use crate::kinds::ScriptLanguage;

/// Code that a script imports by a name or a path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum ImportName {
    /// Module that is searched in a list of directories, without its submodules.
    Searched(String),
    /// Path relative to the directory of the script, without a suffix.
    Relative(String),
    /// First part of a name in quotes, such as `"settings.production"`, which a library can import.
    Quoted(String),
}

/// Returns the names that a script imports. Approximate, as a path computed at run time is not found.
pub fn imported_names(text: &str, language: ScriptLanguage) -> BTreeSet<ImportName> {
    match language {
        ScriptLanguage::Python => {
            let mut names = python_imports(text);
            for module in called_imports(text, language).literal {
                names.extend(loaded_module_names(&module));
            }
            names.extend(quoted_modules(text));
            names
        }
        ScriptLanguage::JavaScript | ScriptLanguage::TypeScript => javascript_imports(text),
    }
}

/// Returns each quoted path that begins with `./` or `../`.
fn javascript_imports(text: &str) -> BTreeSet<ImportName> {
    let mut names = BTreeSet::new();
    for (at, quote) in text.match_indices(['"', '\'', '`']) {
        let rest = &text[at + quote.len()..];
        let end = rest.find(['"', '\'', '`', '\n']).unwrap_or(rest.len());
        let path = &rest[..end];
        let is_computed = path.contains('$') || path.ends_with(['/', '.']);
        if (path.starts_with("./") || path.starts_with("../")) && !is_computed {
            names.insert(ImportName::Relative(without_suffix(path).to_owned()));
        }
    }
    names
}

/// Removes the suffix of the last part of a path.
fn without_suffix(path: &str) -> &str {
    let name_at = path.rfind('/').map_or(0, |at| at + 1);
    match path[name_at..].rfind('.') {
        Some(at) if at > 0 => &path[..name_at + at],
        _ => path,
    }
}

/// Returns the modules of `import` and `from`.
fn python_imports(text: &str) -> BTreeSet<ImportName> {
    // A list in brackets continues on the next lines.
    let text = text.replace("\\\n", " ");
    let mut names = BTreeSet::new();
    let mut statements = text.split(['\n', ';']).map(without_comment);
    while let Some(statement) = statements.next() {
        let first_part = |text: &str| {
            text.split_whitespace()
                .next()
                .unwrap_or_default()
                .to_owned()
        };
        if let Some(rest) = statement.strip_prefix("import ") {
            names.extend(
                rest.split(',')
                    .filter_map(|module| searched_module(&first_part(module))),
            );
        } else if let Some(rest) = statement.strip_prefix("from ") {
            let (module, list) = rest.split_once("import").unwrap_or((rest, ""));
            let mut list = list.to_owned();
            while list.contains('(') && !list.contains(')') {
                let Some(more) = statements.next() else { break };
                list.push_str(more);
            }
            let list = list.replace(['(', ')'], " ");
            let imported = list.split(',').map(first_part);
            if module.trim().starts_with('.') {
                names.extend(relative_modules(module.trim(), imported))
            } else {
                names.extend(searched_module(&first_part(module)))
            }
        }
    }
    names
}

/// Returns the names in quotes that can be names of modules.
fn quoted_modules(text: &str) -> impl Iterator<Item = ImportName> + '_ {
    // The text before an odd quote is in quotes in some reading, so each part counts.
    let parts = text.split(['"', '\'']);
    let modules = parts.filter(|part| part.split('.').all(is_identifier));
    modules.filter_map(|module| {
        let first = module.split('.').next()?;
        Some(ImportName::Quoted(first.to_owned()))
    })
}

/// Returns the name of a Python module, or the path of its file, that a call loads.
fn loaded_module_names(module: &str) -> Vec<ImportName> {
    match module.strip_suffix(".py") {
        Some(path) => vec![ImportName::Relative(path.to_owned())],
        None if module.starts_with('.') => relative_modules(module, std::iter::empty()),
        None => searched_module(module).into_iter().collect(),
    }
}

/// Returns the first part of a module such as `package.module`.
fn searched_module(module: &str) -> Option<ImportName> {
    let first = module.split('.').next().unwrap_or_default();
    is_identifier(first).then(|| ImportName::Searched(first.to_owned()))
}

/// Returns the paths of a module such as `..package`, or of the names imported from `.`.
fn relative_modules(module: &str, imported: impl Iterator<Item = String>) -> Vec<ImportName> {
    let path = module.trim_start_matches('.');
    let up = "../".repeat(module.len() - path.len() - 1);
    let first = path.split('.').next().unwrap_or_default();
    let names: Vec<String> = if first.is_empty() {
        imported.collect()
    } else {
        vec![first.to_owned()]
    };
    names
        .into_iter()
        .filter(|name| is_identifier(name))
        .map(|name| ImportName::Relative(format!("{up}{name}")))
        .collect()
}

fn without_comment(line: &str) -> &str {
    line.split('#').next().unwrap_or_default().trim()
}

fn is_identifier(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str, language: ScriptLanguage) -> Vec<String> {
        let names = imported_names(text, language).into_iter();
        names
            .map(|name| match name {
                ImportName::Searched(name) => name,
                ImportName::Relative(path) => format!("./{path}"),
                ImportName::Quoted(name) => format!("'{name}'"),
            })
            .collect()
    }

    #[test]
    fn python_imports_are_found_by_name_and_by_path() {
        let text = "import os.path, helper as h; import json\nfrom util.text import x\n\
            from . import (one,  # first\n  two)\nfrom ..up.deep import y\nif True:\n  import late\n\
            importlib.import_module('called.x'); run_path('lib/run.py')\n\
            configure(\"settings.production\", 'no module')\n";
        let expected = [
            "called",
            "helper",
            "json",
            "late",
            "os",
            "util",
            "./../up",
            "./lib/run",
            "./one",
            "./two",
            "'called'",
            "'settings'",
        ];
        assert_eq!(names(text, ScriptLanguage::Python), expected);
    }

    #[test]
    fn javascript_imports_are_found_in_quoted_paths() {
        let text = "const a = require('./helper'); import b from \"../lib/b.js\"; require('fs'); `./${name}`; '../'";
        assert_eq!(
            names(text, ScriptLanguage::JavaScript),
            ["./../lib/b", "././helper"]
        );
    }
}

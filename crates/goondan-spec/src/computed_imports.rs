//! Imports whose path a script computes at run time. The search is approximate: a text that only
//! looks like such an import also counts.

use crate::kinds::ScriptLanguage;

/// Calls in JavaScript that load a module by its path.
const JAVASCRIPT_CALLS: [&str; 3] = ["import", "require", "Worker"];

/// Calls in Python that load a module, with the number of the argument that names it.
const PYTHON_CALLS: [(&str, usize); 8] = [
    ("import_module", 0),
    ("__import__", 0),
    ("run_path", 0),
    ("run_module", 0),
    ("execfile", 0),
    ("spec_from_file_location", 1),
    ("SourceFileLoader", 1),
    ("ExtensionFileLoader", 1),
];

/// Limit of bytes of an argument.
const MAX_ARGUMENT_BYTES: usize = 300;

/// Import with a path that is computed at run time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComputedImport {
    /// Line in the script, from 1.
    pub line: usize,
    /// Directory that contains each possible file, relative to the directory of the script. `None` if
    /// the file can be anywhere.
    pub directory: Option<String>,
}

/// Files of a module.
#[derive(Debug, Clone, Default)]
pub(crate) struct ModuleFiles {
    /// The entry and its direct and indirect imports, in the order of discovery.
    pub(crate) files: Vec<String>,
    pub(crate) computed: Vec<ComputedPlace>,
}

/// Import with a path that is computed at run time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ComputedPlace {
    pub(crate) file: String,
    /// Line in the file, from 1.
    pub(crate) line: usize,
    /// Directory below the bundle that contains each possible file, if it is known.
    pub(crate) directory: Option<String>,
}

/// Modules that the calls of a script load.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct CalledImports {
    /// Names of Python modules, such as `.plugins.text`, and paths.
    pub(crate) literal: Vec<String>,
    pub(crate) computed: Vec<ComputedImport>,
}

/// Returns the imports of a script whose path is computed.
pub fn computed_imports(text: &str, language: ScriptLanguage) -> Vec<ComputedImport> {
    called_imports(text, language).computed
}

/// Returns the modules that the calls of a script load.
pub(crate) fn called_imports(text: &str, language: ScriptLanguage) -> CalledImports {
    let mut imports = CalledImports::default();
    let calls: &[(&str, usize)] = match language {
        ScriptLanguage::Python => &PYTHON_CALLS,
        ScriptLanguage::JavaScript | ScriptLanguage::TypeScript => {
            &JAVASCRIPT_CALLS.map(|name| (name, 0))
        }
    };
    if language == ScriptLanguage::Python {
        let lines = text.lines().zip(1..);
        let changes = lines.filter(|(line, _)| changes_search_path(line.trim_start()));
        imports
            .computed
            .extend(changes.map(|(_, line)| ComputedImport {
                line,
                directory: None,
            }));
    }
    for (name, argument) in calls {
        for (at, _) in text.match_indices(name) {
            let before = &text[..at];
            if is_in_comment(before) || before.ends_with(is_part_of_name) {
                continue;
            }
            let rest = text[at + name.len()..].trim_start();
            let Some(rest) = rest.strip_prefix('(') else {
                continue;
            };
            let is_definition = before.trim_end().ends_with("def") || before.ends_with("function ");
            if is_definition {
                continue;
            }
            let line = before.matches('\n').count() + 1;
            imports.add(argument_at(rest, *argument), line, language);
        }
    }
    imports.computed.sort_by_key(|import| import.line);
    imports
}

impl CalledImports {
    /// Adds the module that the text of an argument names.
    fn add(&mut self, argument: &str, line: usize, language: ScriptLanguage) {
        match ImportArgument::of(argument) {
            ImportArgument::Literal(path) => self.literal.push(path),
            ImportArgument::Missing => {}
            ImportArgument::Computed(start) => {
                let directory = match language {
                    // All modules of a package begin with its name.
                    ScriptLanguage::Python => match start.split_once('.') {
                        Some((package, _)) if !package.is_empty() => {
                            self.literal.push(package.to_owned());
                            return;
                        }
                        _ => None,
                    },
                    // A package is installed, and its directory is protected anyway.
                    _ if is_package_name(&start) => return,
                    ScriptLanguage::JavaScript | ScriptLanguage::TypeScript => start
                        .rsplit_once('/')
                        .map(|(directory, _)| directory)
                        .filter(|directory| directory.starts_with('.'))
                        .map(str::to_owned),
                };
                self.computed.push(ComputedImport { line, directory });
            }
        }
    }
}

/// Text of an argument that names a module.
enum ImportArgument {
    Literal(String),
    /// The text that each possible name begins with.
    Computed(String),
    Missing,
}

impl ImportArgument {
    /// Reads an argument up to its end.
    fn of(argument: &str) -> ImportArgument {
        let argument = without_block_comment(argument.trim_start());
        let argument = argument
            .strip_prefix("new URL(")
            .unwrap_or(argument)
            .trim_start();
        if argument.is_empty() || argument.starts_with(')') {
            return ImportArgument::Missing;
        }
        let is_format = argument.starts_with("f'") || argument.starts_with("f\"");
        let quoted = argument
            .strip_prefix(['f', 'r'])
            .filter(|rest| rest.starts_with(['\'', '"']))
            .unwrap_or(argument);
        let Some(quote) = quoted.chars().next().filter(|c| "'\"`".contains(*c)) else {
            return ImportArgument::Computed(String::new());
        };
        let rest = &quoted[1..];
        let Some(end) = rest.find([quote, '\n']) else {
            return ImportArgument::Computed(String::new());
        };
        let (text, after) = (&rest[..end], rest[end + 1..].trim_start());
        let marks: &[&str] = match (quote, is_format) {
            ('`', _) => &["${"],
            (_, true) => &["{"],
            _ => &[],
        };
        let first_mark = marks.iter().filter_map(|mark| text.find(mark)).min();
        match first_mark {
            Some(at) => ImportArgument::Computed(text[..at].to_owned()),
            None if after.is_empty() || after.starts_with([')', ',', '}', ';']) => {
                ImportArgument::Literal(text.to_owned())
            }
            None => ImportArgument::Computed(text.to_owned()),
        }
    }
}

/// Returns the text from the argument with this number.
fn argument_at(arguments: &str, number: usize) -> &str {
    let end = arguments.floor_char_boundary(MAX_ARGUMENT_BYTES);
    let mut rest = &arguments[..end];
    for _ in 0..number {
        match rest.find([',', ')']) {
            Some(at) if rest[at..].starts_with(',') => rest = &rest[at + 1..],
            _ => return "",
        }
    }
    rest
}

fn without_block_comment(text: &str) -> &str {
    let comment = text
        .strip_prefix("/*")
        .and_then(|rest| rest.split_once("*/"));
    comment.map_or(text, |(_, after)| after.trim_start())
}

/// Returns true if a statement of Python adds directories to the search path. The directory of the
/// script itself, and those around it, are always searched.
fn changes_search_path(statement: &str) -> bool {
    let is_own_directory = statement.contains("__file__") && !statement.contains(['\'', '"']);
    !statement.starts_with('#')
        && [
            "sys.path.insert(",
            "sys.path.append(",
            "sys.path.extend(",
            "sys.path +",
            "sys.path=",
            "sys.path =",
            "sys.path[",
        ]
        .iter()
        .any(|start| statement.contains(start))
        && !is_own_directory
}

/// Returns true if the text before a place begins a comment in the same line.
fn is_in_comment(before: &str) -> bool {
    let line = before.rsplit('\n').next().unwrap_or_default().trim_start();
    ["//", "/*", "*", "#"]
        .iter()
        .any(|sign| line.starts_with(sign))
}

/// Returns true if an import of JavaScript that begins with this text leads to an installed package.
fn is_package_name(start: &str) -> bool {
    start.starts_with(|c: char| c.is_alphanumeric() || c == '@') && !start.contains(':')
}

fn is_part_of_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '$'
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the directories of the computed imports; `*` if the directory is unknown.
    fn computed(text: &str, language: ScriptLanguage) -> Vec<String> {
        let imports = computed_imports(text, language).into_iter();
        imports
            .map(|import| import.directory.unwrap_or_else(|| "*".to_owned()))
            .collect()
    }

    #[test]
    fn computed_imports_of_javascript_are_found() {
        for (text, expected) in [
            (
                "await import('./a.js'); require(\"b\"); import x from './c.js'",
                &[][..],
            ),
            ("const f = await import(path)", &["*"]),
            ("require(process.env.X)", &["*"]),
            ("import(`./plugins/${name}.js`)", &["./plugins"]),
            ("import( /* note */ '../lib/' + name)", &["../lib"]),
            ("import(`${name}.js`)", &["*"]),
            ("require(`./${name}`)", &["."]),
            ("import('package/' + name); import('file:' + name)", &["*"]),
            ("new Worker(new URL('./w.js', import.meta.url))", &[]),
            ("new Worker(file)", &["*"]),
            ("createRequire(import.meta.url)('./x.js')", &[]),
            ("// import(path)\n/* require(path) */\n * import(path)", &[]),
            ("function require(x) {}\nreimport(x); important(x)", &[]),
            ("import(\n  path)", &["*"]),
        ] {
            assert_eq!(
                computed(text, ScriptLanguage::TypeScript),
                expected,
                "{text}"
            );
        }
    }

    #[test]
    fn computed_imports_of_python_are_found() {
        for (text, expected) in [
            (
                "import os\nfrom . import x\nimportlib.import_module('plugins.a')",
                &[][..],
            ),
            ("import_module(name)", &["*"]),
            ("m = __import__(name)", &["*"]),
            ("importlib.import_module(f'plugins.{name}')", &[]),
            ("importlib.import_module('plugins.' + name)", &[]),
            ("importlib.import_module(f'plug_{name}')", &["*"]),
            ("runpy.run_path(path)", &["*"]),
            ("spec_from_file_location('x', path)", &["*"]),
            ("spec_from_file_location('x', 'lib/x.py')", &[]),
            ("sys.path.insert(0, 'lib')", &["*"]),
            ("sys.path.insert(0, os.path.dirname(__file__))", &[]),
            ("def import_module(name): pass\n# import_module(name)", &[]),
        ] {
            assert_eq!(computed(text, ScriptLanguage::Python), expected, "{text}");
        }
        let literal = called_imports(
            "import_module(f'a.{x}'); import_module('.b', __package__)",
            ScriptLanguage::Python,
        );
        assert_eq!(literal.literal, ["a", ".b"]);
        let lines = computed_imports("x\ny\nimport_module(z)\n", ScriptLanguage::Python);
        assert_eq!(lines[0].line, 3);
    }
}

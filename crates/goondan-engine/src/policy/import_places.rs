//! Places in which a new file would run in place of code that a program of the project imports, such
//! as `helper/__init__.py` next to `helper.py`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use goondan_core::nofollow_fs::open_regular_file;
use goondan_spec::computed_imports::computed_imports;
use goondan_spec::import_names::{ImportName, imported_names};
use goondan_spec::kinds::ScriptLanguage;

use super::protected_paths::{is_in, lowercase_text, normalize_path};

/// Limit of scripts whose imports are read.
const MAX_SCRIPTS: usize = 500;

/// Size limit of a script whose imports are searched, in bytes.
const MAX_SCRIPT_BYTES: u64 = 1 << 20;

/// Suffixes of files that no import loads.
const TEXT_SUFFIXES: [&str; 9] = [
    "csv", "html", "jpg", "log", "md", "pdf", "png", "svg", "txt",
];

/// Suffixes of modules that Python finds in the directory of a script, whatever the script imports:
/// modules of Python itself import each other by name, and some of them only if they exist.
const PYTHON_SUFFIXES: [&str; 5] = ["py", "pyc", "pyd", "pyo", "so"];

/// Suffixes of modules of JavaScript and TypeScript.
const JAVASCRIPT_SUFFIXES: [&str; 11] = [
    "cjs", "cts", "js", "json", "jsx", "mjs", "mts", "node", "ts", "tsx", "wasm",
];

/// Files in the directories of a script, and around it, that map imports to other files.
const IMPORT_SETTINGS: [&str; 6] = [
    "package.json",
    "deno.json",
    "deno.jsonc",
    "import_map.json",
    "jsconfig.json",
    "tsconfig.json",
];

/// Limit of entries that are searched for Python code in a directory.
const MAX_DIRECTORY_ENTRIES: usize = 1_000;

/// Scripts of a project whose imports lead to protected places. The paths are absolute.
pub(super) struct ProjectScripts {
    /// Handler files, which the process of a host loads.
    pub(super) handlers: Vec<PathBuf>,
    /// Scripts that an interpreter runs, such as an MCP server.
    pub(super) started: Vec<PathBuf>,
}

/// Places of the imports of a project.
#[derive(Default)]
pub(super) struct ImportPlaces {
    /// Paths of imported code without a suffix.
    stems: BTreeSet<PathBuf>,
    /// Paths without a suffix of Python modules that a script names in quotes.
    quoted_stems: BTreeSet<PathBuf>,
    /// Directories of Python scripts, except the project.
    python_folders: BTreeSet<PathBuf>,
    /// Directories in which Python searches all modules, because it may run a script there.
    searched_folders: BTreeSet<PathBuf>,
    settings: BTreeSet<PathBuf>,
    /// Directories below which a script computes the path of an import, with the suffixes of modules.
    computed: BTreeMap<PathBuf, BTreeSet<&'static str>>,
}

/// Reads the beginning of a script, at most [`MAX_SCRIPT_BYTES`]. The path may lead through links.
fn read_script(script: &Path) -> io::Result<Vec<u8>> {
    let real = script.canonicalize()?;
    let file = open_regular_file(real.parent().unwrap_or(&real), &real)?;
    let mut text = Vec::new();
    file.take(MAX_SCRIPT_BYTES).read_to_end(&mut text)?;
    Ok(text)
}

impl ImportPlaces {
    /// Collects the places for the scripts of the project `root`. Accesses the file system.
    pub(super) fn from_scripts(scripts: &ProjectScripts, root: &Path) -> ImportPlaces {
        let mut places = ImportPlaces::default();
        let all_scripts = scripts.handlers.iter().chain(&scripts.started);
        let all_scripts: BTreeSet<&PathBuf> =
            all_scripts.filter(|path| path.starts_with(root)).collect();
        for script in all_scripts.into_iter().take(MAX_SCRIPTS) {
            places.add(script, root);
        }
        let is_python = |path: &&PathBuf| {
            ScriptLanguage::of(&path.to_string_lossy()) == Some(ScriptLanguage::Python)
        };
        // The working directory is searched as well, for instance with `python -m`.
        let folders = scripts.started.iter().filter(is_python).flat_map(|script| {
            let folders = script.ancestors().skip(1);
            folders.take_while(|folder| folder.starts_with(root))
        });
        places.searched_folders = folders.map(Path::to_owned).collect();
        places
    }

    /// Adds the places from which a script imports code. Returns `None` for a file that is not a
    /// script.
    fn add(&mut self, script: &Path, root: &Path) -> Option<()> {
        let language = ScriptLanguage::of(&script.to_string_lossy())?;
        let text = read_script(script).unwrap_or_default();
        let folder = script.parent()?;
        let parent_folders: Vec<&Path> = folder
            .ancestors()
            .take_while(|folder| folder.starts_with(root))
            .collect();
        let text = String::from_utf8_lossy(&text);
        let suffixes: &[&str] = match language {
            ScriptLanguage::Python => &PYTHON_SUFFIXES,
            ScriptLanguage::JavaScript | ScriptLanguage::TypeScript => &JAVASCRIPT_SUFFIXES,
        };
        for import in computed_imports(&text, language) {
            let directory = import
                .directory
                .map(|path| normalize_path(&folder.join(path)));
            let directory = directory.unwrap_or_else(|| root.to_owned());
            self.computed.entry(directory).or_default().extend(suffixes);
        }
        for name in imported_names(&text, language) {
            match name {
                ImportName::Relative(path) => {
                    self.stems.insert(normalize_path(&folder.join(path)));
                }
                ImportName::Searched(name) => self
                    .stems
                    .extend(parent_folders.iter().map(|folder| folder.join(&name))),
                ImportName::Quoted(name) => self
                    .quoted_stems
                    .extend(parent_folders.iter().map(|folder| folder.join(&name))),
            }
        }
        match language {
            ScriptLanguage::Python if folder != root => {
                self.python_folders.insert(folder.to_owned());
            }
            ScriptLanguage::Python => {}
            ScriptLanguage::JavaScript | ScriptLanguage::TypeScript => {
                let settings = parent_folders
                    .iter()
                    .flat_map(|folder| IMPORT_SETTINGS.map(|name| folder.join(name)));
                self.settings.extend(settings);
            }
        }
        Some(())
    }

    /// Returns the protected place that contains `path`.
    pub(super) fn find_containing(&self, path: &Path) -> Option<PathBuf> {
        if has_suffix(path, &TEXT_SUFFIXES) {
            return None;
        }
        let is_file = |file: &PathBuf| lowercase_text(file) == lowercase_text(path);
        if self.settings.iter().any(is_file) || self.is_python_module(path) {
            return Some(path.to_owned());
        }
        let shadows = |stem: &PathBuf| is_in(path, stem) || is_with_suffix(path, stem);
        let is_computed = |(directory, suffixes): (&PathBuf, &BTreeSet<&str>)| {
            is_in(path, directory) && suffixes.iter().any(|suffix| has_suffix(path, &[suffix]))
        };
        let has_import = self.stems.iter().any(shadows) || self.computed.iter().any(is_computed);
        has_import.then(|| path.to_owned())
    }

    /// Returns true for a Python module that a script can import by its name.
    fn is_python_module(&self, path: &Path) -> bool {
        if !has_suffix(path, &PYTHON_SUFFIXES) {
            return false;
        }
        let is_quoted = |stem: &PathBuf| is_in(path, stem) || is_with_suffix(path, stem);
        let is_new = |folder: &PathBuf| is_new_module(path, folder);
        self.is_module_in_folder(path)
            || self.quoted_stems.iter().any(is_quoted)
            || self.searched_folders.iter().any(is_new)
    }

    /// Returns true for a module or a package directly in the directory of a Python script.
    fn is_module_in_folder(&self, path: &Path) -> bool {
        let is_init = path
            .file_stem()
            .is_some_and(|stem| stem.to_string_lossy().starts_with("__init__"));
        let folder = if is_init {
            path.parent().and_then(Path::parent)
        } else {
            path.parent()
        };
        let folder = folder.map(lowercase_text);
        let is_folder = |other: &PathBuf| Some(lowercase_text(other)) == folder;
        self.python_folders.iter().any(is_folder)
    }
}

/// Returns true if the file `path` would add a module or a package to `folder`, which a library can
/// import if it exists. Accesses the file system.
fn is_new_module(path: &Path, folder: &Path) -> bool {
    let Ok(below) = path.strip_prefix(folder) else {
        return false;
    };
    let Some(first) = below.components().next() else {
        return false;
    };
    let module = folder.join(first);
    if module == path {
        return !path.exists();
    }
    !contains_python(&module)
}

/// Returns true if a directory contains a Python file. Accesses the file system.
fn contains_python(directory: &Path) -> bool {
    let mut directories = vec![directory.to_owned()];
    let mut entries = 0;
    while let Some(directory) = directories.pop() {
        let Ok(listed) = directory.read_dir() else {
            continue;
        };
        for entry in listed.flatten() {
            entries += 1;
            if entries > MAX_DIRECTORY_ENTRIES {
                return false;
            }
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => directories.push(entry.path()),
                Ok(_) if has_suffix(&entry.path(), &PYTHON_SUFFIXES) => return true,
                _ => {}
            }
        }
    }
    false
}

/// Returns true if `path` is `stem` with any suffix, such as `helper.abi3.so`.
fn is_with_suffix(path: &Path, stem: &Path) -> bool {
    let (path, stem) = (lowercase_text(path), lowercase_text(stem));
    let suffix = path.strip_prefix(&stem);
    suffix.is_some_and(|suffix| suffix.starts_with('.') && !suffix.contains('/'))
}

fn has_suffix(path: &Path, suffixes: &[&str]) -> bool {
    let suffix = path.extension().map(|suffix| suffix.to_ascii_lowercase());
    suffix.is_some_and(|suffix| suffixes.iter().any(|other| suffix == *other))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handlers(handlers: Vec<PathBuf>) -> ProjectScripts {
        ProjectScripts {
            handlers,
            started: Vec::new(),
        }
    }

    #[test]
    fn a_file_that_can_replace_an_import_is_protected() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        for (name, text) in [
            ("tools/words.py", "import helper\n"),
            (
                "jst/words.cjs",
                "const helper = require('./helper'); require('../shared/a.js');\n",
            ),
            (
                "jst/deep/run.mjs",
                "await import(`../plugins/${name}.mjs`);\n",
            ),
        ] {
            let path = root.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let scripts =
            ["tools/words.py", "jst/words.cjs", "jst/deep/run.mjs"].map(|name| root.join(name));
        let places = ImportPlaces::from_scripts(&handlers(scripts.to_vec()), root);
        for (name, expected) in [
            ("tools/helper/__init__.py", true),
            ("tools/helper.abi3.so", true),
            ("tools/json.py", true),
            ("tools/json/__init__.py", true),
            ("tools/notes.json", false),
            ("tools/other/a.py", false),
            ("helper.py", true),
            ("Helper/__init__.py", true),
            ("helpers.py", false),
            ("helper.md", false),
            ("jst/helper", true),
            ("jst/helper/index.js", true),
            ("jst/tsconfig.json", true),
            ("jst/other.js", false),
            ("shared/a.ts", true),
            ("jst/plugins/new.mjs", true),
            ("jst/plugins/deep/new.json", true),
            ("jst/plugins/new.md", false),
            ("plugins/new.mjs", false),
            ("src/a.py", false),
        ] {
            let found = places.find_containing(&root.join(name)).is_some();
            assert_eq!(found, expected, "{name}");
        }
        std::fs::write(root.join("tools/words.py"), "import_module(name)\n").unwrap();
        let scripts = handlers(vec![root.join("tools/words.py")]);
        let places = ImportPlaces::from_scripts(&scripts, root);
        for (name, expected) in [
            ("anywhere/new.py", true),
            ("anywhere/new.so", true),
            ("anywhere/new.js", false),
            ("anywhere/new.md", false),
        ] {
            let found = places.find_containing(&root.join(name)).is_some();
            assert_eq!(found, expected, "{name}");
        }
    }
    #[test]
    fn a_new_python_module_that_a_library_can_import_is_protected() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        for (name, text) in [
            ("server.py", "import pickle\nload('settings.production')\n"),
            ("app/models/user.py", ""),
            ("docs/guide.md", ""),
        ] {
            let path = root.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let server = vec![root.join("server.py")];
        let started = ProjectScripts {
            handlers: Vec::new(),
            started: server.clone(),
        };
        let started = ImportPlaces::from_scripts(&started, root);
        let handler = ImportPlaces::from_scripts(&handlers(server), root);
        // A host loads only modules that the project names.
        for (name, with_server, with_handler) in [
            ("org/__init__.py", true, false),
            ("org/python/core.py", true, false),
            ("docs/python/core.py", true, false),
            ("brotli.so", true, false),
            ("org/notes.md", false, false),
            ("app/models/order.py", false, false),
            ("app/new/order.py", false, false),
            ("settings/production.py", true, true),
            ("settings.py", true, true),
            ("settings.json", false, false),
        ] {
            let found = |places: &ImportPlaces| places.find_containing(&root.join(name)).is_some();
            assert_eq!(found(&started), with_server, "{name}");
            assert_eq!(found(&handler), with_handler, "{name}");
        }
    }
}

//! Files that well-known programs load because of their names, such as the settings of a package
//! manager, or for a word that is no path of a file, such as the module of `python -m`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use goondan_spec::regular_file;
use serde_json::Value;

use crate::shell;
use crate::started_files::{command_words, pieces};

/// Programs that run a script, or the start file of a directory.
const INTERPRETERS: [&str; 21] = [
    "ash", "bash", "bun", "dash", "deno", "fish", "ksh", "lua", "luajit", "node", "nodejs", "perl",
    "php", "pypy", "python", "ruby", "sh", "ts-node", "tsx", "uv", "zsh",
];

/// Interpreters that expand variables and patterns.
const SHELLS: [&str; 7] = ["ash", "bash", "dash", "fish", "ksh", "sh", "zsh"];

/// Programs that run the local installation of a package, if there is one.
const PACKAGE_RUNNERS: [&str; 6] = ["bunx", "npm", "npx", "pnpm", "pnpx", "yarn"];

/// Programs that run an installed or downloaded package, and no code of the working directory.
const DOWNLOADERS: [&str; 5] = ["bunx", "npx", "pipx", "pnpx", "uvx"];

/// Files that define the commands that a program runs, such as the scripts in `package.json`, or the
/// code that it loads, such as `.npmrc`. The paths are relative to its working directory.
const COMMAND_FILES: [(&str, &[&str]); 22] = [
    (
        "bun",
        &["package.json", "bunfig.toml", ".npmrc", "tsconfig.json"],
    ),
    ("bunx", &["package.json", "bunfig.toml", ".npmrc"]),
    ("bundle", &["Gemfile", ".bundle/config"]),
    (
        "cargo",
        &[
            "Cargo.toml",
            "build.rs",
            ".cargo/config",
            ".cargo/config.toml",
            "rust-toolchain",
            "rust-toolchain.toml",
        ],
    ),
    ("composer", &["composer.json"]),
    (
        "deno",
        &["deno.json", "deno.jsonc", "package.json", ".npmrc"],
    ),
    ("just", &["justfile", "Justfile", ".justfile"]),
    ("make", &["Makefile", "makefile", "GNUmakefile"]),
    ("node", &["package.json"]),
    ("npm", &["package.json", ".npmrc"]),
    ("npx", &["package.json", ".npmrc"]),
    ("php", &["php.ini", ".user.ini"]),
    ("pipx", &["pyproject.toml"]),
    (
        "pnpm",
        &[
            "package.json",
            ".npmrc",
            ".pnpmfile.cjs",
            "pnpm-workspace.yaml",
        ],
    ),
    (
        "pnpx",
        &[
            "package.json",
            ".npmrc",
            ".pnpmfile.cjs",
            "pnpm-workspace.yaml",
        ],
    ),
    ("poetry", &["pyproject.toml", "poetry.toml"]),
    ("rake", &["Rakefile", "rakefile"]),
    ("ts-node", &["package.json", "tsconfig.json"]),
    ("tsx", &["package.json", "tsconfig.json"]),
    ("uv", &["pyproject.toml", "uv.toml", ".python-version"]),
    ("uvx", &["uv.toml", ".python-version"]),
    (
        "yarn",
        &[
            "package.json",
            ".npmrc",
            ".yarnrc",
            ".yarnrc.yml",
            ".pnp.cjs",
            ".pnp.loader.mjs",
        ],
    ),
];

/// Files that determine the code which other build tools and servers run or load. The paths are
/// relative to their working directory.
const SETTINGS_FILES: [(&str, &[&str]); 16] = [
    (
        "bazel",
        &[
            ".bazelrc",
            "BUILD",
            "BUILD.bazel",
            "MODULE.bazel",
            "WORKSPACE",
        ],
    ),
    (
        "cmake",
        &[
            "CMakeLists.txt",
            "CMakePresets.json",
            "CMakeUserPresets.json",
        ],
    ),
    (
        "docker",
        &[
            "compose.yaml",
            "compose.yml",
            "compose.override.yaml",
            "compose.override.yml",
            "docker-compose.yaml",
            "docker-compose.yml",
            "docker-compose.override.yaml",
            "docker-compose.override.yml",
        ],
    ),
    (
        "dotnet",
        &[
            "Directory.Build.props",
            "Directory.Build.targets",
            "Directory.Packages.props",
            "NuGet.Config",
            "global.json",
        ],
    ),
    ("flask", &["app.py", "wsgi.py", ".flaskenv"]),
    ("gmake", &["Makefile", "makefile", "GNUmakefile"]),
    ("go", &["go.mod", "go.work"]),
    ("gradle", &GRADLE_FILES),
    ("gradlew", &GRADLE_FILES),
    (
        "meson",
        &["meson.build", "meson.options", "meson_options.txt"],
    ),
    ("mvn", &["pom.xml"]),
    ("mvnw", &["pom.xml"]),
    ("ninja", &["build.ninja"]),
    ("nix", &["flake.nix", "default.nix", "shell.nix"]),
    (
        "task",
        &[
            "Taskfile.yml",
            "Taskfile.yaml",
            "Taskfile.dist.yml",
            "Taskfile.dist.yaml",
        ],
    ),
    ("zig", &["build.zig", "build.zig.zon"]),
];

const GRADLE_FILES: [&str; 7] = [
    "build.gradle",
    "build.gradle.kts",
    "gradle.properties",
    "gradle/wrapper/gradle-wrapper.properties",
    "gradle/wrapper/gradle-wrapper.jar",
    "settings.gradle",
    "settings.gradle.kts",
];

/// Programs that load no code, except for the files that they name.
pub const NON_LOADING_PROGRAMS: [&str; 14] = [
    "chmod", "cp", "curl", "id", "kill", "ln", "mv", "ps", "sleep", "sync", "uname", "uptime",
    "wget", "whoami",
];

/// Programs that start the program in their arguments.
const WRAPPERS: [&str; 8] = [
    "env", "exec", "ionice", "nice", "nohup", "setsid", "stdbuf", "timeout",
];

/// Programs that run a container, which gets only the directories that its options name.
const CONTAINER_PROGRAMS: [&str; 2] = ["docker", "podman"];

/// Commands of [`CONTAINER_PROGRAMS`] that run an image or a container.
const CONTAINER_COMMANDS: [&str; 4] = ["attach", "exec", "run", "start"];

/// Options of [`DOWNLOADERS`] without a value.
const DOWNLOADER_FLAGS: [&str; 8] = [
    "--bun",
    "--isolated",
    "--no-install",
    "--offline",
    "--quiet",
    "--yes",
    "-q",
    "-y",
];

/// Suffixes that an interpreter adds to the name of a script.
const SCRIPT_SUFFIXES: [&str; 10] = [
    "js", "mjs", "cjs", "ts", "json", "node", "py", "pyc", "rb", "lua",
];

/// Files that an interpreter runs if its argument is a directory.
const START_FILES: [&str; 9] = [
    "package.json",
    "index.js",
    "index.mjs",
    "index.cjs",
    "index.ts",
    "index.json",
    "index.node",
    "__main__.py",
    "__main__.pyc",
];

/// Fields of `package.json` that name code.
const CODE_FIELDS: [&str; 5] = ["bin", "exports", "imports", "main", "module"];

/// Options of interpreters whose code comes from the command line or is searched in the working
/// directory.
const INLINE_OPTIONS: [&str; 7] = ["-c", "-e", "-m", "-p", "--eval", "--print", "--test"];

/// Maximum size in bytes of a `package.json`.
const MAX_MANIFEST_BYTES: u64 = 1 << 20;

/// Maximum size in bytes of the part of a file of settings that is searched for paths.
const MAX_SETTINGS_BYTES: u64 = 64 << 10;

/// Maximum number of paths that are searched for one file of settings.
const MAX_SETTINGS_PATHS: usize = 8000;

/// Maximum number of files that the fields of a `package.json` name.
const MAX_MANIFEST_FILES: usize = 64;

/// Code that the program of a command line may load without naming its files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LoadedCode<'w> {
    /// None.
    Nothing,
    /// All code in the directories that these words name.
    Directories(Vec<&'w str>),
    /// All code in the named directories, in those of the named files, and in the working directory.
    Everything,
}

impl<'w> LoadedCode<'w> {
    /// Returns the code for the words of a command line. A program that is not listed may load
    /// anything.
    pub(crate) fn of(words: &[&'w str]) -> LoadedCode<'w> {
        let is_before_program = |word: &str| {
            let is_wrapper = WRAPPERS.contains(&program_name(word).as_str());
            let is_number = word.starts_with(|c: char| c.is_ascii_digit());
            is_wrapper || is_number || word.starts_with('-') || word.contains('=')
        };
        let Some(at) = words.iter().position(|word| !is_before_program(word)) else {
            return LoadedCode::Nothing;
        };
        let (program, arguments) = (words[at], &words[at + 1..]);
        let name = program_name(program);
        let first = arguments.iter().find(|word| !word.starts_with('-'));
        let is_container = || first.is_some_and(|word| CONTAINER_COMMANDS.contains(word));
        match name.as_str() {
            _ if NON_LOADING_PROGRAMS.contains(&name.as_str())
                || shell::only_reads_files(&name)
                || shell::never_reads_files(&name)
                || is_installed_server(program) =>
            {
                LoadedCode::Nothing
            }
            name if DOWNLOADERS.contains(&name) => {
                LoadedCode::Directories(package_words(arguments))
            }
            name if CONTAINER_PROGRAMS.contains(&name) && is_container() => {
                LoadedCode::Directories(arguments.to_vec())
            }
            _ => LoadedCode::Everything,
        }
    }
}

/// Returns true for the name of an installed MCP server, such as `mcp-server-git` or
/// `github-mcp-server`. It loads its own code only.
fn is_installed_server(program: &str) -> bool {
    let is_server_name = program.starts_with("mcp-server-") || program.ends_with("-mcp-server");
    is_server_name && !program.contains('/')
}

/// Returns the arguments of a downloader that can name its package: those up to the first word that
/// must be the package. The arguments of the package follow.
fn package_words<'w>(arguments: &[&'w str]) -> Vec<&'w str> {
    let mut words = Vec::new();
    let mut is_after_option = false;
    for word in arguments {
        words.push(*word);
        let is_option = word.starts_with('-');
        if !is_option && !is_after_option && *word != "run" {
            break;
        }
        is_after_option = is_option && !word.contains('=') && !DOWNLOADER_FLAGS.contains(word);
    }
    words
}

/// Names of the programs in a command line.
pub struct ProgramNames(BTreeSet<String>);

impl ProgramNames {
    /// Takes the words of a command line.
    pub fn of<'w>(words: impl Iterator<Item = &'w str>) -> ProgramNames {
        ProgramNames(words.map(program_name).collect())
    }

    /// Returns true if one of `programs` is named.
    fn has_any(&self, programs: &[&str]) -> bool {
        programs.iter().any(|name| self.0.contains(*name))
    }

    /// Returns true if one of the programs runs the commands of a file, such as a `Makefile`.
    pub fn run_command_files(&self) -> bool {
        COMMAND_FILES
            .iter()
            .any(|(program, _)| self.has_any(&[program]))
    }

    /// Returns true if one of the programs runs a script, which can import code from its directory or
    /// from the working directory.
    pub fn import_code(&self) -> bool {
        let command_programs = COMMAND_FILES.iter().map(|(program, _)| program);
        let mut programs = INTERPRETERS.iter().chain(command_programs);
        programs.any(|name| !DOWNLOADERS.contains(name) && self.has_any(&[name]))
    }

    /// Returns the local packages that the programs may run for a name. They may not exist.
    pub fn package_directories(&self, folder: &Path, name: &str) -> Option<PathBuf> {
        self.has_any(&PACKAGE_RUNNERS)
            .then(|| package_directory(folder, name))
    }

    /// Returns true if one of the programs is a shell, which expands variables and patterns.
    pub fn have_shell(&self) -> bool {
        self.has_any(&SHELLS)
    }

    /// Returns the files that define the commands of the programs, or the code that they load, in
    /// each of `folders`. They may not exist.
    pub fn command_files(&self, folders: &[PathBuf]) -> Vec<PathBuf> {
        let used_commands = COMMAND_FILES
            .iter()
            .chain(&SETTINGS_FILES)
            .filter(|(program, _)| self.has_any(&[program]));
        let files = used_commands.flat_map(|(_, files)| files.iter());
        files
            .flat_map(|file| folders.iter().map(move |folder| folder.join(file)))
            .collect()
    }

    /// Returns the files that the programs load for a name that is no path of a file, such as a
    /// module. They may not exist.
    pub fn implied_files(&self, folder: &Path, name: &str) -> Vec<PathBuf> {
        let mut files = Vec::new();
        if self.has_any(&PACKAGE_RUNNERS) {
            files.extend(package_files(folder, name));
        }
        if self.has_any(&INTERPRETERS) {
            files.extend(script_files(folder, name));
        }
        files
    }
}

/// Returns the paths that a file of settings may name, relative to `folder`. Accesses the file system.
pub fn paths_in_settings(file: &Path, folder: &Path) -> Vec<PathBuf> {
    let Ok(text) = regular_file::read_start(file, MAX_SETTINGS_BYTES) else {
        return Vec::new();
    };
    let text = String::from_utf8_lossy(&text).replace(['[', ']', '{', '}'], " ");
    let pieces = command_words(&text).flat_map(pieces);
    pieces
        .take(MAX_SETTINGS_PATHS)
        .map(|piece| folder.join(piece))
        .collect()
}

/// Returns true if the words contain an option after which an interpreter runs no script of the
/// command line.
pub fn has_inline_code<'w>(mut words: impl Iterator<Item = &'w str>) -> bool {
    words.any(|word| {
        let is_cluster = word.starts_with('-') && !word.starts_with("--");
        INLINE_OPTIONS.contains(&word)
            || is_cluster && word.len() > 2 && word.contains(['c', 'e', 'm', 'p'])
    })
}

/// Returns the files that an interpreter may load in place of a module in `file`: other files and
/// directories of that name, and compiled files. Accesses the file system.
pub fn shadowing_files(file: &Path) -> Vec<PathBuf> {
    let (Some(folder), Some(name)) = (file.parent(), file.file_name()) else {
        return Vec::new();
    };
    let stem = |name: &std::ffi::OsStr| {
        let name = name.to_string_lossy().into_owned();
        name.split('.').next().unwrap_or_default().to_owned()
    };
    let expected = stem(name);
    let folders = [folder.to_owned(), folder.join("__pycache__")];
    let entries = folders.iter().filter_map(|folder| folder.read_dir().ok());
    let paths = entries
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()));
    let shadows =
        |path: &PathBuf| path != file && path.file_name().map(stem).as_ref() == Some(&expected);
    paths.filter(shadows).collect()
}

/// Returns the files that an interpreter can run for a name: with a suffix, or in a directory or
/// module of this name. They may not exist.
pub(crate) fn script_files(folder: &Path, name: &str) -> Vec<PathBuf> {
    let path = folder.join(name);
    let mut files = with_suffixes(&path);
    files.extend(START_FILES.map(|file| path.join(file)));
    files.extend(manifest_files(&path));
    // `python -m package.module`, which also runs the start files of all packages around the module.
    let module = folder.join(name.replace('.', "/"));
    files.push(module.with_extension("py"));
    files.extend(["__init__.py", "__main__.py"].map(|file| module.join(file)));
    let parts: Vec<&str> = name.split('.').collect();
    for count in 1..parts.len() {
        files.push(folder.join(parts[..count].join("/")).join("__init__.py"));
    }
    files
}

fn with_suffixes(path: &Path) -> Vec<PathBuf> {
    let with_suffix = SCRIPT_SUFFIXES.map(|suffix| {
        let mut file = path.as_os_str().to_owned();
        file.push(".");
        file.push(suffix);
        PathBuf::from(file)
    });
    with_suffix.to_vec()
}

/// Returns the files that `package.json` in a directory names as its code. Accesses the file system.
fn manifest_files(folder: &Path) -> Vec<PathBuf> {
    let Some(manifest) = read_manifest(folder) else {
        return Vec::new();
    };
    let mut names = Vec::new();
    for field in CODE_FIELDS {
        if let Some(value) = manifest.get(field) {
            collect_strings(value, &mut names);
        }
    }
    let paths = names.into_iter().map(|name| folder.join(name));
    let with_parents = |path: PathBuf| {
        let mut files = with_suffixes(&path);
        files.extend(START_FILES.map(|file| path.join(file)));
        files.push(path);
        files
    };
    paths.flat_map(with_parents).collect()
}

/// Reads `package.json` in `folder`; `None` if it is missing or unreadable.
fn read_manifest(folder: &Path) -> Option<Value> {
    let path = folder.join("package.json");
    let text = regular_file::read_start(&path, MAX_MANIFEST_BYTES).ok()?;
    serde_json::from_slice(&text).ok()
}

fn collect_strings(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) if found.len() < MAX_MANIFEST_FILES => found.push(text.clone()),
        Value::Array(items) => items.iter().for_each(|item| collect_strings(item, found)),
        Value::Object(fields) => fields
            .values()
            .for_each(|field| collect_strings(field, found)),
        _ => {}
    }
}

/// Returns the files of the local installation of a package, such as `@scope/name@1.0`.
fn package_files(folder: &Path, name: &str) -> Vec<PathBuf> {
    let package = package_directory(folder, name);
    let mut files = vec![package.join("package.json")];
    let program = package.file_name();
    files.extend(program.map(|program| folder.join("node_modules/.bin").join(program)));
    files
}

/// Returns the directory of the local installation of a package.
fn package_directory(folder: &Path, name: &str) -> PathBuf {
    let version = name.char_indices().skip(1).find(|(_, c)| *c == '@');
    let name = version.map_or(name, |(at, _)| &name[..at]);
    folder.join("node_modules").join(name)
}

/// Returns true if a word is the name or the path of a program that runs scripts.
pub(crate) fn is_interpreter(word: &str) -> bool {
    INTERPRETERS.contains(&program_name(word).as_str())
}

/// Returns the name of a program without its directory and version.
fn program_name(word: &str) -> String {
    let name = Path::new(word).file_name().unwrap_or_default();
    let name = name.to_string_lossy().to_lowercase();
    let name = name.strip_suffix(".exe").unwrap_or(&name);
    name.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | '-'))
        .to_owned()
}

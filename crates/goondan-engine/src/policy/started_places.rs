//! Places of code that the builds of a project and its MCP servers run, including files that do not
//! exist yet.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use goondan_core::code_directory::is_code_name;
use goondan_core::started_files::StartedProgram;
use goondan_spec::Bundle;
use goondan_spec::build_sources::BuildSourceRule;
use goondan_spec::kinds::{BuildCommand, McpServer, McpTransport, McpValue, ToolBuild, ToolEntry};

use super::protected_paths::{is_in, lowercase_text, real_path_or_self};

/// Program that gdn starts from the configuration.
pub(super) struct ConfiguredProgram {
    command: String,
    args: Vec<String>,
    variables: BTreeMap<String, String>,
    folder: PathBuf,
}

impl ConfiguredProgram {
    /// Returns the program of a server of the project in `root`; `None` for a server that gdn does
    /// not start.
    pub(super) fn of_server(server: &McpServer, root: &Path) -> Option<ConfiguredProgram> {
        let McpTransport::Program {
            command,
            args,
            env,
            cwd,
        } = &server.transport
        else {
            return None;
        };
        let variables = env.iter().filter_map(|(name, value)| match value {
            McpValue::Plain(text) => Some((name.clone(), text.clone())),
            McpValue::Source(_) => None,
        });
        // The command is relative to the project, the arguments to the working directory.
        let command = if command.contains('/') {
            root.join(command).to_string_lossy().into_owned()
        } else {
            command.clone()
        };
        Some(ConfiguredProgram {
            command,
            args: args.clone(),
            variables: variables.collect(),
            folder: working_directory(root, cwd.as_deref()),
        })
    }

    /// Returns the program of a build in the project in `root`.
    fn of_build(plan: &ToolBuild, root: &Path) -> ConfiguredProgram {
        let (command, args) = match &plan.build.command {
            BuildCommand::Shell(line) => ("sh".to_owned(), vec!["-c".to_owned(), line.clone()]),
            BuildCommand::Program { program, arguments } => (program.clone(), arguments.clone()),
        };
        ConfiguredProgram {
            command,
            args,
            variables: BTreeMap::new(),
            folder: working_directory(root, plan.build.cwd.as_deref()),
        }
    }

    /// Returns the program, for a search of its files.
    pub(super) fn started<'a>(&'a self, root: &'a Path) -> StartedProgram<'a> {
        StartedProgram {
            command: &self.command,
            args: &self.args,
            variables: &self.variables,
            folder: &self.folder,
            project: root,
        }
    }
}

/// Places of code that builds and servers run.
#[derive(Default)]
pub(super) struct StartedPlaces {
    /// Files and directories, in lower case.
    paths: BTreeSet<String>,
    /// Directories in which all code counts.
    code_folders: BTreeSet<PathBuf>,
    sources: Vec<BuildSourceRule>,
}

impl StartedPlaces {
    /// Collects the places of the bundle in `root`, which must be a real path. Accesses the file
    /// system.
    pub(super) fn of_bundle(bundle: &Bundle, root: &Path) -> StartedPlaces {
        let mut places = StartedPlaces::default();
        for tool in bundle.tools().values() {
            if let ToolEntry::Mcp(server) = &tool.spec.entry
                && let Some(program) = ConfiguredProgram::of_server(server, root)
            {
                places.add_paths(program.started(root).possible_files());
            }
        }
        for plan in bundle.builds() {
            places.add_build(plan, root);
        }
        places
    }

    /// Adds the files of the build command, all code in the directories in which it runs, and the
    /// source files. All these files are protected, because no call approval covers a build.
    fn add_build(&mut self, plan: &ToolBuild, root: &Path) {
        let program = ConfiguredProgram::of_build(plan, root);
        let started = program.started(root);
        let loaded = started.loaded_places();
        // The project can be a part of a larger build.
        let files_outside = loaded.files.iter().filter(|path| !path.starts_with(root));
        let folders_outside = files_outside.filter_map(|path| path.parent());
        let folders_outside = folders_outside.map(real_path_or_self);
        self.code_folders.extend(folders_outside);
        self.code_folders
            .extend(loaded.around.iter().map(|path| real_path_or_self(path)));
        self.code_folders.insert(real_path_or_self(&program.folder));
        self.add_paths(loaded.files);
        self.add_paths(started.possible_files());
        self.add_paths(started.command_files_around());
        self.sources.push(BuildSourceRule::of(root, plan));
    }

    fn add_paths(&mut self, paths: impl IntoIterator<Item = PathBuf>) {
        let paths = paths.into_iter();
        self.paths
            .extend(paths.map(|path| lowercase_text(&real_path_or_self(&path))));
    }

    /// Returns true if a build or a server may run the file at `path`, which may not exist.
    pub(super) fn contains(&self, path: &Path) -> bool {
        let mut ancestors = path.ancestors();
        let mut folders = self.code_folders.iter();
        ancestors.any(|path| self.paths.contains(&lowercase_text(path)))
            || is_code_name(path) && folders.any(|folder| is_in(path, folder))
            || self.sources.iter().any(|sources| sources.contains(path))
    }
}

/// Returns the working directory of a program of the project in `root`.
fn working_directory(root: &Path, cwd: Option<&str>) -> PathBuf {
    cwd.map_or_else(|| root.to_owned(), |cwd| root.join(cwd))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use goondan_spec::ResourceId;
    use goondan_spec::kinds::{BuildSettings, SourceLocation};
    use goondan_spec::meta::Kind;

    use super::*;
    use crate::policy::protected_paths::normalize_path;

    const EXISTING_FILES: [&str; 10] = [
        "dist/x.js",
        "src/x.js",
        "scripts/build.sh",
        "scripts/lib.txt",
        "native/Makefile",
        "native/x.c",
        "crates/dice/Cargo.toml",
        "crates/dice/src/lib.rs",
        "templates/page.html",
        "Cargo.toml",
    ];

    fn line(command: &str) -> BuildSettings {
        BuildSettings {
            command: BuildCommand::Shell(command.to_owned()),
            cwd: None,
            sources: Vec::new(),
            timeout: Duration::MAX,
        }
    }

    /// Returns the files of `names` that are protected in a project with this build.
    fn protected<'n>(build: BuildSettings, names: &[&'n str]) -> Vec<&'n str> {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        for name in EXISTING_FILES {
            let path = root.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        std::fs::write(root.join("scripts/build.sh"), ". scripts/lib.txt\n").unwrap();
        let plan = ToolBuild {
            tool: ResourceId::base(Kind::Tool, "x"),
            entry: "./dist/x.js".to_owned(),
            build,
            written: SourceLocation::default(),
        };
        let mut places = StartedPlaces::default();
        places.add_build(&plan, &root);
        let is_protected = |name: &&str| places.contains(&normalize_path(&root.join(name)));
        names.iter().copied().filter(is_protected).collect()
    }

    #[test]
    fn all_code_of_a_project_in_which_a_build_runs_is_protected() {
        let code = [
            "Makefile",
            "GNUmakefile",
            "scripts/build.sh",
            "scripts/new.sh",
            "src/x.js",
            "native/x.c",
            "crates/dice/src/lib.rs",
            "crates/dice/build.rs",
            "rust-toolchain.toml",
            ".cargo/config.toml",
            "package.json",
        ];
        let program = |words: &[&str]| BuildSettings {
            command: BuildCommand::Program {
                program: words[0].to_owned(),
                arguments: words[1..].iter().map(|word| (*word).to_owned()).collect(),
            },
            ..line("")
        };
        for build in [
            line("make"),
            line("make -C native"),
            line("sh scripts/build.sh"),
            line("npm run build"),
            program(&["sh", "scripts/build.sh"]),
            program(&["cargo", "build", "-p", "x"]),
        ] {
            let sources = vec!["src/*.js".to_owned()];
            for build in [build.clone(), BuildSettings { sources, ..build }] {
                assert_eq!(protected(build.clone(), &code), code, "{build:?}");
            }
        }
    }

    #[test]
    fn declared_sources_and_sourced_files_of_any_kind_are_protected() {
        let sources = ["templates/**/*.html", "words/*.txt"];
        let build = BuildSettings {
            sources: sources.map(str::to_owned).to_vec(),
            ..line("sh scripts/build.sh")
        };
        let names = [
            "templates/new/a.html",
            "words/a.txt",
            "scripts/lib.txt",
            "docs/a.html",
            "notes.txt",
        ];
        assert_eq!(protected(build, &names), names[..3]);
    }

    #[test]
    fn a_build_with_its_own_directory_protects_only_the_settings_around_it() {
        let build = |command: &str| BuildSettings {
            cwd: Some("crates/dice".to_owned()),
            ..line(command)
        };
        let names = [
            "crates/dice/src/new.rs",
            "crates/dice/build.rs",
            "crates/Cargo.toml",
            "Cargo.toml",
            "rust-toolchain.toml",
            "crates/other/src/lib.rs",
            "src/x.js",
            "native/x.c",
        ];
        assert_eq!(
            protected(build("cargo build --release"), &names),
            names[..5]
        );
        assert_eq!(protected(build("make -C ../.."), &names), names);
        let names = ["../Cargo.toml", "../rust-toolchain.toml", "../Makefile"];
        assert_eq!(protected(build("cargo build"), &names), names[..2]);
    }
}

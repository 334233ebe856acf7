//! Loading of a project directory and its environment files.

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use crate::adapters::connectors;
use goondan_core::real_path::real_path;
use goondan_engine::middleware::builtin_names;
use goondan_spec::files::{FileAccess, OsFiles};
use goondan_spec::kinds::{ConnectorManifest, ExportSpec, ToolBuild};
use goondan_spec::source::SourceTexts;
use goondan_spec::{
    BasePackage, Bundle, Diagnostic, Environment, JsonObject, KnownFiles, LoadInput, LoadResult,
};

/// Built-in package, parsed once.
static BUILTIN_PACKAGE: LazyLock<BasePackage> = LazyLock::new(base_package);

/// Loaded project directory.
pub struct Project {
    /// Project directory.
    pub root: PathBuf,
    /// Bundle; `None` if any diagnostic is an error.
    pub bundle: Option<Arc<Bundle>>,
    /// Errors and warnings of all files.
    pub diagnostics: Vec<Diagnostic>,
    /// Source texts that the diagnostics refer to.
    pub sources: SourceTexts,
    /// Builds of its tools, including tools that are not built yet.
    pub builds: Vec<ToolBuild>,
}

impl Project {
    /// Returns a valid project from a bundle that is already loaded.
    pub fn of(root: &Path, bundle: Arc<Bundle>) -> Self {
        let builds = bundle.builds().to_vec();
        let (diagnostics, sources) = (Vec::new(), SourceTexts::default());
        Project {
            root: root.to_owned(),
            bundle: Some(bundle),
            diagnostics,
            sources,
            builds,
        }
    }
}

/// Returns the built-in package.
pub fn base() -> &'static BasePackage {
    &BUILTIN_PACKAGE
}

/// Loads the project at `path`, a directory or the `goondan.yaml` in it.
pub fn load(path: &Path) -> Project {
    load_again(path, &OsFiles, &KnownFiles::default())
}

/// Loads a project like [`load`], and writes its resources as YAML with short forms written out.
pub(crate) fn load_expanded(path: &Path) -> (Project, String) {
    let input = LoadInput {
        root: path,
        files: &OsFiles,
        base: &BUILTIN_PACKAGE,
    };
    let (loaded, written) = goondan_spec::load_expanded(input, &KnownFiles::default());
    (project_of(path, loaded), written)
}

/// Loads a project like [`load`], through `files`, and without parsing `known` files again.
pub(crate) fn load_again(path: &Path, files: &dyn FileAccess, known: &KnownFiles) -> Project {
    let loaded = goondan_spec::load_again(
        LoadInput {
            root: path,
            files,
            base: &BUILTIN_PACKAGE,
        },
        known,
    );
    project_of(path, loaded)
}

fn project_of(path: &Path, loaded: LoadResult) -> Project {
    Project {
        root: project_directory(path),
        bundle: loaded.bundle.map(Arc::new),
        diagnostics: loaded.diagnostics,
        sources: loaded.sources,
        builds: loaded.builds,
    }
}

/// Returns the variables of the project at `root` (rule L8): the process environment, then
/// `env_file`, `.env.local` and `.env`. Earlier sources take precedence.
pub fn environment(root: &Path, env_file: Option<&Path>) -> Result<Environment, Diagnostic> {
    goondan_spec::env_files::read_env_files(&OsFiles, root, env_file, Environment::of_process())
}

/// Creates the content of `@goondan/base`.
pub fn base_package() -> BasePackage {
    // The defaults of the settings are defined by the extensions.
    let extensions = builtin_names()
        .map(|name| (name.to_owned(), JsonObject::new()))
        .collect();
    BasePackage {
        tools: goondan_tools::base_tools(),
        extensions,
        connectors: connectors::manifests(),
    }
}

/// Returns the manifest of the built-in connector `name`.
pub(crate) fn base_connector(name: &str) -> Option<&'static ConnectorManifest> {
    BUILTIN_PACKAGE
        .connectors
        .iter()
        .find(|manifest| manifest.name == name)
}

/// Returns a built-in export without the overrides of a Tool.
pub(crate) fn base_export(tool: &str, export: &str) -> Option<&'static ExportSpec> {
    let tool = BUILTIN_PACKAGE
        .tools
        .iter()
        .find(|tool_manifest| tool_manifest.name == tool)?;
    tool.exports
        .iter()
        .find(|tool_manifest| tool_manifest.name == export)
}

/// File names that identify a project directory.
pub const MANIFEST_FILES: [&str; 2] = ["goondan.yaml", "goondan.yml"];

/// Returns the project file in `folder`, if there is one.
pub fn manifest_in(folder: &Path) -> Option<PathBuf> {
    MANIFEST_FILES
        .iter()
        .map(|name| folder.join(name))
        .find(|path| path.is_file())
}

/// Returns the nearest project directory: `folder` or one of its parents.
pub fn around(folder: &Path) -> Option<PathBuf> {
    let folder = std::path::absolute(folder).ok()?;
    folder
        .ancestors()
        .find(|folder| manifest_in(folder).is_some())
        .map(Path::to_owned)
}

/// Returns the root of the git repository around `folder`, which may not exist yet.
pub fn repository(folder: &Path) -> Option<PathBuf> {
    let real = real_path(&std::path::absolute(folder).ok()?).ok()?;
    goondan_spec::repository_around(&OsFiles, &real).map(Path::to_owned)
}

/// Returns the directory of the project. `path` may also be its goondan.yaml.
fn project_directory(path: &Path) -> PathBuf {
    if path.is_dir() {
        return path.to_owned();
    }
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

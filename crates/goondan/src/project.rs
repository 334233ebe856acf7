//! A project folder, read together with its environment files.

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use crate::connectors;
use goondan_core::real_path::real_path;
use goondan_engine::middleware::builtin_names;
use goondan_spec::files::{Files, OsFiles};
use goondan_spec::kinds::{ConnectorManifest, ExportSpec, ToolBuild};
use goondan_spec::source::Sources;
use goondan_spec::{
    BasePackage, Bundle, Diagnostic, Environment, JsonObject, KnownFiles, LoadInput,
};

/// What is built in does not change while the program runs.
static BASE: LazyLock<BasePackage> = LazyLock::new(base_package);

/// What came of reading a project folder.
pub struct Project {
    /// The folder that `path` named.
    pub root: PathBuf,
    /// The bundle; `None` where any diagnostic is an error.
    pub bundle: Option<Arc<Bundle>>,
    /// Errors and warnings of all files.
    pub diagnostics: Vec<Diagnostic>,
    /// The texts that the diagnostics point into.
    pub sources: Sources,
    /// How its tools are built; also of those that are missing because they were not built yet.
    pub builds: Vec<ToolBuild>,
}

impl Project {
    /// A project without a mistake, which somebody else has loaded.
    pub fn of(root: &Path, bundle: Arc<Bundle>) -> Self {
        let builds = bundle.builds().to_vec();
        let (diagnostics, sources) = (Vec::new(), Sources::default());
        Project {
            root: root.to_owned(),
            bundle: Some(bundle),
            diagnostics,
            sources,
            builds,
        }
    }
}

/// What is built in, which does not change while the program runs.
pub fn base() -> &'static BasePackage {
    &BASE
}

/// Reads the project at `path`: a folder, or the `goondan.yaml` in it.
pub fn load(path: &Path) -> Project {
    load_again(path, &OsFiles, &KnownFiles::default())
}

/// As [`load`], with files from elsewhere, and without parsing those that are known.
pub(crate) fn load_again(path: &Path, files: &dyn Files, known: &KnownFiles) -> Project {
    let loaded = goondan_spec::load_again(
        LoadInput {
            root: path,
            files,
            base: &BASE,
        },
        known,
    );
    Project {
        root: folder(path),
        bundle: loaded.bundle.map(Arc::new),
        diagnostics: loaded.diagnostics,
        sources: loaded.sources,
        builds: loaded.builds,
    }
}

/// The variables that the project at `root` sees (rule L8): those of the process, then `env_file`, `.env.local`, `.env`.
/// What comes first wins.
pub fn environment(root: &Path, env_file: Option<&Path>) -> Result<Environment, Diagnostic> {
    goondan_spec::env_files::read_env_files(&OsFiles, root, env_file, Environment::of_process())
}

/// What `@goondan/base` holds.
pub fn base_package() -> BasePackage {
    // Defaults of the configs live with the extensions.
    let extensions = builtin_names()
        .map(|name| (name.to_owned(), JsonObject::new()))
        .collect();
    BasePackage {
        tools: goondan_tools::base_tools(),
        extensions,
        connectors: connectors::manifests(),
    }
}

/// What runs the built-in connector `name`.
pub(crate) fn base_connector(name: &str) -> Option<&'static ConnectorManifest> {
    BASE.connectors.iter().find(|known| known.name == name)
}

/// An export of what is built in, as it is without a Tool that says otherwise.
pub(crate) fn base_export(tool: &str, export: &str) -> Option<&'static ExportSpec> {
    let tool = BASE.tools.iter().find(|known| known.name == tool)?;
    tool.exports.iter().find(|known| known.name == export)
}

/// Files that make a folder a project.
pub const MANIFESTS: [&str; 2] = ["goondan.yaml", "goondan.yml"];

/// The file that makes `folder` a project, if there is one.
pub fn manifest_in(folder: &Path) -> Option<PathBuf> {
    MANIFESTS
        .iter()
        .map(|name| folder.join(name))
        .find(|path| path.is_file())
}

/// The project that `folder` lies in: it, or the nearest folder above that is one.
pub fn around(folder: &Path) -> Option<PathBuf> {
    let folder = std::path::absolute(folder).ok()?;
    folder
        .ancestors()
        .find(|folder| manifest_in(folder).is_some())
        .map(Path::to_owned)
}

/// The top of the git repository that `folder` lies in, or will lie in once it is there.
pub fn repository(folder: &Path) -> Option<PathBuf> {
    let real = real_path(&std::path::absolute(folder).ok()?).ok()?;
    goondan_spec::repository_around(&OsFiles, &real).map(Path::to_owned)
}

fn folder(path: &Path) -> PathBuf {
    if path.is_dir() {
        return path.to_owned();
    }
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

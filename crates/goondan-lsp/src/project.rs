//! Projects with open documents and their load results.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use goondan_spec::files::FileKind;
use goondan_spec::{
    BundleOutline, Diagnostic, FileAccess, KnownFiles, LoadInput, load_with_outline,
};

use crate::LspHost;
use crate::documents::DocumentOverlay;

/// Files that make a directory a project.
const MANIFEST_FILES: [&str; 2] = ["goondan.yaml", "goondan.yml"];

/// Project with its latest load result.
#[derive(Debug)]
pub(crate) struct OpenProject {
    /// Project directory with symbolic links resolved.
    pub(crate) root: PathBuf,
    /// Set if a file may have changed since the last load.
    stale: bool,
    known: KnownFiles,
    seen: Arc<LoadedProject>,
}

#[derive(Debug, Default)]
pub(crate) struct LoadedProject {
    pub(crate) diagnostics: Vec<Diagnostic>,
    pub(crate) outline: BundleOutline,
}

impl OpenProject {
    /// Creates a project that is loaded on its first use.
    pub(crate) fn new(root: PathBuf) -> Self {
        OpenProject {
            root,
            stale: true,
            known: KnownFiles::default(),
            seen: Arc::default(),
        }
    }

    /// Makes the next use load the project again.
    pub(crate) fn mark_stale(&mut self) {
        self.stale = true;
    }

    /// Reloads the project if it is stale and returns the result.
    pub(crate) fn load_current(
        &mut self,
        host: &dyn LspHost,
        files: &DocumentOverlay<'_>,
    ) -> Arc<LoadedProject> {
        if self.stale {
            let input = LoadInput {
                root: &self.root,
                files,
                base: host.base_package(),
            };
            let (loaded, outline) = load_with_outline(input, &self.known);
            let mut diagnostics = loaded.diagnostics;
            if let Some(bundle) = loaded.bundle {
                diagnostics.extend(host.check(&self.root, &Arc::new(bundle)));
            }
            self.seen = Arc::new(LoadedProject {
                diagnostics,
                outline,
            });
            self.stale = false;
        }
        Arc::clone(&self.seen)
    }
}

/// Returns the project directory of a file: the nearest parent directory with a manifest, as in the
/// commands.
pub(crate) fn find_project_root(path: &Path, files: &DocumentOverlay<'_>) -> Option<PathBuf> {
    let is_manifest =
        |folder: &Path, name| matches!(files.kind(&folder.join(name)), Ok(FileKind::File));
    let has_manifest = |folder: &&Path| MANIFEST_FILES.iter().any(|name| is_manifest(folder, name));
    path.ancestors()
        .skip(1)
        .find(has_manifest)
        .map(Path::to_owned)
}

/// Returns the file to which diagnostics without a file are attached.
pub(crate) fn manifest_path(root: &Path, files: &DocumentOverlay<'_>) -> PathBuf {
    let there = MANIFEST_FILES
        .map(|name| root.join(name))
        .into_iter()
        .find(|path| files.kind(path).is_ok());
    there.unwrap_or_else(|| root.join(MANIFEST_FILES[0]))
}

//! A project that documents are open of, and what the loader made of it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use goondan_spec::files::FileKind;
use goondan_spec::{Diagnostic, Files, KnownFiles, LoadInput, Outline, survey};

use crate::Host;
use crate::documents::Overlay;

/// The files that make a folder a project.
const MANIFESTS: [&str; 2] = ["goondan.yaml", "goondan.yml"];

/// A project, as it was the last time that somebody asked.
#[derive(Debug)]
pub(crate) struct Project {
    /// Its folder, without links.
    pub(crate) root: PathBuf,
    /// Whether something may have changed since.
    stale: bool,
    known: KnownFiles,
    seen: Arc<Seen>,
}

/// What the loader made of a project.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) diagnostics: Vec<Diagnostic>,
    pub(crate) outline: Outline,
}

impl Project {
    pub(crate) fn at(root: PathBuf) -> Self {
        Project {
            root,
            stale: true,
            known: KnownFiles::default(),
            seen: Arc::default(),
        }
    }

    pub(crate) fn touch(&mut self) {
        self.stale = true;
    }

    /// What it is now.
    pub(crate) fn look(&mut self, host: &dyn Host, files: &Overlay<'_>) -> Arc<Seen> {
        if self.stale {
            let input = LoadInput {
                root: &self.root,
                files,
                base: host.base(),
            };
            let (loaded, outline) = survey(input, &self.known);
            let mut diagnostics = loaded.diagnostics;
            if let Some(bundle) = loaded.bundle {
                diagnostics.extend(host.check(&self.root, &Arc::new(bundle)));
            }
            self.seen = Arc::new(Seen {
                diagnostics,
                outline,
            });
            self.stale = false;
        }
        Arc::clone(&self.seen)
    }
}

/// The project that a file lies in: the nearest folder above it with a manifest, as the commands find theirs.
pub(crate) fn around(path: &Path, files: &Overlay<'_>) -> Option<PathBuf> {
    let is_manifest =
        |folder: &Path, name| matches!(files.kind(&folder.join(name)), Ok(FileKind::File));
    let has_manifest = |folder: &&Path| MANIFESTS.iter().any(|name| is_manifest(folder, name));
    path.ancestors()
        .skip(1)
        .find(has_manifest)
        .map(Path::to_owned)
}

/// The file that is told what belongs to no other one.
pub(crate) fn manifest(root: &Path, files: &Overlay<'_>) -> PathBuf {
    let there = MANIFESTS
        .map(|name| root.join(name))
        .into_iter()
        .find(|path| files.kind(path).is_ok());
    there.unwrap_or_else(|| root.join(MANIFESTS[0]))
}

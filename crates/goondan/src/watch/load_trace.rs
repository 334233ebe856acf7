//! Trace of a load: all file accesses of loading and planning, with their results.
//!
//! Loading uses [`RecordingFiles`], which records each access of the loader. So the trace is exact by
//! construction. It includes missing files, and the relevant names of listed directories. While all
//! results stay the same, another load returns the same bundle.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use goondan_spec::discover::may_affect_bundle;
use goondan_spec::files::{FileAccess, FileKind};
use goondan_spec::kinds::ToolEntry;
use goondan_spec::{Bundle, OsFiles};

use super::file_cache::FileContentCache;
use super::stamp::PathStamp;

/// Accessed files and directories. Paths are absolute.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LoadTrace {
    /// Files, including missing ones.
    files: HashMap<PathBuf, PathStamp>,
    /// Listed directories with their relevant names.
    folders: BTreeMap<PathBuf, BTreeSet<String>>,
}

/// Local file system that records each access.
#[derive(Debug, Default)]
pub(crate) struct RecordingFiles<'t> {
    trace: Mutex<LoadTrace>,
    /// Cache for file contents.
    texts: Option<&'t FileContentCache>,
}

impl<'t> RecordingFiles<'t> {
    /// Creates a recorder that reuses the contents in `texts` of unchanged files.
    pub(crate) fn with_texts(texts: &'t FileContentCache) -> Self {
        RecordingFiles {
            trace: Mutex::default(),
            texts: Some(texts),
        }
    }

    /// Returns the recorded accesses.
    pub(crate) fn into_trace(self) -> LoadTrace {
        self.trace
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the trace.
    fn lock(&self) -> MutexGuard<'_, LoadTrace> {
        // A panic of another holder cannot leave the maps inconsistent.
        self.trace.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FileAccess for RecordingFiles<'_> {
    fn kind(&self, path: &Path) -> io::Result<FileKind> {
        let metadata_result = fs::metadata(path);
        self.lock()
            .record_with(path, || PathStamp::from(&metadata_result));
        metadata_result.map(|metadata| FileKind::from(metadata.file_type()))
    }

    fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        // Taken before the read, so that a later write changes the stamp.
        let stamp = self.lock().record_with(path, || PathStamp::of(path));
        let read = || OsFiles.read(path, limit);
        match self.texts {
            Some(texts) => texts.of(path, &stamp, limit, read),
            None => read(),
        }
    }

    fn list_directory(&self, path: &Path) -> io::Result<Vec<(String, FileKind)>> {
        let names = OsFiles.list_directory(path);
        let relevant = names
            .as_deref()
            .map(|names| relevant_names(path, names))
            .unwrap_or_default();
        self.lock().folders.insert(absolute(path), relevant);
        names
    }

    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf> {
        OsFiles.canonicalize(path)
    }

    fn metadata(&self, path: &Path) -> Option<Metadata> {
        OsFiles.metadata(path)
    }
}

impl LoadTrace {
    /// Records the current stamp of `path`, unless there is one.
    pub(crate) fn record(&mut self, path: &Path) {
        self.record_with(path, || PathStamp::of(path));
    }

    /// Returns the recorded stamp of `path`, or records the current one.
    fn record_with(&mut self, path: &Path, current_stamp: impl FnOnce() -> PathStamp) -> PathStamp {
        self.files
            .entry(absolute(path))
            .or_insert_with(current_stamp)
            .clone()
    }

    /// Adds the files that planning `bundle` reads in addition: scripts of models and directories
    /// of programs.
    pub(crate) fn record_plan(&mut self, bundle: &Bundle) {
        for model in bundle.models().values() {
            for file in goondan_models::files_of(&model.spec) {
                self.record(&bundle.root().join(file));
            }
        }
        for tool in bundle.tools().values() {
            if let ToolEntry::Executable(folder) = &tool.spec.entry {
                // The program may be missing or not executable yet.
                let folder = bundle.root().join(folder);
                let names = OsFiles.list_directory(&folder).unwrap_or_default();
                names
                    .iter()
                    .filter(|(_, kind)| {
                        !matches!(kind, FileKind::Directory | FileKind::NonUnicodeName)
                    })
                    .for_each(|(name, _)| {
                        self.record(&folder.join(name));
                    });
            }
        }
    }

    /// Returns the names of the recorded files, and of the targets of links.
    pub(crate) fn names(&self) -> HashSet<OsString> {
        let link_targets = self
            .files
            .keys()
            .filter(|path| path.is_symlink())
            .filter_map(|path| path.canonicalize().ok());
        let paths = self.files.keys().cloned().chain(link_targets);
        paths
            .filter_map(|path| Some(path.file_name()?.to_owned()))
            .collect()
    }

    /// Returns the paths whose state changed, except those below `ignored`.
    pub(crate) fn changed(&self, ignored: &Path) -> Vec<PathBuf> {
        let files = self
            .files
            .iter()
            .filter(|(path, stamp)| PathStamp::of(path) != **stamp);
        let folders = self
            .folders
            .iter()
            .filter(|(path, names)| current_names(path) != **names);
        let changed = files
            .map(|(path, _)| path)
            .chain(folders.map(|(path, _)| path));
        let changed: BTreeSet<&PathBuf> =
            changed.filter(|path| !path.starts_with(ignored)).collect();
        changed.into_iter().cloned().collect()
    }

    /// Returns the directories to watch: those of the recorded files, and all directories above
    /// them up to the parent of `root`. The parents matter because a directory can be missing or a
    /// link.
    pub(crate) fn folders(&self, root: &Path, ignored: &Path) -> BTreeSet<PathBuf> {
        let root = absolute(root);
        let outermost = root.parent().unwrap_or(&root);
        let mut folders = BTreeSet::from([outermost.to_owned(), root.clone()]);
        folders.extend(self.folders.keys().cloned());
        for path in self.files.keys() {
            // An environment file can be in any directory.
            folders.extend(
                path.parent()
                    .filter(|folder| !folder.starts_with(outermost))
                    .map(Path::to_owned),
            );
            let parents = path
                .ancestors()
                .skip(1)
                .take_while(|folder| folder.starts_with(outermost));
            for folder in parents {
                if !folders.insert(folder.to_owned()) && folder != root {
                    break;
                }
            }
        }
        folders.retain(|folder| !folder.starts_with(ignored) && folder.is_dir());
        // Links are followed, because changes can occur in the target directory.
        let folder_targets: Vec<PathBuf> = folders
            .iter()
            .filter_map(|folder| folder.canonicalize().ok())
            .collect();
        let link_targets = self.files.keys().filter(|path| path.is_symlink());
        let link_targets =
            link_targets.filter_map(|path| Some(path.canonicalize().ok()?.parent()?.to_owned()));
        folders.extend(link_targets);
        folders.extend(folder_targets);
        folders
    }
}

/// Returns the relevant names that the directory contains now; none if it can't be listed.
fn current_names(folder: &Path) -> BTreeSet<String> {
    OsFiles
        .list_directory(folder)
        .map(|names| relevant_names(folder, &names))
        .unwrap_or_default()
}

/// Returns the names that may affect the bundle.
fn relevant_names(folder: &Path, names: &[(String, FileKind)]) -> BTreeSet<String> {
    let parent = folder
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    let relevant = names
        .iter()
        .filter(|(name, kind)| may_affect_bundle(parent, name, *kind));
    relevant.map(|(name, _)| name.clone()).collect()
}

/// Returns the absolute path, or the path itself if the current directory is unknown.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

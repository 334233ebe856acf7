//! What a bundle was made from: everything that loading and planning have looked at, and how it looked.
//!
//! Loading goes through [`Recorder`], which notes each question that the loader asks of the file system. So the list is
//! exact by construction: a file that was asked for in vain is on it as well as one that was read, and of a folder that was
//! listed the names that matter. As long as every answer stays the same, loading again makes the same bundle.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use goondan_spec::discover::may_matter;
use goondan_spec::files::{FileKind, Files};
use goondan_spec::kinds::Entry;
use goondan_spec::{Bundle, OsFiles};

use super::stamp::Stamp;
use super::texts::Texts;

/// What was looked at. Paths are absolute.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Trace {
    /// Files, those that are not there included.
    files: HashMap<PathBuf, Stamp>,
    /// Folders whose names were read, with those names that matter.
    folders: BTreeMap<PathBuf, BTreeSet<String>>,
}

/// The files of this machine, with a note of everything that is asked of them.
#[derive(Debug, Default)]
pub(crate) struct Recorder<'t> {
    trace: Mutex<Trace>,
    /// What was read before and may be handed out again.
    texts: Option<&'t Texts>,
}

impl<'t> Recorder<'t> {
    /// Hands out what is in `texts` of files that look the same.
    pub(crate) fn with_texts(texts: &'t Texts) -> Self {
        Recorder {
            trace: Mutex::default(),
            texts: Some(texts),
        }
    }

    /// What was asked so far.
    pub(crate) fn into_trace(self) -> Trace {
        self.trace
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Trace> {
        // Whoever panicked while holding it left maps that are whole.
        self.trace.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Files for Recorder<'_> {
    fn kind(&self, path: &Path) -> io::Result<FileKind> {
        let looked = fs::metadata(path);
        self.lock().note_as(path, || Stamp::from(&looked));
        looked.map(|metadata| FileKind::from(metadata.file_type()))
    }

    fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        // Before it is read: what is written afterwards must look different from what was noted.
        let stamp = self.lock().note_as(path, || Stamp::of(path));
        let read = || OsFiles.read(path, limit);
        match self.texts {
            Some(texts) => texts.of(path, &stamp, limit, read),
            None => read(),
        }
    }

    fn list(&self, path: &Path) -> io::Result<Vec<(String, FileKind)>> {
        let names = OsFiles.list(path);
        let relevant = names
            .as_deref()
            .map(|names| relevant(path, names))
            .unwrap_or_default();
        self.lock().folders.insert(absolute(path), relevant);
        names
    }

    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        OsFiles.canonical(path)
    }
}

impl Trace {
    /// Notes how `path` looks now, unless it is noted already.
    pub(crate) fn note(&mut self, path: &Path) {
        self.note_as(path, || Stamp::of(path));
    }

    /// How `path` looked when it was first noted, which is now unless it is noted already.
    fn note_as(&mut self, path: &Path, looks: impl FnOnce() -> Stamp) -> Stamp {
        self.files
            .entry(absolute(path))
            .or_insert_with(looks)
            .clone()
    }

    /// Adds what planning `bundle` looks at beyond what loading has: scripts of models, and the folders of programs.
    pub(crate) fn note_plan(&mut self, bundle: &Bundle) {
        for model in bundle.models().values() {
            for file in goondan_models::files_of(&model.spec) {
                self.note(&bundle.root().join(file));
            }
        }
        for tool in bundle.tools().values() {
            if let Entry::Executable(folder) = &tool.spec.entry {
                // The program may be missing, or not be executable yet.
                let folder = bundle.root().join(folder);
                let names = OsFiles.list(&folder).unwrap_or_default();
                names
                    .iter()
                    .filter(|(_, kind)| *kind != FileKind::Directory)
                    .for_each(|(name, _)| {
                        self.note(&folder.join(name));
                    });
            }
        }
    }

    /// The names of the files that were looked at, and of those behind links.
    pub(crate) fn names(&self) -> HashSet<OsString> {
        let behind = self
            .files
            .keys()
            .filter(|path| path.is_symlink())
            .filter_map(|path| path.canonicalize().ok());
        let all = self.files.keys().cloned().chain(behind);
        all.filter_map(|path| Some(path.file_name()?.to_owned()))
            .collect()
    }

    /// What looks different by now, without what lies below `ignored`.
    pub(crate) fn changed(&self, ignored: &Path) -> Vec<PathBuf> {
        let files = self
            .files
            .iter()
            .filter(|(path, stamp)| Stamp::of(path) != **stamp);
        let folders = self
            .folders
            .iter()
            .filter(|(path, names)| names_now(path) != **names);
        let changed = files
            .map(|(path, _)| path)
            .chain(folders.map(|(path, _)| path));
        let changed: BTreeSet<&PathBuf> =
            changed.filter(|path| !path.starts_with(ignored)).collect();
        changed.into_iter().cloned().collect()
    }

    /// The folders in which something happens when the answer to a question may change: those that hold what was looked at,
    /// and where a folder is missing or a link, those above it as far as `root` and its parent.
    pub(crate) fn folders(&self, root: &Path, ignored: &Path) -> BTreeSet<PathBuf> {
        let root = absolute(root);
        let top = root.parent().unwrap_or(&root);
        let mut folders = BTreeSet::from([top.to_owned(), root.clone()]);
        folders.extend(self.folders.keys().cloned());
        for path in self.files.keys() {
            // An environment file may lie anywhere.
            folders.extend(
                path.parent()
                    .filter(|folder| !folder.starts_with(top))
                    .map(Path::to_owned),
            );
            let above = path
                .ancestors()
                .skip(1)
                .take_while(|folder| folder.starts_with(top));
            for folder in above {
                if !folders.insert(folder.to_owned()) && folder != root {
                    break;
                }
            }
        }
        folders.retain(|folder| !folder.starts_with(ignored) && folder.is_dir());
        // A link to a folder is followed: something may happen in the folder behind it.
        let behind: Vec<PathBuf> = folders
            .iter()
            .filter_map(|folder| folder.canonicalize().ok())
            .collect();
        let behind_files = self.files.keys().filter(|path| path.is_symlink());
        let behind_files =
            behind_files.filter_map(|path| Some(path.canonicalize().ok()?.parent()?.to_owned()));
        folders.extend(behind_files);
        folders.extend(behind);
        folders
    }
}

fn names_now(folder: &Path) -> BTreeSet<String> {
    OsFiles
        .list(folder)
        .map(|names| relevant(folder, &names))
        .unwrap_or_default()
}

fn relevant(folder: &Path, names: &[(String, FileKind)]) -> BTreeSet<String> {
    let parent = folder
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    let matter = names
        .iter()
        .filter(|(name, kind)| may_matter(parent, name, *kind));
    matter.map(|(name, _)| name.clone()).collect()
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

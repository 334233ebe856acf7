//! An in-memory file system for tests. It can simulate a kill, a power failure, a full disk and
//! failed syncs at any point.
//!
//! For each file and directory it stores the durable contents and the cached contents. A *kill*
//! keeps both. A *power failure* keeps synced data and possibly parts of the unsynced data.

#![allow(clippy::unwrap_used, reason = "test support: a failed test may panic")]

mod torn_writes;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::{DataFile, FileSystem, OpenedDataFile};
use torn_writes::{SeededRandom, contents_after_power_loss};

/// A handle of one process on the file system. After a kill or a power failure the next process
/// gets a new handle, and old handles can no longer change files.
#[derive(Clone)]
pub struct SimFs {
    state: Arc<Mutex<SimState>>,
    process: u32,
}

#[derive(Clone)]
struct SimState {
    files: Vec<SimFileContents>,
    folders: Vec<SimDirectory>,
    /// Number of changes until the process is killed; `None` for no limit.
    changes_left: Option<u64>,
    /// Number of the running process; killed processes have smaller numbers.
    process: u32,
    /// Number of free bytes; `None` for no limit.
    free_space: Option<usize>,
    /// Number of file syncs that succeed, and number of the next file syncs that fail.
    failing_syncs: (u32, u32),
    /// Path of a file that can't be read.
    unreadable: Option<PathBuf>,
    /// If set, a thread that syncs a file yields to other threads first.
    is_slow: bool,
    changes: u64,
    traffic: usize,
    /// Number of power failures.
    boots: u32,
}

#[derive(Clone, Default)]
struct SimFileContents {
    now: Vec<u8>,
    on_disk: Vec<u8>,
    /// Sequence number of the last change to this entry.
    modified: u64,
}

#[derive(Clone, Default)]
struct SimDirectory {
    now: Names,
    on_disk: Names,
    /// Sequence number of the last change to this entry.
    modified: u64,
}

type Names = BTreeMap<OsString, SimNode>;

#[derive(Clone, Copy, PartialEq)]
enum SimNode {
    File(usize),
    Folder(usize),
}

/// Index of the root directory, which has no name.
const ROOT_FOLDER: usize = 0;

impl SimFs {
    #[allow(
        clippy::new_without_default,
        reason = "tests create each file system explicitly"
    )]
    pub fn new() -> Self {
        let state = SimState {
            files: Vec::new(),
            folders: vec![SimDirectory::default()],
            changes_left: None,
            process: 0,
            free_space: None,
            failing_syncs: (0, 0),
            unreadable: None,
            is_slow: false,
            changes: 0,
            traffic: 0,
            boots: 0,
        };
        SimFs {
            state: Arc::new(Mutex::new(state)),
            process: 0,
        }
    }

    /// Returns an independent copy of the files, for the current process.
    pub fn copy(&self) -> SimFs {
        SimFs {
            state: Arc::new(Mutex::new(self.state().clone())),
            process: self.process,
        }
    }

    fn state(&self) -> MutexGuard<'_, SimState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the state, or fails if this process was killed.
    fn live_state(&self) -> io::Result<MutexGuard<'_, SimState>> {
        let state = self.state();
        if self.process == state.process {
            Ok(state)
        } else {
            Err(io::Error::other("the process was killed"))
        }
    }

    /// Allows `changes` more changes, and kills the process in the middle of the next change.
    pub fn kill_after(&self, changes: u64) {
        self.state().changes_left = Some(changes);
    }

    pub fn is_dead(&self) -> bool {
        self.process != self.state().process
    }

    /// Returns the number of changes since creation.
    pub fn changes(&self) -> u64 {
        self.state().changes
    }

    /// Returns the number of bytes read and written since creation.
    pub fn traffic(&self) -> usize {
        self.state().traffic
    }

    /// Limits the free space to `bytes`.
    pub fn limit_free_space(&self, bytes: Option<usize>) {
        self.state().free_space = bytes;
    }

    /// Makes the next `count` file syncs fail.
    pub fn fail_syncs(&self, count: u32) {
        self.fail_syncs_after(0, count);
    }

    /// Lets `successes` file syncs succeed, then makes `count` file syncs fail.
    pub fn fail_syncs_after(&self, successes: u32, count: u32) {
        self.state().failing_syncs = (successes, count);
    }

    /// Makes reads of one file fail; with `None`, no reads fail.
    pub fn fail_reads(&self, path: Option<&Path>) {
        self.state().unreadable = path.map(Path::to_owned);
    }

    /// Makes each file sync yield to other threads.
    pub fn yield_in_syncs(&self) {
        self.state().is_slow = true;
    }

    /// Kills this process if it is alive, and returns the file system of the next process.
    pub fn kill(&self) -> SimFs {
        let mut state = self.state();
        state.changes_left = None;
        state.process += 1;
        SimFs {
            state: Arc::clone(&self.state),
            process: state.process,
        }
    }

    /// Simulates a power failure and a reboot, and returns the file system of the next process.
    /// Unsynced data is lost. With a seed, parts of it survive, torn or followed by garbage.
    pub fn lose_power(&self, seed: Option<u64>) -> SimFs {
        let next = self.kill();
        let mut chance = seed.map(SeededRandom);
        let mut state = self.state();
        state.boots += 1;
        for contents in &mut state.files {
            contents.on_disk = contents_after_power_loss(contents, chance.as_mut());
            contents.now.clone_from(&contents.on_disk);
        }
        for folder in &mut state.folders {
            if chance
                .as_mut()
                .is_some_and(|chance| chance.number_below(2) == 0)
            {
                folder.on_disk = folder.now.clone();
            } else {
                folder.now = folder.on_disk.clone();
            }
        }
        drop(state);
        next
    }

    /// Returns the paths of the matching entries of a directory; empty if the directory is missing.
    fn entries(&self, path: &Path, matches: fn(&SimNode) -> bool) -> io::Result<Vec<PathBuf>> {
        let state = self.live_state()?;
        let Ok(folder) = state.find_directory(path) else {
            return Ok(Vec::new());
        };
        let entries = state.folders[folder].now.iter();
        let entries = entries.filter(|(_, node)| matches(node));
        Ok(entries.map(|(name, _)| path.join(name)).collect())
    }

    /// Returns the current contents of a file.
    pub fn contents(&self, path: &Path) -> Option<Vec<u8>> {
        let state = self.state();
        match state.find(path)? {
            SimNode::File(file) => Some(state.files[file].now.clone()),
            SimNode::Folder(_) => None,
        }
    }

    /// Writes `bytes` to a file and syncs it.
    pub fn put(&self, path: &Path, bytes: &[u8]) {
        let mut file = self.open(path).unwrap().file;
        file.set_len(0).unwrap();
        file.write_at(0, bytes).unwrap();
        file.sync().unwrap();
        let mut folder = path.parent();
        while let Some(path) = folder {
            self.sync_folder(path).unwrap();
            folder = path.parent();
        }
    }
}

impl SimState {
    /// Counts a change, which may kill the process.
    fn count_change(&mut self) -> io::Result<()> {
        self.changes += 1;
        match &mut self.changes_left {
            Some(0) => {
                self.changes_left = None;
                self.process += 1;
                Err(io::Error::other("the process is killed"))
            }
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Returns the node at a path; `None` if the path does not exist.
    fn find(&self, path: &Path) -> Option<SimNode> {
        let mut node = SimNode::Folder(ROOT_FOLDER);
        for name in names(path) {
            let SimNode::Folder(folder) = node else {
                return None;
            };
            node = *self.folders[folder].now.get(&name)?;
        }
        Some(node)
    }

    /// Returns the directory at a path. Fails if it is missing or is a file.
    fn find_directory(&self, path: &Path) -> io::Result<usize> {
        match self.find(path) {
            Some(SimNode::Folder(folder)) => Ok(folder),
            _ => Err(io::Error::new(
                ErrorKind::NotFound,
                format!("no folder {}", path.display()),
            )),
        }
    }

    /// Returns the file at a path. Fails if it is missing or is a directory.
    fn file(&self, path: &Path) -> io::Result<usize> {
        match self.find(path) {
            Some(SimNode::File(file)) => Ok(file),
            _ => Err(io::Error::new(
                ErrorKind::NotFound,
                format!("no file {}", path.display()),
            )),
        }
    }

    /// Creates the directory at a path and its parents, unless they exist. Returns the index of the
    /// directory in `folders`. Fails if a file is in the way.
    fn create_directories(&mut self, path: &Path) -> io::Result<usize> {
        let mut directory = ROOT_FOLDER;
        for name in names(path) {
            directory = match self.folders[directory].now.get(&name) {
                Some(SimNode::Folder(existing)) => *existing,
                Some(SimNode::File(_)) => return Err(ErrorKind::NotADirectory.into()),
                None => self.create_directory(directory, name)?,
            };
        }
        Ok(directory)
    }

    /// Creates the empty directory `name` in the directory with the index `parent`. Returns its
    /// index.
    fn create_directory(&mut self, parent: usize, name: OsString) -> io::Result<usize> {
        self.count_change()?;
        let new = self.folders.len();
        self.folders.push(SimDirectory::default());
        self.folders[parent].now.insert(name, SimNode::Folder(new));
        self.folders[parent].modified = self.changes;
        Ok(new)
    }

    /// Removes the contents of a directory.
    fn remove(&mut self, folder: usize) -> io::Result<()> {
        for (name, node) in self.folders[folder].now.clone() {
            if let SimNode::Folder(inner) = node {
                self.remove(inner)?;
            }
            self.count_change()?;
            self.folders[folder].now.remove(&name);
            self.folders[folder].modified = self.changes;
        }
        Ok(())
    }

    /// Writes bytes at an offset. Writes only a part if the process is killed or the disk is full.
    fn write(&mut self, file: usize, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let start = usize::try_from(offset).unwrap();
        let changed = self.count_change();
        self.traffic += bytes.len();
        let written = match &changed {
            Ok(()) => self
                .free_space
                .map_or(bytes.len(), |free| free.min(bytes.len())),
            // A kill in the middle of this write leaves half of the bytes.
            Err(_) => bytes.len() / 2,
        };
        self.files[file].modified = self.changes;
        let now = &mut self.files[file].now;
        now.resize(now.len().max(start + written), 0);
        now[start..start + written].copy_from_slice(&bytes[..written]);
        if let Some(free) = &mut self.free_space {
            *free -= written.min(*free);
        }
        changed?;
        if written < bytes.len() {
            Err(ErrorKind::StorageFull.into())
        } else {
            Ok(())
        }
    }
}

/// Returns the parts of a path.
fn names(path: &Path) -> Vec<OsString> {
    let names = path.components().filter_map(|part| match part {
        std::path::Component::Normal(name) => Some(name.to_owned()),
        _ => None,
    });
    names.collect()
}

/// Splits a path into its directory and its name.
fn parent(path: &Path) -> io::Result<(&Path, OsString)> {
    let name = path.file_name().map(ToOwned::to_owned);
    path.parent()
        .zip(name)
        .ok_or_else(|| ErrorKind::InvalidInput.into())
}

impl FileSystem for SimFs {
    fn open(&self, path: &Path) -> io::Result<OpenedDataFile> {
        let mut state = self.live_state()?;
        if let Ok(file) = state.file(path) {
            return Ok(OpenedDataFile {
                file: Box::new(SimFile {
                    fs: self.clone(),
                    file,
                }),
                is_new: false,
            });
        }
        let (above, name) = parent(path)?;
        let folder = state.create_directories(above)?;
        state.count_change()?;
        state.files.push(SimFileContents::default());
        let file = state.files.len() - 1;
        state.folders[folder].now.insert(name, SimNode::File(file));
        state.folders[folder].modified = state.changes;
        Ok(OpenedDataFile {
            file: Box::new(SimFile {
                fs: self.clone(),
                file,
            }),
            is_new: true,
        })
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let mut state = self.live_state()?;
        if state.unreadable.as_deref() == Some(path) {
            return Err(io::Error::other("input/output error"));
        }
        let bytes = state.files[state.file(path)?].now.clone();
        state.traffic += bytes.len();
        Ok(bytes)
    }

    fn exists(&self, path: &Path) -> bool {
        self.state().find(path).is_some()
    }

    fn file_len(&self, path: &Path) -> io::Result<Option<u64>> {
        let state = self.live_state()?;
        let file = state.file(path).ok();
        Ok(file.map(|file| state.files[file].now.len() as u64))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.live_state()?;
        let node = state.find(from).ok_or(ErrorKind::NotFound)?;
        let ((old, old_name), (new, new_name)) = (parent(from)?, parent(to)?);
        let (old, new) = (state.find_directory(old)?, state.find_directory(new)?);
        state.count_change()?;
        state.folders[old].now.remove(&old_name);
        state.folders[new].now.insert(new_name, node);
        let changes = state.changes;
        [old, new]
            .into_iter()
            .for_each(|folder| state.folders[folder].modified = changes);
        Ok(())
    }

    fn create_directories(&self, path: &Path) -> io::Result<()> {
        self.live_state()?.create_directories(path).map(drop)
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        let mut state = self.live_state()?;
        let folder = state.find_directory(path)?;
        state.count_change()?;
        state.folders[folder].on_disk = state.folders[folder].now.clone();
        Ok(())
    }

    fn subdirectories(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        self.entries(path, |node| matches!(node, SimNode::Folder(_)))
    }

    fn files(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        self.entries(path, |node| matches!(node, SimNode::File(_)))
    }

    fn modified(&self, path: &Path) -> Option<u64> {
        let state = self.live_state().ok()?;
        Some(match state.find(path)? {
            SimNode::File(file) => state.files[file].modified,
            SimNode::Folder(folder) => state.folders[folder].modified,
        })
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        let mut state = self.live_state()?;
        let folder = state.find_directory(path)?;
        state.remove(folder)?;
        let (above, name) = parent(path)?;
        let above = state.find_directory(above)?;
        state.count_change()?;
        state.folders[above].now.remove(&name);
        state.folders[above].modified = state.changes;
        Ok(())
    }

    fn is_crowded(&self) -> bool {
        false
    }

    fn boot_id(&self) -> Option<String> {
        Some(self.state().boots.to_string())
    }
}

struct SimFile {
    fs: SimFs,
    file: usize,
}

impl DataFile for SimFile {
    fn len(&self) -> io::Result<u64> {
        let state = self.fs.live_state()?;
        Ok(state.files[self.file].now.len() as u64)
    }

    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let mut state = self.fs.live_state()?;
        state.traffic += buffer.len();
        let start = usize::try_from(offset).unwrap();
        let bytes = state.files[self.file]
            .now
            .get(start..start + buffer.len())
            .ok_or(ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(bytes);
        Ok(())
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.fs.live_state()?.write(self.file, offset, bytes)
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        let mut state = self.fs.live_state()?;
        state.count_change()?;
        let changes = state.changes;
        let contents = &mut state.files[self.file];
        contents.now.resize(usize::try_from(len).unwrap(), 0);
        contents.modified = changes;
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        if self.fs.state().is_slow {
            let (before, begin) = (self.fs.changes(), Instant::now());
            while self.fs.changes() < before + 2 && begin.elapsed() < Duration::from_micros(200) {
                std::hint::spin_loop();
            }
        }
        let mut state = self.fs.live_state()?;
        state.count_change()?;
        match &mut state.failing_syncs {
            (0, 0) => {}
            (0, left) => {
                *left -= 1;
                return Err(io::Error::other("the disk failed"));
            }
            (successes, _) => *successes -= 1,
        }
        let contents = &mut state.files[self.file];
        contents.on_disk.clone_from(&contents.now);
        Ok(())
    }
}

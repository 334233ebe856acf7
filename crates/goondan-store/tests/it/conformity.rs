use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use goondan_core::ports::store::Store;
use goondan_store::fs::sim::SimFs;
use goondan_store::jsonl::{JsonlStore, LockError, OpenWorkspaceError};
use goondan_store::memory::MemoryStore;
use goondan_store::suite::{Workspace, check};

struct Memory(MemoryStore);

impl Workspace for Memory {
    fn open(&self) -> Box<dyn Store> {
        Box::new(self.0.clone())
    }
}

struct OnDisk(tempfile::TempDir);

impl Workspace for OnDisk {
    fn open(&self) -> Box<dyn Store> {
        Box::new(JsonlStore::open(&self.0.path().join("workspaces/w")).unwrap())
    }
}

/// Each opening comes after a kill.
struct Killed(Mutex<SimFs>);

impl Workspace for Killed {
    fn open(&self) -> Box<dyn Store> {
        let mut fs = self.0.lock().unwrap();
        *fs = fs.kill();
        Box::new(JsonlStore::on(Arc::new(fs.clone()), Path::new("/workspaces/w")).unwrap())
    }
}

#[test]
fn the_store_in_memory_does_what_any_store_must() {
    check(|| Box::new(Memory(MemoryStore::new(PathBuf::from("/nowhere")))));
}

#[test]
fn the_store_on_disk_does_what_any_store_must() {
    check(|| Box::new(OnDisk(tempfile::tempdir().unwrap())));
}

#[test]
fn the_store_on_disk_does_so_between_kills() {
    check(|| Box::new(Killed(Mutex::new(SimFs::new()))));
}

#[test]
fn one_process_at_a_time_holds_a_workspace() {
    let workspace = OnDisk(tempfile::tempdir().unwrap());
    let first = workspace.open();
    let second = JsonlStore::open(&workspace.0.path().join("workspaces/w"));
    assert!(matches!(second, Err(OpenWorkspaceError::Locked(LockError::Held { .. }))));
    drop(first);
    workspace.open();
}

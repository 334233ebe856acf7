use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use goondan_core::ports::store::Store;
use goondan_store::fs::sim::SimFs;
use goondan_store::jsonl::{JsonlStore, LockError, OpenWorkspaceError};
use goondan_store::memory::MemoryStore;
use goondan_store::suite::{ReopenableWorkspace, UnreliableStore, check};

struct Memory(MemoryStore);

impl ReopenableWorkspace for Memory {
    fn open(&self) -> Box<dyn Store> {
        Box::new(self.0.clone())
    }
}

struct OnDisk(tempfile::TempDir);

impl ReopenableWorkspace for OnDisk {
    fn open(&self) -> Box<dyn Store> {
        Box::new(JsonlStore::open(&self.0.path().join("workspaces/w")).unwrap())
    }

    fn fences_claims(&self) -> bool {
        false
    }
}

/// A workspace that is killed before each opening.
struct Killed(Mutex<SimFs>);

impl ReopenableWorkspace for Killed {
    fn open(&self) -> Box<dyn Store> {
        let mut fs = self.0.lock().unwrap();
        *fs = fs.kill();
        Box::new(JsonlStore::on(Arc::new(fs.clone()), Path::new("/workspaces/w")).unwrap())
    }

    fn fences_claims(&self) -> bool {
        false
    }
}

/// A workspace behind an unreliable connection.
struct Far(MemoryStore);

impl ReopenableWorkspace for Far {
    fn open(&self) -> Box<dyn Store> {
        Box::new(UnreliableStore::new(
            Arc::new(self.0.clone()),
            Duration::from_millis(20),
            9,
        ))
    }
}

#[tokio::test]
async fn the_store_in_memory_does_what_any_store_must() {
    check(|| Box::new(Memory(MemoryStore::new(PathBuf::from("/nowhere"))))).await;
}

#[tokio::test]
async fn the_store_on_disk_does_what_any_store_must() {
    check(|| Box::new(OnDisk(tempfile::tempdir().unwrap()))).await;
}

#[tokio::test]
async fn the_store_on_disk_does_so_between_kills() {
    check(|| Box::new(Killed(Mutex::new(SimFs::new())))).await;
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_far_away_and_fails_some_calls_does_so() {
    check(|| Box::new(Far(MemoryStore::new(PathBuf::from("/nowhere"))))).await;
}

#[test]
fn one_process_at_a_time_holds_a_workspace() {
    let workspace = OnDisk(tempfile::tempdir().unwrap());
    let first = workspace.open();
    let second = JsonlStore::open(&workspace.0.path().join("workspaces/w"));
    assert!(matches!(
        second,
        Err(OpenWorkspaceError::Locked(LockError::Held { .. }))
    ));
    drop(first);
    workspace.open();
}

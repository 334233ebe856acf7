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
struct UnreliableWorkspace(MemoryStore);

impl ReopenableWorkspace for UnreliableWorkspace {
    fn open(&self) -> Box<dyn Store> {
        Box::new(UnreliableStore::new(
            Arc::new(self.0.clone()),
            Duration::from_millis(20),
            9,
        ))
    }
}

#[tokio::test]
async fn memory_store_passes_the_suite() {
    check(|| Box::new(Memory(MemoryStore::new(PathBuf::from("/nowhere"))))).await;
}

#[tokio::test]
async fn jsonl_store_passes_the_suite() {
    check(|| Box::new(OnDisk(tempfile::tempdir().unwrap()))).await;
}

#[tokio::test]
async fn jsonl_store_passes_the_suite_when_killed_before_each_opening() {
    check(|| Box::new(Killed(Mutex::new(SimFs::new())))).await;
}

#[tokio::test(start_paused = true)]
async fn unreliable_store_passes_the_suite() {
    check(|| {
        Box::new(UnreliableWorkspace(MemoryStore::new(PathBuf::from(
            "/nowhere",
        ))))
    })
    .await;
}

#[test]
fn an_open_workspace_cannot_be_opened_again() {
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

//! Idle instances retire, resume, and are deleted (rule C6).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use crate::swarm::{Process, WORKSPACE, World, a, answers, within};
use goondan_core::ports::clock::{Clock, SystemClock};
use goondan_core::ports::store::{InstanceMeta, InstanceStatus, InstanceStore as _, Store};
use goondan_store::fs::FileSystem;
use goondan_store::fs::sim::SimFs;
use goondan_store::jsonl::{JsonlStore, layout};
use goondan_store::suite::UnreliableStore;

/// The system clock plus an offset.
#[derive(Default)]
struct AdvancedClock(AtomicI64);

impl AdvancedClock {
    fn advance(&self, seconds: i64) {
        self.0.fetch_add(seconds, Ordering::Relaxed);
    }
}

impl Clock for AdvancedClock {
    fn now(&self) -> DateTime<Utc> {
        Utc::now() + TimeDelta::seconds(self.0.load(Ordering::Relaxed))
    }

    fn random_hex(&self, digits: usize) -> String {
        SystemClock.random_hex(digits)
    }
}

struct RetiringSwarm {
    fs: SimFs,
    clock: Arc<AdvancedClock>,
    process: Process,
}

impl RetiringSwarm {
    /// Starts the swarm. With `is_forgetful`, the swarm keeps only one idle instance in memory.
    async fn start(policy: &str, is_forgetful: bool) -> Self {
        let (fs, world, clock) = (
            SimFs::new(),
            World::default(),
            Arc::new(AdvancedClock::default()),
        );
        let store: Arc<dyn Store> =
            Arc::new(JsonlStore::on(Arc::new(fs.clone()), Path::new(WORKSPACE)).unwrap());
        let store = match is_forgetful {
            true => Arc::new(UnreliableStore::steady(store, Duration::ZERO).remembered_outside(1)),
            false => store,
        };
        let shared: Arc<dyn Clock> = Arc::clone(&clock) as Arc<dyn Clock>;
        let process = Process::start_with(store, &fs, &world, shared, policy)
            .await
            .unwrap();
        RetiringSwarm { fs, clock, process }
    }

    /// Polls until the metadata of `a` is as expected, because no event reports its changes.
    async fn until(&self, expected: impl Fn(Option<&InstanceMeta>) -> bool) {
        within(async {
            loop {
                let metas = self.process.runtime.instances().await;
                if expected(metas.iter().find(|meta| meta.id() == a())) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
    }

    /// Sends the event `one`, and waits for the answer of agent `b`.
    async fn run_one(&mut self) {
        self.process.send("one").await.unwrap();
        self.process
            .wait_for(|messages| answers(messages) == 1)
            .await;
    }

    async fn until_retired(&self) {
        self.until(|meta| meta.is_some_and(|meta| meta.status == InstanceStatus::Retired))
            .await;
    }

    fn directory(&self) -> PathBuf {
        layout::instance_dir(Path::new(WORKSPACE), &a())
    }
}

/// Retires instances after one second. With this policy, the garbage collection runs four times per
/// second.
const SHORT_LIFECYCLE: &str = "{lifecycle: {ttlSeconds: 1, gcGraceSeconds: 1}}";

#[tokio::test]
async fn an_event_resumes_a_retired_instance_with_its_conversation() {
    for is_forgetful in [false, true] {
        let mut swarm = RetiringSwarm::start(SHORT_LIFECYCLE, is_forgetful).await;
        swarm.run_one().await;
        swarm.clock.advance(1);
        swarm.until_retired().await;
        let result = swarm.process.send("two").await.unwrap();
        assert_eq!(result.error, None);
        let messages = swarm.process.runtime.conversation(&a()).await.unwrap();
        assert_eq!(messages[0].text(), "input one");
        let metas = swarm.process.runtime.instances().await;
        let meta = metas.iter().find(|meta| meta.id() == a()).unwrap();
        assert_eq!(
            meta.retired_at.is_some(),
            meta.status == InstanceStatus::Retired
        );
    }
}

#[tokio::test]
async fn an_expired_retired_instance_is_deleted_and_restarts_empty() {
    for is_forgetful in [false, true] {
        let mut swarm = RetiringSwarm::start(SHORT_LIFECYCLE, is_forgetful).await;
        swarm.run_one().await;
        swarm.clock.advance(10);
        swarm.until_retired().await;
        swarm.clock.advance(10);
        swarm.until(|meta| meta.is_none()).await;
        assert!(!swarm.fs.exists(&swarm.directory()));
        swarm.process.send("two").await.unwrap();
        let messages = swarm.process.runtime.conversation(&a()).await.unwrap();
        assert_eq!(messages[0].text(), "input two");
    }
}

#[tokio::test]
async fn an_instance_deleted_by_a_user_restarts_empty() {
    for is_forgetful in [false, true] {
        let mut swarm = RetiringSwarm::start("{}", is_forgetful).await;
        assert!(!swarm.process.runtime.delete(&a()).await.unwrap());
        swarm.run_one().await;
        let runtime = &swarm.process.runtime;
        runtime.set_title(&a(), Some("Bees")).await.unwrap();
        assert_eq!(runtime.titles().await.unwrap()[&a()], "Bees");
        // The last message is stored before the turn ends, so the first deletions can fail.
        within(async {
            while runtime.delete(&a()).await.is_err() {
                tokio::task::yield_now().await;
            }
        })
        .await;
        swarm.until(|meta| meta.is_none()).await;
        assert!(!swarm.fs.exists(&swarm.directory()));
        assert!(!runtime.delete(&a()).await.unwrap());
        assert!(runtime.titles().await.unwrap().is_empty());
        swarm.process.send("two").await.unwrap();
        let messages = swarm.process.runtime.conversation(&a()).await.unwrap();
        assert_eq!(messages[0].text(), "input two");
    }
}

#[tokio::test]
async fn a_retired_instance_stays_retired_after_a_restart() {
    for is_forgetful in [false, true] {
        let mut swarm = RetiringSwarm::start(SHORT_LIFECYCLE, is_forgetful).await;
        swarm.run_one().await;
        swarm.clock.advance(1);
        swarm.until_retired().await;
        within(async {
            let metadata = || {
                String::from_utf8(
                    swarm
                        .fs
                        .contents(&swarm.directory().join(layout::METADATA))
                        .unwrap(),
                )
                .unwrap()
            };
            while !metadata().contains("retiredAt") {
                tokio::task::yield_now().await;
            }
        })
        .await;
        drop(swarm.process);
        let store = JsonlStore::on(Arc::new(swarm.fs.kill()), Path::new(WORKSPACE)).unwrap();
        let metas = store.instances().await.unwrap();
        assert!(
            metas
                .iter()
                .any(|meta| meta.id() == a() && meta.status == InstanceStatus::Retired),
            "{metas:?}"
        );
    }
}

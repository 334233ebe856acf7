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

/// The system clock, moved forward.
#[derive(Default)]
struct Forward(AtomicI64);

impl Forward {
    fn by(&self, seconds: i64) {
        self.0.fetch_add(seconds, Ordering::Relaxed);
    }
}

impl Clock for Forward {
    fn now(&self) -> DateTime<Utc> {
        Utc::now() + TimeDelta::seconds(self.0.load(Ordering::Relaxed))
    }

    fn random_hex(&self, digits: usize) -> String {
        SystemClock.random_hex(digits)
    }
}

struct Retiring {
    fs: SimFs,
    clock: Arc<Forward>,
    process: Process,
}

impl Retiring {
    /// A forgetful swarm remembers only one idle instance.
    async fn start(policy: &str, is_forgetful: bool) -> Self {
        let (fs, world, clock) = (SimFs::new(), World::default(), Arc::new(Forward::default()));
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
        Retiring { fs, clock, process }
    }

    /// Polls until the metadata of `a` is as wanted, because there is no event for it.
    async fn until(&self, wanted: impl Fn(Option<&InstanceMeta>) -> bool) {
        within(async {
            loop {
                let metas = self.process.runtime.instances().await;
                if wanted(metas.iter().find(|meta| meta.id() == a())) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
    }

    /// Runs `one` and its consequences until the swarm is idle.
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

    fn folder(&self) -> PathBuf {
        layout::instance_dir(Path::new(WORKSPACE), &a())
    }
}

/// Makes the garbage collection run four times per second.
const QUICK: &str = "{lifecycle: {ttlSeconds: 1, gcGraceSeconds: 1}}";

#[tokio::test]
async fn a_retired_instance_comes_back_with_an_event_as_it_was() {
    for is_forgetful in [false, true] {
        let mut swarm = Retiring::start(QUICK, is_forgetful).await;
        swarm.run_one().await;
        swarm.clock.by(1);
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
async fn one_that_stays_away_is_deleted_and_begins_anew() {
    for is_forgetful in [false, true] {
        let mut swarm = Retiring::start(QUICK, is_forgetful).await;
        swarm.run_one().await;
        swarm.clock.by(10);
        swarm.until_retired().await;
        swarm.clock.by(10);
        swarm.until(|meta| meta.is_none()).await;
        assert!(!swarm.fs.exists(&swarm.folder()));
        swarm.process.send("two").await.unwrap();
        let messages = swarm.process.runtime.conversation(&a()).await.unwrap();
        assert_eq!(messages[0].text(), "input two");
    }
}

#[tokio::test]
async fn one_that_a_user_deletes_is_gone_and_begins_anew() {
    for is_forgetful in [false, true] {
        let mut swarm = Retiring::start("{}", is_forgetful).await;
        assert!(!swarm.process.runtime.delete(&a()).await.unwrap());
        swarm.run_one().await;
        let runtime = &swarm.process.runtime;
        runtime.set_title(&a(), Some("Bees")).await.unwrap();
        assert_eq!(runtime.titles().await.unwrap()[&a()], "Bees");
        // The last message is stored before the turn has ended.
        within(async {
            while runtime.delete(&a()).await.is_err() {
                tokio::task::yield_now().await;
            }
        })
        .await;
        swarm.until(|meta| meta.is_none()).await;
        assert!(!swarm.fs.exists(&swarm.folder()));
        assert!(!runtime.delete(&a()).await.unwrap());
        assert!(runtime.titles().await.unwrap().is_empty());
        swarm.process.send("two").await.unwrap();
        let messages = swarm.process.runtime.conversation(&a()).await.unwrap();
        assert_eq!(messages[0].text(), "input two");
    }
}

#[tokio::test]
async fn what_is_retired_stays_so_over_a_restart() {
    for is_forgetful in [false, true] {
        let mut swarm = Retiring::start(QUICK, is_forgetful).await;
        swarm.run_one().await;
        swarm.clock.by(1);
        swarm.until_retired().await;
        within(async {
            let says_so = || {
                String::from_utf8(
                    swarm
                        .fs
                        .contents(&swarm.folder().join(layout::METADATA))
                        .unwrap(),
                )
                .unwrap()
            };
            while !says_so().contains("retiredAt") {
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

//! Runtime events. They are written in the background and deleted after a week.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use goondan_core::event::RuntimeEvent;
use goondan_core::ids::InstanceId;
use goondan_core::ports::store::{EventLog, StoreError};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::oneshot;

use crate::hold::Access;
use crate::line::Lines;
use crate::rows::{Key, decode, encode, instance_key};
use crate::store::PostgresStore;

/// Maximum number of events that wait for the database; further events are dropped.
const MOST_WAITING: usize = 65_536;
/// Maximum number of events per statement.
const BATCH: usize = 512;
/// Time to collect events for one statement.
const GATHER: Duration = Duration::from_millis(20);
/// Interval of deleting old events.
const CLEAR_EVERY: Duration = Duration::from_secs(3_600);

const WRITE: &str = "\
    INSERT INTO goondan.runtime_events (workspace, instance, sequence, event)
    SELECT $1, e.instance, e.sequence, e.event
    FROM unnest($2::bytea[], $3::bigint[], $4::text[]) WITH ORDINALITY AS e(instance, sequence, event, place)
    ORDER BY e.place";

const CLEAR: &str = "DELETE FROM goondan.runtime_events WHERE workspace = $1 AND written_at < now() - interval '7 days'";

enum Item {
    Event(Arc<RuntimeEvent>),
    Flush(oneshot::Sender<()>),
}

pub(crate) struct Happened {
    items: Sender<Item>,
    dropped: Arc<AtomicU64>,
}

impl Happened {
    pub(crate) fn start(access: Arc<Access>, lines: Arc<Lines>) -> Self {
        let (items, waiting) = channel(MOST_WAITING);
        let dropped = Arc::new(AtomicU64::new(0));
        tokio::spawn(write(access, lines, waiting, Arc::clone(&dropped)));
        Happened { items, dropped }
    }

    fn record(&self, event: Arc<RuntimeEvent>) {
        if self.items.try_send(Item::Event(event)).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    async fn flush(&self) {
        let (done, written) = oneshot::channel();
        if self.items.send(Item::Flush(done)).await.is_ok() {
            // A closed channel means that no writer is left.
            let _ = written.await;
        }
    }
}

async fn write(
    access: Arc<Access>,
    lines: Arc<Lines>,
    mut waiting: Receiver<Item>,
    dropped: Arc<AtomicU64>,
) {
    let mut items = Vec::new();
    let mut clear_at = tokio::time::Instant::now();
    while waiting.recv_many(&mut items, BATCH).await > 0 {
        if items.len() < BATCH && !items.iter().any(|item| matches!(item, Item::Flush(_))) {
            tokio::time::sleep(GATHER).await;
            while items.len() < BATCH
                && let Ok(item) = waiting.try_recv()
            {
                items.push(item);
            }
        }
        if let Err(error) = write_all(&access, &lines, &items).await {
            tracing::warn!(%error, events = items.len(), "runtime events were not written");
        }
        for item in items.drain(..) {
            if let Item::Flush(done) = item {
                // The caller may have stopped waiting.
                let _ = done.send(());
            }
        }
        match dropped.swap(0, Ordering::Relaxed) {
            0 => {}
            events => tracing::warn!(
                events,
                "runtime events were dropped: the database is too slow"
            ),
        }
        if tokio::time::Instant::now() >= clear_at {
            clear_at = tokio::time::Instant::now() + CLEAR_EVERY;
            if let Err(error) = lines.of(&[0]).query(CLEAR, &[&access.id]).await {
                tracing::warn!(%error, "old runtime events were not cleared");
            }
        }
    }
}

async fn write_all(access: &Access, lines: &Lines, items: &[Item]) -> Result<(), StoreError> {
    let events = items.iter().filter_map(|item| match item {
        Item::Event(event) => Some(event),
        Item::Flush(_) => None,
    });
    let (mut instances, mut sequences, mut texts): (Vec<Key>, Vec<i64>, Vec<String>) =
        Default::default();
    for event in events {
        instances.push(instance_key(&InstanceId::new(
            &*event.agent_name,
            &*event.instance_key,
        )));
        sequences.push(i64::try_from(event.sequence).unwrap_or(i64::MAX));
        texts.push(encode(&**event)?);
    }
    if texts.is_empty() {
        return Ok(());
    }
    lines
        .of(&[0])
        .query(WRITE, &[&access.id, &instances, &sequences, &texts])
        .await
        .map(drop)
}

impl PostgresStore {
    /// Waits until the recorded runtime events are written.
    pub async fn flush_events(&self) {
        if let Some(happened) = &self.happened {
            happened.flush().await;
        }
    }
}

#[async_trait]
impl EventLog for PostgresStore {
    fn record(&self, event: &Arc<RuntimeEvent>) {
        if let Some(happened) = &self.happened {
            happened.record(Arc::clone(event));
        }
    }

    async fn events(&self, id: &InstanceId, after: u64) -> Result<Vec<RuntimeEvent>, StoreError> {
        if self.access.id == 0 {
            return Ok(Vec::new());
        }
        self.flush_events().await;
        let (key, after) = (instance_key(id), i64::try_from(after).unwrap_or(i64::MAX));
        let sql = "SELECT event FROM goondan.runtime_events \
                   WHERE workspace = $1 AND instance = $2 AND sequence > $3 ORDER BY seq";
        let rows = self
            .quick
            .of(&key)
            .query(sql, &[&self.access.id, &key, &after])
            .await?;
        rows.iter()
            .map(|row| decode("a runtime event", row.get(0)))
            .collect()
    }
}

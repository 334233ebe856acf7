//! Runtime events. They are written in the background and deleted after a week.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use goondan_core::event::RuntimeEvent;
use goondan_core::ids::InstanceId;
use goondan_core::ports::store::{RuntimeEventStore, StoreError};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::oneshot;

use crate::leadership::SessionAccess;
use crate::reconnecting_session::SessionPool;
use crate::rows::{Key, decode, encode, instance_key};
use crate::store::PostgresStore;

/// Maximum number of events that wait for the database; further events are dropped.
const MAX_QUEUED_EVENTS: usize = 65_536;
/// Maximum number of events per statement.
const MAX_BATCH_EVENTS: usize = 512;
/// Time to collect events for one statement.
const BATCH_DELAY: Duration = Duration::from_millis(20);
/// Interval of deleting old events.
const CLEAR_INTERVAL: Duration = Duration::from_secs(3_600);

const WRITE: &str = "\
    INSERT INTO goondan.runtime_events (workspace, instance, sequence, event)
    SELECT $1, e.instance, e.sequence, e.event
    FROM unnest($2::bytea[], $3::bigint[], $4::text[]) WITH ORDINALITY AS e(instance, sequence, \
    event, place)
    ORDER BY e.place";

const CLEAR: &str = "DELETE FROM goondan.runtime_events WHERE workspace = $1 AND written_at < \
    now() - interval '7 days'";

enum EventWriteItem {
    Event(Arc<RuntimeEvent>),
    Flush(oneshot::Sender<()>),
}

pub(crate) struct RuntimeEventWriter {
    items: Sender<EventWriteItem>,
    dropped: Arc<AtomicU64>,
}

impl RuntimeEventWriter {
    /// Starts the task that writes runtime events in the background.
    pub(crate) fn start(access: Arc<SessionAccess>, pool: Arc<SessionPool>) -> Self {
        let (items, waiting) = channel(MAX_QUEUED_EVENTS);
        let dropped = Arc::new(AtomicU64::new(0));
        tokio::spawn(write(access, pool, waiting, Arc::clone(&dropped)));
        RuntimeEventWriter { items, dropped }
    }

    /// Queues an event; drops it if the queue is full.
    fn record(&self, event: Arc<RuntimeEvent>) {
        if self.items.try_send(EventWriteItem::Event(event)).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until all queued events are written.
    async fn flush(&self) {
        let (done, written) = oneshot::channel();
        if self.items.send(EventWriteItem::Flush(done)).await.is_ok() {
            // A closed channel means that no writer is left.
            let _ = written.await;
        }
    }
}

/// Writes queued events in batches until the queue closes. Events of a failed batch are lost.
async fn write(
    access: Arc<SessionAccess>,
    pool: Arc<SessionPool>,
    mut waiting: Receiver<EventWriteItem>,
    dropped: Arc<AtomicU64>,
) {
    let mut items = Vec::new();
    let mut clear_at = tokio::time::Instant::now();
    while waiting.recv_many(&mut items, MAX_BATCH_EVENTS).await > 0 {
        if items.len() < MAX_BATCH_EVENTS
            && !items
                .iter()
                .any(|item| matches!(item, EventWriteItem::Flush(_)))
        {
            tokio::time::sleep(BATCH_DELAY).await;
            while items.len() < MAX_BATCH_EVENTS
                && let Ok(item) = waiting.try_recv()
            {
                items.push(item);
            }
        }
        if let Err(error) = write_all(&access, &pool, &items).await {
            tracing::warn!(%error, events = items.len(), "could not write runtime events; they \
                are missing from the log");
        }
        for item in items.drain(..) {
            if let EventWriteItem::Flush(done) = item {
                // The caller may have stopped waiting.
                let _ = done.send(());
            }
        }
        match dropped.swap(0, Ordering::Relaxed) {
            0 => {}
            events => tracing::warn!(
                events,
                "the database is too slow; runtime events are missing from the log"
            ),
        }
        if tokio::time::Instant::now() >= clear_at {
            clear_at = tokio::time::Instant::now() + CLEAR_INTERVAL;
            if let Err(error) = pool.workspace_session().query(CLEAR, &[&access.id]).await {
                tracing::warn!(%error, "could not delete old runtime events; retrying later");
            }
        }
    }
}

/// Writes the events of one batch; ignores flush requests.
async fn write_all(
    access: &SessionAccess,
    pool: &SessionPool,
    items: &[EventWriteItem],
) -> Result<(), StoreError> {
    let events = items.iter().filter_map(|item| match item {
        EventWriteItem::Event(event) => Some(event),
        EventWriteItem::Flush(_) => None,
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
    pool.workspace_session()
        .query(WRITE, &[&access.id, &instances, &sequences, &texts])
        .await
        .map(drop)
}

impl PostgresStore {
    /// Waits until the recorded runtime events are written.
    pub async fn flush_events(&self) {
        if let Some(runtime_event_writer) = &self.runtime_event_writer {
            runtime_event_writer.flush().await;
        }
    }
}

#[async_trait]
impl RuntimeEventStore for PostgresStore {
    fn record(&self, event: &Arc<RuntimeEvent>) {
        if let Some(runtime_event_writer) = &self.runtime_event_writer {
            runtime_event_writer.record(Arc::clone(event));
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
            .session_for(&key)
            .query(sql, &[&self.access.id, &key, &after])
            .await?;
        rows.iter()
            .map(|row| decode("a runtime event", row.get(0)))
            .collect()
    }
}

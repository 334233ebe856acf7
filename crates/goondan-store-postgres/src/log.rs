//! The log of accepted and finished events.
//!
//! One task writes all records in order. Waiting records share a transaction, and therefore a sync.

use std::sync::Arc;

use async_trait::async_trait;
use goondan_core::agent_event::AgentEvent;
use goondan_core::ids::InstanceId;
use goondan_core::ports::store::{
    DurabilityResolver, DurabilityTicket, FinishedTurn, HandledEvent, LogRecord, RecoveredState,
    StoreError, TurnRemains, WorkspaceLog, put_begun_first,
};
use goondan_core::result_cache::EncodedResult;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::reconnecting_session::ReconnectingSession;
use crate::rows::{Key, decode, encode, instance_key, key, store_error};
use crate::session::{DatabaseSession, DbError, HEARTBEAT_INTERVAL};
use crate::store::PostgresStore;

/// Maximum number of records per transaction.
const MAX_BATCH_RECORDS: usize = 256;

/// Number of handled events to remember in addition to those still needed.
const MAX_HANDLED_EVENTS: i64 = 10_000;

/// Number of newly handled events after which obsolete ones are deleted.
const TRIM_THRESHOLD: usize = 1_000;

/// Accepts an event unless it is pending already. One that was handled long ago counts as new.
const ACCEPT: &str = "\
    WITH new AS (
        INSERT INTO goondan.pending (workspace, id, target, asked_by, asked_key, event)
        VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING RETURNING 1
    ), old AS (
        DELETE FROM goondan.handled WHERE workspace = $1 AND id = $2 AND EXISTS (SELECT 1 FROM new)
    )
    UPDATE goondan.conversations SET last_turn = NULL
    WHERE workspace = $1 AND instance = $3 AND last_turn = $7 AND EXISTS (SELECT 1 FROM new)";

const WITHDRAW: &str = "DELETE FROM goondan.pending WHERE workspace = $1 AND id = $2";

/// Ends a turn in the log, if the preceding `go` has a row. The parameters are those of [`Done`].
/// All events of a turn have one target. The statement is planned once (`session.rs`), perhaps
/// while the tables are almost empty. Its form therefore leaves one choice: each part finds its
/// rows through one index. `workspace + 0` prevents the use of another index.
macro_rules! done {
    () => {
        "
        taken AS (
            DELETE FROM goondan.pending p USING go WHERE p.ctid = ANY (ARRAY (
                SELECT (SELECT q.ctid FROM goondan.pending q WHERE q.workspace = $1 AND q.id = e.id)
                FROM unnest($2::bytea[]) AS e(id)
            ))
            RETURNING p.id, p.target, p.asked_by, p.asked_key
        ), released AS (
            UPDATE goondan.handled SET needed_by = NULL, needed_key = NULL
            WHERE needed_key = (SELECT target FROM taken LIMIT 1) AND workspace + 0 = $1 AND id <> \
        ALL($2)
        ), kept AS (
            INSERT INTO goondan.handled (workspace, id, event_id, result, needed_by, needed_key)
            SELECT $1, e.id, e.event_id, $4::text, CASE WHEN w.waits THEN w.by END, CASE WHEN \
        w.waits THEN w.key END
            FROM go, unnest($2::bytea[], $3::text[]) WITH ORDINALITY AS e(id, event_id, place)
            LEFT JOIN taken t ON t.id = e.id
            CROSS JOIN LATERAL (
                SELECT coalesce(t.asked_by, $5::text) AS by, coalesce(t.asked_key, $6::bytea) AS \
        key, coalesce((
                    SELECT true FROM goondan.pending q
                    WHERE q.target = coalesce(t.asked_key, $6) AND q.workspace + 0 = $1 AND q.id \
        <> ALL($2) LIMIT 1
                ), false) AS waits OFFSET 0
            ) w
            ORDER BY e.place
            ON CONFLICT (workspace, id) DO UPDATE
            SET result = excluded.result, needed_by = excluded.needed_by, needed_key = \
        excluded.needed_key
        ), answered AS (
            INSERT INTO goondan.pending (workspace, id, target, asked_by, asked_key, event)
            SELECT $1, $7::bytea, $8::bytea, $9::text, $10::bytea, $11::text FROM go WHERE \
        $7::bytea IS NOT NULL ON CONFLICT DO NOTHING
        )"
    };
}
pub(crate) use done;

const DONE: &str = concat!("WITH go AS (SELECT 1), ", done!(), " SELECT 1");

const TRIM: &str = "\
    DELETE FROM goondan.handled WHERE workspace = $1 AND needed_key IS NULL AND seq <= (
        SELECT seq FROM goondan.handled WHERE workspace = $1 AND needed_key IS NULL ORDER BY seq \
    DESC OFFSET $2 LIMIT 1
    )";

/// An event as columns of `pending`.
pub(crate) struct EventRow {
    id: Key,
    target: Key,
    asked_by: Option<String>,
    asked_key: Option<Key>,
    event: String,
}

impl EventRow {
    /// Encodes an accepted event for the database.
    fn from_event(event: &AgentEvent) -> Result<Self, StoreError> {
        Ok(EventRow {
            id: key(&[&event.id]),
            target: instance_key(&event.target),
            asked_by: event.caller().map(encode).transpose()?,
            asked_key: event.caller().map(instance_key),
            event: encode(event)?,
        })
    }
}

/// A finished turn as parameters of `done`.
pub(crate) struct FinishedTurnRow {
    pub(crate) ids: Vec<Key>,
    pub(crate) event_ids: Vec<String>,
    pub(crate) result: String,
    pub(crate) asked_by: Option<String>,
    pub(crate) asked_key: Option<Key>,
    pub(crate) answer: AnswerRow,
}

/// The answer of a turn, if any.
#[derive(Default)]
pub(crate) struct AnswerRow {
    pub(crate) id: Option<Key>,
    pub(crate) target: Option<Key>,
    pub(crate) asked_by: Option<String>,
    pub(crate) asked_key: Option<Key>,
    pub(crate) event: Option<String>,
}

impl FinishedTurnRow {
    /// Encodes a finished turn for the database.
    pub(crate) fn from_turn(turn: &FinishedTurn) -> Result<Self, StoreError> {
        let answer = turn.answer.as_ref().map(EventRow::from_event).transpose()?;
        let answer = answer.map_or_else(AnswerRow::default, |row| AnswerRow {
            id: Some(row.id),
            target: Some(row.target),
            asked_by: row.asked_by,
            asked_key: row.asked_key,
            event: Some(row.event),
        });
        Ok(FinishedTurnRow {
            ids: turn.event_ids.iter().map(|id| key(&[id])).collect(),
            event_ids: turn
                .event_ids
                .iter()
                .map(encode)
                .collect::<Result<_, _>>()?,
            result: encode(&turn.result)?,
            asked_by: turn.asked_by.as_ref().map(encode).transpose()?,
            asked_key: turn.asked_by.as_ref().map(instance_key),
            answer,
        })
    }
}

/// Writes records. When dropped, it writes the appended records and ends.
pub(crate) struct RecordWriter(UnboundedSender<(LogRecord, DurabilityResolver)>);

impl RecordWriter {
    /// Starts the task that writes the records of the workspace log.
    pub(crate) fn start(connection: Arc<ReconnectingSession>, workspace: i64) -> Self {
        let (records, waiting) = unbounded_channel();
        tokio::spawn(write(connection, workspace, waiting));
        RecordWriter(records)
    }

    /// Queues a record and returns the ticket that reports when it is durable.
    fn append(&self, record: LogRecord) -> DurabilityTicket {
        let (receipt, ticket) = DurabilityTicket::new();
        // If the runtime has ended, the ticket reports that the store is closed.
        let _ = self.0.send((record, receipt));
        ticket
    }
}

/// Writes queued records until the sender is dropped.
async fn write(
    connection: Arc<ReconnectingSession>,
    id: i64,
    mut waiting: UnboundedReceiver<(LogRecord, DurabilityResolver)>,
) {
    let mut batch = Vec::new();
    let mut done = 0;
    loop {
        let beat = tokio::time::sleep(HEARTBEAT_INTERVAL);
        tokio::select! {
            count = waiting.recv_many(&mut batch, MAX_BATCH_RECORDS) => if count == 0 { return },
            () = beat => {
                // The next record reports a failure.
                let _ = connection.send_heartbeat().await;
                continue;
            }
        }
        let (records, receipts): (Vec<_>, Vec<_>) = batch.drain(..).unzip();
        let written = write_batch(&connection, id, &records).await;
        for receipt in receipts {
            receipt.settle(written.clone());
        }
        done += records
            .iter()
            .filter(|record| matches!(record, LogRecord::Done(_)))
            .count();
        if done >= TRIM_THRESHOLD {
            done = 0;
            trim_handled(&connection, id).await;
        }
    }
}

/// Writes records in one transaction. A batch with an unknown result is written again, which has no
/// further effect.
async fn write_batch(
    connection: &ReconnectingSession,
    id: i64,
    records: &[LogRecord],
) -> Result<(), StoreError> {
    let mut tries = 0;
    loop {
        let session = connection.session().await?;
        match write_transaction(&session, id, records).await? {
            Ok(()) => return Ok(()),
            Err(error) if error.is_refusal() || tries >= 3 => {
                connection.close().await;
                return Err(store_error(error));
            }
            Err(_) => tries += 1,
        }
    }
}

type Written = Result<(), DbError>;

/// Writes records in one transaction. The inner result is the error of the database, which the
/// caller may retry.
async fn write_transaction(
    session: &DatabaseSession,
    id: i64,
    records: &[LogRecord],
) -> Result<Written, StoreError> {
    if let [only] = records {
        return record(session, id, only).await;
    }
    if let Err(error) = session.run("BEGIN").await {
        return Ok(Err(error));
    }
    // Pipelined: the answers arrive in the order of the statements.
    let results =
        futures::future::join_all(records.iter().map(|one| record(session, id, one))).await;
    for written in results {
        if let Err(error) = written? {
            // The caller ends the session, which rolls the transaction back.
            return Ok(Err(error));
        }
    }
    Ok(session.run("COMMIT").await)
}

/// Writes one record. The inner result is the error of the database.
async fn record(
    session: &DatabaseSession,
    id: i64,
    record: &LogRecord,
) -> Result<Written, StoreError> {
    let written = match record {
        LogRecord::Accepted(event) => {
            let row = EventRow::from_event(event)?;
            let turn_id = encode(&event.turn_id())?;
            session
                .query(
                    ACCEPT,
                    &[
                        &id,
                        &row.id,
                        &row.target,
                        &row.asked_by,
                        &row.asked_key,
                        &row.event,
                        &turn_id,
                    ],
                )
                .await
        }
        LogRecord::Withdrawn { event_id, .. } => {
            session.query(WITHDRAW, &[&id, &key(&[event_id])]).await
        }
        LogRecord::Done(turn) => {
            let FinishedTurnRow {
                ids,
                event_ids,
                result,
                asked_by,
                asked_key,
                answer: a,
            } = FinishedTurnRow::from_turn(turn)?;
            session
                .query(
                    DONE,
                    &[
                        &id,
                        &ids,
                        &event_ids,
                        &result,
                        &asked_by,
                        &asked_key,
                        &a.id,
                        &a.target,
                        &a.asked_by,
                        &a.asked_key,
                        &a.event,
                    ],
                )
                .await
        }
    };
    Ok(written.map(drop))
}

/// Deletes old handled events.
async fn trim_handled(connection: &ReconnectingSession, id: i64) {
    if let Err(error) = connection.query(TRIM, &[&id, &MAX_HANDLED_EVENTS]).await {
        tracing::warn!(%error, "could not delete old turn results; a later turn retries");
    }
}

#[async_trait]
impl WorkspaceLog for PostgresStore {
    async fn recover(&self) -> Result<RecoveredState, StoreError> {
        let connection = self.durable.workspace_session();
        let id = self.access.id;
        connection.query(TRIM, &[&id, &MAX_HANDLED_EVENTS]).await?;
        let mut recovered = RecoveredState::default();
        let sql = "SELECT event FROM goondan.pending WHERE workspace = $1 ORDER BY seq";
        for row in connection.query(sql, &[&id]).await? {
            recovered
                .pending
                .push(decode("an accepted event", row.get(0))?);
        }
        let sql = "SELECT event_id, result, needed_by FROM goondan.handled WHERE workspace = $1 \
            ORDER BY seq";
        for row in connection.query(sql, &[&id]).await? {
            let needed_by: Option<&str> = row.get(2);
            recovered.handled.push(HandledEvent {
                event_id: decode("the id of an event", row.get(0))?,
                result: EncodedResult::encode(&decode("the result of an event", row.get(1))?),
                needed_by: needed_by
                    .map(|by| decode("the name of an instance", by))
                    .transpose()?,
            });
        }
        let begun = self.unfinished_turns(connection).await?;
        put_begun_first(&mut recovered, |id: &InstanceId| {
            begun.turn_remains(&instance_key(id))
        });
        Ok(recovered)
    }

    fn append(&self, record: LogRecord) -> DurabilityTicket {
        match &self.writer {
            Some(writer) => writer.append(record),
            None => DurabilityTicket::settled(Err(StoreError::Closed)),
        }
    }
}

struct UnfinishedTurns {
    journals: Vec<(Key, String)>,
    events: Vec<(Key, goondan_core::message::MessageEvent)>,
}

impl UnfinishedTurns {
    /// Returns what an interrupted turn of an instance left in its journal and events.
    fn turn_remains(&self, instance: &[u8]) -> TurnRemains {
        let journal = self.journals.iter().find(|(key, _)| key == instance);
        let events = self
            .events
            .iter()
            .filter(|(key, _)| key == instance)
            .map(|(_, event)| event);
        TurnRemains {
            journal: journal.map(|(_, turn_id)| turn_id.clone()),
            ..TurnRemains::in_events(events)
        }
    }
}

impl PostgresStore {
    /// Reads the journals and events of all turns that have not finished.
    async fn unfinished_turns(
        &self,
        connection: &ReconnectingSession,
    ) -> Result<UnfinishedTurns, StoreError> {
        let id = self.access.id;
        let mut unfinished = UnfinishedTurns {
            journals: Vec::new(),
            events: Vec::new(),
        };
        let sql = "SELECT DISTINCT instance, turn_id FROM goondan.journal WHERE workspace = $1";
        for row in connection.query(sql, &[&id]).await? {
            unfinished
                .journals
                .push((row.get(0), decode("the id of a turn", row.get(1))?));
        }
        let sql =
            "SELECT instance, event FROM goondan.turn_events WHERE workspace = $1 ORDER BY seq";
        for row in connection.query(sql, &[&id]).await? {
            unfinished.events.push((
                row.get(0),
                decode("an event of a conversation", row.get(1))?,
            ));
        }
        Ok(unfinished)
    }
}

//! Conversations. Each statement is atomic and checks the lease of its instance.

use std::sync::Arc;

use async_trait::async_trait;
use goondan_core::ids::InstanceId;
use goondan_core::message::{Message, MessageEvent};
use goondan_core::ports::store::{
    BaseChange, ConversationStore, FinishedTurn, InstanceLease, InstanceMeta, OpenConversation,
    StoreError, StoredConversation,
};

use crate::log::{FinishedTurnRow, done};
use crate::rows::{Key, decode, encode, instance_key};
use crate::store::{PostgresStore, StoreParts};

const CLAIM: &str = "\
    INSERT INTO goondan.conversations (workspace, instance, epoch) VALUES ($1, $2, \
    nextval('goondan.epochs'))
    ON CONFLICT (workspace, instance) DO UPDATE SET epoch = nextval('goondan.epochs') RETURNING \
    epoch";

/// Selects the base messages and the events in one snapshot. The first column is true for events.
const READ: &str = "\
    SELECT false, seq, message FROM goondan.messages WHERE workspace = $1 AND instance = $2
    UNION ALL SELECT true, seq, event FROM goondan.turn_events WHERE workspace = $1 AND instance = \
    $2
    ORDER BY 1, 2";

const EXTENT: &str = "\
    SELECT (SELECT count(*) FROM goondan.messages WHERE workspace = $1 AND instance = $2),
    EXISTS (SELECT 1 FROM goondan.turn_events WHERE workspace = $1 AND instance = $2)";

/// Selects a row if the lease is valid.
macro_rules! held {
    () => {
        "WITH held AS (
            SELECT 1 FROM goondan.conversations WHERE workspace = $1 AND instance = $2 AND epoch = \
        $3 FOR UPDATE
        )"
    };
}

const APPEND: &str = concat!(
    held!(),
    ", new AS (INSERT INTO goondan.turn_events (workspace, instance, event) SELECT $1, $2, \
    $4::text FROM held)
    SELECT 1 FROM held"
);

const DISCARD: &str = concat!(
    held!(),
    ", old AS (DELETE FROM goondan.turn_events e USING held WHERE e.workspace = $1 AND e.instance \
    = $2)
    SELECT 1 FROM held"
);

const FOLD: &str = concat!(
    held!(),
    ", old AS (DELETE FROM goondan.turn_events e USING held WHERE e.workspace = $1 AND e.instance \
    = $2),
    gone AS (DELETE FROM goondan.messages m USING held WHERE $4 AND m.workspace = $1 AND \
    m.instance = $2),
    new AS (
        INSERT INTO goondan.messages (workspace, instance, message)
        SELECT $1, $2, n.message FROM held, unnest($5::text[]) WITH ORDINALITY AS n(message, \
    place) ORDER BY n.place
    )
    SELECT 1 FROM held"
);

/// Ends a turn. The row of the conversation makes a repetition for the same turn a no-op;
/// concurrent attempts wait for its lock.
const END_TURN: &str = concat!(
    "WITH go AS (
        UPDATE goondan.conversations SET last_turn = $14
        WHERE workspace = $1 AND instance = $12 AND epoch = $13 AND last_turn IS DISTINCT FROM $14 \
    RETURNING 1
    ), ",
    done!(),
    ", old AS (DELETE FROM goondan.turn_events e USING go WHERE e.workspace = $1 AND e.instance = \
    $12),
    journal AS (DELETE FROM goondan.journal j USING go WHERE j.workspace = $1 AND j.instance = $12),
    gone AS (DELETE FROM goondan.messages m USING go WHERE $15 AND m.workspace = $1 AND m.instance \
    = $12),
    new AS (
        INSERT INTO goondan.messages (workspace, instance, message)
        SELECT $1, $12, n.message FROM go, unnest($16::text[]) WITH ORDINALITY AS n(message, \
    place) ORDER BY n.place
    ), known AS (
        INSERT INTO goondan.instances (workspace, instance, meta) SELECT $1, $12, $17::text FROM go
        ON CONFLICT (workspace, instance) DO UPDATE SET meta = excluded.meta
    )
    SELECT 1 FROM go"
);

const WAS_ENDED: &str = "\
    SELECT 1 FROM goondan.conversations WHERE workspace = $1 AND instance = $2 AND epoch = $3 AND \
    last_turn = $4";

#[async_trait]
impl ConversationStore for PostgresStore {
    async fn claim(&self, id: &InstanceId) -> Result<InstanceLease, StoreError> {
        self.check_writable()?;
        let key = instance_key(id);
        let rows = self
            .quick
            .session_for(&key)
            .query(CLAIM, &[&self.access.id, &key])
            .await?;
        let epoch = rows.first().map_or(0, |row| row.get::<_, i64>(0));
        Ok(InstanceLease {
            instance: id.clone(),
            epoch: epoch.unsigned_abs(),
        })
    }

    async fn open(&self, lease: InstanceLease) -> Result<Box<dyn OpenConversation>, StoreError> {
        self.check_writable()?;
        let (key, epoch) = (
            instance_key(&lease.instance),
            i64::try_from(lease.epoch).unwrap_or(i64::MAX),
        );
        Ok(Box::new(PostgresConversation {
            parts: self.parts(),
            instance: lease.instance,
            key,
            epoch,
        }))
    }

    async fn read(&self, id: &InstanceId) -> Result<StoredConversation, StoreError> {
        read(&self.parts(), &instance_key(id)).await
    }
}

impl PostgresStore {
    /// Returns the number of base messages of a conversation, and `true` if a turn of it is running or
    /// was interrupted. Returns `(0, false)` if it is not stored.
    pub async fn extent(&self, id: &InstanceId) -> Result<(usize, bool), StoreError> {
        let key = instance_key(id);
        let rows = self
            .quick
            .session_for(&key)
            .query(EXTENT, &[&self.access.id, &key])
            .await?;
        let extent = rows.first().map(|row| {
            (
                usize::try_from(row.get::<_, i64>(0)).unwrap_or_default(),
                row.get(1),
            )
        });
        Ok(extent.unwrap_or_default())
    }
}

/// Reads the messages and events of a conversation; both are empty if it is not stored.
async fn read(parts: &StoreParts, key: &Key) -> Result<StoredConversation, StoreError> {
    let mut stored = StoredConversation::default();
    // 0: the workspace does not exist.
    if parts.access.id == 0 {
        return Ok(stored);
    }
    for row in parts
        .quick
        .session_for(key)
        .query(READ, &[&parts.access.id, key])
        .await?
    {
        let is_event: bool = row.get(0);
        match is_event {
            false => stored.base.push(decode("a message", row.get(2))?),
            true => stored
                .events
                .push(decode("an event of a conversation", row.get(2))?),
        }
    }
    Ok(stored)
}

/// A conversation that this process may change while its lease is valid.
struct PostgresConversation {
    parts: StoreParts,
    instance: InstanceId,
    key: Key,
    /// Epoch of the lease. A newer claim of the conversation invalidates it.
    epoch: i64,
}

impl PostgresConversation {
    /// Fails if `rows` is empty, because the statement then found no valid lease.
    fn check_lease(&self, rows: &[tokio_postgres::Row]) -> Result<(), StoreError> {
        match rows.is_empty() {
            true => Err(StoreError::Fenced(self.instance.clone())),
            false => Ok(()),
        }
    }
}

/// Returns the encoded messages, and before them `true` if they replace the base messages.
fn encode_base_change(fold: BaseChange<'_>) -> Result<(bool, Vec<String>), StoreError> {
    let (is_whole, messages) = match fold {
        BaseChange::Append(messages) => (false, messages),
        BaseChange::Rewrite(messages) => (true, messages),
    };
    let messages: Result<_, _> = messages
        .iter()
        .map(|message: &Arc<Message>| encode(&**message))
        .collect();
    Ok((is_whole, messages?))
}

#[async_trait]
impl OpenConversation for PostgresConversation {
    async fn load(&mut self) -> Result<StoredConversation, StoreError> {
        read(&self.parts, &self.key).await
    }

    async fn append(&mut self, event: &MessageEvent) -> Result<(), StoreError> {
        let event = encode(event)?;
        let session = self.parts.quick.session_for(&self.key);
        let rows = session
            .query(
                APPEND,
                &[&self.parts.access.id, &self.key, &self.epoch, &event],
            )
            .await?;
        self.check_lease(&rows)
    }

    async fn discard_events(&mut self) -> Result<(), StoreError> {
        let session = self.parts.quick.session_for(&self.key);
        let rows = session
            .query(DISCARD, &[&self.parts.access.id, &self.key, &self.epoch])
            .await?;
        self.check_lease(&rows)
    }

    async fn checkpoint(&mut self, fold: BaseChange<'_>) -> Result<(), StoreError> {
        let (is_whole, messages) = encode_base_change(fold)?;
        let session = self.parts.durable.session_for(&self.key);
        let values: [&(dyn tokio_postgres::types::ToSql + Sync); 5] = [
            &self.parts.access.id,
            &self.key,
            &self.epoch,
            &is_whole,
            &messages,
        ];
        let rows = session.query(FOLD, &values).await?;
        self.check_lease(&rows)
    }

    async fn end_turn(
        &mut self,
        turn: FinishedTurn,
        fold: BaseChange<'_>,
        meta: InstanceMeta,
    ) -> Result<bool, StoreError> {
        let (is_whole, messages) = encode_base_change(fold)?;
        let (turn_id, meta) = (encode(&turn.turn_id)?, encode(&meta)?);
        let FinishedTurnRow {
            ids,
            event_ids,
            result,
            asked_by,
            asked_key,
            answer: a,
        } = FinishedTurnRow::from_turn(&turn)?;
        let id = self.parts.access.id;
        let session = self.parts.durable.session_for(&self.key);
        let values: [&(dyn tokio_postgres::types::ToSql + Sync); 17] = [
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
            &self.key,
            &self.epoch,
            &turn_id,
            &is_whole,
            &messages,
            &meta,
        ];
        let rows = session.query_with_retry(END_TURN, &values).await?;
        let has_ended = !rows.is_empty();
        if !has_ended {
            // Either the turn had already ended and only the answer was lost, or another node has
            // claimed the instance.
            self.check_lease(
                &session
                    .query_with_retry(WAS_ENDED, &[&id, &self.key, &self.epoch, &turn_id])
                    .await?,
            )?;
        }
        self.parts.journals.mark_ended(&self.key);
        Ok(has_ended)
    }
}

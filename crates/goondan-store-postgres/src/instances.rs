//! Instances and their records.

use async_trait::async_trait;
use goondan_core::ids::InstanceId;
use goondan_core::ports::store::{
    InstanceMeta, InstanceStatus, InstanceStore, RecordStore, RecordVersion, StoreError,
    VersionedRecord,
};
use serde_json::Value;

use crate::rows::{decode, encode, instance_key, key};
use crate::store::PostgresStore;

const PUT: &str = "\
    INSERT INTO goondan.instances (workspace, instance, meta) VALUES ($1, $2, $3)
    ON CONFLICT (workspace, instance) DO UPDATE SET meta = excluded.meta";

/// Number of idle instances to keep in memory outside the store. Looking up any other takes one
/// statement.
const MAX_REMEMBERED_INSTANCES: usize = 1_024;

const INSTANCES_AFTER: &str = "\
    SELECT meta FROM goondan.instances WHERE workspace = $1 AND instance > $2 ORDER BY workspace, \
    instance LIMIT 500";

/// Keeps the conversation row with its epoch, so that an earlier claim cannot become valid again.
const DELETE: &str = "\
    WITH base AS (DELETE FROM goondan.messages WHERE workspace = $1 AND instance = $2),
    events AS (DELETE FROM goondan.turn_events WHERE workspace = $1 AND instance = $2),
    journal AS (DELETE FROM goondan.journal WHERE workspace = $1 AND instance = $2),
    records AS (DELETE FROM goondan.records WHERE workspace = $1 AND instance = $2),
    happened AS (DELETE FROM goondan.runtime_events WHERE workspace = $1 AND instance = $2)
    DELETE FROM goondan.instances WHERE workspace = $1 AND instance = $2 RETURNING 1";

const MAKE_RECORD: &str = "\
    INSERT INTO goondan.records (workspace, instance, name_key, who, version, value)
    VALUES ($1, $2, $3, $4, nextval('goondan.record_versions'), $5) ON CONFLICT DO NOTHING \
    RETURNING 1";

const CHANGE_RECORD: &str = "\
    UPDATE goondan.records SET version = nextval('goondan.record_versions'), value = $5
    WHERE workspace = $1 AND instance = $2 AND name_key = $3 AND version = $4 RETURNING 1";

#[async_trait]
impl InstanceStore for PostgresStore {
    async fn instances(&self) -> Result<Vec<InstanceMeta>, StoreError> {
        if self.access.id == 0 {
            return Ok(Vec::new());
        }
        let sql = "SELECT meta FROM goondan.instances WHERE workspace = $1";
        let rows = self
            .quick
            .workspace_session()
            .query(sql, &[&self.access.id])
            .await?;
        rows.iter().map(decode_meta).collect()
    }

    async fn instances_behind(
        &self,
        after: Option<&InstanceId>,
    ) -> Result<Vec<InstanceMeta>, StoreError> {
        // Every key sorts after the empty key.
        let previous_key = after.map(instance_key).unwrap_or_default();
        let rows = self
            .quick
            .workspace_session()
            .query(INSTANCES_AFTER, &[&self.access.id, &previous_key])
            .await?;
        rows.iter().map(decode_meta).collect()
    }

    async fn instance(&self, id: &InstanceId) -> Result<Option<InstanceMeta>, StoreError> {
        let key = instance_key(id);
        let sql = "SELECT meta FROM goondan.instances WHERE workspace = $1 AND instance = $2";
        let rows = self
            .quick
            .session_for(&key)
            .query(sql, &[&self.access.id, &key])
            .await?;
        rows.first().map(decode_meta).transpose()
    }

    fn remembered_outside(&self) -> Option<usize> {
        // Tests use the minimum, so that instances are looked up as often as possible.
        Some(if cfg!(debug_assertions) {
            1
        } else {
            MAX_REMEMBERED_INSTANCES
        })
    }

    async fn put_instance(&self, meta: &InstanceMeta) -> Result<(), StoreError> {
        self.check_writable()?;
        let key = instance_key(&meta.id());
        // The settings of a spawned instance are stored nowhere else. The rest can be rebuilt from
        // the event that the instance processes.
        let is_quick = meta.status == InstanceStatus::Processing
            && meta.cwd.is_none()
            && meta.narrowing.is_none();
        let pool = if is_quick { &self.quick } else { &self.durable };
        pool.session_for(&key)
            .query(PUT, &[&self.access.id, &key, &encode(meta)?])
            .await
            .map(drop)
    }

    async fn delete_instance(&self, id: &InstanceId) -> Result<bool, StoreError> {
        self.check_writable()?;
        let key = instance_key(id);
        self.journals.forget(&key);
        let rows = self
            .durable
            .session_for(&key)
            .query(DELETE, &[&self.access.id, &key])
            .await?;
        Ok(!rows.is_empty())
    }
}

#[async_trait]
impl RecordStore for PostgresStore {
    async fn get(
        &self,
        id: &InstanceId,
        name: &str,
    ) -> Result<Option<VersionedRecord>, StoreError> {
        if self.access.id == 0 {
            return Ok(None);
        }
        let instance = instance_key(id);
        let sql = "SELECT value, version FROM goondan.records \
                   WHERE workspace = $1 AND instance = $2 AND name_key = $3";
        let rows = self
            .quick
            .session_for(&instance)
            .query(sql, &[&self.access.id, &instance, &key(&[name])])
            .await?;
        rows.first()
            .map(|row| record(row.get(0), row.get(1)))
            .transpose()
    }

    async fn put(
        &self,
        id: &InstanceId,
        name: &str,
        value: &Value,
        expected: Option<RecordVersion>,
    ) -> Result<bool, StoreError> {
        self.check_writable()?;
        let (instance, value, who) = (instance_key(id), encode(value)?, encode(id)?);
        let connection = self.durable.session_for(&instance);
        let rows = match expected.map(|version| i64::try_from(version).unwrap_or(i64::MAX)) {
            None => {
                connection
                    .query(
                        MAKE_RECORD,
                        &[&self.access.id, &instance, &key(&[name]), &who, &value],
                    )
                    .await?
            }
            Some(version) => {
                connection
                    .query(
                        CHANGE_RECORD,
                        &[&self.access.id, &instance, &key(&[name]), &version, &value],
                    )
                    .await?
            }
        };
        Ok(!rows.is_empty())
    }

    async fn all_records(
        &self,
        name: &str,
    ) -> Result<Vec<(InstanceId, VersionedRecord)>, StoreError> {
        if self.access.id == 0 {
            return Ok(Vec::new());
        }
        let sql = "SELECT who, value, version FROM goondan.records WHERE workspace = $1 AND \
            name_key = $2";
        let rows = self
            .quick
            .workspace_session()
            .query(sql, &[&self.access.id, &key(&[name])])
            .await?;
        let record_of_row = |row: &tokio_postgres::Row| {
            Ok((
                decode("the name of an instance", row.get(0))?,
                record(row.get(1), row.get(2))?,
            ))
        };
        rows.iter().map(record_of_row).collect()
    }
}

/// Decodes the metadata of an instance from the first column.
fn decode_meta(row: &tokio_postgres::Row) -> Result<InstanceMeta, StoreError> {
    decode("the metadata of an instance", row.get(0))
}

/// Decodes a record from its JSON text and its version number.
fn record(value: &str, version: i64) -> Result<VersionedRecord, StoreError> {
    Ok(VersionedRecord {
        value: decode("a record", value)?,
        version: version.unsigned_abs(),
    })
}

//! The tables and their migrations.

use crate::rows::lock_key;
use crate::session::{DatabaseSession, DbError};

/// The migrations in order, one per version of the tables.
const SCHEMA_STEPS: [&str; 3] = [
    include_str!("schema/1.sql"),
    include_str!("schema/2.sql"),
    include_str!("schema/3.sql"),
];

#[derive(Debug, thiserror::Error)]
pub(crate) enum SchemaError {
    #[error(transparent)]
    Db(#[from] DbError),
    /// The tables were created by a newer program.
    #[error("its tables have version {found}, but this gdn supports at most version {}: a newer \
        gdn has used the database", SCHEMA_STEPS.len())]
    Newer {
        /// Version of the existing tables.
        found: usize,
    },
    /// The tables were created by an older program, and no node of this version has migrated them.
    #[error("its tables have version {found}, but this gdn needs version {}: start a node of this \
        gdn to migrate them", SCHEMA_STEPS.len())]
    Older {
        /// Version of the existing tables.
        found: usize,
    },
}

/// Creates or migrates the tables. Several nodes may do so concurrently.
pub(crate) async fn prepare(session: &DatabaseSession) -> Result<(), SchemaError> {
    if version(session).await? == SCHEMA_STEPS.len() {
        return Ok(());
    }
    session
        .query_without_timeout("SELECT pg_advisory_lock($1)", &[&lock_key("tables", "")])
        .await?;
    // If the migration fails, the lock ends with the session.
    apply_missing_steps(session).await?;
    session
        .query("SELECT pg_advisory_unlock($1)", &[&lock_key("tables", "")])
        .await?;
    Ok(())
}

/// Applies the schema steps that the database does not have yet. Fails if the database has a newer
/// version.
async fn apply_missing_steps(session: &DatabaseSession) -> Result<(), SchemaError> {
    let found = version(session).await?;
    if found > SCHEMA_STEPS.len() {
        return Err(SchemaError::Newer { found });
    }
    // One batch, so that no reader sees an intermediate version.
    let missing: String = SCHEMA_STEPS
        .iter()
        .enumerate()
        .skip(found)
        .map(|(number, step)| with_version_record(step, number + 1))
        .collect();
    if !missing.is_empty() {
        session.run(&format!("BEGIN; {missing}COMMIT")).await?;
    }
    Ok(())
}

/// Returns a migration that also records its version.
fn with_version_record(step: &str, version: usize) -> String {
    format!("{step}; INSERT INTO goondan.versions (version) VALUES ({version}); ")
}

/// Returns true if the tables exist. Other versions are an error, because only [`prepare`] may
/// migrate them.
pub(crate) async fn exists(session: &DatabaseSession) -> Result<bool, SchemaError> {
    match version(session).await? {
        0 => Ok(false),
        found if found < SCHEMA_STEPS.len() => Err(SchemaError::Older { found }),
        found if found > SCHEMA_STEPS.len() => Err(SchemaError::Newer { found }),
        _ => Ok(true),
    }
}

/// Returns the version of the tables; 0 if they do not exist.
async fn version(session: &DatabaseSession) -> Result<usize, DbError> {
    let exists = session
        .query("SELECT to_regclass('goondan.versions') IS NOT NULL", &[])
        .await?;
    if !exists.first().is_some_and(|row| row.get::<_, bool>(0)) {
        return Ok(0);
    }
    let rows = session
        .query(
            "SELECT coalesce(max(version), 0) FROM goondan.versions",
            &[],
        )
        .await?;
    Ok(rows
        .first()
        .and_then(|row| usize::try_from(row.get::<_, i32>(0)).ok())
        .unwrap_or_default())
}

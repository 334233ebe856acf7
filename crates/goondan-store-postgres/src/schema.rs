//! The tables, and how they come to be.

use crate::rows::lock_key;
use crate::session::{DbError, Session};

/// Every version of the tables, as the statements that lead to it from the one before.
const STEPS: [&str; 3] = [
    include_str!("schema/1.sql"),
    include_str!("schema/2.sql"),
    include_str!("schema/3.sql"),
];

/// Why the tables can't be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SchemaError {
    /// The database does not do it.
    #[error(transparent)]
    Db(#[from] DbError),
    /// A later program has made them.
    #[error("its tables are of version {found}, and this program knows version {} at most: a newer gdn has used it", STEPS.len())]
    Newer {
        /// Their version.
        found: usize,
    },
    /// An earlier program has made them, and no node of this one has been there since.
    #[error("its tables are of version {found}, and this program reads version {}: start a node of this gdn, which brings them there", STEPS.len())]
    Older {
        /// Their version.
        found: usize,
    },
}

/// Makes the tables, or brings them to the version of this program. Several nodes may do so at once.
pub(crate) async fn prepare(session: &Session) -> Result<(), SchemaError> {
    if version(session).await? == STEPS.len() {
        return Ok(());
    }
    session
        .wait("SELECT pg_advisory_lock($1)", &[&lock_key("tables", "")])
        .await?;
    // Where they can't be made, the lock ends with the session.
    step_by_step(session).await?;
    session
        .query("SELECT pg_advisory_unlock($1)", &[&lock_key("tables", "")])
        .await?;
    Ok(())
}

async fn step_by_step(session: &Session) -> Result<(), SchemaError> {
    let found = version(session).await?;
    if found > STEPS.len() {
        return Err(SchemaError::Newer { found });
    }
    // All of them at once: whoever looks meanwhile sees no version in between.
    let missing: String = STEPS
        .iter()
        .enumerate()
        .skip(found)
        .map(|(number, step)| noted(step, number + 1))
        .collect();
    if !missing.is_empty() {
        session.run(&format!("BEGIN; {missing}COMMIT")).await?;
    }
    Ok(())
}

/// A step that leads to `version`, and the note of it.
fn noted(step: &str, version: usize) -> String {
    format!("{step}; INSERT INTO goondan.versions (version) VALUES ({version}); ")
}

/// Whether there are tables. Those of another version are an error: only who makes them may be the first to see them.
pub(crate) async fn is_there(session: &Session) -> Result<bool, SchemaError> {
    match version(session).await? {
        0 => Ok(false),
        found if found < STEPS.len() => Err(SchemaError::Older { found }),
        found if found > STEPS.len() => Err(SchemaError::Newer { found }),
        _ => Ok(true),
    }
}

/// The version of the tables; 0 where there are none.
async fn version(session: &Session) -> Result<usize, DbError> {
    let there = session
        .query("SELECT to_regclass('goondan.versions') IS NOT NULL", &[])
        .await?;
    if !there.first().is_some_and(|row| row.get::<_, bool>(0)) {
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

//! Moves the contents of one workspace to another.

use goondan_core::ports::store::StoreError;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::rows::store_error;
use crate::session::{DatabaseSession, SessionKind};
use crate::store::PostgresStore;

/// The result of an adoption.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkspaceImport {
    /// Name of the workspace with the previous contents, if there were any.
    pub aside: Option<String>,
}

/// Statements that move the contents. Node registrations and packets between nodes are not moved.
const MOVE_TABLES: [&str; 10] = [
    "UPDATE goondan.letters SET workspace = $2 WHERE workspace = $1",
    "UPDATE goondan.pending SET workspace = $2 WHERE workspace = $1",
    "UPDATE goondan.handled SET workspace = $2 WHERE workspace = $1",
    "UPDATE goondan.messages SET workspace = $2 WHERE workspace = $1",
    "UPDATE goondan.turn_events SET workspace = $2 WHERE workspace = $1",
    "UPDATE goondan.journal SET workspace = $2 WHERE workspace = $1",
    "UPDATE goondan.records SET workspace = $2 WHERE workspace = $1",
    "UPDATE goondan.instances SET workspace = $2 WHERE workspace = $1",
    "UPDATE goondan.runtime_events SET workspace = $2 WHERE workspace = $1",
    "UPDATE goondan.conversations SET workspace = $2 WHERE workspace = $1",
];

const HAS_CONTENTS: &str = "\
    SELECT EXISTS (SELECT 1 FROM goondan.conversations WHERE workspace = $1)
    OR EXISTS (SELECT 1 FROM goondan.instances WHERE workspace = $1)
    OR EXISTS (SELECT 1 FROM goondan.pending WHERE workspace = $1)
    OR EXISTS (SELECT 1 FROM goondan.handled WHERE workspace = $1)
    OR EXISTS (SELECT 1 FROM goondan.letters WHERE workspace = $1)";

const CREATE_WORKSPACE: &str =
    "INSERT INTO goondan.workspaces (name) VALUES ($1) ON CONFLICT DO NOTHING RETURNING id";

impl PostgresStore {
    /// Moves all contents of `from` into this workspace, in one transaction. Previous contents are
    /// moved to a new workspace. Returns `None` without changes if `from` is empty. Afterwards both
    /// stores may only be dropped.
    pub async fn adopt(&self, from: &PostgresStore) -> Result<Option<WorkspaceImport>, StoreError> {
        // This session is registered as a writer of both workspaces. A node that takes over either
        // one ends the session and rolls the transaction back.
        let session = self.access.open(SessionKind::Durable).await?;
        from.access.register_writer(&session).await?;
        session.run("BEGIN").await.map_err(store_error)?;
        let (own_id, other_id) = (self.access.id, from.access.id);
        if !has_contents(&session, other_id).await? {
            return Ok(None);
        }
        let mut adopted = WorkspaceImport { aside: None };
        if has_contents(&session, own_id).await? {
            let (name, id) = create_aside_workspace(&session, &self.access.workspace).await?;
            move_all(&session, own_id, id).await?;
            adopted.aside = Some(name);
        }
        move_all(&session, other_id, own_id).await?;
        session.run("COMMIT").await.map_err(store_error)?;
        Ok(Some(adopted))
    }
}

/// Runs a statement without a timeout, because it may move any number of rows.
async fn query_without_timeout(
    session: &DatabaseSession,
    sql: &'static str,
    values: &[&(dyn ToSql + Sync)],
) -> Result<Vec<Row>, StoreError> {
    session
        .query_without_timeout(sql, values)
        .await
        .map_err(store_error)
}

/// Returns true if the database contains any data of the workspace.
async fn has_contents(session: &DatabaseSession, workspace: i64) -> Result<bool, StoreError> {
    let rows = query_without_timeout(session, HAS_CONTENTS, &[&workspace]).await?;
    Ok(rows.first().is_some_and(|row| row.get(0)))
}

/// Creates a workspace with the first free name `{workspace}-aside-{number}`. Returns its name and
/// its id.
async fn create_aside_workspace(
    session: &DatabaseSession,
    workspace: &str,
) -> Result<(String, i64), StoreError> {
    let mut number = 1;
    loop {
        let name = format!("{workspace}-aside-{number}");
        if let Some(row) = query_without_timeout(session, CREATE_WORKSPACE, &[&name])
            .await?
            .first()
        {
            return Ok((name, row.get(0)));
        }
        number += 1;
    }
}

/// Moves all rows of the workspace `from` to the workspace `to`.
async fn move_all(session: &DatabaseSession, from: i64, to: i64) -> Result<(), StoreError> {
    for sql in MOVE_TABLES {
        query_without_timeout(session, sql, &[&from, &to]).await?;
    }
    Ok(())
}

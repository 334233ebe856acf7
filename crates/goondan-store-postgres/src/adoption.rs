//! A workspace that takes over everything that another one has.

use goondan_core::ports::store::StoreError;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::rows::failed;
use crate::session::{Kind, Session};
use crate::store::PostgresStore;

/// What a workspace has taken over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adopted {
    /// The workspace that has what it had before, where it had anything.
    pub aside: Option<String>,
}

/// What nodes say to each other, and who they are, stays where it is.
const MOVE: [&str; 10] = [
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

const HAS_ANYTHING: &str = "\
    SELECT EXISTS (SELECT 1 FROM goondan.conversations WHERE workspace = $1)
    OR EXISTS (SELECT 1 FROM goondan.instances WHERE workspace = $1)
    OR EXISTS (SELECT 1 FROM goondan.pending WHERE workspace = $1)
    OR EXISTS (SELECT 1 FROM goondan.handled WHERE workspace = $1)
    OR EXISTS (SELECT 1 FROM goondan.letters WHERE workspace = $1)";

const MAKE: &str =
    "INSERT INTO goondan.workspaces (name) VALUES ($1) ON CONFLICT DO NOTHING RETURNING id";

impl PostgresStore {
    /// Takes over everything that `from` has, in one transaction; what this workspace has is put aside. `None` where `from` has
    /// nothing: then nothing has changed. Neither store may be used any more, but dropped.
    pub async fn adopt(&self, from: &PostgresStore) -> Result<Option<Adopted>, StoreError> {
        // A session that may write in both: whoever takes one of them over ends it first, and the transaction with it.
        let session = self.access.open(Kind::Durable).await?;
        from.access.admit(&session).await?;
        session.run("BEGIN").await.map_err(failed)?;
        let (own, other) = (self.access.id, from.access.id);
        if !has_anything(&session, other).await? {
            return Ok(None);
        }
        let mut adopted = Adopted { aside: None };
        if has_anything(&session, own).await? {
            let (name, id) = make_beside(&session, &self.access.workspace).await?;
            move_all(&session, own, id).await?;
            adopted.aside = Some(name);
        }
        move_all(&session, other, own).await?;
        session.run("COMMIT").await.map_err(failed)?;
        Ok(Some(adopted))
    }
}

/// Runs a statement, however long it takes.
async fn query(
    session: &Session,
    sql: &'static str,
    values: &[&(dyn ToSql + Sync)],
) -> Result<Vec<Row>, StoreError> {
    session.wait(sql, values).await.map_err(failed)
}

async fn has_anything(session: &Session, workspace: i64) -> Result<bool, StoreError> {
    let rows = query(session, HAS_ANYTHING, &[&workspace]).await?;
    Ok(rows.first().is_some_and(|row| row.get(0)))
}

/// A new workspace, named after that one.
async fn make_beside(session: &Session, workspace: &str) -> Result<(String, i64), StoreError> {
    let mut number = 1;
    loop {
        let name = format!("{workspace}-aside-{number}");
        if let Some(row) = query(session, MAKE, &[&name]).await?.first() {
            return Ok((name, row.get(0)));
        }
        number += 1;
    }
}

async fn move_all(session: &Session, from: i64, to: i64) -> Result<(), StoreError> {
    for sql in MOVE {
        query(session, sql, &[&from, &to]).await?;
    }
    Ok(())
}

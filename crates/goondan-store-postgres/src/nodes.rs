//! The list of nodes.

use chrono::{DateTime, Utc};
use serde::Serialize;

use crate::address::DatabaseAddress;
use crate::leadership::{self, LeaderCandidate, LeaderHolder, PostgresOpenError};
use crate::schema;
use crate::session::{DatabaseSession, DbError, SessionKind};

/// Stored state of the leader. Nodes of all versions share the table, so the stored words stay.
pub(crate) const STATE_LEADS: &str = "leads";
/// Stored state of a worker.
pub(crate) const STATE_WORKS: &str = "works";
/// Stored state of a standby node.
pub(crate) const STATE_WAITS: &str = "waits";

/// A node with a recent heartbeat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeStatus {
    pub id: String,
    pub workspace: String,
    /// `leader`, `worker` or `standby`.
    pub state: String,
    /// Host name.
    pub machine: String,
    /// Process id.
    pub process: i64,
    /// Fingerprint of the project; `None` if the node has not published it yet.
    pub generation: Option<String>,
    /// Number of running turns.
    pub running: i64,
    /// Time of the last change of state.
    pub since: DateTime<Utc>,
    /// Time of the last heartbeat.
    pub seen_at: DateTime<Utc>,
}

/// Returns the nodes with a heartbeat within the lease, by workspace, leaders first.
pub async fn nodes(address: &DatabaseAddress) -> Result<Vec<NodeStatus>, PostgresOpenError> {
    let unusable = |error: DbError| leadership::unusable_error(address, &error);
    let session = DatabaseSession::open(address, "gdn nodes", SessionKind::ReadOnly)
        .await
        .map_err(unusable)?;
    if !schema::exists(&session)
        .await
        .map_err(|error| leadership::unusable_error(address, &error))?
    {
        return Ok(Vec::new());
    }
    let sql = "SELECT n.id, w.name, n.state, n.machine, n.process, extract(epoch FROM \
        n.since)::float8, \
               extract(epoch FROM n.seen_at)::float8, n.generation, n.running \
               FROM goondan.nodes n JOIN goondan.workspaces w ON w.id = n.workspace \
               WHERE n.seen_at > now() - interval '10 seconds' AND (n.state <> 'leads' OR n.id = \
        w.holder) \
               ORDER BY w.name, array_position(ARRAY['leads', 'works', 'waits'], n.state), n.since";
    let rows = session.query(sql, &[]).await.map_err(unusable)?;
    let node = |row: &tokio_postgres::Row| NodeStatus {
        id: row.get(0),
        workspace: row.get(1),
        state: role(row.get(2)),
        machine: row.get(3),
        process: row.get(4),
        generation: row.get(7),
        running: row.get(8),
        since: timestamp(row.get(5)),
        seen_at: timestamp(row.get(6)),
    };
    Ok(rows.iter().map(node).collect())
}

/// Returns the role for a stored state.
fn role(state: &str) -> String {
    match state {
        STATE_LEADS => "leader",
        STATE_WORKS => "worker",
        STATE_WAITS => "standby",
        other => other,
    }
    .to_owned()
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "milliseconds since 1970 fit"
)]
/// Converts Unix time in seconds to UTC.
fn timestamp(seconds: f64) -> DateTime<Utc> {
    DateTime::from_timestamp_millis((seconds * 1000.0) as i64).unwrap_or_default()
}

/// Sends a heartbeat.
pub(crate) async fn send_heartbeat(
    session: &DatabaseSession,
    node: &str,
    workspace: i64,
    state: &str,
) -> Result<(), DbError> {
    let sql = "INSERT INTO goondan.nodes AS n (id, workspace, machine, process, state) VALUES ($1, \
        $2, $3, $4, $5) \
               ON CONFLICT (id) DO UPDATE SET state = $5, seen_at = now(), \
               since = CASE WHEN n.state = $5 THEN n.since ELSE now() END";
    let (machine, process) = (host_name(), i64::from(std::process::id()));
    session
        .query(sql, &[&node, &workspace, &machine, &process, &state])
        .await?;
    Ok(())
}

/// Publishes the project fingerprint of a node.
pub(crate) async fn publish_generation(
    node: &LeaderCandidate,
    generation: &str,
) -> Result<(), PostgresOpenError> {
    let (address, workspace, id, state) =
        (&node.address, node.id, &node.node, *node.state.borrow());
    let unusable = |error: DbError| PostgresOpenError::Unusable {
        address: address.to_string(),
        cause: error.to_string(),
    };
    send_heartbeat(node.heartbeat_session(), id, workspace, state)
        .await
        .map_err(unusable)?;
    let sql = "UPDATE goondan.nodes SET generation = $2 WHERE id = $1";
    node.heartbeat_session()
        .query(sql, &[id, &generation])
        .await
        .map(drop)
        .map_err(unusable)
}

/// Deletes a node, and all nodes without a heartbeat for an hour.
pub(crate) async fn forget(session: &DatabaseSession, node: &str) -> Result<(), DbError> {
    let sql = "DELETE FROM goondan.nodes WHERE id = $1 OR seen_at < now() - interval '1 hour'";
    session.query(sql, &[&node]).await.map(drop)
}

/// Returns the node that holds a workspace, if known.
pub(crate) async fn holder(
    session: &DatabaseSession,
    workspace: i64,
) -> Result<Option<LeaderHolder>, DbError> {
    let sql = "SELECT n.id, n.machine, n.process FROM goondan.workspaces w JOIN goondan.nodes n ON \
        n.id = w.holder \
               WHERE w.id = $1";
    let rows = session.query(sql, &[&workspace]).await?;
    Ok(rows.first().map(|row| {
        let (machine, process): (String, i64) = (row.get(1), row.get(2));
        LeaderHolder {
            node: row.get(0),
            place: format!("process {process} on {machine}"),
        }
    }))
}

/// Returns the host name of this machine, or "a machine" if it is unknown.
fn host_name() -> String {
    let candidate = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let candidate = candidate.or_else(|| {
        std::env::var("HOSTNAME")
            .or_else(|_| std::env::var("COMPUTERNAME"))
            .ok()
    });
    candidate
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "a machine".to_owned())
}

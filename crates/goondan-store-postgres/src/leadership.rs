//! Elects the leader of a workspace: one node at a time.
//!
//! Two advisory locks implement this, and the database releases locks when their session ends. The
//! **hold** is held by one session of the leader, its guard; other nodes queue for it. The **pen**
//! is shared by all writing sessions of the leader and its members (`cluster.rs`). A node that gets
//! the hold terminates those sessions and requests the pen exclusively, which waits until none is
//! left. Then it increments the epoch and begins. So no statement of an earlier epoch can follow
//! the first of a later one, and statements need no checks.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use goondan_core::ids::hex;
use goondan_core::ports::store::StoreError;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::address::{AddressError, DatabaseAddress};
use crate::nodes;
use crate::rows::{lock_key, other_error, store_error};
use crate::schema::{self, SchemaError};
use crate::session::{DatabaseSession, DbError, HEARTBEAT_INTERVAL, SESSION_LEASE, SessionKind};
use crate::store::HeartbeatSessions;

/// Maximum time that a start waits for a workspace held by another node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkspaceWait {
    /// At most this long.
    For(Duration),
    /// Until the other node releases the workspace.
    Always,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaderHolder {
    pub node: String,
    /// Host name and process id.
    pub place: String,
}

impl fmt::Display for LeaderHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {} ({})", self.node, self.place)
    }
}

#[derive(Debug, Clone, thiserror::Error)]
pub enum PostgresOpenError {
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The database is unreachable, or the user lacks permissions.
    #[error("the database {address} can't be used: {cause}")]
    Unusable {
        /// Database address without its password.
        address: String,
        cause: String,
    },
    /// Another node holds the workspace.
    #[error("the workspace `{workspace}` in {address} is held by {}", .holder.as_ref().map_or_else(|| "another node".to_owned(), ToString::to_string))]
    Held {
        workspace: String,
        address: String,
        holder: Option<LeaderHolder>,
    },
}

/// The information to open a session, and the right to do so.
pub(crate) struct SessionAccess {
    pub(crate) address: DatabaseAddress,
    pub(crate) workspace: String,
    pub(crate) node: String,
    /// Id of the workspace; 0 if it does not exist and access is read-only.
    pub(crate) id: i64,
    /// The epoch in which this node writes; `None` if access is read-only.
    pub(crate) epoch: Option<i64>,
    /// True if this node works for another leader.
    pub(crate) is_member: bool,
    lost: watch::Sender<bool>,
}

impl SessionAccess {
    /// Fails if this node has lost the workspace.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        match *self.lost.borrow() {
            true => Err(other_error(format!(
                "another node has taken over the workspace `{}`",
                self.workspace
            ))),
            false => Ok(()),
        }
    }

    /// Opens a database session. Fails if this node no longer holds its role in the workspace.
    pub(crate) async fn open(&self, kind: SessionKind) -> Result<DatabaseSession, StoreError> {
        self.check()?;
        let session = DatabaseSession::open(&self.address, &session_name(&self.node), kind)
            .await
            .map_err(store_error)?;
        self.register_writer(&session).await?;
        Ok(session)
    }

    /// Registers a session as a writer of the workspace, so that a later leader terminates it
    /// first.
    pub(crate) async fn register_writer(
        &self,
        session: &DatabaseSession,
    ) -> Result<(), StoreError> {
        self.check()?;
        let Some(epoch) = self.epoch else {
            return Ok(());
        };
        let sql = "SELECT pg_try_advisory_lock_shared($1)";
        let has_pen = session
            .query(sql, &[&lock_key(WRITER_LOCK, &self.workspace)])
            .await
            .map_err(store_error)?;
        if !has_pen.first().is_some_and(|row| row.get::<_, bool>(0)) {
            return Err(other_error(format!(
                "another node is taking over the workspace `{}`",
                self.workspace
            )));
        }
        if current_epoch(session, self.id).await.map_err(store_error)? != epoch {
            self.mark_lost();
            self.check()?;
        }
        // An evicted node loses first its row and then its sessions. A session opened after that
        // finds no row.
        if self.is_member
            && !is_member(session, self.id, &self.node)
                .await
                .map_err(store_error)?
        {
            self.mark_lost();
            self.check()?;
        }
        Ok(())
    }

    /// Marks the access as lost, so that later checks fail.
    pub(crate) fn mark_lost(&self) {
        self.lost.send_replace(true);
    }

    /// Waits until another node has taken over.
    pub(crate) fn wait_until_lost(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut lost = self.lost.subscribe();
        async move {
            if lost.wait_for(|lost| *lost).await.is_err() {
                // The sender was dropped locally, so no other node has taken over.
                std::future::pending().await
            }
        }
    }

    /// Opens read-only access to a workspace.
    pub(crate) async fn open_read_only(
        address: &DatabaseAddress,
        workspace: &str,
    ) -> Result<Self, PostgresOpenError> {
        let unusable = |cause: &dyn fmt::Display| unusable_error(address, cause);
        let session = DatabaseSession::open(address, "gdn", SessionKind::ReadOnly)
            .await
            .map_err(|error| unusable(&error))?;
        let id = match schema::exists(&session)
            .await
            .map_err(|error| unusable(&error))?
        {
            false => 0,
            true => id_of(&session, workspace)
                .await
                .map_err(|error| unusable(&error))?
                .unwrap_or_default(),
        };
        Ok(SessionAccess {
            address: address.clone(),
            workspace: workspace.to_owned(),
            node: node_name(),
            id,
            epoch: None,
            is_member: false,
            lost: watch::channel(false).0,
        })
    }
}

/// Creates the error for a database that cannot be used; the address is shown without its password.
pub(crate) fn unusable_error(
    address: &DatabaseAddress,
    cause: &dyn fmt::Display,
) -> PostgresOpenError {
    PostgresOpenError::Unusable {
        address: address.to_string(),
        cause: cause.to_string(),
    }
}

/// Creates a unique name for this node.
fn node_name() -> String {
    hex(&rand::random::<[u8; 6]>())
}

/// Returns the leadership epoch of a workspace; -1 if the workspace does not exist.
async fn current_epoch(session: &DatabaseSession, id: i64) -> Result<i64, DbError> {
    let rows = session
        .query("SELECT epoch FROM goondan.workspaces WHERE id = $1", &[&id])
        .await?;
    Ok(rows.first().map_or(-1, |row| row.get(0)))
}

/// Returns the database id of a workspace; `None` if the workspace does not exist.
async fn id_of(session: &DatabaseSession, workspace: &str) -> Result<Option<i64>, DbError> {
    let rows = session
        .query(
            "SELECT id FROM goondan.workspaces WHERE name = $1",
            &[&workspace],
        )
        .await?;
    Ok(rows.first().map(|row| row.get(0)))
}

/// Returns true if `node` is a member of the cluster of workspace `id`.
async fn is_member(session: &DatabaseSession, id: i64, node: &str) -> Result<bool, DbError> {
    let rows = session
        .query(
            "SELECT 1 FROM goondan.members WHERE workspace = $1 AND node = $2",
            &[&id, &node],
        )
        .await?;
    Ok(!rows.is_empty())
}

pub(crate) struct LeaderLock {
    pub(crate) access: Arc<SessionAccess>,
    guard: DatabaseSession,
}

/// Takes a workspace and creates it if it is missing.
pub(crate) async fn take(
    address: &DatabaseAddress,
    workspace: &str,
    wait: WorkspaceWait,
) -> Result<LeaderLock, PostgresOpenError> {
    let candidate = LeaderCandidate::register(address, workspace).await?;
    candidate.queue(wait).await?;
    candidate.become_leader().await
}

/// Name of the lock that all writing sessions share.
pub(crate) const WRITER_LOCK: &str = "pen";

/// A node that can become the leader.
pub(crate) struct LeaderCandidate {
    pub(crate) address: DatabaseAddress,
    pub(crate) workspace: String,
    pub(crate) node: String,
    pub(crate) id: i64,
    guard: DatabaseSession,
    /// Session for heartbeats while the node waits.
    sign: DatabaseSession,
    /// The displayed state while the node waits.
    pub(crate) state: watch::Sender<&'static str>,
}

/// A node would not notice the takeover in time, so the new leader terminates its sessions.
const END_WRITERS: &str = "\
    SELECT pg_terminate_backend(l.pid, 5000) FROM pg_locks l JOIN pg_stat_activity a ON a.pid = \
    l.pid
    WHERE l.locktype = 'advisory' AND l.mode = 'ShareLock' AND l.granted AND l.objsubid = 1 AND \
    a.usename = current_user AND l.pid <> pg_backend_pid()
    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND ((l.classid::bigint << 32) | l.objid::bigint) = $1";

impl LeaderCandidate {
    /// Registers a candidate and creates the workspace if it is missing.
    pub(crate) async fn register(
        address: &DatabaseAddress,
        workspace: &str,
    ) -> Result<Self, PostgresOpenError> {
        let broken = |error: DbError| unusable_error(address, &error);
        let node = node_name();
        let sign = DatabaseSession::open(address, &session_name(&node), SessionKind::Durable)
            .await
            .map_err(broken)?;
        schema::prepare(&sign)
            .await
            .map_err(|error: SchemaError| unusable_error(address, &error))?;
        let made = "INSERT INTO goondan.workspaces (name) VALUES ($1) ON CONFLICT DO NOTHING";
        sign.query(made, &[&workspace]).await.map_err(broken)?;
        let id = id_of(&sign, workspace)
            .await
            .map_err(broken)?
            .unwrap_or_default();
        let guard = DatabaseSession::open(address, &guard_name(&node), SessionKind::Waiting)
            .await
            .map_err(broken)?;
        let (address, workspace, state) = (
            address.clone(),
            workspace.to_owned(),
            watch::channel(nodes::STATE_WAITS).0,
        );
        Ok(LeaderCandidate {
            address,
            workspace,
            node,
            id,
            guard,
            sign,
            state,
        })
    }

    /// Returns the heartbeat session.
    pub(crate) fn heartbeat_session(&self) -> &DatabaseSession {
        &self.sign
    }

    /// Takes the hold if it is free.
    pub(crate) async fn try_hold(&self) -> Result<bool, PostgresOpenError> {
        let key = lock_key("hold", &self.workspace);
        let got = self
            .guard
            .query("SELECT pg_try_advisory_lock($1)", &[&key])
            .await;
        let got = got.map_err(|error| unusable_error(&self.address, &error))?;
        Ok(got.first().is_some_and(|row| row.get(0)))
    }

    /// Waits until this node holds the leader lock. Fails if `wait` expires.
    pub(crate) async fn queue(&self, wait: WorkspaceWait) -> Result<(), PostgresOpenError> {
        let LeaderCandidate {
            address,
            workspace,
            node,
            id,
            guard,
            sign,
            state,
        } = self;
        let queue = LeaderQueue {
            address,
            workspace,
            node,
            id: *id,
            sign,
            state: state.subscribe(),
        };
        queue.for_lock(guard, "hold", wait).await
    }

    /// Begins an epoch. The candidate must have the hold.
    pub(crate) async fn become_leader(self) -> Result<LeaderLock, PostgresOpenError> {
        let LeaderCandidate {
            address,
            workspace,
            node,
            id,
            guard,
            sign,
            state,
        } = self;
        let broken = |error: DbError| unusable_error(&address, &error);
        state.send_replace(nodes::STATE_WAITS);
        let queue = LeaderQueue {
            address: &address,
            workspace: &workspace,
            node: &node,
            id,
            sign: &sign,
            state: state.subscribe(),
        };
        queue
            .for_lock(&guard, WRITER_LOCK, WorkspaceWait::Always)
            .await?;
        let sql = "UPDATE goondan.workspaces SET epoch = epoch + 1, holder = $2 WHERE id = $1 \
            RETURNING epoch";
        let rows = sign.query(sql, &[&id, &node]).await.map_err(broken)?;
        let epoch: Option<i64> = rows.first().map(|row| row.get(0));
        for sql in NEW_EPOCH {
            sign.query(sql, &[&id]).await.map_err(broken)?;
        }
        let sql = "SELECT pg_advisory_unlock($1)";
        guard
            .query(sql, &[&lock_key(WRITER_LOCK, &workspace)])
            .await
            .map_err(broken)?;
        nodes::send_heartbeat(&guard, &node, id, nodes::STATE_LEADS)
            .await
            .map_err(broken)?;
        let lost = watch::channel(false).0;
        let epoch = Some(epoch.unwrap_or_default());
        let access = SessionAccess {
            address,
            workspace,
            node,
            id,
            epoch,
            is_member: false,
            lost,
        };
        Ok(LeaderLock {
            access: Arc::new(access),
            guard,
        })
    }

    /// Returns the access of a worker under the leader with the given epoch.
    pub(crate) fn member_access(&self, epoch: i64) -> SessionAccess {
        SessionAccess {
            address: self.address.clone(),
            workspace: self.workspace.clone(),
            node: self.node.clone(),
            id: self.id,
            epoch: Some(epoch),
            is_member: true,
            lost: watch::channel(false).0,
        }
    }
}

/// Discards members and packets of earlier epochs.
const NEW_EPOCH: [&str; 2] = [
    "DELETE FROM goondan.members WHERE workspace = $1",
    "DELETE FROM goondan.packets WHERE workspace = $1",
];

/// Returns the PostgreSQL application name of the sessions of a node.
pub(crate) fn session_name(node: &str) -> String {
    format!("gdn {node}")
}

/// Returns the PostgreSQL application name of the session that holds the lock of a node.
fn guard_name(node: &str) -> String {
    format!("gdn guard {node}")
}

struct LeaderQueue<'a> {
    address: &'a DatabaseAddress,
    workspace: &'a str,
    node: &'a str,
    id: i64,
    sign: &'a DatabaseSession,
    state: watch::Receiver<&'static str>,
}

impl LeaderQueue<'_> {
    /// Waits for an advisory lock of the workspace, and writes heartbeats of this node until then.
    async fn for_lock(
        &self,
        guard: &DatabaseSession,
        lock: &str,
        wait: WorkspaceWait,
    ) -> Result<(), PostgresOpenError> {
        let broken = |error: DbError| unusable_error(self.address, &error);
        let key = lock_key(lock, self.workspace);
        let attempt = guard
            .query("SELECT pg_try_advisory_lock($1)", &[&key])
            .await
            .map_err(broken)?;
        if attempt.first().is_some_and(|row| row.get(0)) {
            return Ok(());
        }
        let until = match wait {
            WorkspaceWait::For(time) => Some(Instant::now() + time),
            WorkspaceWait::Always => None,
        };
        let values: [&(dyn tokio_postgres::types::ToSql + Sync); 1] = [&key];
        let mut state = self.state.clone();
        let mut locked =
            std::pin::pin!(guard.query_without_timeout("SELECT pg_advisory_lock($1)", &values));
        loop {
            let node_state = *state.borrow_and_update();
            nodes::send_heartbeat(self.sign, self.node, self.id, node_state)
                .await
                .map_err(broken)?;
            let mut beat = Instant::now() + HEARTBEAT_INTERVAL;
            if lock == WRITER_LOCK {
                // Repeat this, because a session may have started between the query and the lock.
                beat = Instant::now() + HEARTBEAT_INTERVAL / 20;
                if let Err(error) = self.sign.query(END_WRITERS, &[&key]).await {
                    tracing::warn!(%error, "failed to end the sessions of former workers; waiting \
                        until they end");
                }
            }
            let wake = until.map_or(beat, |until| until.min(beat));
            tokio::select! {
                locked = &mut locked => return locked.map(drop).map_err(broken),
                Ok(()) = state.changed() => {}
                () = tokio::time::sleep_until(wake) => {}
            }
            if until.is_some_and(|until| Instant::now() >= until) {
                nodes::forget(self.sign, self.node).await.map_err(broken)?;
                let holder = nodes::holder(self.sign, self.id).await.map_err(broken)?;
                let (workspace, address) = (self.workspace.to_owned(), self.address.to_string());
                return Err(PostgresOpenError::Held {
                    workspace,
                    address,
                    holder,
                });
            }
        }
    }
}

impl LeaderLock {
    /// Monitors the hold until it is lost. A lost guard session is replaced, unless another node
    /// was faster.
    pub(crate) async fn monitor_lock(self, beat: HeartbeatSessions) {
        let LeaderLock { access, mut guard } = self;
        loop {
            beat.send_heartbeats().await;
            if nodes::send_heartbeat(&guard, &access.node, access.id, nodes::STATE_LEADS)
                .await
                .is_err()
            {
                match reacquire_lock(&access).await {
                    Some(regained) => guard = regained,
                    None => {
                        access.mark_lost();
                        return;
                    }
                }
            }
            tokio::time::sleep(HEARTBEAT_INTERVAL).await;
        }
    }
}

/// Takes the hold again after its session was lost; `None` if another node has it. During a
/// database outage no node can take it.
async fn reacquire_lock(access: &SessionAccess) -> Option<DatabaseSession> {
    loop {
        match try_regain(access).await {
            Ok(regained) => return regained,
            Err(error) => tracing::warn!(%error, "could not take the leader lock again; retrying"),
        }
        tokio::time::sleep(SESSION_LEASE / 20).await;
    }
}

/// Tries to take the lost leader lock again. Returns `None` if another node has the lock or the
/// epoch changed.
async fn try_regain(access: &SessionAccess) -> Result<Option<DatabaseSession>, DbError> {
    let guard = DatabaseSession::open(
        &access.address,
        &guard_name(&access.node),
        SessionKind::Waiting,
    )
    .await?;
    // The server may still count the lost session, so terminate it.
    let sql = "SELECT pg_terminate_backend(pid, 2000) FROM pg_stat_activity \
               WHERE application_name = $1 AND usename = current_user AND pid <> pg_backend_pid()";
    guard.query(sql, &[&guard_name(&access.node)]).await?;
    let key = lock_key("hold", &access.workspace);
    let attempt = guard
        .query("SELECT pg_try_advisory_lock($1)", &[&key])
        .await?;
    let has_hold = attempt.first().is_some_and(|row| row.get(0));
    let is_current = current_epoch(&guard, access.id).await? == access.epoch.unwrap_or_default();
    Ok((has_hold && is_current).then_some(guard))
}

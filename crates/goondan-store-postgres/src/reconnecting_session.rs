//! A database connection that reconnects automatically.

use std::sync::Arc;
use std::time::Duration;

use goondan_core::ports::store::StoreError;
use tokio::sync::Mutex;
use tokio::time::Instant;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::leadership::SessionAccess;
use crate::rows::store_error;
use crate::session::{DatabaseSession, DbError, SessionKind};

/// Time that a call waits for an unreachable database. Restarting the database takes less time.
const UNREACHABLE_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval between connection attempts.
const RECONNECT_INTERVAL: Duration = Duration::from_millis(100);

/// A database connection. Calls of several tasks are pipelined without waiting for each other's
/// answers.
pub(crate) struct ReconnectingSession {
    access: Arc<SessionAccess>,
    kind: SessionKind,
    session: Mutex<ReconnectState>,
}

#[derive(Default)]
enum ReconnectState {
    /// No session was opened yet, or it has ended.
    #[default]
    Closed,
    Open(Arc<DatabaseSession>),
    /// Time and reason of the last failed attempt.
    Failed(Instant, StoreError),
}

impl ReconnectingSession {
    /// Creates a connection that opens on its first call.
    pub(crate) fn new(access: Arc<SessionAccess>, kind: SessionKind) -> Self {
        ReconnectingSession {
            access,
            kind,
            session: Mutex::default(),
        }
    }

    /// Returns the session and opens it if necessary. Waits for a limited time if the database is
    /// unreachable.
    pub(crate) async fn session(&self) -> Result<Arc<DatabaseSession>, StoreError> {
        let until = Instant::now() + UNREACHABLE_TIMEOUT;
        let mut state = self.session.lock().await;
        self.access.check()?;
        match &*state {
            ReconnectState::Open(session) if !session.is_closed() => {
                return Ok(Arc::clone(session));
            }
            // This call waited for the lock while another call failed to connect. It has waited
            // long enough.
            ReconnectState::Failed(at, error)
                if Instant::now() >= until && at.elapsed() < RECONNECT_INTERVAL =>
            {
                return Err(error.clone());
            }
            _ => *state = ReconnectState::Closed,
        }
        loop {
            match self.access.open(self.kind).await {
                Ok(session) => {
                    let session = Arc::new(session);
                    *state = ReconnectState::Open(Arc::clone(&session));
                    return Ok(session);
                }
                Err(error) if Instant::now() >= until || self.access.check().is_err() => {
                    *state = ReconnectState::Failed(Instant::now(), error.clone());
                    return Err(error);
                }
                Err(_) => tokio::time::sleep(RECONNECT_INTERVAL).await,
            }
        }
    }

    /// Runs a statement on the current session; opens a session if the last one closed. Does not
    /// retry.
    pub(crate) async fn query(
        &self,
        sql: &'static str,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, StoreError> {
        self.session()
            .await?
            .query(sql, values)
            .await
            .map_err(store_error)
    }

    /// Runs an idempotent statement. Retries it until its result is known or a timeout is over.
    pub(crate) async fn query_with_retry(
        &self,
        sql: &'static str,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, StoreError> {
        let until = Instant::now() + UNREACHABLE_TIMEOUT;
        loop {
            let session = self.session().await?;
            match session.query(sql, values).await {
                Ok(rows) => return Ok(rows),
                Err(error) if error.is_refusal() || Instant::now() >= until => {
                    return Err(store_error(error));
                }
                Err(_) => tokio::time::sleep(RECONNECT_INTERVAL).await,
            }
        }
    }

    /// Sends a heartbeat if a session is open.
    pub(crate) async fn send_heartbeat(&self) -> Result<(), DbError> {
        let session = match &*self.session.lock().await {
            ReconnectState::Open(session) if !session.is_closed() => Arc::clone(session),
            _ => return Ok(()),
        };
        session.run("").await
    }

    /// Closes the current session, if there is one.
    pub(crate) async fn close(&self) {
        *self.session.lock().await = ReconnectState::Closed;
    }
}

/// Connections of one kind. All calls for an instance use the same connection, in order.
pub(crate) struct SessionPool(Vec<ReconnectingSession>);

impl SessionPool {
    /// Creates a pool of `count` sessions. Each opens on its first use.
    pub(crate) fn new(access: &Arc<SessionAccess>, kind: SessionKind, count: usize) -> Self {
        SessionPool(
            (0..count)
                .map(|_| ReconnectingSession::new(Arc::clone(access), kind))
                .collect(),
        )
    }

    /// Returns the session for statements about the whole workspace. It is always the same session,
    /// so these statements run in order.
    pub(crate) fn workspace_session(&self) -> &ReconnectingSession {
        &self.0[0]
    }

    /// Returns the session for a key. Equal keys get the same session, so their statements run in
    /// order.
    pub(crate) fn session_for(&self, key: &[u8]) -> &ReconnectingSession {
        let first_byte = key.first().copied().map_or(0, usize::from);
        &self.0[first_byte % self.0.len()]
    }

    /// Returns all sessions of the pool.
    pub(crate) fn sessions(&self) -> impl Iterator<Item = &ReconnectingSession> {
        self.0.iter()
    }
}

//! A database connection that reconnects automatically.

use std::sync::Arc;
use std::time::Duration;

use goondan_core::ports::store::StoreError;
use tokio::sync::Mutex;
use tokio::time::Instant;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::hold::Access;
use crate::rows::failed;
use crate::session::{DbError, Kind, Session};

/// Time that a call waits for an unreachable database. Restarting the database takes less time.
const AWAY: Duration = Duration::from_secs(5);
/// Interval between connection attempts.
const RETRY: Duration = Duration::from_millis(100);

/// A database connection. Calls of several tasks are pipelined without waiting for each other's
/// answers.
pub(crate) struct Line {
    access: Arc<Access>,
    kind: Kind,
    session: Mutex<State>,
}

#[derive(Default)]
enum State {
    /// No session was opened yet, or it has ended.
    #[default]
    Closed,
    Open(Arc<Session>),
    /// Time and reason of the last failed attempt.
    Failed(Instant, StoreError),
}

impl Line {
    /// Creates a line that connects on its first call.
    pub(crate) fn new(access: Arc<Access>, kind: Kind) -> Self {
        Line {
            access,
            kind,
            session: Mutex::default(),
        }
    }

    /// Returns the session and opens it if necessary. Waits for a limited time if the database is
    /// unreachable.
    pub(crate) async fn session(&self) -> Result<Arc<Session>, StoreError> {
        let until = Instant::now() + AWAY;
        let mut state = self.session.lock().await;
        self.access.check()?;
        match &*state {
            State::Open(session) if !session.is_closed() => return Ok(Arc::clone(session)),
            // This call waited for the lock while another call failed to connect. It has waited
            // long enough.
            State::Failed(at, error) if Instant::now() >= until && at.elapsed() < RETRY => {
                return Err(error.clone());
            }
            _ => *state = State::Closed,
        }
        loop {
            match self.access.open(self.kind).await {
                Ok(session) => {
                    let session = Arc::new(session);
                    *state = State::Open(Arc::clone(&session));
                    return Ok(session);
                }
                Err(error) if Instant::now() >= until || self.access.check().is_err() => {
                    *state = State::Failed(Instant::now(), error.clone());
                    return Err(error);
                }
                Err(_) => tokio::time::sleep(RETRY).await,
            }
        }
    }

    pub(crate) async fn query(
        &self,
        sql: &'static str,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, StoreError> {
        self.session()
            .await?
            .query(sql, values)
            .await
            .map_err(failed)
    }

    /// Runs one idempotent statement. Repeats it if the result is unknown.
    pub(crate) async fn query_surely(
        &self,
        sql: &'static str,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, StoreError> {
        let until = Instant::now() + AWAY;
        loop {
            let session = self.session().await?;
            match session.query(sql, values).await {
                Ok(rows) => return Ok(rows),
                Err(error) if error.is_refusal() || Instant::now() >= until => {
                    return Err(failed(error));
                }
                Err(_) => tokio::time::sleep(RETRY).await,
            }
        }
    }

    /// Sends a heartbeat if a session is open.
    pub(crate) async fn beat(&self) -> Result<(), DbError> {
        let session = match &*self.session.lock().await {
            State::Open(session) if !session.is_closed() => Arc::clone(session),
            _ => return Ok(()),
        };
        session.run("").await
    }

    pub(crate) async fn close(&self) {
        *self.session.lock().await = State::Closed;
    }
}

/// Lines of one kind. All calls for an instance use the same line, in order.
pub(crate) struct Lines(Vec<Line>);

impl Lines {
    pub(crate) fn new(access: &Arc<Access>, kind: Kind, how_many: usize) -> Self {
        Lines(
            (0..how_many)
                .map(|_| Line::new(Arc::clone(access), kind))
                .collect(),
        )
    }

    pub(crate) fn of(&self, key: &[u8]) -> &Line {
        let number = key.first().copied().map_or(0, usize::from);
        &self.0[number % self.0.len()]
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Line> {
        self.0.iter()
    }
}

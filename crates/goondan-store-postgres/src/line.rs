//! A way to the database that is made anew when it breaks.

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

/// For that long a call waits for a database that is away. A restart of the database is shorter.
const AWAY: Duration = Duration::from_secs(5);
/// How often it is tried meanwhile.
const RETRY: Duration = Duration::from_millis(100);

/// A way to the database. Calls of several tasks travel on it behind each other, without waiting for each other's answers.
pub(crate) struct Line {
    access: Arc<Access>,
    kind: Kind,
    session: Mutex<State>,
}

#[derive(Default)]
enum State {
    /// There was none yet, or it has ended.
    #[default]
    Closed,
    Open(Arc<Session>),
    /// It could not be opened, at that time and for that reason.
    Failed(Instant, StoreError),
}

impl Line {
    /// A line that is opened with its first call.
    pub(crate) fn new(access: Arc<Access>, kind: Kind) -> Self {
        Line {
            access,
            kind,
            session: Mutex::default(),
        }
    }

    /// The session, which is opened where there is none. Waits a while for a database that is away.
    pub(crate) async fn session(&self) -> Result<Arc<Session>, StoreError> {
        let until = Instant::now() + AWAY;
        let mut state = self.session.lock().await;
        self.access.check()?;
        match &*state {
            State::Open(session) if !session.is_closed() => return Ok(Arc::clone(session)),
            // Whoever has waited behind somebody who got none has waited long enough.
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

    /// Runs one statement.
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

    /// Runs one statement that may be run twice: where nobody knows what came of it, it is run again.
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

    /// Gives a sign of life, where there is a session.
    pub(crate) async fn beat(&self) -> Result<(), DbError> {
        let session = match &*self.session.lock().await {
            State::Open(session) if !session.is_closed() => Arc::clone(session),
            _ => return Ok(()),
        };
        session.run("").await
    }

    /// Ends the session.
    pub(crate) async fn close(&self) {
        *self.session.lock().await = State::Closed;
    }
}

/// Lines of one kind. What concerns an instance travels on one of them, in order.
pub(crate) struct Lines(Vec<Line>);

impl Lines {
    /// That many lines.
    pub(crate) fn new(access: &Arc<Access>, kind: Kind, how_many: usize) -> Self {
        Lines(
            (0..how_many)
                .map(|_| Line::new(Arc::clone(access), kind))
                .collect(),
        )
    }

    /// The line of what has that key.
    pub(crate) fn of(&self, key: &[u8]) -> &Line {
        let number = key.first().copied().map_or(0, usize::from);
        &self.0[number % self.0.len()]
    }

    /// All of them.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Line> {
        self.0.iter()
    }
}

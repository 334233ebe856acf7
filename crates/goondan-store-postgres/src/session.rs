//! One connection to the database.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio_postgres::types::ToSql;
use tokio_postgres::{AsyncMessage, Client, Row, Statement};

use crate::address::DatabaseAddress;
use crate::tls::PostgresTls;

/// The database ends a session after this idle time and releases its locks. A process that hangs or
/// is partitioned therefore loses its locks.
pub(crate) const SESSION_LEASE: Duration = Duration::from_secs(10);

/// Interval of heartbeats per session.
pub(crate) const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(3);

/// Maximum time to wait for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Debug, thiserror::Error)]
pub(crate) enum DbError {
    /// The database returned an error, or the connection was lost.
    #[error("{}", words(.0))]
    Postgres(#[from] tokio_postgres::Error),
    /// The database did not answer.
    #[error("the database has not answered for {} seconds", ANSWER_TIMEOUT.as_secs())]
    Silent,
}

/// Formats the error of the client or the database on one line.
fn words(error: &tokio_postgres::Error) -> String {
    use std::error::Error as _;
    match (error.as_db_error(), error.source()) {
        (Some(said), _) => format!("{} (SQLSTATE {})", said.message(), said.code().code()),
        (None, Some(cause)) => format!("{error}: {cause}"),
        (None, None) => error.to_string(),
    }
}

impl DbError {
    /// Returns true if the database itself rejected the statement, so that it had no effect.
    /// Otherwise its result is unknown.
    pub(crate) fn is_refusal(&self) -> bool {
        matches!(self, DbError::Postgres(error) if error.as_db_error().is_some() && !error.is_closed())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SessionKind {
    /// Commits survive a crash of the database.
    Durable,
    /// Commits survive this process. The database syncs them a little later, in the order of all
    /// commits.
    Quick,
    /// The session is read-only.
    ReadOnly,
    /// The session waits for a lock, for longer than the idle timeout.
    Waiting,
}

/// An open session. When dropped, it ends and its locks are released.
pub(crate) struct DatabaseSession {
    client: Client,
    connection: AbortHandle,
    /// Signals notifications on the channels that the session listens to.
    pub(crate) notification: Arc<Notify>,
    statements: Mutex<HashMap<&'static str, Statement>>,
}

impl Drop for DatabaseSession {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

impl DatabaseSession {
    /// Connects. `name` is the application name in the database's session list.
    pub(crate) async fn open(
        address: &DatabaseAddress,
        name: &str,
        kind: SessionKind,
    ) -> Result<Self, DbError> {
        let mut config = address.config.clone();
        config.application_name(name);
        let tls = tokio::task::spawn_blocking(PostgresTls::shared)
            .await
            .unwrap_or_else(|_| PostgresTls::shared());
        let opening: BoxFuture<'_, _> = Box::pin(config.connect(tls));
        let (client, mut connection) = tokio::time::timeout(ANSWER_TIMEOUT, opening)
            .await
            .map_err(|_| DbError::Silent)??;
        let notification = Arc::new(Notify::new());
        let received_notification = Arc::clone(&notification);
        let connection = tokio::spawn(async move {
            let mut messages =
                futures::stream::poll_fn(move |context| connection.poll_message(context));
            // The next call reports a connection error.
            while let Some(Ok(message)) = messages.next().await {
                if let AsyncMessage::Notification(_) = message {
                    received_notification.notify_one();
                }
            }
        })
        .abort_handle();
        let session = DatabaseSession {
            client,
            connection,
            notification,
            statements: Mutex::default(),
        };
        session.run(&setup_sql(kind)).await?;
        Ok(session)
    }

    /// Returns true if the connection is closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Runs statements without parameters.
    pub(crate) async fn run(&self, sql: &str) -> Result<(), DbError> {
        let run: BoxFuture<'_, _> = Box::pin(self.client.batch_execute(sql));
        self.with_timeout(run).await
    }

    /// Runs a statement and returns its rows. Prepares the statement on its first use.
    pub(crate) async fn query(
        &self,
        sql: &'static str,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, DbError> {
        let statement = self.prepare_statement(sql).await?;
        let query: BoxFuture<'_, _> = Box::pin(self.client.query(&statement, values));
        self.with_timeout(query).await
    }

    /// Runs one statement and returns its rows. Has no timeout, for statements that wait for a lock
    /// or change many rows.
    pub(crate) async fn query_without_timeout(
        &self,
        sql: &'static str,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, DbError> {
        Ok(Box::pin(self.client.query(sql, values)).await?)
    }

    /// Returns the prepared statement; prepares it if this session has not done so.
    async fn prepare_statement(&self, sql: &'static str) -> Result<Statement, DbError> {
        let cached = self
            .statements
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(sql)
            .cloned();
        if let Some(statement) = cached {
            return Ok(statement);
        }
        let prepare: BoxFuture<'_, _> = Box::pin(self.client.prepare(sql));
        let statement = self.with_timeout(prepare).await?;
        self.statements
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(sql, statement.clone());
        Ok(statement)
    }

    /// Waits for the answer of the database, at most [`ANSWER_TIMEOUT`]. After a timeout, aborts
    /// the connection: a late answer must not be mistaken for the answer to the next call.
    async fn with_timeout<T>(
        &self,
        call: BoxFuture<'_, Result<T, tokio_postgres::Error>>,
    ) -> Result<T, DbError> {
        match tokio::time::timeout(ANSWER_TIMEOUT, call).await {
            Ok(answer) => answer.map_err(DbError::from),
            Err(_) => {
                self.connection.abort();
                Err(DbError::Silent)
            }
        }
    }
}

/// Returns the SQL that sets up a new session.
fn setup_sql(kind: SessionKind) -> String {
    let lease = SESSION_LEASE.as_millis();
    let kind_setting = match kind {
        SessionKind::Durable => "SET synchronous_commit = on",
        SessionKind::Quick => "SET synchronous_commit = off",
        SessionKind::ReadOnly => "SET default_transaction_read_only = on",
        SessionKind::Waiting => "SET client_connection_check_interval = '3s'",
    };
    // A session that waits for a lock is not idle; the idle timeout starts when it has the lock.
    // Planning the end of a turn takes twice as long as running it, so it is planned once. Without
    // sequential scans, a plan made for a small table does not read a large table completely.
    format!(
        "{kind_setting}; SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET \
        idle_session_timeout = {lease}; SET idle_in_transaction_session_timeout = {lease}; \
         SET tcp_keepalives_idle = 5; SET tcp_keepalives_interval = 2; SET tcp_keepalives_count = \
        3; \
         SET statement_timeout = 0; SET lock_timeout = 0; SET search_path = pg_catalog"
    )
}

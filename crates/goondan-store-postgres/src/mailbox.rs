//! Queued inputs: any process can submit them to the node that holds the workspace.
//!
//! A submitted input is durable. The holder passes it to its swarm under an id derived from the
//! queue, and then deletes it. If the holder passes it again after a crash, no second turn starts.

use std::sync::Arc;
use std::time::Duration;

use goondan_core::ports::store::StoreError;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use crate::address::DatabaseAddress;
use crate::leadership::{PostgresOpenError, SessionAccess};
use crate::rows::{decode, encode};
use crate::schema;
use crate::session::{DatabaseSession, DbError, HEARTBEAT_INTERVAL, SessionKind};
use crate::store::PostgresStore;

/// Interval of checking for inputs without a notification.
const INPUT_POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of inputs per query.
const MAX_INPUTS_PER_QUERY: i64 = 100;

/// An input that waits in the mailbox of a workspace.
#[derive(Debug, Clone, PartialEq)]
pub struct MailboxInput {
    /// Ascending sequence number.
    pub number: i64,
    pub input: Value,
}

/// The state of a submitted input.
#[derive(Debug, Clone, PartialEq)]
pub enum MailboxInputState {
    Accepted,
    /// The swarm has rejected the input for this reason.
    Refused(Value),
    /// No node has processed the input yet.
    Waits,
}

/// Signals the arrival of queued inputs.
#[derive(Default)]
pub(crate) struct MailboxNotifier {
    /// Signaled when a queued input may have arrived.
    input_arrived: Arc<Notify>,
    task: Option<AbortHandle>,
}

impl Drop for MailboxNotifier {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

impl MailboxNotifier {
    /// Creates a notifier that signals each notification of the database until it is dropped.
    pub(crate) fn subscribe(access: Arc<SessionAccess>) -> Arc<Self> {
        let input_arrived = Arc::new(Notify::new());
        let task = tokio::spawn(listen(access, Arc::clone(&input_arrived)));
        Arc::new(MailboxNotifier {
            input_arrived,
            task: Some(task.abort_handle()),
        })
    }
}

/// Signals `input_arrived` at each notification of the database. While the session is lost, signals
/// nothing; the periodic checks continue.
async fn listen(access: Arc<SessionAccess>, input_arrived: Arc<Notify>) {
    while access.check().is_ok() {
        if let Ok(session) = access.open(SessionKind::Quick).await {
            let listening = session
                .run(&format!("LISTEN {}", channel_name(access.id)))
                .await;
            while listening.is_ok() && access.check().is_ok() && session.run("").await.is_ok() {
                input_arrived.notify_one();
                // After a silent period, the loop sends a heartbeat.
                let _ =
                    tokio::time::timeout(HEARTBEAT_INTERVAL, session.notification.notified()).await;
            }
        }
        tokio::time::sleep(INPUT_POLL_INTERVAL).await;
    }
}

/// Returns the name of the notification channel of a workspace.
fn channel_name(workspace: i64) -> String {
    format!("goondan_{workspace}")
}

impl PostgresStore {
    /// Waits until the caller must query the mailbox: after a notification of the database, or
    /// after [`INPUT_POLL_INTERVAL`], because a notification may have been lost.
    pub fn letters_may_have_come(&self) -> impl Future<Output = ()> + Send + use<> {
        let input_arrived = Arc::clone(&self.mailbox_notifier.input_arrived);
        async move {
            // Both outcomes mean that the caller queries the mailbox.
            let _ = tokio::time::timeout(INPUT_POLL_INTERVAL, input_arrived.notified()).await;
        }
    }

    /// Returns the oldest unprocessed inputs, at most 100.
    pub async fn queued_inputs(&self) -> Result<Vec<MailboxInput>, StoreError> {
        let sql = "SELECT seq, input FROM goondan.letters WHERE workspace = $1 AND refusal IS NULL \
            ORDER BY seq LIMIT $2";
        let rows = self
            .quick
            .workspace_session()
            .query(sql, &[&self.access.id, &MAX_INPUTS_PER_QUERY])
            .await?;
        rows.iter()
            .map(|row| {
                Ok(MailboxInput {
                    number: row.get(0),
                    input: decode("a queued input", row.get(1))?,
                })
            })
            .collect()
    }

    /// Deletes a processed input, or marks it as rejected.
    pub async fn letter_is_read(
        &self,
        letter: &MailboxInput,
        refusal: Option<&Value>,
    ) -> Result<(), StoreError> {
        self.check_writable()?;
        let session = self.durable.workspace_session();
        match refusal.map(encode).transpose()? {
            None => {
                let sql = "DELETE FROM goondan.letters WHERE workspace = $1 AND seq = $2";
                session
                    .query(sql, &[&self.access.id, &letter.number])
                    .await
                    .map(drop)
            }
            Some(refusal) => {
                let sql =
                    "UPDATE goondan.letters SET refusal = $3 WHERE workspace = $1 AND seq = $2";
                session
                    .query(sql, &[&self.access.id, &letter.number, &refusal])
                    .await
                    .map(drop)
            }
        }
    }
}

/// Submits an input to the node that holds the workspace, and waits up to `patience` for the
/// result. The input is durable once it is submitted.
pub async fn post(
    address: &DatabaseAddress,
    workspace: &str,
    input: &Value,
    patience: Duration,
) -> Result<MailboxInputState, PostgresOpenError> {
    let unusable = |cause: String| PostgresOpenError::Unusable {
        address: address.to_string(),
        cause,
    };
    let session = DatabaseSession::open(address, "gdn post", SessionKind::Durable)
        .await
        .map_err(|error| unusable(error.to_string()))?;
    schema::prepare(&session)
        .await
        .map_err(|error| unusable(error.to_string()))?;
    let text = encode(input).map_err(|error| unusable(error.to_string()))?;
    submit_and_wait(&session, workspace, &text, patience)
        .await
        .map_err(|error| unusable(error.to_string()))
}

/// Queues an input in the mailbox of a workspace, and waits up to `patience` until the leader
/// accepts or rejects it.
async fn submit_and_wait(
    session: &DatabaseSession,
    workspace: &str,
    text: &str,
    max_wait: Duration,
) -> Result<MailboxInputState, DbError> {
    let sql = "INSERT INTO goondan.workspaces (name) VALUES ($1) ON CONFLICT DO NOTHING";
    session.query(sql, &[&workspace]).await?;
    let sql = "WITH new AS (
                   INSERT INTO goondan.letters (workspace, input)
                   SELECT id, $2 FROM goondan.workspaces WHERE name = $1 RETURNING workspace, seq
               ) SELECT workspace, seq, pg_notify('goondan_' || workspace, '')::text FROM new";
    let rows = session.query(sql, &[&workspace, &text]).await?;
    let Some(row) = rows.first() else {
        return Ok(MailboxInputState::Waits);
    };
    let (id, seq): (i64, i64) = (row.get(0), row.get(1));
    let until = tokio::time::Instant::now() + max_wait;
    loop {
        let sql = "SELECT refusal FROM goondan.letters WHERE workspace = $1 AND seq = $2";
        let rows = session.query(sql, &[&id, &seq]).await?;
        let Some(row) = rows.first() else {
            return Ok(MailboxInputState::Accepted);
        };
        if let Some(refusal) = row.get::<_, Option<&str>>(0) {
            let refusal = serde_json::from_str(refusal).unwrap_or_default();
            let sql = "DELETE FROM goondan.letters WHERE workspace = $1 AND seq = $2";
            session.query(sql, &[&id, &seq]).await?;
            return Ok(MailboxInputState::Refused(refusal));
        }
        if tokio::time::Instant::now() >= until {
            return Ok(MailboxInputState::Waits);
        }
        tokio::time::sleep(max_wait / 100).await;
    }
}

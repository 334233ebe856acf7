//! A workspace in a database.

use std::path::PathBuf;
use std::sync::Arc;

use futures::future::join_all;
use goondan_core::ids::InstanceId;
use goondan_core::ports::store::{StoreError, WorkspacePaths};
use tokio::task::JoinHandle;

use crate::address::DatabaseAddress;
use crate::events::RuntimeEventWriter;
use crate::journal::JournalTable;
use crate::leadership::{self, LeaderLock, PostgresOpenError, SessionAccess, WorkspaceWait};
use crate::log::RecordWriter;
use crate::mailbox::MailboxNotifier;
use crate::reconnecting_session::{ReconnectingSession, SessionPool};
use crate::schema;
use crate::session::{DatabaseSession, DbError, SessionKind};

/// Number of connections with synchronous commits. Concurrent commits share syncs.
const DURABLE_SESSIONS: usize = 3;
/// Number of connections with asynchronous commits.
const QUICK_SESSIONS: usize = 3;

/// A workspace in PostgreSQL. It must be created and used inside a Tokio runtime, and is held until
/// it is dropped.
pub struct PostgresStore {
    pub(crate) access: Arc<SessionAccess>,
    pub(crate) quick: Arc<SessionPool>,
    pub(crate) durable: Arc<SessionPool>,
    pub(crate) journals: Arc<JournalTable>,
    /// `None` if access is read-only.
    pub(crate) writer: Option<RecordWriter>,
    pub(crate) runtime_event_writer: Option<RuntimeEventWriter>,
    pub(crate) mailbox_notifier: Arc<MailboxNotifier>,
    watch: Option<JoinHandle<()>>,
    folders: Box<dyn WorkspacePaths>,
}

#[derive(Clone)]
pub(crate) struct StoreParts {
    pub(crate) access: Arc<SessionAccess>,
    pub(crate) quick: Arc<SessionPool>,
    pub(crate) durable: Arc<SessionPool>,
    pub(crate) journals: Arc<JournalTable>,
}

pub(crate) struct HeartbeatSessions {
    durable: Arc<SessionPool>,
    quick: Arc<SessionPool>,
}

impl HeartbeatSessions {
    /// Sends a heartbeat on each open session, so that no session reaches its idle timeout.
    pub(crate) async fn send_heartbeats(&self) {
        // The next call reopens a closed session.
        join_all(
            self.durable
                .sessions()
                .chain(self.quick.sessions())
                .map(|session| session.send_heartbeat()),
        )
        .await;
    }
}

impl PostgresStore {
    /// Takes a workspace and creates it if it is missing. If another node holds it, waits. Tools
    /// work in the local directories `folders`.
    pub async fn open(
        address: &DatabaseAddress,
        workspace: &str,
        folders: Box<dyn WorkspacePaths>,
        wait: WorkspaceWait,
    ) -> Result<Self, PostgresOpenError> {
        Ok(Self::for_leader(
            leadership::take(address, workspace, wait).await?,
            folders,
        ))
    }

    /// Creates the store of the node that is the leader of the workspace.
    pub(crate) fn for_leader(lock: LeaderLock, folders: Box<dyn WorkspacePaths>) -> Self {
        let access = Arc::clone(&lock.access);
        Self::with_monitor(access, folders, move |sessions| lock.monitor_lock(sessions))
    }

    /// Creates a writable store. `monitor` sends heartbeats on the given sessions, and returns when
    /// this node has lost its write access. All sessions are then closed.
    pub(crate) fn with_monitor<F: Future<Output = ()> + Send>(
        access: Arc<SessionAccess>,
        folders: Box<dyn WorkspacePaths>,
        monitor: impl FnOnce(HeartbeatSessions) -> F + Send + 'static,
    ) -> Self {
        let durable = Arc::new(SessionPool::new(
            &access,
            SessionKind::Durable,
            DURABLE_SESSIONS,
        ));
        let quick = Arc::new(SessionPool::new(
            &access,
            SessionKind::Quick,
            QUICK_SESSIONS,
        ));
        let log = Arc::new(ReconnectingSession::new(
            Arc::clone(&access),
            SessionKind::Durable,
        ));
        let writer = RecordWriter::start(Arc::clone(&log), access.id);
        let runtime_event_writer =
            RuntimeEventWriter::start(Arc::clone(&access), Arc::clone(&quick));
        let lost = access.wait_until_lost();
        let heartbeat_sessions = HeartbeatSessions {
            durable: Arc::clone(&durable),
            quick: Arc::clone(&quick),
        };
        let (durable_to_close, quick_to_close) = (Arc::clone(&durable), Arc::clone(&quick));
        let watch = tokio::spawn(async move {
            tokio::select! {
                () = monitor(heartbeat_sessions) => {}
                () = lost => {}
            }
            // The other node can begin only after these sessions end.
            let pooled_sessions = durable_to_close.sessions().chain(quick_to_close.sessions());
            let all_sessions = pooled_sessions.chain([&*log]);
            join_all(all_sessions.map(|session| session.close())).await;
        });
        let journals = JournalTable::new(
            Arc::clone(&access),
            Arc::clone(&quick),
            Arc::clone(&durable),
        );
        let journals = Arc::new(journals);
        let mailbox_notifier = MailboxNotifier::subscribe(Arc::clone(&access));
        let (writer, runtime_event_writer, watch) =
            (Some(writer), Some(runtime_event_writer), Some(watch));
        PostgresStore {
            access,
            quick,
            durable,
            journals,
            writer,
            runtime_event_writer,
            mailbox_notifier,
            watch,
            folders,
        }
    }

    /// Opens a workspace read-only, without taking it. All changes fail.
    pub async fn look(
        address: &DatabaseAddress,
        workspace: &str,
        folders: Box<dyn WorkspacePaths>,
    ) -> Result<Self, PostgresOpenError> {
        let access = Arc::new(SessionAccess::open_read_only(address, workspace).await?);
        let pool = Arc::new(SessionPool::new(&access, SessionKind::ReadOnly, 1));
        let journals = Arc::new(JournalTable::new(
            Arc::clone(&access),
            Arc::clone(&pool),
            Arc::clone(&pool),
        ));
        let (quick, durable, mailbox_notifier) = (Arc::clone(&pool), pool, Arc::default());
        let (writer, runtime_event_writer, watch) = (None, None, None);
        Ok(PostgresStore {
            access,
            quick,
            durable,
            journals,
            writer,
            runtime_event_writer,
            mailbox_notifier,
            watch,
            folders,
        })
    }

    /// Waits until another node has taken over the workspace. Changes through this store then fail.
    pub fn lost(&self) -> impl Future<Output = ()> + Send + use<> {
        self.access.wait_until_lost()
    }

    /// Returns the name of this node.
    pub fn node(&self) -> &str {
        &self.access.node
    }

    /// Returns shared handles to the sessions and journals of this store.
    pub(crate) fn parts(&self) -> StoreParts {
        StoreParts {
            access: Arc::clone(&self.access),
            quick: Arc::clone(&self.quick),
            durable: Arc::clone(&self.durable),
            journals: Arc::clone(&self.journals),
        }
    }

    /// Fails if this store is read-only, or if this node has lost its write access.
    pub(crate) fn check_writable(&self) -> Result<(), StoreError> {
        if self.writer.is_none() {
            return Err(StoreError::Closed);
        }
        self.access.check()
    }
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        // Sessions end with their connections. The writer ends after it has written the appended
        // records.
        if let Some(watch) = &self.watch {
            watch.abort();
        }
    }
}

impl WorkspacePaths for PostgresStore {
    fn workdir(&self, id: &InstanceId) -> PathBuf {
        self.folders.workdir(id)
    }

    fn output_file(&self, id: &InstanceId, name: &str) -> PathBuf {
        self.folders.output_file(id, name)
    }
}

/// Returns a function that converts a database error to "database cannot be used".
fn unusable_error(address: &DatabaseAddress) -> impl Fn(DbError) -> PostgresOpenError {
    move |error| PostgresOpenError::Unusable {
        address: address.to_string(),
        cause: error.to_string(),
    }
}

/// Returns the names of all workspaces in the database, sorted; none if the schema does not exist
/// yet.
pub async fn workspaces(address: &DatabaseAddress) -> Result<Vec<String>, PostgresOpenError> {
    let unusable = unusable_error(address);
    let session = DatabaseSession::open(address, "gdn", SessionKind::ReadOnly)
        .await
        .map_err(&unusable)?;
    if !schema::exists(&session)
        .await
        .map_err(|error| leadership::unusable_error(address, &error))?
    {
        return Ok(Vec::new());
    }
    let rows = session
        .query("SELECT name FROM goondan.workspaces ORDER BY name", &[])
        .await
        .map_err(&unusable)?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

/// Deletes a workspace with all contents. Fails while a node holds it.
pub async fn forget(address: &DatabaseAddress, workspace: &str) -> Result<(), PostgresOpenError> {
    let lock = leadership::take(
        address,
        workspace,
        WorkspaceWait::For(std::time::Duration::from_secs(5)),
    )
    .await?;
    let session = DatabaseSession::open(address, "gdn", SessionKind::Durable)
        .await
        .map_err(unusable_error(address))?;
    let id = lock.access.id;
    for sql in DELETE_WORKSPACE {
        session
            .query(sql, &[&id])
            .await
            .map_err(unusable_error(address))?;
    }
    Ok(())
}

const DELETE_WORKSPACE: [&str; 14] = [
    "DELETE FROM goondan.members WHERE workspace = $1",
    "DELETE FROM goondan.packets WHERE workspace = $1",
    "DELETE FROM goondan.letters WHERE workspace = $1",
    "DELETE FROM goondan.pending WHERE workspace = $1",
    "DELETE FROM goondan.handled WHERE workspace = $1",
    "DELETE FROM goondan.messages WHERE workspace = $1",
    "DELETE FROM goondan.turn_events WHERE workspace = $1",
    "DELETE FROM goondan.journal WHERE workspace = $1",
    "DELETE FROM goondan.records WHERE workspace = $1",
    "DELETE FROM goondan.instances WHERE workspace = $1",
    "DELETE FROM goondan.runtime_events WHERE workspace = $1",
    "DELETE FROM goondan.conversations WHERE workspace = $1",
    "DELETE FROM goondan.nodes WHERE workspace = $1",
    "DELETE FROM goondan.workspaces WHERE id = $1",
];

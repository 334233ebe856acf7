//! A workspace in a database.

use std::path::PathBuf;
use std::sync::Arc;

use futures::future::join_all;
use goondan_core::ids::InstanceId;
use goondan_core::ports::store::{StoreError, Workspace};
use tokio::task::JoinHandle;

use crate::address::Address;
use crate::events::Happened;
use crate::hold::{self, Access, Hold, OpenError, Wait};
use crate::journal::Journals;
use crate::letters::Bell;
use crate::line::{Line, Lines};
use crate::log::Writer;
use crate::schema;
use crate::session::{DbError, Kind, Session};

/// Number of connections with synchronous commits. Concurrent commits share syncs.
const DURABLE_LINES: usize = 3;
/// Number of connections with asynchronous commits.
const QUICK_LINES: usize = 3;

/// A workspace in PostgreSQL. It must be created and used inside a Tokio runtime, and is held until
/// it is dropped.
pub struct PostgresStore {
    pub(crate) access: Arc<Access>,
    pub(crate) quick: Arc<Lines>,
    pub(crate) durable: Arc<Lines>,
    pub(crate) journals: Arc<Journals>,
    /// `None` if access is read-only.
    pub(crate) writer: Option<Writer>,
    pub(crate) happened: Option<Happened>,
    pub(crate) bell: Arc<Bell>,
    watch: Option<JoinHandle<()>>,
    folders: Box<dyn Workspace>,
}

#[derive(Clone)]
pub(crate) struct Parts {
    pub(crate) access: Arc<Access>,
    pub(crate) quick: Arc<Lines>,
    pub(crate) durable: Arc<Lines>,
    pub(crate) journals: Arc<Journals>,
}

pub(crate) struct Beat {
    durable: Arc<Lines>,
    quick: Arc<Lines>,
}

impl Beat {
    pub(crate) async fn all(&self) {
        // The next call reopens a closed line.
        join_all(
            self.durable
                .all()
                .chain(self.quick.all())
                .map(|line| line.beat()),
        )
        .await;
    }
}

impl PostgresStore {
    /// Takes a workspace and creates it if it is missing. If another node holds it, waits. Tools
    /// work in the local directories `folders`.
    pub async fn open(
        address: &Address,
        workspace: &str,
        folders: Box<dyn Workspace>,
        wait: Wait,
    ) -> Result<Self, OpenError> {
        Ok(Self::of_hold(
            hold::take(address, workspace, wait).await?,
            folders,
        ))
    }

    /// Returns the workspace of a leading node.
    pub(crate) fn of_hold(hold: Hold, folders: Box<dyn Workspace>) -> Self {
        let access = Arc::clone(&hold.access);
        Self::working(access, folders, move |beat| hold.watch(beat))
    }

    /// Creates the store of a workspace that `keep` monitors. `keep` receives the heartbeats, and
    /// returns when the sessions have become invalid.
    pub(crate) fn working<F: Future<Output = ()> + Send>(
        access: Arc<Access>,
        folders: Box<dyn Workspace>,
        keep: impl FnOnce(Beat) -> F + Send + 'static,
    ) -> Self {
        let durable = Arc::new(Lines::new(&access, Kind::Durable, DURABLE_LINES));
        let quick = Arc::new(Lines::new(&access, Kind::Quick, QUICK_LINES));
        let log = Arc::new(Line::new(Arc::clone(&access), Kind::Durable));
        let writer = Writer::start(Arc::clone(&log), access.id);
        let happened = Happened::start(Arc::clone(&access), Arc::clone(&quick));
        let lost = access.lost();
        let beat = Beat {
            durable: Arc::clone(&durable),
            quick: Arc::clone(&quick),
        };
        let (end_durable, end_quick) = (Arc::clone(&durable), Arc::clone(&quick));
        let watch = tokio::spawn(async move {
            tokio::select! {
                () = keep(beat) => {}
                () = lost => {}
            }
            // The other node can begin only after these sessions end.
            let others = end_durable.all().chain(end_quick.all());
            join_all(others.chain([&*log]).map(|line| line.close())).await;
        });
        let journals = Journals::new(
            Arc::clone(&access),
            Arc::clone(&quick),
            Arc::clone(&durable),
        );
        let journals = Arc::new(journals);
        let bell = Bell::hang(Arc::clone(&access));
        let (writer, happened, watch) = (Some(writer), Some(happened), Some(watch));
        PostgresStore {
            access,
            quick,
            durable,
            journals,
            writer,
            happened,
            bell,
            watch,
            folders,
        }
    }

    /// Opens a workspace read-only, without taking it. All changes fail.
    pub async fn look(
        address: &Address,
        workspace: &str,
        folders: Box<dyn Workspace>,
    ) -> Result<Self, OpenError> {
        let access = Arc::new(Access::look(address, workspace).await?);
        let lines = Arc::new(Lines::new(&access, Kind::ReadOnly, 1));
        let journals = Arc::new(Journals::new(
            Arc::clone(&access),
            Arc::clone(&lines),
            Arc::clone(&lines),
        ));
        let (quick, durable, bell) = (Arc::clone(&lines), lines, Arc::default());
        let (writer, happened, watch) = (None, None, None);
        Ok(PostgresStore {
            access,
            quick,
            durable,
            journals,
            writer,
            happened,
            bell,
            watch,
            folders,
        })
    }

    /// Waits until another node has taken over the workspace. Changes through this store then fail.
    pub fn lost(&self) -> impl Future<Output = ()> + Send + use<> {
        self.access.lost()
    }

    pub fn node(&self) -> &str {
        &self.access.node
    }

    pub(crate) fn parts(&self) -> Parts {
        Parts {
            access: Arc::clone(&self.access),
            quick: Arc::clone(&self.quick),
            durable: Arc::clone(&self.durable),
            journals: Arc::clone(&self.journals),
        }
    }

    /// Fails if this store must not change anything.
    pub(crate) fn check_held(&self) -> Result<(), StoreError> {
        match self.writer {
            Some(_) => self.access.check(),
            None => Err(StoreError::Closed),
        }
    }
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        // Sessions end with their lines. The writer ends after it has written the appended records.
        if let Some(watch) = &self.watch {
            watch.abort();
        }
    }
}

impl Workspace for PostgresStore {
    fn workdir(&self, id: &InstanceId) -> PathBuf {
        self.folders.workdir(id)
    }

    fn output_file(&self, id: &InstanceId, name: &str) -> PathBuf {
        self.folders.output_file(id, name)
    }
}

fn unusable(address: &Address) -> impl Fn(DbError) -> OpenError {
    move |error| OpenError::Unusable {
        address: address.to_string(),
        cause: error.to_string(),
    }
}

pub async fn workspaces(address: &Address) -> Result<Vec<String>, OpenError> {
    let unusable = unusable(address);
    let session = Session::open(address, "gdn", Kind::ReadOnly)
        .await
        .map_err(&unusable)?;
    if !schema::is_there(&session)
        .await
        .map_err(|error| hold::unusable(address, &error))?
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
pub async fn forget(address: &Address, workspace: &str) -> Result<(), OpenError> {
    let hold = hold::take(
        address,
        workspace,
        Wait::For(std::time::Duration::from_secs(5)),
    )
    .await?;
    let session = Session::open(address, "gdn", Kind::Durable)
        .await
        .map_err(unusable(address))?;
    let id = hold.access.id;
    for sql in FORGET {
        session
            .query(sql, &[&id])
            .await
            .map_err(unusable(address))?;
    }
    Ok(())
}

const FORGET: [&str; 14] = [
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

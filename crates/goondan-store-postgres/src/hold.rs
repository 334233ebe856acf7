//! Who may work in a workspace: one node at a time.
//!
//! Two advisory locks say so, and locks end with their session. The **hold** is had by one session, the guard; other nodes queue
//! for it. The **pen** is shared by all sessions of the holder that write. Whoever gets the hold asks for the pen alone, and so
//! waits until no session of the one before is left; only then it counts the epoch up and begins. So no statement of an earlier
//! holder can come behind the first of a later one, and no statement has to check anything.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use goondan_core::ids::hex;
use goondan_core::ports::store::StoreError;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::address::{Address, AddressError};
use crate::nodes;
use crate::rows::{failed, lock_key, other};
use crate::schema::{self, SchemaError};
use crate::session::{BEAT, DbError, Kind, LEASE, Session};

/// How long a start waits for a workspace that somebody else holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// So long.
    For(Duration),
    /// Until the other one lets go.
    Always,
}

/// The node that holds a workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// Its name.
    pub node: String,
    /// The machine that it runs on, and its process there.
    pub place: String,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {} ({})", self.node, self.place)
    }
}

/// Why a workspace in a database could not be opened.
#[derive(Debug, Clone, thiserror::Error)]
pub enum OpenError {
    /// The address names none.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The database can't be reached, or does not let this user do what is needed.
    #[error("the database {address} can't be used: {cause}")]
    Unusable {
        /// Which one.
        address: String,
        /// Why.
        cause: String,
    },
    /// Another node works in it.
    #[error("the workspace `{workspace}` in {address} is held by {}", .holder.as_ref().map_or_else(|| "another node".to_owned(), ToString::to_string))]
    Held {
        /// Which workspace.
        workspace: String,
        /// Where.
        address: String,
        /// By whom, where that is known.
        holder: Option<Holder>,
    },
}

/// What a session needs to know to be opened, and whether it may be.
pub(crate) struct Access {
    pub(crate) address: Address,
    pub(crate) workspace: String,
    pub(crate) node: String,
    /// The number of the workspace; 0 where it is only looked at and does not exist.
    pub(crate) id: i64,
    /// The epoch that this node holds the workspace in; `None` where it only looks.
    epoch: Option<i64>,
    lost: watch::Sender<bool>,
}

impl Access {
    /// Fails where this node holds the workspace no more.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        match *self.lost.borrow() {
            true => Err(other(format!("another node has taken over the workspace `{}`", self.workspace))),
            false => Ok(()),
        }
    }

    /// Opens a session that may do what `kind` says.
    pub(crate) async fn open(&self, kind: Kind) -> Result<Session, StoreError> {
        self.check()?;
        let session = Session::open(&self.address, &format!("gdn {}", self.node), kind).await.map_err(failed)?;
        let Some(epoch) = self.epoch else { return Ok(session) };
        let sql = "SELECT pg_try_advisory_lock_shared($1)";
        let has_pen = session.query(sql, &[&lock_key("pen", &self.workspace)]).await.map_err(failed)?;
        if !has_pen.first().is_some_and(|row| row.get::<_, bool>(0)) {
            return Err(other(format!("another node is taking over the workspace `{}`", self.workspace)));
        }
        if current_epoch(&session, self.id).await.map_err(failed)? != epoch {
            self.lose();
            self.check()?;
        }
        Ok(session)
    }

    fn lose(&self) {
        self.lost.send_replace(true);
    }

    /// Is done when another node has taken over.
    pub(crate) fn lost(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut lost = self.lost.subscribe();
        async move {
            // Without a sender there is no store that could be lost.
            let _ = lost.wait_for(|lost| *lost).await;
        }
    }

    /// Access to a workspace for looking at it alone.
    pub(crate) async fn look(address: &Address, workspace: &str) -> Result<Self, OpenError> {
        let unusable = |cause: &dyn fmt::Display| unusable(address, cause);
        let session = Session::open(address, "gdn", Kind::ReadOnly).await.map_err(|error| unusable(&error))?;
        let id = match schema::version(&session).await.map_err(|error| unusable(&error))? {
            0 => 0,
            _ => id_of(&session, workspace).await.map_err(|error| unusable(&error))?.unwrap_or_default(),
        };
        Ok(Access {
            address: address.clone(),
            workspace: workspace.to_owned(),
            node: node_name(),
            id,
            epoch: None,
            lost: watch::channel(false).0,
        })
    }
}

fn unusable(address: &Address, cause: &dyn fmt::Display) -> OpenError {
    OpenError::Unusable { address: address.to_string(), cause: cause.to_string() }
}

fn node_name() -> String {
    hex(&rand::random::<[u8; 6]>())
}

async fn current_epoch(session: &Session, id: i64) -> Result<i64, DbError> {
    let rows = session.query("SELECT epoch FROM goondan.workspaces WHERE id = $1", &[&id]).await?;
    Ok(rows.first().map_or(-1, |row| row.get(0)))
}

async fn id_of(session: &Session, workspace: &str) -> Result<Option<i64>, DbError> {
    let rows = session.query("SELECT id FROM goondan.workspaces WHERE name = $1", &[&workspace]).await?;
    Ok(rows.first().map(|row| row.get(0)))
}

/// A held workspace.
pub(crate) struct Hold {
    pub(crate) access: Arc<Access>,
    guard: Session,
}

/// Takes a workspace, and makes it where there is none.
pub(crate) async fn take(address: &Address, workspace: &str, wait: Wait) -> Result<Hold, OpenError> {
    let broken = |error: DbError| unusable(address, &error);
    let node = node_name();
    let first = Session::open(address, &format!("gdn {node}"), Kind::Durable).await.map_err(broken)?;
    schema::prepare(&first).await.map_err(|error: SchemaError| unusable(address, &error))?;
    let made = "INSERT INTO goondan.workspaces (name) VALUES ($1) ON CONFLICT DO NOTHING";
    first.query(made, &[&workspace]).await.map_err(broken)?;
    let id = id_of(&first, workspace).await.map_err(broken)?.unwrap_or_default();
    let guard = Session::open(address, &guard_name(&node), Kind::Waiting).await.map_err(broken)?;
    let queue = Queue { address, workspace, node: &node, id, sign: &first };
    queue.for_lock(&guard, "hold", wait).await?;
    queue.for_lock(&guard, "pen", wait).await?;
    let sql = "UPDATE goondan.workspaces SET epoch = epoch + 1, holder = $2 WHERE id = $1 RETURNING epoch";
    let rows = first.query(sql, &[&id, &node]).await.map_err(broken)?;
    let epoch: Option<i64> = rows.first().map(|row| row.get(0));
    let sql = "SELECT pg_advisory_unlock($1)";
    guard.query(sql, &[&lock_key("pen", workspace)]).await.map_err(broken)?;
    nodes::note(&guard, &node, id, nodes::HOLDS).await.map_err(broken)?;
    let lost = watch::channel(false).0;
    let (address, workspace) = (address.clone(), workspace.to_owned());
    let access = Access { address, workspace, node, id, epoch: Some(epoch.unwrap_or_default()), lost };
    Ok(Hold { access: Arc::new(access), guard })
}

fn guard_name(node: &str) -> String {
    format!("gdn guard {node}")
}

/// A node that waits for a workspace.
struct Queue<'a> {
    address: &'a Address,
    workspace: &'a str,
    node: &'a str,
    id: i64,
    /// Gives signs of life meanwhile.
    sign: &'a Session,
}

impl Queue<'_> {
    async fn for_lock(&self, guard: &Session, lock: &str, wait: Wait) -> Result<(), OpenError> {
        let broken = |error: DbError| unusable(self.address, &error);
        let key = lock_key(lock, self.workspace);
        let got = guard.query("SELECT pg_try_advisory_lock($1)", &[&key]).await.map_err(broken)?;
        if got.first().is_some_and(|row| row.get(0)) {
            return Ok(());
        }
        let until = match wait {
            Wait::For(time) => Some(Instant::now() + time),
            Wait::Always => None,
        };
        let values: [&(dyn tokio_postgres::types::ToSql + Sync); 1] = [&key];
        let mut locked = std::pin::pin!(guard.wait("SELECT pg_advisory_lock($1)", &values));
        loop {
            nodes::note(self.sign, self.node, self.id, nodes::WAITS).await.map_err(broken)?;
            let beat = Instant::now() + BEAT;
            let wake = until.map_or(beat, |until| until.min(beat));
            tokio::select! {
                locked = &mut locked => return locked.map(drop).map_err(broken),
                () = tokio::time::sleep_until(wake) => {}
            }
            if until.is_some_and(|until| Instant::now() >= until) {
                nodes::forget(self.sign, self.node).await.map_err(broken)?;
                let holder = nodes::holder(self.sign, self.id).await.map_err(broken)?;
                let (workspace, address) = (self.workspace.to_owned(), self.address.to_string());
                return Err(OpenError::Held { workspace, address, holder });
            }
        }
    }
}

impl Hold {
    /// Watches over the hold, for as long as it lasts. A guard that was lost is replaced, unless another node was quicker.
    pub(crate) async fn watch(self, beat: impl AsyncFn()) {
        let Hold { access, mut guard } = self;
        loop {
            beat().await;
            if nodes::note(&guard, &access.node, access.id, nodes::HOLDS).await.is_err() {
                match regain(&access).await {
                    Some(regained) => guard = regained,
                    None => {
                        access.lose();
                        return;
                    }
                }
            }
            tokio::time::sleep(BEAT).await;
        }
    }
}

/// Takes the hold again after its session was lost; `None` where another node has it. A database that is away gives it to nobody.
async fn regain(access: &Access) -> Option<Session> {
    loop {
        match try_regain(access).await {
            Ok(regained) => return regained,
            Err(error) => tracing::warn!(%error, "the database is away"),
        }
        tokio::time::sleep(LEASE / 20).await;
    }
}

async fn try_regain(access: &Access) -> Result<Option<Session>, DbError> {
    let guard = Session::open(&access.address, &guard_name(&access.node), Kind::Waiting).await?;
    // The lost one may still count on the other side.
    let sql = "SELECT pg_terminate_backend(pid, 2000) FROM pg_stat_activity \
               WHERE application_name = $1 AND usename = current_user AND pid <> pg_backend_pid()";
    guard.query(sql, &[&guard_name(&access.node)]).await?;
    let key = lock_key("hold", &access.workspace);
    let got = guard.query("SELECT pg_try_advisory_lock($1)", &[&key]).await?;
    let has_hold = got.first().is_some_and(|row| row.get(0));
    let is_current = current_epoch(&guard, access.id).await? == access.epoch.unwrap_or_default();
    Ok((has_hold && is_current).then_some(guard))
}

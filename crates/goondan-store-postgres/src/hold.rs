//! Who leads in a workspace: one node at a time.
//!
//! Two advisory locks say so, and locks end with their session. The **hold** is had by one session, the guard of the node that
//! leads; other nodes queue for it. The **pen** is shared by all sessions that write: those of the leader, and those of its
//! members (`cluster.rs`). Whoever gets the hold ends those sessions, asks for the pen alone, and so waits until none of them is
//! left; only then it counts the epoch up and begins. So no statement of an earlier epoch can come behind the first of a later
//! one, and no statement has to check anything.

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
use crate::store::Beat;

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
    /// The epoch in which this node works in the workspace; `None` where it only looks.
    pub(crate) epoch: Option<i64>,
    /// It works for another node.
    pub(crate) is_member: bool,
    lost: watch::Sender<bool>,
}

impl Access {
    /// Fails where this node holds the workspace no more.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        match *self.lost.borrow() {
            true => Err(other(format!(
                "another node has taken over the workspace `{}`",
                self.workspace
            ))),
            false => Ok(()),
        }
    }

    /// Opens a session that may do what `kind` says.
    pub(crate) async fn open(&self, kind: Kind) -> Result<Session, StoreError> {
        self.check()?;
        let session = Session::open(&self.address, &session_name(&self.node), kind)
            .await
            .map_err(failed)?;
        self.admit(&session).await?;
        Ok(session)
    }

    /// Makes a session one of those that work in the workspace: whoever takes it over ends them first.
    pub(crate) async fn admit(&self, session: &Session) -> Result<(), StoreError> {
        self.check()?;
        let Some(epoch) = self.epoch else {
            return Ok(());
        };
        let sql = "SELECT pg_try_advisory_lock_shared($1)";
        let has_pen = session
            .query(sql, &[&lock_key(PEN, &self.workspace)])
            .await
            .map_err(failed)?;
        if !has_pen.first().is_some_and(|row| row.get::<_, bool>(0)) {
            return Err(other(format!(
                "another node is taking over the workspace `{}`",
                self.workspace
            )));
        }
        if current_epoch(session, self.id).await.map_err(failed)? != epoch {
            self.lose();
            self.check()?;
        }
        // Who is expelled loses the row first, and then the sessions: one that comes behind that finds no row.
        if self.is_member
            && !is_member(session, self.id, &self.node)
                .await
                .map_err(failed)?
        {
            self.lose();
            self.check()?;
        }
        Ok(())
    }

    pub(crate) fn lose(&self) {
        self.lost.send_replace(true);
    }

    /// Is done when another node has taken over.
    pub(crate) fn lost(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut lost = self.lost.subscribe();
        async move {
            if lost.wait_for(|lost| *lost).await.is_err() {
                // It was given up here: nobody has taken it.
                std::future::pending().await
            }
        }
    }

    /// Access to a workspace for looking at it alone.
    pub(crate) async fn look(address: &Address, workspace: &str) -> Result<Self, OpenError> {
        let unusable = |cause: &dyn fmt::Display| unusable(address, cause);
        let session = Session::open(address, "gdn", Kind::ReadOnly)
            .await
            .map_err(|error| unusable(&error))?;
        let id = match schema::is_there(&session)
            .await
            .map_err(|error| unusable(&error))?
        {
            false => 0,
            true => id_of(&session, workspace)
                .await
                .map_err(|error| unusable(&error))?
                .unwrap_or_default(),
        };
        Ok(Access {
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

/// The database at `address` can't be used.
pub(crate) fn unusable(address: &Address, cause: &dyn fmt::Display) -> OpenError {
    OpenError::Unusable {
        address: address.to_string(),
        cause: cause.to_string(),
    }
}

fn node_name() -> String {
    hex(&rand::random::<[u8; 6]>())
}

async fn current_epoch(session: &Session, id: i64) -> Result<i64, DbError> {
    let rows = session
        .query("SELECT epoch FROM goondan.workspaces WHERE id = $1", &[&id])
        .await?;
    Ok(rows.first().map_or(-1, |row| row.get(0)))
}

async fn id_of(session: &Session, workspace: &str) -> Result<Option<i64>, DbError> {
    let rows = session
        .query(
            "SELECT id FROM goondan.workspaces WHERE name = $1",
            &[&workspace],
        )
        .await?;
    Ok(rows.first().map(|row| row.get(0)))
}

async fn is_member(session: &Session, id: i64, node: &str) -> Result<bool, DbError> {
    let rows = session
        .query(
            "SELECT 1 FROM goondan.members WHERE workspace = $1 AND node = $2",
            &[&id, &node],
        )
        .await?;
    Ok(!rows.is_empty())
}

/// A held workspace.
pub(crate) struct Hold {
    pub(crate) access: Arc<Access>,
    guard: Session,
}

/// Takes a workspace, and makes it where there is none.
pub(crate) async fn take(
    address: &Address,
    workspace: &str,
    wait: Wait,
) -> Result<Hold, OpenError> {
    let candidate = Candidate::enter(address, workspace).await?;
    candidate.queue(wait).await?;
    candidate.lead().await
}

/// The lock that is shared by all sessions that write.
pub(crate) const PEN: &str = "pen";

/// A node that would lead.
pub(crate) struct Candidate {
    pub(crate) address: Address,
    pub(crate) workspace: String,
    pub(crate) node: String,
    pub(crate) id: i64,
    guard: Session,
    /// Gives signs of life meanwhile.
    sign: Session,
    /// What it does meanwhile, for people.
    pub(crate) state: watch::Sender<&'static str>,
}

/// Who works in a workspace does not notice that before it is too late; who takes it over ends its sessions.
const END_WRITERS: &str = "\
    SELECT pg_terminate_backend(l.pid, 5000) FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
    WHERE l.locktype = 'advisory' AND l.mode = 'ShareLock' AND l.granted AND l.objsubid = 1 AND a.usename = current_user AND l.pid <> pg_backend_pid()
    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND ((l.classid::bigint << 32) | l.objid::bigint) = $1";

impl Candidate {
    /// Comes to a workspace, and makes it where there is none.
    pub(crate) async fn enter(address: &Address, workspace: &str) -> Result<Self, OpenError> {
        let broken = |error: DbError| unusable(address, &error);
        let node = node_name();
        let sign = Session::open(address, &session_name(&node), Kind::Durable)
            .await
            .map_err(broken)?;
        schema::prepare(&sign)
            .await
            .map_err(|error: SchemaError| unusable(address, &error))?;
        let made = "INSERT INTO goondan.workspaces (name) VALUES ($1) ON CONFLICT DO NOTHING";
        sign.query(made, &[&workspace]).await.map_err(broken)?;
        let id = id_of(&sign, workspace)
            .await
            .map_err(broken)?
            .unwrap_or_default();
        let guard = Session::open(address, &guard_name(&node), Kind::Waiting)
            .await
            .map_err(broken)?;
        let (address, workspace, state) = (
            address.clone(),
            workspace.to_owned(),
            watch::channel(nodes::WAITS).0,
        );
        Ok(Candidate {
            address,
            workspace,
            node,
            id,
            guard,
            sign,
            state,
        })
    }

    /// The session that gives signs of life.
    pub(crate) fn sign(&self) -> &Session {
        &self.sign
    }

    /// Takes the hold, where nobody has it.
    pub(crate) async fn try_hold(&self) -> Result<bool, OpenError> {
        let key = lock_key("hold", &self.workspace);
        let got = self
            .guard
            .query("SELECT pg_try_advisory_lock($1)", &[&key])
            .await;
        let got = got.map_err(|error| unusable(&self.address, &error))?;
        Ok(got.first().is_some_and(|row| row.get(0)))
    }

    /// Waits for the hold.
    pub(crate) async fn queue(&self, wait: Wait) -> Result<(), OpenError> {
        let Candidate {
            address,
            workspace,
            node,
            id,
            guard,
            sign,
            state,
        } = self;
        let queue = Queue {
            address,
            workspace,
            node,
            id: *id,
            sign,
            state: state.subscribe(),
        };
        queue.for_lock(guard, "hold", wait).await
    }

    /// Begins an epoch. It has the hold.
    pub(crate) async fn lead(self) -> Result<Hold, OpenError> {
        let Candidate {
            address,
            workspace,
            node,
            id,
            guard,
            sign,
            state,
        } = self;
        let broken = |error: DbError| unusable(&address, &error);
        state.send_replace(nodes::WAITS);
        let queue = Queue {
            address: &address,
            workspace: &workspace,
            node: &node,
            id,
            sign: &sign,
            state: state.subscribe(),
        };
        queue.for_lock(&guard, PEN, Wait::Always).await?;
        let sql = "UPDATE goondan.workspaces SET epoch = epoch + 1, holder = $2 WHERE id = $1 RETURNING epoch";
        let rows = sign.query(sql, &[&id, &node]).await.map_err(broken)?;
        let epoch: Option<i64> = rows.first().map(|row| row.get(0));
        for sql in NEW_EPOCH {
            sign.query(sql, &[&id]).await.map_err(broken)?;
        }
        let sql = "SELECT pg_advisory_unlock($1)";
        guard
            .query(sql, &[&lock_key(PEN, &workspace)])
            .await
            .map_err(broken)?;
        nodes::note(&guard, &node, id, nodes::LEADS)
            .await
            .map_err(broken)?;
        let lost = watch::channel(false).0;
        let epoch = Some(epoch.unwrap_or_default());
        let access = Access {
            address,
            workspace,
            node,
            id,
            epoch,
            is_member: false,
            lost,
        };
        Ok(Hold {
            access: Arc::new(access),
            guard,
        })
    }

    /// What this node may do as a member in that epoch.
    pub(crate) fn member_access(&self, epoch: i64) -> Access {
        Access {
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

/// What was said in earlier epochs, and by whom, counts no more.
const NEW_EPOCH: [&str; 2] = [
    "DELETE FROM goondan.members WHERE workspace = $1",
    "DELETE FROM goondan.packets WHERE workspace = $1",
];

/// The name of the sessions of a node that write.
pub(crate) fn session_name(node: &str) -> String {
    format!("gdn {node}")
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
    sign: &'a Session,
    state: watch::Receiver<&'static str>,
}

impl Queue<'_> {
    async fn for_lock(&self, guard: &Session, lock: &str, wait: Wait) -> Result<(), OpenError> {
        let broken = |error: DbError| unusable(self.address, &error);
        let key = lock_key(lock, self.workspace);
        let got = guard
            .query("SELECT pg_try_advisory_lock($1)", &[&key])
            .await
            .map_err(broken)?;
        if got.first().is_some_and(|row| row.get(0)) {
            return Ok(());
        }
        let until = match wait {
            Wait::For(time) => Some(Instant::now() + time),
            Wait::Always => None,
        };
        let values: [&(dyn tokio_postgres::types::ToSql + Sync); 1] = [&key];
        let mut state = self.state.clone();
        let mut locked = std::pin::pin!(guard.wait("SELECT pg_advisory_lock($1)", &values));
        loop {
            let does = *state.borrow_and_update();
            nodes::note(self.sign, self.node, self.id, does)
                .await
                .map_err(broken)?;
            let mut beat = Instant::now() + BEAT;
            if lock == PEN {
                // Again and again: one may have begun between the question and the lock.
                beat = Instant::now() + BEAT / 20;
                if let Err(error) = self.sign.query(END_WRITERS, &[&key]).await {
                    tracing::warn!(%error, "those that have worked in the workspace have to end by themselves");
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
                return Err(OpenError::Held {
                    workspace,
                    address,
                    holder,
                });
            }
        }
    }
}

impl Hold {
    /// Watches over the hold, for as long as it lasts. A guard that was lost is replaced, unless another node was quicker.
    pub(crate) async fn watch(self, beat: Beat) {
        let Hold { access, mut guard } = self;
        loop {
            beat.all().await;
            if nodes::note(&guard, &access.node, access.id, nodes::LEADS)
                .await
                .is_err()
            {
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
    let got = guard
        .query("SELECT pg_try_advisory_lock($1)", &[&key])
        .await?;
    let has_hold = got.first().is_some_and(|row| row.get(0));
    let is_current = current_epoch(&guard, access.id).await? == access.epoch.unwrap_or_default();
    Ok((has_hold && is_current).then_some(guard))
}

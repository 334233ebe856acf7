//! The members of a workspace: nodes that work for the leader.
//!
//! A member has a row, which it renews. The leader evicts a member whose row is older than the
//! lease, or that has no connection left. It deletes the row, terminates the node's sessions, and
//! waits until they end. A session opened later finds no row and is refused, so the node can no
//! longer write anything.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use goondan_core::agent_event::AgentEvent;
use goondan_core::event::TurnResult;
use goondan_core::ids::InstanceId;
use goondan_core::ports::cluster::{
    ClusterEvent, ClusterMember, ClusterMembership, EndedTurn, LeaderChannel,
};
use goondan_core::ports::store::{FinishedTurn, InstanceMeta, StoreError, WorkspacePaths};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::Instant;

use crate::address::DatabaseAddress;
use crate::leadership::{
    LeaderCandidate, PostgresOpenError, SessionAccess, WRITER_LOCK, WorkspaceWait, session_name,
};
use crate::nodes;
use crate::reconnecting_session::{ReconnectingSession, SessionPool};
use crate::reliable_channel::{self, ReceivedMessage, ReliableChannel};
use crate::rows::{decode, key, lock_key, store_error};
use crate::session::{DatabaseSession, HEARTBEAT_INTERVAL, SESSION_LEASE, SessionKind};
use crate::store::{HeartbeatSessions, PostgresStore};

/// Interval at which the leader checks the members.
const MEMBER_CHECK_INTERVAL: Duration = Duration::from_millis(250);

const JOIN: &str = "\
    INSERT INTO goondan.members (workspace, node, epoch, generation, turns)
    SELECT id, $2, epoch, $3::text, $4::bigint FROM goondan.workspaces WHERE id = $1 RETURNING \
    epoch";

const RENEW: &str = "\
    UPDATE goondan.members SET seen_at = now() WHERE workspace = $1 AND node = $2 RETURNING 1";

const LEADER_GENERATION: &str = "\
    SELECT n.generation FROM goondan.workspaces w JOIN goondan.nodes n ON n.id = w.holder WHERE \
    w.id = $1";

const SET_GENERATION: &str = "\
    WITH node AS (UPDATE goondan.nodes SET generation = $3 WHERE id = $2)
    UPDATE goondan.members SET generation = $3 WHERE workspace = $1 AND node = $2";

const MEMBERS: &str = "\
    SELECT m.node, m.generation, m.turns, m.seen_at > now() - interval '10 seconds', EXISTS (
        SELECT 1 FROM pg_stat_activity a WHERE a.application_name = 'gdn ' || m.node AND a.usename \
    = current_user
    ) FROM goondan.members m WHERE m.workspace = $1 AND m.epoch = $2";

const DELETE_MEMBER: &str = "DELETE FROM goondan.members WHERE workspace = $1 AND node = $2";

const END_SESSIONS: &str = "\
    SELECT pg_terminate_backend(pid, 2000) FROM pg_stat_activity
    WHERE application_name = $1 AND usename = current_user AND pid <> pg_backend_pid()";

const SET_SERVED_GENERATION: &str = "UPDATE goondan.nodes SET generation = $2 WHERE id = $1";

const WRITE_RUNNING_TURNS: &str = "\
    UPDATE goondan.nodes n SET running = t.running FROM unnest($1::text[], $2::bigint[]) AS \
    t(node, running)
    WHERE n.id = t.node AND n.running <> t.running";

/// The role of a node that has joined a workspace.
pub enum JoinOutcome {
    /// The node is the leader.
    Leads(PostgresStore),
    /// The node is a member until the leader changes.
    Works(Box<WorkerMembership>),
    /// The leader changed at that moment, or the connection was lost. The node may join again.
    Again(PostgresOpenError),
}

/// Joins a workspace as its leader or, if another node is the leader, as a member. Waits during a
/// change of the leader.
///
/// `generation` is the fingerprint of this node's project. A member runs at most `turns` concurrent
/// turns. Returns [`JoinOutcome::Again`] if the database connection was lost.
pub async fn arrive(
    address: &DatabaseAddress,
    workspace: &str,
    folders: impl Fn() -> Box<dyn WorkspacePaths>,
    generation: &str,
    turns: usize,
) -> Result<JoinOutcome, PostgresOpenError> {
    let candidate = LeaderCandidate::register(address, workspace).await?;
    match join_as_leader_or_member(candidate, folders, generation, turns).await {
        Err(error @ PostgresOpenError::Unusable { .. }) => Ok(JoinOutcome::Again(error)),
        outcome => outcome,
    }
}

/// Waits until this node is the leader of the workspace or a member.
async fn join_as_leader_or_member(
    candidate: LeaderCandidate,
    folders: impl Fn() -> Box<dyn WorkspacePaths>,
    generation: &str,
    turns: usize,
) -> Result<JoinOutcome, PostgresOpenError> {
    nodes::publish_generation(&candidate, generation).await?;
    let (epoch, leader) = loop {
        if candidate.try_hold().await? {
            return Ok(JoinOutcome::Leads(PostgresStore::for_leader(
                candidate.become_leader().await?,
                folders(),
            )));
        }
        if let Some(joined) = candidate.join(generation, turns).await? {
            break joined;
        }
        tokio::time::sleep(MEMBER_CHECK_INTERVAL / 5).await;
    };
    let access = Arc::new(candidate.member_access(epoch));
    let renewed_access = Arc::clone(&access);
    let renewing_session = ReconnectingSession::new(Arc::clone(&access), SessionKind::Quick);
    let monitor = move |sessions: HeartbeatSessions| async move {
        renew_membership(&renewed_access, &renewing_session, &sessions).await
    };
    let store = PostgresStore::with_monitor(Arc::clone(&access), folders(), monitor);
    let (channel, incoming) = ReliableChannel::open(&access);
    let state = candidate.state.clone();
    let pool = Arc::clone(&store.quick);
    let leader = PostgresLeader {
        channel,
        incoming: incoming.into(),
        leader,
        access,
        pool,
        state,
    };
    let queueing = tokio::spawn(async move {
        candidate.queue(WorkspaceWait::Always).await?;
        Ok(candidate)
    });
    Ok(JoinOutcome::Works(Box::new(WorkerMembership {
        store: Arc::new(store),
        leader: Arc::new(leader),
        queueing,
    })))
}

/// Sends heartbeats until this node is no longer a member.
async fn renew_membership(
    access: &SessionAccess,
    session: &ReconnectingSession,
    heartbeat_sessions: &HeartbeatSessions,
) {
    while access.check().is_ok() {
        heartbeat_sessions.send_heartbeats().await;
        match session.query(RENEW, &[&access.id, &access.node]).await {
            Ok(rows) if rows.is_empty() => access.mark_lost(),
            Ok(_) => {}
            Err(error) => tracing::debug!(%error, "could not write a heartbeat; retrying"),
        }
        tokio::time::sleep(HEARTBEAT_INTERVAL).await;
    }
}

impl LeaderCandidate {
    /// Becomes a member, and returns the epoch and the leader. `None` during a takeover.
    async fn join(
        &self,
        generation: &str,
        turns: usize,
    ) -> Result<Option<(i64, String)>, PostgresOpenError> {
        let unusable = |cause: String| PostgresOpenError::Unusable {
            address: self.address.to_string(),
            cause,
        };
        let session =
            DatabaseSession::open(&self.address, &session_name(&self.node), SessionKind::Quick)
                .await;
        let session = session.map_err(|error| unusable(error.to_string()))?;
        let sql = "SELECT pg_try_advisory_lock_shared($1)";
        let locked = session
            .query(sql, &[&lock_key(WRITER_LOCK, &self.workspace)])
            .await;
        let may_write = locked
            .map_err(|error| unusable(error.to_string()))?
            .first()
            .is_some_and(|row| row.get(0));
        if !may_write {
            return Ok(None);
        }
        let turns = i64::try_from(turns).unwrap_or(i64::MAX);
        let joined = session
            .query(JOIN, &[&self.id, &self.node, &generation, &turns])
            .await;
        let joined = joined.map_err(|error| unusable(error.to_string()))?;
        let epoch = joined.first().map(|row| row.get(0)).unwrap_or_default();
        let sql = "SELECT holder FROM goondan.workspaces WHERE id = $1";
        let holder_rows = session
            .query(sql, &[&self.id])
            .await
            .map_err(|error| unusable(error.to_string()))?;
        let leader: Option<String> = holder_rows.first().and_then(|row| row.get(0));
        Ok(Some((epoch, leader.unwrap_or_default())))
    }
}

/// The membership of a node that works for the leader.
pub struct WorkerMembership {
    /// The workspace with a member's write access.
    pub store: Arc<PostgresStore>,
    /// Connection to the leader.
    pub leader: Arc<PostgresLeader>,
    queueing: JoinHandle<Result<LeaderCandidate, PostgresOpenError>>,
}

impl WorkerMembership {
    /// Waits until this node is no longer a member. It may then become the leader.
    pub async fn over(&mut self) -> Option<LeaderSuccession> {
        let lost = self.store.lost();
        tokio::select! {
            () = lost => None,
            queued = &mut self.queueing => match queued {
                Ok(Ok(candidate)) => {
                    self.store.access.mark_lost();
                    Some(LeaderSuccession(candidate))
                }
                // The connection was lost, so the node joins again.
                Ok(Err(_)) | Err(_) => {
                    self.store.access.mark_lost();
                    None
                }
            },
        }
    }
}

impl Drop for WorkerMembership {
    fn drop(&mut self) {
        self.store.access.mark_lost();
        self.queueing.abort();
    }
}

/// The right to become the leader.
pub struct LeaderSuccession(LeaderCandidate);

impl LeaderSuccession {
    /// Becomes the leader.
    pub async fn lead(
        self,
        folders: Box<dyn WorkspacePaths>,
    ) -> Result<PostgresStore, PostgresOpenError> {
        Ok(PostgresStore::for_leader(
            self.0.become_leader().await?,
            folders,
        ))
    }
}

/// The leader, as a member reaches it.
pub struct PostgresLeader {
    channel: ReliableChannel,
    incoming: tokio::sync::Mutex<UnboundedReceiver<ReceivedMessage>>,
    leader: String,
    access: Arc<SessionAccess>,
    pool: Arc<SessionPool>,
    /// The displayed state of this node.
    state: watch::Sender<&'static str>,
}

impl PostgresLeader {
    /// Waits until this node is excluded from new turns.
    pub async fn is_left_out(&self) {
        // The candidate owns the sender and lives as long as the membership.
        let _ = self
            .state
            .subscribe()
            .wait_for(|state| *state == nodes::STATE_WAITS)
            .await;
    }

    /// Returns the leader's project fingerprint; `None` if the leader has not published it yet.
    pub async fn serves(&self) -> Result<Option<String>, StoreError> {
        let rows = self
            .pool
            .workspace_session()
            .query(LEADER_GENERATION, &[&self.access.id])
            .await?;
        Ok(rows.first().and_then(|row| row.get(0)))
    }

    /// Publishes the fingerprint of this node's project. The leader gives turns only to members
    /// with its own fingerprint.
    pub async fn set_generation(&self, generation: &str) -> Result<(), StoreError> {
        let values: [&(dyn tokio_postgres::types::ToSql + Sync); 3] =
            [&self.access.id, &self.access.node, &generation];
        self.pool
            .workspace_session()
            .query_with_retry(SET_GENERATION, &values)
            .await
            .map(drop)
    }
}

#[async_trait]
impl LeaderChannel for PostgresLeader {
    async fn receive_message(&self) -> Option<String> {
        let (mut incoming, lost) = (self.incoming.lock().await, self.access.wait_until_lost());
        let received = async {
            loop {
                let (sender, words) = incoming.recv().await?;
                if sender == self.leader {
                    return Some(words);
                }
            }
        };
        tokio::select! {
            received = received => received,
            () = lost => None,
        }
    }

    fn send_message(&self, words: String) {
        self.channel.send(&self.leader, words);
    }

    fn note_fit(&self, is_fit: bool) {
        self.state.send_replace(if is_fit {
            nodes::STATE_WORKS
        } else {
            nodes::STATE_WAITS
        });
    }
}

/// The members, as the leader reaches them.
pub struct PostgresCrew {
    access: Arc<SessionAccess>,
    channel: Arc<ReliableChannel>,
    events: tokio::sync::Mutex<UnboundedReceiver<ClusterEvent>>,
    generation: watch::Sender<String>,
    running: Arc<Mutex<HashMap<String, i64>>>,
    durable: ReconnectingSession,
    own_turns: usize,
    tasks: [AbortHandle; 2],
}

impl Drop for PostgresCrew {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

impl PostgresStore {
    /// Returns the members of the workspace that this node leads with the project `generation`.
    pub fn cluster_members(&self, generation: &str, own_turns: usize) -> PostgresCrew {
        let access = Arc::clone(&self.access);
        let (channel, incoming) = ReliableChannel::open(&access);
        let (channel, generation) = (Arc::new(channel), watch::channel(generation.to_owned()).0);
        let (events, event_receiver) = unbounded_channel();
        let running = Arc::new(Mutex::default());
        let monitor = MemberMonitor {
            quick: ReconnectingSession::new(Arc::clone(&access), SessionKind::Quick),
            durable: ReconnectingSession::new(Arc::clone(&access), SessionKind::Durable),
            access: Arc::clone(&access),
            members: HashMap::new(),
            events: events.clone(),
            channel: Arc::clone(&channel),
            generation: generation.subscribe(),
            last_sent: None,
            running: Arc::clone(&running),
            session: None,
            must_report_all: false,
            trusted_from: Instant::now(),
        };
        let tasks = [
            tokio::spawn(forward_messages(incoming, events)).abort_handle(),
            tokio::spawn(monitor.run()).abort_handle(),
        ];
        let durable = ReconnectingSession::new(Arc::clone(&access), SessionKind::Durable);
        PostgresCrew {
            access,
            channel,
            events: event_receiver.into(),
            generation,
            running,
            durable,
            own_turns,
            tasks,
        }
    }
}

impl PostgresCrew {
    /// Changes the project that the leader serves.
    pub fn set_generation(&self, generation: &str) {
        self.generation.send_replace(generation.to_owned());
    }
}

/// Forwards the messages of the workers as cluster events, until one of the channels closes.
async fn forward_messages(
    mut incoming: UnboundedReceiver<ReceivedMessage>,
    events: UnboundedSender<ClusterEvent>,
) {
    while let Some((node, words)) = incoming.recv().await {
        if events.send(ClusterEvent::Said { node, words }).is_err() {
            return;
        }
    }
}

/// Repeatedly checks the members.
struct MemberMonitor {
    access: Arc<SessionAccess>,
    quick: ReconnectingSession,
    durable: ReconnectingSession,
    members: HashMap<String, ClusterMember>,
    events: UnboundedSender<ClusterEvent>,
    channel: Arc<ReliableChannel>,
    generation: watch::Receiver<String>,
    /// The project fingerprint that was last sent to other nodes.
    last_sent: Option<String>,
    /// Number of running turns per node, not written yet.
    running: Arc<Mutex<HashMap<String, i64>>>,
    session: Option<Arc<DatabaseSession>>,
    /// Set when the served project changes: all members are reported again.
    must_report_all: bool,
    /// Before this time, a silent member may only have been cut off by a database outage.
    trusted_from: Instant,
}

struct MemberRow {
    member: ClusterMember,
    is_fresh: bool,
    is_connected: bool,
}

impl MemberMonitor {
    /// Reports changes of the members while this node is the leader. Reads the members every
    /// [`MEMBER_CHECK_INTERVAL`], and immediately after the served project changed.
    async fn run(mut self) {
        while self.access.check().is_ok() {
            match self.read_members().await {
                Ok(rows) => {
                    if let Err(error) = self.apply_members(rows).await {
                        tracing::warn!(%error, "could not remove a lost node from the cluster");
                    }
                }
                Err(error) => tracing::debug!(%error, "could not read the nodes of the cluster"),
            }
            tokio::select! {
                () = tokio::time::sleep(MEMBER_CHECK_INTERVAL) => {}
                changed = self.generation.changed() => {
                    let is_sender_dropped = changed.is_err();
                    if is_sender_dropped {
                        return;
                    }
                }
            }
        }
    }

    /// Reads the nodes of the cluster, and writes the number of their running turns.
    async fn read_members(&mut self) -> Result<Vec<MemberRow>, StoreError> {
        let session = self.quick.session().await?;
        match &self.session {
            Some(previous) if Arc::ptr_eq(previous, &session) => {}
            None => self.session = Some(Arc::clone(&session)),
            Some(_) => {
                // After an outage the other nodes also need time to reconnect.
                self.trusted_from = Instant::now() + SESSION_LEASE;
                self.session = Some(Arc::clone(&session));
            }
        }
        // Known members are reported again if the served project changed.
        self.must_report_all |= self.generation.has_changed().unwrap_or_default();
        let epoch = self.access.epoch.unwrap_or_default();
        let rows = session
            .query(MEMBERS, &[&self.access.id, &epoch])
            .await
            .map_err(store_error)?;
        let running_turns = self
            .running
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .drain()
            .collect::<Vec<_>>();
        if !running_turns.is_empty() {
            let (nodes, counts): (Vec<String>, Vec<i64>) = running_turns.into_iter().unzip();
            session
                .query(WRITE_RUNNING_TURNS, &[&nodes, &counts])
                .await
                .map_err(store_error)?;
        }
        let serving = self.generation.borrow_and_update().clone();
        if self.last_sent.as_ref() != Some(&serving) {
            session
                .query(SET_SERVED_GENERATION, &[&self.access.node, &serving])
                .await
                .map_err(store_error)?;
            self.last_sent = Some(serving.clone());
        }
        let member_row = |row: &tokio_postgres::Row| MemberRow {
            member: ClusterMember {
                node: row.get(0),
                is_fit: row.get::<_, &str>(1) == serving,
                turns: usize::try_from(row.get::<_, i64>(2)).unwrap_or(usize::MAX),
            },
            is_fresh: row.get(3),
            is_connected: row.get(4),
        };
        Ok(rows.iter().map(member_row).collect())
    }

    /// Reports new and changed nodes of the cluster, and evicts nodes that are missing or lost.
    async fn apply_members(&mut self, rows: Vec<MemberRow>) -> Result<(), StoreError> {
        let is_trusted = Instant::now() >= self.trusted_from;
        let mut gone: Vec<String> = self.members.keys().cloned().collect();
        for MemberRow {
            member,
            is_fresh,
            is_connected,
        } in rows
        {
            if is_trusted && !(is_fresh && is_connected) {
                if !gone.contains(&member.node) {
                    gone.push(member.node);
                }
                continue;
            }
            gone.retain(|node| *node != member.node);
            if self.must_report_all || self.members.get(&member.node) != Some(&member) {
                self.members.insert(member.node.clone(), member.clone());
                // Without a receiver, this node is no longer the leader.
                let _ = self.events.send(ClusterEvent::Member(member));
            }
        }
        self.must_report_all = false;
        for node in gone {
            self.evict(&node).await?;
        }
        Ok(())
    }

    /// Evicts a node. After this returns, none of its writes can arrive.
    async fn evict(&mut self, node: &str) -> Result<(), StoreError> {
        self.durable
            .query_with_retry(DELETE_MEMBER, &[&self.access.id, &node])
            .await?;
        while !self
            .durable
            .query(END_SESSIONS, &[&session_name(node)])
            .await?
            .is_empty()
        {
            tokio::time::sleep(MEMBER_CHECK_INTERVAL / 50).await;
        }
        self.channel.forget(node);
        reliable_channel::clear(&self.quick, self.access.id, node).await?;
        self.members.remove(node);
        tracing::info!(node, "removed a lost node from the cluster");
        let _ = self.events.send(ClusterEvent::Left {
            node: node.to_owned(),
        });
        Ok(())
    }
}

#[async_trait]
impl ClusterMembership for PostgresCrew {
    async fn next_event(&self) -> Option<ClusterEvent> {
        self.events.lock().await.recv().await
    }

    fn send_message(&self, node: &str, words: String) {
        self.channel.send(node, words);
    }

    fn note_turns(&self, turns: Vec<(Option<String>, usize)>) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        for (member, turn_count) in turns {
            // `None` is this node, the leader.
            let node = member.unwrap_or_else(|| self.access.node.clone());
            running.insert(node, i64::try_from(turn_count).unwrap_or(i64::MAX));
        }
    }

    async fn find_turn_end(
        &self,
        event: &AgentEvent,
        joined: &[String],
    ) -> Result<Option<EndedTurn>, StoreError> {
        let id = self.access.id;
        let keys: Vec<_> = [&event.id]
            .into_iter()
            .chain(joined)
            .map(|event| key(&[event]))
            .collect();
        let sql = "SELECT id FROM goondan.pending WHERE workspace = $1 AND id = ANY($2)";
        let rows = self.durable.query(sql, &[&id, &keys]).await?;
        let open: Vec<Vec<u8>> = rows.iter().map(|row| row.get(0)).collect();
        if open.contains(&keys[0]) {
            return Ok(None);
        }
        let sql = "SELECT result FROM goondan.handled WHERE workspace = $1 AND id = $2";
        let rows = self.durable.query(sql, &[&id, &keys[0]]).await?;
        let Some(row) = rows.first() else {
            let cause = Arc::new(std::io::Error::other(
                "the database has no record of the event",
            ));
            return Err(StoreError::Damaged {
                what: format!("the outcome of {}", event.id),
                cause,
            });
        };
        let result: TurnResult = decode("the result of an event", row.get(0))?;
        let sql = "SELECT event FROM goondan.pending WHERE workspace = $1 AND id = $2";
        let answer = self
            .durable
            .query(sql, &[&id, &key(&[&format!("{}-answer", event.id)])])
            .await?;
        let answer = answer
            .first()
            .map(|row| decode("an accepted event", row.get(0)))
            .transpose()?;
        let closed = joined
            .iter()
            .zip(&keys[1..])
            .filter(|(_, key)| !open.contains(key));
        let event_ids = [event.id.clone()]
            .into_iter()
            .chain(closed.map(|(id, _)| id.clone()))
            .collect();
        let asked_by = event.caller().cloned();
        let turn = FinishedTurn {
            turn_id: result.turn_id.clone(),
            event_ids,
            result,
            asked_by,
            answer,
        };
        Ok(Some(EndedTurn {
            turn,
            meta: self.find_meta(&event.target).await?,
        }))
    }

    fn own_turns(&self) -> usize {
        self.own_turns
    }
}

impl PostgresCrew {
    /// Returns the stored metadata of an instance; `None` if the instance is not stored.
    async fn find_meta(&self, instance: &InstanceId) -> Result<Option<InstanceMeta>, StoreError> {
        let sql = "SELECT meta FROM goondan.instances WHERE workspace = $1 AND instance = $2";
        let key = crate::rows::instance_key(instance);
        let rows = self.durable.query(sql, &[&self.access.id, &key]).await?;
        rows.first()
            .map(|row| decode("the metadata of an instance", row.get(0)))
            .transpose()
    }
}

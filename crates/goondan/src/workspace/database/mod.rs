//! Database that several nodes share. One node at a time leads a workspace, and the others work for
//! it.

mod exclusive_access;
mod standby;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use goondan_core::agent_event::InputDelivery;
use goondan_core::conversation::Conversation;
use goondan_core::event::RuntimeEvent;
use goondan_core::ids::{InstanceId, derived_id};
use goondan_core::message::Message;
use goondan_core::ports::clock::{Clock as _, SystemClock};
use goondan_core::ports::store::{
    ConversationStore as _, DEAD_LETTERS_RECORD, DeadLetter, InstanceMeta, InstanceStore as _,
    RecordStore as _, RuntimeEventStore as _, Store, StoreError, WorkspacePaths as Folders,
};
use goondan_core::private_files::create_directory;
use goondan_core::reserved_names::TITLE_RECORD;
use goondan_engine::plan::Generation;
use goondan_engine::runtime::{self, EngineNodeParts, WorkerControl};
use goondan_spec::{Bundle, Code, Environment, ResourceId, SnapshotBasis};
use goondan_store::jsonl::{OpenWorkspaceError, WorkspaceLock};
use goondan_store::workspace_directories::WorkspaceDirectories;
use goondan_store_postgres::{
    DatabaseAddress, JoinOutcome, PostgresCrew, PostgresStore, RecordedEffect, WorkspaceWait,
    arrive,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::mpsc::unbounded_channel;
use tokio_util::sync::CancellationToken;

pub use goondan_store_postgres::{
    AddressError, DatabaseEndpoint, MailboxInputState, NodeStatus as NodeInfo, PostgresOpenError,
};

pub use exclusive_access::ExclusiveAccess;
pub(crate) use standby::StandbyNode;

use crate::reload::file_fingerprints::FingerprintCache;
use crate::start::start_error::StartError;
use crate::start::swarm::{Input, SendError, Swarm, SwarmInner};
use crate::workspace::{InstanceSummary, UnfinishedEffect, Workspace, summary};

/// Maximum wait of a start without [`SharedDatabase::waiting`]. A killed process releases the workspace
/// at once.
const START_WAIT: Duration = Duration::from_secs(3);

/// Shared database, and the behavior of a node whose workspace is led by another node.
#[derive(Debug, Clone)]
pub struct SharedDatabase {
    address: DatabaseAddress,
    waits: bool,
    /// Maximum number of concurrent turns on this node.
    turns: usize,
    /// Prefix of the workspace IDs.
    prefix: String,
    /// Token that makes a standby node leave.
    leave: CancellationToken,
}

impl FromStr for SharedDatabase {
    type Err = AddressError;

    fn from_str(address: &str) -> Result<Self, AddressError> {
        Ok(SharedDatabase {
            address: address.parse()?,
            waits: false,
            turns: usize::MAX,
            prefix: String::new(),
            leave: CancellationToken::new(),
        })
    }
}

/// Leading node of a swarm. It holds the workspace until it is dropped.
pub(crate) struct LeadingNode {
    pub(crate) store: Arc<PostgresStore>,
    pub(crate) crew: Arc<PostgresCrew>,
    /// Lets other commands on this machine find the process that runs the swarm.
    _lock: WorkspaceLock,
}

/// Input in transit to the node that holds the workspace.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PostedInput {
    id: String,
    text: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    agent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    instance_key: Option<String>,
    #[serde(skip_serializing_if = "InputDelivery::is_queue", default)]
    delivery: InputDelivery,
}

/// Returns the digest of a project. Nodes with equal digests run turns for each other. Values from
/// outside the project are not included.
pub(crate) async fn project_digest(bundle: &Arc<Bundle>, swarm: &ResourceId) -> String {
    let (bundle, swarm) = (Arc::clone(bundle), swarm.clone());
    let digest = tokio::task::spawn_blocking(move || {
        let contents = FingerprintCache::default().of(&bundle);
        generation_digest(
            &SnapshotBasis::new(bundle, &swarm, contents, &Environment::default(), None),
            &swarm,
        )
    });
    // The panic is already logged. A node without a digest gets no turns.
    digest.await.unwrap_or_default()
}

/// Returns the digest of a generation; see [`project_digest`].
pub(crate) fn generation_digest(basis: &SnapshotBasis, swarm: &ResourceId) -> String {
    let snapshot = serde_json::to_string(&basis.without_values(swarm)).unwrap_or_default();
    derived_id(&[env!("CARGO_PKG_VERSION"), &snapshot])[..12].to_owned()
}

/// Returns a unique input ID.
pub fn new_id() -> String {
    SystemClock.random_hex(32)
}

impl SharedDatabase {
    /// Makes the node wait without limit. Until it becomes the leader, it runs turns for the leader.
    #[must_use]
    pub fn waiting(mut self) -> Self {
        self.waits = true;
        self
    }

    /// Sets the maximum number of concurrent turns on this node. Turns that wait for other turns do
    /// not count. With 0, other nodes run all turns, if there are any.
    #[must_use]
    pub fn turns(mut self, max_turns: usize) -> Self {
        self.turns = max_turns;
        self
    }

    /// Sets a token that makes a standby node leave. After cancellation, it accepts no turns and
    /// ends its current ones within `policy.shutdown.gracePeriodSeconds`. Unfinished turns resume
    /// on another node. The start then fails with [`StartError::Left`].
    #[must_use]
    pub fn leaving(mut self, leave: CancellationToken) -> Self {
        self.leave = leave;
        self
    }

    /// Sets a prefix for workspace IDs, which separates several users of one database.
    #[must_use]
    pub fn prefixed(mut self, prefix: &str) -> Self {
        prefix.clone_into(&mut self.prefix);
        self
    }

    /// Returns the name of a workspace in the database.
    pub fn name(&self, workspace: &str) -> String {
        format!("{}{workspace}", self.prefix)
    }

    /// Returns the network address of the database server.
    pub fn server(&self) -> DatabaseEndpoint {
        self.address.server()
    }

    /// Returns the same database, reached through a proxy that listens at `proxy`.
    #[must_use]
    pub fn by_way_of(mut self, proxy: SocketAddr) -> Self {
        self.address = self.address.by_way_of(proxy);
        self
    }

    /// Returns the URL without its password.
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// Acquires the lead of a workspace. If another node leads, this node works for it with the
    /// components from `parts`, or fails.
    pub(crate) async fn join(
        &self,
        workspace: &Workspace,
        standby: &mut StandbyNode<'_>,
        parts: impl Fn(Arc<Generation>, Arc<dyn Store>) -> EngineNodeParts,
    ) -> Result<LeadingNode, StartError> {
        create_directory(&workspace.dir)?;
        let lock = || WorkspaceLock::acquire(&workspace.dir).map_err(OpenWorkspaceError::from);
        let name = self.name(&workspace.id);
        let folders =
            || Box::new(WorkspaceDirectories::below(workspace.dir.clone())) as Box<dyn Folders>;
        let (store, lock) = if self.waits {
            let store = self
                .work_until_leading(&name, folders, standby, parts)
                .await?;
            (store, lock()?)
        } else {
            // A process on this machine is reachable for commands, so a start without waiting
            // reports it.
            let lock = lock()?;
            (
                PostgresStore::open(
                    &self.address,
                    &name,
                    folders(),
                    WorkspaceWait::For(START_WAIT),
                )
                .await?,
                lock,
            )
        };
        let crew = Arc::new(store.cluster_members(&standby.mark, self.turns));
        Ok(LeadingNode {
            store: Arc::new(store),
            crew,
            _lock: lock,
        })
    }

    /// Joins the workspace and runs turns for its leader until this node becomes the leader.
    /// Returns the store of the leader. Fails at once if the database can't be reached at first.
    async fn work_until_leading(
        &self,
        name: &str,
        folders: impl Fn() -> Box<dyn Folders>,
        standby: &mut StandbyNode<'_>,
        parts: impl Fn(Arc<Generation>, Arc<dyn Store>) -> EngineNodeParts,
    ) -> Result<PostgresStore, StartError> {
        let mut was_reachable = false;
        loop {
            let outcome = tokio::select! {
                outcome = arrive(&self.address, name, &folders, &standby.mark, self.turns) => outcome,
                () = self.leave.cancelled() => return Err(StartError::Left),
            };
            let error = match outcome {
                Ok(JoinOutcome::Leads(store)) => return Ok(store),
                Ok(JoinOutcome::Again(error)) => {
                    was_reachable = true;
                    error
                }
                Ok(JoinOutcome::Works(mut membership)) => {
                    was_reachable = true;
                    tracing::info!("another node leads the workspace; this node runs turns for it");
                    let (store, leader) = (
                        Arc::clone(&membership.store),
                        Arc::clone(&membership.leader),
                    );
                    let (sender, generations) = unbounded_channel();
                    let control = WorkerControl {
                        generations,
                        leave: self.leave.clone(),
                    };
                    let parts = parts(Arc::clone(&standby.generation), store as _);
                    let succession = tokio::select! {
                        succession = membership.over() => succession,
                        () = runtime::work(parts, Arc::clone(&leader) as _, control) => None,
                        () = standby.follow(&leader, &sender) => None,
                    };
                    drop(membership);
                    if self.leave.is_cancelled() {
                        return Err(StartError::Left);
                    }
                    match succession {
                        None => continue,
                        Some(succession) => match succession.lead(folders()).await {
                            Ok(store) => return Ok(store),
                            Err(error) => error,
                        },
                    }
                }
                Err(error) => error,
            };
            // A database that was reachable before may be unavailable temporarily.
            if !was_reachable || !matches!(error, PostgresOpenError::Unusable { .. }) {
                return Err(error.into());
            }
            tracing::debug!("{error}");
            tokio::time::sleep(START_WAIT / 30).await;
        }
    }

    /// Returns the nodes with a recent heartbeat.
    pub async fn nodes(&self) -> Result<Vec<NodeInfo>, PostgresOpenError> {
        goondan_store_postgres::nodes(&self.address).await
    }

    /// Returns the IDs of all workspaces in the database.
    pub async fn workspaces(&self) -> Result<Vec<String>, PostgresOpenError> {
        goondan_store_postgres::workspaces(&self.address).await
    }

    /// Deletes a workspace with its content. Fails while a node holds it.
    pub async fn forget(&self, workspace: &str) -> Result<(), PostgresOpenError> {
        goondan_store_postgres::forget(&self.address, &self.name(workspace)).await
    }

    /// Submits an input to the node that holds the workspace, now or later. The input is durable
    /// when this function returns.
    pub async fn post(
        &self,
        workspace: &str,
        id: String,
        input: Input,
        patience: Duration,
    ) -> Result<MailboxInputState, PostgresOpenError> {
        let Input {
            text,
            agent,
            instance_key,
            delivery,
            ..
        } = input;
        let posting = json!(PostedInput {
            id,
            text,
            agent,
            instance_key,
            delivery
        });
        goondan_store_postgres::post(&self.address, &self.name(workspace), &posting, patience).await
    }

    /// Opens a workspace for reading, including one that a node holds.
    pub async fn look(&self, workspace: &Workspace) -> Result<WorkspaceReader, PostgresOpenError> {
        let folders = Box::new(WorkspaceDirectories::below(workspace.dir.clone()));
        Ok(WorkspaceReader(
            PostgresStore::look(&self.address, &self.name(&workspace.id), folders).await?,
        ))
    }
}

/// Read-only access to a workspace.
pub struct WorkspaceReader(PostgresStore);

impl WorkspaceReader {
    /// Returns the metadata of all instances, in any order.
    pub async fn instances(&self) -> Result<Vec<InstanceMeta>, StoreError> {
        self.0.instances().await
    }

    /// Returns all instances in the form for lists.
    pub async fn summaries(&self) -> Result<Vec<InstanceSummary>, StoreError> {
        let mut summaries = Vec::new();
        for meta in self.instances().await? {
            let (messages, is_at_work) = self.0.extent(&meta.id()).await?;
            summaries.push(summary(&meta, is_at_work, messages));
        }
        Ok(summaries)
    }

    /// Returns the titles of all instances that have one.
    pub async fn titles(&self) -> Result<HashMap<InstanceId, String>, StoreError> {
        let records = self.0.all_records(TITLE_RECORD).await?.into_iter();
        let titles = records.filter_map(|(id, record)| match record.value {
            Value::String(title) => Some((id, title)),
            _ => None,
        });
        Ok(titles.collect())
    }

    /// Returns the unfinished effects of an instance's turn.
    pub async fn unfinished(&self, id: &InstanceId) -> Result<Vec<UnfinishedEffect>, StoreError> {
        let recorded = self.0.recorded(id).await?;
        let effect = |effect: RecordedEffect| UnfinishedEffect {
            turn_id: effect.turn_id,
            effect: effect.effect,
            kind: effect.kind,
            intent: effect.intent,
            has_outcome: effect.is_done,
            may_repeat: effect.may_repeat,
        };
        Ok(recorded.into_iter().map(effect).collect())
    }

    /// Returns the messages of an instance.
    pub async fn conversation(&self, id: &InstanceId) -> Result<Vec<Arc<Message>>, StoreError> {
        let stored = self.0.read(id).await?;
        Ok(Conversation::restore(stored).0.messages().to_vec())
    }

    /// Returns the failed events of an instance, oldest first.
    pub async fn dead_letters(&self, id: &InstanceId) -> Result<Vec<DeadLetter>, StoreError> {
        let Some(record) = self.0.get(id, DEAD_LETTERS_RECORD).await? else {
            return Ok(Vec::new());
        };
        serde_json::from_value(record.value).map_err(|cause| StoreError::Damaged {
            what: "the failed events".to_owned(),
            cause: Arc::new(cause),
        })
    }

    /// Returns the runtime events of an instance after sequence number `after`, oldest first.
    pub async fn events(
        &self,
        id: &InstanceId,
        after: u64,
    ) -> Result<Vec<RuntimeEvent>, StoreError> {
        self.0.events(id, after).await
    }
}

/// Submits the queued inputs of the workspace to `swarm` while it runs.
pub(crate) fn serve_queued_inputs(swarm: &Swarm) {
    let inner = Arc::downgrade(swarm.inner());
    tokio::spawn(async move {
        loop {
            let Some(next_inputs) = submit_queued_inputs(&inner).await else {
                return;
            };
            next_inputs.await;
        }
    });
}

/// Submits all queued inputs. Returns a future to wait for before the next poll; `None` if the
/// swarm has ended.
async fn submit_queued_inputs(
    inner: &Weak<SwarmInner>,
) -> Option<impl Future<Output = ()> + use<>> {
    let swarm = Swarm::of(inner.upgrade()?);
    let store = Arc::clone(&swarm.inner().node.as_ref()?.store);
    let next_inputs = store.letters_may_have_come();
    let queued_inputs = store.queued_inputs().await.unwrap_or_else(|error| {
        tracing::debug!(%error, "queued inputs can't be read");
        Vec::new()
    });
    for queued_input in queued_inputs {
        let refusal = match serde_json::from_value::<PostedInput>(queued_input.input.clone()) {
            Ok(posting) => match submit_posted(&swarm, posting).await {
                // The input stays queued for later or for the next node.
                Err(error) if matches!(error.code, Code::STORE | Code::SWARM_STOPPED) => break,
                handed_in => handed_in.err().map(refusal_json),
            },
            Err(error) => Some(
                json!({"code": Code::INVALID_ARGUMENT.as_str(), "message": format!("the queued \
                    input can't be read: {error}")}),
            ),
        };
        if let Err(error) = store.letter_is_read(&queued_input, refusal.as_ref()).await {
            // The input is submitted again under the same ID.
            tracing::warn!(%error, "failed to remove a submitted input from the queue; it is \
                submitted again under the same ID");
            break;
        }
    }
    Some(next_inputs)
}

/// Submits a queued input, and waits until it is accepted.
async fn submit_posted(swarm: &Swarm, posting: PostedInput) -> Result<(), SendError> {
    let PostedInput {
        id,
        text,
        agent,
        instance_key,
        delivery,
    } = posting;
    swarm
        .send(Input {
            id: Some(id),
            text,
            agent,
            instance_key,
            delivery,
            ..Input::default()
        })
        .await
        .map(drop)
}

/// Returns the error of a rejected input as JSON, for the node that sent it.
fn refusal_json(error: SendError) -> Value {
    json!({"code": error.code.as_str(), "message": error.message, "suggestion": error.suggestion})
}

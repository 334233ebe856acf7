//! A database that several nodes share: one at a time leads in a workspace, and the others work for it.

mod holding;
mod standby;

use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use goondan_core::conversation::Conversation;
use goondan_core::event::RuntimeEvent;
use goondan_core::ids::{InstanceId, derived_id};
use goondan_core::message::Message;
use goondan_core::ports::clock::{Clock as _, SystemClock};
use goondan_core::ports::store::{
    Conversations as _, DEAD_LETTERS, DeadLetter, EventLog as _, InstanceMeta, Instances as _,
    Records as _, Store, StoreError, Workspace as Folders,
};
use goondan_core::private::make_folder;
use goondan_engine::plan::Generation;
use goondan_engine::runtime::{self, NodeParts, Orders};
use goondan_spec::{Basis, Bundle, Code, Environment, ResourceId};
use goondan_store::jsonl::{OpenWorkspaceError, WorkspaceLock};
use goondan_store::workdirs::Workdirs;
use goondan_store_postgres::{
    Address, Arrival, PostgresCrew, PostgresStore, RecordedEffect, Wait, arrive,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::mpsc::unbounded_channel;
use tokio_util::sync::CancellationToken;

pub use goondan_store_postgres::{AddressError, Node as NodeInfo, OpenError, Posted, Server};

pub use holding::Holding;
pub(crate) use standby::Standby;

use crate::contents::Contents;
use crate::start_error::StartError;
use crate::swarm::{Inner, Input, SendError, Swarm};
use crate::workspace::{InstanceSummary, UnfinishedEffect, Workspace, summary};

/// So long a start waits that does not wait for ever: what a killed process held is free at once.
const BRIEFLY: Duration = Duration::from_secs(3);

/// A database, and what a swarm does that finds its workspace held by another node.
#[derive(Debug, Clone)]
pub struct Database {
    address: Address,
    waits: bool,
    /// So many turns run on this node at a time.
    turns: usize,
    /// Stands before the ids of workspaces.
    prefix: String,
    /// The node shall leave before it leads.
    leave: CancellationToken,
}

impl FromStr for Database {
    type Err = AddressError;

    fn from_str(address: &str) -> Result<Self, AddressError> {
        Ok(Database {
            address: address.parse()?,
            waits: false,
            turns: usize::MAX,
            prefix: String::new(),
            leave: CancellationToken::new(),
        })
    }
}

/// The node that leads a swarm: it holds the workspace until this is dropped.
pub(crate) struct Node {
    pub(crate) store: Arc<PostgresStore>,
    pub(crate) crew: Arc<PostgresCrew>,
    /// For other commands of this machine, which look for the process that runs the swarm.
    _lock: WorkspaceLock,
}

/// An input as it travels to the node that holds the workspace.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Posting {
    id: String,
    text: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    agent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    instance_key: Option<String>,
}

/// What a project amounts to: nodes whose projects have the same run turns for each other. Values from outside do not count.
pub(crate) async fn mark_of(bundle: &Arc<Bundle>, swarm: &ResourceId) -> String {
    let (bundle, swarm) = (Arc::clone(bundle), swarm.clone());
    let marked = tokio::task::spawn_blocking(move || {
        let contents = Contents::default().of(&bundle);
        mark(
            &Basis::new(bundle, &swarm, contents, &Environment::default(), None),
            &swarm,
        )
    });
    // A panic was told; a node without a mark gets no turns.
    marked.await.unwrap_or_default()
}

/// The same of a generation that a reload has made.
pub(crate) fn mark(basis: &Basis, swarm: &ResourceId) -> String {
    let snapshot = serde_json::to_string(&basis.without_values(swarm)).unwrap_or_default();
    derived_id(&[env!("CARGO_PKG_VERSION"), &snapshot])[..12].to_owned()
}

/// An id that no other input has.
pub fn new_id() -> String {
    SystemClock.hex(32)
}

impl Database {
    /// Works for the node that leads, however long, until it is this node's turn to lead.
    #[must_use]
    pub fn waiting(mut self) -> Self {
        self.waits = true;
        self
    }

    /// Lets at most so many turns be at work on this node at a time, those aside that wait for others. With 0 it leaves all of
    /// them to other nodes, as long as there are any.
    #[must_use]
    pub fn turns(mut self, most: usize) -> Self {
        self.turns = most;
        self
    }

    /// Once that is cancelled, a node that works for another one takes no more turns and ends those that it has, for as long as
    /// `policy.shutdown.gracePeriodSeconds` says; what is left goes on elsewhere. Then its start fails with [`StartError::Left`].
    #[must_use]
    pub fn leaving(mut self, leave: CancellationToken) -> Self {
        self.leave = leave;
        self
    }

    /// Puts `prefix` before the ids of workspaces, so that others who use the database have nothing to do with them.
    #[must_use]
    pub fn prefixed(mut self, prefix: &str) -> Self {
        prefix.clone_into(&mut self.prefix);
        self
    }

    /// What the workspace of that id is called there.
    pub fn name(&self, workspace: &str) -> String {
        format!("{}{workspace}", self.prefix)
    }

    /// Where its server listens.
    pub fn server(&self) -> Server {
        self.address.server()
    }

    /// The same database, reached by way of whoever listens at `place` and passes everything on to the server.
    #[must_use]
    pub fn by_way_of(mut self, place: SocketAddr) -> Self {
        self.address = self.address.by_way_of(place);
        self
    }

    /// Where it is, without a password.
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// Leads in a workspace. Where another node does, this one works for it until then, with what `parts` makes of it, or is
    /// refused.
    pub(crate) async fn join(
        &self,
        workspace: &Workspace,
        standby: &mut Standby<'_>,
        parts: impl Fn(Arc<Generation>, Arc<dyn Store>) -> NodeParts,
    ) -> Result<Node, StartError> {
        make_folder(&workspace.dir)?;
        let lock = || WorkspaceLock::acquire(&workspace.dir).map_err(OpenWorkspaceError::from);
        let name = self.name(&workspace.id);
        let folders = || Box::new(Workdirs::below(workspace.dir.clone())) as Box<dyn Folders>;
        let (store, lock) = if self.waits {
            let store = self
                .work_until_leading(&name, folders, standby, parts)
                .await?;
            (store, lock()?)
        } else {
            // A process of this machine can be talked to: whoever does not wait is told of it.
            let lock = lock()?;
            (
                PostgresStore::open(&self.address, &name, folders(), Wait::For(BRIEFLY)).await?,
                lock,
            )
        };
        let crew = Arc::new(store.crew(&standby.mark, self.turns));
        Ok(Node {
            store: Arc::new(store),
            crew,
            _lock: lock,
        })
    }

    async fn work_until_leading(
        &self,
        name: &str,
        folders: impl Fn() -> Box<dyn Folders>,
        standby: &mut Standby<'_>,
        parts: impl Fn(Arc<Generation>, Arc<dyn Store>) -> NodeParts,
    ) -> Result<PostgresStore, StartError> {
        let mut was_there = false;
        loop {
            let arrived = tokio::select! {
                arrived = arrive(&self.address, name, &folders, &standby.mark, self.turns) => arrived,
                () = self.leave.cancelled() => return Err(StartError::Left),
            };
            let error = match arrived {
                Ok(Arrival::Leads(store)) => return Ok(store),
                Ok(Arrival::Again(error)) => {
                    was_there = true;
                    error
                }
                Ok(Arrival::Works(mut membership)) => {
                    was_there = true;
                    tracing::info!("this node works for another one");
                    let (store, leader) = (
                        Arc::clone(&membership.store),
                        Arc::clone(&membership.leader),
                    );
                    let (sender, generations) = unbounded_channel();
                    let orders = Orders {
                        generations,
                        leave: self.leave.clone(),
                    };
                    let parts = parts(Arc::clone(&standby.generation), store as _);
                    let succession = tokio::select! {
                        succession = membership.over() => succession,
                        () = runtime::work(parts, Arc::clone(&leader) as _, orders) => None,
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
            // The database may be away for a while, where it was there before.
            if !was_there || !matches!(error, OpenError::Unusable { .. }) {
                return Err(error.into());
            }
            tracing::debug!("{error}");
            tokio::time::sleep(BRIEFLY / 30).await;
        }
    }

    /// The nodes that have given a sign of life lately.
    pub async fn nodes(&self) -> Result<Vec<NodeInfo>, OpenError> {
        goondan_store_postgres::nodes(&self.address).await
    }

    /// The ids of all workspaces in it.
    pub async fn workspaces(&self) -> Result<Vec<String>, OpenError> {
        goondan_store_postgres::workspaces(&self.address).await
    }

    /// Deletes a workspace with everything in it. It fails while a node holds it.
    pub async fn forget(&self, workspace: &str) -> Result<(), OpenError> {
        goondan_store_postgres::forget(&self.address, &self.name(workspace)).await
    }

    /// Hands an input to whichever node holds the workspace, or will. It is durable when this is back.
    pub async fn post(
        &self,
        workspace: &str,
        id: String,
        input: Input,
        patience: Duration,
    ) -> Result<Posted, OpenError> {
        let Input {
            text,
            agent,
            instance_key,
            ..
        } = input;
        let posting = json!(Posting {
            id,
            text,
            agent,
            instance_key
        });
        goondan_store_postgres::post(&self.address, &self.name(workspace), &posting, patience).await
    }

    /// Looks into a workspace, whoever holds it.
    pub async fn look(&self, workspace: &Workspace) -> Result<Looking, OpenError> {
        let folders = Box::new(Workdirs::below(workspace.dir.clone()));
        Ok(Looking(
            PostgresStore::look(&self.address, &self.name(&workspace.id), folders).await?,
        ))
    }
}

/// A workspace that is looked into.
pub struct Looking(PostgresStore);

impl Looking {
    /// What is known of all instances, in any order.
    pub async fn instances(&self) -> Result<Vec<InstanceMeta>, StoreError> {
        self.0.instances().await
    }

    /// All instances, as lists show them.
    pub async fn summaries(&self) -> Result<Vec<InstanceSummary>, StoreError> {
        let mut summaries = Vec::new();
        for meta in self.instances().await? {
            let (messages, is_at_work) = self.0.extent(&meta.id()).await?;
            summaries.push(summary(&meta, is_at_work, messages));
        }
        Ok(summaries)
    }

    /// What the turn of an instance has begun that is not over.
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

    /// The messages of an instance.
    pub async fn conversation(&self, id: &InstanceId) -> Result<Vec<Arc<Message>>, StoreError> {
        let stored = self.0.read(id).await?;
        Ok(Conversation::restore(stored).0.messages().to_vec())
    }

    /// Events of an instance whose turns failed, oldest first.
    pub async fn dead_letters(&self, id: &InstanceId) -> Result<Vec<DeadLetter>, StoreError> {
        let Some(record) = self.0.get(id, DEAD_LETTERS).await? else {
            return Ok(Vec::new());
        };
        serde_json::from_value(record.value).map_err(|cause| StoreError::Damaged {
            what: "the dead letters".to_owned(),
            cause: Arc::new(cause),
        })
    }

    /// The runtime events of an instance behind `after`, oldest first.
    pub async fn events(
        &self,
        id: &InstanceId,
        after: u64,
    ) -> Result<Vec<RuntimeEvent>, StoreError> {
        self.0.events(id, after).await
    }
}

/// Hands in what was posted to the workspace of `swarm`, for as long as it runs.
pub(crate) fn serve_letters(swarm: &Swarm) {
    let inner = Arc::downgrade(swarm.inner());
    tokio::spawn(async move {
        loop {
            let Some(may_have_come) = letters(&inner).await else {
                return;
            };
            may_have_come.await;
        }
    });
}

/// Hands in what there is. Gives back what to wait for before the next look; `None` where the swarm has ended.
async fn letters(inner: &Weak<Inner>) -> Option<impl Future<Output = ()> + use<>> {
    let swarm = Swarm::of(inner.upgrade()?);
    let store = Arc::clone(&swarm.inner().node.as_ref()?.store);
    let may_have_come = store.letters_may_have_come();
    let letters = store.letters().await.unwrap_or_else(|error| {
        tracing::debug!(%error, "letters can't be read");
        Vec::new()
    });
    for letter in letters {
        let refusal = match serde_json::from_value::<Posting>(letter.input.clone()) {
            Ok(posting) => match hand_in(&swarm, posting).await {
                // It stays for later, or for the next node.
                Err(error) if matches!(error.code, Code::STORE | Code::SWARM_STOPPED) => break,
                handed_in => handed_in.err().map(refusal),
            },
            Err(error) => Some(
                json!({"code": Code::INVALID_ARGUMENT.as_str(), "message": format!("the letter can't be read: {error}")}),
            ),
        };
        if let Err(error) = store.letter_is_read(&letter, refusal.as_ref()).await {
            // It is handed in again, under the same id.
            tracing::warn!(%error, "a letter could not be taken away");
            break;
        }
    }
    Some(may_have_come)
}

async fn hand_in(swarm: &Swarm, posting: Posting) -> Result<(), SendError> {
    let Posting {
        id,
        text,
        agent,
        instance_key,
    } = posting;
    swarm
        .send(Input {
            id: Some(id),
            text,
            agent,
            instance_key,
            ..Input::default()
        })
        .await
        .map(drop)
}

fn refusal(error: SendError) -> Value {
    json!({"code": error.code.as_str(), "message": error.message, "suggestion": error.suggestion})
}

//! A node that runs turns, whether it leads or works for another one.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arc_swap::ArcSwap;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_util::sync::CancellationToken;

use crate::cluster::uplink::{Book, FarApprover};
use crate::cluster::worker::Worker;
use crate::cluster::{Roster, Uplink};
use crate::delivery::bus::EventBus;
use crate::delivery::orchestrator::Command;
use crate::delivery::schedule::Timetable;
use crate::engine::Engine;
use crate::life::Lives;
use crate::plan::Generation;
use crate::policy::redact::Redactor;
use crate::turn::budget::Spent;
use crate::turn::pace::Pace;
use goondan_core::ports::approval::{ApprovalBook, SharedApprover};
use goondan_core::ports::clock::Clock;
use goondan_core::ports::cluster::Leader;
use goondan_core::ports::reload::Reloader;
use goondan_core::ports::store::Store;
use goondan_core::ports::tool::InstanceObserver;
use goondan_core::ports::tracing::Tracing;

/// What every node needs that runs turns, whether it leads or works for another one.
pub struct NodeParts {
    /// The generation that it begins with.
    pub generation: Arc<Generation>,
    /// Conversations, accepted events, side effects of running turns.
    pub store: Arc<dyn Store>,
    /// Time and ids.
    pub clock: Arc<dyn Clock>,
    /// Keeps secrets out of what is written down.
    pub redactor: Redactor,
    /// Whether this system contains the programs of a call, as an approval of a program wants it.
    pub has_sandbox: bool,
    /// Lets tools work there, whatever the agents say.
    pub workdir: Option<PathBuf>,
    /// Decides what servers are told of the trace.
    pub tracing: Arc<dyn Tracing>,
    /// Is told which instances were put away.
    pub observer: Arc<dyn InstanceObserver>,
}

/// What a node is told from outside while it works for another one.
pub struct Orders {
    /// Generations that take the place of the one before.
    pub generations: UnboundedReceiver<Arc<Generation>>,
    /// It shall take no more turns, and leave once its own are over.
    pub leave: CancellationToken,
}

/// What makes a node lead or work for another one.
pub(super) struct Duties {
    pub(super) approver: SharedApprover,
    pub(super) approvals: Arc<dyn ApprovalBook>,
    pub(super) reloader: Option<Arc<dyn Reloader>>,
    pub(super) timetable: Arc<Timetable>,
    pub(super) uplink: Option<Arc<Uplink>>,
    pub(super) roster: Option<Arc<Roster>>,
    pub(super) commands: UnboundedSender<Command>,
}

impl NodeParts {
    pub(super) fn engine(self, role: Duties) -> Arc<Engine> {
        let NodeParts {
            generation,
            store,
            clock,
            redactor,
            has_sandbox,
            workdir,
            tracing,
            observer,
        } = self;
        let Duties {
            approver,
            approvals,
            reloader,
            timetable,
            uplink,
            roster,
            commands,
        } = role;
        let bus = EventBus::new(
            Arc::clone(&store),
            Arc::clone(&clock),
            redactor.clone(),
            uplink.clone(),
        );
        let lives = Lives::default();
        Arc::new(Engine {
            bus,
            store,
            clock,
            approver,
            redactor,
            approvals,
            has_sandbox,
            generation: ArcSwap::new(generation),
            spent: Spent::new(&lives.run),
            lives,
            pace: Pace::default(),
            tracing,
            timetable,
            observer,
            workdir,
            reloader,
            dead: AtomicBool::new(false),
            uplink,
            roster,
            commands,
        })
    }
}

/// Runs the turns that the node that leads hands out, until this one is a member no more. Dropped, turns end where they stand:
/// they go on elsewhere. Generations that come take the place of the first one.
pub async fn work(parts: NodeParts, leader: Arc<dyn Leader>, orders: Orders) {
    let uplink = Uplink::new(leader);
    let book = Book::new(&uplink);
    let (commands, queue) = unbounded_channel();
    let engine = parts.engine(Duties {
        approver: Arc::new(FarApprover(Arc::clone(&uplink))),
        approvals: Arc::clone(&book) as _,
        reloader: None,
        timetable: Arc::default(),
        uplink: Some(Arc::clone(&uplink)),
        roster: None,
        commands,
    });
    Worker::new(engine, uplink, book).run(queue, orders).await;
}

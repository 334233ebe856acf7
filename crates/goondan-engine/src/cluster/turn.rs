//! A local or remote turn, as the orchestrator runs it: it ends exactly once.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use super::placement::{RemoteTurnEnd, TurnPlacement, WorkerPool};
use super::protocol::{EndOfTurn, ToWorker};
use crate::turn::instance::{self, TurnEnd, TurnStart, failed_result};
use crate::turn::{TurnInterruption, publish_end, store_failure_error};
use goondan_core::ports::cluster::EndedTurn;
use goondan_core::ports::store::StoreError;

/// Retry interval for reading the end of a turn on a disconnected node while the store fails.
const TURN_END_RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Runs a turn on the node of its placement. If that node disconnects, the turn resumes on another
/// node from its journal, unless its end is already stored.
pub(crate) async fn run(
    worker_pool: Arc<WorkerPool>,
    mut placement: TurnPlacement,
    mut start: TurnStart,
) -> TurnEnd {
    loop {
        let Some(node) = placement.node.clone() else {
            start.joined.node_changed();
            if !placement.is_home {
                start.engine.store.doubt_journal(&start.facts.instance);
                start.warm = None;
            }
            return instance::handle(start).await;
        };
        start.warm = None;
        match run_remote(&worker_pool, &node, placement.is_home, &start).await {
            Some(RemoteTurnEnd::Done(end)) => {
                worker_pool.take_published(&end.result.turn_id);
                return turn_end_of_worker(*end, &start);
            }
            // Same effect as a panic on this node.
            Some(RemoteTurnEnd::Panicked) => {
                std::panic::resume_unwind(Box::new("the turn panicked on another node"))
            }
            Some(RemoteTurnEnd::Declined) => {
                placement = TurnPlacement {
                    node: None,
                    is_home: false,
                }
            }
            None => match stored_turn_end(&worker_pool, &start).await {
                Some(end) => return end,
                None => {
                    start.interruption = Some(TurnInterruption::WithOthers);
                    let id = &start.facts.instance;
                    tracing::info!(instance = %id, node, "the node of a turn has left the cluster; \
                        the turn resumes on another node");
                    let is_bound = start.engine.is_bound_here(id);
                    let next = worker_pool.choose_node(id, is_bound, |_| false);
                    placement = next.unwrap_or(TurnPlacement {
                        node: None,
                        is_home: false,
                    });
                }
            },
        }
        if let Some(gone) = worker_pool.take(&start.facts.instance, &placement) {
            start.engine.observer.on_instance_end(&gone);
        }
    }
}

/// Runs the turn on another node, and forwards joined events and the cancellation to it. Returns
/// `None` if that node disconnects.
async fn run_remote(
    worker_pool: &WorkerPool,
    node: &str,
    is_home: bool,
    start: &TurnStart,
) -> Option<RemoteTurnEnd> {
    let grants = start.engine.approvals.grants();
    let (turn, mut ended) = worker_pool.begin(node, start, is_home, grants)?;
    let mut is_cancelled = false;
    loop {
        tokio::select! {
            end = &mut ended => return end.ok(),
            () = start.joined.wait_for_arrival() => {
                let events = start.joined.take_unsent();
                if !events.is_empty() {
                    worker_pool.send(node, &ToWorker::Join { turn, events });
                }
            }
            () = start.cancel.cancelled(), if !is_cancelled => {
                is_cancelled = true;
                worker_pool.send(node, &ToWorker::Cancel { turn });
            }
        }
    }
}

/// Converts the end of a turn that a worker sent. Removes the events that the worker handled.
fn turn_end_of_worker(end: EndOfTurn, start: &TurnStart) -> TurnEnd {
    let EndOfTurn {
        result,
        handled,
        answer,
        meta,
    } = end;
    start
        .joined
        .remove_events(&handled.iter().map(String::as_str).collect());
    TurnEnd {
        result,
        handled,
        answer,
        warm: None,
        meta,
        cost: None,
    }
}

/// Reads the stored end of a turn whose node disconnected, or returns `None` if the turn did not
/// end.
async fn stored_turn_end(worker_pool: &WorkerPool, start: &TurnStart) -> Option<TurnEnd> {
    let joined: Vec<String> = start
        .joined
        .waiting_events()
        .into_iter()
        .map(|event| event.id)
        .collect();
    let ended = loop {
        match worker_pool.crew.find_turn_end(&start.event, &joined).await {
            Ok(ended) => break ended?,
            Err(error @ StoreError::Damaged { .. }) => {
                return Some(damaged_turn_end(start, &error));
            }
            Err(error) => {
                tracing::warn!(%error, "a node left, and the store could not be read for the result \
                    of its turn; retrying")
            }
        }
        tokio::time::sleep(TURN_END_RETRY_INTERVAL).await;
    };
    let EndedTurn { turn, meta } = ended;
    let handled: HashSet<&str> = turn.event_ids.iter().map(String::as_str).collect();
    start.joined.remove_events(&handled);
    if !worker_pool.take_published(&turn.result.turn_id) {
        publish_end(&start.engine, &start.facts, &turn.result, None, 0);
    }
    let meta = meta.unwrap_or_else(|| start.meta.clone());
    Some(TurnEnd {
        result: turn.result,
        handled: turn.event_ids,
        answer: turn.answer,
        warm: None,
        meta,
        cost: None,
    })
}

/// Returns the end of a turn whose stored data cannot be read.
fn damaged_turn_end(start: &TurnStart, error: &StoreError) -> TurnEnd {
    let result = failed_result(start.facts.turn_id.clone(), store_failure_error(error));
    let (handled, meta) = (vec![start.event.id.clone()], start.meta.clone());
    TurnEnd {
        result,
        handled,
        answer: None,
        warm: None,
        meta,
        cost: None,
    }
}

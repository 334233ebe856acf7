//! A turn, wherever it runs, as the orchestrator sees it: it ends once.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use super::roster::{Ended, Place, Roster};
use super::wire::{EndOfTurn, ToWorker};
use crate::turn::instance::{self, TurnEnd, TurnStart, failed_result};
use crate::turn::{publish_end, store_failed};
use goondan_core::ports::cluster::EndedTurn;
use goondan_core::ports::store::StoreError;

/// How often it is asked how a turn ended whose node has gone, while the store fails.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// Runs a turn at its place. Where that node goes away, the turn goes on elsewhere from its journal, as after a restart, unless
/// its end was written.
pub(crate) async fn run(roster: Arc<Roster>, mut place: Place, mut start: TurnStart) -> TurnEnd {
    loop {
        let Some(node) = place.node.clone() else {
            if !place.is_home {
                start.engine.store.doubt_journal(&start.facts.instance);
                start.warm = None;
            }
            return instance::handle(start).await;
        };
        start.warm = None;
        match there(&roster, &node, place.is_home, &start).await {
            Some(Ended::Done(end)) => {
                roster.was_told(&end.result.turn_id);
                return of_worker(*end, &start);
            }
            // As if it had panicked here.
            Some(Ended::Panicked) => {
                std::panic::resume_unwind(Box::new("the turn panicked on another node"))
            }
            Some(Ended::Declined) => {
                place = Place {
                    node: None,
                    is_home: false,
                }
            }
            None => match end_of_lost(&roster, &start).await {
                Some(end) => return end,
                None => {
                    let id = &start.facts.instance;
                    tracing::info!(instance = %id, node, "a turn goes on elsewhere: its node has gone");
                    let is_bound = start.engine.is_bound_here(id);
                    let next = roster.choose(id, is_bound, |_| false);
                    place = next.unwrap_or(Place {
                        node: None,
                        is_home: false,
                    });
                }
            },
        }
        if let Some(gone) = roster.take(&start.facts.instance, &place) {
            start.engine.observer.ended(&gone);
        }
    }
}

/// Runs it on another node; `None` where that has gone.
async fn there(roster: &Roster, node: &str, is_home: bool, start: &TurnStart) -> Option<Ended> {
    let grants = start.engine.approvals.grants();
    let (turn, mut given, mut ended) = roster.begin(node, start, is_home, grants)?;
    let mut is_cancelled = false;
    loop {
        tokio::select! {
            end = &mut ended => return end.ok(),
            () = start.joined.came() => {
                let events = start.joined.behind(given);
                given += events.len();
                if !events.is_empty() {
                    roster.say(node, &ToWorker::Join { turn, events });
                }
            }
            () = start.cancel.cancelled(), if !is_cancelled => {
                is_cancelled = true;
                roster.say(node, &ToWorker::Cancel { turn });
            }
        }
    }
}

fn of_worker(end: EndOfTurn, start: &TurnStart) -> TurnEnd {
    let EndOfTurn {
        result,
        handled,
        answer,
        meta,
    } = end;
    start
        .joined
        .forget(&handled.iter().map(String::as_str).collect());
    TurnEnd {
        result,
        handled,
        answer,
        warm: None,
        meta,
        cost: None,
    }
}

/// How the turn ended whose node has gone; `None` where it has not.
async fn end_of_lost(roster: &Roster, start: &TurnStart) -> Option<TurnEnd> {
    let joined: Vec<String> = start
        .joined
        .behind(0)
        .into_iter()
        .map(|event| event.id)
        .collect();
    let ended = loop {
        match roster.crew.ended(&start.event, &joined).await {
            Ok(ended) => break ended?,
            Err(error @ StoreError::Damaged { .. }) => return Some(damaged(start, &error)),
            Err(error) => {
                tracing::warn!(%error, "it is not known how a turn ended whose node has gone")
            }
        }
        tokio::time::sleep(ASK_AGAIN).await;
    };
    let EndedTurn { turn, meta } = ended;
    let handled: HashSet<&str> = turn.event_ids.iter().map(String::as_str).collect();
    start.joined.forget(&handled);
    if !roster.was_told(&turn.result.turn_id) {
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

fn damaged(start: &TurnStart, error: &StoreError) -> TurnEnd {
    let result = failed_result(start.facts.turn_id.clone(), store_failed(error));
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

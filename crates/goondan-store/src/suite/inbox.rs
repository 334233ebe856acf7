//! Checks of events: accepted, done, withdrawn, recovered.

use super::samples::{
    accepted, done, done_with, event, event_by, finished, instance, result, withdrawn,
};
use super::{Check, ReopenableWorkspace, retry_call};

use futures::FutureExt as _;
use goondan_core::ports::store::{FinishedTurn, LogRecord, RecoveredState, StoreError};
use goondan_core::result_cache::EncodedResult;

pub(super) const CHECKS: &[Check] = &[
    ("an empty workspace has no events", |workspace| {
        Box::pin(new_workspace_has_no_events(workspace))
    }),
    (
        "pending events are recovered in the order of their acceptance",
        |workspace| Box::pin(in_order(workspace)),
    ),
    (
        "tickets are settled in the order of the calls",
        |workspace| Box::pin(tickets_in_order(workspace)),
    ),
    (
        "a handled event is not pending, and its result is kept",
        |workspace| Box::pin(handled_event_is_not_pending(workspace)),
    ),
    (
        "a withdrawn event is neither pending nor handled",
        |workspace| Box::pin(withdrawn_event_is_not_pending(workspace)),
    ),
    (
        "an event that is accepted again after it was withdrawn is pending",
        |workspace| Box::pin(accepted_again(workspace)),
    ),
    (
        "an event that is accepted twice is one event",
        |workspace| Box::pin(accepted_twice(workspace)),
    ),
    (
        "an answer is accepted with the record of its turn",
        |workspace| Box::pin(answer_is_pending(workspace)),
    ),
    (
        "the end of a turn handles all events that joined it",
        |workspace| Box::pin(joined_events_are_handled(workspace)),
    ),
    (
        "a result is kept while the requesting turn may ask again",
        |workspace| Box::pin(needed_result_is_kept(workspace)),
    ),
];

/// Appends the records, reopens the store and returns the recovered state.
async fn recover_after(
    workspace: &dyn ReopenableWorkspace,
    records: impl IntoIterator<Item = LogRecord>,
) -> RecoveredState {
    let store = workspace.open();
    for record in records {
        retry_call(async || store.append(record.clone()).await).await;
    }
    drop(store);
    reopen_and_recover(workspace).await
}

/// Opens the store and returns the recovered state.
async fn reopen_and_recover(workspace: &dyn ReopenableWorkspace) -> RecoveredState {
    let store = workspace.open();
    retry_call(async || store.recover().await).await
}

/// Opens the store and returns the result of an event that was handled before.
async fn earlier_result(
    workspace: &dyn ReopenableWorkspace,
    event_id: &str,
) -> Option<EncodedResult> {
    let store = workspace.open();
    let handled = retry_call(async || store.recover().await).await.handled;
    let found = handled.into_iter().find(|event| event.event_id == event_id);
    let result = found.map(|event| event.result);
    result.or_else(|| store.earlier_result(event_id))
}

/// Returns the ids of the pending events.
fn pending_ids(recovered: &RecoveredState) -> Vec<&str> {
    recovered
        .pending
        .iter()
        .map(|event| event.id.as_str())
        .collect()
}

/// A new workspace has no pending events.
async fn new_workspace_has_no_events(workspace: &dyn ReopenableWorkspace) {
    assert_eq!(
        reopen_and_recover(workspace).await,
        RecoveredState::default()
    );
}

/// Pending events are recovered in the order of their acceptance.
async fn in_order(workspace: &dyn ReopenableWorkspace) {
    let events: Vec<_> = (0..50)
        .map(|n| event(&format!("e{n}"), &instance(&format!("k{}", n % 3))))
        .collect();
    let recovered = recover_after(workspace, events.iter().map(accepted)).await;
    assert_eq!(recovered.pending, events);
    assert_eq!(recovered.begun, [""; 0]);
}

/// The ticket of a record settles only after the tickets of all earlier records.
async fn tickets_in_order(workspace: &dyn ReopenableWorkspace) {
    let store = workspace.open();
    let records = (0..100).map(|n| accepted(&event(&format!("e{n}"), &instance("k"))));
    let mut tickets: Vec<_> = records.map(|record| store.append(record)).collect();
    let last = tickets.pop().unwrap();
    // A failed record also settles its ticket.
    let _: Result<(), StoreError> = last.await;
    // Polls without Tokio's cooperative budget, which the task may have used up.
    let is_settled = |ticket| tokio::task::unconstrained(ticket).now_or_never().is_some();
    assert!(
        tickets.into_iter().all(is_settled),
        "an earlier ticket is not settled yet"
    );
}

/// A handled event is not pending, and its result is kept.
async fn handled_event_is_not_pending(workspace: &dyn ReopenableWorkspace) {
    let (one, two) = (event("one", &instance("k")), event("two", &instance("k")));
    let recovered = recover_after(workspace, [accepted(&one), accepted(&two), done(&one)]).await;
    assert_eq!(pending_ids(&recovered), ["two"]);
    let found = earlier_result(workspace, "one").await.unwrap();
    assert_eq!(found.decode().unwrap(), result(&one));
    assert_eq!(earlier_result(workspace, "two").await, None);
}

/// A withdrawn event is neither pending nor handled.
async fn withdrawn_event_is_not_pending(workspace: &dyn ReopenableWorkspace) {
    let (one, two) = (event("one", &instance("k")), event("two", &instance("k")));
    let recovered =
        recover_after(workspace, [accepted(&one), accepted(&two), withdrawn(&one)]).await;
    assert_eq!(
        (pending_ids(&recovered), recovered.handled.len()),
        (vec!["two"], 0)
    );
}

/// An event that is accepted again after its withdrawal is pending.
async fn accepted_again(workspace: &dyn ReopenableWorkspace) {
    let one = event("one", &instance("k"));
    let recovered =
        recover_after(workspace, [accepted(&one), withdrawn(&one), accepted(&one)]).await;
    assert_eq!(pending_ids(&recovered), ["one"]);
}

/// An event that is accepted twice is pending only once.
async fn accepted_twice(workspace: &dyn ReopenableWorkspace) {
    let one = event("one", &instance("k"));
    let recovered = recover_after(workspace, [accepted(&one), accepted(&one)]).await;
    assert_eq!(pending_ids(&recovered), ["one"]);
    let recovered = recover_after(workspace, [done(&one)]).await;
    assert_eq!(pending_ids(&recovered), [""; 0]);
}

/// The answer of a turn is pending as soon as the turn is recorded.
async fn answer_is_pending(workspace: &dyn ReopenableWorkspace) {
    let (question, answer) = (
        event("question", &instance("b")),
        event("answer", &instance("a")),
    );
    let recovered = recover_after(
        workspace,
        [
            accepted(&question),
            done_with(&question, Some(answer.clone())),
        ],
    )
    .await;
    assert_eq!(pending_ids(&recovered), ["answer"]);
    let recovered = recover_after(workspace, [done(&answer)]).await;
    assert_eq!(pending_ids(&recovered), [""; 0]);
}

/// The end of a turn marks all events that joined it as handled.
async fn joined_events_are_handled(workspace: &dyn ReopenableWorkspace) {
    let (one, two) = (event("one", &instance("k")), event("two", &instance("k")));
    let event_ids = vec!["one".to_owned(), "two".to_owned()];
    let both = LogRecord::Done(Box::new(FinishedTurn {
        event_ids,
        ..finished(&one)
    }));
    let recovered = recover_after(workspace, [accepted(&one), accepted(&two), both]).await;
    assert_eq!(pending_ids(&recovered), [""; 0]);
    for id in ["one", "two"] {
        assert!(earlier_result(workspace, id).await.is_some(), "{id}");
    }
}

/// Number of events that exceeds the results that a store must keep.
const MANY_INPUTS: usize = 10_100;

/// Creates the records of [`MANY_INPUTS`] handled events.
fn many_done() -> impl Iterator<Item = LogRecord> {
    let events = (0..MANY_INPUTS).map(|n| event(&format!("x{n}"), &instance("other")));
    events.flat_map(|event| [accepted(&event), done(&event)])
}

/// A result is kept as long as the turn that requested it may ask again.
async fn needed_result_is_kept(workspace: &dyn ReopenableWorkspace) {
    let asker = instance("asker");
    let turn = event("turn", &asker);
    let question = event_by("question", &asker, &instance("callee"));
    let records = [accepted(&turn), accepted(&question), done(&question)]
        .into_iter()
        .chain(many_done());
    let recovered = recover_after(workspace, records).await;
    let handled = recovered
        .handled
        .iter()
        .find(|handled| handled.event_id == "question");
    assert_eq!(
        handled.and_then(|handled| handled.needed_by.as_ref()),
        Some(&asker)
    );
    assert!(
        recovered.handled.len() < MANY_INPUTS,
        "the store keeps {} results",
        recovered.handled.len()
    );

    let recovered = recover_after(workspace, [done(&turn)]).await;
    assert!(
        recovered
            .handled
            .iter()
            .all(|handled| handled.needed_by.is_none())
    );
}

//! Events: accepted, done, withdrawn, recovered.

use std::sync::mpsc::channel;

use super::samples::{accepted, done, done_with, event, event_by, instance, result, withdrawn};
use super::{Check, Workspace};
use goondan_core::ports::store::{InboxRecord, Recovered};

pub(super) const CHECKS: &[Check] = &[
    ("an empty workspace recovers nothing", empty),
    ("pending events come back in the order in which they were accepted", in_order),
    ("callbacks come in the order of the calls", callbacks_in_order),
    ("an event that is done is done", done_is_done),
    ("an event that was withdrawn does not come back", withdrawn_is_gone),
    ("an event that is accepted again after it was withdrawn is pending", accepted_again),
    ("an event that is accepted twice is one event", accepted_twice),
    ("an answer is accepted with the record of its turn", answers),
    ("a turn that other events joined settles them all", joined),
    ("results stay as long as the turn that asked may ask again", results_that_are_needed),
];

fn after(workspace: &dyn Workspace, records: impl IntoIterator<Item = InboxRecord>) -> Recovered {
    let store = workspace.open();
    for record in records {
        store.submit(record, Box::new(|written| written.unwrap()));
    }
    drop(store);
    workspace.open().recover().unwrap()
}

fn ids(recovered: &Recovered) -> Vec<&str> {
    recovered.pending.iter().map(|event| event.id.as_str()).collect()
}

fn empty(workspace: &dyn Workspace) {
    assert_eq!(workspace.open().recover().unwrap(), Recovered::default());
}

fn in_order(workspace: &dyn Workspace) {
    let events: Vec<_> = (0..50).map(|n| event(&format!("e{n}"), &instance(&format!("k{}", n % 3)))).collect();
    let recovered = after(workspace, events.iter().map(accepted));
    assert_eq!(recovered.pending, events);
    assert_eq!(recovered.begun, [""; 0]);
}

fn callbacks_in_order(workspace: &dyn Workspace) {
    let store = workspace.open();
    let (sender, receiver) = channel();
    for n in 0..100 {
        let sender = sender.clone();
        let record = accepted(&event(&format!("e{n}"), &instance("k")));
        store.submit(record, Box::new(move |written| sender.send((n, written)).unwrap()));
    }
    drop(sender);
    let called: Vec<_> = receiver.iter().collect();
    assert_eq!(called, (0..100).map(|n| (n, Ok(()))).collect::<Vec<_>>());
}

fn done_is_done(workspace: &dyn Workspace) {
    let (one, two) = (event("one", &instance("k")), event("two", &instance("k")));
    let recovered = after(workspace, [accepted(&one), accepted(&two), done(&one)]);
    assert_eq!(ids(&recovered), ["two"]);
    assert_eq!(recovered.handled.len(), 1);
    assert_eq!((&*recovered.handled[0].event_id, recovered.handled[0].result.decode().unwrap()), ("one", result(&one)));
}

fn withdrawn_is_gone(workspace: &dyn Workspace) {
    let (one, two) = (event("one", &instance("k")), event("two", &instance("k")));
    let recovered = after(workspace, [accepted(&one), accepted(&two), withdrawn(&one)]);
    assert_eq!((ids(&recovered), recovered.handled.len()), (vec!["two"], 0));
}

fn accepted_again(workspace: &dyn Workspace) {
    let one = event("one", &instance("k"));
    let recovered = after(workspace, [accepted(&one), withdrawn(&one), accepted(&one)]);
    assert_eq!(ids(&recovered), ["one"]);
}

fn accepted_twice(workspace: &dyn Workspace) {
    let one = event("one", &instance("k"));
    let recovered = after(workspace, [accepted(&one), accepted(&one)]);
    assert_eq!(ids(&recovered), ["one"]);
    let recovered = after(workspace, [done(&one)]);
    assert_eq!(ids(&recovered), [""; 0]);
}

fn answers(workspace: &dyn Workspace) {
    let (question, answer) = (event("question", &instance("b")), event("answer", &instance("a")));
    let recovered = after(workspace, [accepted(&question), done_with(&question, Some(answer.clone()))]);
    assert_eq!(ids(&recovered), ["answer"]);
    let recovered = after(workspace, [done(&answer)]);
    assert_eq!(ids(&recovered), [""; 0]);
}

fn joined(workspace: &dyn Workspace) {
    let (one, two) = (event("one", &instance("k")), event("two", &instance("k")));
    let InboxRecord::Done { turn_id, result, .. } = done(&one) else { unreachable!("it makes such a record") };
    let event_ids = vec!["one".to_owned(), "two".to_owned()];
    let both = InboxRecord::Done { turn_id, event_ids, result, asked_by: None, answer: None, fold: None };
    let recovered = after(workspace, [accepted(&one), accepted(&two), both]);
    assert_eq!(ids(&recovered), [""; 0]);
    let handled: Vec<_> = recovered.handled.iter().map(|handled| handled.event_id.as_str()).collect();
    assert_eq!(handled, ["one", "two"]);
}

/// More events than a store has to remember.
const MANY: usize = 10_100;

fn many_done() -> impl Iterator<Item = InboxRecord> {
    let events = (0..MANY).map(|n| event(&format!("x{n}"), &instance("other")));
    events.flat_map(|event| [accepted(&event), done(&event)])
}

fn results_that_are_needed(workspace: &dyn Workspace) {
    let asker = instance("asker");
    let turn = event("turn", &asker);
    let question = event_by("question", &asker, &instance("callee"));
    let records = [accepted(&turn), accepted(&question), done(&question)].into_iter().chain(many_done());
    let recovered = after(workspace, records);
    let kept = recovered.handled.iter().find(|handled| handled.event_id == "question");
    assert_eq!(kept.and_then(|kept| kept.needed_by.as_ref()), Some(&asker));
    assert!(recovered.handled.len() < MANY, "{} results are remembered", recovered.handled.len());

    let recovered = after(workspace, [done(&turn)]);
    assert!(recovered.handled.iter().all(|handled| handled.needed_by.is_none()));
}

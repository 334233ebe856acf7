//! Conversations: events of a turn, folds, and folds that were cut off.

use super::samples::{append, instance, message, messages};
use super::{Check, Workspace};
use goondan_core::conversation::Conversation;
use goondan_core::message::{MessageEvent, Role};
use goondan_core::ports::store::{Fold, InstanceStore, StoredConversation};

pub(super) const CHECKS: &[Check] = &[
    ("a conversation that never was is empty", empty),
    ("looking at a conversation does not make it", looking),
    ("events come back as they were appended", events),
    ("discarded events are gone", discarded),
    ("a fold of new messages adds them and forgets the events", fold_append),
    ("a fold of the whole replaces the base", fold_rewrite),
    ("a turn of many folds comes to what it says", many_turns),
    ("a fold that is repeated comes to the same", repeated),
    ("a handle goes on after a fold", goes_on),
];

fn stored(workspace: &dyn Workspace) -> StoredConversation {
    workspace.open().open(&instance("k")).unwrap().load().unwrap()
}

/// Opens the conversation, loads it as a turn does, and hands it over.
fn with(workspace: &dyn Workspace, act: impl FnOnce(&mut dyn InstanceStore)) {
    let store = workspace.open();
    let mut instance = store.open(&instance("k")).unwrap();
    instance.load().unwrap();
    act(&mut *instance);
}

fn ids(stored: &StoredConversation) -> Vec<&str> {
    stored.base.iter().map(|message| message.id.as_str()).collect()
}

fn empty(workspace: &dyn Workspace) {
    assert_eq!(stored(workspace), StoredConversation::default());
}

fn looking(workspace: &dyn Workspace) {
    stored(workspace);
    assert_eq!(workspace.open().instances().unwrap(), []);
}

fn events(workspace: &dyn Workspace) {
    let events = [
        append("m0"),
        MessageEvent::Replace { target_id: "m0".to_owned(), message: message("m1", Role::Assistant) },
        MessageEvent::Remove { target_id: "m1".to_owned() },
        MessageEvent::Truncate,
    ];
    with(workspace, |instance| {
        events.iter().for_each(|event| instance.append(event).unwrap());
        instance.sync().unwrap();
    });
    assert_eq!(stored(workspace).events, events);
}

fn discarded(workspace: &dyn Workspace) {
    with(workspace, |instance| {
        instance.append(&append("m0")).unwrap();
        instance.discard_events().unwrap();
        instance.append(&append("m1")).unwrap();
    });
    assert_eq!(stored(workspace).events, [append("m1")]);
}

fn fold_append(workspace: &dyn Workspace) {
    with(workspace, |instance| {
        instance.append(&append("m0")).unwrap();
        instance.sync().unwrap();
        instance.fold(Fold::Append(&messages(&["m0"]))).unwrap();
    });
    let stored = stored(workspace);
    assert_eq!((ids(&stored), stored.events.len()), (vec!["m0"], 0));
    assert_eq!(stored.base, messages(&["m0"]));
}

fn fold_rewrite(workspace: &dyn Workspace) {
    with(workspace, |instance| {
        instance.fold(Fold::Append(&messages(&["m0", "m1"]))).unwrap();
        instance.append(&MessageEvent::Remove { target_id: "m0".to_owned() }).unwrap();
        instance.fold(Fold::Rewrite(&messages(&["m1", "m2"]))).unwrap();
    });
    let stored = stored(workspace);
    assert_eq!((ids(&stored), stored.events.len()), (vec!["m1", "m2"], 0));
}

fn many_turns(workspace: &dyn Workspace) {
    with(workspace, |instance| {
        for turn in 0..20 {
            let id = format!("m{turn}");
            instance.append(&append(&id)).unwrap();
            instance.sync().unwrap();
            match turn {
                10 => instance.fold(Fold::Rewrite(&messages(&[&id]))).unwrap(),
                _ => instance.fold(Fold::Append(&messages(&[&id]))).unwrap(),
            }
        }
    });
    assert_eq!(ids(&stored(workspace)), (10..20).map(|turn| format!("m{turn}")).collect::<Vec<_>>());
}

fn repeated(workspace: &dyn Workspace) {
    let events = [append("m0"), append("m1")];
    let write_events = |instance: &mut dyn InstanceStore| {
        events.iter().for_each(|event| instance.append(event).unwrap());
        instance.sync().unwrap();
    };
    with(workspace, |instance| {
        // The base had some of the messages when the process was cut off, and the events were still there.
        instance.fold(Fold::Append(&messages(&["m0"]))).unwrap();
        write_events(instance);
    });
    for _ in 0..2 {
        let (conversation, missing) = Conversation::restore(stored(workspace));
        assert_eq!(missing, []);
        with(workspace, |instance| {
            instance.fold(conversation.fold()).unwrap();
            write_events(instance);
        });
    }
    assert_eq!(ids(&stored(workspace)), ["m0", "m1"]);
}

fn goes_on(workspace: &dyn Workspace) {
    with(workspace, |instance| {
        instance.fold(Fold::Rewrite(&messages(&["m0"]))).unwrap();
        instance.append(&append("m1")).unwrap();
    });
    let stored = stored(workspace);
    assert_eq!((ids(&stored), &*stored.events), (vec!["m0"], &[append("m1")][..]));
}

//! Instances: what is known of them, their names, their end.

use chrono::{TimeDelta, Utc};
use serde_json::json;

use super::samples::{append, event, instance, messages, meta};
use super::{Check, Workspace};
use goondan_core::event::TurnError;
use goondan_core::ids::InstanceId;
use goondan_core::ports::store::{DeadLetter, Fold, InstanceMeta, InstanceStatus};

pub(super) const CHECKS: &[Check] = &[
    ("what is known of an instance comes back", metas),
    ("any key is a key of its own", keys),
    ("a deleted instance is gone, and its name is free", delete),
    ("what extensions keep comes back", extension_states),
    ("the list of dead letters comes back", dead_letters),
];

fn metas(workspace: &dyn Workspace) {
    let plain = meta(&instance("plain"));
    let rich = InstanceMeta {
        status: InstanceStatus::Retired,
        updated_at: plain.created_at + TimeDelta::seconds(5),
        owner: Some(plain.id()),
        cwd: Some("/somewhere".to_owned()),
        retired_at: Some(plain.created_at + TimeDelta::milliseconds(1_500)),
        ..meta(&instance("rich"))
    };
    let store = workspace.open();
    store.put_meta(&InstanceMeta { created_at: Utc::now(), ..rich.clone() }).unwrap();
    store.put_meta(&rich).unwrap();
    store.put_meta(&plain).unwrap();
    drop(store);
    let mut found = workspace.open().instances().unwrap();
    found.sort_by_key(InstanceMeta::id);
    assert_eq!(found, [plain, rich]);
}

fn keys(workspace: &dyn Workspace) {
    let long = "x".repeat(5_000);
    let keys = ["main", "Main", "", ".", "..", "../main", "a:b", "a/b", "a%2Fb", "주", "con", " ", &long, &long[1..]];
    let store = workspace.open();
    for key in keys {
        let id = instance(key);
        store.put_meta(&meta(&id)).unwrap();
        let mut conversation = store.open(&id).unwrap();
        conversation.load().unwrap();
        conversation.fold(Fold::Append(&messages(&[key]))).unwrap();
    }
    drop(store);
    let store = workspace.open();
    assert_eq!(store.instances().unwrap().len(), keys.len());
    for key in keys {
        let stored = store.open(&instance(key)).unwrap().load().unwrap();
        assert_eq!(stored.base, messages(&[key]), "the conversation of {key:?}");
    }
    let other = InstanceId::new("b", "main");
    assert!(store.open(&other).unwrap().load().unwrap().base.is_empty());
}

fn delete(workspace: &dyn Workspace) {
    let (doomed, other) = (instance("doomed"), instance("other"));
    let store = workspace.open();
    assert_eq!(store.delete(&doomed), Ok(false));
    for id in [&doomed, &other] {
        store.put_meta(&meta(id)).unwrap();
        let mut conversation = store.open(id).unwrap();
        conversation.load().unwrap();
        conversation.fold(Fold::Append(&messages(&["m0"]))).unwrap();
        conversation.append(&append("m1")).unwrap();
    }
    assert_eq!(store.delete(&doomed), Ok(true));
    assert_eq!(store.instances().unwrap(), [meta(&other)]);
    let left = store.open(&doomed).unwrap().load().unwrap();
    assert_eq!((left.base.len(), left.events.len()), (0, 0));
    drop(store);
    let store = workspace.open();
    assert_eq!(store.instances().unwrap(), [meta(&other)]);
    store.put_meta(&meta(&doomed)).unwrap();
    let mut conversation = store.open(&doomed).unwrap();
    conversation.load().unwrap();
    conversation.fold(Fold::Append(&messages(&["new"]))).unwrap();
    assert_eq!(conversation.load().unwrap().base, messages(&["new"]));
}

fn extension_states(workspace: &dyn Workspace) {
    let id = instance("k");
    let store = workspace.open();
    assert_eq!(store.extension_state(&id, "x"), Ok(None));
    store.put_extension_state(&id, "x", &json!({"a": [1]})).unwrap();
    store.put_extension_state(&id, "../x", &json!(2)).unwrap();
    drop(store);
    let store = workspace.open();
    assert_eq!(store.extension_state(&id, "x"), Ok(Some(json!({"a": [1]}))));
    assert_eq!(store.extension_state(&id, "../x"), Ok(Some(json!(2))));
    assert_eq!(store.extension_state(&instance("other"), "x"), Ok(None));
    store.delete(&id).unwrap();
    assert_eq!(store.extension_state(&id, "x"), Ok(None));
}

fn dead_letters(workspace: &dyn Workspace) {
    let (id, other) = (instance("k"), instance("other"));
    let error = TurnError { code: "E_X".to_owned(), message: "it failed".to_owned(), suggestion: None, status: None };
    let letter = |name: &str| DeadLetter { event: event(name, &id), error: error.clone(), failed_at: Utc::now() };
    let letters = [letter("one"), letter("two")];
    let store = workspace.open();
    assert_eq!(store.dead_letters(&id), Ok(vec![]));
    store.put_dead_letters(&id, &letters).unwrap();
    drop(store);
    let store = workspace.open();
    assert_eq!(store.dead_letters(&id).unwrap(), letters);
    assert_eq!(store.dead_letters(&other), Ok(vec![]));
    store.put_dead_letters(&id, &letters[1..]).unwrap();
    assert_eq!(store.dead_letters(&id).unwrap(), letters[1..]);
    store.delete(&id).unwrap();
    assert_eq!(store.dead_letters(&id), Ok(vec![]));
}

//! Checks of instances: metadata, names, records, deletion.

use chrono::{TimeDelta, Utc};
use serde_json::json;

use super::samples::{accepted, append, event, finished, instance, messages, meta};
use super::{Check, ReopenableWorkspace, retry_call};
use goondan_core::ids::InstanceId;
use goondan_core::ports::store::{
    BaseChange, InstanceMeta, InstanceStatus, OpenConversation, Store, StoredConversation, update,
};

pub(super) const CHECKS: &[Check] = &[
    ("metadata is kept", |workspace| {
        Box::pin(metadata_is_kept(workspace))
    }),
    (
        "an instance is found by its id, and all instances page by page",
        |workspace| Box::pin(one_instance_and_all_pages(workspace)),
    ),
    ("different keys are different instances", |workspace| {
        Box::pin(keys(workspace))
    }),
    (
        "a deleted instance is gone, and its id can be used again",
        |workspace| Box::pin(delete(workspace)),
    ),
    ("a record is kept", |workspace| {
        Box::pin(record_is_kept(workspace))
    }),
    (
        "a record is replaced only if it has the expected version",
        |workspace| Box::pin(compare_and_set(workspace)),
    ),
    ("concurrent updates of a record are all kept", |workspace| {
        Box::pin(concurrent_updates(workspace))
    }),
    ("all records with a name are found", |workspace| {
        Box::pin(all_records_with_a_name_are_found(workspace))
    }),
];

/// Stores metadata; retries failed calls.
async fn put(store: &dyn Store, meta: &InstanceMeta) {
    retry_call(async || store.put_instance(meta).await).await;
}

/// Opens a conversation; retries failed calls.
async fn open(store: &dyn Store, id: &InstanceId) -> Box<dyn OpenConversation> {
    let lease = retry_call(async || store.claim(id).await).await;
    let mut conversation = retry_call(async || store.open(lease.clone()).await).await;
    retry_call(async || conversation.load().await).await;
    conversation
}

/// Adds messages to a conversation.
async fn add_messages(store: &dyn Store, id: &InstanceId, ids: &[&str]) {
    let (mut conversation, messages) = (open(store, id).await, messages(ids));
    retry_call(async || conversation.checkpoint(BaseChange::Append(&messages)).await).await;
}

/// Reads a conversation.
async fn read_stored(store: &dyn Store, id: &InstanceId) -> StoredConversation {
    retry_call(async || store.read(id).await).await
}

/// Returns the metadata of all instances.
async fn instances(store: &dyn Store) -> Vec<InstanceMeta> {
    retry_call(async || store.instances().await).await
}

/// Returns the value of a record; `None` if there is none.
async fn value(store: &dyn Store, id: &InstanceId, name: &str) -> Option<serde_json::Value> {
    retry_call(async || store.get(id, name).await)
        .await
        .map(|record| record.value)
}

/// The last stored metadata is kept.
async fn metadata_is_kept(workspace: &dyn ReopenableWorkspace) {
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
    put(
        &*store,
        &InstanceMeta {
            created_at: Utc::now(),
            ..rich.clone()
        },
    )
    .await;
    put(&*store, &rich).await;
    put(&*store, &plain).await;
    drop(store);
    let store = workspace.open();
    let mut found = instances(&*store).await;
    found.sort_by_key(InstanceMeta::id);
    assert_eq!(found, [plain, rich]);
}

/// An instance can be found by its id, and all instances page by page.
async fn one_instance_and_all_pages(workspace: &dyn ReopenableWorkspace) {
    let store = workspace.open();
    let find = async |id: &InstanceId| retry_call(async || store.instance(id).await).await;
    assert_eq!(find(&instance("nobody")).await, None);
    assert_eq!(
        retry_call(async || store.instances_behind(None).await).await,
        []
    );
    let ids: Vec<_> = (0..600)
        .map(|number| instance(&format!("k{number}")))
        .collect();
    for id in &ids {
        put(
            &*store,
            &InstanceMeta {
                status: InstanceStatus::Processing,
                ..meta(id)
            },
        )
        .await;
    }
    let (one, event) = (&ids[7], event("e", &ids[7]));
    retry_call(async || store.append(accepted(&event)).await).await;
    let mut conversation = open(&*store, one).await;
    let (turn, new_meta) = (
        finished(&event),
        InstanceMeta {
            updated_at: Utc::now(),
            ..meta(one)
        },
    );
    retry_call(async || {
        conversation
            .end_turn(turn.clone(), BaseChange::Append(&[]), new_meta.clone())
            .await
    })
    .await;
    assert_eq!(
        find(one).await,
        Some(new_meta),
        "the end of a turn stores the metadata"
    );
    let (mut found, mut last) = (Vec::new(), None);
    loop {
        let some = retry_call(async || store.instances_behind(last.as_ref()).await).await;
        let Some(meta) = some.last() else { break };
        last = Some(meta.id());
        found.extend(some.iter().map(InstanceMeta::id));
    }
    found.sort();
    let mut expected_ids = ids.clone();
    expected_ids.sort();
    assert_eq!(found, expected_ids, "the pages contain each instance once");
    retry_call(async || store.delete_instance(&ids[0]).await).await;
    assert_eq!(find(&ids[0]).await, None);
}

/// Different keys are different instances, including keys that are not valid file names.
async fn keys(workspace: &dyn ReopenableWorkspace) {
    let long = "x".repeat(5_000);
    let keys = [
        "main",
        "Main",
        "",
        ".",
        "..",
        "../main",
        "a:b",
        "a/b",
        "a%2Fb",
        "주",
        "con",
        " ",
        &long,
        &long[1..],
    ];
    let store = workspace.open();
    for key in keys {
        put(&*store, &meta(&instance(key))).await;
        add_messages(&*store, &instance(key), &[key]).await;
    }
    drop(store);
    let store = workspace.open();
    assert_eq!(instances(&*store).await.len(), keys.len());
    for key in keys {
        let base = read_stored(&*store, &instance(key)).await.base;
        assert_eq!(
            base,
            messages(&[key]),
            "the store must return the conversation of {key:?}"
        );
    }
    let other = InstanceId::new("b", "main");
    assert!(read_stored(&*store, &other).await.base.is_empty());
}

/// A deleted instance is gone, and its id can be used again.
async fn delete(workspace: &dyn ReopenableWorkspace) {
    let (deleted, other) = (instance("doomed"), instance("other"));
    let store = workspace.open();
    assert!(!retry_call(async || store.delete_instance(&deleted).await).await);
    for id in [&deleted, &other] {
        put(&*store, &meta(id)).await;
        add_messages(&*store, id, &["m0"]).await;
        let mut conversation = open(&*store, id).await;
        retry_call(async || conversation.append(&append("m1")).await).await;
        assert!(retry_call(async || store.put(id, "x", &json!(1), None).await).await);
    }
    assert!(retry_call(async || store.delete_instance(&deleted).await).await);
    assert_eq!(instances(&*store).await, [meta(&other)]);
    let remaining = read_stored(&*store, &deleted).await;
    assert_eq!((remaining.base.len(), remaining.events.len()), (0, 0));
    assert_eq!(
        (
            value(&*store, &deleted, "x").await,
            value(&*store, &other, "x").await
        ),
        (None, Some(json!(1)))
    );
    drop(store);
    let store = workspace.open();
    assert_eq!(instances(&*store).await, [meta(&other)]);
    put(&*store, &meta(&deleted)).await;
    add_messages(&*store, &deleted, &["new"]).await;
    assert_eq!(
        read_stored(&*store, &deleted).await.base,
        messages(&["new"])
    );
}

/// A record is kept as it was stored.
async fn record_is_kept(workspace: &dyn ReopenableWorkspace) {
    let id = instance("k");
    let store = workspace.open();
    assert_eq!(value(&*store, &id, "x").await, None);
    for (name, value) in [
        ("x", json!({"a": [1]})),
        ("../x", json!(2)),
        ("gdn.dead-letters", json!([])),
    ] {
        assert!(retry_call(async || store.put(&id, name, &value, None).await).await);
    }
    drop(store);
    let store = workspace.open();
    assert_eq!(value(&*store, &id, "x").await, Some(json!({"a": [1]})));
    assert_eq!(value(&*store, &id, "../x").await, Some(json!(2)));
    assert_eq!(
        value(&*store, &id, "gdn.dead-letters").await,
        Some(json!([]))
    );
    assert_eq!(value(&*store, &instance("other"), "x").await, None);
}

/// A record is replaced only if it has the expected version.
async fn compare_and_set(workspace: &dyn ReopenableWorkspace) {
    let id = instance("k");
    let store = workspace.open();
    let put = async |value: u8, expected| {
        retry_call(async || store.put(&id, "x", &json!(value), expected).await).await
    };
    let version = async || {
        retry_call(async || store.get(&id, "x").await)
            .await
            .map(|record| record.version)
    };
    assert!(put(1, None).await);
    assert!(!put(9, None).await, "the record already exists");
    let first = version().await;
    assert!(put(2, first).await);
    assert!(!put(9, first).await, "the version has changed");
    let second = version().await;
    assert!(put(3, second).await);
    assert_eq!(value(&*store, &id, "x").await, Some(json!(3)));
}

/// Concurrent updates of a record are all kept.
async fn concurrent_updates(workspace: &dyn ReopenableWorkspace) {
    let id = instance("k");
    let store = workspace.open();
    let updates = (0..20).map(async |number: u64| {
        let add = |found: Option<serde_json::Value>| {
            let mut all: Vec<u64> = found
                .and_then(|all| serde_json::from_value(all).ok())
                .unwrap_or_default();
            if !all.contains(&number) {
                all.push(number);
            }
            Some(json!(all))
        };
        retry_call(async || update(&*store, &id, "numbers", add).await).await;
    });
    futures::future::join_all(updates).await;
    let numbers = value(&*store, &id, "numbers")
        .await
        .and_then(|all| all.as_array().map(Vec::len));
    assert_eq!(numbers, Some(20));
}

/// `all_records` returns each record with the given name, and its instance.
async fn all_records_with_a_name_are_found(workspace: &dyn ReopenableWorkspace) {
    let store = workspace.open();
    for key in ["one", "two", "three"] {
        put(&*store, &meta(&instance(key))).await;
    }
    for (key, name) in [("one", "x"), ("two", "y"), ("three", "x")] {
        assert!(
            retry_call(async || store.put(&instance(key), name, &json!(key), None).await).await
        );
    }
    let mut found = retry_call(async || store.all_records("x").await).await;
    found.sort_by(|a, b| a.0.cmp(&b.0));
    let found: Vec<_> = found
        .into_iter()
        .map(|(id, record)| (id, record.value))
        .collect();
    assert_eq!(
        found,
        [
            (instance("one"), json!("one")),
            (instance("three"), json!("three"))
        ]
    );
}

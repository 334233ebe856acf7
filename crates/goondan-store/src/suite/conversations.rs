//! Checks of conversations: events of a turn, checkpoints, and repeated checkpoints.

use super::samples::{
    accepted, append, event, event_by, finished, instance, message, messages, meta,
};
use super::{Check, ReopenableWorkspace, retry_call};
use goondan_core::conversation::Conversation;
use goondan_core::message::{MessageEvent, MessageRole};
use goondan_core::ports::store::{
    BaseChange, FinishedTurn, OpenConversation, Store, StoreError, StoredConversation,
};

pub(super) const CHECKS: &[Check] = &[
    ("a conversation that does not exist is empty", |workspace| {
        Box::pin(new_workspace_has_no_messages(workspace))
    }),
    ("reading a conversation does not create it", |workspace| {
        Box::pin(reading_creates_no_instance(workspace))
    }),
    ("events are read as they were appended", |workspace| {
        Box::pin(events(workspace))
    }),
    ("discarded events stay discarded", |workspace| {
        Box::pin(discarded_events_stay_discarded(workspace))
    }),
    (
        "a checkpoint of new messages adds them and removes the events",
        |workspace| Box::pin(checkpoint_appends_messages(workspace)),
    ),
    (
        "a checkpoint of the whole conversation replaces the base",
        |workspace| Box::pin(checkpoint_replaces_messages(workspace)),
    ),
    (
        "many checkpoints keep all messages since the last rewrite",
        |workspace| Box::pin(many_checkpoints(workspace)),
    ),
    ("a repeated checkpoint changes nothing", |workspace| {
        Box::pin(repeated_checkpoint_changes_nothing(workspace))
    }),
    ("a handle accepts events after a checkpoint", |workspace| {
        Box::pin(handle_accepts_events_after_a_checkpoint(workspace))
    }),
    (
        "the end of a turn stores its result, answer and messages",
        |workspace| Box::pin(turn_end_is_stored(workspace)),
    ),
    ("several turns can end on one handle", |workspace| {
        Box::pin(several_turns_end_on_one_handle(workspace))
    }),
    ("a fenced handle cannot write", |workspace| {
        Box::pin(fenced_handle_cannot_write(workspace))
    }),
];

/// Returns the conversation that a newly opened store has on disk.
async fn read_stored(workspace: &dyn ReopenableWorkspace) -> StoredConversation {
    let store = workspace.open();
    retry_call(async || store.read(&instance("k")).await).await
}

/// Opens the conversation of instance `k`; retries failed calls.
async fn open(store: &dyn Store) -> RetryingConversation {
    let lease = retry_call(async || store.claim(&instance("k")).await).await;
    let mut conversation = retry_call(async || store.open(lease.clone()).await).await;
    retry_call(async || conversation.load().await).await;
    RetryingConversation(conversation)
}

/// A conversation that retries failed calls.
struct RetryingConversation(Box<dyn OpenConversation>);

impl RetryingConversation {
    async fn append(&mut self, event: &MessageEvent) {
        retry_call(async || self.0.append(event).await).await;
    }

    async fn checkpoint(&mut self, change: BaseChange<'_>) {
        retry_call(async || self.0.checkpoint(change).await).await;
    }

    async fn end_turn(&mut self, turn: &FinishedTurn, change: BaseChange<'_>) {
        assert!(
            retry_call(async || self
                .0
                .end_turn(turn.clone(), change, meta(&instance("k")))
                .await)
            .await
        );
    }
}

/// Returns the ids of the stored messages.
fn message_ids(stored: &StoredConversation) -> Vec<&str> {
    stored
        .base
        .iter()
        .map(|message| message.id.as_str())
        .collect()
}

/// A new workspace has no messages.
async fn new_workspace_has_no_messages(workspace: &dyn ReopenableWorkspace) {
    assert_eq!(read_stored(workspace).await, StoredConversation::default());
}

/// Reading a missing conversation creates no instance.
async fn reading_creates_no_instance(workspace: &dyn ReopenableWorkspace) {
    read_stored(workspace).await;
    let store = workspace.open();
    assert_eq!(retry_call(async || store.instances().await).await, []);
}

/// Events are read as they were appended.
async fn events(workspace: &dyn ReopenableWorkspace) {
    let events = [
        append("m0"),
        MessageEvent::Replace {
            target_id: "m0".to_owned(),
            message: message("m1", MessageRole::Assistant),
        },
        MessageEvent::Remove {
            target_id: "m1".to_owned(),
        },
        MessageEvent::Truncate,
    ];
    let store = workspace.open();
    let mut conversation = open(&*store).await;
    for event in &events {
        conversation.append(event).await;
    }
    drop((conversation, store));
    assert_eq!(read_stored(workspace).await.events, events);
}

/// Discarded events stay discarded after later appends.
async fn discarded_events_stay_discarded(workspace: &dyn ReopenableWorkspace) {
    let store = workspace.open();
    let mut conversation = open(&*store).await;
    conversation.append(&append("m0")).await;
    retry_call(async || conversation.0.discard_events().await).await;
    conversation.append(&append("m1")).await;
    drop((conversation, store));
    assert_eq!(read_stored(workspace).await.events, [append("m1")]);
}

/// A checkpoint of new messages adds them and removes the events.
async fn checkpoint_appends_messages(workspace: &dyn ReopenableWorkspace) {
    let store = workspace.open();
    let mut conversation = open(&*store).await;
    conversation.append(&append("m0")).await;
    conversation
        .checkpoint(BaseChange::Append(&messages(&["m0"])))
        .await;
    drop((conversation, store));
    let stored = read_stored(workspace).await;
    assert_eq!((message_ids(&stored), stored.events.len()), (vec!["m0"], 0));
    assert_eq!(stored.base, messages(&["m0"]));
}

/// A checkpoint of the whole conversation replaces the messages.
async fn checkpoint_replaces_messages(workspace: &dyn ReopenableWorkspace) {
    let store = workspace.open();
    let mut conversation = open(&*store).await;
    conversation
        .checkpoint(BaseChange::Append(&messages(&["m0", "m1"])))
        .await;
    conversation
        .append(&MessageEvent::Remove {
            target_id: "m0".to_owned(),
        })
        .await;
    conversation
        .checkpoint(BaseChange::Rewrite(&messages(&["m1", "m2"])))
        .await;
    drop((conversation, store));
    let stored = read_stored(workspace).await;
    assert_eq!(
        (message_ids(&stored), stored.events.len()),
        (vec!["m1", "m2"], 0)
    );
}

/// Many checkpoints in a row keep all messages since the last rewrite.
async fn many_checkpoints(workspace: &dyn ReopenableWorkspace) {
    let store = workspace.open();
    let mut conversation = open(&*store).await;
    for turn in 0..20 {
        let id = format!("m{turn}");
        conversation.append(&append(&id)).await;
        match turn {
            10 => {
                conversation
                    .checkpoint(BaseChange::Rewrite(&messages(&[&id])))
                    .await
            }
            _ => {
                conversation
                    .checkpoint(BaseChange::Append(&messages(&[&id])))
                    .await
            }
        }
    }
    drop((conversation, store));
    assert_eq!(
        message_ids(&read_stored(workspace).await),
        (10..20).map(|turn| format!("m{turn}")).collect::<Vec<_>>()
    );
}

/// A checkpoint that is repeated after a crash changes nothing.
async fn repeated_checkpoint_changes_nothing(workspace: &dyn ReopenableWorkspace) {
    let events = [append("m0"), append("m1")];
    {
        let store = workspace.open();
        let mut conversation = open(&*store).await;
        // A kill left some of the messages in the base, and all events in the events file.
        conversation
            .checkpoint(BaseChange::Append(&messages(&["m0"])))
            .await;
        for event in &events {
            conversation.append(event).await;
        }
    }
    for _ in 0..2 {
        let (restored, missing) = Conversation::restore(read_stored(workspace).await);
        assert_eq!(missing, []);
        let store = workspace.open();
        let mut conversation = open(&*store).await;
        conversation.checkpoint(restored.base_change()).await;
        for event in &events {
            conversation.append(event).await;
        }
    }
    assert_eq!(message_ids(&read_stored(workspace).await), ["m0", "m1"]);
}

/// A handle accepts events after a checkpoint.
async fn handle_accepts_events_after_a_checkpoint(workspace: &dyn ReopenableWorkspace) {
    let store = workspace.open();
    let mut conversation = open(&*store).await;
    conversation
        .checkpoint(BaseChange::Rewrite(&messages(&["m0"])))
        .await;
    conversation.append(&append("m1")).await;
    drop((conversation, store));
    let stored = read_stored(workspace).await;
    assert_eq!(
        (message_ids(&stored), &*stored.events),
        (vec!["m0"], &[append("m1")][..])
    );
}

/// The end of a turn stores its result, its answer, its messages and the metadata.
async fn turn_end_is_stored(workspace: &dyn ReopenableWorkspace) {
    let (asker, id) = (instance("asker"), instance("k"));
    let (question, answer) = (event_by("question", &asker, &id), event("answer", &asker));
    let store = workspace.open();
    retry_call(async || store.append(accepted(&question)).await).await;
    let mut conversation = open(&*store).await;
    conversation.append(&append("m0")).await;
    let turn = FinishedTurn {
        answer: Some(answer.clone()),
        ..finished(&question)
    };
    conversation
        .end_turn(&turn, BaseChange::Append(&messages(&["m0"])))
        .await;
    drop((conversation, store));
    let found = read_stored(workspace).await;
    assert_eq!((message_ids(&found), found.events.len()), (vec!["m0"], 0));
    let store = workspace.open();
    let recovered = retry_call(async || store.recover().await).await;
    assert_eq!(recovered.pending, [answer]);
    let handled = recovered.handled.into_iter().next();
    let result = handled.map(|handled| handled.result);
    let result = result.or_else(|| store.earlier_result("question"));
    assert_eq!(result.unwrap().decode().unwrap(), turn.result);
    assert_eq!(
        retry_call(async || store.instances().await).await,
        [meta(&id)]
    );
}

/// Several turns can end on the same handle.
async fn several_turns_end_on_one_handle(workspace: &dyn ReopenableWorkspace) {
    let store = workspace.open();
    let mut conversation = open(&*store).await;
    for number in 0..10 {
        let (event, id) = (
            event(&format!("e{number}"), &instance("k")),
            format!("m{number}"),
        );
        retry_call(async || store.append(accepted(&event)).await).await;
        conversation.append(&append(&id)).await;
        match number {
            5 => {
                conversation
                    .end_turn(&finished(&event), BaseChange::Rewrite(&messages(&[&id])))
                    .await
            }
            _ => {
                conversation
                    .end_turn(&finished(&event), BaseChange::Append(&messages(&[&id])))
                    .await
            }
        }
    }
    drop((conversation, store));
    assert_eq!(
        message_ids(&read_stored(workspace).await),
        ["m5", "m6", "m7", "m8", "m9"]
    );
    let store = workspace.open();
    assert!(
        retry_call(async || store.recover().await)
            .await
            .pending
            .is_empty()
    );
}

/// A handle whose lease was taken over cannot change anything.
async fn fenced_handle_cannot_write(workspace: &dyn ReopenableWorkspace) {
    if !workspace.fences_claims() {
        return;
    }
    let store = workspace.open();
    let mut old = open(&*store).await.0;
    let mut new = open(&*store).await;
    new.append(&append("m0")).await;
    let event = event("one", &instance("k"));
    retry_call(async || store.append(accepted(&event)).await).await;
    let old_messages = messages(&["old"]);
    assert!(is_fenced(async || old.append(&append("old")).await).await);
    assert!(is_fenced(async || old.discard_events().await).await);
    assert!(is_fenced(async || old.checkpoint(BaseChange::Rewrite(&old_messages)).await).await);
    let meta = meta(&instance("k"));
    assert!(
        is_fenced(async || old
            .end_turn(
                finished(&event),
                BaseChange::Append(&old_messages),
                meta.clone()
            )
            .await
            .map(drop))
        .await
    );
    drop((old, new, store));
    assert_eq!(read_stored(workspace).await.events, [append("m0")]);
    let store = workspace.open();
    assert_eq!(
        retry_call(async || store.recover().await).await.pending,
        [event]
    );
}

/// Returns true if a call is fenced off. Retries it after any other error.
async fn is_fenced(mut call: impl AsyncFnMut() -> Result<(), StoreError>) -> bool {
    loop {
        match call().await {
            Ok(()) => return false,
            Err(StoreError::Fenced(_)) => return true,
            Err(_) => {}
        }
    }
}

use goondan_core::ids::InstanceId;
use goondan_core::message::{MessageEvent, MessagePart, MessageRole, ToolCall};
use goondan_core::ports::store::ConversationStore as _;
use goondan_store::memory::MemoryStore;
use goondan_store::suite::samples::{append, message};

use super::instance::restore_conversation;

#[tokio::test]
async fn open_calls_of_a_lost_turn_get_an_error_result() {
    let store = MemoryStore::new("/nowhere".into());
    let lease = store.claim(&InstanceId::new("a", "main")).await.unwrap();
    let mut conversation = store.open(lease).await.unwrap();
    let mut message_with_calls = message("turn-x-m1", MessageRole::Assistant);
    let call = |id: &str| {
        let (tool_call_id, tool_name) = (id.to_owned(), "world__once".to_owned());
        MessagePart::ToolCall(ToolCall::new(
            tool_call_id,
            tool_name,
            serde_json::json!({}),
        ))
    };
    message_with_calls
        .data
        .content
        .extend([call("c1"), call("c2")]);
    conversation.append(&append("turn-x-m0")).await.unwrap();
    conversation
        .append(&MessageEvent::Append {
            message: message_with_calls,
        })
        .await
        .unwrap();
    let (stored, now) = (
        conversation.load().await.unwrap(),
        chrono::DateTime::UNIX_EPOCH,
    );
    let (restored, _) = restore_conversation(&mut *conversation, stored, Some("turn-y"), now)
        .await
        .unwrap();
    let last = restored.last().unwrap();
    let results: Vec<_> = last
        .tool_results()
        .map(|result| &*result.tool_call_id)
        .collect();
    assert_eq!(
        (last.data.role, results),
        (MessageRole::Tool, vec!["c1", "c2"])
    );
    assert!(
        last.tool_results()
            .all(|result| result.error.as_ref().unwrap().code == "E_TOOL_INTERRUPTED")
    );
    assert_eq!(restored.unanswered_calls(), Vec::<&ToolCall>::new());
    let stored = conversation.load().await.unwrap();
    assert_eq!((stored.base.len(), stored.events.len()), (3, 0));
}

//! Inputs: acceptance, answers, and cancellation.

use goondan::event::InputDelivery;
use goondan_serve::ServerLimits;
use goondan_serve::client::ClientError;
use goondan_serve::wire::{InputBody, InputState, InputStatus, InstancesBody, MessagesBody};

use crate::support::{PROJECT, TestServer, input, with_timeout};

fn code(error: ClientError) -> String {
    match error {
        ClientError::Refused(body) => body.code,
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn an_input_is_answered() {
    let state = tempfile::tempdir().unwrap();
    let server = TestServer::start(state.path()).await;
    let ended = server.run_turn("hello").await;
    assert_eq!(
        (ended.status, ended.text.as_deref()),
        (InputStatus::Over, Some("hello one two"))
    );
    assert_eq!(
        (ended.agent_name.as_deref(), ended.instance_key.as_deref()),
        (Some("a"), Some("main"))
    );
    let instances: InstancesBody = server.client.get("/api/instances?agent=a").await.unwrap();
    assert_eq!(instances.instances.len(), 1);
    let messages: MessagesBody = server
        .client
        .get("/api/instances/a/main/messages")
        .await
        .unwrap();
    assert_eq!(messages.messages.last().unwrap().text(), "hello one two");
    let elsewhere = server
        .client
        .get::<MessagesBody>("/api/instances/a/other/messages")
        .await;
    assert_eq!(code(elsewhere.unwrap_err()), "INSTANCE_NOT_FOUND");
}

#[tokio::test]
async fn a_repeated_input_id_returns_the_first_result() {
    let state = tempfile::tempdir().unwrap();
    let server = TestServer::start(state.path()).await;
    let named = InputBody {
        id: Some("order-7".to_owned()),
        ..input("hello")
    };
    let first: InputState = server
        .client
        .post("/api/inputs?wait=true", &named)
        .await
        .unwrap();
    let again: InputState = server
        .client
        .post("/api/inputs?wait=true", &named)
        .await
        .unwrap();
    assert_eq!(first.result, again.result);
    let found: InputState = server.client.get("/api/inputs/order-7").await.unwrap();
    assert_eq!(found.result, first.result);
    assert_eq!(server.user_message_count().await, 1);
}

#[tokio::test]
async fn an_open_input_id_is_rejected_in_another_conversation() {
    let state = tempfile::tempdir().unwrap();
    let server = TestServer::start(state.path()).await;
    let named = InputBody {
        id: Some("order-8".to_owned()),
        ..input("slow")
    };
    let first: InputState = server.client.post("/api/inputs", &named).await.unwrap();
    let again: InputState = server.client.post("/api/inputs", &named).await.unwrap();
    assert_eq!(
        (again.status, again.trace_id),
        (InputStatus::Open, first.trace_id)
    );
    let elsewhere = InputBody {
        instance_key: Some("other".to_owned()),
        ..named
    };
    let refused = server
        .client
        .post::<InputState>("/api/inputs", &elsewhere)
        .await
        .unwrap_err();
    assert_eq!(code(refused), "E_SERVE_REQUEST");
    server.client.delete("/api/inputs/order-8").await.unwrap();
}

#[tokio::test]
async fn a_queued_steering_input_is_cancelled_without_the_turn() {
    let state = tempfile::tempdir().unwrap();
    let server = TestServer::start(state.path()).await;
    let post = async |body: &InputBody| -> InputState {
        server.client.post("/api/inputs", body).await.unwrap()
    };
    let slow = post(&input("slow")).await;
    let steering = InputBody {
        delivery: InputDelivery::Steer,
        ..input("only the tests")
    };
    let waiting = post(&steering).await;
    let path = |id: &str| format!("/api/inputs/{id}");
    server.client.delete(&path(&waiting.id)).await.unwrap();
    let get = async |id: &str| -> InputState { server.client.get(&path(id)).await.unwrap() };
    let cancelled = get(&waiting.id).await.result.unwrap();
    assert_eq!(cancelled.error.unwrap().code, "E_TURN_CANCELLED");
    assert_eq!(get(&slow.id).await.status, InputStatus::Open);
    server.client.delete(&path(&slow.id)).await.unwrap();
}

#[tokio::test]
async fn running_and_waiting_inputs_can_be_cancelled() {
    let state = tempfile::tempdir().unwrap();
    let server = TestServer::start(state.path()).await;
    let running_input: InputState = server
        .client
        .post("/api/inputs", &input("slow"))
        .await
        .unwrap();
    let waiting_input: InputState = server
        .client
        .post("/api/inputs", &input("behind"))
        .await
        .unwrap();
    assert_eq!(
        (running_input.status, waiting_input.status),
        (InputStatus::Open, InputStatus::Open)
    );
    for id in [&waiting_input.id, &running_input.id] {
        let following = server
            .client
            .events(&format!("/api/inputs/{id}/events"))
            .await
            .unwrap();
        server
            .client
            .delete(&format!("/api/inputs/{id}"))
            .await
            .unwrap();
        let last = with_timeout(crate::support::all(following))
            .await
            .pop()
            .unwrap();
        assert_eq!(last.name, "result");
        let ended: InputState = serde_json::from_str(&last.data).unwrap();
        let result = ended.result.unwrap();
        assert_eq!(result.error.unwrap().code, "E_TURN_CANCELLED");
        assert_eq!(
            code(
                server
                    .client
                    .delete(&format!("/api/inputs/{id}"))
                    .await
                    .unwrap_err()
            ),
            "E_SERVE_CLOSED"
        );
    }
    assert_eq!(
        code(server.client.delete("/api/inputs/never").await.unwrap_err()),
        "E_SERVE_NOT_FOUND"
    );
    // The waiting input is not part of the conversation.
    assert_eq!(server.user_message_count().await, 1);
    assert_eq!(
        server.run_turn("hello").await.text.as_deref(),
        Some("hello one two")
    );
}

#[tokio::test]
async fn invalid_inputs_are_rejected() {
    let state = tempfile::tempdir().unwrap();
    let server = TestServer::start(state.path()).await;
    let send = |body: InputBody| {
        server
            .client
            .post::<InputState>("/api/inputs", Box::leak(Box::new(body)))
    };
    assert_eq!(code(send(input("")).await.unwrap_err()), "E_SERVE_REQUEST");
    let unknown_agent = InputBody {
        agent: Some("nobody".to_owned()),
        ..input("hi")
    };
    assert_eq!(
        code(send(unknown_agent).await.unwrap_err()),
        "AGENT_NOT_FOUND"
    );
    let mut reserved = input("hi");
    reserved
        .metadata
        .insert("untrusted".to_owned(), false.into());
    assert_eq!(
        code(send(reserved).await.unwrap_err()),
        "AGENT_EVENT_RESERVED"
    );
    assert_eq!(server.swarm.instances().await, []);
    server.service.drain();
    assert_eq!(code(send(input("hi")).await.unwrap_err()), "SWARM_STOPPING");
}

#[tokio::test]
async fn a_finished_input_id_is_rejected_in_another_conversation() {
    let state = tempfile::tempdir().unwrap();
    let server = TestServer::start(state.path()).await;
    let named = InputBody {
        id: Some("order-7".to_owned()),
        ..input("hello")
    };
    let foreign = InputBody {
        instance_key: Some("other".to_owned()),
        ..named.clone()
    };
    let post = async |body: &InputBody| -> Result<InputState, ClientError> {
        server.client.post("/api/inputs?wait=true", body).await
    };
    let first = post(&named).await.unwrap();
    assert_eq!(code(post(&foreign).await.unwrap_err()), "E_SERVE_REQUEST");
    assert_eq!(post(&named).await.unwrap().text, first.text);
}

#[tokio::test]
async fn an_input_id_is_remembered_after_its_messages_are_removed() {
    let state = tempfile::tempdir().unwrap();
    let window = "extensions: [{ref: Extension/message-window, config: {maxMessages: 1}}]";
    let project = PROJECT.replace("tools: [", &format!("{window}\n  tools: ["));
    let limits = ServerLimits::default();
    let server = TestServer::start_project(state.path(), limits, &project, |builder| builder).await;
    let post = async |body: &InputBody| -> Result<InputState, ClientError> {
        server.client.post("/api/inputs?wait=true", body).await
    };
    let named = |instance_key: Option<&str>| InputBody {
        id: Some("order-9".to_owned()),
        instance_key: instance_key.map(str::to_owned),
        ..input("hello")
    };
    let first = post(&named(None)).await.unwrap();
    post(&input("next")).await.unwrap();
    let kept: MessagesBody = server
        .client
        .get("/api/instances/a/main/messages")
        .await
        .unwrap();
    assert!(!kept.messages.is_empty());
    assert!(
        kept.messages
            .iter()
            .all(|message| !message.text().contains("hello"))
    );
    assert_eq!(post(&named(None)).await.unwrap().text, first.text);
    let elsewhere = post(&named(Some("other"))).await;
    assert_eq!(code(elsewhere.unwrap_err()), "E_SERVE_REQUEST");
}

//! Inputs: accepted once, answered, cancelled.

use goondan::event::InputDelivery;
use goondan_serve::ServerLimits;
use goondan_serve::client::ClientError;
use goondan_serve::wire::{InputBody, InputState, InputStatus, InstancesBody, MessagesBody};

use crate::support::{PROJECT, Running, input, within};

fn code(error: ClientError) -> String {
    match error {
        ClientError::Refused(body) => body.code,
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn an_input_is_answered() {
    let state = tempfile::tempdir().unwrap();
    let running = Running::start(state.path()).await;
    let ended = running.ask("hello").await;
    assert_eq!(
        (ended.status, ended.text.as_deref()),
        (InputStatus::Over, Some("hello one two"))
    );
    assert_eq!(
        (ended.agent_name.as_deref(), ended.instance_key.as_deref()),
        (Some("a"), Some("main"))
    );
    let instances: InstancesBody = running.client.get("/api/instances?agent=a").await.unwrap();
    assert_eq!(instances.instances.len(), 1);
    let messages: MessagesBody = running
        .client
        .get("/api/instances/a/main/messages")
        .await
        .unwrap();
    assert_eq!(messages.messages.last().unwrap().text(), "hello one two");
    let elsewhere = running
        .client
        .get::<MessagesBody>("/api/instances/a/other/messages")
        .await;
    assert_eq!(code(elsewhere.unwrap_err()), "INSTANCE_NOT_FOUND");
}

#[tokio::test]
async fn an_input_that_comes_again_is_the_same_input() {
    let state = tempfile::tempdir().unwrap();
    let running = Running::start(state.path()).await;
    let named = InputBody {
        id: Some("order-7".to_owned()),
        ..input("hello")
    };
    let first: InputState = running
        .client
        .post("/api/inputs?wait=true", &named)
        .await
        .unwrap();
    let again: InputState = running
        .client
        .post("/api/inputs?wait=true", &named)
        .await
        .unwrap();
    assert_eq!(first.result, again.result);
    let found: InputState = running.client.get("/api/inputs/order-7").await.unwrap();
    assert_eq!(found.result, first.result);
    assert_eq!(running.turns().await, 1);
}

#[tokio::test]
async fn an_id_is_for_one_conversation() {
    let state = tempfile::tempdir().unwrap();
    let running = Running::start(state.path()).await;
    let named = InputBody {
        id: Some("order-8".to_owned()),
        ..input("slow")
    };
    let first: InputState = running.client.post("/api/inputs", &named).await.unwrap();
    let again: InputState = running.client.post("/api/inputs", &named).await.unwrap();
    assert_eq!(
        (again.status, again.trace_id),
        (InputStatus::Open, first.trace_id)
    );
    let elsewhere = InputBody {
        instance_key: Some("other".to_owned()),
        ..named
    };
    let refused = running
        .client
        .post::<InputState>("/api/inputs", &elsewhere)
        .await
        .unwrap_err();
    assert_eq!(code(refused), "E_SERVE_REQUEST");
    running.client.delete("/api/inputs/order-8").await.unwrap();
}

#[tokio::test]
async fn an_input_that_waits_to_join_is_cancelled_without_the_turn() {
    let state = tempfile::tempdir().unwrap();
    let running = Running::start(state.path()).await;
    let post = async |body: &InputBody| -> InputState {
        running.client.post("/api/inputs", body).await.unwrap()
    };
    let slow = post(&input("slow")).await;
    let steering = InputBody {
        delivery: InputDelivery::Steer,
        ..input("only the tests")
    };
    let waits = post(&steering).await;
    let path = |id: &str| format!("/api/inputs/{id}");
    running.client.delete(&path(&waits.id)).await.unwrap();
    let get = async |id: &str| -> InputState { running.client.get(&path(id)).await.unwrap() };
    let cancelled = get(&waits.id).await.result.unwrap();
    assert_eq!(cancelled.error.unwrap().code, "E_TURN_CANCELLED");
    assert_eq!(get(&slow.id).await.status, InputStatus::Open);
    running.client.delete(&path(&slow.id)).await.unwrap();
}

#[tokio::test]
async fn inputs_are_cancelled_while_they_run_and_while_they_wait() {
    let state = tempfile::tempdir().unwrap();
    let running = Running::start(state.path()).await;
    let runs: InputState = running
        .client
        .post("/api/inputs", &input("slow"))
        .await
        .unwrap();
    let waits: InputState = running
        .client
        .post("/api/inputs", &input("behind"))
        .await
        .unwrap();
    assert_eq!(
        (runs.status, waits.status),
        (InputStatus::Open, InputStatus::Open)
    );
    for id in [&waits.id, &runs.id] {
        let following = running
            .client
            .events(&format!("/api/inputs/{id}/events"))
            .await
            .unwrap();
        running
            .client
            .delete(&format!("/api/inputs/{id}"))
            .await
            .unwrap();
        let last = within(crate::support::all(following)).await.pop().unwrap();
        assert_eq!(last.name, "result");
        let ended: InputState = serde_json::from_str(&last.data).unwrap();
        let result = ended.result.unwrap();
        assert_eq!(result.error.unwrap().code, "E_TURN_CANCELLED");
        assert_eq!(
            code(
                running
                    .client
                    .delete(&format!("/api/inputs/{id}"))
                    .await
                    .unwrap_err()
            ),
            "E_SERVE_CLOSED"
        );
    }
    assert_eq!(
        code(
            running
                .client
                .delete("/api/inputs/never")
                .await
                .unwrap_err()
        ),
        "E_SERVE_NOT_FOUND"
    );
    // What waited has left nothing behind.
    assert_eq!(running.turns().await, 1);
    assert_eq!(
        running.ask("hello").await.text.as_deref(),
        Some("hello one two")
    );
}

#[tokio::test]
async fn what_makes_no_sense_is_refused() {
    let state = tempfile::tempdir().unwrap();
    let running = Running::start(state.path()).await;
    let send = |body: InputBody| {
        running
            .client
            .post::<InputState>("/api/inputs", Box::leak(Box::new(body)))
    };
    assert_eq!(code(send(input("")).await.unwrap_err()), "E_SERVE_REQUEST");
    let stranger = InputBody {
        agent: Some("nobody".to_owned()),
        ..input("hi")
    };
    assert_eq!(code(send(stranger).await.unwrap_err()), "AGENT_NOT_FOUND");
    let mut reserved = input("hi");
    reserved
        .metadata
        .insert("untrusted".to_owned(), false.into());
    assert_eq!(
        code(send(reserved).await.unwrap_err()),
        "AGENT_EVENT_RESERVED"
    );
    assert_eq!(running.swarm.instances().await, []);
    running.service.drain();
    assert_eq!(code(send(input("hi")).await.unwrap_err()), "SWARM_STOPPING");
}

#[tokio::test]
async fn the_id_of_an_input_is_of_no_use_in_another_conversation() {
    let state = tempfile::tempdir().unwrap();
    let running = Running::start(state.path()).await;
    let named = InputBody {
        id: Some("order-7".to_owned()),
        ..input("hello")
    };
    let foreign = InputBody {
        instance_key: Some("other".to_owned()),
        ..named.clone()
    };
    let post = async |body: &InputBody| -> Result<InputState, ClientError> {
        running.client.post("/api/inputs?wait=true", body).await
    };
    let first = post(&named).await.unwrap();
    assert_eq!(code(post(&foreign).await.unwrap_err()), "E_SERVE_REQUEST");
    assert_eq!(post(&named).await.unwrap().text, first.text);
}

#[tokio::test]
async fn an_input_comes_again_after_its_messages_were_removed() {
    let state = tempfile::tempdir().unwrap();
    let window = "extensions: [{ref: Extension/message-window, config: {maxMessages: 1}}]";
    let project = PROJECT.replace("tools: [", &format!("{window}\n  tools: ["));
    let limits = ServerLimits::default();
    let running = Running::start_project(state.path(), limits, &project, |builder| builder).await;
    let post = async |body: &InputBody| -> Result<InputState, ClientError> {
        running.client.post("/api/inputs?wait=true", body).await
    };
    let named = |instance_key: Option<&str>| InputBody {
        id: Some("order-9".to_owned()),
        instance_key: instance_key.map(str::to_owned),
        ..input("hello")
    };
    let first = post(&named(None)).await.unwrap();
    post(&input("next")).await.unwrap();
    let kept: MessagesBody = running
        .client
        .get("/api/instances/a/main/messages")
        .await
        .unwrap();
    assert!(
        kept.messages
            .iter()
            .all(|message| !message.text().contains("hello"))
    );
    assert_eq!(post(&named(None)).await.unwrap().text, first.text);
    let elsewhere = post(&named(Some("other"))).await;
    assert_eq!(code(elsewhere.unwrap_err()), "E_SERVE_REQUEST");
}

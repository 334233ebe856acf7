//! Questions reach whoever is there.

use goondan_serve::client::ClientError;
use goondan_serve::wire::{AnswerBody, ApprovalChoice, CoverageBody, InputState, QuestionBody};

use crate::support::{Running, input, within};

/// The question of the stream, once it is asked.
async fn question(events: &mut goondan_serve::client::ServerEvents) -> QuestionBody {
    loop {
        let event = within(events.next()).await.unwrap().unwrap();
        if event.name == "approval.request" {
            return serde_json::from_str(&event.data).unwrap();
        }
    }
}

#[tokio::test]
async fn where_nobody_is_there_a_call_is_refused() {
    let state = tempfile::tempdir().unwrap();
    let running = Running::start(state.path()).await;
    let ended = running.ask("write").await;
    assert!(
        ended.text.unwrap().contains("E_TOOL_DENIED"),
        "the model hears why"
    );
}

#[tokio::test]
async fn an_answer_lets_the_call_run_and_the_first_one_counts() {
    let state = tempfile::tempdir().unwrap();
    let running = Running::start(state.path()).await;
    let mut watching = running
        .client
        .events("/api/events?approvals=true")
        .await
        .unwrap();
    // Its presence counts from the moment its stream has begun.
    within(async {
        while !running.broker.has_listeners() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let sent: InputState = running
        .client
        .post("/api/inputs", &input("write"))
        .await
        .unwrap();
    let question = question(&mut watching).await;
    assert_eq!(
        (&*question.tool_name, &question.arguments["path"]),
        ("file-system__write", &"note.txt".into())
    );
    let open: Vec<QuestionBody> = running.client.get("/api/approvals").await.unwrap();
    assert_eq!(open, std::slice::from_ref(&question));
    let path = format!("/api/approvals/{}", question.id);
    running
        .client
        .post_only(
            &path,
            &AnswerBody {
                answer: ApprovalChoice::Once,
                covers: CoverageBody::Call,
            },
        )
        .await
        .unwrap();
    let Err(ClientError::Refused(late)) = running
        .client
        .post_only(
            &path,
            &AnswerBody {
                answer: ApprovalChoice::Deny,
                covers: CoverageBody::Call,
            },
        )
        .await
    else {
        panic!("the second answer was taken");
    };
    assert_eq!(late.code, "E_SERVE_CLOSED");
    loop {
        if within(watching.next()).await.unwrap().unwrap().name == "approval.closed" {
            break;
        }
    }
    let events = running
        .client
        .events(&format!("/api/inputs/{}/events", sent.id))
        .await
        .unwrap();
    let last = crate::support::all(events).await.pop().unwrap();
    let ended: InputState = serde_json::from_str(&last.data).unwrap();
    assert!(!ended.text.unwrap().contains("E_TOOL_DENIED"));
}

#[tokio::test]
async fn a_client_that_leaves_takes_its_hope_along() {
    let state = tempfile::tempdir().unwrap();
    let running = Running::start(state.path()).await;
    let mut stream = running
        .client
        .follow("/api/inputs?approvals=true", &input("write"))
        .await
        .unwrap();
    question(&mut stream).await;
    let sent: Vec<QuestionBody> = running.client.get("/api/approvals").await.unwrap();
    assert_eq!(sent.len(), 1);
    drop(stream);
    let settled = running.swarm.subscribe();
    within(async {
        while running.broker.has_listeners() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    drop(settled);
    assert!(running.broker.open().is_empty());
}

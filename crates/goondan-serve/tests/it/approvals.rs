//! Approval requests over the HTTP API.

use goondan::event::SwarmEvent;
use goondan_serve::client::ClientError;
use goondan_serve::wire::{AnswerBody, ApprovalChoice, CoverageBody, InputState, QuestionBody};

use crate::support::{TestServer, input, with_timeout};

/// Waits for an approval request in the stream.
async fn approval_request(events: &mut goondan_serve::client::ServerEvents) -> QuestionBody {
    loop {
        let event = with_timeout(events.next()).await.unwrap().unwrap();
        if event.name == "approval.request" {
            return serde_json::from_str(&event.data).unwrap();
        }
    }
}

#[tokio::test]
async fn an_approval_request_without_a_client_is_denied() {
    let state = tempfile::tempdir().unwrap();
    let server = TestServer::start(state.path()).await;
    let ended = server.run_turn("write").await;
    assert!(
        ended.text.unwrap().contains("E_TOOL_DENIED"),
        "the model receives the reason"
    );
}

#[tokio::test]
async fn the_first_approval_answer_counts() {
    let state = tempfile::tempdir().unwrap();
    let server = TestServer::start(state.path()).await;
    let mut watching = server
        .client
        .events("/api/events?approvals=true")
        .await
        .unwrap();
    // The client counts as a listener when its stream has started.
    with_timeout(async {
        while !server.broker.has_listeners() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let sent: InputState = server
        .client
        .post("/api/inputs", &input("write"))
        .await
        .unwrap();
    let approval_request = approval_request(&mut watching).await;
    assert_eq!(
        (
            &*approval_request.tool_name,
            &approval_request.arguments["path"]
        ),
        ("file-system__write", &"note.txt".into())
    );
    let open: Vec<QuestionBody> = server.client.get("/api/approvals").await.unwrap();
    assert_eq!(open, std::slice::from_ref(&approval_request));
    let path = format!("/api/approvals/{}", approval_request.id);
    server
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
    let Err(ClientError::Refused(late)) = server
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
        panic!("the second answer was accepted");
    };
    assert_eq!(late.code, "E_SERVE_CLOSED");
    loop {
        if with_timeout(watching.next()).await.unwrap().unwrap().name == "approval.closed" {
            break;
        }
    }
    let events = server
        .client
        .events(&format!("/api/inputs/{}/events", sent.id))
        .await
        .unwrap();
    let last = crate::support::all(events).await.pop().unwrap();
    let ended: InputState = serde_json::from_str(&last.data).unwrap();
    assert!(!ended.text.unwrap().contains("E_TOOL_DENIED"));
}

#[tokio::test]
async fn an_approval_request_closes_when_its_client_disconnects() {
    let state = tempfile::tempdir().unwrap();
    let server = TestServer::start(state.path()).await;
    let mut stream = server
        .client
        .follow("/api/inputs?approvals=true", &input("write"))
        .await
        .unwrap();
    approval_request(&mut stream).await;
    let sent: Vec<QuestionBody> = server.client.get("/api/approvals").await.unwrap();
    assert_eq!(sent.len(), 1);
    let mut events = server.swarm.subscribe();
    drop(stream);
    with_timeout(async {
        while server.broker.has_listeners() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert!(server.broker.open().is_empty());
    // The call is denied, and the turn continues without the client.
    let text = with_timeout(async {
        loop {
            if let SwarmEvent::TurnEnded { result, .. } = events.recv().await.unwrap() {
                break result.response_text();
            }
        }
    })
    .await;
    assert!(text.contains("E_TOOL_DENIED"), "{text}");
}

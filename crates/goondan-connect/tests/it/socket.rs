//! `slack` over a WebSocket: envelopes, acknowledgements, reconnects, and buttons.

use futures::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

use crate::mock_platform::{MockPlatform, json};
use crate::support::{TestRuntime, shared, with_timeout};

/// Mock of the Slack Web API and of its WebSockets, whose URLs are valid once.
struct MockSlack {
    platform: MockPlatform,
    listener: TcpListener,
}

type Socket = WebSocketStream<TcpStream>;

impl MockSlack {
    async fn start() -> MockSlack {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, opened) = (listener.local_addr().unwrap(), shared(0));
        let platform = MockPlatform::start(move |call| {
            Some(match call.path.rsplit('/').next() {
                Some("apps.connections.open") => {
                    let mut opened = opened.lock().unwrap();
                    *opened += 1;
                    json(200, json!({"ok": true, "url": format!("ws://{address}/link/?ticket={opened}&app_id=A1")}))
                }
                Some("chat.postMessage") => json(200, json!({"ok": true, "channel": "C1", "ts": "9.9"})),
                _ => json(200, json!({"ok": true})),
            })
        })
        .await;
        MockSlack { platform, listener }
    }

    fn app(&self, more: &str) -> String {
        format!(
            "apiVersion: goondan.ai/v1\nkind: Connection\nmetadata: {{name: team}}\nspec:\n  connectorRef: Connector/slack\n  \
             config: {{apiBaseUrl: {{value: \"{}\"}}}}\n  \
             secrets: {{botToken: {{value: xoxb-1}}, appToken: {{value: xapp-1}}}}\n{more}",
            self.platform.base
        )
    }

    /// Waits for a connection, and sends the greeting.
    async fn accept(&self) -> Socket {
        let (stream, _) = with_timeout(self.listener.accept()).await.unwrap();
        let mut socket = with_timeout(tokio_tungstenite::accept_async(stream))
            .await
            .unwrap();
        let hello =
            json!({"type": "hello", "num_connections": 1, "connection_info": {"app_id": "A1"}});
        send(&mut socket, hello).await;
        socket
    }
}

async fn send(socket: &mut Socket, message: Value) {
    with_timeout(socket.send(Message::text(message.to_string())))
        .await
        .unwrap();
}

/// Waits for the next acknowledgement, and returns its envelope id.
async fn next_acknowledgement(socket: &mut Socket) -> String {
    with_timeout(async {
        loop {
            if let Message::Text(text) = socket.next().await.unwrap().unwrap() {
                let message: Value = serde_json::from_str(&text).unwrap();
                return message["envelope_id"].as_str().unwrap().to_owned();
            }
        }
    })
    .await
}

fn envelope(id: &str, ts: &str, text: &str) -> Value {
    json!({"envelope_id": id, "type": "events_api", "accepts_response_payload": false, "retry_attempt": 0, "payload": {
        "type": "event_callback", "team_id": "T1", "event_id": "Ev1", "event": {
            "type": "app_mention", "channel": "C1", "user": "U1", "ts": ts, "text": text,
    }}})
}

#[tokio::test]
async fn an_event_is_acknowledged_when_stored_and_answered_once() {
    let state = tempfile::tempdir().unwrap();
    let slack = MockSlack::start().await;
    let runtime = TestRuntime::start_with(
        state.path(),
        &slack.app(""),
        &[],
        goondan_connect::ConnectionOptions::default(),
    )
    .await;
    let mut socket = slack.accept().await;
    send(&mut socket, envelope("one", "1.2", "slow")).await;
    assert_eq!(
        next_acknowledgement(&mut socket).await,
        "one",
        "the acknowledgement does not wait for the model"
    );
    with_timeout(async {
        while runtime.user_messages("slack:C1:1.2").await != ["slow"] {
            tokio::task::yield_now().await;
        }
    })
    .await;
    send(&mut socket, envelope("two", "1.3", "hello")).await;
    assert_eq!(next_acknowledgement(&mut socket).await, "two");
    let sent = slack.platform.wait_for_calls("chat.postMessage", 1).await;
    assert_eq!(
        sent[0],
        json!({"channel": "C1", "thread_ts": "1.3", "text": "heard hello"})
    );
    // After a reconnect, a repeated event is acknowledged and starts no turn.
    send(
        &mut socket,
        json!({"type": "disconnect", "reason": "refresh_requested"}),
    )
    .await;
    let mut socket = slack.accept().await;
    send(&mut socket, envelope("three", "1.3", "hello")).await;
    assert_eq!(next_acknowledgement(&mut socket).await, "three");
    runtime.kill().await;
    let runtime = TestRuntime::start_with(
        state.path(),
        &slack.app(""),
        &[],
        goondan_connect::ConnectionOptions::default(),
    )
    .await;
    let mut socket = slack.accept().await;
    send(&mut socket, envelope("four", "1.3", "hello")).await;
    assert_eq!(next_acknowledgement(&mut socket).await, "four");
    send(&mut socket, envelope("five", "1.4", "more")).await;
    assert_eq!(next_acknowledgement(&mut socket).await, "five");
    slack.platform.wait_for_calls("chat.postMessage", 2).await;
    assert_eq!(runtime.user_messages("slack:C1:1.3").await, ["hello"]);
    assert_eq!(slack.platform.calls("chat.postMessage").len(), 2);
}

#[tokio::test]
async fn invalid_frames_are_ignored_and_a_disabled_link_is_reported() {
    let state = tempfile::tempdir().unwrap();
    let slack = MockSlack::start().await;
    let runtime = TestRuntime::start(state.path(), &slack.app("")).await;
    let mut socket = slack.accept().await;
    for invalid in [
        json!(null),
        json!([]),
        json!({"type": 3}),
        json!({"type": "events_api", "payload": {"event": []}}),
    ] {
        send(&mut socket, invalid).await;
    }
    with_timeout(socket.send(Message::Binary(vec![0, 255].into())))
        .await
        .unwrap();
    send(&mut socket, envelope("one", "1.2", "hello")).await;
    assert_eq!(next_acknowledgement(&mut socket).await, "one");
    // HTTP requests are not accepted, because the connection has no signing secret.
    let (status, _) = runtime
        .deliver("team", &[("x-slack-signature", "v0=00".to_owned())], b"{}")
        .await;
    assert_eq!(status, axum::http::StatusCode::NOT_FOUND);
    send(
        &mut socket,
        json!({"type": "disconnect", "reason": "link_disabled"}),
    )
    .await;
    runtime
        .wait_until("team", |snapshot| {
            let why = snapshot
                .status
                .as_ref()
                .and_then(|status| status.why.clone())
                .unwrap_or_default();
            why.contains("socket mode is disabled")
        })
        .await;
}

#[tokio::test]
async fn button_presses_arrive_over_the_socket() {
    let state = tempfile::tempdir().unwrap();
    let slack = MockSlack::start().await;
    let runtime =
        TestRuntime::start(state.path(), &slack.app("  allow: {approvers: [U2]}\n")).await;
    let mut socket = slack.accept().await;
    send(&mut socket, envelope("one", "1.2", "plan it")).await;
    assert_eq!(next_acknowledgement(&mut socket).await, "one");
    let request = slack.platform.wait_for_calls("chat.postMessage", 1).await;
    let allow = request[0]["blocks"][1]["elements"][0]["value"]
        .as_str()
        .unwrap()
        .to_owned();
    let press = |id: &str, user: &str| {
        json!({"envelope_id": id, "type": "interactive", "payload": {
            "type": "block_actions", "user": {"id": user, "username": "ada"}, "channel": {"id": "C1"},
            "container": {"message_ts": "9.9", "channel_id": "C1", "thread_ts": "1.2"},
            "actions": [{"type": "button", "action_id": "gdn:allow:", "value": allow}],
        }})
    };
    send(&mut socket, press("two", "U1")).await;
    assert_eq!(next_acknowledgement(&mut socket).await, "two");
    let notices = slack.platform.wait_for_calls("chat.postEphemeral", 1).await;
    assert_eq!(
        (&notices[0]["user"], &notices[0]["thread_ts"]),
        (&json!("U1"), &json!("1.2"))
    );
    send(&mut socket, press("three", "U2")).await;
    assert_eq!(next_acknowledgement(&mut socket).await, "three");
    let sent = slack.platform.wait_for_calls("chat.postMessage", 2).await;
    assert_eq!(sent[1]["text"], "it is done");
    let closed = slack.platform.wait_for_calls("chat.update", 1).await;
    assert_eq!(
        (&closed[0]["ts"], &closed[0]["blocks"]),
        (&json!("9.9"), &json!([]))
    );
    runtime
        .wait_until("team", |snapshot| snapshot.owed == 0)
        .await;
}

//! `slack` over a WebSocket: envelopes, acknowledgements, other connections, buttons.

use futures::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

use crate::platform::{Platform, json};
use crate::support::{Running, shared, within};

/// Slack as this side sees it: a Web API, and WebSockets under addresses that are good once.
struct Slack {
    platform: Platform,
    listener: TcpListener,
}

type Socket = WebSocketStream<TcpStream>;

impl Slack {
    async fn start() -> Slack {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, opened) = (listener.local_addr().unwrap(), shared(0));
        let platform = Platform::start(move |call| {
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
        Slack { platform, listener }
    }

    fn app(&self, more: &str) -> String {
        format!(
            "apiVersion: goondan.ai/v1\nkind: Connection\nmetadata: {{name: team}}\nspec:\n  connectorRef: Connector/slack\n  \
             config: {{apiBaseUrl: {{value: \"{}\"}}}}\n  \
             secrets: {{botToken: {{value: xoxb-1}}, appToken: {{value: xapp-1}}}}\n{more}",
            self.platform.base
        )
    }

    /// Waits for a connection, and greets it.
    async fn connected(&self) -> Socket {
        let (stream, _) = within(self.listener.accept()).await.unwrap();
        let mut socket = within(tokio_tungstenite::accept_async(stream))
            .await
            .unwrap();
        let hello =
            json!({"type": "hello", "num_connections": 1, "connection_info": {"app_id": "A1"}});
        say(&mut socket, hello).await;
        socket
    }
}

async fn say(socket: &mut Socket, message: Value) {
    within(socket.send(Message::text(message.to_string())))
        .await
        .unwrap();
}

/// The next acknowledgement.
async fn acknowledged(socket: &mut Socket) -> String {
    within(async {
        loop {
            if let Message::Text(text) = socket.next().await.unwrap().unwrap() {
                let said: Value = serde_json::from_str(&text).unwrap();
                return said["envelope_id"].as_str().unwrap().to_owned();
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
async fn an_event_is_acknowledged_once_it_is_on_disk_and_answered_once() {
    let state = tempfile::tempdir().unwrap();
    let slack = Slack::start().await;
    let running = Running::start_with(
        state.path(),
        &slack.app(""),
        &[],
        goondan_connect::ConnectionOptions::default(),
    )
    .await;
    let mut socket = slack.connected().await;
    say(&mut socket, envelope("one", "1.2", "slow")).await;
    assert_eq!(
        acknowledged(&mut socket).await,
        "one",
        "the model takes ten minutes"
    );
    within(async {
        while running.heard("slack:C1:1.2").await != ["slow"] {
            tokio::task::yield_now().await;
        }
    })
    .await;
    say(&mut socket, envelope("two", "1.3", "hello")).await;
    assert_eq!(acknowledged(&mut socket).await, "two");
    let sent = slack.platform.wait("chat.postMessage", 1).await;
    assert_eq!(
        sent[0],
        json!({"channel": "C1", "thread_ts": "1.3", "text": "heard hello"})
    );
    // Another connection: what comes again is acknowledged, and starts nothing.
    say(
        &mut socket,
        json!({"type": "disconnect", "reason": "refresh_requested"}),
    )
    .await;
    let mut socket = slack.connected().await;
    say(&mut socket, envelope("three", "1.3", "hello")).await;
    assert_eq!(acknowledged(&mut socket).await, "three");
    running.kill().await;
    let running = Running::start_with(
        state.path(),
        &slack.app(""),
        &[],
        goondan_connect::ConnectionOptions::default(),
    )
    .await;
    let mut socket = slack.connected().await;
    say(&mut socket, envelope("four", "1.3", "hello")).await;
    assert_eq!(acknowledged(&mut socket).await, "four");
    say(&mut socket, envelope("five", "1.4", "more")).await;
    assert_eq!(acknowledged(&mut socket).await, "five");
    slack.platform.wait("chat.postMessage", 2).await;
    assert_eq!(running.heard("slack:C1:1.3").await, ["hello"]);
    assert_eq!(slack.platform.calls("chat.postMessage").len(), 2);
}

#[tokio::test]
async fn nonsense_is_survived_and_a_link_that_is_disabled_is_told() {
    let state = tempfile::tempdir().unwrap();
    let slack = Slack::start().await;
    let running = Running::start(state.path(), &slack.app("")).await;
    let mut socket = slack.connected().await;
    for nonsense in [
        json!(null),
        json!([]),
        json!({"type": 3}),
        json!({"type": "events_api", "payload": {"event": []}}),
    ] {
        say(&mut socket, nonsense).await;
    }
    within(socket.send(Message::Binary(vec![0, 255].into())))
        .await
        .unwrap();
    say(&mut socket, envelope("one", "1.2", "hello")).await;
    assert_eq!(acknowledged(&mut socket).await, "one");
    // A request by HTTP is nobody's: there is no secret that could sign one.
    let (status, _) = running
        .deliver("team", &[("x-slack-signature", "v0=00".to_owned())], b"{}")
        .await;
    assert_eq!(status, axum::http::StatusCode::NOT_FOUND);
    say(
        &mut socket,
        json!({"type": "disconnect", "reason": "link_disabled"}),
    )
    .await;
    running
        .until("team", |look| {
            let why = look
                .status
                .as_ref()
                .and_then(|status| status.why.clone())
                .unwrap_or_default();
            why.contains("socket mode is disabled")
        })
        .await;
}

#[tokio::test]
async fn buttons_come_over_the_socket() {
    let state = tempfile::tempdir().unwrap();
    let slack = Slack::start().await;
    let running = Running::start(state.path(), &slack.app("  allow: {approvers: [U2]}\n")).await;
    let mut socket = slack.connected().await;
    say(&mut socket, envelope("one", "1.2", "plan it")).await;
    assert_eq!(acknowledged(&mut socket).await, "one");
    let put = slack.platform.wait("chat.postMessage", 1).await;
    let allow = put[0]["blocks"][1]["elements"][0]["value"]
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
    say(&mut socket, press("two", "U1")).await;
    assert_eq!(acknowledged(&mut socket).await, "two");
    let told = slack.platform.wait("chat.postEphemeral", 1).await;
    assert_eq!(
        (&told[0]["user"], &told[0]["thread_ts"]),
        (&json!("U1"), &json!("1.2"))
    );
    say(&mut socket, press("three", "U2")).await;
    assert_eq!(acknowledged(&mut socket).await, "three");
    let sent = slack.platform.wait("chat.postMessage", 2).await;
    assert_eq!(sent[1]["text"], "it is done");
    let closed = slack.platform.wait("chat.update", 1).await;
    assert_eq!(
        (&closed[0]["ts"], &closed[0]["blocks"]),
        (&json!("9.9"), &json!([]))
    );
    running.until("team", |look| look.owed == 0).await;
}

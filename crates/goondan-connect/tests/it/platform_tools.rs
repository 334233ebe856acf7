//! Answers that an agent sends with a platform tool.

use goondan_connect::ConnectionOptions;
use serde_json::json;

use crate::mock_platform::{MockPlatform, json};
use crate::support::{TestRuntime, with_timeout};

/// Returns a project whose agent must answer with the tool. `permissions` is YAML of the agent.
fn project(base: &str, permissions: &str) -> String {
    format!(
        r#"
apiVersion: goondan.ai/v1
kind: Model
metadata: {{name: m}}
spec:
  provider: scripted
  model: any
  options:
    rules:
      - {{when: {{role: tool}}, reply: {{text: done}}}}
      - {{when: {{contains: elsewhere}}, reply: {{calls: [{{id: s, tool: telegram__send, args: {{chatId: 8, text: to another chat}}}}]}}}}
    default: {{calls: [{{id: s, tool: telegram__send, args: {{chatId: "7", text: hello}}}}]}}
---
apiVersion: goondan.ai/v1
kind: Tool
metadata: {{name: telegram}}
spec: {{entry: "builtin:telegram", config: {{token: {{value: "123:abc"}}, apiBaseUrl: "{base}", allowPrivateNetwork: true}}}}
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {{name: a}}
spec:
  modelConfig: {{modelRef: Model/m}}
  tools: [{{ref: Tool/telegram}}]
  requiredTools: [telegram__send]
{permissions}
---
apiVersion: goondan.ai/v1
kind: Swarm
metadata: {{name: default}}
spec: {{entryAgent: Agent/a, agents: [{{ref: Agent/a}}]}}
---
apiVersion: goondan.ai/v1
kind: Connection
metadata: {{name: bot}}
spec:
  connectorRef: Connector/telegram
  config: {{apiBaseUrl: {{value: "{base}"}}}}
  secrets: {{botToken: {{value: "123:abc"}}}}
  allow: {{senders: ["7"]}}
"#
    )
}

/// Telegram mock and a swarm with a bot.
struct BotChat {
    platform: MockPlatform,
    runtime: TestRuntime,
}

/// Starts a bot that gets one message with this text from chat 7.
async fn start(state: &std::path::Path, text: &str, permissions: &str) -> BotChat {
    start_with(state, "telegram", text, permissions).await
}

/// Works like [`start`], with another connector.
async fn start_with(
    state: &std::path::Path,
    connector: &str,
    text: &str,
    permissions: &str,
) -> BotChat {
    let update = json!({"update_id": 1, "message": {
        "message_id": 1, "text": text, "chat": {"id": 7, "type": "private"},
        "from": {"id": 7, "is_bot": false, "first_name": "Ada"},
    }});
    let platform = MockPlatform::start(move |call| match call.path.rsplit('/').next() {
        Some("getUpdates") => (call.body["offset"].as_i64() <= Some(1))
            .then(|| json(200, json!({"ok": true, "result": [update.clone()]}))),
        Some("sendMessage") => Some(json(200, json!({"ok": true, "result": {"message_id": 40}}))),
        _ => Some(json(200, json!({"ok": true, "result": true}))),
    })
    .await;
    let text = project(&platform.base, permissions)
        .replace("Connector/telegram", &format!("Connector/{connector}"));
    let options = ConnectionOptions {
        has_server: true,
        ..ConnectionOptions::default()
    };
    let runtime = TestRuntime::start_project(state, &text, |_| {}, options, None).await;
    BotChat { platform, runtime }
}

/// Waits for an approval request, and returns its tool name.
async fn next_requested_tool(chat: &BotChat) -> String {
    let request = with_timeout(chat.runtime.broker.listen().next())
        .await
        .unwrap();
    request.request.tool_name.clone()
}

#[tokio::test]
async fn an_answer_in_the_channel_of_the_event_needs_no_approval() {
    for connector in ["telegram", "telegram-polling"] {
        let state = tempfile::tempdir().unwrap();
        let chat = start_with(state.path(), connector, "hello", "").await;
        let sent = chat.platform.wait_for_calls("sendMessage", 1).await;
        assert_eq!(
            (&sent[0]["chat_id"], &sent[0]["text"]),
            (&json!("7"), &json!("hello"))
        );
        chat.runtime.kill().await;
    }
}

#[tokio::test]
async fn a_message_to_another_channel_needs_an_approval() {
    let state = tempfile::tempdir().unwrap();
    let chat = start(state.path(), "elsewhere", "").await;
    assert_eq!(next_requested_tool(&chat).await, "telegram__send");
    assert_eq!(
        chat.platform.calls("sendMessage"),
        [] as [serde_json::Value; 0]
    );
    chat.runtime.kill().await;
}

#[tokio::test]
async fn an_explicit_rule_applies_to_the_channel_of_the_event() {
    for permissions in [
        "  permissions: {default: ask}",
        "  permissions: {rules: [{tool: telegram__send, action: ask}]}",
    ] {
        let state = tempfile::tempdir().unwrap();
        let chat = start(state.path(), "hello", permissions).await;
        assert_eq!(next_requested_tool(&chat).await, "telegram__send");
        assert_eq!(
            chat.platform.calls("sendMessage"),
            [] as [serde_json::Value; 0]
        );
        chat.runtime.kill().await;
    }
}

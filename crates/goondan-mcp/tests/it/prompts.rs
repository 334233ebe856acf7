//! Server prompts: listed with the tools, and expanded to inputs.

use std::path::Path;
use std::sync::Arc;

use goondan_core::ports::tool::ToolSource as _;
use goondan_mcp::McpTools;
use goondan_spec::value::Environment;
use goondan_spec::{BasePackage, Bundle, LoadInput, MemoryFiles};
use serde_json::{Value, json};

use crate::stdio_faults::until;
use crate::stdio_server::{
    HANG_TIMEOUT, MockServer, ReceivedRequest, RecordingSpawner, ServerAction, initialize_result,
    session, tool,
};

/// Answers like a server with two pages of prompts.
fn prompt_server(request: &ReceivedRequest<'_>) -> Option<Vec<ServerAction>> {
    let params = &request.message["params"];
    let arguments = json!([{"name": "file", "required": true}, {"name": "style"}]);
    let result = match request.message["method"].as_str()? {
        "initialize" => {
            let mut initialize_result = initialize_result("2025-11-25");
            initialize_result["capabilities"]["prompts"] = json!({});
            initialize_result
        }
        "tools/list" => json!({"tools": [tool("add")]}),
        "prompts/list" if params["cursor"] == "2" => {
            json!({"prompts": [{"name": "two words"}, {"name": "plain"}, {"name": "review"}]})
        }
        "prompts/list" => json!({
            "prompts": [{"name": "review", "description": "Reviews\na file.", "arguments": arguments}],
            "nextCursor": "2",
        }),
        "prompts/get" if params["name"] == "plain" => {
            let image = json!({"type": "image", "data": "QQ==", "mimeType": "image/png"});
            let text = json!({"type": "text", "text": "Look.\u{202e}"});
            json!({"messages": [{"role": "user", "content": text}, {"role": "user", "content": image}]})
        }
        "prompts/get" => {
            let text = json!({"type": "text", "text": params["arguments"].to_string()});
            let answer = json!({"type": "text", "text": "Which part?"});
            json!({"messages": [{"role": "user", "content": text}, {"role": "assistant", "content": answer}]})
        }
        _ => return None,
    };
    Some(vec![request.answer(result)])
}

#[tokio::test]
async fn prompts_are_listed_and_become_inputs() {
    let folder = tempfile::tempdir().unwrap();
    let server = MockServer::new(prompt_server, 0);
    let session = session(&server, folder.path(), HANG_TIMEOUT);
    let catalog = session.catalog().await.unwrap();
    let listed: Vec<_> = catalog
        .prompts
        .iter()
        .map(|prompt| (prompt.name.as_str(), prompt.description.as_str()))
        .collect();
    assert_eq!(listed, [("review", "Reviews a file."), ("plain", "")]);
    let review = session.prompt("review", "a.rs short and clear").await;
    assert_eq!(
        review.unwrap().text,
        "User: {\"file\":\"a.rs\",\"style\":\"short and clear\"}\n\nAssistant: Which part?"
    );
    let plain = session.prompt("plain", "").await.unwrap();
    assert_eq!(plain.text, "Look.\\u{202e}");
    assert_eq!(plain.files[0].media_type, "image/png");
    let missing = session.prompt("review", "").await.unwrap_err();
    assert_eq!(missing.code.as_deref(), Some("E_TOOL_INVALID_ARGS"));
    let unknown = session.prompt("other", "").await.unwrap_err();
    assert_eq!(unknown.code.as_deref(), Some("E_MCP_NO_TOOL"));
    session.end().await;
}

/// A swarm with one agent and the MCP server `docs`. `permissions` is a line of the agent's `spec`.
fn bundle(permissions: &str) -> Bundle {
    let resource = |kind: &str, name: &str, spec: &str| {
        format!(
            "apiVersion: goondan.ai/v1\nkind: {kind}\nmetadata: {{name: {name}}}\nspec:\n{spec}\n---\n"
        )
    };
    let agent = format!(
        "  modelConfig: {{modelRef: Model/m}}\n  tools: [{{ref: Tool/docs}}]\n{permissions}"
    );
    let text = [
        resource("Model", "m", "  provider: anthropic\n  model: claude"),
        resource("Tool", "docs", "  mcp: {command: played}"),
        resource("Agent", "a", &agent),
        resource(
            "Swarm",
            "s",
            "  agents: [{ref: Agent/a}]\n  entryAgent: Agent/a",
        ),
    ];
    let files = MemoryFiles::new().file("/project/goondan.yaml", text.concat());
    let loaded = goondan_spec::load(LoadInput {
        root: Path::new("/project"),
        files: &files,
        base: &BasePackage::default(),
    });
    let diagnostics = loaded.diagnostics;
    loaded.bundle.unwrap_or_else(|| panic!("{diagnostics:?}"))
}

const IN_SANDBOX: &str = "  permissions: {sandbox: {}}";

/// Prepares the swarm of the bundle, and opens its tools without keeping the exports.
async fn prepare(tools: &McpTools, bundle: &Bundle) {
    tools.prepare(bundle, bundle.choose_swarm(None).unwrap());
    for tool in bundle.tools().values() {
        tools.open(tool, bundle.root()).await.unwrap();
    }
}

#[tokio::test]
async fn a_cached_prompt_server_is_started_once_in_the_sandbox() {
    let folder = tempfile::tempdir().unwrap();
    let spawner = RecordingSpawner::new(&MockServer::new(prompt_server, 0));
    let tools = || {
        McpTools::new(
            folder.path(),
            Arc::clone(&spawner) as _,
            Environment::default(),
        )
    };
    let sandboxed = bundle(IN_SANDBOX);
    let first = tools();
    prepare(&first, &sandboxed).await;
    first.accept_prepared();
    first.shutdown().await;
    assert_eq!(*spawner.sandboxes.lock().unwrap(), [1]);

    let second = tools();
    prepare(&second, &sandboxed).await;
    second.accept_prepared();
    assert_eq!(second.prompts().len(), 2);
    let expand = async || second.expand_prompt("/docs:plain").await.unwrap().unwrap();
    expand().await;
    // A rejected reload and an accepted reload keep the server running.
    prepare(&second, &bundle("")).await;
    second.reject_prepared();
    expand().await;
    prepare(&second, &sandboxed).await;
    second.accept_prepared();
    expand().await;
    assert_eq!(*spawner.sandboxes.lock().unwrap(), [1, 1]);
    second.shutdown().await;
}

/// Answers like a server of the newer revision that removes its prompt after the first use.
fn prompt_removing_server(request: &ReceivedRequest<'_>) -> Option<Vec<ServerAction>> {
    let notification = |subscription: &Value, method: &str, listen_request: &Value| {
        let id = json!({"io.modelcontextprotocol/subscriptionId": subscription["id"]});
        let params =
            json!({"_meta": id, "notifications": listen_request["params"]["notifications"]});
        ServerAction::Send(json!({"jsonrpc": "2.0", "method": method, "params": params}))
    };
    let complete = |mut result: Value| {
        let fields = json!({"resultType": "complete", "ttlMs": 0, "cacheScope": "private"});
        let all = result.as_object_mut().unwrap();
        all.extend(fields.as_object().unwrap().clone());
        request.answer(result)
    };
    let mut past = request.past.iter();
    Some(match request.message["method"].as_str()? {
        "server/discover" => vec![complete(json!({
            "supportedVersions": ["2026-07-28"],
            "capabilities": {"prompts": {"listChanged": true}},
            "serverInfo": {"name": "played", "version": "2"},
        }))],
        "subscriptions/listen" => {
            let method = "notifications/subscriptions/acknowledged";
            vec![notification(request.message, method, request.message)]
        }
        "prompts/list" if request.before("prompts/get") > 0 => {
            vec![complete(json!({"prompts": []}))]
        }
        "prompts/list" => vec![complete(json!({"prompts": [{"name": "review"}]}))],
        "prompts/get" => {
            let subscription = past.find(|message| message["method"] == "subscriptions/listen")?;
            let method = "notifications/prompts/list_changed";
            let text = json!({"type": "text", "text": "Review."});
            let message = json!({"role": "user", "content": text});
            vec![
                notification(subscription, method, &Value::Null),
                complete(json!({"messages": [message]})),
            ]
        }
        _ => return None,
    })
}

#[tokio::test]
async fn a_changed_prompt_list_is_fetched_again() {
    let folder = tempfile::tempdir().unwrap();
    let server = MockServer::new(prompt_removing_server, 0);
    let spawner = RecordingSpawner::new(&server);
    let tools = McpTools::new(folder.path(), spawner, Environment::default());
    prepare(&tools, &bundle("")).await;
    tools.accept_prepared();
    assert_eq!(tools.prompts().len(), 1);
    let mut changes = tools.prompt_changes();
    let changed = async {
        until(|| server.count_received("subscriptions/listen") == 1).await;
        let expanded = tools.expand_prompt("/docs:review").await;
        assert_eq!(expanded.unwrap().unwrap().text, "Review.");
        changes.changed().await.unwrap();
    };
    tokio::time::timeout(HANG_TIMEOUT, changed).await.unwrap();
    assert_eq!(tools.prompts(), []);
    tools.shutdown().await;
}

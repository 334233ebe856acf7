//! MCP sessions over HTTP with the requests of public clients.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::request_encoding::{ACCEPT_ALL, JSON, RawResponse};
use crate::support::{TestServer, with_timeout};

/// Public MCP client and its requests.
struct McpClient {
    name: &'static str,
    /// Parameters of the `initialize` request.
    initialize: Value,
    /// Requests after the handshake: the method and its parameters.
    requests: Vec<(&'static str, Value)>,
}

fn client(
    name: &'static str,
    (info, version): (&str, &str),
    capabilities: Value,
    requests: Vec<(&'static str, Value)>,
) -> McpClient {
    McpClient {
        name,
        initialize: json!({
            "protocolVersion": version, "capabilities": capabilities, "clientInfo": {"name": info, "version": "1.0.0"},
        }),
        requests,
    }
}

fn clients() -> [McpClient; 6] {
    let lists = || {
        vec![
            ("tools/list", json!({})),
            ("prompts/list", json!({})),
            ("resources/list", json!({})),
        ]
    };
    let flags = json!({"tools": true, "prompts": false, "resources": true, "logging": false, "roots": {"listChanged": false}});
    let apps = json!({"extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}});
    let editor = json!({"roots": {"listChanged": true}, "sampling": {}, "elicitation": {"form": {}, "url": {}}});
    let inspector = json!({"sampling": {}, "elicitation": {}, "roots": {"listChanged": true}});
    [
        client(
            "Claude Desktop",
            ("claude-ai", "2025-06-18"),
            json!({}),
            lists(),
        ),
        client(
            "Claude Desktop with apps",
            ("claude-ai", "2025-11-25"),
            apps,
            lists(),
        ),
        client(
            "Cursor before 1.0",
            ("cursor-vscode", "2024-11-05"),
            flags,
            lists(),
        ),
        client(
            "Cursor",
            ("cursor-vscode", "2025-11-25"),
            json!({"roots": {"listChanged": false}}),
            vec![
                ("resources/list", Value::Null),
                ("tools/list", Value::Null),
                ("prompts/list", Value::Null),
            ],
        ),
        client(
            "VS Code",
            ("Visual Studio Code", "2025-11-25"),
            editor,
            vec![("ping", Value::Null), ("tools/list", json!({}))],
        ),
        client(
            "MCP Inspector",
            ("inspector-client", "2025-06-18"),
            inspector,
            vec![
                ("ping", json!({"_meta": {"progressToken": 1}})),
                ("tools/list", json!({"_meta": {"progressToken": 2}})),
                (
                    "resources/templates/list",
                    json!({"_meta": {"progressToken": 3}}),
                ),
            ],
        ),
    ]
}

/// Returns the response with the id, from a JSON body or an event stream.
fn answer(response: &RawResponse, id: u64) -> Value {
    let lines = response.body.lines();
    let data = lines.map(|line| line.strip_prefix("data: ").unwrap_or(line));
    let mut messages = data.filter_map(|data| serde_json::from_str::<Value>(data).ok());
    let found = messages.find(|message| message["id"] == id);
    found.unwrap_or_else(|| panic!("no response {id}: {} {}", response.head, response.body))
}

fn message(id: u64, method: &str, params: &Value) -> Vec<u8> {
    let mut message = json!({"method": method, "jsonrpc": "2.0", "id": id});
    // Clients omit `params` if a method has none.
    if !params.is_null() {
        message["params"] = params.clone();
    }
    message.to_string().into_bytes()
}

/// Opens the stream of a session, and returns its head.
async fn stream_head(server: &TestServer, session: &str) -> String {
    let token = server.endpoint.token.expose();
    let request = format!(
        "GET /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nAccept: text/event-stream\r\n\
         Mcp-Session-Id: {session}\r\n\r\n"
    );
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut head = String::new();
    while !head.contains("\r\n\r\n") {
        let mut bytes = [0; 1024];
        let length = with_timeout(stream.read(&mut bytes)).await.unwrap();
        assert!(length > 0, "{head}");
        head.push_str(&String::from_utf8_lossy(&bytes[..length]));
    }
    head.to_lowercase()
}

/// Starts the session of a client, and returns its id.
async fn begin(server: &TestServer, client: &McpClient, version: &str) -> String {
    let name = client.name;
    let body = message(0, "initialize", &client.initialize);
    let begun = server
        .request("POST /mcp", &[JSON, ACCEPT_ALL], &body)
        .await;
    assert_eq!(begun.status, 200, "{name}: {}", begun.body);
    let result = &answer(&begun, 0)["result"];
    assert_eq!(result["protocolVersion"], version, "{name}");
    assert!(
        result["capabilities"]["tools"].is_object(),
        "{name}: {result}"
    );
    let mut lines = begun.head.lines();
    let session = lines.find_map(|line| line.strip_prefix("mcp-session-id: "));
    session.unwrap().to_owned()
}

/// Checks the requests of a client within its session.
async fn check_requests(server: &TestServer, client: &McpClient, headers: &[(&str, &str)]) {
    let name = client.name;
    for (id, (method, params)) in (1..).zip(&client.requests) {
        let body = message(id, method, params);
        let response = server.request("POST /mcp", headers, &body).await;
        let answer = answer(&response, id);
        // Clients also request lists that the server does not support, and accept this error code.
        if !matches!(*method, "tools/list" | "ping") {
            assert_eq!(
                answer["error"]["code"], -32_601,
                "{name} {method}: {answer}"
            );
            continue;
        }
        let result = &answer["result"];
        assert!(result.is_object(), "{name} {method}: {answer}");
        if *method == "tools/list" {
            assert_eq!(result["tools"][0]["name"], "ask_a", "{name}");
            assert_eq!(
                result["tools"][0]["inputSchema"]["type"], "object",
                "{name}"
            );
        }
    }
}

/// Checks a whole session of a client.
async fn check(server: &TestServer, client: &McpClient) {
    let name = client.name;
    let version = client.initialize["protocolVersion"].as_str().unwrap();
    let session = begin(server, client, version).await;
    let mut headers = vec![JSON, ACCEPT_ALL, ("Mcp-Session-Id", &session)];
    // The protocol revision 2024-11-05 does not define the header `Mcp-Protocol-Version`.
    if version != "2024-11-05" {
        headers.push(("Mcp-Protocol-Version", version));
    }
    let initialized = br#"{"method":"notifications/initialized","jsonrpc":"2.0"}"#;
    let noted = server.request("POST /mcp", &headers, initialized).await;
    assert_eq!(noted.status, 202, "{name}: {}", noted.body);
    let head = stream_head(server, &session).await;
    assert!(
        head.contains("200 ok") && head.contains("text/event-stream"),
        "{name}: {head}"
    );
    check_requests(server, client, &headers).await;
    let call =
        json!({"name": "ask_a", "arguments": {"message": "hi"}, "_meta": {"progressToken": 9}});
    let body = message(9, "tools/call", &call);
    let called = server.request("POST /mcp", &headers, &body).await;
    let result = &answer(&called, 9)["result"];
    assert_eq!(
        result["content"][0]["text"], "hi one two",
        "{name}: {result}"
    );
    let ended = server.request("DELETE /mcp", &headers, b"").await;
    assert_eq!(ended.status, 204, "{name}: {}", ended.body);
}

#[tokio::test]
async fn public_mcp_clients_complete_a_session() {
    let state = tempfile::tempdir().unwrap();
    let server = TestServer::start(state.path()).await;
    for client in clients() {
        check(&server, &client).await;
    }
}

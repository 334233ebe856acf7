//! Logins to MCP servers.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::sandbox::Sandbox;

const ACCESS_TOKEN: &str = "access-token-of-ada-0001";
const REFRESH_TOKEN: &str = "refresh-token-of-ada-0001";
const CLIENT_SECRET: &str = "secret-of-the-client-0001";

/// Opener of the desktop. It notes its arguments and the page that they name.
const OPENER: &str = "#!/bin/sh\necho \"$@\" > NOTES/arguments\ncat \"$1\" > NOTES/page.new\nmv NOTES/page.new NOTES/page.html\n";

/// Serves an MCP server that is its own authorization server. Its tool description repeats the
/// tokens that it receives and issues.
fn serve(listener: TcpListener, secret: Option<&'static str>) {
    let base = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (base, stream) = (base.clone(), stream.unwrap());
            std::thread::spawn(move || answer(stream, &base, secret));
        }
    });
}

fn answer(mut stream: TcpStream, base: &str, secret: Option<&str>) {
    let mut reader = BufReader::new(&stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).unwrap_or(0) == 0 {
            return;
        }
    }
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("content-length")
            .then(|| value.parse().unwrap())
    });
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body).unwrap();
    let path = head.split(' ').nth(1).unwrap();
    let message: Value = serde_json::from_slice(&body).unwrap_or_default();
    let (status, content) = match path {
        "/.well-known/oauth-authorization-server" => (
            200,
            json!({
                "issuer": base, "authorization_endpoint": format!("{base}/authorize"),
                "token_endpoint": format!("{base}/token"), "registration_endpoint": format!("{base}/register"),
                "response_types_supported": ["code"], "code_challenge_methods_supported": ["S256"],
            }),
        ),
        "/register" => (
            201,
            json!({"client_id": "me", "client_secret": secret, "redirect_uris": message["redirect_uris"]}),
        ),
        "/token" if secret.is_some() => {
            let received = String::from_utf8_lossy(&body);
            let why = format!("refused {CLIENT_SECRET} {received}");
            (
                400,
                json!({"error": "invalid_request", "error_description": why}),
            )
        }
        "/token" => (
            200,
            json!({
                "access_token": ACCESS_TOKEN, "refresh_token": REFRESH_TOKEN, "token_type": "Bearer",
                "expires_in": 3600,
            }),
        ),
        "/mcp" if !head.contains(ACCESS_TOKEN) => (401, Value::Null),
        "/mcp" => served(&message),
        _ => (404, Value::Null),
    };
    let content = match content {
        Value::Null => String::new(),
        content => content.to_string(),
    };
    let length = content.len();
    let _ = write!(
        stream,
        "HTTP/1.1 {status} -\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{content}"
    );
}

/// Answers a message of MCP.
fn served(message: &Value) -> (u16, Value) {
    let result = match message["method"].as_str() {
        Some("initialize") => {
            json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "x", "version": "1"}})
        }
        Some("tools/list") => {
            let description = format!("{ACCESS_TOKEN} {REFRESH_TOKEN}");
            json!({"tools": [{"name": "t", "description": description, "inputSchema": {"type": "object"}}]})
        }
        _ if message["id"].is_null() => return (202, Value::Null),
        _ => {
            let error = json!({"code": -32601, "message": "no such method"});
            return (
                200,
                json!({"jsonrpc": "2.0", "id": message["id"], "error": error}),
            );
        }
    };
    (
        200,
        json!({"jsonrpc": "2.0", "id": message["id"], "result": result}),
    )
}

/// A project with a server at an address of this machine, and an opener that notes its arguments.
fn project(secret: Option<&'static str>) -> Sandbox {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    serve(listener, secret);
    let sandbox = Sandbox::new();
    let notes = sandbox.dir();
    sandbox.write(
        "bin/xdg-open",
        &OPENER.replace("NOTES", &notes.to_string_lossy()),
    );
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(notes.join("bin/xdg-open"), mode).unwrap();
    sandbox.write(
        "p/goondan.yaml",
        &format!(
            "\
apiVersion: goondan.ai/v1
kind: Tool
metadata: {{name: crm}}
spec: {{mcp: {{url: 'http://{address}/mcp', connectTimeout: 5s}}}}
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {{name: a}}
spec: {{model: scripted/any, tools: [Tool/crm]}}
"
        ),
    );
    sandbox
}

/// Logs in with a browser that is redirected at once. Returns all output, and the login URL.
fn login(sandbox: &Sandbox) -> (String, String) {
    let page = sandbox.dir().join("page.html");
    let path = format!(
        "{}:{}",
        sandbox.dir().join("bin").display(),
        std::env::var("PATH").unwrap()
    );
    let running = sandbox
        .command(&["-vv", "mcp", "login", "crm", "-p", "p"])
        .env("PATH", path)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let end = Instant::now() + Duration::from_secs(20);
    while !page.exists() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(20));
    }
    let page = std::fs::read_to_string(page).unwrap_or_default();
    let (_, url) = page.split_once("0;url=").unwrap_or_default();
    let url = url.split('"').next().unwrap().replace("&amp;", "&");
    if let Some((_, rest)) = url.split_once("127.0.0.1%3A") {
        let port = rest.split('%').next().unwrap();
        let (_, state) = url.split_once("&state=").unwrap();
        let state = state.split('&').next().unwrap();
        let mut stream = TcpStream::connect(("127.0.0.1", port.parse().unwrap())).unwrap();
        let target = format!("/callback?code=code-of-ada-0001&state={state}");
        write!(stream, "GET {target} HTTP/1.1\r\n\r\n").unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
    }
    let output = running.wait_with_output().unwrap();
    let shown = [output.stdout, output.stderr].concat();
    (String::from_utf8_lossy(&shown).into_owned(), url)
}

#[test]
fn login_tokens_are_masked_and_the_url_is_not_a_program_argument() {
    let sandbox = project(None);
    let (shown, url) = login(&sandbox);
    assert!(shown.contains("Logged in to the server"), "{shown}");
    let arguments = std::fs::read_to_string(sandbox.dir().join("arguments")).unwrap();
    assert!(
        url.contains("state=") && !arguments.contains("state=") && !arguments.contains("http"),
        "{arguments}"
    );
    let left = std::fs::read_dir(sandbox.state()).unwrap();
    let names = left.map(|entry| entry.unwrap().file_name());
    let pages: Vec<_> = names
        .filter(|name| name.to_string_lossy().contains("login"))
        .collect();
    assert!(pages.is_empty(), "{pages:?}");
    // A later process reads the tokens from the file.
    let listed = sandbox.gdn(&["-vv", "mcp", "list", "--connect", "--json", "-p", "p"]);
    let all = format!("{shown} {} {}", listed.stdout, listed.stderr);
    assert!(listed.stdout.contains("*** ***"), "{all}");
    for secret in [ACCESS_TOKEN, REFRESH_TOKEN, "code-of-ada-0001"] {
        assert!(!all.contains(secret), "{secret}: {all}");
    }
}

#[test]
fn secrets_of_a_refused_login_are_masked() {
    let sandbox = project(Some(CLIENT_SECRET));
    let (shown, _) = login(&sandbox);
    assert!(shown.contains("refused ***"), "{shown}");
    assert!(shown.contains("code_verifier=***"), "{shown}");
    for secret in [CLIENT_SECRET, "code-of-ada-0001"] {
        assert!(!shown.contains(secret), "{secret}: {shown}");
    }
}

//! Body size limits of all routes.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::routing::post;
use goondan_serve::{ServerLimits, ServerOptions};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use crate::project::{PassingCaseRunner, SingleFileEditor};
use crate::studio::EchoRecorder;
use crate::support::{PROJECT, TestServer, with_timeout};

/// Body size limit in these tests, in bytes.
const LIMIT: usize = 2_000;

/// Starts a server with all routes and with an additional webhook route.
async fn start(state: &std::path::Path) -> TestServer {
    let limits = ServerLimits {
        body: LIMIT,
        ..ServerLimits::default()
    };
    let all_routes = |options: ServerOptions| ServerOptions {
        studio: true,
        recorder: Some(Arc::new(EchoRecorder)),
        runner: Some(Arc::new(PassingCaseRunner)),
        editor: Some(Arc::new(SingleFileEditor)),
        further: Some(Router::new().route("/connect/c", post(async |_: Bytes| "received"))),
        ..options
    };
    TestServer::start_with_options(state, limits, PROJECT, |builder| builder, all_routes).await
}

/// Returns the method and path of each operation, and whether it has a request body.
fn operations(document: &Value) -> Vec<(String, String, bool)> {
    let paths = document["paths"].as_object().unwrap().iter();
    let described = paths.flat_map(|(path, item)| {
        let methods = item.as_object().unwrap().iter();
        methods.map(move |(method, operation)| {
            let has_body = !operation["requestBody"].is_null();
            (method.to_uppercase(), with_values(path), has_body)
        })
    });
    let further = ["/mcp", "/connect/c"].map(|path| ("POST".to_owned(), path.to_owned(), true));
    described.chain(further).collect()
}

/// Replaces the parameters of a path.
fn with_values(path: &str) -> String {
    let segments = path.split('/').map(|segment| match segment {
        "{agent}" | "{key}" => "a",
        parameter if parameter.starts_with('{') => "x",
        segment => segment,
    });
    segments.collect::<Vec<_>>().join("/")
}

/// Sends a body of twice the limit, with or without `Content-Length`. Returns the status.
async fn status(server: &TestServer, method: &str, path: &str, has_length: bool) -> u16 {
    let token = server.endpoint.token.expose();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\nConnection: close\r\n"
    );
    let body = format!("{{\"text\": \"{}\"}}", "x".repeat(2 * LIMIT));
    let size = body.len();
    let request = match has_length {
        true => format!("{head}Content-Length: {size}\r\n\r\n{body}"),
        false => {
            format!("{head}Transfer-Encoding: chunked\r\n\r\n{size:x}\r\n{body}\r\n0\r\n\r\n")
        }
    };
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    // The server may already have closed the connection after it rejected the head.
    let _ = stream.write_all(request.as_bytes()).await;
    // Reads only the first line, because an event stream does not end.
    let mut line = String::new();
    let mut reader = BufReader::new(stream);
    with_timeout(reader.read_line(&mut line)).await.unwrap();
    let status = line.split(' ').nth(1).and_then(|it| it.parse().ok());
    status.unwrap_or_else(|| panic!("{method} {path}: {line}"))
}

#[tokio::test]
async fn every_route_limits_its_request_body() {
    let state = tempfile::tempdir().unwrap();
    let server = start(state.path()).await;
    let document: Value = server.client.get("/openapi.json").await.unwrap();
    let operations = operations(&document);
    let with_body: BTreeSet<&str> = operations
        .iter()
        .filter(|(.., has_body)| *has_body)
        .map(|(_, path, _)| path.as_str())
        .collect();
    for path in [
        "/api/inputs",
        "/api/studio/sessions",
        "/api/project/file",
        "/a2a/a",
        "/ag-ui/a",
        "/v1/chat/completions",
        "/v1/responses",
    ] {
        assert!(with_body.contains(path), "{path} is missing: {with_body:?}");
    }
    for (method, path, has_body) in &operations {
        for has_length in [true, false] {
            let status = status(&server, method, path, has_length).await;
            let case = format!("{method} {path}, with a length: {has_length}: {status}");
            match has_body {
                true => assert_eq!(status, 413, "{case}"),
                // The handler does not read a body.
                false => assert!(status < 500, "{case}"),
            }
        }
    }
}

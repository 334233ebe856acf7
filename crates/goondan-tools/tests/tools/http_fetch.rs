use std::time::Duration;

use serde_json::{Value, json};
use wiremock::matchers::{body_string, header, method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

use crate::mock_engine::{MockEngine, keys, with_unknown};

/// Starts a server with a few pages, and a mock engine that may reach the server.
async fn server() -> (MockServer, MockEngine) {
    let server = MockServer::builder().start().await;
    let page = |at: &str, response: ResponseTemplate| {
        Mock::given(path(at.to_owned())).respond_with(response)
    };
    let mocks = [
        page(
            "/hello",
            ResponseTemplate::new(200)
                .set_body_string("héllo")
                .insert_header("x-a", "1")
                .append_header("x-a", "2"),
        ),
        page("/missing", ResponseTemplate::new(404).set_body_string("no")),
        page(
            "/moved",
            ResponseTemplate::new(302).insert_header("location", "/hello"),
        ),
        page(
            "/round",
            ResponseTemplate::new(302).insert_header("location", "/round"),
        ),
        page(
            "/metadata",
            ResponseTemplate::new(302).insert_header("location", "http://169.254.169.254/latest"),
        ),
        page(
            "/file",
            ResponseTemplate::new(302).insert_header("location", "file:///etc/passwd"),
        ),
        page(
            "/slow",
            ResponseTemplate::new(200).set_delay(Duration::from_secs(60)),
        ),
    ];
    for mock in mocks {
        mock.mount(&server).await;
    }
    let engine = MockEngine::new().config(json!({"allowPrivateNetwork": true}));
    (server, engine)
}

fn get(server: &MockServer, page: &str) -> Value {
    json!({"url": format!("{}{page}", server.uri())})
}

#[tokio::test]
async fn get_returns_status_headers_and_body() {
    let (server, engine) = server().await;
    let output = engine.ok("http-fetch__get", get(&server, "/hello")).await;
    let expected = [
        "url",
        "method",
        "status",
        "statusText",
        "headers",
        "body",
        "truncated",
        "durationMs",
    ];
    assert_eq!(keys(&output), expected);
    assert_eq!(output["body"], "héllo");
    assert_eq!(output["headers"]["x-a"], "1, 2");
    assert_eq!(
        (&output["status"], &output["statusText"]),
        (&json!(200), &json!("OK"))
    );
    assert_eq!(
        (&output["method"], &output["truncated"]),
        (&json!("GET"), &json!(false))
    );
}

#[tokio::test]
async fn an_http_error_status_is_not_a_tool_error() {
    let (server, engine) = server().await;
    let output = engine.ok("http-fetch__get", get(&server, "/missing")).await;
    assert_eq!(
        (&output["status"], &output["body"]),
        (&json!(404), &json!("no"))
    );
}

#[tokio::test]
async fn redirects_are_followed_to_the_final_url() {
    let (server, engine) = server().await;
    let output = engine.ok("http-fetch__get", get(&server, "/moved")).await;
    assert_eq!(output["url"], format!("{}/hello", server.uri()));
    assert_eq!(output["status"], 200);
    let (code, message) = engine.err("http-fetch__get", get(&server, "/round")).await;
    assert_eq!(code, "E_TOOL_HTTP");
    assert!(message.contains("redirects"), "{message}");
}

#[tokio::test]
async fn the_body_is_cut_on_a_character_boundary() {
    let (server, engine) = server().await;
    let mut args = get(&server, "/hello");
    args["maxBytes"] = json!(2);
    let output = engine.ok("http-fetch__get", args.clone()).await;
    assert_eq!(
        (&output["body"], &output["truncated"]),
        (&json!("h"), &json!(true))
    );
    args["maxBytes"] = json!(6);
    assert_eq!(engine.ok("http-fetch__get", args).await["truncated"], false);
}

#[tokio::test]
async fn post_sends_json_or_text() {
    let (server, engine) = server().await;
    let accept = |body: &'static str, kind: &'static str| {
        Mock::given(method("POST"))
            .and(path("/in"))
            .and(body_string(body))
            .and(header("content-type", kind))
            .respond_with(ResponseTemplate::new(201))
    };
    accept(r#"{"b":1,"a":"x"}"#, "application/json")
        .mount(&server)
        .await;
    accept(r#"{"c":2}"#, "application/x-mine")
        .mount(&server)
        .await;
    accept("a=1", "text/plain").mount(&server).await;
    let url = format!("{}/in", server.uri());
    let bodies = [
        json!({"url": url, "body": {"b": 1, "a": "x"}, "bodyString": "ignored"}),
        json!({"url": url, "body": {"c": 2}, "headers": {"Content-Type": "application/x-mine"}}),
        json!({"url": url, "bodyString": "a=1", "headers": {"content-type": "text/plain"}}),
    ];
    for args in bodies {
        let output = engine.ok("http-fetch__post", args).await;
        assert_eq!(
            (&output["status"], &output["method"]),
            (&json!(201), &json!("POST"))
        );
    }
}

#[tokio::test]
async fn http_fetch_blocks_private_addresses() {
    let (server, _) = server().await;
    let engine = MockEngine::new();
    let port = server.address().port();
    for host in [
        "127.0.0.1",
        "localhost",
        "2130706433",
        "[::ffff:127.0.0.1]",
        "127.1",
    ] {
        let (code, message) = engine
            .err(
                "http-fetch__get",
                json!({"url": format!("http://{host}:{port}/hello")}),
            )
            .await;
        assert_eq!(code, "E_TOOL_ADDRESS_BLOCKED", "{host}: {message}");
        assert!(message.contains("loopback"), "{message}");
    }
    assert!(server.received_requests().await.unwrap().is_empty());
}

#[tokio::test]
async fn allowed_hosts_are_reachable_and_their_redirects_are_checked() {
    let (server, _) = server().await;
    let engine = MockEngine::new().config(json!({"allowHosts": ["localhost"]}));
    let port = server.address().port();
    let at = |page: &str| json!({"url": format!("http://localhost:{port}{page}")});
    assert_eq!(
        engine.ok("http-fetch__get", at("/hello")).await["status"],
        200
    );
    let error = engine
        .call("http-fetch__get", at("/metadata"))
        .await
        .unwrap_err();
    assert_eq!(error.code.as_deref(), Some("E_TOOL_ADDRESS_BLOCKED"));
    assert!(
        error.message.contains("169.254.169.254"),
        "{}",
        error.message
    );
    assert!(error.suggestion.unwrap().contains("allowHosts"));
    // URLs with other schemes are not followed.
    assert_eq!(
        engine.ok("http-fetch__get", at("/file")).await["status"],
        302
    );
}

#[tokio::test]
async fn an_http_request_ends_on_timeout_or_cancellation() {
    let (server, engine) = server().await;
    let mut args = get(&server, "/slow");
    args["timeoutMs"] = json!(50);
    let (code, message) = engine.err("http-fetch__get", args).await;
    assert_eq!(code, "E_TOOL_TIMEOUT");
    assert!(message.contains("50 ms"), "{message}");
    let call = engine.err("http-fetch__get", get(&server, "/slow"));
    let ((code, _), ()) = tokio::join!(call, async { engine.cancellation.cancel() });
    assert_eq!(code, "E_TOOL_CANCELLED");
}

#[tokio::test]
async fn a_refused_connection_is_reported() {
    let engine = MockEngine::new().config(json!({"allowPrivateNetwork": true}));
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let (code, message) = engine
        .err(
            "http-fetch__get",
            json!({"url": format!("http://127.0.0.1:{port}/")}),
        )
        .await;
    assert_eq!(code, "E_TOOL_HTTP");
    assert!(message.to_lowercase().contains("refused"), "{message}");
}

#[tokio::test]
async fn http_fetch_exports_reject_invalid_arguments() {
    let engine = MockEngine::new();
    let bad = [
        ("get", json!({})),
        ("get", json!({"url": "not a url"})),
        (
            "get",
            json!({"url": "http://example.com", "headers": {"a b": "x"}}),
        ),
        (
            "get",
            json!({"url": "http://example.com", "headers": {"a": "x\ny"}}),
        ),
        ("get", json!({"url": "http://example.com", "timeoutMs": 0})),
        ("get", json!({"url": "http://example.com", "maxBytes": -1})),
        ("get", with_unknown(json!({"url": "http://example.com"}))),
        ("post", json!({"url": "http://example.com", "body": "text"})),
        (
            "post",
            json!({"url": "http://example.com", "bodyString": {}}),
        ),
        ("post", json!({"body": {}})),
    ];
    for (export, args) in bad {
        let (code, _) = engine
            .err(&format!("http-fetch__{export}"), args.clone())
            .await;
        assert_eq!(code, "E_TOOL_INVALID_ARGS", "{export} {args}");
    }
    for url in ["file:///etc/passwd", "ftp://example.com/"] {
        assert_eq!(
            engine.err("http-fetch__get", json!({"url": url})).await.0,
            "E_TOOL_ADDRESS_BLOCKED"
        );
    }
}

use std::time::Duration;

use serde_json::{Value, json};
use wiremock::matchers::{body_string, header, method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

use crate::bench::{Bench, keys, with_unknown};

/// Starts a server with a few pages, and a bench that may reach it.
async fn server() -> (MockServer, Bench) {
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
    let bench = Bench::new().config(json!({"allowPrivateNetwork": true}));
    (server, bench)
}

fn get(server: &MockServer, page: &str) -> Value {
    json!({"url": format!("{}{page}", server.uri())})
}

#[tokio::test]
async fn get_tells_everything_about_the_response() {
    let (server, bench) = server().await;
    let output = bench.ok("http-fetch__get", get(&server, "/hello")).await;
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
async fn an_error_status_is_a_result() {
    let (server, bench) = server().await;
    let output = bench.ok("http-fetch__get", get(&server, "/missing")).await;
    assert_eq!(
        (&output["status"], &output["body"]),
        (&json!(404), &json!("no"))
    );
}

#[tokio::test]
async fn redirects_are_followed_to_the_final_url() {
    let (server, bench) = server().await;
    let output = bench.ok("http-fetch__get", get(&server, "/moved")).await;
    assert_eq!(output["url"], format!("{}/hello", server.uri()));
    assert_eq!(output["status"], 200);
    let (code, message) = bench.err("http-fetch__get", get(&server, "/round")).await;
    assert_eq!(code, "E_TOOL_HTTP");
    assert!(message.contains("redirects"), "{message}");
}

#[tokio::test]
async fn the_body_is_cut_between_characters() {
    let (server, bench) = server().await;
    let mut args = get(&server, "/hello");
    args["maxBytes"] = json!(2);
    let output = bench.ok("http-fetch__get", args.clone()).await;
    assert_eq!(
        (&output["body"], &output["truncated"]),
        (&json!("h"), &json!(true))
    );
    args["maxBytes"] = json!(6);
    assert_eq!(bench.ok("http-fetch__get", args).await["truncated"], false);
}

#[tokio::test]
async fn post_sends_json_or_text() {
    let (server, bench) = server().await;
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
        let output = bench.ok("http-fetch__post", args).await;
        assert_eq!(
            (&output["status"], &output["method"]),
            (&json!(201), &json!("POST"))
        );
    }
}

#[tokio::test]
async fn private_addresses_are_not_reached() {
    let (server, _) = server().await;
    let bench = Bench::new();
    let port = server.address().port();
    for host in [
        "127.0.0.1",
        "localhost",
        "2130706433",
        "[::ffff:127.0.0.1]",
        "127.1",
    ] {
        let (code, message) = bench
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
async fn a_host_of_the_config_is_reached_and_its_redirects_are_checked() {
    let (server, _) = server().await;
    let bench = Bench::new().config(json!({"allowHosts": ["localhost"]}));
    let port = server.address().port();
    let at = |page: &str| json!({"url": format!("http://localhost:{port}{page}")});
    assert_eq!(
        bench.ok("http-fetch__get", at("/hello")).await["status"],
        200
    );
    let error = bench
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
        bench.ok("http-fetch__get", at("/file")).await["status"],
        302
    );
}

#[tokio::test]
async fn a_request_ends_in_time() {
    let (server, bench) = server().await;
    let mut args = get(&server, "/slow");
    args["timeoutMs"] = json!(50);
    let (code, message) = bench.err("http-fetch__get", args).await;
    assert_eq!(code, "E_TOOL_TIMEOUT");
    assert!(message.contains("50 ms"), "{message}");
    let call = bench.err("http-fetch__get", get(&server, "/slow"));
    let ((code, _), ()) = tokio::join!(call, async { bench.cancellation.cancel() });
    assert_eq!(code, "E_TOOL_CANCELLED");
}

#[tokio::test]
async fn what_cannot_be_reached_says_so() {
    let bench = Bench::new().config(json!({"allowPrivateNetwork": true}));
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let (code, message) = bench
        .err(
            "http-fetch__get",
            json!({"url": format!("http://127.0.0.1:{port}/")}),
        )
        .await;
    assert_eq!(code, "E_TOOL_HTTP");
    assert!(message.to_lowercase().contains("refused"), "{message}");
}

#[tokio::test]
async fn arguments_that_make_no_sense_are_refused() {
    let bench = Bench::new();
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
        let (code, _) = bench
            .err(&format!("http-fetch__{export}"), args.clone())
            .await;
        assert_eq!(code, "E_TOOL_INVALID_ARGS", "{export} {args}");
    }
    for url in ["file:///etc/passwd", "ftp://example.com/"] {
        assert_eq!(
            bench.err("http-fetch__get", json!({"url": url})).await.0,
            "E_TOOL_ADDRESS_BLOCKED"
        );
    }
}

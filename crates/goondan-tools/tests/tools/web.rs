use serde_json::json;
use wiremock::matchers::path;
use wiremock::{Mock, MockServer, ResponseTemplate};

use crate::mock_engine::{MockEngine, with_unknown};

/// Starts a server with one page, and a mock engine that may reach the server.
async fn serve(response: ResponseTemplate) -> (MockServer, MockEngine, String) {
    let server = MockServer::builder().start().await;
    Mock::given(path("/dir/page"))
        .respond_with(response)
        .mount(&server)
        .await;
    let url = format!("{}/dir/page", server.uri());
    (
        server,
        MockEngine::new().config(json!({"allowPrivateNetwork": true})),
        url,
    )
}

fn html(body: impl Into<Vec<u8>>) -> ResponseTemplate {
    ResponseTemplate::new(200).set_body_raw(body, "text/html; charset=utf-8")
}

#[tokio::test]
async fn a_page_is_converted_to_markdown() {
    let page = "<html><head><title>The  Page</title><style>p{}</style></head><body><h1>Hi</h1>\
                <script>alert('no')</script><p>Some <b>bold</b> text &amp; a <a href=\"other\">link</a>.</p>\
                <ul><li>one<li>two</ul><pre><code class=\"language-rust\">fn main() {}\n</code></pre></body></html>";
    let (server, engine, url) = serve(html(page)).await;
    let output = engine
        .call("web__fetch", json!({"url": url}))
        .await
        .unwrap();
    assert_eq!(output.title.as_deref(), Some("Fetched The Page"));
    assert_eq!(
        (&output.metadata["url"], &output.metadata["contentType"]),
        (&json!(url), &json!("text/html"))
    );
    let text = output
        .output
        .as_str()
        .unwrap()
        .replace(&server.uri(), "http://host");
    insta::assert_snapshot!(text);
    let raw = engine
        .ok("web__fetch", json!({"url": url, "format": "html"}))
        .await;
    assert_eq!(raw, page);
}

#[tokio::test]
async fn a_long_page_is_returned_in_parts() {
    let (_server, engine, url) = serve(html("é".repeat(90_000))).await;
    let mut offset = 0;
    let mut lengths = Vec::new();
    loop {
        let page = engine
            .ok("web__fetch", json!({"url": url, "offset": offset}))
            .await;
        let page = page.as_str().unwrap();
        lengths.push(page.matches('é').count());
        let Some((_, next)) = page.split_once("offset ") else {
            break;
        };
        offset = next.trim_end_matches(".]").parse().unwrap();
    }
    assert_eq!(lengths, [40_000, 40_000, 10_000]);
    let (code, message) = engine
        .err("web__fetch", json!({"url": url, "offset": 90_000}))
        .await;
    assert_eq!(code, "E_TOOL_INVALID_ARGS");
    assert!(message.contains("90000 characters"), "{message}");
}

#[tokio::test]
async fn a_deeply_nested_page_is_converted() {
    let (_server, engine, url) = serve(html("<div><b>".repeat(100_000) + "the bottom")).await;
    assert!(
        engine
            .ok("web__fetch", json!({"url": url}))
            .await
            .as_str()
            .unwrap()
            .contains("the bottom")
    );
}

#[tokio::test]
async fn the_encoding_is_read_from_the_header_or_the_page() {
    let latin = b"caf\xe9".to_vec();
    let (_server, engine, url) = serve(
        ResponseTemplate::new(200).set_body_raw(latin.clone(), "text/plain; charset=ISO-8859-1"),
    )
    .await;
    assert_eq!(engine.ok("web__fetch", json!({"url": url})).await, "café");
    let page = [b"<meta charset='windows-1252'><p>".to_vec(), latin].concat();
    let (_server, engine, url) =
        serve(ResponseTemplate::new(200).set_body_raw(page, "text/html")).await;
    assert_eq!(engine.ok("web__fetch", json!({"url": url})).await, "café");
}

#[tokio::test]
async fn non_html_responses_are_returned_by_type() {
    let (_server, engine, url) =
        serve(ResponseTemplate::new(200).set_body_json(json!({"a": 1}))).await;
    assert_eq!(
        engine.ok("web__fetch", json!({"url": url})).await,
        "{\"a\":1}"
    );
    let (_server, engine, url) =
        serve(ResponseTemplate::new(200).set_body_raw(b"\x89PNG".to_vec(), "image/png")).await;
    let output = engine
        .call("web__fetch", json!({"url": url}))
        .await
        .unwrap();
    assert_eq!(
        (
            output.attachments[0].media_type.as_str(),
            output.attachments[0].data.as_str()
        ),
        ("image/png", "iVBORw==")
    );
    let (_server, engine, url) =
        serve(ResponseTemplate::new(200).set_body_raw(vec![0; 7], "application/zip")).await;
    assert!(
        engine
            .ok("web__fetch", json!({"url": url}))
            .await
            .as_str()
            .unwrap()
            .contains("application/zip, 7 bytes")
    );
    let (_server, engine, url) = serve(ResponseTemplate::new(404)).await;
    let (code, message) = engine.err("web__fetch", json!({"url": url})).await;
    assert_eq!(code, "E_TOOL_HTTP_STATUS");
    assert!(message.contains("404 Not Found"), "{message}");
}

#[tokio::test]
async fn web_fetch_blocks_private_addresses() {
    let (server, _, url) = serve(html("x")).await;
    assert_eq!(
        MockEngine::new()
            .err("web__fetch", json!({"url": url}))
            .await
            .0,
        "E_TOOL_ADDRESS_BLOCKED"
    );
    assert!(server.received_requests().await.unwrap().is_empty());
}

#[tokio::test]
async fn web_fetch_rejects_invalid_arguments() {
    let engine = MockEngine::new();
    let bad = [
        json!({}),
        json!({"url": ""}),
        json!({"url": "example.com"}),
        json!({"url": "http://example.com", "format": "pdf"}),
        json!({"url": "http://example.com", "offset": -1}),
        json!({"url": "http://example.com", "timeoutMs": 120_001}),
        with_unknown(json!({"url": "http://example.com"})),
    ];
    for args in bad {
        assert_eq!(
            engine.err("web__fetch", args.clone()).await.0,
            "E_TOOL_INVALID_ARGS",
            "{args}"
        );
    }
}

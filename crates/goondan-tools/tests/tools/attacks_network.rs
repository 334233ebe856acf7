//! Attacks through URLs in tool arguments: no request may reach this machine or its network.

use serde_json::json;
use wiremock::matchers::path;
use wiremock::{Mock, MockServer, ResponseTemplate};

use crate::attacks::SECRET;
use crate::mock_engine::MockEngine;

/// Hosts that resolve to this machine or its network.
const HOSTS: &[&str] = &[
    "127.0.0.1",
    "127.1",
    "127.0.1",
    "127.255.255.254",
    "2130706433",
    "0x7f000001",
    "0x7f.1",
    "0x7f.0x0.0x0.0x1",
    "0177.0.0.1",
    "017700000001",
    "0177.0x0.1",
    "127.0.0.1.",
    "127。0。0。1",
    "１２７.0.0.1",
    "①②⑦.0.0.1",
    "%31%32%37.0.0.1",
    "0",
    "0.0.0.0",
    "0x0",
    "localhost",
    "localhost.",
    "LOCALHOST",
    "ｌocalhost",
    "loc\u{ad}alhost",
    "user:password@127.0.0.1",
    "example.com@127.0.0.1",
    "example.com:80@127.0.0.1",
    "example.com%40@127.0.0.1",
    "[::]",
    "[::1]",
    "[0:0:0:0:0:0:0:1]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::127.0.0.1]",
    "[::ffff:0:127.0.0.1]",
    "[64:ff9b::127.0.0.1]",
    "[64:ff9b:1::1]",
    "[2002:7f00:1::]",
    "[2002:a9fe:a9fe::1]",
    "[fe80::1]",
    "[fe80::1%25eth0]",
    "[::1%25lo]",
    "[fc00::1]",
    "[fd00:ec2::254]",
    "[fec0::1]",
    "[ff02::1]",
    "[100::1]",
    "[2001:db8::1]",
    "10.0.0.1",
    "10.255.255.255",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "3232235777",
    "169.254.169.254",
    "169.254.170.2",
    "2852039166",
    "0xa9fea9fe",
    "0251.0376.0251.0376",
    "100.100.100.200",
    "100.64.0.1",
    "168.63.129.16",
    "192.0.0.192",
    "198.18.0.1",
    "224.0.0.1",
    "255.255.255.255",
];

/// URLs with forbidden schemes.
const SCHEMES: &[&str] = &[
    "file:///etc/passwd",
    "FILE:///etc/passwd",
    "file://localhost/etc/passwd",
    "ftp://example.com/",
    "gopher://127.0.0.1:70/_x",
    "dict://127.0.0.1:11211/stats",
    "ldap://127.0.0.1/",
    "data:text/plain,x",
    "javascript:alert(1)",
    "blob:http://127.0.0.1/x",
    "jar:http://127.0.0.1!/",
    "ws://127.0.0.1/",
    "unix:///var/run/docker.sock",
    "view-source:http://127.0.0.1/",
    "//127.0.0.1/",
    "/etc/passwd",
    "127.0.0.1",
    "http://",
    "http:///127.0.0.1/",
    "http://127.0.0.1\r\nHost: example.com/",
    "\u{0}http://127.0.0.1/",
    "\thttp://127.0.0.1/",
    "http:\\\\127.0.0.1\\",
    "http:127.0.0.1/",
];

#[tokio::test]
async fn requests_to_nonpublic_urls_are_blocked() {
    let server = MockServer::builder().start().await;
    let port = server.address().port();
    let engine = MockEngine::new();
    let hosts = HOSTS.iter().flat_map(|host| {
        // The port belongs to a running server, which counts requests that were not blocked.
        [format!("http://{host}:{port}/"), format!("https://{host}/")]
    });
    let mut count = 0;
    for url in hosts.chain(SCHEMES.iter().map(|url| (*url).to_owned())) {
        for (tool, args) in [
            ("http-fetch__get", json!({"url": url})),
            ("http-fetch__post", json!({"url": url, "bodyString": "x"})),
            ("web__fetch", json!({"url": url})),
        ] {
            count += 1;
            let (code, message) = engine.err(tool, args).await;
            // Some systems do not resolve `localhost.`.
            let unresolved = code == "E_TOOL_HTTP" && url.contains("localhost.");
            let refused = ["E_TOOL_ADDRESS_BLOCKED", "E_TOOL_INVALID_ARGS"].contains(&&*code);
            assert!(refused || unresolved, "{tool} {url}: {message}");
        }
    }
    for host in HOSTS {
        let url = format!("http://{host}:{port}/");
        let engine = MockEngine::new()
            .config(json!({"channels": {"out": {"webhook": {"url": {"value": url}}}}}));
        let (code, message) = match engine.try_open("messaging__message").await {
            Ok(()) => {
                engine
                    .err("messaging__message", json!({"to": "out", "content": "x"}))
                    .await
            }
            // The URL is invalid.
            Err(message) => (String::new(), message),
        };
        count += 1;
        let unresolved = code == "E_TOOL_HTTP" && url.contains("localhost.");
        assert!(
            code.is_empty() || code == "E_TOOL_ADDRESS_BLOCKED" || unresolved,
            "{url}: {code} {message}"
        );
    }
    assert!(server.received_requests().await.unwrap().is_empty());
    println!(
        "attacks: requests to non-public addresses: {} in {count} calls, all refused",
        HOSTS.len() + SCHEMES.len()
    );
}

#[tokio::test]
async fn redirects_to_nonpublic_urls_are_blocked() {
    let server = MockServer::builder().start().await;
    let port = server.address().port();
    // A header contains only ASCII, and a URL without a host is not followed.
    let hosts = HOSTS
        .iter()
        .filter(|host| host.is_ascii() && !host.starts_with("LOCAL") && !host.starts_with("local"));
    let hosts = hosts.map(|host| format!("http://{host}:{port}/in"));
    let targets: Vec<String> = hosts
        .chain([
            "file:///etc/passwd".to_owned(),
            "ftp://127.0.0.1/".to_owned(),
        ])
        .collect();
    for (number, target) in targets.iter().enumerate() {
        let status = [301, 302, 303, 307, 308][number % 5];
        let moved = ResponseTemplate::new(status).insert_header("location", target.as_str());
        Mock::given(path(format!("/{number}")))
            .respond_with(moved)
            .mount(&server)
            .await;
    }
    Mock::given(path("/in"))
        .respond_with(ResponseTemplate::new(200).set_body_string(SECRET))
        .mount(&server)
        .await;
    let engine = MockEngine::new().config(json!({"allowHosts": ["localhost"]}));
    let mut count = 0;
    for (number, target) in targets.iter().enumerate() {
        for tool in ["http-fetch__get", "web__fetch"] {
            count += 1;
            let result = engine
                .call(
                    tool,
                    json!({"url": format!("http://localhost:{port}/{number}")}),
                )
                .await;
            let is_not_followed = result
                .as_ref()
                .is_ok_and(|done| done.output["status"].as_u64() >= Some(300));
            assert!(
                result.is_err() || is_not_followed,
                "{tool} {target}: {result:?}"
            );
        }
    }
    let requests = server.received_requests().await.unwrap();
    assert!(!requests.is_empty(), "no call reached a redirect");
    assert!(requests.iter().all(|request| request.url.path() != "/in"));
    println!(
        "attacks: redirects to non-public addresses: {} in {count} calls, all refused",
        targets.len()
    );
}

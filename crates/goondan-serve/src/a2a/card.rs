//! What is told of an agent to those who want to ask it.

use axum::http::HeaderMap;
use axum::http::header::HOST;
use serde_json::{Value, json};

use super::dialect::Dialect;
use super::rpc;
use crate::service::Service;

/// What agents take, beside other files.
const INPUT: [&str; 5] = [
    "text/plain",
    "application/json",
    "image/png",
    "image/jpeg",
    "application/pdf",
];

/// The card of an agent. Who says that it speaks 1.0 gets what 1.0 has; others get the fields of 0.3 beside them. `is_guarded`
/// where requests need a token.
pub(super) fn of(service: &Service, agent: &str, headers: &HeaderMap, is_guarded: bool) -> Value {
    let swarm = service.swarm();
    let role = if agent == swarm.entry_agent() {
        ", which speaks for the swarm"
    } else {
        ""
    };
    let about = swarm.description(agent);
    let about =
        about.unwrap_or_else(|| format!("The agent {agent} of the swarm {}{role}.", swarm.name()));
    let url = format!("{}/a2a/{agent}", base(headers));
    let mut card = json!({
        "name": agent,
        "description": about,
        "version": service.inner.version,
        "supportedInterfaces": [
            {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
            {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "0.3"},
        ],
        "capabilities": {"streaming": true, "pushNotifications": false, "extendedAgentCard": false},
        "defaultInputModes": INPUT,
        "defaultOutputModes": ["text/plain"],
        "skills": [{"id": agent, "name": agent, "description": about, "tags": [swarm.name()]}],
    });
    if is_guarded {
        card["securitySchemes"] =
            json!({"bearer": {"httpAuthSecurityScheme": {"scheme": "bearer"}}});
        card["securityRequirements"] = json!([{"schemes": {"bearer": {"list": []}}}]);
    }
    if !rpc::is_stated(headers, Dialect::V10) {
        for (name, value) in old_fields(&url, is_guarded) {
            card[name] = value;
        }
        if is_guarded {
            card["securitySchemes"]["bearer"]["type"] = "http".into();
            card["securitySchemes"]["bearer"]["scheme"] = "bearer".into();
        }
    }
    card
}

/// What a card has in 0.3 alone.
fn old_fields(url: &str, is_guarded: bool) -> Vec<(&'static str, Value)> {
    let mut fields = vec![
        ("protocolVersion", json!("0.3.0")),
        ("url", json!(url)),
        ("preferredTransport", json!("JSONRPC")),
        ("supportsAuthenticatedExtendedCard", json!(false)),
    ];
    fields.extend(is_guarded.then(|| ("security", json!([{"bearer": []}]))));
    fields
}

/// The server's address, as the client has reached it. The host was checked.
fn base(headers: &HeaderMap) -> String {
    let text = |name| {
        headers
            .get(name)
            .and_then(|value: &axum::http::HeaderValue| value.to_str().ok())
    };
    let scheme = if text("x-forwarded-proto") == Some("https") {
        "https"
    } else {
        "http"
    };
    format!("{scheme}://{}", text(HOST.as_str()).unwrap_or("localhost"))
}

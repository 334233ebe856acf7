//! A2A agent cards.

use axum::http::HeaderMap;
use axum::http::header::HOST;
use serde_json::{Value, json};

use super::encoding::ProtocolVersion;
use super::rpc;
use crate::service::Service;

/// Accepted media types. Other files are also accepted.
const INPUT_MEDIA_TYPES: [&str; 5] = [
    "text/plain",
    "application/json",
    "image/png",
    "image/jpeg",
    "application/pdf",
];

/// Returns an agent's card. Clients that state version 1.0 get only its fields; others also get the
/// fields of 0.3. `is_guarded`: requests need a token.
pub(super) fn for_agent(
    service: &Service,
    agent: &str,
    headers: &HeaderMap,
    is_guarded: bool,
) -> Value {
    let swarm = service.swarm();
    let role = if agent == swarm.entry_agent() {
        ", the entry agent"
    } else {
        ""
    };
    let about = swarm.description(agent);
    let about =
        about.unwrap_or_else(|| format!("The agent {agent} of the swarm {}{role}.", swarm.name()));
    let url = format!("{}/a2a/{agent}", base_url(headers));
    let mut card = json!({
        "name": agent,
        "description": about,
        "version": service.inner.version,
        "supportedInterfaces": [
            {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
            {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "0.3"},
        ],
        "capabilities": {"streaming": true, "pushNotifications": false, "extendedAgentCard": false},
        "defaultInputModes": INPUT_MEDIA_TYPES,
        "defaultOutputModes": ["text/plain"],
        "skills": [{"id": agent, "name": agent, "description": about, "tags": [swarm.name()]}],
    });
    if is_guarded {
        card["securitySchemes"] =
            json!({"bearer": {"httpAuthSecurityScheme": {"scheme": "bearer"}}});
        card["securityRequirements"] = json!([{"schemes": {"bearer": {"list": []}}}]);
    }
    if !rpc::is_stated(headers, ProtocolVersion::V10) {
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

/// Returns the fields that only version 0.3 has.
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

/// Returns the server's URL as the client reached it. The host is already checked.
fn base_url(headers: &HeaderMap) -> String {
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

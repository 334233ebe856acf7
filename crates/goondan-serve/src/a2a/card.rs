//! What is told of an agent to those who want to ask it.

use axum::http::HeaderMap;
use axum::http::header::HOST;
use serde_json::{Value, json};

use crate::service::Service;

/// What agents take, beside other files.
const INPUT: [&str; 5] = ["text/plain", "application/json", "image/png", "image/jpeg", "application/pdf"];

/// The card of an agent, for both versions: each reads its own fields. `is_guarded` where requests need a token.
pub(super) fn of(service: &Service, agent: &str, headers: &HeaderMap, is_guarded: bool) -> Value {
    let swarm = service.swarm();
    let role = if agent == swarm.entry_agent() { ", which speaks for the swarm" } else { "" };
    let about = swarm.description(agent);
    let about = about.unwrap_or_else(|| format!("The agent {agent} of the swarm {}{role}.", swarm.name()));
    let url = format!("{}/a2a/{agent}", base(headers));
    let mut card = json!({
        "name": agent,
        "description": about,
        "version": service.inner.version,
        "supportedInterfaces": [
            {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
            {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "0.3"},
        ],
        "protocolVersion": "0.3.0",
        "url": url,
        "preferredTransport": "JSONRPC",
        "capabilities": {"streaming": true, "pushNotifications": false, "extendedAgentCard": false},
        "supportsAuthenticatedExtendedCard": false,
        "defaultInputModes": INPUT,
        "defaultOutputModes": ["text/plain"],
        "skills": [{"id": agent, "name": agent, "description": about, "tags": [swarm.name()]}],
    });
    if is_guarded {
        let scheme = json!({"type": "http", "scheme": "bearer", "httpAuthSecurityScheme": {"scheme": "bearer"}});
        card["securitySchemes"] = json!({ "bearer": scheme });
        card["securityRequirements"] = json!([{"schemes": {"bearer": {"list": []}}}]);
        card["security"] = json!([{"bearer": []}]);
    }
    card
}

/// The server's address, as the client has reached it. The host was checked.
fn base(headers: &HeaderMap) -> String {
    let text = |name| headers.get(name).and_then(|value: &axum::http::HeaderValue| value.to_str().ok());
    let scheme = if text("x-forwarded-proto") == Some("https") { "https" } else { "http" };
    format!("{scheme}://{}", text(HOST.as_str()).unwrap_or("localhost"))
}

//! Errors of a connection: of its start, its login and its output.

use std::time::Duration;

use goondan_core::ports::tool::HandlerError;
use goondan_spec::Code;
use rmcp::service::ClientInitializeError;
use rmcp::transport::streamable_http_client::StreamableHttpError;

use crate::codes::{self, error};
use crate::definition::McpServerDefinition;
use crate::oauth::TokenFile;
use crate::stdio_transport::{ConnectionFault, StreamObservations};

pub(super) const TIMEOUT_ADVICE: &str =
    "The swarm operator can raise `connectTimeoutMs` in `spec.mcp`.";

pub(super) const RETRY_ADVICE: &str =
    "Check the server and retry; `gdn mcp list --connect` shows the error.";

/// Returns the error for a failed connection attempt. `end` describes how the program ended; it may
/// be empty.
pub(super) fn no_connection(
    definition: &McpServerDefinition,
    failure: &ClientInitializeError,
    observations: &StreamObservations,
    end: String,
) -> HandlerError {
    let name = definition.name();
    if failure.is_authorization_required() || failure.auth_challenge().is_some() {
        return wants_login(name);
    }
    if let Some(fatal) = observations.fatal_fault() {
        return too_much(name, fatal);
    }
    let how = if end.is_empty() {
        String::new()
    } else {
        format!(" ({end})")
    };
    let why = match failure {
        ClientInitializeError::ConnectionClosed(_) => {
            format!("ended{how} without any output")
        }
        ClientInitializeError::NoCompatibleProtocolVersion { .. } => {
            "supports no protocol revision that gdn supports".to_owned()
        }
        ClientInitializeError::TransportError { error, .. } => {
            format!(
                "cannot be reached{how}: {}",
                codes::escaped_error_text(&error_chain(error.error.as_ref()))
            )
        }
        other => format!(
            "does not answer like an MCP server{how}: {}",
            codes::escaped_error_text(&other.to_string())
        ),
    };
    error(
        Code::MCP_CONNECT,
        name,
        format_args!("{why}{}", observations.program_output()),
    )
    .suggest(RETRY_ADVICE)
}

/// Returns the error for a server that exceeded the connection timeout.
pub(super) fn too_slow(
    definition: &McpServerDefinition,
    observations: &StreamObservations,
    _end: String,
) -> HandlerError {
    let limit = Duration::as_millis(&definition.connect_timeout);
    let what = format_args!(
        "did not answer within {limit} ms{}",
        observations.program_output()
    );
    error(Code::MCP_TIMEOUT, definition.name(), what).suggest(TIMEOUT_ADVICE)
}

/// Returns the error for output that violates the transport limits.
pub(super) fn too_much(name: &str, fatal: ConnectionFault) -> HandlerError {
    match fatal {
        ConnectionFault::LongLine => {
            let what = "sent a message of more than 16 MiB";
            error(Code::MCP_TOO_LARGE, name, what).suggest("Request less data per call.")
        }
        ConnectionFault::Unread => {
            let what = "sends requests, but does not read the answers";
            error(Code::MCP_CONNECT, name, what).suggest("Update the server.")
        }
        ConnectionFault::Noise => {
            let what = "prints output that is not an MCP message";
            error(Code::MCP_CONNECT, name, what)
                .suggest("Check that `command` and `args` in `spec.mcp` start an MCP server.")
        }
    }
}

/// Returns the error for a server that requires a login.
pub(super) fn wants_login(name: &str) -> HandlerError {
    error(Code::MCP_AUTH, name, "requires a login").suggest(format!(
        "The swarm operator can run `gdn mcp login {name}`, or put a key into `headers`."
    ))
}

/// Stores the `WWW-Authenticate` challenge of a refused request for the next login. Does nothing
/// without a token file or a challenge.
pub(super) fn store_challenge_if_any(tokens: Option<&TokenFile>, challenge: Option<&str>) {
    if let Some((tokens, challenge)) = tokens.zip(challenge) {
        tokens.record_challenge(challenge);
    }
}

/// Returns true if an HTTP response exceeded the size limit.
pub(super) fn is_too_large(error: &(dyn std::error::Error + 'static)) -> bool {
    let error = error.downcast_ref::<StreamableHttpError<reqwest::Error>>();
    matches!(
        error,
        Some(StreamableHttpError::ResponseBodyTooLarge { .. })
    )
}

/// Formats an error with all of its causes.
pub(super) fn error_chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let more = next.to_string();
        if !text.contains(&more) {
            text.push_str(&format!(": {more}"));
        }
        cause = next.source();
    }
    text
}

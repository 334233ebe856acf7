//! Forms of each error in all protocols: HTTP status, JSON-RPC code, and OpenAI type.

use axum::http::StatusCode;
use goondan::gateway::{ApprovalRefusal, SubmissionError};
use goondan::spec::Code;

use crate::problem::ApiProblem;

/// Message for a turn that the end of the swarm interrupts.
pub(crate) const SWARM_STOPPED: &str =
    "The swarm stopped during the turn. The turn resumes at the next start.";

/// JSON-RPC code and A2A reason of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RpcForm {
    pub(crate) code: i32,
    pub(crate) reason: &'static str,
}

/// Error for a wrong request, which fails again if it is repeated.
const INVALID: RpcForm = RpcForm {
    code: -32602,
    reason: "INVALID_PARAMS",
};

/// The request is valid, but the server cannot handle it now.
const INTERNAL: RpcForm = RpcForm {
    code: -32603,
    reason: "INTERNAL",
};

/// Returns the HTTP status and the JSON-RPC form of an error code.
fn error_forms(code: Code) -> (StatusCode, RpcForm) {
    match code {
        Code::SERVE_TOKEN => (StatusCode::UNAUTHORIZED, INVALID),
        Code::SERVE_ORIGIN => (StatusCode::FORBIDDEN, INVALID),
        // JSON-RPC requests have the agent in their URL, so their parameters are valid.
        Code::AGENT_NOT_FOUND => (StatusCode::NOT_FOUND, INTERNAL),
        Code::SERVE_NOT_FOUND | Code::INSTANCE_NOT_FOUND | Code::EVENT_NOT_FOUND => {
            (StatusCode::NOT_FOUND, INVALID)
        }
        Code::SERVE_TOO_LARGE | Code::AGENT_EVENT_TOO_LARGE => {
            (StatusCode::PAYLOAD_TOO_LARGE, INVALID)
        }
        Code::AGENT_QUEUE_FULL | Code::AGENT_INSTANCE_LIMIT => {
            (StatusCode::TOO_MANY_REQUESTS, INTERNAL)
        }
        Code::SWARM_STOPPING | Code::SWARM_STOPPED | Code::STORE => {
            (StatusCode::SERVICE_UNAVAILABLE, INTERNAL)
        }
        Code::SERVE_CLOSED | Code::AGENT_TURN_RUNNING => (StatusCode::CONFLICT, INVALID),
        Code::SERVE_FILE_CHANGED => (StatusCode::PRECONDITION_FAILED, INVALID),
        Code::INTERNAL_ERROR => (StatusCode::INTERNAL_SERVER_ERROR, INTERNAL),
        _ => (StatusCode::BAD_REQUEST, INVALID),
    }
}

/// HTTP status of an error code.
pub(crate) fn status(code: Code) -> StatusCode {
    error_forms(code).0
}

/// JSON-RPC form of an error code, for A2A and ACP.
pub(crate) fn rpc_form(code: Code) -> RpcForm {
    error_forms(code).1
}

/// OpenAI's type of an error with this HTTP status.
pub(crate) fn openai_type(status: StatusCode) -> &'static str {
    match status {
        StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
        status if status.is_client_error() => "invalid_request_error",
        _ => "server_error",
    }
}

impl From<SubmissionError> for ApiProblem {
    fn from(error: SubmissionError) -> Self {
        let is_conflict = error == SubmissionError::IdInUse;
        let problem = ApiProblem::from(goondan::SendError::from(error));
        if is_conflict {
            ApiProblem {
                status: StatusCode::CONFLICT,
                ..problem
            }
        } else {
            problem
        }
    }
}

impl From<ApprovalRefusal> for ApiProblem {
    fn from(refusal: ApprovalRefusal) -> Self {
        let (code, suggestion) = match refusal {
            ApprovalRefusal::NotOpen => (
                Code::SERVE_CLOSED,
                "The request was answered or withdrawn. GET /api/approvals lists the open requests.",
            ),
            ApprovalRefusal::NotOffered => (
                Code::INVALID_ARGUMENT,
                "The request is still open. Use a scope from its `offers`.",
            ),
        };
        ApiProblem::new(code, refusal.to_string()).suggest(suggestion)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_code_maps_to_http_jsonrpc_and_openai_errors() {
        let forms = |code| {
            let (status, rpc) = error_forms(code);
            (status.as_u16(), rpc.code, openai_type(status))
        };
        let invalid = "invalid_request_error";
        for (code, form) in [
            (Code::SERVE_TOKEN, (401, -32602, invalid)),
            (Code::SERVE_ORIGIN, (403, -32602, invalid)),
            (Code::AGENT_NOT_FOUND, (404, -32603, invalid)),
            (Code::EVENT_NOT_FOUND, (404, -32602, invalid)),
            (Code::AGENT_EVENT_TOO_LARGE, (413, -32602, invalid)),
            (Code::AGENT_QUEUE_FULL, (429, -32603, "rate_limit_error")),
            (Code::SWARM_STOPPING, (503, -32603, "server_error")),
            (Code::STORE, (503, -32603, "server_error")),
            (Code::SERVE_CLOSED, (409, -32602, invalid)),
            (Code::INTERNAL_ERROR, (500, -32603, "server_error")),
            (Code::AGENT_EVENT_RESERVED, (400, -32602, invalid)),
        ] {
            assert_eq!(forms(code), form, "{code}");
        }
    }
}

//! Approval requests, shown to the user at an MCP client.
//!
//! Up to revision 2025-11-25, the server sends a request while the call runs. From revision
//! 2026-07-28, the server cannot send requests. It ends the call with the request, and the client
//! calls again with the answer. The turn waits during that time.

use std::collections::BTreeMap;

use goondan::ApprovalHandle;
use goondan::gateway::ApprovalReports;
use goondan::ports::approval::ApprovalAnswer;
use rmcp::RoleServer;
use rmcp::model::{
    ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema,
    InputRequest, InputRequiredResult, ProtocolVersion,
};
use rmcp::service::{Peer, RequestContext};
use serde_json::{Value, json};

use crate::approval_choices::{APPROVAL_CHOICES, chosen_answer};

/// Way in which a client accepts approval requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ElicitationSupport {
    /// The client does not accept them.
    Not,
    /// A request while the call runs.
    WhileItRuns,
    /// The end of the call, then a second call.
    ByCallingAgain,
}

impl ElicitationSupport {
    /// Reads how the client can prompt its user.
    pub(super) fn from_context(context: &RequestContext<RoleServer>) -> Self {
        let elicitation = context.client_capabilities().and_then(|it| it.elicitation);
        // Clients of the first revision with forms name neither form nor URL.
        if !elicitation.is_some_and(|it| it.form.is_some() || it.url.is_none()) {
            return ElicitationSupport::Not;
        }
        match context.protocol_version() {
            Some(version) if version.as_str() >= ProtocolVersion::V_2026_07_28.as_str() => {
                ElicitationSupport::ByCallingAgain
            }
            _ => ElicitationSupport::WhileItRuns,
        }
    }

    /// Returns the approval requests that the client receives.
    pub(super) fn approval_reports(self) -> ApprovalReports {
        match self {
            ElicitationSupport::Not => ApprovalReports::Off,
            _ => ApprovalReports::All,
        }
    }
}

/// Asks the client while the call runs.
pub(super) async fn put(peer: Peer<RoleServer>, question: ApprovalHandle) {
    tokio::select! {
        reply = peer.create_elicitation(approval_form(&question)) => {
            question.answer(reply.map_or(ApprovalAnswer::Deny, |reply| to_approval_answer(&reply)));
        }
        // Another client answered, or the request was withdrawn.
        () = question.ended() => {}
    }
}

/// Returns the result that makes the client prompt its user and call again.
pub(super) fn ask_for(questions: &[ApprovalHandle], event_id: String) -> InputRequiredResult {
    let ask = |question: &ApprovalHandle| {
        (
            question.request.id.clone(),
            InputRequest::Elicitation(ElicitRequest::new(approval_form(question))),
        )
    };
    InputRequiredResult::new(Some(questions.iter().map(ask).collect()), Some(event_id))
}

/// Applies the answers of a resumed call to the open requests of its trace.
pub(super) fn apply_answers(open: &[ApprovalHandle], answers: &BTreeMap<String, Value>) {
    for question in open {
        if let Some(answer) = answers.get(&question.request.id) {
            let answer = serde_json::from_value(answer.clone()).ok();
            question
                .answer(answer.map_or(ApprovalAnswer::Deny, |answer| to_approval_answer(&answer)));
        }
    }
}

/// Returns the request as a form with one choice.
fn approval_form(question: &ApprovalHandle) -> ElicitRequestParams {
    let message = question.request.to_plain_text();
    ElicitRequestParams::FormElicitationParams {
        meta: None,
        message,
        requested_schema: choice_schema(),
    }
}

/// Creates the form with the approval answers.
fn choice_schema() -> ElicitationSchema {
    let options: Vec<Value> = APPROVAL_CHOICES
        .iter()
        .map(|(word, title, _)| json!({"const": word, "title": title}))
        .collect();
    let schema = json!({
        "type": "object",
        "properties": {"answer": {
            "type": "string", "title": "Allow this call?", "oneOf": options, "default": "deny",
        }},
        "required": ["answer"],
    });
    serde_json::from_value(schema).unwrap_or_else(|_| ElicitationSchema::new(BTreeMap::new()))
}

/// Converts the form. Everything except an explicit approval is a denial.
fn to_approval_answer(result: &ElicitResult) -> ApprovalAnswer {
    let content = result.content.as_ref();
    let word = content.and_then(|content| content.get("answer")?.as_str());
    match result.action {
        ElicitationAction::Accept => chosen_answer(word),
        _ => ApprovalAnswer::Deny,
    }
}

#[cfg(test)]
mod tests {
    use goondan::ports::approval::{ApprovalCoverage, ApprovalDuration};

    use super::*;

    fn answer(action: &str, content: Value) -> ApprovalAnswer {
        to_approval_answer(
            &serde_json::from_value(json!({"action": action, "content": content})).unwrap(),
        )
    }

    #[test]
    fn only_accepted_allow_answers_approve() {
        let allow = |scope| ApprovalAnswer::Allow {
            scope,
            covers: ApprovalCoverage::Call,
        };
        assert_eq!(
            answer("accept", json!({"answer": "once"})),
            allow(ApprovalDuration::Once)
        );
        assert_eq!(
            answer("accept", json!({"answer": "always"})),
            allow(ApprovalDuration::Always)
        );
        for (action, content) in [
            ("accept", json!({"answer": "deny"})),
            ("accept", json!({"answer": "yes"})),
            ("accept", json!(null)),
            ("decline", json!({"answer": "once"})),
            ("cancel", json!({})),
        ] {
            assert_eq!(
                answer(action, content.clone()),
                ApprovalAnswer::Deny,
                "{action} {content}"
            );
        }
    }

    #[test]
    fn the_approval_form_offers_four_choices_and_defaults_to_deny() {
        let form = json!(choice_schema());
        assert_eq!(form["properties"]["answer"]["default"], "deny");
        assert_eq!(
            form["properties"]["answer"]["oneOf"]
                .as_array()
                .map(Vec::len),
            Some(4)
        );
    }
}

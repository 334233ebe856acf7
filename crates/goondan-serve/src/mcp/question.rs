//! Questions of tools, put to the person at a client.
//!
//! Until 2025-11-25 the server asks while the call runs. From 2026-07-28 on a server asks nothing: it ends the call with what it
//! wants to know, and the client calls again with the answer. The turn stands still meanwhile.

use std::collections::BTreeMap;

use goondan::ports::approval::{ApprovalAnswer, Covers, Scope};
use goondan::{Listener, Question};
use rmcp::RoleServer;
use rmcp::model::{
    ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema,
    InputRequest, InputRequiredResult, ProtocolVersion,
};
use rmcp::service::{Peer, RequestContext};
use serde_json::{Value, json};

use crate::service::Service;

/// How a client can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asking {
    /// It can't.
    Not,
    /// By a request while the call runs.
    WhileItRuns,
    /// By the end of the call, and another one.
    ByCallingAgain,
}

impl Asking {
    /// How the client of a call can be asked.
    pub(super) fn of(context: &RequestContext<RoleServer>) -> Self {
        let elicitation = context.client_capabilities().and_then(|it| it.elicitation);
        // Neither form nor URL is named by clients of the first revision with forms.
        if !elicitation.is_some_and(|it| it.form.is_some() || it.url.is_none()) {
            return Asking::Not;
        }
        match context.protocol_version() {
            Some(version) if version.as_str() >= ProtocolVersion::V_2026_07_28.as_str() => {
                Asking::ByCallingAgain
            }
            _ => Asking::WhileItRuns,
        }
    }

    /// Whether there is somebody who can be asked.
    pub(super) fn can_ask(self) -> bool {
        self != Asking::Not
    }
}

/// Waits for a question; for ever where nobody listens.
pub(super) async fn next(listener: &mut Option<Listener>) -> Option<Question> {
    match listener {
        Some(listener) => listener.next().await,
        None => std::future::pending().await,
    }
}

/// Asks while the call runs.
pub(super) async fn put(peer: Peer<RoleServer>, question: Question) {
    tokio::select! {
        told = peer.create_elicitation(form(&question)) => {
            question.answer(told.map_or(ApprovalAnswer::Deny, |told| meaning(&told)));
        }
        // Somebody else has answered, or nobody wants to know any more.
        () = question.ended() => {}
    }
}

/// What a client is to ask its person before it calls again.
pub(super) fn ask_for(questions: &[Question], event_id: String) -> InputRequiredResult {
    let ask = |question: &Question| {
        (
            question.request.id.clone(),
            InputRequest::Elicitation(ElicitRequest::new(form(question))),
        )
    };
    InputRequiredResult::new(Some(questions.iter().map(ask).collect()), Some(event_id))
}

/// Takes the answers that a client has brought back.
pub(super) fn answered(service: &Service, answers: BTreeMap<String, Value>) {
    for question in service.inner.broker.open() {
        if let Some(told) = answers.get(&question.request.id) {
            let told = serde_json::from_value(told.clone()).ok();
            question.answer(told.map_or(ApprovalAnswer::Deny, |told| meaning(&told)));
        }
    }
}

/// The question as a form with one choice.
fn form(question: &Question) -> ElicitRequestParams {
    let message = question.request.words();
    ElicitRequestParams::FormElicitationParams {
        meta: None,
        message,
        requested_schema: choice(),
    }
}

/// What can be answered, and what each answer means.
const ANSWERS: [(&str, &str, ApprovalAnswer); 4] = [
    ("once", "Yes, this time", ApprovalAnswer::ONCE),
    (
        "conversation",
        "Yes, in this conversation",
        ApprovalAnswer::Allow {
            scope: Scope::Conversation,
            covers: Covers::Call,
        },
    ),
    (
        "always",
        "Yes, always",
        ApprovalAnswer::Allow {
            scope: Scope::Always,
            covers: Covers::Call,
        },
    ),
    ("deny", "No", ApprovalAnswer::Deny),
];

fn choice() -> ElicitationSchema {
    let options: Vec<Value> = ANSWERS
        .iter()
        .map(|(word, title, _)| json!({"const": word, "title": title}))
        .collect();
    let schema = json!({
        "type": "object",
        "properties": {"answer": {"type": "string", "title": "May it run?", "oneOf": options, "default": "deny"}},
        "required": ["answer"],
    });
    serde_json::from_value(schema).unwrap_or_else(|_| ElicitationSchema::new(BTreeMap::new()))
}

/// Anything but a clear yes is a no.
fn meaning(told: &ElicitResult) -> ApprovalAnswer {
    let word = told
        .content
        .as_ref()
        .and_then(|content| content.get("answer"))
        .and_then(Value::as_str);
    let chosen = ANSWERS
        .iter()
        .find(|(answer, ..)| Some(*answer) == word)
        .map(|(.., answer)| *answer);
    match told.action {
        ElicitationAction::Accept => chosen.unwrap_or(ApprovalAnswer::Deny),
        _ => ApprovalAnswer::Deny,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(action: &str, content: Value) -> ApprovalAnswer {
        meaning(&serde_json::from_value(json!({"action": action, "content": content})).unwrap())
    }

    #[test]
    fn only_a_yes_is_a_yes() {
        let allow = |scope| ApprovalAnswer::Allow {
            scope,
            covers: Covers::Call,
        };
        assert_eq!(
            told("accept", json!({"answer": "once"})),
            allow(Scope::Once)
        );
        assert_eq!(
            told("accept", json!({"answer": "always"})),
            allow(Scope::Always)
        );
        for (action, content) in [
            ("accept", json!({"answer": "deny"})),
            ("accept", json!({"answer": "yes"})),
            ("accept", json!(null)),
            ("decline", json!({"answer": "once"})),
            ("cancel", json!({})),
        ] {
            assert_eq!(
                told(action, content.clone()),
                ApprovalAnswer::Deny,
                "{action} {content}"
            );
        }
    }

    #[test]
    fn the_form_is_one_that_the_protocol_knows() {
        let form = json!(choice());
        assert_eq!(form["properties"]["answer"]["default"], "deny");
        assert_eq!(
            form["properties"]["answer"]["oneOf"]
                .as_array()
                .map(Vec::len),
            Some(4)
        );
    }
}

//! Questions of tools, put to whoever sits at the editor.

use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema as wire;
use agent_client_protocol::{Client, Error};
use goondan::Question;
use goondan::ports::approval::{ApprovalAnswer, Covers, Scope};
use serde_json::Value;

use super::session::Session;
use super::updates::{Call, call_id, content};

/// What can be answered.
const OPTIONS: [(&str, &str, wire::PermissionOptionKind, ApprovalAnswer); 4] = [
    (
        "once",
        "Allow once",
        wire::PermissionOptionKind::AllowOnce,
        allow(Scope::Once),
    ),
    (
        "conversation",
        "Allow in this conversation",
        wire::PermissionOptionKind::AllowAlways,
        allow(Scope::Conversation),
    ),
    (
        "always",
        "Always allow",
        wire::PermissionOptionKind::AllowAlways,
        allow(Scope::Always),
    ),
    (
        "deny",
        "Deny",
        wire::PermissionOptionKind::RejectOnce,
        ApprovalAnswer::Deny,
    ),
];

const fn allow(scope: Scope) -> ApprovalAnswer {
    ApprovalAnswer::Allow {
        scope,
        covers: Covers::Call,
    }
}

/// Asks, beside everything else. Where somebody else answers, the editor is told that it need not.
pub(super) fn ask(editor: &ConnectionTo<Client>, session: &Session, question: Question) {
    let options = OPTIONS.map(|(id, name, kind, _)| wire::PermissionOption::new(id, name, kind));
    let request = wire::RequestPermissionRequest::new(
        session.id(),
        about(session, &question),
        options.to_vec(),
    );
    let sent = editor.send_request(request);
    let taken_back = sent.cancellation_handle();
    tokio::spawn(async move {
        let mut answered = std::pin::pin!(sent.block_task());
        tokio::select! {
            answered = &mut answered => drop(question.answer(meaning(answered))),
            () = question.ended() => {
                // An editor that is gone needs no word. One that is there answers all the same, to nobody.
                let _ = taken_back.cancel();
                let _ = answered.await;
            }
        }
    });
}

/// The call, with what it would do.
fn about(session: &Session, question: &Question) -> wire::ToolCallUpdate {
    let request = &question.request;
    let is_own = request.instance == session.instance;
    let known = session.call(&request.tool_call_id).filter(|_| is_own);
    let id = known.map_or_else(
        || call_id(&request.id, &request.tool_call_id),
        str::to_owned,
    );
    let arguments = Value::Object(request.arguments.clone());
    let call = Call {
        id: id.clone(),
        tool: &request.tool_name,
        arguments: &arguments,
        workdir: &session.workdir,
    };
    let other = (!is_own).then(|| format!("The agent {} asks.", request.instance.agent));
    let told = [
        other.as_deref(),
        request.reason.as_deref(),
        request.preview.as_deref(),
    ];
    let told: Vec<_> = told.into_iter().flatten().map(content).collect();
    let fields = call.asked();
    wire::ToolCallUpdate::new(
        id,
        if told.is_empty() {
            fields
        } else {
            fields.content(told)
        },
    )
}

/// Anything but a clear yes is a no.
fn meaning(answered: Result<wire::RequestPermissionResponse, Error>) -> ApprovalAnswer {
    let Ok(wire::RequestPermissionOutcome::Selected(selected)) = answered.map(|it| it.outcome)
    else {
        return ApprovalAnswer::Deny;
    };
    let chosen = OPTIONS
        .iter()
        .find(|(id, ..)| *id == &*selected.option_id.0);
    chosen.map_or(ApprovalAnswer::Deny, |(.., answer)| *answer)
}

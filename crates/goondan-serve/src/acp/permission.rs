//! Approval requests in an editor.

use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema as wire;
use agent_client_protocol::{Client, Error};
use goondan::ApprovalHandle;
use goondan::ports::approval::ApprovalAnswer;
use serde_json::Value;

use super::session::EditorSession;
use super::updates::{ShownCall, call_id, content};
use crate::approval_choices::{APPROVAL_CHOICES, chosen_answer};

/// Returns the choices of the user.
fn options() -> Vec<wire::PermissionOption> {
    let option = |(id, title, answer): (&'static str, &'static str, ApprovalAnswer)| {
        let kind = match answer {
            ApprovalAnswer::ONCE => wire::PermissionOptionKind::AllowOnce,
            ApprovalAnswer::Allow { .. } => wire::PermissionOptionKind::AllowAlways,
            ApprovalAnswer::Deny | ApprovalAnswer::NobodyThere => {
                wire::PermissionOptionKind::RejectOnce
            }
        };
        wire::PermissionOption::new(id, title, kind)
    };
    APPROVAL_CHOICES.map(option).to_vec()
}

/// Asks the editor in a separate task. If another client answers first, the editor's request is
/// cancelled.
pub(super) fn request_permission(
    editor: &ConnectionTo<Client>,
    session: &EditorSession,
    question: ApprovalHandle,
) {
    let request = wire::RequestPermissionRequest::new(
        session.id(),
        describe_call(session, &question),
        options(),
    );
    let sent = editor.send_request(request);
    let cancellation = sent.cancellation_handle();
    tokio::spawn(async move {
        let mut answered = std::pin::pin!(sent.block_task());
        tokio::select! {
            answered = &mut answered => drop(question.answer(to_answer(answered))),
            () = question.ended() => {
                // A disconnected editor needs no notice. A connected one still responds, and the
                // response is ignored.
                let _ = cancellation.cancel();
                let _ = answered.await;
            }
        }
    });
}

/// Describes the call to approve: if the editor already shows the call, with the same id. Adds the
/// requesting agent (if it is not the agent of the session), the reason and the preview.
fn describe_call(session: &EditorSession, question: &ApprovalHandle) -> wire::ToolCallUpdate {
    let request = &question.request;
    let is_own = request.instance == session.instance;
    // Call ids are unique only within a conversation.
    let shown_id = session.call(&request.tool_call_id).filter(|_| is_own);
    let id = shown_id.map_or_else(
        || call_id(&request.id, &request.tool_call_id),
        str::to_owned,
    );
    let arguments = Value::Object(request.arguments.clone());
    let call = ShownCall {
        id: id.clone(),
        tool: &request.tool_name,
        arguments: &arguments,
        workdir: &session.workdir,
    };
    let other_agent =
        (!is_own).then(|| format!("Requested by the agent {}.", request.instance.agent));
    let notes = [
        other_agent.as_deref(),
        request.reason.as_deref(),
        request.preview.as_deref(),
    ];
    let notes: Vec<_> = notes.into_iter().flatten().map(content).collect();
    let fields = call.permission_fields();
    wire::ToolCallUpdate::new(
        id,
        if notes.is_empty() {
            fields
        } else {
            fields.content(notes)
        },
    )
}

/// Converts the response. Everything except an explicit approval is a denial.
fn to_answer(answered: Result<wire::RequestPermissionResponse, Error>) -> ApprovalAnswer {
    match answered.map(|it| it.outcome) {
        Ok(wire::RequestPermissionOutcome::Selected(selected)) => {
            chosen_answer(Some(&selected.option_id.0))
        }
        _ => ApprovalAnswer::Deny,
    }
}

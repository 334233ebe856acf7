//! Questions of policies: how one is put, and what was answered.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::FutureExt;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::delivery::orchestrator::Command;
use crate::life::Life;
use crate::tooling::dispatch::{ToolCallContext, tool_context};
use crate::tooling::registry::RegisteredTool;
use goondan_core::JsonObject;
use goondan_core::event::RuntimeEventKind;
use goondan_core::ports::approval::{ApprovalAnswer, ApprovalRequest, Covers, Offer, Scope};
use goondan_core::ports::journal::{Effect, EffectKind, Outcome, WhenInterrupted};
use goondan_core::ports::tool::ToolError;

/// How long a tool may take to tell what a call would do.
const PREVIEW_TIME: Duration = Duration::from_secs(5);

/// The longest preview, in bytes.
const LONGEST_PREVIEW: usize = 16_000;

/// What is asked.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    /// Whose policy asks.
    pub(super) agent: &'a str,
    /// Why.
    pub(super) why: &'a str,
    /// What an answer may cover.
    pub(super) offers: &'a [Offer],
}

/// Ties the events of an approval together.
pub(super) fn id_of(context: &ToolCallContext) -> String {
    format!("{}-approval", context.trace.span_id)
}

/// An answer as the journal keeps it.
#[derive(Serialize, Deserialize)]
struct Recorded {
    answer: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    scope: Option<Scope>,
    #[serde(default)]
    covers: Covers,
}

/// Somebody's word, given once in the life of the turn: a turn that is cut off while it waits asks again, one that is cut
/// off behind it has the answer in its journal.
pub(super) async fn answer(
    context: &ToolCallContext,
    tool: &RegisteredTool,
    arguments: &JsonObject,
    asked: Asked<'_>,
) -> Result<ApprovalAnswer, ToolError> {
    let work = async {
        let answer = context
            .engine
            .outcome_of(ask(context, tool, arguments, asked))
            .await;
        let (answer, scope, covers) = match answer {
            ApprovalAnswer::Allow { scope, covers } => ("allow", Some(scope), covers),
            ApprovalAnswer::Deny => ("deny", None, Covers::Call),
            ApprovalAnswer::NobodyThere => ("nobody", None, Covers::Call),
        };
        Recorded {
            answer: answer.to_owned(),
            scope,
            covers,
        }
    };
    let recorded = match &context.approval {
        None => Some(work.await),
        Some((journal, id)) => {
            let effect = Effect {
                id: id.clone(),
                kind: EffectKind::Approval,
                intent: json!({"toolCallId": context.call.tool_call_id, "toolName": tool.name.as_str()}),
                when_interrupted: WhenInterrupted::RunAgain,
            };
            match journal.run(effect, Box::pin(work)).await {
                Ok(Outcome::Done { value, .. }) => Some(value),
                Ok(Outcome::Interrupted) => None,
                Err(error) => {
                    return Err(ToolError::new(format!(
                        "the approval could not be recorded: {error}"
                    )));
                }
            }
        }
    };
    Ok(match recorded {
        Some(recorded) if recorded.answer == "allow" => ApprovalAnswer::Allow {
            scope: recorded.scope.unwrap_or(Scope::Once),
            covers: recorded.covers,
        },
        Some(recorded) if recorded.answer == "nobody" => ApprovalAnswer::NobodyThere,
        _ => ApprovalAnswer::Deny,
    })
}

async fn ask(
    context: &ToolCallContext,
    tool: &RegisteredTool,
    arguments: &JsonObject,
    asked: Asked<'_>,
) -> ApprovalAnswer {
    let approval_id = id_of(context);
    let (tool_call_id, tool_name) = (
        context.call.tool_call_id.clone(),
        context.call.tool_name.clone(),
    );
    context.publish(RuntimeEventKind::ApprovalRequested {
        approval_id: approval_id.clone(),
        tool_call_id: tool_call_id.clone(),
        tool_name: tool_name.clone(),
    });
    let request = ApprovalRequest {
        id: approval_id.clone(),
        instance: context.facts.instance.clone(),
        trace_id: context.trace.trace_id.clone(),
        tool_call_id: tool_call_id.clone(),
        tool_name: tool_name.clone(),
        arguments: arguments.clone(),
        preview: preview(context, tool, arguments)
            .await
            .map(|text| context.engine.redactor.text(&text).into_owned()),
        reason: Some(format!("Agent/{}: {}", asked.agent, asked.why)),
        offers: asked.offers.to_vec(),
    };
    let mut question = Question {
        context,
        request: Some((approval_id, tool_call_id, tool_name)),
    };
    let answer = {
        let lives = [
            &context.life,
            &context.facts.life,
            &context.engine.lives.run,
        ];
        let _asking = lives.map(Life::ask);
        // Turns that wait for a person take no room: others may begin.
        let _ = context.engine.commands.send(Command::Room);
        tokio::select! {
            answer = context.engine.approver.ask(request) => Some(answer),
            () = context.cancel.cancelled() => None,
        }
    };
    match answer {
        Some(ApprovalAnswer::Allow { scope, covers }) => {
            question.resolve("allow", Some((scope, covers)))
        }
        Some(ApprovalAnswer::Deny) => question.resolve("deny", None),
        Some(ApprovalAnswer::NobodyThere) => question.resolve("nobody", None),
        None => question.resolve(WITHDRAWN, None),
    }
    answer.unwrap_or(ApprovalAnswer::Deny)
}

/// What an approval is resolved with whose call is gone.
const WITHDRAWN: &str = "withdrawn";

/// A question that stands. Whatever becomes of the call, those who watch hear of its end, but for that of the process.
struct Question<'a> {
    context: &'a ToolCallContext,
    /// Ids of the approval and of the call, and the tool; none once it is resolved.
    request: Option<(String, String, String)>,
}

impl Question<'_> {
    fn resolve(&mut self, answer: &str, held: Option<(Scope, Covers)>) {
        let Some((approval_id, tool_call_id, tool_name)) = self.request.take() else {
            return;
        };
        let answer = answer.to_owned();
        self.context.publish(RuntimeEventKind::ApprovalResolved {
            approval_id,
            tool_call_id,
            tool_name,
            answer,
            scope: held.map(|(scope, _)| scope),
            covers: held
                .map(|(_, covers)| covers)
                .filter(|covers| *covers != Covers::Call),
        });
    }
}

impl Drop for Question<'_> {
    fn drop(&mut self) {
        if !self.context.engine.dead.load(Ordering::Acquire) {
            self.resolve(WITHDRAWN, None);
        }
    }
}

/// What the call would do: in the tool's words, else its command lines.
async fn preview(
    context: &ToolCallContext,
    tool: &RegisteredTool,
    arguments: &JsonObject,
) -> Option<String> {
    let tool_context = tool_context(context, tool, context.cancel.child_token());
    let telling = AssertUnwindSafe(tool.handler.preview(&tool_context, arguments)).catch_unwind();
    let told = tokio::time::timeout(PREVIEW_TIME, telling)
        .await
        .ok()?
        .ok()
        .flatten();
    let text = told.or_else(|| {
        let lines = tool
            .marked_arguments
            .commands
            .iter()
            .filter_map(|name| arguments.get(name)?.as_str());
        lines
            .map(|line| format!("$ {line}"))
            .reduce(|all, line| format!("{all}\n{line}"))
    })?;
    let shown = goondan_core::limits::head(&text, LONGEST_PREVIEW);
    Some(if shown.len() < text.len() {
        format!("{shown}\n… {} more bytes", text.len() - shown.len())
    } else {
        text
    })
}

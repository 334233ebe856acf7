//! Approval requests and the journal entries of their answers.

use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::FutureExt;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::OnceCell;

use super::grants;
use crate::activity::ActivityTracker;
use crate::delivery::orchestrator::OrchestratorCommand;
use crate::tooling::dispatch::{ToolCallContext, tool_context};
use crate::tooling::registry::RegisteredTool;
use crate::tooling::reporter::ToolCallReporter;
use crate::turn::store_retry::StoreRetry;
use goondan_core::JsonObject;
use goondan_core::event::RuntimeEventKind;
use goondan_core::ports::approval::{
    ApprovalAnswer, ApprovalCoverage, ApprovalDuration, ApprovalOffer, ApprovalRequest,
};
use goondan_core::ports::journal::{EffectKind, EffectOutcome, InterruptionPolicy, TurnEffect};
use goondan_core::ports::tool::HandlerError;

/// Timeout for the preview of a call.
const PREVIEW_TIMEOUT: Duration = Duration::from_secs(5);

/// Size limit of a preview, in bytes.
const MAX_PREVIEW_BYTES: usize = 16_000;

#[derive(Clone, Copy)]
pub(super) struct ApprovalPrompt<'a> {
    /// Agent whose policy requires the approval.
    pub(super) agent: &'a str,
    /// Reason for the request.
    pub(super) why: &'a str,
    /// Names of the arguments that equal their default.
    pub(super) default_arguments: &'a BTreeSet<String>,
    /// Scopes that the answer may have.
    pub(super) offers: &'a [ApprovalOffer],
    /// Effect of the call, from [`preview`].
    pub(super) preview: Option<&'a str>,
}

/// Returns the approval id, which connects the events of an approval.
pub(super) fn id_of(context: &ToolCallContext) -> String {
    format!("{}-approval", context.trace.span_id)
}

/// Answer in the journal.
#[derive(Clone, Serialize, Deserialize)]
struct RecordedApproval {
    answer: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    scope: Option<ApprovalDuration>,
    #[serde(default)]
    covers: ApprovalCoverage,
}

/// Returns the answer to an approval request, at most one per turn and call.
///
/// A turn that is interrupted while it waits sends the request again. A turn that is interrupted
/// later reads the answer from its journal.
pub(super) async fn answer(
    context: &ToolCallContext,
    tool: &RegisteredTool,
    arguments: &JsonObject,
    prompt: ApprovalPrompt<'_>,
) -> Result<ApprovalAnswer, HandlerError> {
    let recorded = match &context.approval {
        None => Some(recorded_answer(context, arguments, prompt).await),
        Some((journal, id)) => {
            let effect = TurnEffect {
                id: id.clone(),
                kind: EffectKind::Approval,
                intent: json!({"toolCallId": context.call.tool_call_id, "toolName": tool.name.as_str()}),
                when_interrupted: InterruptionPolicy::RunAgain,
            };
            // Kept during a store outage, so that the user answers once.
            let answer_cell = OnceCell::new();
            let mut retry = StoreRetry::new(&context.facts.instance, &context.cancel);
            loop {
                let work = async {
                    let answer = || recorded_answer(context, arguments, prompt);
                    answer_cell.get_or_init(answer).await.clone()
                };
                match journal.run(effect.clone(), Box::pin(work)).await {
                    Ok(EffectOutcome::Done { value, .. }) => break Some(value),
                    Ok(EffectOutcome::Interrupted) => break None,
                    Err(error) if retry.wait(&error).await => {}
                    Err(error) => {
                        return Err(HandlerError::new(format!(
                            "the approval could not be recorded: {error}"
                        )));
                    }
                }
            }
        }
    };
    Ok(match recorded {
        Some(recorded) if recorded.answer == "allow" => ApprovalAnswer::Allow {
            scope: recorded.scope.unwrap_or(ApprovalDuration::Once),
            covers: recorded.covers,
        },
        Some(recorded) if recorded.answer == "nobody" => ApprovalAnswer::NobodyThere,
        _ => ApprovalAnswer::Deny,
    })
}

/// Asks the user and returns the answer in its stored form.
async fn recorded_answer(
    context: &ToolCallContext,
    arguments: &JsonObject,
    prompt: ApprovalPrompt<'_>,
) -> RecordedApproval {
    let answer = context
        .engine
        .outcome_of(request_approval(context, arguments, prompt))
        .await;
    let (answer, scope, covers) = match answer {
        ApprovalAnswer::Allow { scope, covers } => ("allow", Some(scope), covers),
        ApprovalAnswer::Deny => ("deny", None, ApprovalCoverage::Call),
        ApprovalAnswer::NobodyThere => ("nobody", None, ApprovalCoverage::Call),
    };
    RecordedApproval {
        answer: answer.to_owned(),
        scope,
        covers,
    }
}

/// Sends an approval request to the user and waits for the answer. Publishes both.
async fn request_approval(
    context: &ToolCallContext,
    arguments: &JsonObject,
    prompt: ApprovalPrompt<'_>,
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
        default_arguments: prompt.default_arguments.clone(),
        preview: prompt
            .preview
            .map(|text| context.engine.redactor.text(text).into_owned()),
        reason: Some(approval_reason(context, prompt)),
        offers: prompt.offers.to_vec(),
    };
    let mut question = OpenApprovalRequest {
        context,
        request: Some((approval_id, tool_call_id, tool_name)),
    };
    let answer = {
        let trackers = [
            &context.tracker,
            &context.facts.tracker,
            &context.engine.activity.run,
        ];
        let _paused = trackers.map(ActivityTracker::pause);
        // Turns that wait for an approval do not count as running: others may begin.
        let _ = context.engine.commands.send(OrchestratorCommand::Room);
        tokio::select! {
            answer = context.engine.request_approval(request) => Some(answer),
            () = context.cancel.cancelled() => None,
        }
    };
    match answer {
        Some(ApprovalAnswer::Allow { scope, covers }) => {
            question.resolve("allow", Some((scope, covers)))
        }
        Some(ApprovalAnswer::Deny) => question.resolve("deny", None),
        Some(ApprovalAnswer::NobodyThere) => question.resolve("nobody", None),
        None => question.resolve(WITHDRAWN_ANSWER, None),
    }
    answer.unwrap_or(ApprovalAnswer::Deny)
}

/// Returns the sentence about the rule or the default that requires the approval. A rule has its own
/// place in `why`; a default is at the place of its agent.
fn approval_reason(context: &ToolCallContext, prompt: ApprovalPrompt<'_>) -> String {
    let ApprovalPrompt { agent, why, .. } = prompt;
    let generation = context.engine.generation.load();
    let mut agents = generation.bundle.agents().values();
    let origin = agents
        .find(|resource| resource.id.name == agent)
        .and_then(|resource| resource.origin.as_ref());
    let place = origin
        .filter(|_| !why.contains("by the rule at "))
        .map(|(file, at)| format!(" ({file}:{})", at.line));
    format!(
        "Agent/{agent}{} requires an approval: {why}.",
        place.unwrap_or_default()
    )
}

/// Recorded answer of an approval request whose call has ended.
const WITHDRAWN_ANSWER: &str = "withdrawn";

/// Open approval request. Dropping it publishes the end of the request, unless the engine is dead.
struct OpenApprovalRequest<'a> {
    context: &'a ToolCallContext,
    /// Approval id, call id and tool name; `None` once resolved.
    request: Option<(String, String, String)>,
}

impl OpenApprovalRequest<'_> {
    /// Publishes the answer to the request, once. `held`: how long the approval is remembered, and
    /// for which calls.
    fn resolve(&mut self, answer: &str, held: Option<(ApprovalDuration, ApprovalCoverage)>) {
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
                .filter(|covers| *covers != ApprovalCoverage::Call),
        });
    }
}

impl Drop for OpenApprovalRequest<'_> {
    fn drop(&mut self) {
        if !self.context.engine.dead.load(Ordering::Acquire) {
            self.resolve(WITHDRAWN_ANSWER, None);
        }
    }
}

/// Returns the directory from which the paths of a call start, unless it is the own directory of the
/// conversation.
fn working_directory(context: &ToolCallContext, tool: &RegisteredTool) -> Option<String> {
    let marked = &tool.marked_arguments;
    let has_paths = !marked.paths.is_empty() || !marked.patches.is_empty();
    (has_paths && !grants::has_own_folder(context))
        .then(|| context.facts.workdir.display().to_string())
}

/// Describes the effect of a call for the user: the tool's own preview, else the command lines of
/// the call. `None` if the call has neither.
pub(super) async fn preview(
    context: &ToolCallContext,
    tool: &RegisteredTool,
    arguments: &JsonObject,
) -> Option<String> {
    let reporter = Arc::new(ToolCallReporter::for_call(context, tool));
    let tool_context = tool_context(context, tool, context.cancel.child_token(), reporter);
    let previewing =
        AssertUnwindSafe(tool.handler.preview(&tool_context, arguments)).catch_unwind();
    let tool_preview = tokio::time::timeout(PREVIEW_TIMEOUT, previewing)
        .await
        .ok()?
        .ok()
        .flatten();
    let text = tool_preview.or_else(|| {
        let lines = tool
            .marked_arguments
            .commands
            .iter()
            .filter_map(|name| arguments.get(name)?.as_str());
        lines
            .map(|line| format!("$ {line}"))
            .reduce(|all, line| format!("{all}\n{line}"))
    })?;
    let text = match working_directory(context, tool) {
        Some(folder) => format!("in {folder}\n{text}"),
        None => text,
    };
    let beginning = goondan_core::limits::head(&text, MAX_PREVIEW_BYTES);
    Some(if beginning.len() < text.len() {
        format!("{beginning}\n… {} more bytes", text.len() - beginning.len())
    } else {
        text
    })
}

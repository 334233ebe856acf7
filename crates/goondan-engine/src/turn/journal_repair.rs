//! Repairs the journal of an interrupted turn from the turn's stored messages.
//!
//! A store in files can lose a journal that its conversation and its runtime events outlive. Each
//! of them shows which calls began. A call that must run once and may have begun never runs again.

use std::sync::Arc;

use futures::FutureExt as _;
use goondan_core::event::RuntimeEventKind;
use goondan_core::message::{
    Message, MessageEvent, MessagePart, MessageRole, MessageSource, ToolCall, ToolResultPart,
};
use goondan_core::ports::journal::{EffectKind, InterruptionPolicy, TurnEffect, TurnJournal};
use goondan_core::ports::model::ModelFinishReason;
use goondan_core::ports::store::{StoreError, StoredConversation};
use goondan_core::ports::tool::{Attachment, ToolCallResult};
use goondan_core::reserved_names::UNTRUSTED_KEY;
use serde_json::{Value, json};

use crate::engine::Engine;
use crate::tooling::dispatch::TurnScope;
use crate::turn::model_call::{ModelAnswer, ModelCallError};
use crate::turn::{model_effect, step, step_id, tool_effect};

/// An outcome that the journal lacks.
struct LostOutcome {
    effect: TurnEffect,
    value: Value,
}

/// A step of the turn, as its stored messages show it.
struct StoredStep<'a> {
    index: u32,
    answer: &'a Message,
    /// Results with their files.
    results: Vec<(&'a ToolResultPart, Vec<Attachment>)>,
}

/// Records outcomes that the journal lacks, and returns the complete journal. Known results are
/// used again. A call without a result counts as interrupted.
pub(super) async fn repair(
    engine: &Engine,
    facts: &TurnScope,
    journal: Arc<dyn TurnJournal>,
    stored: &StoredConversation,
) -> Result<Arc<dyn TurnJournal>, StoreError> {
    let steps = stored_steps(facts, stored);
    let mut lost = Vec::new();
    for step in &steps {
        lost.extend(lost_outcomes(engine, facts, &*journal, step).await?);
    }
    let is_call = |outcome: &LostOutcome| outcome.effect.kind == EffectKind::ToolCall;
    let calls = lost.iter().filter(|outcome| is_call(outcome)).count();
    if calls == 0 {
        return Ok(journal);
    }
    tracing::warn!(instance = %facts.instance, calls, "records of an interrupted turn are missing \
        from its journal; calls that must run once are not run again");
    for LostOutcome { effect, value } in lost {
        journal.run_value(effect, async { value }.boxed()).await?;
    }
    drop(journal);
    engine
        .store
        .open_journal(&facts.instance, &facts.turn_id)
        .await
}

/// Returns the steps of the turn that its stored events contain.
fn stored_steps<'a>(facts: &TurnScope, stored: &'a StoredConversation) -> Vec<StoredStep<'a>> {
    let prefix = step_id(&facts.turn_id, "");
    let index = |id: &str| id.strip_prefix(&prefix)?.parse().ok();
    let mut steps: Vec<StoredStep<'a>> = Vec::new();
    for event in &stored.events {
        let MessageEvent::Append { message } = event else {
            continue;
        };
        match (&message.source, message.data.role) {
            (MessageSource::Assistant { step_id }, MessageRole::Assistant) => {
                steps.extend(index(step_id).map(|index| StoredStep {
                    index,
                    answer: message,
                    results: Vec::new(),
                }));
            }
            (MessageSource::Tool { step_id }, _) => {
                let number = index(step_id);
                let step = steps.iter_mut().rfind(|step| Some(step.index) == number);
                if let Some(step) = step {
                    add_results(&mut step.results, message);
                }
            }
            _ => {}
        }
    }
    steps
}

/// Adds the results in a message. Files follow their result.
fn add_results<'a>(results: &mut Vec<(&'a ToolResultPart, Vec<Attachment>)>, message: &'a Message) {
    for part in &message.data.content {
        match part {
            MessagePart::ToolResult(result) => results.push((result, Vec::new())),
            MessagePart::File(file) => {
                if let Some((_, files)) = results.last_mut() {
                    files.push(file.clone());
                }
            }
            _ => {}
        }
    }
}

/// Returns the outcomes of a step that the journal lacks, as far as calls need them that must run
/// once.
async fn lost_outcomes(
    engine: &Engine,
    facts: &TurnScope,
    journal: &dyn TurnJournal,
    step: &StoredStep<'_>,
) -> Result<Vec<LostOutcome>, StoreError> {
    let model = model_effect(step.index);
    let has_answer = journal.has_outcome(&model);
    let mut lost = Vec::new();
    let mut begun = None;
    for (number, call) in step.answer.tool_calls().enumerate() {
        let effect = tool_effect(step.index, number);
        if !is_once_only(facts, &call.tool_name) || journal.has_intent(&effect) {
            continue;
        }
        let mut results = step.results.iter();
        let value = match results.find(|(result, _)| result.tool_call_id == call.tool_call_id) {
            Some((result, files)) => known_result(result, files.clone()),
            None if !has_answer => step::interrupted_result(call),
            None => {
                if begun.is_none() {
                    begun = Some(begun_calls(engine, facts).await?);
                }
                if begun.iter().flatten().any(|id| *id == call.tool_call_id) {
                    step::interrupted_result(call)
                } else {
                    continue;
                }
            }
        };
        lost.push(tool_outcome(effect, call, &value));
    }
    if !lost.is_empty() && !has_answer {
        lost.insert(0, model_outcome(model, step.answer));
    }
    Ok(lost)
}

/// Returns true if the export must run at most once.
fn is_once_only(facts: &TurnScope, tool_name: &str) -> bool {
    let tool = facts.agent.catalog.get(tool_name);
    tool.is_some_and(|tool| !tool.may_repeat())
}

/// Returns the ids of the tool calls that began in the turn, according to the runtime events.
async fn begun_calls(engine: &Engine, facts: &TurnScope) -> Result<Vec<String>, StoreError> {
    let events = engine.store.events(&facts.instance, 0).await?;
    let begun = events.into_iter().filter_map(|event| match event.kind {
        RuntimeEventKind::ToolCalled {
            tool_call_id,
            turn_id,
            ..
        } if turn_id == facts.turn_id => Some(tool_call_id),
        _ => None,
    });
    Ok(begun.collect())
}

/// Returns the result of a call as the conversation contains it.
fn known_result(part: &ToolResultPart, attachments: Vec<Attachment>) -> ToolCallResult {
    let mut metadata = goondan_core::JsonObject::new();
    if part.untrusted {
        metadata.insert(UNTRUSTED_KEY.to_owned(), true.into());
    }
    ToolCallResult {
        tool_call_id: part.tool_call_id.clone(),
        tool_name: part.tool_name.clone(),
        status: part.status,
        output: part.output.clone(),
        error: part.error.clone(),
        title: None,
        metadata,
        attachments,
    }
}

fn tool_outcome(id: String, call: &ToolCall, result: &ToolCallResult) -> LostOutcome {
    LostOutcome {
        effect: TurnEffect {
            id,
            kind: EffectKind::ToolCall,
            intent: json!({"toolCallId": call.tool_call_id, "toolName": call.tool_name}),
            when_interrupted: InterruptionPolicy::Report,
        },
        value: json!(result),
    }
}

/// The answer that led to the calls. Its tokens are unknown.
fn model_outcome(id: String, message: &Message) -> LostOutcome {
    let parts = message.data.content.iter();
    let answer: Result<ModelAnswer, ModelCallError> = Ok(ModelAnswer {
        parts: parts.map(MessagePart::clone).collect(),
        finish_reason: ModelFinishReason::ToolCalls,
        ..ModelAnswer::default()
    });
    LostOutcome {
        effect: TurnEffect {
            id,
            kind: EffectKind::ModelCall,
            intent: Value::Null,
            when_interrupted: InterruptionPolicy::RunAgain,
        },
        value: json!(answer),
    }
}

//! One step: a model call and the tool calls of its answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use futures::StreamExt;
use goondan_spec::Code;
use serde_json::json;

pub use super::step_context::{StepContext, StepOutcome};
pub(crate) use super::step_messages::{interrupted_result, message, result_parts};
use crate::activity::{ActiveStopwatch, ActivityTracker};
use crate::middleware::{StateJournal, StepNext};
use crate::plan::ModelPlan;
use crate::policy::redact::SecretRedactor;
use crate::tooling::dispatch::{self, ToolCallContext};
use crate::turn::call_order::CallOrder;
use crate::turn::model_call::{ModelAnswer, ModelCall, ModelCallError, turn_error};
use crate::turn::model_call_timing::{ModelCallStart, ModelCallTiming};
use crate::turn::{
    TurnContext, cancelled_error, instructions, model_effect, step_id, store_failure_error,
    tool_effect,
};
use crate::usage_increment::UsageIncrement;
use goondan_core::JsonObject;
use goondan_core::event::{RuntimeEventKind, TurnError};
use goondan_core::ids::TraceContext;
use goondan_core::message::{Message, MessagePart, MessageRole, MessageSource, ToolCall};
use goondan_core::notices::CutNotice;
use goondan_core::ports::journal::{EffectKind, EffectOutcome, InterruptionPolicy, TurnEffect};
use goondan_core::ports::model::{ModelError, ModelErrorKind, ModelFinishReason, ModelRequest};
use goondan_core::ports::tool::{HandlerError, ToolCallResult};

/// Maximum calls of one answer that run. Each further call gets an error result.
const MAX_CALLS_PER_ANSWER: usize = 1_000;

/// Built-in tools that wait for the answer of another agent.
const AGENT_REQUEST_TOOLS: [&str; 4] = [
    "agents__request",
    "task__run",
    "sessions__spawn",
    "squad__route",
];

/// Runs step `index` through the agent's middleware, with its runtime events.
pub(crate) async fn run(turn: &mut TurnContext, index: u32) -> Result<StepOutcome, TurnError> {
    let tracker = Arc::clone(&turn.facts.tracker);
    let started = ActiveStopwatch::start(&tracker);
    tracker.record_heartbeat();
    let layers = Arc::clone(&turn.facts.layers);
    let id = step_id(&turn.facts.turn_id, index);
    let trace = turn.facts.trace.child(&id);
    let catalog = turn.current_catalog();
    // If the model call is recorded, the start of the step was published before the turn was
    // resumed.
    let has_told = turn.journal.has_outcome(&model_effect(index));
    let is_new = AtomicBool::new(!has_told);
    let metadata = JsonObject::new();
    let mut context = StepContext {
        turn,
        index,
        catalog,
        metadata,
        id: id.clone(),
        trace,
        is_new,
    };
    let turn_id = context.turn.facts.turn_id.clone();
    if !has_told {
        context.publish(RuntimeEventKind::StepStarted {
            step_id: id.clone(),
            step_index: index,
            turn_id: turn_id.clone(),
        });
    }
    let outcome = StepNext::new(&layers.step, |context| Box::pin(run_core(context)))
        .run(&mut context)
        .await;
    let duration = started.elapsed_millis(&tracker);
    tracker.record_heartbeat();
    if !context.is_new.load(Ordering::Relaxed) {
        // The whole step was recorded and published before the turn was resumed.
        return outcome;
    }
    context.publish(match &outcome {
        Ok(outcome) => RuntimeEventKind::StepCompleted {
            step_id: id,
            step_index: index,
            turn_id,
            tool_call_count: outcome.results.len(),
            duration,
            token_usage: outcome.usage,
        },
        Err(error) => RuntimeEventKind::StepFailed {
            step_id: id,
            step_index: index,
            turn_id,
            duration,
            error_message: error.message.clone(),
            error_code: Some(error.code.clone()),
        },
    });
    outcome
}

/// Runs the step itself, inside all middleware.
async fn run_core(context: &mut StepContext<'_>) -> Result<StepOutcome, TurnError> {
    let answer = ask_model(context).await?;
    let usage = answer.usage;
    context.turn.engine.record_usage(UsageIncrement {
        cost: answer.cost.clone(),
        ..UsageIncrement::default()
    });
    context.turn.progress.add_cost(answer.cost);
    let finish_reason = answer.finish_reason;
    if !has_content(&answer.parts, &finish_reason) {
        if let Some(error) = cut_without_text(&finish_reason) {
            return Err(error);
        }
        let (message, results) = (None, Vec::new());
        return Ok(StepOutcome {
            should_continue: false,
            message,
            results,
            usage,
            finish_reason,
        });
    }
    let source = MessageSource::Assistant {
        step_id: context.id.clone(),
    };
    let message = context
        .turn
        .append(MessageRole::Assistant, answer.parts, source)
        .await?;
    let mut results = if finish_reason.is_cut() {
        cut_calls(&message, &finish_reason)
    } else {
        run_calls(context, &message).await?
    };
    let generation = context.turn.engine.generation.load();
    let (policy, guard) = (&generation.policy, &mut context.turn.progress.repetition);
    guard.check(&policy.repetition, &context.catalog, &message, &mut results);
    if !results.is_empty() {
        let source = MessageSource::Tool {
            step_id: context.id.clone(),
        };
        let parts = results.iter().flat_map(result_parts).collect();
        context
            .turn
            .append(MessageRole::Tool, parts, source)
            .await?;
        instructions::append_instructions(context, &message, &results).await?;
    }
    let should_continue = !results.is_empty() || finish_reason == ModelFinishReason::Pause;
    Ok(StepOutcome {
        should_continue,
        message: Some(message),
        results,
        usage,
        finish_reason,
    })
}

/// Returns true if an answer contains text or calls, or is part of a paused answer.
fn has_content(parts: &[MessagePart], finish_reason: &ModelFinishReason) -> bool {
    let is_content = |part: &MessagePart| match part {
        MessagePart::Text { text, .. } => !text.is_empty(),
        MessagePart::ToolCall(_) => true,
        _ => *finish_reason == ModelFinishReason::Pause,
    };
    parts.iter().any(is_content)
}

/// Returns the turn error for an answer that reached a limit before it contained any text.
fn cut_without_text(finish_reason: &ModelFinishReason) -> Option<TurnError> {
    if *finish_reason == ModelFinishReason::Pause {
        return None;
    }
    let CutNotice { cause, fix } = CutNotice::of(finish_reason)?;
    let message = format!("The model's answer was cut off before it contained any text: {cause}.");
    Some(TurnError::new(Code::MODEL_CUT, message).suggest(fix))
}

/// Returns a failed result for each call of a truncated answer, whose arguments may be incomplete.
fn cut_calls(message: &Message, finish_reason: &ModelFinishReason) -> Vec<ToolCallResult> {
    let cause = CutNotice::of(finish_reason).map_or("it is incomplete", |notice| notice.cause);
    let text = format!("The call did not run: the answer was cut off, because {cause}.");
    let error = || {
        HandlerError::new(text.clone())
            .code(Code::MODEL_CUT)
            .suggest("Make the call again with shorter arguments, or split it into several calls.")
    };
    message
        .tool_calls()
        .map(|call| dispatch::error_result(call, usize::MAX, error()))
        .collect()
}

/// Calls the model. If it refuses the answer schema or the length of the conversation, calls it
/// again with the answer tool or with a shorter conversation, once for each reason.
async fn ask_model(context: &mut StepContext<'_>) -> Result<ModelAnswer, TurnError> {
    let mut effect = "model";
    let mut is_shortened = false;
    loop {
        let error = match call_model(context, effect).await? {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        effect = match error.kind {
            ModelErrorKind::ContextOverflow(_)
                if !is_shortened && shorten_conversation(context, &error).await? =>
            {
                is_shortened = true;
                "model-shortened"
            }
            ModelErrorKind::SchemaRefused(_) if answer_through_tool(context, &error) => {
                "model-without-schema"
            }
            _ => return Err(overflow_error(error)),
        };
    }
}

/// Activates the answer tool after the server refused the answer schema. Returns false if there is
/// none, or if it is active.
fn answer_through_tool(context: &mut StepContext<'_>, error: &ModelError) -> bool {
    let fallback = &mut context.turn.progress.answer_fallback;
    if fallback.tool.is_none() || fallback.is_active {
        return false;
    }
    let suggestion = error.suggestion.as_deref().unwrap_or_default();
    tracing::warn!(%error, suggestion, "The server rejected the answer schema. The model answers \
        through a tool instead.");
    fallback.is_active = true;
    context.catalog = context.turn.current_catalog();
    true
}

/// Shortens the conversation that is too long for the model. Returns false if no extension can.
async fn shorten_conversation(
    context: &mut StepContext<'_>,
    error: &ModelError,
) -> Result<bool, TurnError> {
    let layers = Arc::clone(&context.turn.facts.layers);
    let step = context.index;
    for middleware in layers.step.iter() {
        if middleware.shorten_conversation(context.turn, step).await? {
            tracing::warn!(%error, "The conversation is too long for the model. It was shortened.");
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the turn error for a conversation that is too long. Any other error stays as it is.
fn overflow_error(error: ModelError) -> TurnError {
    let is_overflow = matches!(error.kind, ModelErrorKind::ContextOverflow(_));
    let error = turn_error(error);
    if !is_overflow {
        return error;
    }
    error.suggest(
        "Add `- ref: Extension/message-compaction` to `spec.extensions` of the agent, start a new \
        conversation, or use a model with a larger context window.",
    )
}

/// Calls the agent's model. `effect` names the call in the journal.
async fn call_model(
    context: &StepContext<'_>,
    effect: &str,
) -> Result<Result<ModelAnswer, ModelError>, TurnError> {
    let turn = &*context.turn;
    let agent = &turn.facts.agent;
    let trace = context.trace.child(&format!("{}-{effect}", context.id));
    let answers_by_tool = turn.progress.answer_fallback.is_active;
    let call = ModelCall {
        model: &agent.models[0],
        request: ModelRequest {
            instance: turn.facts.instance.clone(),
            system: turn.event.system(agent.system.as_deref()),
            messages: turn.conversation().history(),
            tools: Arc::clone(context.catalog.definitions()),
            params: Arc::clone(&agent.params),
            output: agent.output.clone().filter(|_| !answers_by_tool),
            caller: turn.engine.tracing.caller_trace(&trace),
            exchange: turn.engine.exchange_recorder(),
        },
        turn_id: &turn.facts.turn_id,
        step_id: Some(&context.id),
        trace,
        course: ModelCallTiming::default(),
        bus: Some(&turn.engine.bus),
        swarm: (
            &turn.engine.rate_limiter,
            turn.engine.generation.load().limits,
        ),
        engine_bus: &turn.engine.bus,
        cancel: &turn.cancel,
        tracker: &turn.facts.tracker,
        has_fallback: false,
    };
    let effect = context.effect_id(effect);
    context
        .is_new
        .fetch_or(!turn.journal.has_outcome(&effect), Ordering::Relaxed);
    call_journaled(turn, effect, call, &agent.models[1..]).await
}

/// Calls the model; if that fails, calls the `others` in order. Journaled once per turn: a resumed
/// turn gets the recorded answer.
pub(crate) async fn call_journaled(
    turn: &TurnContext,
    effect_id: String,
    call: ModelCall<'_>,
    others: &[ModelPlan],
) -> Result<Result<ModelAnswer, ModelError>, TurnError> {
    let effect = TurnEffect {
        id: effect_id,
        kind: EffectKind::ModelCall,
        intent: json!({"messages": call.request.messages.len()}),
        when_interrupted: InterruptionPolicy::RunAgain,
    };
    let work = Box::pin(async {
        let mut call = ModelCall {
            has_fallback: !others.is_empty(),
            ..call
        };
        let mut answer = call_one_model(turn, &call).await;
        let mut failures = Vec::new();
        for (index, other) in others.iter().enumerate() {
            let error = match answer {
                Err(ModelCallError::Failed(error)) if error.kind != ModelErrorKind::Declined => {
                    error
                }
                _ => break,
            };
            failures.push((Arc::clone(&call.model.name), error));
            call = call.with_fallback(other);
            call.has_fallback = index + 1 < others.len();
            answer = call_one_model(turn, &call).await;
        }
        answer.map_err(|error| error.after_failures(failures, &call.model.name))
    });
    match turn
        .journal
        .run(effect, work)
        .await
        .map_err(|error| store_failure_error(&error))?
    {
        EffectOutcome::Done {
            value: Ok(answer), ..
        } => Ok(Ok(answer)),
        EffectOutcome::Done {
            value: Err(ModelCallError::Failed(error)),
            ..
        } => Ok(Err(error)),
        EffectOutcome::Done {
            value: Err(ModelCallError::Cancelled),
            ..
        } => Err(cancelled_error()),
        EffectOutcome::Interrupted => unreachable!("a model call is run again"),
    }
}

/// Calls one model and publishes the result.
async fn call_one_model(
    turn: &TurnContext,
    call: &ModelCall<'_>,
) -> Result<ModelAnswer, ModelCallError> {
    let call_start = ModelCallStart::now(&turn.engine);
    let mut answer = turn.engine.outcome_of(call.run()).await;
    if let Ok(answer) = &mut answer {
        redact_answer(&turn.engine.redactor, answer);
    }
    if let Err(ModelCallError::Failed(error)) = &mut answer {
        name_retry_time(error, call.model.max_retry_wait, turn.engine.clock.now());
    }
    // The record comes first, so that a client can open the call once it receives the event.
    call_start.record(&turn.engine, call, &answer);
    call_start.publish_result(&turn.engine, call, &answer);
    answer
}

/// Adds the time at which the provider allows a retry, if that is too late to wait for.
fn name_retry_time(error: &mut ModelError, max_wait: Duration, now: DateTime<Utc>) {
    let Some(wait) = error
        .retry_after
        .filter(|wait| *wait > max_wait && error.is_transient())
    else {
        return;
    };
    let seconds = wait.as_secs_f64().ceil();
    let retry_time = TimeDelta::from_std(wait)
        .ok()
        .and_then(|wait| now.checked_add_signed(wait));
    let retry_time = retry_time.map_or(String::new(), |time| {
        format!(", at {}", time.format("%Y-%m-%d %H:%M:%S UTC"))
    });
    error.message.push_str(&format!(
        " The provider allows a retry in {seconds} s{retry_time}."
    ));
    error.suggestion.get_or_insert_with(|| {
        "Send the input again at that time, add `fallbacks` to the agent, or raise \
        `options.maxRetryWaitMs` of the Model."
            .to_owned()
    });
}

/// Masks the secrets in an answer before it is stored.
fn redact_answer(redactor: &SecretRedactor, answer: &mut ModelAnswer) {
    for part in &mut answer.parts {
        part.mask(redactor);
    }
}

/// Runs the calls of `message` concurrently, up to the agent's limit. Calls that touch the same
/// files run in call order. Results are in call order (rule T9).
async fn run_calls(
    context: &StepContext<'_>,
    message: &Arc<Message>,
) -> Result<Vec<ToolCallResult>, TurnError> {
    let limit = context.turn.facts.agent.max_parallel_tool_calls;
    let calls: Vec<ToolCall> = message.tool_calls().cloned().collect();
    let order = CallOrder::for_calls(&calls, &context.catalog, &context.turn.facts.workdir).await;
    let order = &order;
    let running = calls.into_iter().enumerate().map(async |(index, call)| {
        let _running = order.start(index).await;
        run_call(context, message, index, call).await
    });
    let results: Vec<_> = futures::stream::iter(running)
        .buffered(limit)
        .collect()
        .await;
    results.into_iter().collect()
}

/// Returns the error for a call over the limit of calls per answer.
fn too_many_calls() -> HandlerError {
    HandlerError::new(format!(
        "the call was not run: the limit is {MAX_CALLS_PER_ANSWER} calls per answer"
    ))
    .code(Code::TOOL_TOO_MANY_CALLS)
    .suggest("Send fewer calls at a time.")
}

/// Runs the tool call at `index` of the answer, unless its result is in the journal.
async fn run_call(
    context: &StepContext<'_>,
    message: &Arc<Message>,
    index: usize,
    call: ToolCall,
) -> Result<ToolCallResult, TurnError> {
    if index >= MAX_CALLS_PER_ANSWER {
        return Ok(dispatch::error_result(&call, usize::MAX, too_many_calls()));
    }
    let turn = &*context.turn;
    let tool = context.catalog.get(&call.tool_name);
    let may_repeat = tool.is_none_or(|tool| tool.may_repeat());
    let effect_id = tool_effect(context.index, index);
    let approval = format!("{effect_id}/approval");
    // Interrupted while an approval was pending: the call had not started.
    let only_asked = turn.journal.has_intent(&approval) && !turn.journal.has_outcome(&approval);
    let effect = TurnEffect {
        id: effect_id,
        kind: match tool.and_then(|tool| tool.builtin.as_deref()) {
            Some(name) if AGENT_REQUEST_TOOLS.contains(&name) => EffectKind::AgentRequest,
            _ => EffectKind::ToolCall,
        },
        intent: json!({"toolCallId": call.tool_call_id, "toolName": call.tool_name, "input": call.input}),
        when_interrupted: if may_repeat || only_asked {
            InterruptionPolicy::RunAgain
        } else {
            InterruptionPolicy::Report
        },
    };
    let tool_call = ToolCallContext {
        call: call.clone(),
        engine: Arc::clone(&turn.engine),
        facts: Arc::clone(&turn.facts),
        step_id: context.id.clone(),
        catalog: context.catalog.clone(),
        message: Arc::clone(message),
        trace: context.trace.child(&format!("{}-tool-{index}", context.id)),
        cancel: turn.cancel.clone(),
        tracker: ActivityTracker::new(),
        metadata: JsonObject::new(),
        approval: Some((Arc::clone(&turn.journal), approval)),
    };
    let trace = tool_call.trace.clone();
    let (effect_id, layers) = (effect.id.clone(), Arc::clone(&turn.facts.layers));
    let (id, kept) = (effect_id.as_str(), layers.state_journal());
    let mut noted = Ok(());
    let work = Box::pin(async {
        let before = kept.as_ref().map(StateJournal::write_counters);
        let result = turn.engine.outcome_of(dispatch::call(tool_call)).await;
        if let Some((kept, before)) = kept.as_ref().zip(before) {
            noted = kept.journal_changes(&turn.journal, id, &before).await;
        }
        result
    });
    let outcome = turn
        .journal
        .run(effect, work)
        .await
        .map_err(|error| store_failure_error(&error))?;
    noted.map_err(|error| store_failure_error(&error))?;
    match outcome {
        EffectOutcome::Done { value, replayed } => {
            context.is_new.fetch_or(!replayed, Ordering::Relaxed);
            if replayed && let Some(kept) = &kept {
                kept.restore_states(&turn.journal, id)
                    .await
                    .map_err(|error| store_failure_error(&error))?;
            }
            Ok(value)
        }
        EffectOutcome::Interrupted => {
            context.is_new.store(true, Ordering::Relaxed);
            Ok(publish_interrupted(context, &trace, &call))
        }
    }
}

/// Publishes and returns the result of a call that was interrupted and must not run again.
fn publish_interrupted(
    context: &StepContext<'_>,
    trace: &TraceContext,
    call: &ToolCall,
) -> ToolCallResult {
    let result = interrupted_result(call);
    let kind = RuntimeEventKind::ToolCompleted {
        tool_call_id: call.tool_call_id.clone(),
        tool_name: call.tool_name.clone(),
        step_id: context.id.clone(),
        turn_id: context.turn.facts.turn_id.clone(),
        status: result.status,
        duration: 0,
        shown: dispatch::shown_result(&context.turn.engine.redactor, &result),
    };
    context
        .turn
        .engine
        .bus
        .runtime(&context.turn.facts.instance, trace, kind);
    result
}

//! One step: a model call, and the tool calls that it asks for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use futures::StreamExt;
use goondan_spec::Code;
use serde_json::{Value, json};

use crate::engine::Spending;
use crate::life::{Life, Stopwatch};
use crate::middleware::{Journalist, StepNext};
use crate::plan::ModelPlan;
use crate::policy::redact::Redactor;
use crate::tooling::dispatch::{self, ToolCallContext};
use crate::tooling::registry::Catalog;
use crate::turn::model_call::{ModelAnswer, ModelCall, NoAnswer, turn_error};
use crate::turn::model_course::{Asked, Course};
use crate::turn::{TurnContext, cancelled, instructions, store_failed};
use goondan_core::JsonObject;
use goondan_core::event::{RuntimeEventKind, TurnError};
use goondan_core::ids::TraceContext;
use goondan_core::message::{
    Message, MessageData, MessageSource, Part, Role, ToolCall, ToolResultPart,
};
use goondan_core::notices::CutNotice;
use goondan_core::ports::journal::{Effect, EffectKind, Outcome, WhenInterrupted};
use goondan_core::ports::model::{
    ModelError, ModelErrorKind, ModelFinishReason, ModelRequest, TokenUsage,
};
use goondan_core::ports::tool::{ToolCallResult, ToolError};
use goondan_core::reserved::UNTRUSTED;

/// So many calls of one answer run. Each of the others is told that it was one too many.
const MOST_CALLS: usize = 1_000;

/// A step on its way through middleware.
pub struct StepContext<'a> {
    turn: &'a mut TurnContext,
    /// Counts from 0 in its turn.
    pub index: u32,
    /// What the model is offered in this step, and what may be called in it.
    pub catalog: Catalog,
    /// What its layers tell each other.
    pub(crate) metadata: JsonObject,
    id: String,
    trace: TraceContext,
    /// Something was done in it that was not recorded before the turn was resumed.
    pub(crate) is_new: AtomicBool,
}

/// What came of a step.
#[derive(Debug, Clone)]
pub struct StepOutcome {
    /// Another step follows. The core says so where the model called tools; middleware may change it.
    pub should_continue: bool,
    /// What the model said; `None` where it said nothing at all.
    pub message: Option<Arc<Message>>,
    /// What came of its calls, in call order.
    pub results: Vec<ToolCallResult>,
    /// What it cost.
    pub usage: Option<TokenUsage>,
    /// The reason why the model ended its answer.
    pub finish_reason: ModelFinishReason,
}

impl StepContext<'_> {
    /// The turn.
    pub fn turn(&mut self) -> &mut TurnContext {
        self.turn
    }

    /// `<turnId>-step-<index>`.
    pub fn step_id(&self) -> &str {
        &self.id
    }

    /// All tools that the agent has in this step, whatever the layers have made of the catalog.
    pub(crate) fn all_tools(&self) -> Catalog {
        self.turn.current_catalog()
    }

    fn effect(&self, what: &str) -> String {
        format!("step-{}/{what}", self.index)
    }

    fn publish(&self, kind: RuntimeEventKind) {
        self.turn
            .engine
            .bus
            .runtime(&self.turn.facts.instance, &self.trace, kind);
    }
}

/// Runs step `index` through the agent's middleware, with its events.
pub(crate) async fn run(turn: &mut TurnContext, index: u32) -> Result<StepOutcome, TurnError> {
    let life = Arc::clone(&turn.facts.life);
    let started = Stopwatch::start(&life);
    life.show();
    let layers = Arc::clone(&turn.facts.layers);
    let id = format!("{}-step-{index}", turn.facts.turn_id);
    let trace = turn.facts.trace.child(&id);
    let catalog = turn.current_catalog();
    // A step that was cut off behind its model call has told that it started.
    let has_told = turn.journal.has_outcome(&format!("step-{index}/model"));
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
    let outcome = StepNext::new(&layers.step).run(&mut context).await;
    let duration = started.millis(&life);
    life.show();
    if !context.is_new.load(Ordering::Relaxed) {
        // All of it was recorded before the turn was resumed, and told then.
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

/// The step itself, behind all middleware.
pub(crate) async fn core(context: &mut StepContext<'_>) -> Result<StepOutcome, TurnError> {
    let answer = ask_model(context).await?;
    let usage = answer.usage;
    context.turn.engine.spend(Spending {
        cost: answer.cost.clone(),
        ..Spending::default()
    });
    context.turn.progress.pay(answer.cost);
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
        .append(Role::Assistant, answer.parts, source)
        .await?;
    let results = if finish_reason.is_cut() {
        cut_calls(&message, &finish_reason)
    } else {
        run_calls(context, &message).await?
    };
    if !results.is_empty() {
        let source = MessageSource::Tool {
            step_id: context.id.clone(),
        };
        let parts = results.iter().flat_map(result_parts).collect();
        context.turn.append(Role::Tool, parts, source).await?;
        instructions::tell(context, &message, &results).await?;
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

/// Returns whether an answer contains text or calls, or is a part of a paused answer.
fn has_content(parts: &[Part], finish_reason: &ModelFinishReason) -> bool {
    let is_content = |part: &Part| match part {
        Part::Text { text, .. } => !text.is_empty(),
        Part::ToolCall(_) => true,
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

/// Returns a failed result for each call of a cut answer: its arguments may be incomplete.
fn cut_calls(message: &Message, finish_reason: &ModelFinishReason) -> Vec<ToolCallResult> {
    let cause = CutNotice::of(finish_reason).map_or("it is incomplete", |notice| notice.cause);
    let text = format!("The call did not run: the answer was cut off, because {cause}.");
    let error = || {
        ToolError::new(text.clone())
            .code(Code::MODEL_CUT)
            .suggest("Make the call again with shorter arguments, or split it into several calls.")
    };
    message
        .tool_calls()
        .map(|call| dispatch::failed(call, usize::MAX, error()))
        .collect()
}

async fn ask_model(context: &mut StepContext<'_>) -> Result<ModelAnswer, TurnError> {
    let error = match call_model(context, "model").await? {
        Ok(answer) => return Ok(answer),
        Err(error) => error,
    };
    let fallback = &mut context.turn.progress.answer_fallback;
    if !matches!(error.kind, ModelErrorKind::SchemaRefused(_))
        || fallback.tool.is_none()
        || fallback.is_active
    {
        return Err(turn_error(error));
    }
    let suggestion = error.suggestion.as_deref().unwrap_or_default();
    tracing::warn!(%error, suggestion, "The server refuses the schema of the answer. The model answers through a tool.");
    fallback.is_active = true;
    context.catalog = context.turn.current_catalog();
    call_model(context, "model-without-schema")
        .await?
        .map_err(turn_error)
}

/// Calls the model of the agent. `effect` names the call in the journal.
async fn call_model(
    context: &StepContext<'_>,
    effect: &str,
) -> Result<Result<ModelAnswer, ModelError>, TurnError> {
    let turn = &*context.turn;
    let agent = &turn.facts.agent;
    let trace = context.trace.child(&format!("{}-{effect}", context.id));
    let by_tool = turn.progress.answer_fallback.is_active;
    let call = ModelCall {
        model: &agent.models[0],
        request: ModelRequest {
            instance: turn.facts.instance.clone(),
            system: turn.event.system(agent.system.as_deref()),
            messages: turn.conversation().history(),
            tools: Arc::clone(context.catalog.definitions()),
            params: Arc::clone(&agent.params),
            output: agent.output.clone().filter(|_| !by_tool),
            caller: turn.engine.tracing.caller(&trace),
        },
        turn_id: &turn.facts.turn_id,
        step_id: Some(&context.id),
        trace,
        course: Course::default(),
        bus: Some(&turn.engine.bus),
        swarm: (&turn.engine.pace, turn.engine.generation.load().limits),
        engine_bus: &turn.engine.bus,
        cancel: &turn.cancel,
        life: &turn.facts.life,
        has_fallback: false,
    };
    let effect = context.effect(effect);
    context
        .is_new
        .fetch_or(!turn.journal.has_outcome(&effect), Ordering::Relaxed);
    journaled(turn, effect, call, &agent.models[1..]).await
}

/// Asks the model once in the life of the turn, and where it fails, the `others` in their order: a resumed turn gets the recorded
/// answer.
pub(crate) async fn journaled(
    turn: &TurnContext,
    effect_id: String,
    call: ModelCall<'_>,
    others: &[ModelPlan],
) -> Result<Result<ModelAnswer, ModelError>, TurnError> {
    let effect = Effect {
        id: effect_id,
        kind: EffectKind::ModelCall,
        intent: json!({"messages": call.request.messages.len()}),
        when_interrupted: WhenInterrupted::RunAgain,
    };
    let work = Box::pin(async {
        let mut call = ModelCall {
            has_fallback: !others.is_empty(),
            ..call
        };
        let mut answer = ask(turn, &call).await;
        let mut failures = Vec::new();
        for (index, other) in others.iter().enumerate() {
            let error = match answer {
                Err(NoAnswer::Failed(error)) if error.kind != ModelErrorKind::Declined => error,
                _ => break,
            };
            failures.push((Arc::clone(&call.model.name), error));
            call = call.of_another(other);
            call.has_fallback = index + 1 < others.len();
            answer = ask(turn, &call).await;
        }
        answer.map_err(|error| error.after(failures, &call.model.name))
    });
    match turn
        .journal
        .run(effect, work)
        .await
        .map_err(|error| store_failed(&error))?
    {
        Outcome::Done {
            value: Ok(answer), ..
        } => Ok(Ok(answer)),
        Outcome::Done {
            value: Err(NoAnswer::Failed(error)),
            ..
        } => Ok(Err(error)),
        Outcome::Done {
            value: Err(NoAnswer::Cancelled),
            ..
        } => Err(cancelled()),
        Outcome::Interrupted => unreachable!("a model call is run again"),
    }
}

/// Asks one model, and tells how that went.
async fn ask(turn: &TurnContext, call: &ModelCall<'_>) -> Result<ModelAnswer, NoAnswer> {
    let asked = Asked::now(&turn.engine);
    let mut answer = turn.engine.outcome_of(call.run()).await;
    if let Ok(answer) = &mut answer {
        without_secrets(&turn.engine.redactor, answer);
    }
    if let Err(NoAnswer::Failed(error)) = &mut answer {
        name_retry_time(error, call.model.max_retry_wait, turn.engine.clock.now());
    }
    asked.tell(&turn.engine, call, &answer);
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
    let at = TimeDelta::from_std(wait)
        .ok()
        .and_then(|wait| now.checked_add_signed(wait));
    let at = at.map_or(String::new(), |at| {
        format!(", at {}", at.format("%Y-%m-%d %H:%M:%S UTC"))
    });
    error
        .message
        .push_str(&format!(" The provider allows a retry in {seconds} s{at}."));
    error.suggestion.get_or_insert_with(|| {
        "Send the input again at that time, add `fallbacks` to the agent, or raise `options.maxRetryWaitMs` of the Model."
            .to_owned()
    });
}

/// Takes secrets out of what a model says, before it is kept. Arguments of calls stay as they are: tools need them.
fn without_secrets(redactor: &Redactor, answer: &mut ModelAnswer) {
    for part in &mut answer.parts {
        if let Part::Text { text, .. } = part {
            redactor.clean(text);
        }
    }
}

/// Runs the calls of `message` at the same time, up to the agent's limit; results come in call order (rule T9).
async fn run_calls(
    context: &StepContext<'_>,
    message: &Arc<Message>,
) -> Result<Vec<ToolCallResult>, TurnError> {
    let limit = context.turn.facts.agent.max_parallel_tool_calls;
    let calls = message.tool_calls().cloned().enumerate();
    let running = calls.map(|(index, call)| run_call(context, message, index, call));
    let results: Vec<_> = futures::stream::iter(running)
        .buffered(limit)
        .collect()
        .await;
    results.into_iter().collect()
}

fn too_many_calls() -> ToolError {
    ToolError::new(format!(
        "the call was not run: an answer may make {MOST_CALLS} calls"
    ))
    .code(Code::TOOL_TOO_MANY_CALLS)
    .suggest("Make the call again, with fewer at a time.")
}

async fn run_call(
    context: &StepContext<'_>,
    message: &Arc<Message>,
    index: usize,
    call: ToolCall,
) -> Result<ToolCallResult, TurnError> {
    if index >= MOST_CALLS {
        return Ok(dispatch::failed(&call, usize::MAX, too_many_calls()));
    }
    let turn = &*context.turn;
    let promises = context.catalog.get(&call.tool_name).map(|tool| &tool.spec);
    let may_repeat = promises.is_none_or(|spec| spec.idempotent || spec.read_only);
    let approval = context.effect(&format!("tool-{index}/approval"));
    // Cut off while somebody was asked: it had not begun.
    let only_asked = turn.journal.has_intent(&approval) && !turn.journal.has_outcome(&approval);
    let effect = Effect {
        id: context.effect(&format!("tool-{index}")),
        kind: EffectKind::ToolCall,
        intent: json!({"toolCallId": call.tool_call_id, "toolName": call.tool_name, "input": call.input}),
        when_interrupted: if may_repeat || only_asked {
            WhenInterrupted::RunAgain
        } else {
            WhenInterrupted::Report
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
        life: Life::new(),
        metadata: JsonObject::new(),
        approval: Some((Arc::clone(&turn.journal), approval)),
    };
    let trace = tool_call.trace.clone();
    let (effect_id, layers) = (effect.id.clone(), Arc::clone(&turn.facts.layers));
    let (id, kept) = (effect_id.as_str(), layers.journalist());
    let mut noted = Ok(());
    let work = Box::pin(async {
        let before = kept.as_ref().map(Journalist::versions);
        let result = turn.engine.outcome_of(dispatch::call(tool_call)).await;
        if let Some((kept, before)) = kept.as_ref().zip(before) {
            noted = kept.note(&turn.journal, id, &before).await;
        }
        result
    });
    let outcome = turn
        .journal
        .run(effect, work)
        .await
        .map_err(|error| store_failed(&error))?;
    noted.map_err(|error| store_failed(&error))?;
    match outcome {
        Outcome::Done { value, replayed } => {
            context.is_new.fetch_or(!replayed, Ordering::Relaxed);
            if replayed && let Some(kept) = &kept {
                kept.put_back(&turn.journal, id)
                    .await
                    .map_err(|error| store_failed(&error))?;
            }
            Ok(value)
        }
        Outcome::Interrupted => {
            context.is_new.store(true, Ordering::Relaxed);
            Ok(interrupted(context, &trace, &call))
        }
    }
}

/// The result of a call of which nobody knows how far it came (rule C4).
pub(crate) fn interrupted_result(call: &ToolCall) -> ToolCallResult {
    let error = ToolError::new(format!(
        "{} was running when the process ended; it is not known how far it came, and it was not run again",
        call.tool_name
    ))
    .code(Code::TOOL_INTERRUPTED)
    .suggest("Look at what it left behind before you call it again.");
    dispatch::failed(call, usize::MAX, error)
}

fn interrupted(context: &StepContext<'_>, trace: &TraceContext, call: &ToolCall) -> ToolCallResult {
    let result = interrupted_result(call);
    let kind = RuntimeEventKind::ToolCompleted {
        tool_call_id: call.tool_call_id.clone(),
        tool_name: call.tool_name.clone(),
        step_id: context.id.clone(),
        turn_id: context.turn.facts.turn_id.clone(),
        status: result.status,
        duration: 0,
        shown: dispatch::shown(&context.turn.engine.redactor, &result),
    };
    context
        .turn
        .engine
        .bus
        .runtime(&context.turn.facts.instance, trace, kind);
    result
}

/// What a result looks like in the conversation.
pub(crate) fn result_parts(result: &ToolCallResult) -> impl Iterator<Item = Part> {
    let part = ToolResultPart {
        tool_call_id: result.tool_call_id.clone(),
        tool_name: result.tool_name.clone(),
        status: result.status,
        output: result.output.clone(),
        error: result.error.clone(),
        untrusted: result
            .metadata
            .get(UNTRUSTED)
            .and_then(Value::as_bool)
            .unwrap_or(false),
    };
    std::iter::once(Part::ToolResult(part))
        .chain(result.attachments.iter().cloned().map(Part::File))
}

/// A message of the running turn.
pub(crate) fn message(
    id: String,
    role: Role,
    content: Vec<Part>,
    source: MessageSource,
    turn: &TurnContext,
) -> Message {
    Message {
        id,
        data: MessageData { role, content },
        metadata: goondan_core::JsonObject::new(),
        created_at: turn.engine.clock.now(),
        source,
    }
}

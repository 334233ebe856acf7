//! One turn of an instance: opens the conversation, runs the turn, and makes the outcome durable.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio_util::sync::CancellationToken;

pub(crate) use super::turn_start::{TurnEnd, TurnStart, failed_result};
use crate::activity::ActiveStopwatch;
use crate::delivery::{failed_events, responses};
use crate::engine::Engine;
use crate::middleware::{ExtensionStates, TurnNotes};
use crate::policy::untrusted_content;
use crate::tooling::dispatch::TurnScope;
use crate::turn::{
    self, ConversationLog, TurnContext, TurnInterruption, TurnProgress, journal_repair, poison,
    step, store_failure_error,
};
use goondan_core::agent_event::AgentEvent;
use goondan_core::conversation::Conversation;
use goondan_core::event::{FinishReason, TurnError, TurnResult};
use goondan_core::ids::turn_of_message;
use goondan_core::message::{Message, MessageData, MessageEvent, MessageRole, MessageSource};
use goondan_core::ports::journal::TurnJournal;
use goondan_core::ports::store::{
    FinishedTurn, InstanceMeta, InstanceStatus, OpenConversation, StoreError, StoredConversation,
};
use goondan_spec::Code;

/// Runs one turn, from the opening of the conversation to its stored end.
pub(crate) async fn handle(start: TurnStart) -> TurnEnd {
    let TurnStart {
        engine,
        facts,
        event,
        mut meta,
        is_new,
        joined,
        cancel,
        interruption,
        warm,
    } = start;
    let started = ActiveStopwatch::start(&facts.tracker);
    meta.status = InstanceStatus::Processing;
    meta.retired_at = None;
    let new_meta = is_new.then_some(&meta);
    let interruption = interruption.map(|interruption| (interruption, &cancel));
    let opened = open(&engine, &facts, new_meta, interruption, warm).await;
    let (about, of) = (Arc::clone(&engine), Arc::clone(&facts));
    let _listening = facts.agent.extensions.any_hosted().then(|| {
        engine
            .bus
            .extension_subscribers()
            .begin_turn(&facts.instance)
    });
    let mut end = match opened {
        Err(error) => TurnEnd {
            result: not_started_result(&facts, &error),
            handled: vec![],
            answer: None,
            warm: None,
            meta,
            cost: None,
        },
        Ok(OpenedTurn {
            log,
            journal,
            course,
            recorded_times,
        }) => {
            let event = Arc::new(event);
            let mut context = TurnContext {
                engine,
                facts,
                event: Arc::clone(&event),
                journal,
                cancel,
                log,
                recorded_times,
                joined,
                progress: TurnProgress::default(),
                states: ExtensionStates::default(),
                notes: TurnNotes::default(),
            };
            let result = match course {
                TurnCourse::Run => run_within_limit(&mut context, &event).await,
                TurnCourse::Fail(error) => end_without_run(&mut context, &event, error).await,
                TurnCourse::IsOver => earlier_end(&context),
            };
            finish(context, result, meta).await
        }
    };
    end.meta.status = InstanceStatus::Idle;
    turn::publish_end(
        &about,
        &of,
        &end.result,
        end.cost.take(),
        started.elapsed_millis(&of.tracker),
    );
    end
}

/// Runs the turn of `event`. Ends the turn of an asynchronous request if it makes no progress for
/// the idle timeout of the request.
async fn run_within_limit(context: &mut TurnContext, event: &Arc<AgentEvent>) -> TurnResult {
    let reply_to = event.reply_to.as_ref().filter(|reply_to| reply_to.async_);
    let limit = reply_to.and_then(|reply_to| reply_to.timeout_ms);
    let Some(limit) = limit.filter(|ms| *ms > 0).map(Duration::from_millis) else {
        return turn::run(context, event).await;
    };
    let (tracker, cancel) = (Arc::clone(&context.facts.tracker), context.cancel.clone());
    let mut run = pin!(turn::run(context, event));
    tokio::select! {
        biased;
        result = &mut run => return result,
        () = tracker.wait_for_silence(limit) => cancel.cancel(),
    }
    let result = run.await;
    let message = responses::timeout_message(&event.target.agent, limit);
    match result.finish_reason {
        FinishReason::Cancelled => TurnResult {
            error: Some(TurnError::new(Code::AGENT_REQUEST_TIMEOUT, message)),
            ..result
        },
        _ => result,
    }
}

/// Conversation and journal of a turn.
struct OpenedTurn {
    log: ConversationLog,
    journal: Arc<dyn TurnJournal>,
    course: TurnCourse,
    /// Times of the messages that the turn made before it was interrupted, by message id.
    recorded_times: HashMap<String, DateTime<Utc>>,
}

/// Course of a turn, which its stored data decides.
enum TurnCourse {
    Run,
    /// The turn must not run: it ended the process too often, or its journal is damaged.
    Fail(TurnError),
    /// The conversation contains the whole turn, but the record of its end is lost.
    IsOver,
}

/// Returns the result of a turn whose messages are complete in the conversation.
fn earlier_end(context: &TurnContext) -> TurnResult {
    let turn_id = context.facts.turn_id.clone();
    tracing::warn!(instance = %context.facts.instance, "the record of a turn's end was lost; the \
        conversation contains the turn, which does not run again");
    let messages = context.conversation().messages();
    let last = messages
        .iter()
        .rfind(|message| turn_of_message(&message.id) == Some(&turn_id));
    let response = last.filter(|message| {
        message.data.role == MessageRole::Assistant && message.tool_calls().next().is_none()
    });
    match response {
        Some(message) => TurnResult {
            finish_reason: FinishReason::TextResponse,
            response_message: Some(Message::clone(message)),
            error: None,
            ..failed_result(turn_id, damaged_journal())
        },
        None => failed_result(turn_id, damaged_journal()),
    }
}

/// Returns the error of a turn with a damaged journal.
fn damaged_journal() -> TurnError {
    TurnError::new(
        Code::JOURNAL,
        "Records of the turn are missing, so calls that must run once could run twice.",
    )
    .suggest(
        "Check the effects of the turn's calls with `gdn conversation show`. To run the event again, \
            use `gdn conversation retry`.",
    )
}

/// Ends a turn that must not run. Its recorded messages stay in the conversation.
async fn end_without_run(
    context: &mut TurnContext,
    event: &AgentEvent,
    error: TurnError,
) -> TurnResult {
    let turn_id = context.facts.turn_id.clone();
    let messages = context.conversation().messages();
    let is_recorded = messages
        .iter()
        .rev()
        .any(|message| turn_of_message(&message.id) == Some(&turn_id));
    let appended = match is_recorded {
        false if event.operation().is_none() => context.append_event(event).await,
        _ => Ok(()),
    };
    failed_result(turn_id, appended.err().unwrap_or(error))
}

/// Opens the conversation and the journal of a turn. First stores a new instance with `new_meta`.
/// `warm` is the cached conversation.
async fn open(
    engine: &Engine,
    facts: &TurnScope,
    new_meta: Option<&InstanceMeta>,
    interruption: Option<(TurnInterruption, &CancellationToken)>,
    warm: Option<ConversationLog>,
) -> Result<OpenedTurn, StoreError> {
    if let Some(meta) = new_meta {
        engine.store.put_instance(meta).await?;
    }
    let journal = engine
        .store
        .open_journal(&facts.instance, &facts.turn_id)
        .await?;
    let poison = match interruption {
        Some((interruption, cancel)) => {
            poison::record_restart(&journal, interruption, cancel).await?
        }
        None => None,
    };
    let is_new = |log: &ConversationLog| !has_recent_messages(&log.conversation, &facts.turn_id);
    if let Some(log) = warm.filter(|log| poison.is_none() && is_new(log)) {
        return Ok(OpenedTurn {
            log,
            journal,
            course: TurnCourse::Run,
            recorded_times: HashMap::new(),
        });
    }
    load(engine, facts, journal, poison).await
}

/// Reads the conversation from the store and decides how the turn continues. A turn that runs makes
/// its recorded messages again; otherwise they stay.
async fn load(
    engine: &Engine,
    facts: &TurnScope,
    mut journal: Arc<dyn TurnJournal>,
    poison: Option<TurnError>,
) -> Result<OpenedTurn, StoreError> {
    let lease = engine.store.claim(&facts.instance).await?;
    let mut store = engine.store.open(lease).await?;
    let stored = store.load().await?;
    if poison.is_none() && engine.store.may_lose_records() && is_begun(facts, &stored) {
        journal = journal_repair::repair(engine, facts, journal, &stored).await?;
    }
    let error = poison.or_else(|| {
        let lost = once_only_results(facts, &stored) > journal.progress().tool_calls;
        lost.then(damaged_journal)
    });
    let resumed_turn = error.is_none().then_some(&*facts.turn_id);
    let recorded_times = if is_begun(facts, &stored) {
        message_times(&stored)
    } else {
        HashMap::new()
    };
    let (conversation, warnings) =
        restore_conversation(&mut *store, stored, resumed_turn, engine.clock.now()).await?;
    for warning in warnings {
        tracing::warn!(instance = %facts.instance, "{warning}");
    }
    let mut messages = conversation.messages().iter();
    let course = match error {
        Some(error) => TurnCourse::Fail(error),
        None if messages.any(|message| turn_of_message(&message.id) == Some(&facts.turn_id)) => {
            TurnCourse::IsOver
        }
        None => TurnCourse::Run,
    };
    let log = ConversationLog {
        conversation,
        store,
    };
    Ok(OpenedTurn {
        log,
        journal,
        course,
        recorded_times,
    })
}

/// Returns the times of the appended messages, by message id.
fn message_times(stored: &StoredConversation) -> HashMap<String, DateTime<Utc>> {
    let appended = stored.events.iter().filter_map(|event| match event {
        MessageEvent::Append { message } => Some((message.id.clone(), message.created_at)),
        _ => None,
    });
    appended.collect()
}

/// Number of latest messages that are searched for messages of a turn.
const RECENT_MESSAGES: usize = 64;

/// Returns true if the end of a conversation in memory contains messages of the turn. Such a turn is
/// over: the log lost its event, which was then sent again.
fn has_recent_messages(conversation: &Conversation, turn_id: &str) -> bool {
    let mut recent = conversation.messages().iter().rev().take(RECENT_MESSAGES);
    recent.any(|message| turn_of_message(&message.id) == Some(turn_id))
}

/// Returns true if the stored events belong to the turn.
fn is_begun(facts: &TurnScope, stored: &StoredConversation) -> bool {
    turn_after_base(stored) == Some(&facts.turn_id)
}

/// Returns the number of results of the turn, in its stored events, whose calls must run once. The
/// journal contains the beginnings of these calls, unless it is damaged.
fn once_only_results(facts: &TurnScope, stored: &StoredConversation) -> usize {
    if !is_begun(facts, stored) {
        return 0;
    }
    let messages = stored.events.iter().filter_map(|event| match event {
        MessageEvent::Append { message } => Some(message),
        _ => None,
    });
    let is_once_only = |name: &str| {
        let tool = facts.agent.catalog.get(name);
        tool.is_some_and(|tool| !tool.may_repeat())
    };
    messages
        .flat_map(Message::tool_results)
        .filter(|result| result.error.is_none() && is_once_only(&result.tool_name))
        .count()
}

/// Repairs a conversation that was read for a turn that starts or resumes. Returns warnings about
/// data that could not be read.
///
/// Events after the base, which is the last checkpoint, have two possible sources. Events of
/// `resumed_turn` are discarded: the turn was interrupted and restarts with its journal. Events of
/// a finished turn that was not checkpointed are checkpointed now. A turn that ended abnormally (a
/// panic, a removed agent) may have left calls without results; they get an error result.
pub(crate) async fn restore_conversation(
    store: &mut dyn OpenConversation,
    mut stored: StoredConversation,
    resumed_turn: Option<&str>,
    now: DateTime<Utc>,
) -> Result<(Conversation, Vec<String>), StoreError> {
    let warnings = std::mem::take(&mut stored.warnings);
    if resumed_turn.is_some() && turn_after_base(&stored) == resumed_turn {
        stored.events.clear();
        store.discard_events().await?;
    }
    let mut is_folded = stored.events.is_empty();
    let (mut conversation, _) = Conversation::restore(stored);
    if let Some(message) = results_for_unanswered(&conversation, now) {
        // Appends have no target that could be missing.
        let _ = conversation.apply(MessageEvent::Append { message });
        is_folded = false;
    }
    if !is_folded {
        store.checkpoint(conversation.base_change()).await?;
        conversation.mark_base_stored();
    }
    Ok((conversation, warnings))
}

/// Returns the turn whose events follow the base.
fn turn_after_base(stored: &StoredConversation) -> Option<&str> {
    stored.events.iter().find_map(|event| match event {
        MessageEvent::Append { message } => turn_of_message(&message.id),
        _ => None,
    })
}

/// Returns a message with interrupted results for all calls without a result; `None` if every call
/// has a result.
fn results_for_unanswered(conversation: &Conversation, now: DateTime<Utc>) -> Option<Message> {
    let calls = conversation.unanswered_calls();
    let last = conversation.last().filter(|_| !calls.is_empty())?;
    let results = calls
        .into_iter()
        .flat_map(|call| step::result_parts(&step::interrupted_result(call)).collect::<Vec<_>>());
    Some(Message {
        id: format!("{}-interrupted", last.id),
        data: MessageData {
            role: MessageRole::Tool,
            content: results.collect(),
        },
        metadata: goondan_core::JsonObject::new(),
        created_at: now,
        source: MessageSource::System,
    })
}

/// Makes the outcome durable. If the store fails, the turn is not over and will resume.
async fn finish(mut context: TurnContext, result: TurnResult, mut meta: InstanceMeta) -> TurnEnd {
    if result
        .error
        .as_ref()
        .is_some_and(|error| error.code == Code::STORE)
    {
        return TurnEnd {
            result,
            handled: Vec::new(),
            answer: None,
            warm: None,
            meta,
            cost: None,
        };
    }
    let cost = context.progress.cost.take();
    let (engine, event) = (Arc::clone(&context.engine), Arc::clone(&context.event));
    let now = engine.clock.now();
    let mut handled = vec![event.id.clone()];
    handled.append(&mut context.progress.joined_ids);
    let answer = responses::answer(&event, &context.facts.trace, &result, now);
    let turn = FinishedTurn {
        turn_id: result.turn_id.clone(),
        event_ids: handled.clone(),
        result: result.clone(),
        asked_by: event.caller().cloned(),
        answer: answer.clone(),
    };
    let before = meta.clone();
    meta.status = InstanceStatus::Idle;
    meta.updated_at = now;
    meta.spending.add(result.usage, cost.as_ref());
    failed_events::add_if_failed(&engine, &event, &result, now).await;
    match end_turn(context, turn, meta.clone()).await {
        Ok(warm) => TurnEnd {
            result,
            handled,
            answer,
            warm,
            meta,
            cost,
        },
        Err(error) => {
            let result = TurnResult {
                finish_reason: FinishReason::Error,
                error: Some(store_failure_error(&error)),
                ..result
            };
            TurnEnd {
                result,
                handled: Vec::new(),
                answer: None,
                warm: None,
                meta: before,
                cost: None,
            }
        }
    }
}

/// Saves extension state, then ends the turn. Returns the conversation if it may stay in memory.
async fn end_turn(
    context: TurnContext,
    turn: FinishedTurn,
    meta: InstanceMeta,
) -> Result<Option<ConversationLog>, StoreError> {
    let TurnContext {
        engine,
        facts,
        mut log,
        states,
        journal,
        ..
    } = context;
    states.save(&*engine.store, &facts.instance).await?;
    if let Some(answer) = &turn.answer {
        untrusted_content::taint_receiver(&engine, &facts.instance, &answer.target).await?;
    }
    drop(journal);
    let is_usable = log
        .store
        .end_turn(turn, log.conversation.base_change(), meta)
        .await?;
    if !is_usable {
        return Ok(None);
    }
    log.conversation.mark_base_stored();
    // The turn is over even if its journal remains: each turn has its own journal.
    let closed = engine
        .store
        .close_journal(&facts.instance, &facts.turn_id)
        .await;
    closed.unwrap_or_else(|error| {
        tracing::warn!(instance = %facts.instance, %error, "could not clear the journal of a \
            finished turn; it is never read again")
    });
    Ok(Some(log))
}

/// Returns the result of a turn whose conversation could not be opened.
fn not_started_result(facts: &TurnScope, error: &StoreError) -> TurnResult {
    failed_result(facts.turn_id.clone(), store_failure_error(error))
}

//! One instance at work: opens its conversation, runs the turn of an event, makes the outcome durable.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use chrono::{DateTime, Utc};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::conversation::Conversation;
use crate::dead_letters;
use crate::dispatch::TurnFacts;
use crate::engine::Engine;
use crate::event::{FinishReason, TurnError, TurnResult};
use crate::footing::{Durable, Footing};
use crate::inbound::AgentEvent;
use crate::life::Stopwatch;
use crate::message::{Message, MessageData, MessageEvent, MessageSource, Role};
use crate::middleware::{ExtensionStates, Notes};
use crate::orchestrator::Command;
use crate::ports::model::TokenUsage;
use crate::ports::store::{
    CarriedFold, InboxRecord, InstanceMeta, InstanceStatus, InstanceStore, StoreError, StoredConversation,
};
use crate::responses;
use crate::step;
use crate::taint;
use crate::turn::{
    self, ConversationLog, JoinBox, STORE_FAILED, TurnContext, TurnProgress, is_message_of, store_failed,
    turn_of_message,
};

/// What the orchestrator hands to a turn.
pub(crate) struct TurnStart {
    pub(crate) engine: Arc<Engine>,
    pub(crate) facts: Arc<TurnFacts>,
    pub(crate) event: AgentEvent,
    pub(crate) meta: InstanceMeta,
    /// The store does not know the instance yet.
    pub(crate) is_new: bool,
    /// No turn of the instance has begun in this process.
    pub(crate) is_first: bool,
    pub(crate) joined: JoinBox,
    pub(crate) cancel: CancellationToken,
    pub(crate) footing: Arc<Footing>,
    /// The conversation, where it is still in memory.
    pub(crate) warm: Option<ConversationLog>,
}

/// What the orchestrator gets back.
pub(crate) struct TurnEnd {
    pub(crate) result: TurnResult,
    /// The events that were handled; empty where the outcome could not be made durable.
    pub(crate) handled: Vec<String>,
    /// The answer to an asynchronous request. It is accepted already.
    pub(crate) answer: Option<AgentEvent>,
    pub(crate) warm: Option<ConversationLog>,
    pub(crate) meta: InstanceMeta,
}

/// A turn that is about to end.
struct Ending {
    engine: Arc<Engine>,
    facts: Arc<TurnFacts>,
    event: Arc<AgentEvent>,
    started: Stopwatch,
    /// Those who watch know that it is over.
    is_told: bool,
}

impl Ending {
    fn tell(&mut self, result: &TurnResult) {
        let duration = self.started.millis(&self.facts.life);
        turn::publish_end(&self.engine, &self.facts, result, duration);
        self.is_told = true;
    }
}

/// Runs one turn from its event to its durable end.
pub(crate) async fn handle(start: TurnStart) -> TurnEnd {
    let TurnStart { engine, facts, event, mut meta, is_new, is_first, joined, cancel, footing, warm } = start;
    let started = Stopwatch::start(&facts.life);
    meta.status = InstanceStatus::Processing;
    meta.retired_at = None;
    let opened = open(&engine, &facts, &footing, &meta, is_new, is_first, warm).await;
    let event = Arc::new(event);
    let (about, of) = (Arc::clone(&event), Arc::clone(&facts));
    let mut ending = Ending { engine: Arc::clone(&engine), facts: of, event: about, started, is_told: false };
    let mut end = match opened {
        Err(error) => TurnEnd { result: not_begun(&facts, &error), handled: vec![], answer: None, warm: None, meta },
        Ok((log, journal)) => {
            let (progress, is_accepted) = (TurnProgress::default(), AtomicBool::new(!event.is_asked_by_turn()));
            let (states, notes, about) = (ExtensionStates::default(), Notes::default(), Arc::clone(&event));
            let mut context = TurnContext {
                engine,
                facts,
                event: about,
                journal,
                cancel,
                log,
                joined,
                progress,
                states,
                notes,
                is_accepted,
                footing,
            };
            let result = turn::run(&mut context, &event).await;
            finish(context, &mut ending, result, meta).await
        }
    };
    end.meta.status = InstanceStatus::Idle;
    if !ending.is_told {
        ending.tell(&end.result);
    }
    end
}

async fn open(
    engine: &Arc<Engine>,
    facts: &Arc<TurnFacts>,
    footing: &Arc<Footing>,
    meta: &InstanceMeta,
    is_new: bool,
    is_first: bool,
    warm: Option<ConversationLog>,
) -> Result<(ConversationLog, Arc<dyn crate::ports::journal::TurnJournal>), StoreError> {
    if is_new {
        put_new(engine, meta).await?;
    }
    let journal = engine.journal.open(&facts.instance, &facts.turn_id, footing).await?;
    let log = match warm {
        Some(log) => log,
        // Nothing is there to be read.
        None if is_new => load(engine, facts, false)?,
        None => {
            let (engine, facts) = (Arc::clone(engine), Arc::clone(facts));
            blocking(move || load(&engine, &facts, is_first)).await?
        }
    };
    Ok((log, journal))
}

/// Makes an instance known to the store. What says how it has to work is put on disk.
async fn put_new(engine: &Arc<Engine>, meta: &InstanceMeta) -> Result<(), StoreError> {
    if meta.cwd.is_none() && meta.narrowing.is_none() {
        return engine.store.put_meta(meta);
    }
    let (store, meta) = (Arc::clone(&engine.store), meta.clone());
    blocking(move || store.put_meta(&meta)).await
}

fn load(engine: &Engine, facts: &TurnFacts, is_first: bool) -> Result<ConversationLog, StoreError> {
    let mut store = engine.store.open(&facts.instance)?;
    // A turn of this process has left nothing behind unless it was over.
    let was_over = |turn_id: &str| if is_first { was_over(engine, turn_id) } else { Ok(true) };
    let (conversation, warnings) = take_up(&mut *store, &facts.turn_id, was_over, engine.clock.now())?;
    for warning in warnings {
        tracing::warn!(instance = %facts.instance, "{warning}");
    }
    Ok(ConversationLog { conversation, store })
}

/// Asks the orchestrator whether a turn of an earlier process has ended. Not for asynchronous code.
fn was_over(engine: &Engine, turn_id: &str) -> Result<bool, StoreError> {
    let (answer, told) = oneshot::channel();
    let _ = engine.commands.send(Command::IsOver { turn_id: turn_id.to_owned(), answer });
    told.blocking_recv().map_err(|_| StoreError { message: "the swarm has ended".to_owned() })
}

/// Reads a conversation for a turn that begins, and makes it whole. Gives back what could not be read, too.
///
/// Events that lie behind the base are of this turn, which was cut off and starts over with its journal; or of one that
/// was over and not folded when the process ended, and are folded now. One that was over because it could not go on (a
/// panic, an agent that is gone) may have left calls without results: they get one, as every call does. Or they are of one that
/// was not over and whose event is gone: a question, which counts from its answer on. It was never asked, or is asked again.
pub(crate) fn take_up(
    store: &mut dyn InstanceStore,
    turn_id: &str,
    was_over: impl Fn(&str) -> Result<bool, StoreError>,
    now: DateTime<Utc>,
) -> Result<(Conversation, Vec<String>), StoreError> {
    let mut stored = store.load()?;
    let warnings = std::mem::take(&mut stored.warnings);
    let counts = match turn_behind(&stored) {
        Some(turn) if turn == turn_id => false,
        // What is in the base was folded, so it was over.
        Some(turn) => is_in_base(&stored, turn) || was_over(turn)?,
        None => true,
    };
    if !counts {
        stored.events.clear();
        store.discard_events()?;
    }
    let mut is_folded = stored.events.is_empty();
    let (mut conversation, _) = Conversation::restore(stored);
    if let Some(message) = results_for_unanswered(&conversation, now) {
        // An append finds its target everywhere.
        let _ = conversation.apply(MessageEvent::Append { message });
        is_folded = false;
    }
    if !is_folded {
        store.fold(conversation.fold())?;
        conversation.folded();
    }
    Ok((conversation, warnings))
}

/// The turn whose events lie behind the base.
fn turn_behind(stored: &StoredConversation) -> Option<&str> {
    stored.events.iter().find_map(|event| match event {
        MessageEvent::Append { message } => turn_of_message(&message.id),
        _ => None,
    })
}

fn is_in_base(stored: &StoredConversation, turn_id: &str) -> bool {
    stored.base.iter().any(|message| is_message_of(&message.id, turn_id))
}

fn results_for_unanswered(conversation: &Conversation, now: DateTime<Utc>) -> Option<Message> {
    let calls = conversation.unanswered_calls();
    let last = conversation.last().filter(|_| !calls.is_empty())?;
    let results =
        calls.into_iter().flat_map(|call| step::result_parts(&step::interrupted_result(call)).collect::<Vec<_>>());
    Some(Message {
        id: format!("{}-interrupted", last.id),
        data: MessageData { role: Role::Tool, content: results.collect() },
        metadata: crate::JsonObject::new(),
        created_at: now,
        source: MessageSource::System,
    })
}

/// Makes the outcome durable: first the turn's events, then the record that says that it is over, then the fold. A turn that
/// the store has failed is not over: it is resumed.
async fn finish(mut context: TurnContext, ending: &mut Ending, result: TurnResult, mut meta: InstanceMeta) -> TurnEnd {
    let (engine, facts, event) = (Arc::clone(&ending.engine), Arc::clone(&ending.facts), Arc::clone(&ending.event));
    let mut handled = vec![event.id.clone()];
    handled.append(&mut context.progress.joined_ids);
    let answer = responses::answer(&event, &facts.trace, &result, engine.clock.now());
    let record = InboxRecord::Done {
        turn_id: result.turn_id.clone(),
        event_ids: handled.clone(),
        result: Box::new(result.clone()),
        asked_by: event.caller().cloned(),
        answer: answer.clone().map(Box::new),
        fold: None,
    };
    if result.error.as_ref().is_some_and(|error| error.code == STORE_FAILED) {
        return TurnEnd { result, handled: Vec::new(), answer: None, warm: None, meta };
    }
    bury(&engine, &event, &result).await;
    drop(context.journal);
    let standing = context.footing.secure().await;
    let durable = match standing {
        Ok(()) => make_durable(ending, context.log, context.states, record).await,
        Err(error) => Err(error),
    };
    match durable {
        Ok((log, is_carried)) => {
            meta.updated_at = engine.clock.now();
            meta.spending.add(result.usage, facts.agent.pricing.as_ref());
            let warm = tidy_up(&engine, &facts, log, &meta, is_carried).await;
            TurnEnd { result, handled, answer, warm, meta }
        }
        Err(error) => {
            // It is not over, whatever was told.
            ending.is_told = false;
            let result = TurnResult { finish_reason: FinishReason::Error, error: Some(store_failed(&error)), ..result };
            TurnEnd { result, handled: Vec::new(), answer: None, warm: None, meta }
        }
    }
}

async fn bury(engine: &Arc<Engine>, event: &AgentEvent, result: &TurnResult) {
    if result.finish_reason != FinishReason::Error {
        return;
    }
    let (engine, event, result) = (Arc::clone(engine), event.clone(), result.clone());
    let bury = move || dead_letters::bury(&engine, &event, &result, engine.clock.now());
    // It fails where the program ends: then the turn is not over either.
    let _ = tokio::task::spawn_blocking(bury).await;
}

/// Gives back the conversation, and whether the record has carried the fold.
async fn make_durable(
    ending: &mut Ending,
    log: ConversationLog,
    states: ExtensionStates,
    mut record: InboxRecord,
) -> Result<(ConversationLog, bool), StoreError> {
    let (engine, facts) = (&ending.engine, &ending.facts);
    if states.has_changes() {
        let (store, instance) = (Arc::clone(&engine.store), facts.instance.clone());
        blocking(move || states.save(&*store, &instance)).await?;
    }
    let (log, carried) = secure(log, &facts.turn_id).await?;
    let is_carried = carried.is_some();
    if let InboxRecord::Done { answer, fold, .. } = &mut record {
        *fold = carried.map(Box::new);
        if let Some(answer) = answer {
            taint::pass_on(engine, &facts.instance, &answer.target).await?;
        }
    }
    commit_end(ending, record).await?;
    Ok((log, is_carried))
}

/// Puts the record that ends a turn on disk. A turn that waits for the answer is told as soon as a kill can't undo it any more.
async fn commit_end(ending: &mut Ending, record: InboxRecord) -> Result<(), StoreError> {
    let result = match &record {
        InboxRecord::Done { result, .. } if ending.event.is_asked_by_turn() => result.clone(),
        _ => return commit(&ending.engine, record).await,
    };
    let (on_durable, durable) = Durable::new();
    if ending.engine.store.write(record, on_durable) {
        // Who watches hears of the end before anything that is made of the answer.
        ending.tell(&result);
        let answered = Command::Answered { event_id: ending.event.id.clone(), result, durable: durable.clone() };
        // Without an orchestrator nobody waits.
        let _ = ending.engine.commands.send(answered);
        // Let it go on first: it asks its model while this thread waits for the disk.
        tokio::task::yield_now().await;
        ending.engine.store.flush();
    }
    durable.wait().await
}

/// Makes the turn's messages safe: the record that ends it carries what is given back, or they are on disk.
async fn secure(mut log: ConversationLog, turn_id: &str) -> Result<(ConversationLog, Option<CarriedFold>), StoreError> {
    let carried = log.store.carry(turn_id, log.conversation.fold())?;
    if carried.is_some() {
        return Ok((log, carried));
    }
    blocking(move || log.store.sync().map(|()| (log, None))).await
}

/// Folds the turn, which is over whether this succeeds or not: the next turn does what could not be done. Gives back the
/// conversation where it may stay in memory.
async fn tidy_up(
    engine: &Arc<Engine>,
    facts: &TurnFacts,
    log: ConversationLog,
    meta: &InstanceMeta,
    is_carried: bool,
) -> Option<ConversationLog> {
    let tidied = fold(engine, facts, log, meta, is_carried).await;
    tidied.inspect_err(|error| tracing::warn!(instance = %facts.instance, %error, "a turn was not folded yet")).ok()
}

async fn fold(
    engine: &Arc<Engine>,
    facts: &TurnFacts,
    log: ConversationLog,
    meta: &InstanceMeta,
    is_carried: bool,
) -> Result<ConversationLog, StoreError> {
    let (store, idle) = (Arc::clone(&engine.store), InstanceMeta { status: InstanceStatus::Idle, ..meta.clone() });
    let fold = move || {
        let mut log = log;
        store.put_meta_soon(&idle);
        log.store.fold(log.conversation.fold())?;
        log.conversation.folded();
        Ok(log)
    };
    // A fold that is carried waits for no disk.
    let log = if is_carried { fold()? } else { blocking(fold).await? };
    engine.journal.close(&facts.instance, &facts.turn_id).await?;
    Ok(log)
}

/// Appends to the inbox and waits until it is on disk.
pub(crate) async fn commit(engine: &Engine, record: InboxRecord) -> Result<(), StoreError> {
    let (sender, receiver) = oneshot::channel();
    // The receiver is gone where the turn was dropped; the record counts all the same.
    engine.store.commit(record, Box::new(move |written| drop(sender.send(written))));
    receiver.await.unwrap_or_else(|_| Err(StoreError { message: "the inbox was closed".to_owned() }))
}

/// Runs what waits for the disk on a thread that may wait.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let joined = tokio::task::spawn_blocking(work).await;
    joined.unwrap_or_else(|_| {
        Err(StoreError { message: "the store panicked, or the runtime is shutting down".to_owned() })
    })
}

fn not_begun(facts: &TurnFacts, error: &StoreError) -> TurnResult {
    failed_result(facts.turn_id.clone(), store_failed(error))
}

/// The result of a turn that never got to a step.
pub(crate) fn failed_result(turn_id: String, error: TurnError) -> TurnResult {
    TurnResult {
        turn_id,
        finish_reason: FinishReason::Error,
        response_message: None,
        error: Some(error),
        usage: TokenUsage::default(),
        step_count: 0,
    }
}

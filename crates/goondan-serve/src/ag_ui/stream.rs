//! A run, event by event.

use std::collections::HashMap;
use std::convert::Infallible;

use axum::response::sse::{Event, KeepAlive, Sse};
use futures::Stream;
use goondan::Question;
use goondan::event::{FinishReason, RuntimeEvent, RuntimeEventKind, SwarmEvent, TurnResult};
use serde_json::{Value, json};
use tokio::sync::mpsc::{self, Sender};

use super::events;
use super::input::RunInput;
use super::run::Run;
use crate::asking;
use crate::problem::Problem;
use crate::service::Service;
use crate::watch::{News, Watch};

/// That many events may wait for a client that does not read.
const AHEAD: usize = 64;

/// The client is gone.
struct Gone;

struct Pump {
    service: Service,
    thread: String,
    run: String,
    turn: Turn,
    out: Sender<Event>,
    /// The step that runs: its id, and the name that the client knows it by.
    step: Option<(String, String)>,
    /// The message that is being said.
    message: Option<String>,
    /// What was said in the last message.
    said: String,
    /// How often the text of the step was begun again.
    resets: u32,
    /// Calls by the ids of the model, and the ids that the client knows them by.
    calls: HashMap<String, String>,
    /// What the client has is not what was said.
    is_off: bool,
}

/// Whose turn is shown.
struct Turn {
    id: String,
    event_id: String,
    instance: goondan::ids::InstanceId,
}

type Events =
    Sse<axum::response::sse::KeepAliveStream<std::pin::Pin<Box<dyn Stream<Item = Result<Event, Infallible>> + Send>>>>;

fn sse(stream: impl Stream<Item = Result<Event, Infallible>> + Send + 'static) -> Events {
    let stream: std::pin::Pin<Box<dyn Stream<Item = _> + Send>> = Box::pin(stream);
    Sse::new(stream).keep_alive(KeepAlive::default())
}

fn event(value: &Value) -> Event {
    Event::default().data(value.to_string())
}

/// A run that came to nothing before it has begun.
pub(super) fn refused(problem: &Problem) -> Events {
    let failed = events::failed(&problem.code.to_string(), &problem.message, problem.suggestion.as_deref());
    sse(futures::stream::iter([Ok(event(&failed))]))
}

/// Shows a run.
pub(super) fn respond(service: &Service, input: &RunInput, run: Run) -> Events {
    let (out, mut waiting) = mpsc::channel(AHEAD);
    let ended = service.inner.ended.clone();
    let Run { instance, event_id, turn_id, watch, is_again } = run;
    let pump = Pump {
        service: service.clone(),
        thread: input.thread_id.clone(),
        run: input.run_id.clone(),
        turn: Turn { id: turn_id, event_id, instance },
        out,
        step: None,
        message: None,
        said: String::new(),
        resets: 0,
        calls: HashMap::new(),
        is_off: is_again,
    };
    tokio::spawn(async move {
        // A client that is gone needs no word.
        ended.run_until_cancelled(pump.run(watch)).await;
    });
    sse(futures::stream::poll_fn(move |context| waiting.poll_recv(context).map(|event| event.map(Ok))))
}

impl Pump {
    async fn run(mut self, mut watch: Watch) -> Result<(), Gone> {
        self.send(&json!({"type": "RUN_STARTED", "threadId": self.thread, "runId": self.run})).await?;
        loop {
            if let Some(running) = watch.running.take().filter(|turn| turn.turn_id == self.turn.id) {
                self.catch_up(&running.text).await?;
            }
            if self.follow(&mut watch).await? {
                watch.park();
                return Ok(());
            }
            self.is_off = true;
            match Watch::begin(&self.service, &self.turn.event_id, &self.turn.instance).await {
                Some(again) => watch = again,
                None => return Ok(()),
            }
        }
    }

    /// Follows the turn. Tells whether that is all; otherwise something was missed.
    async fn follow(&mut self, watch: &mut Watch) -> Result<bool, Gone> {
        let closed = self.out.clone();
        // A question comes by another way than events, and may be here before its call is.
        let mut asked: Option<Question> = None;
        loop {
            if asked.as_ref().is_some_and(|question| !self.awaits_call_of(question)) {
                self.interrupt(watch.trace_id()).await?;
                return Ok(true);
            }
            let news = tokio::select! {
                news = watch.next() => news,
                () = closed.closed() => return Err(Gone),
            };
            match news {
                News::Seen(seen) => match &seen.event {
                    SwarmEvent::Text { turn_id, delta, .. } if *turn_id == self.turn.id => self.say(delta).await?,
                    SwarmEvent::TextReset { turn_id, .. } if *turn_id == self.turn.id => self.begin_again().await?,
                    SwarmEvent::Runtime(event) => self.happened(event).await?,
                    _ => {}
                },
                News::Asked(question) => asked = Some(question),
                // Another one that is open comes as the next.
                News::Answered => asked = None,
                News::Over(result) => {
                    self.end(&result).await?;
                    return Ok(true);
                }
                News::Missed => return Ok(false),
                News::Gone => {
                    let words = "The swarm ended before the turn did. The turn resumes at the next start.";
                    self.close().await?;
                    let code = goondan::spec::Code::SWARM_STOPPED.to_string();
                    self.send(&events::failed(&code, words, None)).await?;
                    return Ok(true);
                }
            }
        }
    }

    /// Whether the call that a question is about has still to be told. Who came later may have missed it.
    fn awaits_call_of(&self, question: &Question) -> bool {
        let is_own = question.request.instance == self.turn.instance;
        is_own && !self.is_off && !self.calls.contains_key(&question.request.tool_call_id)
    }

    /// Something in the chain. What other agents do on the way is not shown.
    async fn happened(&mut self, event: &RuntimeEvent) -> Result<(), Gone> {
        match &event.kind {
            RuntimeEventKind::StepStarted { turn_id, step_id, step_index } if *turn_id == self.turn.id => {
                self.close().await?;
                let name = format!("step {}", step_index + 1);
                self.send(&json!({"type": "STEP_STARTED", "stepName": name})).await?;
                self.step = Some((step_id.clone(), name));
                (self.resets, self.said) = (0, String::new());
                Ok(())
            }
            RuntimeEventKind::StepCompleted { turn_id, .. } | RuntimeEventKind::StepFailed { turn_id, .. }
                if *turn_id == self.turn.id =>
            {
                self.close().await
            }
            RuntimeEventKind::ToolCalled { turn_id, tool_call_id, tool_name, step_id, arguments, .. }
                if *turn_id == self.turn.id =>
            {
                self.end_message().await?;
                let id = events::call_id(step_id, tool_call_id);
                for event in events::call(&id, step_id, tool_name, arguments) {
                    self.send(&event).await?;
                }
                self.calls.insert(tool_call_id.clone(), id);
                Ok(())
            }
            RuntimeEventKind::ToolCompleted { turn_id, tool_call_id, step_id, shown, .. }
                if *turn_id == self.turn.id =>
            {
                let id = events::call_id(step_id, tool_call_id);
                self.send(&events::result(&id, &events::shown(shown))).await
            }
            RuntimeEventKind::ToolFailed { turn_id, tool_call_id, step_id, error_message, .. }
                if *turn_id == self.turn.id =>
            {
                let id = events::call_id(step_id, tool_call_id);
                self.send(&events::result(&id, error_message)).await
            }
            _ => Ok(()),
        }
    }

    async fn say(&mut self, delta: &str) -> Result<(), Gone> {
        if delta.is_empty() {
            return Ok(());
        }
        let id = match &self.message {
            Some(id) => id.clone(),
            None => {
                let step = self.step.as_ref().map_or(&self.turn.id, |(step_id, _)| step_id);
                // What was said can't be taken back: it is said again in a message of its own.
                let id = if self.resets == 0 { step.clone() } else { format!("{step}+{}", self.resets) };
                self.send(&json!({"type": "TEXT_MESSAGE_START", "messageId": id, "role": "assistant"})).await?;
                self.message = Some(id.clone());
                self.said.clear();
                id
            }
        };
        self.said.push_str(delta);
        self.send(&json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": id, "delta": delta})).await
    }

    /// The text of the step so far is void.
    async fn begin_again(&mut self) -> Result<(), Gone> {
        if self.message.is_some() {
            self.is_off = true;
            self.resets += 1;
        }
        self.end_message().await
    }

    /// Says what was missed of a step.
    async fn catch_up(&mut self, text: &str) -> Result<(), Gone> {
        let more = text.strip_prefix(&*self.said).map(str::to_owned);
        match more.filter(|_| self.message.is_some()) {
            Some(more) => self.say(&more).await,
            None => {
                self.begin_again().await?;
                self.say(text).await
            }
        }
    }

    async fn end_message(&mut self) -> Result<(), Gone> {
        match self.message.take() {
            Some(id) => self.send(&json!({"type": "TEXT_MESSAGE_END", "messageId": id})).await,
            None => Ok(()),
        }
    }

    /// Ends what is being said, and the step.
    async fn close(&mut self) -> Result<(), Gone> {
        self.end_message().await?;
        match self.step.take() {
            Some((_, name)) => self.send(&json!({"type": "STEP_FINISHED", "stepName": name})).await,
            None => Ok(()),
        }
    }

    /// The run ends with questions, and another one will bring the answers.
    async fn interrupt(&mut self, trace_id: &str) -> Result<(), Gone> {
        self.close().await?;
        let questions = asking::all_asked(&self.service, trace_id);
        let interrupts: Vec<Value> = questions
            .map(|question| {
                let is_own = question.request.instance == self.turn.instance;
                let call = self.calls.get(&question.request.tool_call_id).filter(|_| is_own);
                events::interrupt(&question, call)
            })
            .collect();
        let outcome = json!({"type": "interrupt", "interrupts": interrupts});
        let end = json!({"type": "RUN_FINISHED", "threadId": self.thread, "runId": self.run, "outcome": outcome});
        self.send(&end).await
    }

    async fn end(&mut self, result: &TurnResult) -> Result<(), Gone> {
        let text = result.response_text();
        if result.finish_reason == FinishReason::TextResponse && self.said != text {
            // It came in one piece, or an extension has changed it.
            if self.said.is_empty() && !self.is_off {
                self.say(&text).await?;
            } else {
                self.is_off = true;
            }
        }
        self.close().await?;
        if self.is_off {
            let messages = self.service.swarm().conversation(&self.turn.instance).await.unwrap_or_default();
            self.send(&events::snapshot(messages.iter().map(|message| &**message))).await?;
        }
        let end = match (&result.finish_reason, &result.error) {
            (FinishReason::TextResponse, _) => events::finished(&self.thread, &self.run, result),
            (FinishReason::Cancelled, _) => events::failed("cancelled", "The turn was cancelled.", None),
            (FinishReason::MaxSteps, _) => events::failed("max_steps", "The agent has used up its steps.", None),
            (FinishReason::Error, Some(error)) => {
                events::failed(&error.code, &error.message, error.suggestion.as_deref())
            }
            (FinishReason::Error, None) => events::failed("error", "The turn has failed.", None),
        };
        self.send(&end).await
    }

    async fn send(&self, value: &Value) -> Result<(), Gone> {
        self.out.send(event(value)).await.map_err(|_| Gone)
    }
}

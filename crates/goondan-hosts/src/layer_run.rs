//! One run of a layer, or of `register`: what the code says meanwhile is heard, its questions go to the desk one after the
//! other, and its clock runs only while it works.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use goondan_core::ports::extension::{AgentQuestion, LayerDesk, Seat};
use goondan_core::ports::tool::ToolError;
use goondan_spec::Code;
use serde_json::Value;
use tokio::time::Instant;

use crate::calls::{Ended, Event, Receivers};
use crate::errors;
use crate::process::Process;
use crate::sessions::Session;
use crate::wire::{Answer, Down, Kept, NextAsk};

/// How long a cancelled layer may go on before its host is given up.
const GRACE: Duration = Duration::from_secs(1);

/// Questions that may wait.
const MOST_WAITING: usize = 64;

/// A question, and what came of it.
type Asked = (String, Result<Value, ToolError>);

/// What a layer has asked before its host died: run once more, it gets the same answers.
#[derive(Default)]
pub(crate) struct Memory {
    answers: Vec<Asked>,
    /// How many of them it has got.
    given: usize,
}

impl Memory {
    /// Whether anything was asked.
    pub(crate) fn is_empty(&self) -> bool {
        self.answers.is_empty()
    }

    /// It is run once more.
    pub(crate) fn rewind(&mut self) {
        self.given = 0;
    }

    /// What came of the question that is asked now, where it was asked before.
    fn recall(&mut self, name: &str) -> Option<Result<Value, ToolError>> {
        let (known, answer) = self.answers.get(self.given)?;
        if known != name {
            return None;
        }
        self.given += 1;
        Some(answer.clone())
    }

    fn keep(&mut self, name: String, answer: Result<Value, ToolError>) {
        self.answers.truncate(self.given);
        self.answers.push((name, answer));
        self.given += 1;
    }
}

/// A run of some code of an extension.
pub(crate) struct LayerRun<'a> {
    pub(crate) process: Arc<Process>,
    pub(crate) receivers: Receivers,
    pub(crate) seat: &'a Seat,
    /// Whom it belongs to; nobody while it registers.
    pub(crate) session: Option<&'a Session>,
    pub(crate) with_conversation: bool,
    /// How long it may work at a stretch.
    pub(crate) limit: Duration,
}

/// Where the code is given up before its answer, its host is told, and given up if that does not help.
struct Leave<'a> {
    process: &'a Arc<Process>,
    id: u64,
    is_over: bool,
}

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.process.calls().forget(self.id);
            self.process.tell(&Down::Cancel { id: self.id });
            self.process.retire();
        }
    }
}

/// A question that waits for its turn.
struct Waiting {
    ask: u64,
    name: String,
    payload: Value,
}

impl LayerRun<'_> {
    /// Runs it to its end.
    pub(crate) async fn run(mut self, mut desk: Option<&mut dyn LayerDesk>, memory: &mut Memory) -> Ended {
        let process = Arc::clone(&self.process);
        let mut leave = Leave { process: &process, id: self.receivers.id, is_over: false };
        let mut waiting = VecDeque::new();
        let mut ended = None;
        loop {
            // An answer whose questions are still open is the last word all the same.
            if let Some(ended) = ended.take() {
                leave.is_over = true;
                self.hear_the_rest();
                return self.kept(ended);
            }
            if let Some(Waiting { ask, name, payload }) = waiting.pop_front() {
                let answer = match desk.as_deref_mut() {
                    Some(desk) => self.perform(&name, payload, desk, memory, &mut waiting, &mut ended).await,
                    None => Err(ToolError::new("nothing can be asked while an extension registers")),
                };
                self.answer(ask, answer);
                continue;
            }
            match self.work(&mut waiting).await {
                Ok(over) => ended = over,
                Err(error) => return Err(error).into(),
            }
        }
    }

    /// The code works: until it asks something, or has come to its end.
    async fn work(&mut self, waiting: &mut VecDeque<Waiting>) -> Result<Option<Ended>, ToolError> {
        let cancellation = &self.seat.cancellation;
        let until = Instant::now() + self.limit;
        let mut told_at = None;
        loop {
            let lost = told_at.map_or(until, |at: Instant| until.min(at + GRACE));
            tokio::select! {
                biased;
                answer = &mut self.receivers.answer => {
                    return Ok(Some(answer.unwrap_or_else(|_| Err(errors::cancelled()).into())));
                }
                () = cancellation.cancelled(), if told_at.is_none() => {
                    told_at = Some(Instant::now());
                    self.process.tell(&Down::Cancel { id: self.receivers.id });
                }
                () = tokio::time::sleep_until(lost) => return Err(match told_at {
                    Some(_) => ToolError::new("the turn was cancelled").code(Code::TURN_CANCELLED),
                    None => errors::too_long(self.limit),
                }),
                Some(event) = self.receivers.events.recv() => {
                    self.hear(event, waiting);
                    if !waiting.is_empty() {
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// Has the desk answer a question, and hears the code meanwhile.
    async fn perform(
        &mut self,
        name: &str,
        payload: Value,
        desk: &mut dyn LayerDesk,
        memory: &mut Memory,
        waiting: &mut VecDeque<Waiting>,
        ended: &mut Option<Ended>,
    ) -> Result<Value, ToolError> {
        let (answer, is_recalled) = match memory.recall(name) {
            // What it has changed before was taken up when it was asked first.
            Some(known) => (known, true),
            None => {
                let seat = self.seat;
                let asking = ask(desk, seat, name, payload);
                tokio::pin!(asking);
                let answer = loop {
                    tokio::select! {
                        biased;
                        answer = &mut asking => break answer,
                        over = &mut self.receivers.answer, if ended.is_none() => {
                            *ended = Some(over.unwrap_or_else(|_| Err(errors::cancelled()).into()));
                        }
                        Some(event) = self.receivers.events.recv() => self.hear(event, waiting),
                    }
                };
                memory.keep(name.to_owned(), answer.clone());
                (answer, false)
            }
        };
        match (name, answer) {
            ("next", Ok(mut wrapped)) => {
                let news = self.session.map(|session| session.news(self.seat, self.with_conversation));
                let mut news = news.unwrap_or_default();
                if is_recalled {
                    news.state = self.seat.state.get().0.map(|value| Kept { value });
                }
                wrapped["news"] = serde_json::to_value(news).map_err(|error| ToolError::new(error.to_string()))?;
                Ok(wrapped)
            }
            (_, answer) => answer,
        }
    }

    fn hear(&self, event: Event, waiting: &mut VecDeque<Waiting>) {
        match event {
            Event::Log(level, message, fields) => self.seat.logger.log(level, &message, fields),
            Event::Progress(..) => {}
            Event::Ask { ask, .. } if waiting.len() >= MOST_WAITING => {
                self.answer(ask, Err(ToolError::new(format!("{MOST_WAITING} questions are open already"))));
            }
            Event::Ask { ask, name, payload } => waiting.push_back(Waiting { ask, name, payload }),
        }
    }

    /// What was said before the answer. Questions of code that has come to its end are nobody's.
    fn hear_the_rest(&mut self) {
        while let Ok(event) = self.receivers.events.try_recv() {
            if !matches!(event, Event::Ask { .. }) {
                self.hear(event, &mut VecDeque::new());
            }
        }
    }

    fn answer(&self, ask: u64, outcome: Result<Value, ToolError>) {
        let (value, error) = match outcome {
            Ok(value) => (Some(value), None),
            Err(error) => (None, Some(error.into())),
        };
        self.process.tell(&Down::Answer(Answer { ask, value, error }));
    }

    /// What the extension keeps from now on.
    fn kept(&self, mut ended: Ended) -> Ended {
        if let Some(Kept { value }) = ended.state.take() {
            self.seat.state.set(value);
        }
        ended
    }
}

async fn ask(desk: &mut dyn LayerDesk, seat: &Seat, name: &str, payload: Value) -> Result<Value, ToolError> {
    let wrong = |error: serde_json::Error| ToolError::new(format!("`{name}` was asked wrongly: {error}"));
    match name {
        "next" => {
            let NextAsk { changes, state } = serde_json::from_value(payload).map_err(wrong)?;
            if let Some(Kept { value }) = state {
                seat.state.set(value);
            }
            let wrapped = desk.next(changes).await?;
            serde_json::to_value(wrapped).map_err(|error| ToolError::new(error.to_string()))
        }
        "request" => {
            let what: AgentQuestion = serde_json::from_value(payload).map_err(wrong)?;
            desk.request(what).await
        }
        "send" => {
            let what: AgentQuestion = serde_json::from_value(payload).map_err(wrong)?;
            desk.send(what).await
        }
        _ => Err(ToolError::new(format!("there is no operation `{name}`")).suggest("use next, request or send")),
    }
}

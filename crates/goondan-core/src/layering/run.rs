//! One run of a layer, or of `register`: what the code says meanwhile is heard, its questions go to the desk one after the
//! other, and its clock runs only while it works.

use std::collections::VecDeque;
use std::time::Duration;

use goondan_spec::Code;
use serde_json::Value;
use tokio::time::Instant;

use super::{Ended, Event, Heard, Kept, Line, NextAsk, Session};
use crate::ports::extension::{AgentQuestion, LayerDesk, Seat};
use crate::ports::tool::ToolError;

/// How long a cancelled layer may go on before it is given up.
const GRACE: Duration = Duration::from_secs(1);

/// Questions that may wait.
const MOST_WAITING: usize = 64;

/// A question, and what came of it.
type Asked = (String, Result<Value, ToolError>);

/// What a layer has asked before its host died: run once more, it gets the same answers.
#[derive(Default)]
pub(super) struct Memory {
    answers: Vec<Asked>,
    /// How many of them it has got.
    given: usize,
}

impl Memory {
    /// Whether anything was asked.
    pub(super) fn is_empty(&self) -> bool {
        self.answers.is_empty()
    }

    /// It is run once more.
    pub(super) fn rewind(&mut self) {
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
pub(super) struct LayerRun<'a> {
    line: Box<dyn Line>,
    seat: &'a Seat,
    /// Whom it belongs to, and whether it sees the conversation; nobody while it registers.
    session: Option<(&'a Session, bool)>,
    /// How long it may work at a stretch.
    limit: Duration,
    waiting: VecDeque<Waiting>,
    ended: Option<Ended>,
    has_next: bool,
    /// What ends it, whatever it says itself.
    broken: Option<ToolError>,
}

/// A question that waits for its turn.
struct Waiting {
    ask: u64,
    name: String,
    payload: Value,
}

impl<'a> LayerRun<'a> {
    /// What was begun on `line` for who sits at `seat`.
    pub(super) fn new(
        line: Box<dyn Line>,
        seat: &'a Seat,
        session: Option<(&'a Session, bool)>,
        limit: Duration,
    ) -> Self {
        let (waiting, ended) = (VecDeque::new(), None);
        LayerRun {
            line,
            seat,
            session,
            limit,
            waiting,
            ended,
            has_next: false,
            broken: None,
        }
    }

    /// Runs it to its end.
    pub(super) async fn run(
        mut self,
        mut desk: Option<&mut dyn LayerDesk>,
        memory: &mut Memory,
    ) -> Ended {
        loop {
            // An answer whose questions are still open is the last word all the same.
            if let Some(ended) = self.ended.take() {
                self.hear_the_rest();
                return self.end(ended);
            }
            if let Some(Waiting { ask, name, payload }) = self.waiting.pop_front() {
                let answer = match desk.as_deref_mut() {
                    Some(desk) => self.perform(&name, payload, desk, memory).await,
                    None => Err(ToolError::new(
                        "nothing can be asked while an extension registers",
                    )),
                };
                self.line.answer(ask, answer);
                continue;
            }
            if let Err(error) = self.work().await {
                return Err(error).into();
            }
        }
    }

    /// The code works: until it asks something, or has come to its end.
    async fn work(&mut self) -> Result<(), ToolError> {
        let cancellation = &self.seat.cancellation;
        let until = Instant::now() + self.limit;
        let mut told_at = None;
        while self.waiting.is_empty() && self.ended.is_none() {
            let lost = told_at.map_or(until, |at: Instant| until.min(at + GRACE));
            tokio::select! {
                biased;
                () = cancellation.cancelled(), if told_at.is_none() => {
                    told_at = Some(Instant::now());
                    self.line.cancel();
                }
                () = tokio::time::sleep_until(lost) => return Err(match told_at {
                    Some(_) => ToolError::new("the turn was cancelled").code(Code::TURN_CANCELLED),
                    None => too_long(self.limit),
                }),
                // Last: code that never stops talking must not keep the others waiting.
                heard = self.line.hear() => self.take(heard),
            }
        }
        Ok(())
    }

    /// Has the desk answer a question, and hears the code meanwhile.
    async fn perform(
        &mut self,
        name: &str,
        payload: Value,
        desk: &mut dyn LayerDesk,
        memory: &mut Memory,
    ) -> Result<Value, ToolError> {
        if name == "next" && std::mem::replace(&mut self.has_next, true) {
            let error = ToolError::new("`next` was called a second time").code(Code::EXT_NEXT);
            let error = error.suggest("Call it once, and keep its result.");
            self.broken = Some(error.clone());
            return Err(error);
        }
        let (answer, is_recalled) = match memory.recall(name) {
            // What it has changed before was taken up when it was asked first.
            Some(known) => (known, true),
            None => {
                let asking = ask(
                    desk,
                    self.seat,
                    self.session.map(|(session, _)| session),
                    name,
                    payload,
                );
                tokio::pin!(asking);
                let answer = loop {
                    tokio::select! {
                        biased;
                        answer = &mut asking => break answer,
                        heard = self.line.hear(), if self.ended.is_none() => self.take(heard),
                    }
                };
                memory.keep(name.to_owned(), answer.clone());
                (answer, false)
            }
        };
        match (name, answer) {
            ("next", Ok(mut wrapped)) => {
                let news = self
                    .session
                    .map(|(session, with_conversation)| session.news(self.seat, with_conversation));
                let mut news = news.unwrap_or_default();
                if is_recalled {
                    news.state = self.seat.state.get().0.map(|value| Kept { value });
                }
                wrapped["news"] = serde_json::to_value(news)
                    .map_err(|error| ToolError::new(error.to_string()))?;
                Ok(wrapped)
            }
            (_, answer) => answer,
        }
    }

    fn take(&mut self, heard: Heard) {
        match heard {
            Heard::Ended(ended) => self.ended = Some(*ended),
            Heard::Said(Event::Log(level, message, fields)) => {
                self.seat.logger.log(level, &message, fields)
            }
            Heard::Said(Event::Progress(..)) => {}
            Heard::Said(Event::Ask { ask, .. }) if self.waiting.len() >= MOST_WAITING => {
                let many = format!("{MOST_WAITING} questions are open already");
                self.line.answer(ask, Err(ToolError::new(many)));
            }
            Heard::Said(Event::Ask { ask, name, payload }) => {
                self.waiting.push_back(Waiting { ask, name, payload });
            }
        }
    }

    /// What was said before the answer. Questions of code that has come to its end are nobody's.
    fn hear_the_rest(&mut self) {
        while let Some(event) = self.line.rest() {
            if !matches!(event, Event::Ask { .. }) {
                self.take(Heard::Said(event));
            }
        }
    }

    /// The end: what the extension keeps is kept, and a broken rule is what it comes to.
    fn end(self, mut ended: Ended) -> Ended {
        if let Some(Kept { value }) = ended.state.take() {
            self.seat.state.set(value);
        }
        if let Some((session, _)) = self.session {
            session.listen(ended.listens.take());
        }
        if let Some(error) = self.broken {
            ended.outcome = Err(error);
        }
        ended
    }
}

/// The code of an extension worked longer at a stretch than it may.
fn too_long(limit: Duration) -> ToolError {
    ToolError::new(format!(
        "it worked for more than {} ms at a stretch",
        limit.as_millis()
    ))
    .code(Code::EXT_TIMEOUT)
    .suggest("Look for what it waits for, or raise `spec.timeoutMs` of the Extension.")
}

async fn ask(
    desk: &mut dyn LayerDesk,
    seat: &Seat,
    session: Option<&Session>,
    name: &str,
    payload: Value,
) -> Result<Value, ToolError> {
    let wrong =
        |error: serde_json::Error| ToolError::new(format!("`{name}` was asked wrongly: {error}"));
    match name {
        "next" => {
            let NextAsk {
                changes,
                state,
                listens,
            } = serde_json::from_value(payload).map_err(wrong)?;
            if let Some(session) = session {
                session.listen(listens);
            }
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
        _ => Err(ToolError::new(format!("there is no operation `{name}`"))
            .suggest("use next, request or send")),
    }
}

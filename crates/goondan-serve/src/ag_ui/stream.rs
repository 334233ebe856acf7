//! A run, event by event.

use std::collections::HashMap;

use goondan::Question;
use goondan::event::{FinishReason, RuntimeEvent, RuntimeEventKind, SwarmEvent, TurnResult};
use goondan::ids::InstanceId;
use goondan::spec::Code;
use serde_json::{Value, json};

use super::events;
use super::input::RunInput;
use super::run::Run;
use crate::asking;
use crate::failure::Failure;
use crate::follow::{self, Events, Flow, Gone, Out, Teller};
use crate::hub::Seen;
use crate::problem::Problem;
use crate::service::Service;

/// Tells of a run.
struct Telling {
    service: Service,
    thread: String,
    run: String,
    turn_id: String,
    trace_id: String,
    instance: InstanceId,
    out: Out,
    /// The step that runs: its id, and the name that the client knows it by.
    step: Option<(String, String)>,
    /// The message that is being said.
    message: Option<String>,
    /// Id of the reasoning that is open.
    reasoning: Option<String>,
    /// Number of reasoning messages in the step.
    reasoning_count: u32,
    /// What was said in the last message.
    said: String,
    /// How often the text of the step was begun again.
    resets: u32,
    /// Calls by the ids of the model, and the ids that the client knows them by.
    calls: HashMap<String, String>,
    /// A question comes by another way than events, and may be here before its call is.
    asked: Option<Question>,
    /// What the client has is not what was said.
    is_off: bool,
}

/// A run that came to nothing before it has begun.
pub(super) fn refused(problem: &Problem) -> Events {
    let code = problem.code.to_string();
    follow::respond_once(&events::failed(
        &code,
        &problem.message,
        problem.suggestion.as_deref(),
    ))
}

/// Shows a run.
pub(super) fn respond(service: &Service, input: &RunInput, run: Run) -> Events {
    let Run {
        instance,
        turn_id,
        watch,
        is_again,
    } = run;
    let (service, trace_id) = (service.clone(), watch.trace_id().to_owned());
    follow::respond(watch, |out| Telling {
        service,
        thread: input.thread_id.clone(),
        run: input.run_id.clone(),
        turn_id,
        trace_id,
        instance,
        out,
        step: None,
        message: None,
        reasoning: None,
        reasoning_count: 0,
        said: String::new(),
        resets: 0,
        calls: HashMap::new(),
        asked: None,
        is_off: is_again,
    })
}

impl Teller for Telling {
    fn turn_id(&self) -> &str {
        &self.turn_id
    }

    async fn begin(&mut self, _: bool) -> Result<Flow, Gone> {
        self.out
            .send(&json!({"type": "RUN_STARTED", "threadId": self.thread, "runId": self.run}))
            .await?;
        Ok(Flow::More)
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

    async fn seen(&mut self, seen: &Seen) -> Result<Flow, Gone> {
        match &seen.event {
            SwarmEvent::Text { turn_id, delta, .. } if *turn_id == self.turn_id => {
                self.say(delta).await?
            }
            SwarmEvent::Reasoning { turn_id, delta, .. } if *turn_id == self.turn_id => {
                self.reason(delta).await?
            }
            SwarmEvent::TextReset { turn_id, .. } if *turn_id == self.turn_id => {
                self.begin_again().await?
            }
            SwarmEvent::Runtime(event) => self.happened(event).await?,
            _ => {}
        }
        self.interrupt().await
    }

    async fn asked(&mut self, question: &Question) -> Result<Flow, Gone> {
        self.asked = Some(question.clone());
        self.interrupt().await
    }

    async fn answered(&mut self) -> Result<(), Gone> {
        // Another one that is open comes as the next.
        self.asked = None;
        Ok(())
    }

    fn missed(&mut self) {
        (self.asked, self.is_off) = (None, true);
    }

    async fn over(&mut self, result: &TurnResult) -> Result<(), Gone> {
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
            let messages = self
                .service
                .swarm()
                .conversation(&self.instance)
                .await
                .unwrap_or_default();
            self.out
                .send(&events::snapshot(messages.iter().map(|message| &**message)))
                .await?;
        }
        if let Some(reason) = &result.model_finish_reason {
            self.out.send(&events::cut(reason)).await?;
        }
        let end = match Failure::of(result) {
            None => events::finished(&self.thread, &self.run, result),
            Some(why) => events::failed(why.code, why.message, why.suggestion),
        };
        self.out.send(&end).await
    }

    async fn stopped(&mut self) -> Result<(), Gone> {
        self.close().await?;
        let words = "The swarm ended before the turn did. The turn resumes at the next start.";
        self.out
            .send(&events::failed(
                &Code::SWARM_STOPPED.to_string(),
                words,
                None,
            ))
            .await
    }
}

impl Telling {
    /// Whether the call that a question is about has still to be told. Who came later may have missed it.
    fn awaits_call_of(&self, question: &Question) -> bool {
        let is_own = question.request.instance == self.instance;
        is_own && !self.is_off && !self.calls.contains_key(&question.request.tool_call_id)
    }

    /// Something in the chain. What other agents do on the way is not shown.
    async fn happened(&mut self, event: &RuntimeEvent) -> Result<(), Gone> {
        match &event.kind {
            RuntimeEventKind::StepStarted {
                turn_id,
                step_id,
                step_index,
            } if *turn_id == self.turn_id => {
                self.close().await?;
                let name = format!("step {}", step_index + 1);
                self.out
                    .send(&json!({"type": "STEP_STARTED", "stepName": name}))
                    .await?;
                self.step = Some((step_id.clone(), name));
                (self.resets, self.reasoning_count, self.said) = (0, 0, String::new());
                Ok(())
            }
            RuntimeEventKind::StepCompleted { turn_id, .. }
            | RuntimeEventKind::StepFailed { turn_id, .. }
                if *turn_id == self.turn_id =>
            {
                self.close().await
            }
            RuntimeEventKind::ToolCalled {
                turn_id,
                tool_call_id,
                tool_name,
                step_id,
                arguments,
                ..
            } if *turn_id == self.turn_id => {
                self.end_message().await?;
                let id = events::call_id(step_id, tool_call_id);
                for event in events::call(&id, step_id, tool_name, arguments) {
                    self.out.send(&event).await?;
                }
                self.calls.insert(tool_call_id.clone(), id);
                Ok(())
            }
            RuntimeEventKind::ToolCompleted {
                turn_id,
                tool_call_id,
                step_id,
                shown,
                ..
            } if *turn_id == self.turn_id => {
                let id = events::call_id(step_id, tool_call_id);
                self.out
                    .send(&events::result(&id, &events::shown(shown)))
                    .await
            }
            RuntimeEventKind::ToolFailed {
                turn_id,
                tool_call_id,
                step_id,
                error_message,
                ..
            } if *turn_id == self.turn_id => {
                let id = events::call_id(step_id, tool_call_id);
                self.out.send(&events::result(&id, error_message)).await
            }
            kind @ RuntimeEventKind::ModelRetrying { turn_id, .. } if *turn_id == self.turn_id => {
                self.out.send(&events::retrying(kind)).await
            }
            _ => Ok(()),
        }
    }

    async fn say(&mut self, delta: &str) -> Result<(), Gone> {
        if delta.is_empty() {
            return Ok(());
        }
        self.end_reasoning().await?;
        let id = match &self.message {
            Some(id) => id.clone(),
            None => {
                let step = self
                    .step
                    .as_ref()
                    .map_or(&self.turn_id, |(step_id, _)| step_id);
                // What was said can't be taken back: it is said again in a message of its own.
                let id = if self.resets == 0 {
                    step.clone()
                } else {
                    format!("{step}+{}", self.resets)
                };
                self.out.send(&json!({"type": "TEXT_MESSAGE_START", "messageId": id, "role": "assistant"})).await?;
                self.message = Some(id.clone());
                self.said.clear();
                id
            }
        };
        self.said.push_str(delta);
        self.out
            .send(&json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": id, "delta": delta}))
            .await
    }

    async fn reason(&mut self, delta: &str) -> Result<(), Gone> {
        if delta.is_empty() {
            return Ok(());
        }
        let id = match &self.reasoning {
            Some(id) => id.clone(),
            None => {
                let step = self.step.as_ref();
                let step = step.map_or(&self.turn_id, |(step_id, _)| step_id);
                let id = format!("{step}/reasoning-{}", self.reasoning_count);
                self.reasoning_count += 1;
                for event in events::reasoning_start(&id) {
                    self.out.send(&event).await?;
                }
                self.reasoning = Some(id.clone());
                id
            }
        };
        self.out
            .send(&json!({"type": "REASONING_MESSAGE_CONTENT", "messageId": id, "delta": delta}))
            .await
    }

    async fn end_reasoning(&mut self) -> Result<(), Gone> {
        if let Some(id) = self.reasoning.take() {
            for event in events::reasoning_end(&id) {
                self.out.send(&event).await?;
            }
        }
        Ok(())
    }

    /// The text of the step so far is void.
    async fn begin_again(&mut self) -> Result<(), Gone> {
        if self.message.is_some() {
            self.is_off = true;
            self.resets += 1;
        }
        self.end_message().await
    }

    async fn end_message(&mut self) -> Result<(), Gone> {
        self.end_reasoning().await?;
        match self.message.take() {
            Some(id) => {
                self.out
                    .send(&json!({"type": "TEXT_MESSAGE_END", "messageId": id}))
                    .await
            }
            None => Ok(()),
        }
    }

    /// Ends what is being said, and the step.
    async fn close(&mut self) -> Result<(), Gone> {
        self.end_message().await?;
        match self.step.take() {
            Some((_, name)) => {
                self.out
                    .send(&json!({"type": "STEP_FINISHED", "stepName": name}))
                    .await
            }
            None => Ok(()),
        }
    }

    /// Once the call is told that a question is about, the run ends with the questions, and another one will bring the answers.
    async fn interrupt(&mut self) -> Result<Flow, Gone> {
        if self
            .asked
            .as_ref()
            .is_none_or(|question| self.awaits_call_of(question))
        {
            return Ok(Flow::More);
        }
        self.close().await?;
        let questions = asking::all_asked(&self.service, &self.trace_id);
        let interrupts: Vec<Value> = questions
            .map(|question| {
                let is_own = question.request.instance == self.instance;
                let call = self
                    .calls
                    .get(&question.request.tool_call_id)
                    .filter(|_| is_own);
                events::interrupt(&question, call)
            })
            .collect();
        let outcome = json!({"type": "interrupt", "interrupts": interrupts});
        let end = json!({"type": "RUN_FINISHED", "threadId": self.thread, "runId": self.run, "outcome": outcome});
        self.out.send(&end).await?;
        Ok(Flow::Enough)
    }
}

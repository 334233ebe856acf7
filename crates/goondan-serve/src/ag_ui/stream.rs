//! AG-UI event stream of a run, encoded from the events of its turn.

use std::collections::HashMap;

use goondan::ApprovalHandle;
use goondan::event::{FinishReason, RuntimeEvent, RuntimeEventKind, SwarmEvent, TurnResult};
use goondan::gateway::TurnUpdate;
use goondan::ids::InstanceId;
use goondan::spec::Code;
use serde_json::{Value, json};

use super::events;
use super::input::RunInput;
use super::run::StartedRun;
use crate::error_table::SWARM_STOPPED;
use crate::problem::ApiProblem;
use crate::service::Service;
use crate::turn_encoder::{self, ClientGone, Events, StreamFlow, StreamSender, TurnEncoder};
use crate::turn_failure::TurnFailureReport;

/// Encoder state of a run.
struct RunStream {
    service: Service,
    thread: String,
    run: String,
    turn_id: String,
    trace_id: String,
    instance: InstanceId,
    out: StreamSender,
    /// Running step: its id, and its name in the stream.
    step: Option<(String, String)>,
    /// Id of the open message.
    message: Option<String>,
    /// Id of the reasoning that is open.
    reasoning: Option<String>,
    /// Number of reasoning messages in the step.
    reasoning_count: u32,
    /// Text of the last message.
    sent_text: String,
    /// Number of times that the step's text began again.
    resets: u32,
    /// Running calls: the model's call id with the id in the stream.
    calls: HashMap<String, String>,
    /// Open approval request. It arrives on another channel than events, and may arrive before its
    /// call.
    asked: Option<ApprovalHandle>,
    /// The client's text differs from the conversation, so the run ends with a snapshot.
    is_off: bool,
}

/// Returns the stream of a run that failed before it began.
pub(super) fn rejected_run(problem: &ApiProblem) -> Events {
    let code = problem.code.to_string();
    turn_encoder::respond_once(&events::run_error(
        &code,
        &problem.message,
        problem.suggestion.as_deref(),
    ))
}

pub(super) fn stream_run(service: &Service, input: &RunInput, run: StartedRun) -> Events {
    let StartedRun {
        instance,
        turn,
        is_again,
    } = run;
    let turn_id = turn.turn_id().to_owned();
    let trace_id = turn.trace_id().to_owned();
    turn_encoder::stream_turn(service.gateway(), turn, |out| RunStream {
        service: service.clone(),
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
        sent_text: String::new(),
        resets: 0,
        calls: HashMap::new(),
        asked: None,
        is_off: is_again,
    })
}

impl TurnEncoder for RunStream {
    async fn begin(&mut self, _: bool) -> Result<StreamFlow, ClientGone> {
        self.out
            .send(&json!({"type": "RUN_STARTED", "threadId": self.thread, "runId": self.run}))
            .await?;
        Ok(StreamFlow::More)
    }

    async fn encode(&mut self, update: TurnUpdate) -> Result<StreamFlow, ClientGone> {
        match update {
            TurnUpdate::TextSoFar(running) => self.send_missed_text(&running.text).await?,
            TurnUpdate::Text(delta) => self.send_text(&delta).await?,
            TurnUpdate::Reasoning(delta) => self.send_reasoning(&delta).await?,
            TurnUpdate::Restarted => self.restart_text().await?,
            TurnUpdate::Event(published) => {
                if let SwarmEvent::Runtime(event) = &published.event {
                    self.encode_event(event).await?;
                }
            }
            TurnUpdate::ApprovalRequested(request) => self.asked = Some(request),
            // If another request is open, it is reported next.
            TurnUpdate::ApprovalClosed(_) => self.asked = None,
            TurnUpdate::Lagged => (self.asked, self.is_off) = (None, true),
            TurnUpdate::Ended(result) => {
                self.end(&result).await?;
                return Ok(StreamFlow::Enough);
            }
            TurnUpdate::SwarmEnded => {
                self.send_swarm_stopped().await?;
                return Ok(StreamFlow::Enough);
            }
        }
        self.interrupt_run().await
    }
}

impl RunStream {
    /// Sends the missed rest of `text`, the text of the step so far. Sends all of it as a new
    /// message if no message is open, or if the sent text is not the beginning of `text`.
    async fn send_missed_text(&mut self, text: &str) -> Result<(), ClientGone> {
        let unsent_text = text.strip_prefix(&*self.sent_text).map(str::to_owned);
        match unsent_text.filter(|_| self.message.is_some()) {
            Some(text) => self.send_text(&text).await,
            None => {
                self.restart_text().await?;
                self.send_text(text).await
            }
        }
    }

    /// Sends the end of the run.
    async fn end(&mut self, result: &TurnResult) -> Result<(), ClientGone> {
        let text = result.response_text();
        if result.finish_reason == FinishReason::TextResponse && self.sent_text != text {
            // The answer was not streamed, or an extension changed it.
            if self.sent_text.is_empty() && !self.is_off {
                self.send_text(&text).await?;
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
                .send(&events::messages_snapshot(
                    messages.iter().map(|message| &**message),
                ))
                .await?;
        }
        if let Some(reason) = &result.model_finish_reason {
            self.out.send(&events::incomplete_answer(reason)).await?;
        }
        let end = match TurnFailureReport::from_result(result) {
            None => events::run_finished(&self.thread, &self.run, result),
            Some(why) => events::run_error(why.code, why.message, why.suggestion),
        };
        self.out.send(&end).await
    }

    /// Sends the end of a run whose swarm ended.
    async fn send_swarm_stopped(&mut self) -> Result<(), ClientGone> {
        self.close().await?;
        self.out
            .send(&events::run_error(
                &Code::SWARM_STOPPED.to_string(),
                SWARM_STOPPED,
                None,
            ))
            .await
    }

    /// Returns true if the call of the request is not sent yet. A client that connected late may
    /// have missed it.
    fn awaits_call_of(&self, question: &ApprovalHandle) -> bool {
        let is_own = question.request.instance == self.instance;
        is_own && !self.is_off && !self.calls.contains_key(&question.request.tool_call_id)
    }

    /// Encodes an event of the trace. Only the thread's own agent is shown.
    async fn encode_event(&mut self, event: &RuntimeEvent) -> Result<(), ClientGone> {
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
                (self.resets, self.reasoning_count, self.sent_text) = (0, 0, String::new());
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
                    .send(&events::result(&id, &events::result_text(shown)))
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
                self.out.send(&events::model_retrying(kind)).await
            }
            _ => Ok(()),
        }
    }

    /// Sends text; opens a message if needed.
    async fn send_text(&mut self, delta: &str) -> Result<(), ClientGone> {
        if delta.is_empty() {
            return Ok(());
        }
        self.end_reasoning().await?;
        let id = match &self.message {
            Some(id) => id.clone(),
            None => {
                let step_id = self
                    .step
                    .as_ref()
                    .map_or(&self.turn_id, |(step_id, _)| step_id);
                // Sent text cannot be revoked. If the step's text begins again, it is sent as a new
                // message, which needs its own id.
                let id = if self.resets == 0 {
                    step_id.clone()
                } else {
                    format!("{step_id}+{}", self.resets)
                };
                self.out.send(&json!({"type": "TEXT_MESSAGE_START", "messageId": id, "role": "assistant"})).await?;
                self.message = Some(id.clone());
                self.sent_text.clear();
                id
            }
        };
        self.sent_text.push_str(delta);
        self.out
            .send(&json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": id, "delta": delta}))
            .await
    }

    /// Sends reasoning; opens a reasoning message if needed.
    async fn send_reasoning(&mut self, delta: &str) -> Result<(), ClientGone> {
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

    /// Closes the open reasoning.
    async fn end_reasoning(&mut self) -> Result<(), ClientGone> {
        if let Some(id) = self.reasoning.take() {
            for event in events::reasoning_end(&id) {
                self.out.send(&event).await?;
            }
        }
        Ok(())
    }

    /// Voids the step's text so far, because the step sends its text again.
    async fn restart_text(&mut self) -> Result<(), ClientGone> {
        if self.message.is_some() {
            self.is_off = true;
            self.resets += 1;
        }
        self.end_message().await
    }

    /// Closes the open message.
    async fn end_message(&mut self) -> Result<(), ClientGone> {
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

    /// Ends the open message and the step.
    async fn close(&mut self) -> Result<(), ClientGone> {
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

    /// Ends the run with the open approval requests, after their call is sent. The next run brings
    /// the answers.
    async fn interrupt_run(&mut self) -> Result<StreamFlow, ClientGone> {
        if self
            .asked
            .as_ref()
            .is_none_or(|question| self.awaits_call_of(question))
        {
            return Ok(StreamFlow::More);
        }
        self.close().await?;
        let requests = self.service.gateway().approvals().open_in(&self.trace_id);
        let interrupts: Vec<Value> = requests
            .iter()
            .map(|question| {
                let is_own = question.request.instance == self.instance;
                let call = self
                    .calls
                    .get(&question.request.tool_call_id)
                    .filter(|_| is_own);
                events::interrupt(question, call)
            })
            .collect();
        let outcome = json!({"type": "interrupt", "interrupts": interrupts});
        let end = json!({"type": "RUN_FINISHED", "threadId": self.thread, "runId": self.run, "outcome": outcome});
        self.out.send(&end).await?;
        Ok(StreamFlow::Enough)
    }
}

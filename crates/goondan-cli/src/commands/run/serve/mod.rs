//! `--input-format stream-json`: one input per line while standard input is open.

mod lines;

use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use goondan::event::{RuntimeEventKind, SwarmEvent, TurnResult};
use goondan::ids::InstanceId;
use goondan::ports::approval::ApprovalOffer;
use goondan::{Input, SendError, SubmittedInput, Swarm, Turn, UsageLedger};
use serde::Serialize;
use serde_json::json;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::MissedTickBehavior;

use self::lines::{LineError, StdinLine, read_lines};
use super::OutputFormat;
use super::approval::{PendingApproval, parse_answer};
use super::session::{RunSession, rejected_input_error};
use super::unprompted_answers::UnpromptedAnswer;
use super::view::event_line;
use crate::exit::CliError;
use crate::output::{CommandOutput, TurnReport, TurnReportFacts};

/// Interval at which events are checked while only answers are written.
/// Waking up for each event would slow the swarm down.
const DRAIN_INTERVAL: Duration = Duration::from_millis(20);

/// Submitted line whose turn has not ended.
struct PendingLine {
    /// Counted from 1.
    line: u64,
    /// Id of the event: the `id` of the line, or a generated id.
    event_id: String,
    instance: InstanceId,
    trace_id: String,
    begin: Instant,
}

/// Progress of a line.
enum LineProgress {
    /// The event is on disk.
    Accepted(u64, Turn),
    /// The turn has ended. `None` if the swarm ended first; an error if the input was rejected.
    Ended(u64, Box<Result<Option<TurnResult>, SendError>>),
}

/// Confirms that the input of a line is on disk.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AcceptedLine<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    /// Id of the event. The same id again starts no second turn.
    id: &'a str,
    /// Counted from 1.
    line: u64,
    agent_name: &'a str,
    instance_key: &'a str,
    trace_id: &'a str,
}

/// Error that replaces a result, for an unusable line.
#[derive(Serialize)]
struct ErrorLine<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    /// Counted from 1.
    line: u64,
    error: LineErrorObject<'a>,
}

/// Error in an [`ErrorLine`].
#[derive(Serialize)]
struct LineErrorObject<'a> {
    code: &'a str,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    suggestion: Option<&'a str>,
}

/// Approval request, which a line of standard input answers.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct QuestionLine<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    approval: &'a str,
    agent_name: &'a str,
    instance_key: &'a str,
    tool_call_id: &'a str,
    tool_name: &'a str,
    arguments: &'a goondan::spec::JsonObject,
    #[serde(skip_serializing_if = "Option::is_none")]
    preview: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    answers: [&'static str; 4],
    offers: &'a [ApprovalOffer],
}

/// State of the loop. One task writes all lines, so that none is torn.
struct LineServer<'a> {
    swarm: Swarm,
    defaults: &'a Input,
    /// Events are written, not only answers.
    events: bool,
    output: &'a CommandOutput,
    pending: Vec<PendingLine>,
    /// Usage of the traces in which work is left.
    ledger: UsageLedger,
    /// Futures that return the trace id once a trace has no work left.
    settling: FuturesUnordered<BoxFuture<'static, String>>,
    /// Unanswered approval requests.
    questions: Vec<PendingApproval>,
}

/// Answers every line until standard input ends and no work is left for any of them.
/// After a signal it accepts no more lines, and running turns may finish. Accepted inputs whose
/// turns did not begin are on disk and resume at the next start.
pub(super) async fn serve(
    mut session: RunSession,
    defaults: &Input,
    format: OutputFormat,
    output: &CommandOutput,
) -> Result<(), CliError> {
    let mut lines = read_lines();
    let mut turns = FuturesUnordered::new();
    let mut is_open = true;
    let mut server = LineServer {
        swarm: session.swarm.clone(),
        defaults,
        events: format == OutputFormat::StreamJson,
        output,
        pending: Vec::new(),
        ledger: UsageLedger::default(),
        settling: FuturesUnordered::new(),
        questions: Vec::new(),
    };
    let mut drain_interval = tokio::time::interval(DRAIN_INTERVAL);
    drain_interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while is_open || !turns.is_empty() || !server.settling.is_empty() {
        tokio::select! {
            biased;
            Some(event) = session.events.recv(), if server.events || turns.is_empty() => server.handle_event(&event)?,
            Some(trace_id) = server.settling.next(), if !server.settling.is_empty() => {
                server.drain(&mut session.events)?;
                server.ledger.forget(&trace_id);
            }
            _ = drain_interval.tick(), if !server.events && !turns.is_empty() => server.drain(&mut session.events)?,
            Some(progress) = turns.next() => match progress {
                LineProgress::Accepted(line, turn) => {
                    server.write_accepted(line)?;
                    turns.push(turn_end(line, turn).boxed());
                }
                LineProgress::Ended(line, result) => {
                    server.drain(&mut session.events)?;
                    server.write_result(line, *result, &session)?;
                }
            },
            line = lines.recv(), if is_open => match line {
                Some((number, line)) => if let Some(submission) = server.submit(number, line)? {
                    turns.push(acceptance(number, submission).boxed());
                },
                None => {
                    is_open = false;
                    server.questions.clear();
                    session.questions.leave();
                }
            },
            Some(question) = session.questions.next() => server.write_approval_request(question)?,
            notice = session.reloads.next() => if !server.events {
                output.note(&notice)?;
            },
            signal = session.signals.next() => {
                is_open = false;
                // First, so that the requests stay open although no client is left.
                session.stop(signal)?;
                server.questions.clear();
                session.questions.leave();
            }
        }
    }
    server.drain(&mut session.events)?;
    session.shut_down().await
}

/// Waits until the input of a line is on disk.
async fn acceptance(line: u64, submission: SubmittedInput) -> LineProgress {
    match submission.accepted().await {
        Ok(turn) => LineProgress::Accepted(line, turn),
        Err(error) => LineProgress::Ended(line, Box::new(Err(error))),
    }
}

/// Waits for the end of a line's turn.
async fn turn_end(line: u64, turn: Turn) -> LineProgress {
    LineProgress::Ended(line, Box::new(Ok(turn.result().await)))
}

impl LineServer<'_> {
    /// Submits a line, or writes why it is rejected.
    fn submit(
        &mut self,
        number: u64,
        line: Result<StdinLine, LineError>,
    ) -> Result<Option<SubmittedInput>, CliError> {
        let line = match line {
            Ok(StdinLine::Input(line)) => line,
            Ok(StdinLine::Answer { approval, answer }) => {
                return self
                    .answer_request(number, &approval, &answer)
                    .map(|()| None);
            }
            Err(error) => {
                let usage_error = CliError::usage(error.message).suggest(error.suggestion);
                return self
                    .write_error(number, error.id.as_deref(), &usage_error)
                    .map(|()| None);
            }
        };
        let input = Input {
            text: line.input,
            agent: line.agent.or_else(|| self.defaults.agent.clone()),
            instance_key: line
                .instance_key
                .or_else(|| self.defaults.instance_key.clone()),
            id: line.id.clone(),
            ..Input::default()
        };
        let begin = Instant::now();
        match self.swarm.submit(input) {
            Ok(submission) => {
                let (event_id, instance) = (
                    submission.event_id().to_owned(),
                    submission.instance.clone(),
                );
                let trace_id = submission.trace_id().to_owned();
                self.ledger.follow(&trace_id);
                self.pending.push(PendingLine {
                    line: number,
                    event_id,
                    instance,
                    trace_id,
                    begin,
                });
                Ok(Some(submission))
            }
            Err(error) => self
                .write_error(number, line.id.as_deref(), &rejected_input_error(error))
                .map(|()| None),
        }
    }

    /// Confirms a line whose input is on disk.
    fn write_accepted(&self, line: u64) -> Result<(), CliError> {
        let Some(pending) = self.pending.iter().find(|pending| pending.line == line) else {
            return Ok(());
        };
        self.output.json_line(&AcceptedLine {
            kind: "accepted",
            id: &pending.event_id,
            line,
            agent_name: &pending.instance.agent,
            instance_key: &pending.instance.instance_key,
            trace_id: &pending.trace_id,
        })
    }

    fn write_approval_request(&mut self, question: PendingApproval) -> Result<(), CliError> {
        let request = &question.request;
        self.output.json_line(&QuestionLine {
            kind: "approval.request",
            approval: &request.id,
            agent_name: &request.instance.agent,
            instance_key: &request.instance.instance_key,
            tool_call_id: &request.tool_call_id,
            tool_name: &request.tool_name,
            arguments: &request.arguments,
            preview: request.preview.as_deref(),
            reason: request.reason.as_deref(),
            answers: ["once", "conversation", "always", "deny"],
            offers: &request.offers,
        })?;
        self.questions.push(question);
        Ok(())
    }

    /// Withdraws the requests whose answers are obsolete.
    fn withdraw_obsolete_requests(&mut self) -> Result<(), CliError> {
        for question in self
            .questions
            .extract_if(.., |question| question.is_withdrawn())
        {
            self.output.json_line(
                &json!({"type": "approval.withdrawn", "approval": question.request.id}),
            )?;
        }
        Ok(())
    }

    /// Answers an open approval request, or writes why the line is rejected.
    fn answer_request(&mut self, line: u64, approval: &str, answer: &str) -> Result<(), CliError> {
        let Some(position) = self
            .questions
            .iter()
            .position(|question| question.request.id == approval)
        else {
            let error = CliError::usage(format!("There is no open approval request `{approval}`."))
                .suggest("Copy the request's `approval` unchanged.");
            return self.write_error(line, None, &error);
        };
        let Some(answer) = parse_answer(answer, &self.questions[position].request) else {
            let error = CliError::usage(format!("The approval request does not offer `{answer}`."))
                .suggest("The request is still open. Use a value of its `offers`.");
            return self.write_error(line, None, &error);
        };
        self.questions.swap_remove(position).answer(answer);
        Ok(())
    }

    fn write_error(&self, line: u64, id: Option<&str>, error: &CliError) -> Result<(), CliError> {
        let suggestion = error.suggestion.as_deref();
        let error = LineErrorObject {
            code: &error.code,
            message: &error.message,
            suggestion,
        };
        self.output.json_line(&ErrorLine {
            kind: "error",
            id,
            line,
            error,
        })
    }

    /// Writes an event, and the answer of a turn that no line started.
    fn handle_event(&mut self, event: &SwarmEvent) -> Result<(), CliError> {
        if let SwarmEvent::Runtime(event) = event
            && matches!(event.kind, RuntimeEventKind::TurnStarted { .. })
            && !self.ledger.follows(&event.trace.trace_id)
        {
            // A job is due, or an earlier run left work.
            self.ledger.follow(&event.trace.trace_id);
            self.watch_trace(event.trace.trace_id.clone());
        }
        self.ledger.note(event);
        if self.events
            && let Some(line) = event_line(event)
        {
            self.output.json_line(&line)?;
        }
        self.withdraw_obsolete_requests()?;
        match UnpromptedAnswer::of(event, |event_id| {
            self.pending
                .iter()
                .any(|pending| pending.event_id == event_id)
        }) {
            Some(answer) => {
                let usage = self.ledger.of(answer.trace_id);
                self.output
                    .json_line(&TurnReport::answer(&answer, Some(usage)))
            }
            None => Ok(()),
        }
    }

    /// Watches a trace until it has no work left.
    fn watch_trace(&self, trace_id: String) {
        let swarm = self.swarm.clone();
        self.settling.push(Box::pin(async move {
            swarm.settled(&trace_id).await;
            trace_id
        }));
    }

    /// Writes events that were published before a result and are still in the channel.
    fn drain(&mut self, events: &mut UnboundedReceiver<SwarmEvent>) -> Result<(), CliError> {
        while let Ok(event) = events.try_recv() {
            self.handle_event(&event)?;
        }
        Ok(())
    }

    /// Writes the result of a line's turn, or its error.
    fn write_result(
        &mut self,
        line: u64,
        result: Result<Option<TurnResult>, SendError>,
        session: &RunSession,
    ) -> Result<(), CliError> {
        let Some(position) = self.pending.iter().position(|pending| pending.line == line) else {
            return Ok(());
        };
        let PendingLine {
            event_id,
            instance,
            trace_id,
            begin,
            ..
        } = self.pending.swap_remove(position);
        self.watch_trace(trace_id.clone());
        let result = match result {
            Ok(Some(result)) => result,
            Ok(None) => return self.write_error(line, Some(&event_id), &session.no_result_error()),
            Err(error) => {
                return self.write_error(line, Some(&event_id), &rejected_input_error(error));
            }
        };
        let duration_ms = u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX);
        let usage = self.ledger.of(&trace_id);
        self.output.json_line(&TurnReport::result(
            Some(event_id),
            TurnReportFacts {
                instance,
                trace_id,
                duration_ms,
            },
            &result,
            usage,
        ))
    }
}

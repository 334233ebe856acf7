//! `--input-format stream-json`: one input a line, for as long as standard input is open.

mod lines;

use std::time::{Duration, Instant};

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use goondan::event::{RuntimeEventKind, SwarmEvent, TurnResult};
use goondan::ids::InstanceId;
use goondan::ports::approval::Offer;
use goondan::{Input, SendError, Submission, Swarm, UsageLedger};
use serde::Serialize;
use serde_json::json;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::MissedTickBehavior;

use self::lines::{Line, LineError, read_lines};
use super::OutputFormat;
use super::answers::Unasked;
use super::approval::{Question, meaning};
use super::session::{Session, not_accepted};
use super::view::event_line;
use crate::exit::CliError;
use crate::output::{Output, TurnFacts, TurnReport};

/// Where answers alone are written, few events matter: while turns run they are looked through that often, and before each
/// result. To be woken by every one of them would slow the swarm down.
const LOOK: Duration = Duration::from_millis(20);

/// An accepted line whose turn is not over.
struct Pending {
    id: Option<String>,
    /// Counted from 1.
    line: u64,
    event_id: String,
    instance: InstanceId,
    trace_id: String,
    begin: Instant,
}

/// A turn that is over, and the event that it answers.
struct Ended {
    event_id: String,
    /// `None` where the swarm ended first; an error where it did not take the input.
    result: Result<Option<TurnResult>, SendError>,
}

/// What is written in place of a result where a line could not be used.
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

#[derive(Serialize)]
struct LineErrorObject<'a> {
    code: &'a str,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    suggestion: Option<&'a str>,
}

/// A question that a line of standard input answers.
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
    offers: &'a [Offer],
}

/// Everything that the loop owns. One task writes all lines, so that none is torn.
struct Server<'a> {
    swarm: Swarm,
    defaults: &'a Input,
    /// Whether events are written, or answers alone.
    events: bool,
    output: &'a Output,
    pending: Vec<Pending>,
    /// What the chains have used up in which something is left to do.
    ledger: UsageLedger,
    /// Each ends, with its trace, when nothing is left to do in a chain.
    settling: FuturesUnordered<BoxFuture<'static, String>>,
    /// Questions that nobody has answered yet.
    questions: Vec<Question>,
}

/// Answers every line until standard input ends and nothing is left to do for any of them. After a signal no more lines are
/// taken and the turns that run may finish; accepted inputs whose turns did not begin are on disk and go on with the next start.
pub(super) async fn serve(
    mut session: Session,
    defaults: &Input,
    format: OutputFormat,
    output: &Output,
) -> Result<(), CliError> {
    let mut lines = read_lines();
    let mut turns = FuturesUnordered::new();
    let mut open = true;
    let mut server = Server {
        swarm: session.swarm.clone(),
        defaults,
        events: format == OutputFormat::StreamJson,
        output,
        pending: Vec::new(),
        ledger: UsageLedger::default(),
        settling: FuturesUnordered::new(),
        questions: Vec::new(),
    };
    let mut look = tokio::time::interval(LOOK);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while open || !turns.is_empty() || !server.settling.is_empty() {
        tokio::select! {
            biased;
            Some(event) = session.events.recv(), if server.events || turns.is_empty() => server.event(&event)?,
            Some(trace_id) = server.settling.next(), if !server.settling.is_empty() => {
                server.drain(&mut session.events)?;
                server.ledger.forget(&trace_id);
            }
            _ = look.tick(), if !server.events && !turns.is_empty() => server.drain(&mut session.events)?,
            Some(ended) = turns.next() => {
                server.drain(&mut session.events)?;
                server.result(&ended, &session)?;
            }
            line = lines.recv(), if open => match line {
                Some((number, line)) => if let Some(submission) = server.submit(number, line)? {
                    turns.push(outcome(submission));
                },
                None => {
                    open = false;
                    server.questions.clear();
                    session.questions.leave();
                }
            },
            Some(question) = session.questions.next() => server.ask(question)?,
            words = session.reloads.next() => if !server.events {
                output.note(&words)?;
            },
            signal = session.signals.next() => {
                open = false;
                server.questions.clear();
                session.questions.leave();
                session.stop(signal)?;
            }
        }
    }
    server.drain(&mut session.events)?;
    session.shut_down().await
}

/// Waits for the end of the input's turn and says which event it answers.
async fn outcome(submission: Submission) -> Ended {
    let event_id = submission.event_id().to_owned();
    let result = match submission.accepted().await {
        Ok(turn) => Ok(turn.result().await),
        Err(error) => Err(error),
    };
    Ended { event_id, result }
}

impl Server<'_> {
    /// Hands a line in, or says why that can't be done.
    fn submit(
        &mut self,
        number: u64,
        line: Result<Line, LineError>,
    ) -> Result<Option<Submission>, CliError> {
        let line = match line {
            Ok(Line::Input(line)) => line,
            Ok(Line::Answer { approval, answer }) => {
                return self.answer(number, &approval, &answer).map(|()| None);
            }
            Err(error) => {
                let refused = CliError::usage(error.message).suggest(error.suggestion);
                return self
                    .refuse(number, error.id.as_deref(), &refused)
                    .map(|()| None);
            }
        };
        let input = Input {
            text: line.input,
            agent: line.agent.or_else(|| self.defaults.agent.clone()),
            instance_key: line
                .instance_key
                .or_else(|| self.defaults.instance_key.clone()),
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
                self.pending.push(Pending {
                    id: line.id,
                    line: number,
                    event_id,
                    instance,
                    trace_id,
                    begin,
                });
                Ok(Some(submission))
            }
            Err(error) => self
                .refuse(number, line.id.as_deref(), &not_accepted(error))
                .map(|()| None),
        }
    }

    /// Writes a question out; a line answers it.
    fn ask(&mut self, question: Question) -> Result<(), CliError> {
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

    /// Takes back the questions whose askers are gone.
    fn withdraw(&mut self) -> Result<(), CliError> {
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

    fn answer(&mut self, line: u64, approval: &str, answer: &str) -> Result<(), CliError> {
        let Some(position) = self
            .questions
            .iter()
            .position(|question| question.request.id == approval)
        else {
            let unknown = CliError::usage(format!("No approval `{approval}` waits for an answer."));
            return self.refuse(
                line,
                None,
                &unknown.suggest("Repeat the `approval` of the request as it is."),
            );
        };
        let Some(answer) = meaning(answer, &self.questions[position].request) else {
            let refused = CliError::usage(format!("The question does not offer `{answer}`."));
            return self.refuse(
                line,
                None,
                &refused.suggest("It is still open. Its `offers` say what an answer may cover."),
            );
        };
        self.questions.swap_remove(position).answer(answer);
        Ok(())
    }

    fn refuse(&self, line: u64, id: Option<&str>, error: &CliError) -> Result<(), CliError> {
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

    fn event(&mut self, event: &SwarmEvent) -> Result<(), CliError> {
        if let SwarmEvent::Runtime(event) = event
            && matches!(event.kind, RuntimeEventKind::TurnStarted { .. })
            && !self.ledger.follows(&event.trace.trace_id)
        {
            // A job is due, or an earlier run has left something.
            self.ledger.follow(&event.trace.trace_id);
            self.settle(event.trace.trace_id.clone());
        }
        self.ledger.note(event);
        if self.events
            && let Some(line) = event_line(event)
        {
            self.output.json_line(&line)?;
        }
        self.withdraw()?;
        match Unasked::of(event, |event_id| {
            self.pending
                .iter()
                .any(|pending| pending.event_id == event_id)
        }) {
            Some(unasked) => {
                let usage = self.ledger.of(unasked.trace_id);
                self.output
                    .json_line(&TurnReport::answer(&unasked, Some(usage)))
            }
            None => Ok(()),
        }
    }

    /// Notices when nothing is left to do in a chain.
    fn settle(&self, trace_id: String) {
        let swarm = self.swarm.clone();
        self.settling.push(Box::pin(async move {
            swarm.settled(&trace_id).await;
            trace_id
        }));
    }

    /// Writes what was published before a result and still waits in the channel.
    fn drain(&mut self, events: &mut UnboundedReceiver<SwarmEvent>) -> Result<(), CliError> {
        while let Ok(event) = events.try_recv() {
            self.event(&event)?;
        }
        Ok(())
    }

    fn result(&mut self, ended: &Ended, session: &Session) -> Result<(), CliError> {
        let Some(position) = self
            .pending
            .iter()
            .position(|pending| pending.event_id == ended.event_id)
        else {
            return Ok(());
        };
        let Pending {
            id,
            line,
            instance,
            trace_id,
            begin,
            ..
        } = self.pending.swap_remove(position);
        self.settle(trace_id.clone());
        let result = match &ended.result {
            Ok(Some(result)) => result,
            Ok(None) => return self.refuse(line, id.as_deref(), &session.ended_early()),
            Err(error) => return self.refuse(line, id.as_deref(), &not_accepted(error.clone())),
        };
        let duration_ms = u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX);
        let usage = self.ledger.of(&trace_id);
        self.output.json_line(&TurnReport::result(
            id,
            TurnFacts {
                instance,
                trace_id,
                duration_ms,
            },
            result,
            usage,
        ))
    }
}

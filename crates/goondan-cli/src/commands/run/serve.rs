//! `--input-format stream-json`: one input a line, for as long as standard input is open.

mod lines;

use std::time::Instant;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use goondan::runtime::event::{SwarmEvent, TurnResult};
use goondan::runtime::ids::InstanceId;
use goondan::{Input, Swarm};
use serde::Serialize;
use tokio::sync::mpsc::UnboundedReceiver;

use self::lines::{InputLine, LineError, read_lines};
use super::OutputFormat;
use super::session::{Session, not_accepted, trace_of};
use super::view::event_line;
use crate::exit::CliError;
use crate::output::{Output, TurnFacts, TurnReport};

/// An accepted line whose turn is not over.
struct Pending {
    id: Option<String>,
    /// Counted from 1.
    line: u64,
    event_id: String,
    instance: InstanceId,
    trace_id: Option<String>,
    begin: Instant,
}

/// A turn that is over, and the event that it answers.
struct Ended {
    event_id: String,
    /// `None` where the swarm ended first.
    result: Option<TurnResult>,
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

/// Everything that the loop owns. One task writes all lines, so that none is torn.
struct Server<'a> {
    swarm: Swarm,
    defaults: &'a Input,
    /// Whether events are written, or results alone.
    events: bool,
    output: &'a Output,
    pending: Vec<Pending>,
}

/// Answers every line until standard input ends and the last turn is over. After a signal no more lines are taken and the
/// turns that run may finish; accepted inputs whose turns did not begin are on disk and go on with the next start.
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
    };
    while open || !turns.is_empty() {
        tokio::select! {
            biased;
            Some(event) = session.events.recv() => server.event(&event)?,
            Some(ended) = turns.next() => {
                server.drain(&mut session.events)?;
                server.result(&ended, &session)?;
            }
            line = lines.recv(), if open => match line {
                Some((number, line)) => if let Some(turn) = server.accept(number, line).await? {
                    turns.push(outcome(turn));
                },
                None => open = false,
            },
            words = session.reloads.next() => if !server.events {
                output.note(&words)?;
            },
            signal = session.signals.next() => {
                open = false;
                session.stop(signal)?;
            }
        }
    }
    server.drain(&mut session.events)?;
    session.shut_down().await
}

/// Waits for the end of `turn` and says which event it answers.
async fn outcome(turn: goondan::Turn) -> Ended {
    Ended { event_id: turn.event_id.clone(), result: turn.result().await }
}

impl Server<'_> {
    /// Hands a line in, or says why that can't be done.
    async fn accept(
        &mut self,
        number: u64,
        line: Result<InputLine, LineError>,
    ) -> Result<Option<goondan::Turn>, CliError> {
        let line = match line {
            Ok(line) => line,
            Err(error) => {
                let refused = CliError::usage(error.message).suggest(error.suggestion);
                return self.refuse(number, error.id.as_deref(), &refused).map(|()| None);
            }
        };
        let input = Input {
            text: line.input,
            agent: line.agent.or_else(|| self.defaults.agent.clone()),
            instance_key: line.instance_key.or_else(|| self.defaults.instance_key.clone()),
            id: None,
        };
        let begin = Instant::now();
        match self.swarm.send(input).await {
            Ok(turn) => {
                let (event_id, instance) = (turn.event_id.clone(), turn.instance.clone());
                self.pending.push(Pending { id: line.id, line: number, event_id, instance, trace_id: None, begin });
                Ok(Some(turn))
            }
            Err(error) => self.refuse(number, line.id.as_deref(), &not_accepted(error)).map(|()| None),
        }
    }

    fn refuse(&self, line: u64, id: Option<&str>, error: &CliError) -> Result<(), CliError> {
        let suggestion = error.suggestion.as_deref();
        let error = LineErrorObject { code: &error.code, message: &error.message, suggestion };
        self.output.json_line(&ErrorLine { kind: "error", id, line, error })
    }

    fn event(&mut self, event: &SwarmEvent) -> Result<(), CliError> {
        for pending in &mut self.pending {
            if let Some(trace_id) = trace_of(event, &pending.event_id) {
                pending.trace_id = Some(trace_id.to_owned());
            }
        }
        match event_line(event) {
            Some(line) if self.events => self.output.json_line(&line),
            _ => Ok(()),
        }
    }

    /// Writes what was published before a result and still waits in the channel.
    fn drain(&mut self, events: &mut UnboundedReceiver<SwarmEvent>) -> Result<(), CliError> {
        while let Ok(event) = events.try_recv() {
            self.event(&event)?;
        }
        Ok(())
    }

    fn result(&mut self, ended: &Ended, session: &Session) -> Result<(), CliError> {
        let Some(position) = self.pending.iter().position(|pending| pending.event_id == ended.event_id) else {
            return Ok(());
        };
        let Pending { id, line, instance, trace_id, begin, .. } = self.pending.swap_remove(position);
        let Some(result) = &ended.result else {
            return self.refuse(line, id.as_deref(), &session.ended_early());
        };
        let duration_ms = u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.output.json_line(&TurnReport::new(id, &TurnFacts { instance, trace_id, duration_ms }, result))
    }
}

//! A turn in a swarm that another process runs. It goes on there, whatever becomes of this command.

use std::sync::Arc;
use std::time::{Duration, Instant};

use goondan::event::{SwarmEvent, TurnResult};
use goondan::ids::InstanceId;
use goondan::ports::approval::Approver;
use goondan::ports::tool::ToolCallResult;
use goondan::spec::Code;
use goondan::{Input, UsageLedger, Workspace};
use goondan_serve::client::{ClientError, ServerEvents, Told, segment};
use goondan_serve::wire::{CallBody, InputState, RetryBody, SwarmBody};

use super::OutputFormat;
use super::approval::{Asked, Questions, approver};
use super::signals::{Signal, Signals};
use super::view::View;
use crate::exit::CliError;
use crate::output::{Output, TurnFacts, TurnReport, turn_error};
use crate::project::StartArgs;
use crate::remote::{self, Listening, Remote};

/// A command that talks to a swarm of another process.
pub(crate) struct Elsewhere {
    remote: Remote,
    signals: Signals,
    yes: bool,
    output: Output,
}

/// What a turn came to.
pub(crate) struct Ended {
    state: InputState,
    pub(crate) result: TurnResult,
    ledger: UsageLedger,
    took: Duration,
}

impl Ended {
    /// What is printed of it as JSON.
    pub(crate) fn report(&self) -> TurnReport {
        let trace_id = self.state.trace_id.clone().unwrap_or_default();
        let usage = self.ledger.of(&trace_id);
        let duration_ms = u64::try_from(self.took.as_millis()).unwrap_or(u64::MAX);
        let facts = TurnFacts {
            instance: instance(&self.state),
            trace_id,
            duration_ms,
        };
        TurnReport::result(None, facts, &self.result, usage)
    }
}

/// Why a turn has no result.
pub(crate) enum Unsaid {
    /// It has not begun: the process was about to end, or has ended.
    NotBegun(CliError),
    /// It can't be had.
    Failed(CliError),
}

impl From<CliError> for Unsaid {
    fn from(error: CliError) -> Self {
        Unsaid::Failed(error)
    }
}

impl From<Unsaid> for CliError {
    fn from(unsaid: Unsaid) -> Self {
        let (Unsaid::NotBegun(error) | Unsaid::Failed(error)) = unsaid;
        error
    }
}

/// What a signal does to a turn that is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OnSignal {
    /// It goes on without this command.
    Leave,
    /// The first one cancels it.
    Cancel,
}

/// A turn that is followed, with the questions that it asks here.
pub(super) struct Talking {
    pub(super) listening: Listening,
    pub(super) questions: Questions,
}

/// Who answers the questions of a turn.
struct Asking {
    /// Whether anybody does.
    is_open: bool,
    approver: Arc<dyn Approver>,
    questions: Questions,
}

impl Elsewhere {
    /// Says where the swarm runs, and which arguments have no effect there.
    pub(crate) fn begin(
        remote: Remote,
        what: &str,
        args: &StartArgs,
        signals: Signals,
        output: &Output,
    ) -> Result<Self, CliError> {
        output.note(&format!(
            "Another process runs this swarm: the {what} goes there."
        ))?;
        for (is_given, name) in [
            (args.env_file.is_some(), "--env-file"),
            (args.workdir.is_some(), "--workdir"),
            (args.build, "--build"),
        ] {
            if is_given {
                output.note(&format!(
                    "`{name}` has no effect: that process was started without this command."
                ))?;
            }
        }
        Ok(Elsewhere::new(remote, args.yes, signals, output))
    }

    /// A command that talks to that swarm; `yes` answers every question.
    pub(crate) fn new(remote: Remote, yes: bool, signals: Signals, output: &Output) -> Self {
        Elsewhere {
            remote,
            signals,
            yes,
            output: *output,
        }
    }

    /// Asks once and prints what comes back in the wanted form.
    pub(super) async fn ask(&mut self, input: Input, format: OutputFormat) -> Result<(), Unsaid> {
        let mut view = match format {
            OutputFormat::Text => View::text(&self.output),
            OutputFormat::Json => View::silent(),
            OutputFormat::StreamJson => View::lines(&self.output),
        };
        let ended = self.say(input, &mut view, OnSignal::Leave).await?;
        view.end(&ended.result)?;
        match format {
            OutputFormat::Text => {}
            OutputFormat::Json if Output::stdout_is_terminal() => {
                self.output.json_pretty(&ended.report())?
            }
            _ => self.output.json_line(&ended.report())?,
        }
        turn_error(&ended.result).map_or(Ok(()), |error| Err(Unsaid::Failed(error)))
    }

    /// Waits for the end of a process that was about to end, and gives the signals back: what it has not begun is begun here.
    /// The error is `why` where it does not end.
    pub(crate) async fn outlive(mut self, why: CliError) -> Result<Signals, CliError> {
        tokio::select! {
            ended = self.remote.ended() => if !ended {
                return Err(why);
            },
            signal = self.signals.next() => return Err(CliError::stopped(signal.exit(), "Interrupted.")),
        }
        self.output
            .note("That process has ended: the swarm starts here.")?;
        Ok(self.signals)
    }

    /// The swarm that it talks to.
    pub(super) fn swarm(&self) -> &SwarmBody {
        &self.remote.swarm
    }

    /// The signals that have come to this command.
    pub(super) fn signals(&mut self) -> &mut Signals {
        &mut self.signals
    }

    /// Hands an input in, and shows its turn to the end.
    pub(super) async fn say(
        &mut self,
        input: Input,
        view: &mut View,
        on_signal: OnSignal,
    ) -> Result<Ended, Unsaid> {
        let asking = self.asking();
        let path = format!("/api/inputs?approvals={}", asking.is_open);
        let events = self.remote.client.follow(&path, &remote::body(input)).await;
        // Whoever takes an input twice begins one turn; one that is broken off may not have begun any.
        let events = events.map_err(|error| match error {
            ClientError::Broken(_) => Unsaid::NotBegun(error.into()),
            error => not_taken(error),
        })?;
        self.follow(events, asking, view, on_signal).await
    }

    /// Hands an input in. What comes of it is told by what is returned.
    pub(super) async fn talk(&self, input: Input) -> Result<Talking, CliError> {
        let Asking {
            is_open,
            approver,
            questions,
        } = self.asking();
        let path = format!("/api/inputs?approvals={is_open}");
        let events = self
            .remote
            .client
            .follow(&path, &remote::body(input))
            .await?;
        Ok(Talking {
            listening: Listening::to(events, &self.remote.client, approver),
            questions,
        })
    }

    /// Starts a failed event again, and shows its turn to the end.
    pub(crate) async fn retry(
        &mut self,
        id: &InstanceId,
        event: &str,
        view: &mut View,
    ) -> Result<Ended, CliError> {
        let asking = self.asking();
        let place = format!(
            "/api/instances/{}/{}/retry",
            segment(&id.agent),
            segment(&id.instance_key)
        );
        let state: InputState = self
            .remote
            .client
            .post(
                &place,
                &RetryBody {
                    event_id: event.to_owned(),
                },
            )
            .await?;
        let path = format!(
            "/api/inputs/{}/events?approvals={}",
            segment(&state.id),
            asking.is_open
        );
        let events = self.remote.client.events(&path).await?;
        Ok(self.follow(events, asking, view, OnSignal::Leave).await?)
    }

    /// The workspace of the swarm.
    pub(crate) fn workspace(&self) -> &Workspace {
        self.remote.workspace()
    }

    fn asking(&self) -> Asking {
        let (approver, _, questions) = approver(self.yes, Asked::Terminal);
        Asking {
            is_open: self.yes || questions.can_come(),
            approver,
            questions,
        }
    }

    async fn follow(
        &mut self,
        events: ServerEvents,
        asking: Asking,
        view: &mut View,
        on_signal: OnSignal,
    ) -> Result<Ended, Unsaid> {
        let begin = Instant::now();
        let Asking {
            approver,
            mut questions,
            ..
        } = asking;
        let mut listening = Listening::to(events, &self.remote.client, approver);
        let mut ledger = UsageLedger::default();
        let mut is_cancelled = false;
        let (mut accepted, mut has_begun) = (None, false);
        loop {
            tokio::select! {
                biased;
                told = listening.next() => match told.transpose().map_err(|error| broken(error, has_begun))? {
                    Some(Told::Accepted(state)) => {
                        ledger.follow(state.trace_id.as_deref().unwrap_or_default());
                        view.begin(&instance(&state));
                        view.resume();
                        accepted = Some(state);
                    }
                    Some(Told::Happened(event)) => {
                        has_begun = true;
                        ledger.note(&event);
                        view.show(&event)?;
                    }
                    Some(Told::Result(state)) => {
                        let state = accepted.map_or(state.clone(), |known| InputState { result: state.result, ..known });
                        let result = state.result.clone().ok_or_else(cut_off)?;
                        return Ok(Ended { state, result, ledger, took: begin.elapsed() });
                    }
                    Some(Told::Asked(_) | Told::Closed(_)) => {}
                    None if has_begun => return Err(Unsaid::Failed(cut_off())),
                    None => return Err(Unsaid::NotBegun(cut_off())),
                },
                Some(question) = questions.next() => {
                    view.pause();
                    let _ = question.put(std::future::pending()).await;
                    view.resume();
                }
                signal = self.signals.next() => match &accepted {
                    Some(turn) if on_signal == OnSignal::Cancel && signal == Signal::Interrupt && !is_cancelled => {
                        is_cancelled = true;
                        self.cancel(turn).await?;
                    }
                    _ => {
                        view.pause();
                        return Err(Unsaid::Failed(left_alone(signal)));
                    }
                },
            }
        }
    }

    /// Cancels a turn.
    pub(super) async fn cancel(&self, turn: &InputState) -> Result<(), CliError> {
        match self
            .remote
            .client
            .delete(&format!("/api/inputs/{}", segment(&turn.id)))
            .await
        {
            // It was over first.
            Err(ClientError::Refused(body)) if body.code == Code::SERVE_CLOSED => Ok(()),
            cancelled => Ok(cancelled?),
        }
    }

    /// Calls a tool without a model.
    pub(crate) async fn call_tool(
        &mut self,
        tool: &str,
        body: &CallBody,
    ) -> Result<ToolCallResult, Unsaid> {
        let (approver, _, mut questions) = approver(self.yes, Asked::Terminal);
        let path = format!("/api/tools/{}", segment(tool));
        let _answering = match self.yes || questions.can_come() {
            true => {
                let events = self
                    .remote
                    .client
                    .events("/api/events?approvals=true&agent=")
                    .await
                    .map_err(not_taken)?;
                Some(Listening::to(events, &self.remote.client, approver))
            }
            false => None,
        };
        let client = self.remote.client.clone();
        let mut called = std::pin::pin!(client.post(&path, body));
        loop {
            tokio::select! {
                called = &mut called => return called.map_err(not_taken),
                Some(question) = questions.next() => if question.put(std::future::pending()).await {
                    return Err(Unsaid::Failed(CliError::interrupted()));
                },
                signal = self.signals.next() => {
                    return Err(Unsaid::Failed(CliError::stopped(signal.exit(), "Interrupted.")));
                }
            }
        }
    }

    /// Shows everything that happens, until a signal comes or that process ends.
    pub(crate) async fn watch(
        mut self,
        interest: &str,
        mut show: impl FnMut(&SwarmEvent) -> Result<(), CliError>,
    ) -> Result<(), CliError> {
        let (approver, _, mut questions) = approver(self.yes, Asked::Terminal);
        let path = format!(
            "/api/events?approvals={}{interest}",
            self.yes || questions.can_come()
        );
        let events = self.remote.client.events(&path).await?;
        let mut listening = Listening::to(events, &self.remote.client, approver);
        loop {
            tokio::select! {
                told = listening.next() => match told.transpose()? {
                    Some(Told::Happened(event)) => show(&event)?,
                    Some(_) => {}
                    None => return self.output.note("The process that ran the swarm has ended."),
                },
                Some(question) = questions.next() => drop(question.put(std::future::pending()).await),
                _ = self.signals.next() => return Ok(()),
            }
        }
    }
}

/// The conversation of an input.
pub(super) fn instance(state: &InputState) -> InstanceId {
    InstanceId::new(
        state.agent_name.as_deref().unwrap_or_default(),
        state.instance_key.as_deref().unwrap_or_default(),
    )
}

/// The error of a request; another process may take it where this one was about to end.
fn not_taken(error: ClientError) -> Unsaid {
    if remote::is_not_taken(&error) {
        Unsaid::NotBegun(error.into())
    } else {
        Unsaid::Failed(error.into())
    }
}

/// The error of a turn whose process can't be heard any more.
fn broken(error: ClientError, has_begun: bool) -> Unsaid {
    if has_begun {
        Unsaid::Failed(error.into())
    } else {
        Unsaid::NotBegun(error.into())
    }
}

fn left_alone(signal: Signal) -> CliError {
    CliError::stopped(
        signal.exit(),
        "Interrupted. The turn goes on in the process that runs it.",
    )
    .suggest("Follow it with `gdn attach`.")
}

/// Why a turn has no result.
pub(super) fn cut_off() -> CliError {
    CliError::failure(
        Code::SWARM_STOPPED,
        "The process that runs the swarm ended before the turn did.",
    )
    .suggest("The turn resumes when the swarm starts again, with the next `gdn run`.")
}

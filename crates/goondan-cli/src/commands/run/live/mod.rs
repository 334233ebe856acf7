//! Full-terminal chat: a prompt at the bottom, running work above it, and finished lines above
//! that.
//! Finished lines are part of the terminal's scrollback.
//!
//! [`TerminalChat`] owns all state and waits for the next event. All output is written by `output::screen`.

mod commands;
mod editor;
mod export;
mod file_mentions;
mod keyboard;
mod keys;
mod listings;
mod markdown;
mod open_approval;
mod prompt;
mod reasoning;
mod terminal_guard;
mod terminal_signals;
mod transcript;
mod wrapped_text;

use std::collections::VecDeque;
use std::time::Duration;

use futures::FutureExt;
use goondan::Input;
use goondan::event::{FinishReason, TurnResult};
use goondan::ids::InstanceId;
use goondan::internal::untrusted_text;
use goondan::ports::approval::ApprovalAnswer;

use self::editor::LineEditor;
use self::keys::KeyPress;
use self::open_approval::OpenApproval;
use self::terminal_guard::TerminalGuard;
use self::terminal_signals::{TerminalSignal, TerminalSignals};
use self::transcript::ChatTranscript;
use super::approval::PendingApproval;
use super::chat::chat_backend::{BackendEvent, ChatBackend};
use super::chat::continuation_notice;
use super::chat::history::InputHistory;
use super::signals::StopSignal;
use crate::exit::CliError;
use crate::output::{CommandOutput, TerminalSize, screen, style, turn_error, write_error};

/// Interval at which elapsed times are redrawn while work runs.
const REDRAW_INTERVAL: Duration = Duration::from_millis(200);

/// Maximum number of events handled before the screen is redrawn.
const MAX_EVENTS_PER_DRAW: usize = 512;

/// Returns whether the terminal supports this chat.
pub(super) fn is_possible(output: &CommandOutput) -> bool {
    let is_terminal = CommandOutput::stdin_is_terminal()
        && CommandOutput::stdout_is_terminal()
        && CommandOutput::stderr_is_terminal();
    let is_able = std::env::var_os("TERM").is_some_and(|term| !term.is_empty() && term != "dumb");
    is_terminal && is_able && !output.quiet && !output.json
}

/// Chats until the user leaves.
pub(super) async fn chat<P: ChatBackend>(
    partner: P,
    first: &Input,
    output: &CommandOutput,
) -> Result<(), CliError> {
    let terminal_signals = TerminalSignals::listen()?;
    let terminal_guard = TerminalGuard::enter()?;
    let mut chat = TerminalChat::new(partner, terminal_guard, terminal_signals, first, output);
    let faint = style::FAINT;
    chat.tell_styled(
        &format!(
            "Swarm {}. /help lists commands, Ctrl-D leaves.",
            untrusted_text::line(chat.partner.swarm_name())
        ),
        faint,
    );
    if let Some(notice) = continuation_notice(&chat.partner, first).await {
        chat.tell_styled(&notice, faint);
    }
    let outcome = chat.run_until_leave().await;
    let TerminalChat {
        mut partner,
        stage: terminal_guard,
        questions,
        ..
    } = chat;
    questions
        .into_iter()
        .for_each(|question| partner.put_off(question));
    drop(terminal_guard);
    // Even if the terminal is closed, the swarm must end properly.
    let left_outcome = partner.leave().await;
    outcome.and(left_outcome)
}

/// State of the chat.
struct TerminalChat<P> {
    partner: P,
    stage: TerminalGuard,
    os: TerminalSignals,
    pane: ChatTranscript,
    editor: LineEditor,
    history: InputHistory,
    /// Agent and conversation of the next input.
    target: Input,
    /// Inputs that wait for the end of the turn.
    queue: VecDeque<Input>,
    /// Running turn with its conversation. `None`: no turn runs. `Some(None)`: an input was sent, and
    /// its conversation is not known yet.
    turn: Option<Option<InstanceId>>,
    is_cancelling: bool,
    asking: Option<OpenApproval>,
    /// Pending approval requests.
    questions: VecDeque<PendingApproval>,
    /// Notice next to the prompt, until the next key.
    notice: Option<String>,
    /// Last key, if pressing it again leaves the chat.
    leaves_again: Option<KeyPress>,
    /// The job is stopped, so nothing is drawn.
    is_lent: bool,
}

/// Next event of the chat.
enum ChatEvent {
    Key(KeyPress),
    News(BackendEvent),
    Os(TerminalSignal),
    /// The open approval request is obsolete, for this reason.
    Withdrawn(&'static str),
    /// Elapsed times need a redraw.
    Tick,
}

/// Decision to continue or end the chat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChatFlow {
    Continue,
    Leave,
}

impl<P: ChatBackend> TerminalChat<P> {
    /// Creates the chat. The first input goes to the agent and the conversation of `first`.
    fn new(
        partner: P,
        stage: TerminalGuard,
        os: TerminalSignals,
        first: &Input,
        output: &CommandOutput,
    ) -> Self {
        let history = InputHistory::of(&partner.workspace_dir());
        let target = Input {
            text: String::new(),
            ..first.clone()
        };
        let shown_conversation = conversation(&target, &partner);
        TerminalChat {
            partner,
            stage,
            os,
            pane: ChatTranscript::new(shown_conversation, output),
            editor: LineEditor::with(history.lines().to_vec()),
            history,
            target,
            queue: VecDeque::new(),
            turn: None,
            is_cancelling: false,
            asking: None,
            questions: VecDeque::new(),
            notice: None,
            leaves_again: None,
            is_lent: false,
        }
    }

    /// Handles events and redraws the screen until the user leaves.
    async fn run_until_leave(&mut self) -> Result<(), CliError> {
        loop {
            self.paint()?;
            let chat_event = self.next_event().await?;
            if self.handle_event(chat_event).await? == ChatFlow::Leave {
                return Ok(());
            }
            for _ in 0..MAX_EVENTS_PER_DRAW {
                let Some(event) = self.partner.next().now_or_never() else {
                    break;
                };
                if self.handle_event(ChatEvent::News(event?)).await? == ChatFlow::Leave {
                    return Ok(());
                }
            }
            if self.asking.is_none() && self.editor.is_empty() {
                self.put_question()?;
            }
        }
    }

    /// Waits for the next event.
    async fn next_event(&mut self) -> Result<ChatEvent, CliError> {
        let (is_busy, asking) = (self.turn.is_some() || self.pane.is_busy(), &self.asking);
        let withdrawn = async {
            match asking {
                Some(asking) => asking.ended().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            key = self.stage.keyboard.next() => Ok(ChatEvent::Key(key)),
            signal = self.os.next() => Ok(ChatEvent::Os(signal)),
            reason = withdrawn => Ok(ChatEvent::Withdrawn(reason)),
            event = self.partner.next() => event.map(ChatEvent::News),
            () = tokio::time::sleep(REDRAW_INTERVAL), if is_busy => Ok(ChatEvent::Tick),
        }
    }

    /// Handles an event, and returns whether the chat continues.
    async fn handle_event(&mut self, event: ChatEvent) -> Result<ChatFlow, CliError> {
        match event {
            ChatEvent::Key(key) => return self.key(key).await,
            ChatEvent::News(backend_event) => {
                return self.handle_backend_event(backend_event).await;
            }
            ChatEvent::Os(signal) => self.handle_terminal_signal(signal)?,
            ChatEvent::Withdrawn(reason) => {
                if let Some(asking) = self.asking.take() {
                    asking.withdraw(reason)?;
                }
            }
            ChatEvent::Tick => {}
        }
        Ok(ChatFlow::Continue)
    }

    /// Handles a resize, a stop (Ctrl-Z) or a continuation of the job.
    fn handle_terminal_signal(&mut self, signal: TerminalSignal) -> Result<(), CliError> {
        match signal {
            TerminalSignal::Resized => {}
            TerminalSignal::Stop => {
                self.stage.release()?;
                self.is_lent = terminal_signals::stop();
                if !self.is_lent {
                    self.stage.reacquire()?;
                }
            }
            TerminalSignal::Continued => {
                self.is_lent = false;
                self.stage.reacquire()?;
            }
        }
        Ok(())
    }

    /// Handles an event of the swarm, of an approval request or of a signal.
    async fn handle_backend_event(&mut self, event: BackendEvent) -> Result<ChatFlow, CliError> {
        match event {
            BackendEvent::Begun(id) => {
                self.pane.begin(&id);
                self.turn = Some(Some(id));
            }
            BackendEvent::Event(event) => self
                .pane
                .show(&event, |event_id| self.partner.is_mine(event_id)),
            BackendEvent::Question(question) => self.questions.push_back(question),
            BackendEvent::Reloaded(notice) => self.pane.tell(&notice),
            BackendEvent::Signal(StopSignal::Interrupt) => {
                let next = self.interrupt().await?;
                if next == ChatFlow::Continue {
                    // The signal is handled, so the next one must not end the command at once.
                    self.partner.signals().clear();
                }
                return Ok(next);
            }
            BackendEvent::Signal(signal) => {
                self.leave_with_signal(signal)?;
                return Ok(ChatFlow::Leave);
            }
            BackendEvent::Ended(result) => self.end_turn(result).await?,
        }
        Ok(ChatFlow::Continue)
    }

    /// Handles the end of a turn and starts the next queued input.
    async fn end_turn(
        &mut self,
        result: Result<Box<TurnResult>, CliError>,
    ) -> Result<(), CliError> {
        // The notice was about this turn.
        if self.is_cancelling || self.leaves_again == Some(KeyPress::Leave) {
            self.notice = None;
            self.leaves_again = None;
        }
        self.turn = None;
        self.is_cancelling = false;
        match result {
            Ok(result) => self.show_end(&result)?,
            Err(error) if error.silent || error.is_stop() => return Err(error),
            Err(error) => {
                self.pane.flush()?;
                write_error(&error, false)?;
            }
        }
        match self.queue.pop_front() {
            Some(input) => self.send(input).await,
            None => Ok(()),
        }
    }

    /// Shows the end of a turn: the rest of its answer, or its error.
    fn show_end(&mut self, result: &TurnResult) -> Result<(), CliError> {
        self.pane.end(result);
        match turn_error(result) {
            Some(_) if result.finish_reason == FinishReason::Cancelled => {
                self.pane.tell("Cancelled.")
            }
            Some(error) => {
                self.pane.flush()?;
                write_error(&error, false)?;
            }
            None => {}
        }
        Ok(())
    }

    /// Sends an input, or queues it while a turn runs.
    async fn say(&mut self, input: Input) -> Result<(), CliError> {
        match self.turn {
            Some(_) => {
                self.queue.push_back(input);
                Ok(())
            }
            None => self.send(input).await,
        }
    }

    /// Sends an input and shows it. Returns only errors that end the chat.
    async fn send(&mut self, input: Input) -> Result<(), CliError> {
        let agent = input
            .agent
            .clone()
            .unwrap_or_else(|| self.partner.entry_agent());
        self.pane.add_input(&agent, &input.text);
        match self.partner.send(input).await {
            Ok(()) => {
                self.turn = Some(None);
                Ok(())
            }
            Err(error) if self.partner.is_stopping() || error.silent => Err(error),
            Err(error) => {
                self.pane.flush()?;
                Ok(write_error(&error, false)?)
            }
        }
    }

    /// Shows the first request that still needs an answer. Keys pressed earlier do not answer it.
    fn put_question(&mut self) -> Result<(), CliError> {
        while self.asking.is_none() {
            let Some(question) = self.questions.pop_front() else {
                return Ok(());
            };
            if question.is_withdrawn() {
                continue;
            }
            self.pane.flush()?;
            self.asking = Some(OpenApproval::put(question, size())?);
            // The prompt is drawn after this, so keys pressed in response to it are kept.
            self.stage.keyboard.forget();
        }
        Ok(())
    }

    /// Answers the open approval request, if there is one.
    fn answer(&mut self, answer: ApprovalAnswer) -> Result<(), CliError> {
        self.asking
            .take()
            .map_or(Ok(()), |asking| asking.close(answer))
    }

    /// Ends the chat because of a signal, and clears the rows at the bottom.
    fn leave_with_signal(&mut self, signal: StopSignal) -> Result<(), CliError> {
        // The terminal may be closed, which may be the cause.
        let _ = self.pane.flush();
        let _ = self
            .asking
            .take()
            .map(|asking| asking.close(ApprovalAnswer::NobodyThere));
        let _ = screen::remove_status_rows();
        self.partner.stop(signal)
    }

    /// Adds a line of gdn in this style.
    fn tell_styled(&mut self, text: &str, style: anstyle::Style) {
        self.pane.tell(&format!("{style}{text}{style:#}"));
    }
}

/// Returns the target conversation of an input.
fn conversation<P: ChatBackend>(input: &Input, partner: &P) -> InstanceId {
    let agent = input.agent.clone().unwrap_or_else(|| partner.entry_agent());
    InstanceId::new(agent, input.instance_key.as_deref().unwrap_or("main"))
}

/// Returns the terminal size without its last column, because text that ends there may wrap.
fn size() -> TerminalSize {
    let (columns, rows) = terminal_size::terminal_size_of(std::io::stdout())
        .map_or((80, 24), |(width, height)| {
            (usize::from(width.0), usize::from(height.0))
        });
    TerminalSize {
        columns: columns.saturating_sub(1).max(2),
        rows: rows.max(2),
    }
}

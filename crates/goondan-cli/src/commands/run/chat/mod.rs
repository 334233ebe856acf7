//! Chat at a terminal. In the full view, a prompt is at the bottom, running work above it, and finished
//! lines above that. In plain lines, nothing is redrawn, and a prompt appears while no turn runs.
//! Finished lines are part of the terminal's scrollback.
//!
//! [`TerminalChat`] owns all state and waits for the next event. All output is written by `output::screen`.

mod chat_terminal;
mod commands;
mod editor;
mod export;
mod file_mentions;
mod history;
#[cfg(unix)]
mod keyboard;
#[cfg(unix)]
mod keys;
mod line_keyboard;
mod listings;
mod markdown;
mod open_approval;
mod operations;
mod plain;
mod pressed_key;
mod prompt;
mod reasoning;
#[cfg(unix)]
mod terminal_guard;
#[cfg(unix)]
mod terminal_signals;
mod transcript;
mod wrapped_text;

use std::collections::VecDeque;
use std::time::Duration;

use futures::FutureExt;
use goondan::Input;
use goondan::event::{ConversationOperation, FinishReason, SwarmEvent, TurnResult};
use goondan::ids::InstanceId;
use goondan::internal::untrusted_text;
use goondan::ports::approval::ApprovalAnswer;
use goondan::start::swarm::DEFAULT_INSTANCE_KEY;
use goondan::workspace::database;

use self::chat_terminal::ChatTerminal;
use self::editor::LineEditor;
use self::history::InputHistory;
use self::open_approval::OpenApproval;
use self::pressed_key::KeyPress;
use self::transcript::ChatTranscript;
use super::approval::PendingApproval;
use super::client::{ClientUpdate, SwarmClient, joined_input};
use super::signals::StopSignal;
use crate::exit::CliError;
use crate::output::{CommandOutput, TerminalSize, screen, style, turn_error, write_error};

/// Interval at which elapsed times are redrawn while work runs.
const REDRAW_INTERVAL: Duration = Duration::from_millis(200);

/// Label of an input that joins the running turn or follows it.
const JOINING_LABEL: &str = "joins:";
const FOLLOWING_LABEL: &str = "next:";

/// Maximum number of events handled before the screen is redrawn.
const MAX_EVENTS_PER_DRAW: usize = 512;

/// Chats until the user leaves. `is_plain` requests plain lines.
pub(super) async fn chat<P: SwarmClient>(
    client: P,
    first: &Input,
    is_plain: bool,
    output: &CommandOutput,
) -> Result<(), CliError> {
    let terminal = ChatTerminal::open(is_plain, output)?;
    let mut chat = TerminalChat::new(client, terminal, first, output);
    let faint = style::FAINT;
    chat.add_styled_notice(
        &format!(
            "Swarm {}. /help lists commands, Ctrl-D leaves.",
            untrusted_text::line(chat.client.swarm_name())
        ),
        faint,
    );
    if let Some(notice) = chat.continuation_notice().await {
        chat.add_styled_notice(&notice, faint);
    }
    let outcome = chat.run_until_leave().await;
    chat.end_prompt_line();
    let TerminalChat {
        client,
        terminal,
        stopped_by,
        ..
    } = chat;
    drop(terminal);
    // Even if the terminal is closed, the swarm must end properly.
    let left_outcome = client.end_client(stopped_by).await;
    outcome.and(left_outcome)
}

/// State of the chat.
struct TerminalChat<P> {
    /// Client of the swarm.
    client: P,
    terminal: ChatTerminal,
    /// Rows above the prompt.
    transcript: ChatTranscript,
    /// Prompt line.
    editor: LineEditor,
    /// Earlier inputs, including inputs of other chats.
    history: InputHistory,
    /// Agent and conversation of the next input.
    target: Input,
    /// Inputs that wait for the end of the turn.
    queue: VecDeque<Input>,
    /// Inputs that were sent to join the running turn, and have not joined it. All have ids.
    steering: VecDeque<Input>,
    /// Conversation of the running turn. `None`: no turn runs.
    turn: Option<InstanceId>,
    is_cancelling: bool,
    /// Operation that runs instead of a turn.
    operation: Option<ConversationOperation>,
    /// Approval request on the screen.
    asking: Option<OpenApproval>,
    /// Approval requests that are not shown yet, oldest first.
    questions: VecDeque<PendingApproval>,
    /// Notice next to the prompt, until the next key.
    notice: Option<String>,
    /// Last key, if pressing that key again ends the chat.
    leaves_again: Option<KeyPress>,
    /// Signal that ends the chat.
    stopped_by: Option<StopSignal>,
    /// In plain lines, the prompt is shown, and no line was typed since.
    has_prompt: bool,
    /// In plain lines, a line was typed.
    has_typed: bool,
}

/// Next event of the chat.
enum ChatEvent {
    Key(KeyPress),
    Update(ClientUpdate),
    /// The open approval request is obsolete, for this reason.
    Withdrawn(&'static str),
    /// The rows at the bottom need a redraw.
    Redraw,
}

/// Decision to continue or end the chat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChatFlow {
    Continue,
    Leave,
}

impl<P: SwarmClient> TerminalChat<P> {
    /// Creates the chat. The first input goes to the agent and the conversation of `first`.
    fn new(client: P, terminal: ChatTerminal, first: &Input, output: &CommandOutput) -> Self {
        let history = InputHistory::of(&client.workspace_dir());
        let target = Input {
            text: String::new(),
            ..first.clone()
        };
        let shown_conversation = conversation(&target, &client);
        TerminalChat {
            transcript: ChatTranscript::new(shown_conversation, terminal.is_plain(), output),
            client,
            terminal,
            editor: LineEditor::with(history.lines().to_vec()),
            history,
            target,
            queue: VecDeque::new(),
            steering: VecDeque::new(),
            turn: None,
            is_cancelling: false,
            operation: None,
            asking: None,
            questions: VecDeque::new(),
            notice: None,
            leaves_again: None,
            stopped_by: None,
            has_prompt: false,
            has_typed: false,
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
                let Some(event) = self.client.next().now_or_never() else {
                    break;
                };
                if self.handle_event(ChatEvent::Update(event?)).await? == ChatFlow::Leave {
                    return Ok(());
                }
            }
            if self.may_ask() {
                self.show_next_approval()?;
            }
        }
    }

    /// Waits for the next event.
    async fn next_event(&mut self) -> Result<ChatEvent, CliError> {
        let is_busy = self.turn.is_some() || self.transcript.is_busy();
        let (is_redrawn, asking) = (is_busy && !self.terminal.is_plain(), &self.asking);
        let withdrawn = async {
            match asking {
                Some(asking) => asking.wait_until_obsolete().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            key = self.terminal.next() => Ok(key?.map_or(ChatEvent::Redraw, ChatEvent::Key)),
            reason = withdrawn => Ok(ChatEvent::Withdrawn(reason)),
            event = self.client.next() => event.map(ChatEvent::Update),
            () = tokio::time::sleep(REDRAW_INTERVAL), if is_redrawn => Ok(ChatEvent::Redraw),
        }
    }

    /// Handles an event, and returns true if the chat continues.
    async fn handle_event(&mut self, event: ChatEvent) -> Result<ChatFlow, CliError> {
        match event {
            ChatEvent::Key(key) => return self.key(key).await,
            ChatEvent::Update(update) => {
                return self.handle_update(update).await;
            }
            ChatEvent::Withdrawn(reason) => {
                if let Some(asking) = self.asking.take() {
                    asking.withdraw(reason)?;
                }
            }
            ChatEvent::Redraw => {}
        }
        Ok(ChatFlow::Continue)
    }

    /// Handles an update of the client: an event of the swarm, an approval request or a signal.
    /// Returns true if the chat continues.
    async fn handle_update(&mut self, update: ClientUpdate) -> Result<ChatFlow, CliError> {
        match update {
            ClientUpdate::Begun { instance: id, .. } => {
                self.transcript.begin(&id);
                self.note_begin(&id);
                self.turn = Some(id);
            }
            ClientUpdate::Event(event) => {
                self.transcript
                    .show(&event, |event_id| self.client.is_mine(event_id));
                self.show_joined(&event);
            }
            ClientUpdate::Question(question) => {
                self.announce(&question);
                self.questions.push_back(question);
            }
            ClientUpdate::Reloaded(notice) => self.transcript.add_notice(&notice),
            ClientUpdate::Signal(StopSignal::Interrupt) => {
                let next = self.interrupt().await?;
                if next == ChatFlow::Continue {
                    // The signal is handled, so the next one must not end the command at once.
                    self.client.signals().clear();
                }
                return Ok(next);
            }
            ClientUpdate::Signal(signal) => {
                return Ok(self.leave_with_signal(signal));
            }
            ClientUpdate::Ended(result) => self.end_turn(result.map_err(CliError::from)).await?,
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
        let operation = self.operation.take();
        match result {
            Ok(result) if operation.is_some() => self.show_operation_end(&result)?,
            Ok(result) => self.show_end(&result)?,
            Err(error) if error.silent || error.is_stop() => return Err(error),
            Err(error) => {
                self.transcript.flush()?;
                write_error(&error, false)?;
            }
        }
        if let Some(input) = self.steering.pop_front() {
            // The turn ended without this input, whose own turn follows.
            self.turn = Some(conversation(&input, &self.client));
            self.show_input(&input);
            return Ok(());
        }
        match self.queue.pop_front() {
            Some(input) => {
                self.show_input(&input);
                self.send(input).await
            }
            None => Ok(()),
        }
    }

    /// Shows the end of a turn: the rest of its answer, or its error.
    fn show_end(&mut self, result: &TurnResult) -> Result<(), CliError> {
        self.transcript.end(result);
        match turn_error(result) {
            Some(_) if result.finish_reason == FinishReason::Cancelled => {
                self.transcript.add_notice("Cancelled.")
            }
            Some(error) => {
                self.transcript.flush()?;
                write_error(&error, false)?;
            }
            None => {}
        }
        Ok(())
    }

    /// Sends an input. The input joins the running turn of its conversation. If another turn is
    /// running, or the turn is being cancelled, sends the input after that turn.
    async fn send_input(&mut self, input: Input) -> Result<(), CliError> {
        let target = conversation(&input, &self.client);
        match &self.turn {
            Some(running)
                if *running == target && !self.is_cancelling && self.operation.is_none() =>
            {
                self.steer(input).await
            }
            _ => self.queue_input(input).await,
        }
    }

    /// Sends an input now, or after the running turn.
    async fn queue_input(&mut self, input: Input) -> Result<(), CliError> {
        match self.turn {
            Some(_) => {
                self.note_waiting(FOLLOWING_LABEL, &input);
                self.queue.push_back(input);
                Ok(())
            }
            None => {
                // In plain lines, the terminal repeats it.
                if !self.terminal.is_plain() {
                    self.show_input(&input);
                }
                self.send(input).await
            }
        }
    }

    /// Sends an input that joins the running turn.
    async fn steer(&mut self, input: Input) -> Result<(), CliError> {
        let input = Input {
            id: Some(new_input_id()),
            ..input
        };
        match self.client.steer(input.clone()).await {
            Ok(()) => {
                self.note_waiting(JOINING_LABEL, &input);
                self.steering.push_back(input);
                Ok(())
            }
            Err(error) => self.show_send_error(error),
        }
    }

    /// Shows an input once it joins the turn, at its place in the conversation.
    fn show_joined(&mut self, event: &SwarmEvent) {
        let joined = joined_input(event);
        let is_joined = |input: &Input| joined.is_some() && input.id.as_deref() == joined;
        if let Some(index) = self.steering.iter().position(is_joined)
            && let Some(input) = self.steering.remove(index)
        {
            self.show_input(&input);
        }
    }

    /// Repeats an input as a permanent line.
    fn show_input(&mut self, input: &Input) {
        let agent = conversation(input, &self.client).agent;
        self.transcript.add_input(&agent, &input.text);
    }

    /// Sends an input. Returns only errors that end the chat.
    async fn send(&mut self, input: Input) -> Result<(), CliError> {
        let target = conversation(&input, &self.client);
        match self.client.send(input).await {
            Ok(()) => {
                self.turn = Some(target);
                Ok(())
            }
            Err(failure) => self.show_send_error(failure.into()),
        }
    }

    /// Shows why an input was not sent. Returns only errors that end the chat.
    fn show_send_error(&mut self, error: CliError) -> Result<(), CliError> {
        match error {
            error if error.silent => Err(error),
            error => {
                self.transcript.flush()?;
                Ok(write_error(&error, false)?)
            }
        }
    }

    /// Shows the first request that still needs an answer. Keys pressed earlier do not answer it.
    fn show_next_approval(&mut self) -> Result<(), CliError> {
        while self.asking.is_none() {
            let Some(question) = self.questions.pop_front() else {
                return Ok(());
            };
            if question.is_withdrawn() {
                continue;
            }
            self.end_prompt_line();
            self.transcript.flush()?;
            let asking = OpenApproval::show(question, size(), self.terminal.is_plain())?;
            // The prompt is drawn after this, so keys pressed in response to it are kept.
            self.terminal.forget();
            asking.show_plain_prompt()?;
            self.asking = Some(asking);
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
    fn leave_with_signal(&mut self, signal: StopSignal) -> ChatFlow {
        self.end_prompt_line();
        // First, so that an open approval request stays open for the next start. The end of the chat
        // reports the signal.
        let _ = self.client.interrupt(signal);
        // The terminal may be closed, which may be the cause.
        let _ = self.transcript.flush();
        let _ = self
            .asking
            .take()
            .map(|asking| asking.close(ApprovalAnswer::NobodyThere));
        let _ = screen::remove_status_rows();
        self.stopped_by = Some(signal);
        ChatFlow::Leave
    }

    /// Returns a notice if the chat continues a conversation that has messages.
    async fn continuation_notice(&self) -> Option<String> {
        let id = conversation(&self.target, &self.client);
        let count = match self.client.message_count(&id).await {
            0 => return None,
            1 => "1 message".to_owned(),
            count => format!("{count} messages"),
        };
        Some(format!(
            "Continuing the conversation {} ({count}). `/key NAME` selects another conversation.",
            untrusted_text::line(id)
        ))
    }

    /// Adds a line of gdn in this style.
    fn add_styled_notice(&mut self, text: &str, style: anstyle::Style) {
        self.transcript
            .add_notice(&format!("{style}{text}{style:#}"));
    }
}

fn new_input_id() -> String {
    format!("evt-{}", database::new_id())
}

/// Returns the target conversation of an input.
fn conversation<P: SwarmClient>(input: &Input, client: &P) -> InstanceId {
    let agent = input.agent.clone().unwrap_or_else(|| client.entry_agent());
    let key = input.instance_key.as_deref();
    InstanceId::new(agent, key.unwrap_or(DEFAULT_INSTANCE_KEY))
}

/// Returns the terminal size without its last column, because text that ends there may wrap.
fn size() -> TerminalSize {
    let TerminalSize { columns, rows } = TerminalSize::current();
    TerminalSize {
        columns: columns.saturating_sub(1).max(2),
        rows: rows.max(2),
    }
}

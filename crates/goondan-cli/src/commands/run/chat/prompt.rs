//! Prompt of the chat: key handling and layout.

use goondan::Input;
use goondan::internal::untrusted_text;
use goondan::mcp::PromptInput;
use goondan::ports::approval::ApprovalAnswer;
use goondan::spec::Bundle;

use super::super::signals::StopSignal;
use super::commands::{self, ChatCommand, unknown_command};
use super::open_approval::OpenApproval;
use super::pressed_key::KeyPress;
use super::transcript::SENDER;
use super::{
    ChatFlow, FOLLOWING_LABEL, JOINING_LABEL, TerminalChat, conversation, export, file_mentions,
    listings, size,
};
use crate::commands::run::client::SwarmClient;
use crate::exit::CliError;
use crate::output::width::{fit, width};
use crate::output::{StatusRows, TerminalSize, screen, shorten, style};

/// Maximum number of queued inputs shown.
const MAX_QUEUED_ROWS: usize = 3;

/// Hint while the user types during a turn.
const STEERING_HINT: &str =
    "Enter joins the running turn before its next step. Alt-Q queues the input.";

/// Notice after the first Ctrl-C.
const LEAVE_AGAIN_NOTICE: &str = "Press Ctrl-C again to leave, or keep typing.";

impl<P: SwarmClient> TerminalChat<P> {
    /// Handles a key: in the whole chat, in an approval request, or in the editor.
    pub(super) async fn key(&mut self, key: KeyPress) -> Result<ChatFlow, CliError> {
        let leave_key = self.leaves_again.take();
        match key {
            KeyPress::Gone => {
                return Ok(self.leave_with_signal(StopSignal::Interrupt));
            }
            KeyPress::Suspend => self.terminal.suspend(),
            KeyPress::Redraw => screen::clear()?,
            KeyPress::Interrupt => {
                self.leaves_again = leave_key;
                return self.interrupt().await;
            }
            key if self.asking.is_some() => {
                match self.asking.as_mut().and_then(|asking| asking.press(&key)) {
                    Some(answer) => self.answer(answer)?,
                    None if key == KeyPress::Enter => self
                        .asking
                        .as_ref()
                        .map_or(Ok(()), OpenApproval::show_plain_prompt)?,
                    None => {}
                }
            }
            key => {
                self.notice = None;
                return self.edit_input(key, leave_key).await;
            }
        }
        Ok(ChatFlow::Continue)
    }

    /// Applies a key to the input. `again`: the last key, if pressing it again leaves the chat.
    async fn edit_input(
        &mut self,
        key: KeyPress,
        leave_key: Option<KeyPress>,
    ) -> Result<ChatFlow, CliError> {
        match key {
            KeyPress::Enter => return self.submit_line().await,
            KeyPress::QueueInput => self.queue_line().await?,
            KeyPress::Leave if self.editor.is_empty() => {
                if self.turn.is_some() && leave_key != Some(KeyPress::Leave) {
                    self.notice =
                        Some("A turn is running. Ctrl-D again cancels it and leaves.".to_owned());
                    self.leaves_again = Some(KeyPress::Leave);
                    return Ok(ChatFlow::Continue);
                }
                return self.cancel_and_leave().await;
            }
            KeyPress::Leave => self.editor.press(&KeyPress::Delete),
            KeyPress::Escape => self.show_next_approval()?,
            KeyPress::Tab => {
                let completion = commands::complete(
                    self.editor.before(),
                    &self.client.agents(),
                    &self.client.prompts(),
                );
                self.editor.insert(&completion.more);
                if !completion.candidates.is_empty() {
                    self.notice =
                        Some(untrusted_text::line(completion.candidates.join("  ")).to_string());
                }
            }
            key => self.editor.press(&key),
        }
        Ok(ChatFlow::Continue)
    }

    /// Handles Ctrl-C: cancels the turn, then clears the line, then leaves.
    pub(super) async fn interrupt(&mut self) -> Result<ChatFlow, CliError> {
        let leave_key = self.leaves_again.take();
        self.notice = None;
        if self.turn.is_some() && !self.is_cancelling {
            // The denial comes after the cancellation, because a denied call continues the turn.
            self.cancel().await?;
            self.answer(ApprovalAnswer::Deny)?;
            return Ok(ChatFlow::Continue);
        }
        self.answer(ApprovalAnswer::Deny)?;
        if !self.editor.is_empty() {
            self.editor.take();
            return Ok(ChatFlow::Continue);
        }
        if leave_key == Some(KeyPress::Interrupt) {
            return Ok(self.leave_with_signal(StopSignal::Interrupt));
        }
        self.notice = Some(LEAVE_AGAIN_NOTICE.to_owned());
        self.leaves_again = Some(KeyPress::Interrupt);
        Ok(ChatFlow::Continue)
    }

    /// Cancels the turn. Queued inputs return to the prompt instead of starting.
    async fn cancel(&mut self) -> Result<(), CliError> {
        let target = conversation(&self.target, &self.client);
        let conversation_to_cancel = self.turn.clone().unwrap_or(target);
        let mut unsent_texts = self.take_back_steering().await?;
        if !self.client.cancel(&conversation_to_cancel).await? && self.turn.is_none() {
            self.notice = Some("No turn is running in this conversation.".to_owned());
            return Ok(());
        }
        self.is_cancelling = self.turn.is_some();
        self.notice = Some("Cancelling the turn.".to_owned());
        unsent_texts.extend(self.queue.drain(..).map(|input| input.text));
        if !unsent_texts.is_empty() {
            unsent_texts.push(self.editor.take());
            unsent_texts.retain(|text| !text.is_empty());
            self.return_unsent(&unsent_texts.join("\n"));
        }
        Ok(())
    }

    /// Takes back the inputs that have not joined the running turn, and returns their texts.
    async fn take_back_steering(&mut self) -> Result<Vec<String>, CliError> {
        let mut texts = Vec::new();
        for input in std::mem::take(&mut self.steering) {
            // `steer` gave the input an id.
            self.client
                .withdraw(input.id.as_deref().unwrap_or_default())
                .await?;
            texts.push(input.text);
        }
        Ok(texts)
    }

    /// Sends the typed input after the running turn.
    async fn queue_line(&mut self) -> Result<(), CliError> {
        let text = self.editor.take();
        if text.trim().is_empty() {
            return Ok(());
        }
        self.history.remember(&text);
        self.editor.remember(&text);
        self.queue_text(&text).await
    }

    /// Sends a text, with the files that it mentions, after the running turn.
    async fn queue_text(&mut self, text: &str) -> Result<(), CliError> {
        match self.expand_files(text)? {
            Some(input) => self.queue_input(input).await,
            None => Ok(()),
        }
    }

    /// Returns the input for a text, with the files that it mentions. Without an input, shows why and
    /// returns the text to the prompt.
    fn expand_files(&mut self, text: &str) -> Result<Option<Input>, CliError> {
        match file_mentions::expand(text) {
            Ok((text, files)) => Ok(Some(Input {
                text,
                files,
                ..self.target.clone()
            })),
            Err(error) => {
                self.transcript.flush()?;
                crate::output::write_error(&error, false)?;
                self.return_unsent(text);
                Ok(None)
            }
        }
    }

    /// Cancels the running turn, if there is one, and ends the chat.
    async fn cancel_and_leave(&mut self) -> Result<ChatFlow, CliError> {
        if let Some(running) = self.turn.clone() {
            self.client.cancel(&running).await?;
        }
        self.transcript.flush()?;
        Ok(ChatFlow::Leave)
    }

    /// Executes the typed line: a command or an input.
    async fn submit_line(&mut self) -> Result<ChatFlow, CliError> {
        let line = self.editor.take();
        // Enter has ended the line of the prompt.
        self.has_prompt = false;
        self.has_typed = true;
        if line.trim().is_empty() {
            return Ok(ChatFlow::Continue);
        }
        self.history.remember(&line);
        self.editor.remember(&line);
        let command = commands::read(&line);
        if !self.terminal.is_plain() && !matches!(command, ChatCommand::Say(_)) {
            let faint = style::FAINT;
            self.add_styled_notice(&untrusted_text::line(line.trim()).to_string(), faint);
        }
        match command {
            ChatCommand::Help => {
                let help = commands::help(self.terminal.is_plain(), &self.client.prompts());
                self.transcript.add_notice(&help);
            }
            ChatCommand::Quit => return self.cancel_and_leave().await,
            ChatCommand::Prompt(line) => self.send_prompt(line).await?,
            ChatCommand::Agent(name) if !self.client.agents().iter().any(|agent| agent == name) => {
                self.transcript.add_notice(&format!(
                    "There is no agent {}; /agents lists them.",
                    untrusted_text::line(name)
                ));
            }
            ChatCommand::Agent(name) => self.target.agent = Some(name.to_owned()),
            ChatCommand::Key(key) => self.target.instance_key = Some(key.to_owned()),
            ChatCommand::Unknown(command) => self.transcript.add_notice(&unknown_command(command)),
            ChatCommand::Say(text) => {
                if let Some(input) = self.expand_files(text)? {
                    self.send_input(input).await?;
                }
            }
            ChatCommand::Agents => self.list_agents(),
            ChatCommand::Cancel => self.cancel().await?,
            ChatCommand::Operate(operation) => self.operate(operation).await?,
            ChatCommand::Queue(text) => self.queue_text(text).await?,
            ChatCommand::Clear => self.start_new_conversation(),
            ChatCommand::Reload if self.client.reload() => {}
            ChatCommand::Reload => self.transcript.add_notice(
                "Another process runs the swarm. Reload the project with `gdn reload`.",
            ),
            ChatCommand::Sessions => {
                let current = conversation(&self.target, &self.client);
                let lines = self.client.conversations().await;
                self.list(lines.map(|found| listings::sessions(found, &current)));
            }
            ChatCommand::Tools => {
                let agent = conversation(&self.target, &self.client).agent;
                self.list(
                    self.client
                        .tools(&agent)
                        .map(|found| listings::tools(&found)),
                );
            }
            ChatCommand::Model => self.list_resources(listings::models),
            ChatCommand::Permissions => self.list_resources(listings::permissions),
            ChatCommand::Usage => match self.transcript.used().words() {
                Some(_) => self
                    .transcript
                    .used()
                    .lines()
                    .iter()
                    .for_each(|line| self.transcript.add_notice(line)),
                None => self
                    .transcript
                    .add_notice("No model has reported its usage yet."),
            },
            ChatCommand::Context => match self.transcript.context() {
                Some(context) => context
                    .lines()
                    .iter()
                    .for_each(|line| self.transcript.add_notice(line)),
                None => self
                    .transcript
                    .add_notice("No model has answered in this chat yet."),
            },
            ChatCommand::Reasoning => {
                let reasoning = self.transcript.last_reasoning();
                let no_reasoning = || "No model has reasoned in this chat.".to_owned();
                self.transcript
                    .add_notice(&reasoning.unwrap_or_else(no_reasoning));
            }
            ChatCommand::Export(file) => self.export(file).await?,
        }
        Ok(ChatFlow::Continue)
    }

    /// Sends the prompt of an MCP server as the next input.
    async fn send_prompt(&mut self, line: &str) -> Result<(), CliError> {
        match self.client.expand_prompt(line).await {
            Some(Ok(PromptInput { text, files })) => {
                let target = self.target.clone();
                let input = Input {
                    text,
                    files,
                    ..target
                };
                if self.terminal.is_plain() {
                    self.show_input(&input);
                }
                self.send_input(input).await
            }
            Some(Err(error)) => {
                self.transcript.flush()?;
                Ok(crate::output::write_error(&error, false)?)
            }
            None => {
                self.transcript.add_notice(&unknown_command(line));
                Ok(())
            }
        }
    }

    /// Shows the lines of a list. A swarm of another process has none.
    fn list(&mut self, lines: Option<Vec<String>>) {
        match lines {
            Some(lines) => lines
                .iter()
                .for_each(|line| self.transcript.add_notice(line)),
            None => self
                .transcript
                .add_notice("Another process runs the swarm, so this chat cannot list it."),
        }
    }

    /// Shows the lines about resources of the current agent.
    fn list_resources(&mut self, lines: fn(&Bundle, &str) -> Vec<String>) {
        let agent = conversation(&self.target, &self.client).agent;
        let bundle = self.client.bundle();
        self.list(bundle.map(|bundle| lines(&bundle, &agent)));
    }

    /// Lists the agents, and marks the current one.
    fn list_agents(&mut self) {
        let current = conversation(&self.target, &self.client).agent;
        for agent in self.client.agents() {
            let mark = if agent == current { "▸" } else { " " };
            self.transcript
                .add_notice(&format!("{mark} {}", untrusted_text::line(agent)));
        }
    }

    /// Switches to a new conversation, whose key is the current time.
    fn start_new_conversation(&mut self) {
        let key = chrono::Local::now()
            .format("chat-%Y%m%d-%H%M%S%3f")
            .to_string();
        let before = conversation(&self.target, &self.client).instance_key;
        self.transcript.add_notice(&format!(
            "Started the conversation {key}. Return with `/key {}`.",
            untrusted_text::line(before)
        ));
        self.target.instance_key = Some(key);
    }

    /// Exports the conversation to a file and shows the path.
    async fn export(&mut self, file: Option<&str>) -> Result<(), CliError> {
        let id = conversation(&self.target, &self.client);
        match export::export_conversation(
            self.client.workspace_dir(),
            self.client.project(),
            id,
            file,
        )
        .await
        {
            Ok(path) => self.transcript.add_notice(&format!(
                "Written to {}.",
                untrusted_text::line(path.display())
            )),
            Err(error) => {
                self.transcript.flush()?;
                crate::output::write_error(&error, false)?;
            }
        }
        Ok(())
    }

    /// Draws the rows at the bottom and writes pending lines.
    pub(super) fn paint(&mut self) -> Result<(), CliError> {
        if self.terminal.is_plain() {
            return self.paint_plain();
        }
        if self.terminal.is_lent() {
            return Ok(());
        }
        self.transcript.flush()?;
        let size = size();
        let bottom = match &self.asking {
            Some(asking) => asking.bottom(size.columns),
            None => self.bottom(size),
        };
        Ok(screen::set_status_rows(bottom)?)
    }

    /// Returns the rows below the transcript: running work, status rows and the prompt.
    fn bottom(&mut self, size: TerminalSize) -> StatusRows {
        let TerminalSize {
            columns,
            rows: height,
        } = size;
        let (prompt, cursor) = self.prompt(columns, (height / 2).max(1));
        let max_rows = height.saturating_sub(prompt.len() + 1);
        let mut status_rows = self.status_rows(columns);
        status_rows.truncate(max_rows);
        let mut rows =
            self.transcript
                .rows(columns, max_rows - status_rows.len(), self.turn.is_some());
        rows.truncate(max_rows - status_rows.len());
        rows.extend(status_rows);
        let cursor = (rows.len() + cursor.0, cursor.1);
        rows.extend(prompt);
        StatusRows { rows, cursor }
    }

    /// Returns the rows with queued inputs, usage, a pending request and the notice.
    fn status_rows(&self, columns: usize) -> Vec<String> {
        let faint = style::FAINT;
        let faint_row = |text: &str| format!("{faint}{}{faint:#}", fit(text, columns));
        let mut rows = Vec::new();
        let steering = self.steering.iter().map(|input| (JOINING_LABEL, input));
        let queued = self.queue.iter().map(|input| (FOLLOWING_LABEL, input));
        for (label, input) in steering.chain(queued).take(MAX_QUEUED_ROWS) {
            rows.push(faint_row(&format!("{label} {}", shorten(&input.text))));
        }
        let input_count = self.steering.len() + self.queue.len();
        let hidden_count = input_count.saturating_sub(MAX_QUEUED_ROWS);
        if hidden_count > 0 {
            rows.push(faint_row(&format!("⋮ {hidden_count} more queued")));
        }
        let is_turn_running = self.turn.is_some();
        if is_turn_running && let Some(usage) = self.transcript.used().words() {
            rows.push(faint_row(&usage));
        }
        if let Some(question) = self.questions.front() {
            let conversation = shorten(&question.request.instance.to_string());
            let tool = shorten(&question.request.tool_name);
            let text = format!(
                "Press Esc for the approval request of {conversation} ({tool}); your input stays."
            );
            rows.push(fit(&text, columns).into_owned());
        }
        if let Some(notice) = &self.notice {
            rows.push(faint_row(notice));
        } else if is_turn_running && !self.editor.is_empty() {
            rows.push(faint_row(STEERING_HINT));
        }
        rows
    }

    /// Returns at most `max_rows` rows of the input around the cursor, and the cursor's position as
    /// the row and the byte in that row.
    fn prompt(&self, columns: usize, max_rows: usize) -> (Vec<String>, (usize, usize)) {
        let (bold, faint) = (style::HEADING, style::FAINT);
        let agent = shorten(&conversation(&self.target, &self.client).agent);
        let agent = fit(&agent, columns / 2);
        let first_prefix = format!("{bold}{SENDER}{agent}>{bold:#} ");
        let indent = width(SENDER) + width(&agent) + 2;
        let (lines, (row, at)) = self.editor.rows(columns.saturating_sub(indent).max(4));
        let first = row
            .saturating_sub(max_rows.saturating_sub(1))
            .min(lines.len().saturating_sub(max_rows));
        let last = (first + max_rows).min(lines.len());
        let mut rows = Vec::new();
        let mut cursor = (0, 0);
        for (index, line) in lines.iter().enumerate().take(last).skip(first) {
            let prefix = if index == 0 {
                first_prefix.clone()
            } else {
                " ".repeat(indent)
            };
            if index == row {
                cursor = (rows.len(), prefix.len() + at);
            }
            rows.push(prefix + line);
        }
        if first > 0 || last < lines.len() {
            rows.insert(
                0,
                format!(
                    "{faint}{}{faint:#}",
                    fit(
                        &format!("{} lines, {} to {}", lines.len(), first + 1, last),
                        columns
                    )
                ),
            );
            cursor.0 += 1;
        }
        (rows, cursor)
    }
}

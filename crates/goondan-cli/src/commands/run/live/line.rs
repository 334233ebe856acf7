//! The prompt: what keys do, and how it looks.

use goondan::Input;
use goondan::inside::shown;
use goondan::ports::approval::ApprovalAnswer;

use super::super::chat::Typed;
use super::super::chat::partner::Partner;
use super::super::signals::Signal;
use super::commands::{self, Command};
use super::keys::Key;
use super::{Chat, Next, conversation, export, os, size};
use crate::exit::CliError;
use crate::output::width::{fit, width};
use crate::output::{Bottom, Size, screen, shorten, style};

/// So many inputs that wait are shown.
const MOST_QUEUED: usize = 3;

/// What leaves, once it is pressed again.
const AGAIN: &str = "Press Ctrl-C again to leave, or go on typing.";

impl<P: Partner> Chat<P> {
    pub(super) async fn key(&mut self, key: Key) -> Result<Next, CliError> {
        let again = self.leaves_again.take();
        match key {
            Key::Gone => {
                self.leave_by(Signal::Interrupt)?;
                return Ok(Next::Leave);
            }
            Key::Suspend => os::ask_to_stop(),
            Key::Redraw => screen::clear()?,
            Key::Interrupt => {
                self.leaves_again = again;
                return self.interrupt().await;
            }
            key if self.asking.is_some() => {
                let answer = self.asking.as_mut().and_then(|asking| asking.press(&key));
                answer.map_or(Ok(()), |answer| self.answer(answer))?;
            }
            key => {
                self.notice = None;
                return self.edit(key, again).await;
            }
        }
        Ok(Next::GoOn)
    }

    async fn edit(&mut self, key: Key, again: Option<Key>) -> Result<Next, CliError> {
        match key {
            Key::Enter => return self.enter().await,
            Key::Leave if self.editor.is_empty() => {
                if self.turn.is_some() && again != Some(Key::Leave) {
                    self.notice =
                        Some("A turn runs. Press Ctrl-D again to cancel it and leave.".to_owned());
                    self.leaves_again = Some(Key::Leave);
                    return Ok(Next::GoOn);
                }
                return self.leave().await;
            }
            Key::Leave => self.editor.press(&Key::Delete),
            Key::Escape => self.put_question()?,
            Key::Tab => {
                let completion = commands::complete(self.editor.before(), &self.partner.agents());
                self.editor.insert(&completion.more);
                if !completion.candidates.is_empty() {
                    self.notice = Some(shown::line(completion.candidates.join("  ")).to_string());
                }
            }
            key => self.editor.press(&key),
        }
        Ok(Next::GoOn)
    }

    /// Ctrl-C: cancels the turn, then clears the line, then leaves.
    pub(super) async fn interrupt(&mut self) -> Result<Next, CliError> {
        let again = self.leaves_again.take();
        self.answer(ApprovalAnswer::Deny)?;
        self.notice = None;
        if self.turn.is_some() && !self.is_cancelling {
            self.cancel().await?;
            return Ok(Next::GoOn);
        }
        if !self.editor.is_empty() {
            self.editor.take();
            return Ok(Next::GoOn);
        }
        if again == Some(Key::Interrupt) {
            self.leave_by(Signal::Interrupt)?;
            return Ok(Next::Leave);
        }
        self.notice = Some(AGAIN.to_owned());
        self.leaves_again = Some(Key::Interrupt);
        Ok(Next::GoOn)
    }

    /// Cancels the turn. Inputs that wait for its end are nothing to go on with: they come back to the prompt.
    async fn cancel(&mut self) -> Result<(), CliError> {
        let mine = conversation(&self.target, &self.partner);
        let running = self.turn.clone().flatten().unwrap_or(mine);
        if !self.partner.cancel(&running).await? && self.turn.is_none() {
            self.notice = Some("No turn runs in this conversation.".to_owned());
            return Ok(());
        }
        self.is_cancelling = self.turn.is_some();
        self.notice = Some("Cancelling the turn.".to_owned());
        let mut waiting: Vec<String> = self.queue.drain(..).map(|input| input.text).collect();
        if !waiting.is_empty() {
            waiting.push(self.editor.take());
            waiting.retain(|text| !text.is_empty());
            self.editor.set(&waiting.join("\n"));
        }
        Ok(())
    }

    async fn leave(&mut self) -> Result<Next, CliError> {
        if let Some(Some(running)) = self.turn.clone() {
            self.partner.cancel(&running).await?;
        }
        self.pane.flush()?;
        Ok(Next::Leave)
    }

    async fn enter(&mut self) -> Result<Next, CliError> {
        let line = self.editor.take();
        if line.trim().is_empty() {
            return Ok(Next::GoOn);
        }
        self.history.remember(&line);
        self.editor.remember(&line);
        let command = commands::read(&line);
        if !matches!(command, Command::Plain(Typed::Say(_) | Typed::Nothing)) {
            let faint = style::FAINT;
            self.tell_kindly(&shown::line(line.trim()).to_string(), faint);
        }
        match command {
            Command::Agents => self.list_agents(),
            Command::Cancel => self.cancel().await?,
            Command::Clear => self.begin_anew(),
            Command::Reload if self.partner.reload() => {}
            Command::Reload => self
                .pane
                .tell("Another process runs the swarm. `gdn reload` has it reload the project."),
            Command::Usage => match self.pane.used().words() {
                Some(_) => self
                    .pane
                    .used()
                    .lines()
                    .iter()
                    .for_each(|line| self.pane.tell(line)),
                None => self.pane.tell("No model has said yet what it took."),
            },
            Command::Reasoning => {
                let reasoning = self.pane.last_reasoning();
                let none = || "No model has reasoned in this chat.".to_owned();
                self.pane.tell(&reasoning.unwrap_or_else(none));
            }
            Command::Export(file) => self.export(file).await?,
            Command::Plain(typed) => return self.plain(typed).await,
        }
        Ok(Next::GoOn)
    }

    async fn plain(&mut self, typed: Typed<'_>) -> Result<Next, CliError> {
        match typed {
            Typed::Nothing => {}
            Typed::Help => self.pane.tell(commands::HELP),
            Typed::Quit => return self.leave().await,
            Typed::Agent(name) if !self.partner.agents().iter().any(|agent| agent == name) => {
                self.pane.tell(&format!(
                    "There is no agent {}; /agents lists them.",
                    shown::line(name)
                ));
            }
            Typed::Agent(name) => self.target.agent = Some(name.to_owned()),
            Typed::Key(key) => self.target.instance_key = Some(key.to_owned()),
            Typed::Unknown(command) => {
                self.pane.tell(&format!(
                    "There is no {}; /help lists what there is.",
                    shown::line(command)
                ));
            }
            Typed::Say(text) => {
                self.say(Input {
                    text: text.to_owned(),
                    ..self.target.clone()
                })
                .await?
            }
        }
        Ok(Next::GoOn)
    }

    fn list_agents(&mut self) {
        let current = conversation(&self.target, &self.partner).agent;
        for agent in self.partner.agents() {
            let mark = if agent == current { "▸" } else { " " };
            self.pane.tell(&format!("{mark} {}", shown::line(agent)));
        }
    }

    /// Goes on with a conversation that is not there yet.
    fn begin_anew(&mut self) {
        let key = chrono::Local::now()
            .format("chat-%Y%m%d-%H%M%S%3f")
            .to_string();
        let before = conversation(&self.target, &self.partner).instance_key;
        self.pane.tell(&format!(
            "A new conversation, {key}. `/key {}` goes back.",
            shown::line(before)
        ));
        self.target.instance_key = Some(key);
    }

    async fn export(&mut self, file: Option<&str>) -> Result<(), CliError> {
        let id = conversation(&self.target, &self.partner);
        match export::write(
            self.partner.workspace_dir(),
            self.partner.project(),
            id,
            file,
        )
        .await
        {
            Ok(path) => self
                .pane
                .tell(&format!("Written to {}.", shown::line(path.display()))),
            Err(error) => {
                self.pane.flush()?;
                crate::output::write_error(&error, false)?;
            }
        }
        Ok(())
    }

    /// Draws what stands at the bottom, and writes what waits.
    pub(super) fn paint(&mut self) -> Result<(), CliError> {
        if self.is_lent {
            return Ok(());
        }
        self.pane.flush()?;
        let size = size();
        let bottom = match &self.asking {
            Some(asking) => asking.bottom(size.columns),
            None => self.bottom(size),
        };
        Ok(screen::stand_below(bottom)?)
    }

    fn bottom(&mut self, size: Size) -> Bottom {
        let Size {
            columns,
            rows: height,
        } = size;
        let (prompt, cursor) = self.prompt(columns, (height / 2).max(1));
        let room = height.saturating_sub(prompt.len() + 1);
        let mut below = self.beside(columns);
        below.truncate(room);
        let mut rows = self
            .pane
            .rows(columns, room - below.len(), self.turn.is_some());
        rows.truncate(room - below.len());
        rows.extend(below);
        let cursor = (rows.len() + cursor.0, cursor.1);
        rows.extend(prompt);
        Bottom { rows, cursor }
    }

    /// What waits, what was used, and a word beside the prompt.
    fn beside(&self, columns: usize) -> Vec<String> {
        let faint = style::FAINT;
        let faintly = |text: &str| format!("{faint}{}{faint:#}", fit(text, columns));
        let mut rows: Vec<String> = self
            .queue
            .iter()
            .take(MOST_QUEUED)
            .map(|input| faintly(&format!("next: {}", shorten(&input.text))))
            .collect();
        if let more @ 1.. = self.queue.len().saturating_sub(MOST_QUEUED) {
            rows.push(faintly(&format!("⋮ {more} more wait")));
        }
        rows.extend(
            self.pane
                .used()
                .words()
                .filter(|_| self.turn.is_some())
                .map(|words| faintly(&words)),
        );
        rows.extend(self.questions.front().map(|question| {
            let request = &question.request;
            let (who, tool) = (
                shorten(&request.instance.to_string()),
                shorten(&request.tool_name),
            );
            fit(
                &format!("Esc shows a question of {who} about {tool}; your line stays."),
                columns,
            )
            .into_owned()
        }));
        rows.extend(self.notice.iter().map(|notice| faintly(notice)));
        rows
    }

    /// The rows of the input around the cursor, and where that is.
    fn prompt(&self, columns: usize, most: usize) -> (Vec<String>, (usize, usize)) {
        let (bold, faint) = (style::HEADING, style::FAINT);
        let who = shorten(&conversation(&self.target, &self.partner).agent);
        let who = fit(&who, columns / 2);
        let head = format!("{bold}{who}>{bold:#} ");
        let indent = width(&who) + 2;
        let (lines, (row, at)) = self.editor.rows(columns.saturating_sub(indent).max(4));
        let first = row
            .saturating_sub(most.saturating_sub(1))
            .min(lines.len().saturating_sub(most));
        let last = (first + most).min(lines.len());
        let mut rows = Vec::new();
        let mut cursor = (0, 0);
        for (index, line) in lines.iter().enumerate().take(last).skip(first) {
            let begin = if index == 0 {
                head.clone()
            } else {
                " ".repeat(indent)
            };
            if index == row {
                cursor = (rows.len(), begin.len() + at);
            }
            rows.push(begin + line);
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

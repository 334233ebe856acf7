//! Chat in plain lines: a prompt while no turn runs, and notices instead of rows at the bottom.

use goondan::Input;
use goondan::ids::InstanceId;
use goondan::internal::untrusted_text;

use super::{TerminalChat, conversation};
use crate::commands::run::approval::PendingApproval;
use crate::commands::run::client::SwarmClient;
use crate::exit::CliError;
use crate::output::{CommandOutput, shorten, style};

impl<P: SwarmClient> TerminalChat<P> {
    /// Writes pending lines, and the prompt if no turn runs.
    pub(super) fn paint_plain(&mut self) -> Result<(), CliError> {
        if self.asking.is_some() || !self.editor.is_empty() {
            return Ok(());
        }
        if let Some(notice) = self.notice.take() {
            self.transcript.add_notice(&notice);
        }
        if self.transcript.has_lines() {
            self.end_prompt_line();
            self.transcript.flush()?;
        }
        if self.turn.is_none() && !self.has_prompt {
            let agent = conversation(&self.target, &self.client).agent;
            write_prompt(&format!("{}> ", untrusted_text::line(agent)))?;
            self.has_prompt = true;
        }
        Ok(())
    }

    /// Ends the line of an open prompt.
    pub(super) fn end_prompt_line(&mut self) {
        if std::mem::take(&mut self.has_prompt) {
            // A closed terminal ends the chat.
            let _ = write_prompt("\n");
        }
    }

    /// Returns true if an approval request can replace the prompt without losing typed text. In plain
    /// lines, only the terminal has the text of an unfinished line.
    pub(super) fn may_ask(&self) -> bool {
        let may_be_typing = self.has_prompt && self.has_typed;
        self.asking.is_none() && self.editor.is_empty() && !may_be_typing
    }

    /// Announces an approval request that waits for the end of the typed line.
    pub(super) fn announce(&mut self, question: &PendingApproval) {
        if self.terminal.is_plain() && self.asking.is_none() && !self.may_ask() {
            let request = &question.request;
            self.transcript.add_notice(&format!(
                "{} requests approval to call {}. Press Enter to see the request.",
                untrusted_text::line(&request.instance),
                untrusted_text::line(&request.tool_name)
            ));
        }
    }

    /// Notes that a turn runs.
    pub(super) fn note_begin(&mut self, id: &InstanceId) {
        if self.terminal.is_plain() && self.operation.is_none() {
            let agent = untrusted_text::line(&id.agent);
            self.add_styled_notice(&format!("{agent} is thinking"), style::FAINT);
        }
    }

    /// Notes that an input waits, and for what.
    pub(super) fn note_waiting(&mut self, place: &str, input: &Input) {
        if self.terminal.is_plain() {
            self.add_styled_notice(&format!("{place} {}", shorten(&input.text)), style::FAINT);
        }
    }

    /// Returns text that was not sent to the prompt. Plain lines repeat it instead.
    pub(super) fn return_unsent(&mut self, text: &str) {
        if self.terminal.is_plain() {
            self.transcript
                .add_notice(&format!("Not sent: {}", untrusted_text::lines(text)))
        } else {
            self.editor.set(text)
        }
    }
}

/// Writes a prompt to standard output, or to standard error if the former is redirected.
fn write_prompt(text: &str) -> Result<(), CliError> {
    if CommandOutput::stdout_is_terminal() {
        CommandOutput::print_styled(text)
    } else {
        CommandOutput::note_styled(text)
    }
}

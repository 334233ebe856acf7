//! Approval request in place of the prompt.

use goondan::ports::approval::ApprovalAnswer;

use super::super::approval::{APPROVAL_PROMPT, PendingApproval, UNCLEAR_NOTICE, parse_answer};
use super::editor::LineEditor;
use super::keys::KeyPress;
use crate::exit::CliError;
use crate::output::screen::{self, PromptGuard};
use crate::output::width::width;
use crate::output::{StatusRows, TerminalSize, style};

/// Open approval request. Nothing else is written until it is answered.
pub(super) struct OpenApproval {
    question: PendingApproval,
    standing: PromptGuard,
    answer: LineEditor,
    /// The last typed line was not an answer.
    is_unclear: bool,
}

impl OpenApproval {
    /// Shows `question`. [`OpenApproval::bottom`] draws its prompt.
    pub(super) fn put(question: PendingApproval, size: TerminalSize) -> Result<Self, CliError> {
        let standing = screen::open_prompt();
        standing.write(&question.words(size))?;
        Ok(OpenApproval {
            question,
            standing,
            answer: LineEditor::default(),
            is_unclear: false,
        })
    }

    /// Waits until the answer is obsolete, and returns the reason.
    pub(super) async fn ended(&self) -> &'static str {
        self.question.ended().await
    }

    /// Handles a key. Returns the answer at Enter if it is clear; an empty line denies.
    pub(super) fn press(&mut self, key: &KeyPress) -> Option<ApprovalAnswer> {
        match key {
            KeyPress::Enter => {
                let line = self.answer.take();
                let answer = match line.trim() {
                    "" => Some(ApprovalAnswer::Deny),
                    line => parse_answer(line, &self.question.request),
                };
                self.is_unclear = answer.is_none();
                answer
            }
            KeyPress::Interrupt | KeyPress::Leave => Some(ApprovalAnswer::Deny),
            // Only typed characters may answer a request.
            KeyPress::Paste(_) | KeyPress::NewLine | KeyPress::Up | KeyPress::Down => None,
            key => {
                self.answer.press(key);
                None
            }
        }
    }

    /// Sends the answer and leaves it on the screen.
    pub(super) fn close(self, answer: ApprovalAnswer) -> Result<(), CliError> {
        let word = match answer {
            ApprovalAnswer::Allow { .. } => "yes",
            _ => "no",
        };
        self.standing.write(&format!("{APPROVAL_PROMPT}{word}\n"))?;
        self.question.answer(answer);
        Ok(())
    }

    /// Prints the reason why the answer is obsolete.
    pub(super) fn withdraw(self, reason: &str) -> Result<(), CliError> {
        Ok(self.standing.write(&format!("{reason}\n"))?)
    }

    /// Returns the rows of the prompt. They contain no foreign content.
    pub(super) fn bottom(&self, columns: usize) -> StatusRows {
        let bold = style::HEADING;
        let max_columns = columns.saturating_sub(width(APPROVAL_PROMPT)).max(8);
        let (rows, (row, at)) = self.answer.rows(max_columns);
        let prompt = format!("{bold}{}{bold:#}", APPROVAL_PROMPT);
        let mut prompt_rows = Vec::new();
        if self.is_unclear {
            prompt_rows.push(UNCLEAR_NOTICE.to_owned());
        }
        let cursor = (prompt_rows.len(), prompt.len() + at);
        prompt_rows.push(format!("{prompt}{}", rows[row]));
        StatusRows {
            rows: prompt_rows,
            cursor,
        }
    }
}

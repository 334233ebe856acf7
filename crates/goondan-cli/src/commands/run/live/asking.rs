//! A question in the place of the prompt.

use goondan::ports::approval::ApprovalAnswer;

use super::super::approval::{PROMPT, Question, UNCLEAR, meaning};
use super::editor::Editor;
use super::keys::Key;
use crate::exit::CliError;
use crate::output::screen::{self, Standing};
use crate::output::width::width;
use crate::output::{Bottom, Size, style};

/// A question that stands. Nothing else is written until it is answered.
pub(super) struct Asking {
    question: Question,
    standing: Standing,
    answer: Editor,
    /// Whether what was typed last is no answer.
    is_unclear: bool,
}

impl Asking {
    /// Shows `question`. Its prompt is drawn by [`Asking::bottom`].
    pub(super) fn put(question: Question, size: Size) -> Result<Self, CliError> {
        let standing = screen::question();
        standing.write(&question.words(size))?;
        Ok(Asking {
            question,
            standing,
            answer: Editor::default(),
            is_unclear: false,
        })
    }

    /// Waits until nobody waits for the answer any more, and says why.
    pub(super) async fn ended(&self) -> &'static str {
        self.question.ended().await
    }

    /// Takes a key; the answer, once Enter was pressed behind a clear one. Enter alone is a no.
    pub(super) fn press(&mut self, key: &Key) -> Option<ApprovalAnswer> {
        match key {
            Key::Enter => {
                let words = self.answer.take();
                let answer = match words.trim() {
                    "" => Some(ApprovalAnswer::Deny),
                    words => meaning(words, &self.question.request),
                };
                self.is_unclear = answer.is_none();
                answer
            }
            Key::Interrupt | Key::Leave => Some(ApprovalAnswer::Deny),
            // A question is answered by somebody who types.
            Key::Paste(_) | Key::NewLine | Key::Up | Key::Down => None,
            key => {
                self.answer.press(key);
                None
            }
        }
    }

    /// Hands the answer over. What it was stays on the screen.
    pub(super) fn close(self, answer: ApprovalAnswer) -> Result<(), CliError> {
        let word = match answer {
            ApprovalAnswer::Allow { .. } => "yes",
            _ => "no",
        };
        self.standing.write(&format!("{PROMPT}{word}\n"))?;
        self.question.answer(answer);
        Ok(())
    }

    /// Nobody waits for the answer any more.
    pub(super) fn withdraw(self, why: &str) -> Result<(), CliError> {
        Ok(self.standing.write(&format!("{why}\n"))?)
    }

    /// No word of a stranger stands in it.
    pub(super) fn bottom(&self, columns: usize) -> Bottom {
        let bold = style::HEADING;
        let room = columns.saturating_sub(width(PROMPT)).max(8);
        let (rows, (row, at)) = self.answer.rows(room);
        let prompt = format!("{bold}{}{bold:#}", PROMPT);
        let mut shown = Vec::new();
        if self.is_unclear {
            shown.push(UNCLEAR.to_owned());
        }
        let cursor = (shown.len(), prompt.len() + at);
        shown.push(format!("{prompt}{}", rows[row]));
        Bottom {
            rows: shown,
            cursor,
        }
    }
}

//! Approval request in place of the prompt.

use goondan::ports::approval::{
    ApprovalAnswer, ApprovalCoverage, ApprovalDuration, ApprovalRequest,
};

use super::super::approval::{APPROVAL_PROMPT, PendingApproval, UNCLEAR_NOTICE, parse_answer};
use super::editor::LineEditor;
use super::pressed_key::KeyPress;
use crate::exit::CliError;
use crate::output::screen::{self, PromptGuard};
use crate::output::width::width;
use crate::output::{StatusRows, TerminalSize, style};

/// Open approval request. Nothing else is written until it is answered.
pub(super) struct OpenApproval {
    question: PendingApproval,
    prompt_guard: PromptGuard,
    answer: LineEditor,
    choices: Vec<ApprovalOption>,
    /// Position of the choice that Enter takes.
    chosen: usize,
    /// The last typed line was not an answer.
    is_unclear: bool,
    /// The terminal shows the typed line, and nothing is redrawn.
    is_plain: bool,
    /// The last key was Enter.
    is_entered: bool,
}

/// Answer that the arrow keys can choose.
struct ApprovalOption {
    label: &'static str,
    answer: ApprovalAnswer,
}

/// Returns the choices of a request: once, for the conversation if possible, and no.
fn choices(request: &ApprovalRequest) -> Vec<ApprovalOption> {
    let covers = [ApprovalCoverage::Program, ApprovalCoverage::Call]
        .into_iter()
        .find(|covers| request.is_offered(*covers));
    let conversation = covers.map(|covers| ApprovalOption {
        label: match covers {
            ApprovalCoverage::Program => "Allow the commands above for this conversation",
            _ => "Allow identical calls for this conversation",
        },
        answer: ApprovalAnswer::Allow {
            scope: ApprovalDuration::Conversation,
            covers,
        },
    });
    let once = ApprovalOption {
        label: "Allow once",
        answer: ApprovalAnswer::ONCE,
    };
    let no = ApprovalOption {
        label: "Do not allow",
        answer: ApprovalAnswer::Deny,
    };
    [Some(once), conversation, Some(no)]
        .into_iter()
        .flatten()
        .collect()
}

impl OpenApproval {
    /// Shows `question`. [`OpenApproval::bottom`] draws its prompt, and in plain lines
    /// [`OpenApproval::show_plain_prompt`].
    pub(super) fn show(
        question: PendingApproval,
        size: TerminalSize,
        is_plain: bool,
    ) -> Result<Self, CliError> {
        let prompt_guard = screen::open_prompt();
        prompt_guard.write(&question.words(size))?;
        let choices = choices(&question.request);
        Ok(OpenApproval {
            question,
            // Enter alone allows nothing.
            chosen: choices.len() - 1,
            choices,
            prompt_guard,
            answer: LineEditor::default(),
            is_unclear: false,
            is_plain,
            is_entered: false,
        })
    }

    /// Shows the prompt of plain lines, after a notice if the last line was not an answer.
    pub(super) fn show_plain_prompt(&self) -> Result<(), CliError> {
        match (self.is_plain, self.is_unclear) {
            (false, _) => Ok(()),
            (true, false) => Ok(self.prompt_guard.write(APPROVAL_PROMPT)?),
            (true, true) => Ok(self
                .prompt_guard
                .write(&format!("{UNCLEAR_NOTICE}\n{APPROVAL_PROMPT}"))?),
        }
    }

    /// Waits until the answer is obsolete, and returns the reason.
    pub(super) async fn wait_until_obsolete(&self) -> &'static str {
        self.question.wait_until_obsolete().await
    }

    /// Handles a key. Enter returns the typed answer, or the marked choice if the line is empty.
    /// Ctrl-C and the end of the input deny. `None` for other keys, and for text that is not an
    /// answer.
    pub(super) fn press(&mut self, key: &KeyPress) -> Option<ApprovalAnswer> {
        self.is_entered = *key == KeyPress::Enter;
        match key {
            KeyPress::Enter => {
                let line = self.answer.take();
                let answer = match line.trim() {
                    "" => Some(self.choices[self.chosen].answer),
                    line => parse_answer(line, &self.question.request),
                };
                self.is_unclear = answer.is_none();
                answer
            }
            KeyPress::Interrupt | KeyPress::Leave => Some(ApprovalAnswer::Deny),
            KeyPress::Up => {
                self.chosen = self.chosen.saturating_sub(1);
                None
            }
            KeyPress::Down => {
                self.chosen = (self.chosen + 1).min(self.choices.len() - 1);
                None
            }
            // Pasted text must not answer a request.
            KeyPress::Paste(_) | KeyPress::NewLine => None,
            key => {
                self.answer.press(key);
                None
            }
        }
    }

    /// Writes the answer to the screen, where it stays, and sends it.
    pub(super) fn close(self, answer: ApprovalAnswer) -> Result<(), CliError> {
        let word = match answer {
            ApprovalAnswer::Allow { .. } => "yes",
            _ => "no",
        };
        let closing_line = if !self.is_plain {
            format!("{APPROVAL_PROMPT}{word}\n")
        } else if self.is_entered {
            // The terminal already shows the typed line and its end.
            String::new()
        } else {
            "\n".to_owned()
        };
        self.prompt_guard.write(&closing_line)?;
        self.question.answer(answer);
        Ok(())
    }

    /// Prints the reason why the answer is obsolete.
    pub(super) fn withdraw(self, reason: &str) -> Result<(), CliError> {
        let line_end = if self.is_plain { "\n" } else { "" };
        Ok(self.prompt_guard.write(&format!("{line_end}{reason}\n"))?)
    }

    /// Returns the rows of the prompt. They contain no foreign content.
    pub(super) fn bottom(&self, columns: usize) -> StatusRows {
        let bold = style::HEADING;
        let max_columns = columns.saturating_sub(width(APPROVAL_PROMPT)).max(8);
        let (rows, (row, at)) = self.answer.rows(max_columns);
        let prompt = format!("{bold}{}{bold:#}", APPROVAL_PROMPT);
        let choice_row = |(number, choice): (usize, &ApprovalOption)| {
            if number == self.chosen {
                format!("{bold}▸ {}{bold:#}", choice.label)
            } else {
                format!("  {}", choice.label)
            }
        };
        let mut prompt_rows: Vec<String> =
            self.choices.iter().enumerate().map(choice_row).collect();
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

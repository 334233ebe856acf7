//! Events as text for users.

use chrono::Utc;
use goondan::event::{COMPACT_EVENT, CRON_EVENT, INPUT_EVENT, RESPONSE_EVENT, UNDO_EVENT};
use goondan::event::{
    FinishReason, RuntimeEvent, RuntimeEventKind, ShownError, ShownResult, SwarmEvent, TurnResult,
};
use goondan::ids::InstanceId;
use goondan::internal::untrusted_text;
use goondan::notices::{CutNotice, retry_notice};
use goondan::ports::approval::ApprovalDuration;
use goondan::ports::tool::ToolCallStatus;
use goondan::spec::Code;

use super::calls;
use super::work_tracker::WorkTracker;
use crate::commands::run::UnpromptedAnswer;
use crate::exit::CliError;
use crate::output::{ActivitySpinner, CommandOutput, style};

/// Shows a turn to a user.
///
/// On a terminal, text streams as it arrives. Otherwise standard output gets only the whole answer,
/// once: a script must never read half an answer, or text before a tool call.
pub(crate) struct TextView {
    output: CommandOutput,
    activity: ActivitySpinner,
    streams: bool,
    shows_tools: bool,
    /// Conversation whose answer is shown; other agents are helpers.
    instance: Option<InstanceId>,
    /// Text written in the current step.
    written: String,
    shows_reasoning: bool,
    /// Reasoning of the current step that is not shown yet.
    reasoning: String,
    /// The cursor is at the start of a line.
    is_at_line_start: bool,
    running: WorkTracker,
}

impl TextView {
    /// Creates the display. Tool calls are shown on a terminal and with `-v`, reasoning only with
    /// `-v`.
    pub(crate) fn new(output: &CommandOutput) -> Self {
        TextView {
            output: *output,
            activity: ActivitySpinner::new(output),
            streams: CommandOutput::stdout_is_terminal(),
            shows_tools: output.verbose > 0
                || (CommandOutput::stderr_is_terminal() && !output.quiet),
            instance: None,
            written: String::new(),
            shows_reasoning: output.verbose > 0,
            reasoning: String::new(),
            is_at_line_start: true,
            running: WorkTracker::default(),
        }
    }

    /// Prepares for a turn of `instance`.
    pub(crate) fn begin(&mut self, instance: &InstanceId) {
        self.activity
            .show(format!("{} is thinking", instance.agent));
        self.instance = Some(instance.clone());
        self.written.clear();
        self.reasoning.clear();
        self.is_at_line_start = true;
    }

    /// Shows an event, as far as the user asked for it.
    pub(crate) fn show(&mut self, event: &SwarmEvent) -> Result<(), CliError> {
        match event {
            SwarmEvent::Text {
                instance, delta, ..
            } if self.streams && self.is_mine(instance) => self.write(delta),
            SwarmEvent::TextReset { instance, .. } if self.streams && self.is_mine(instance) => {
                self.reset()
            }
            SwarmEvent::Runtime(event) => {
                self.running.note(event);
                self.runtime_event(event)?;
                self.resume();
                Ok(())
            }
            SwarmEvent::Reasoning {
                instance, delta, ..
            } if self.shows_reasoning && self.is_mine(instance) => {
                self.reasoning.push_str(delta);
                Ok(())
            }
            SwarmEvent::Text { .. }
            | SwarmEvent::Reasoning { .. }
            | SwarmEvent::TextReset { .. }
            | SwarmEvent::TurnEnded { .. } => Ok(()),
        }
    }

    /// Hides the activity line, so that other output can be written.
    pub(crate) fn pause(&mut self) {
        self.activity.hide();
    }

    /// Shows the activity line, unless it would split a line of the answer.
    pub(crate) fn resume(&mut self) {
        match self.running.latest(Utc::now()) {
            Some((words, elapsed)) if self.is_at_line_start => {
                self.activity.show_since(words, elapsed)
            }
            Some(_) => self.activity.hide(),
            None => {}
        }
    }

    /// Ends the turn and writes the part of the answer that is not shown yet.
    pub(crate) fn end(&mut self, result: &TurnResult) -> Result<(), CliError> {
        self.activity.hide();
        let answer = result.response_text();
        if !answer.is_empty() && answer != self.written {
            self.end_line()?;
            self.write(&answer)?;
        }
        self.end_line()?;
        match cut_warning(result) {
            Some(warning) => self.output.note(&warning),
            None => Ok(()),
        }
    }

    /// Shows the answer of a turn that no input of this run started. In the followed conversation, a
    /// later turn of the followed trace (`in_followed_trace`) is part of the result. On a terminal,
    /// its text has already streamed.
    pub(crate) fn answer(
        &mut self,
        answer: &UnpromptedAnswer<'_>,
        in_followed_trace: bool,
    ) -> Result<(), CliError> {
        let is_shown = self.is_mine(answer.instance) && (in_followed_trace || self.streams);
        if is_shown && answer.result.finish_reason == FinishReason::TextResponse {
            return self.end(answer.result);
        }
        if self
            .instance
            .as_ref()
            .is_some_and(|mine| is_background_answer(mine, answer))
            && !self.shows_tools
        {
            return Ok(());
        }
        self.pause();
        self.end_line()?;
        answer
            .words()
            .map_or(Ok(()), |text| self.output.note(&text))
    }

    /// Returns true if this is the followed conversation.
    fn is_mine(&self, instance: &InstanceId) -> bool {
        self.instance.as_ref() == Some(instance)
    }

    /// Writes lines about steps, tool calls, retries and approvals.
    fn runtime_event(&mut self, event: &RuntimeEvent) -> Result<(), CliError> {
        let is_mine = self.is_mine(&event.instance());
        match &event.kind {
            RuntimeEventKind::TurnStarted { event_type, .. } if self.shows_tools && is_mine => {
                self.goes_on(event_type)
            }
            RuntimeEventKind::StepStarted { .. } if is_mine => {
                self.end_line()?;
                self.written.clear();
                self.reasoning.clear();
                Ok(())
            }
            RuntimeEventKind::StepCompleted { .. } if is_mine => self.show_reasoning(),
            RuntimeEventKind::ModelRetrying { .. } => self.retrying(event, is_mine),
            RuntimeEventKind::ToolCalled {
                tool_name,
                arguments,
                ..
            } if self.shows_tools => {
                self.tool_lines(event, &[calls::call_line(tool_name, arguments)])
            }
            RuntimeEventKind::ToolCompleted {
                tool_name,
                status,
                duration,
                shown,
                ..
            } if self.shows_tools => self.tool_lines(
                event,
                &calls::completed_call_lines(
                    tool_name,
                    *status,
                    *duration,
                    shown,
                    CommandOutput::columns(),
                ),
            ),
            RuntimeEventKind::ToolFailed {
                tool_name,
                duration,
                error_message,
                ..
            } if self.shows_tools => {
                let error_text = failed_call(error_message);
                let lines = calls::completed_call_lines(
                    tool_name,
                    ToolCallStatus::Error,
                    *duration,
                    &error_text,
                    CommandOutput::columns(),
                );
                self.tool_lines(event, &lines)
            }
            RuntimeEventKind::ApprovalRemembered { scope, grants, .. } => {
                self.remembered(*scope, grants)
            }
            _ => Ok(()),
        }
    }

    /// Notes what an approval will cover, right after it was given.
    fn remembered(&mut self, scope: ApprovalDuration, grants: &[String]) -> Result<(), CliError> {
        self.pause();
        self.end_line()?;
        remembered(scope, grants).try_for_each(|line| self.output.note(&line))
    }

    /// Notes why the conversation continues without an input.
    fn goes_on(&mut self, event_type: &str) -> Result<(), CliError> {
        let Some(reason) = goes_on(event_type) else {
            return Ok(());
        };
        self.pause();
        self.end_line()?;
        let faint = style::FAINT;
        self.output.trace(&format!("{faint}{reason}{faint:#}"))
    }

    /// Writes lines about a tool call. Helpers are named.
    fn tool_lines(&mut self, event: &RuntimeEvent, lines: &[String]) -> Result<(), CliError> {
        self.activity.hide();
        self.end_line()?;
        let agent_prefix = if self.is_mine(&event.instance()) {
            String::new()
        } else {
            format!("{} ", event.agent_name)
        };
        let faint = style::FAINT;
        self.output.trace(&format!(
            "{faint}{}{faint:#}{}",
            untrusted_text::line(agent_prefix),
            lines.join("\n")
        ))
    }

    /// Writes a line about a model call that is retried.
    fn retrying(&mut self, event: &RuntimeEvent, is_mine: bool) -> Result<(), CliError> {
        let Some(notice) = retry_line(event, is_mine) else {
            return Ok(());
        };
        self.pause();
        self.end_line()?;
        self.output.note(&notice)
    }

    /// Writes the reasoning of the step to standard error.
    fn show_reasoning(&mut self) -> Result<(), CliError> {
        let reasoning = std::mem::take(&mut self.reasoning);
        if reasoning.trim().is_empty() {
            return Ok(());
        }
        self.activity.hide();
        self.end_line()?;
        let faint = style::FAINT;
        let lines = untrusted_text::lines(reasoning.trim()).to_string();
        self.output
            .trace(&format!("{faint}{}{faint:#}", lines.replace('\n', "\n  ")))
    }

    /// Writes streamed text of the answer.
    fn write(&mut self, text: &str) -> Result<(), CliError> {
        if text.is_empty() {
            return Ok(());
        }
        self.show_reasoning()?;
        self.activity.hide();
        self.output.foreign(text)?;
        self.written.push_str(text);
        self.is_at_line_start = text.ends_with('\n');
        Ok(())
    }

    /// Writes a line break, unless the cursor is at the start of a line.
    fn end_line(&mut self) -> Result<(), CliError> {
        if self.is_at_line_start {
            return Ok(());
        }
        self.is_at_line_start = true;
        self.activity.hide();
        self.output.piece("\n")
    }

    /// Forgets the text of an answer that broke off, and notes that it starts again.
    fn reset(&mut self) -> Result<(), CliError> {
        self.end_line()?;
        self.reasoning.clear();
        if std::mem::take(&mut self.written).is_empty() {
            return Ok(());
        }
        self.output.note(BROKEN_OFF_NOTICE)
    }
}

/// Note about an answer that broke off after some of it was shown.
pub(in crate::commands::run) const BROKEN_OFF_NOTICE: &str =
    "The answer was interrupted and starts again.";

/// Returns the line about a retried model call; `None` for other events. Other agents are named.
pub(in crate::commands::run) fn retry_line(event: &RuntimeEvent, is_mine: bool) -> Option<String> {
    let notice = retry_notice(&event.kind)?;
    Some(if is_mine {
        untrusted_text::line(notice).to_string()
    } else {
        format!(
            "{}: {}",
            untrusted_text::line(&event.agent_name),
            untrusted_text::line(notice)
        )
    })
}

/// Returns the warning about an incomplete answer; none for a complete answer.
pub(in crate::commands::run) fn cut_warning(result: &TurnResult) -> Option<String> {
    let notice = CutNotice::of(result.model_finish_reason.as_ref()?)?;
    let yellow = style::WARNING;
    Some(format!("{yellow}warning{yellow:#}: {}", notice.sentences()))
}

/// Returns true if an answer belongs to the work of another agent, like its calls.
/// Answers to inputs and jobs do not.
pub(in crate::commands::run) fn is_background_answer(
    mine: &InstanceId,
    unasked: &UnpromptedAnswer<'_>,
) -> bool {
    mine.agent != unasked.instance.agent
        && unasked.result.finish_reason == FinishReason::TextResponse
        && ![INPUT_EVENT, CRON_EVENT].contains(&unasked.cause)
}

/// Describes what a remembered approval covers.
pub(in crate::commands::run) fn remembered(
    scope: ApprovalDuration,
    grants: &[String],
) -> impl Iterator<Item = String> {
    let duration = if scope == ApprovalDuration::Conversation {
        " for this conversation"
    } else {
        ""
    };
    grants
        .iter()
        .map(move |grant| format!("Remembered{duration}: {}.", untrusted_text::line(grant)))
}

/// Returns why a conversation continues without an input; `None` if it has one.
pub(in crate::commands::run) fn goes_on(event_type: &str) -> Option<&'static str> {
    match event_type {
        INPUT_EVENT | COMPACT_EVENT | UNDO_EVENT => None,
        RESPONSE_EVENT => Some("A response arrived."),
        CRON_EVENT => Some("A scheduled job started."),
        _ => Some("A message from another agent arrived."),
    }
}

/// Returns the result to show for a failed call.
pub(in crate::commands::run) fn failed_call(error_message: &str) -> ShownResult {
    let error = Some(ShownError {
        code: Code::TOOL_FAILED.to_string(),
        message: error_message.to_owned(),
    });
    ShownResult {
        error,
        ..ShownResult::default()
    }
}

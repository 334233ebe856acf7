//! Events for people.

use chrono::Utc;
use goondan::event::FIRED;
use goondan::event::INPUT;
use goondan::event::RESPONSE;
use goondan::event::{
    FinishReason, RuntimeEvent, RuntimeEventKind, ShownError, ShownResult, SwarmEvent, TurnResult,
};
use goondan::ids::InstanceId;
use goondan::inside::shown;
use goondan::notices::{CutNotice, retry_notice};
use goondan::ports::approval::Scope;
use goondan::ports::tool::ToolCallStatus;
use goondan::spec::Code;

use super::calls;
use super::running::Running;
use crate::commands::run::Unasked;
use crate::exit::CliError;
use crate::output::{Activity, Output, style};

/// Shows a turn to a person.
///
/// On a terminal, text streams as it arrives. Elsewhere standard output gets the answer alone, whole and once: a script must
/// never read half an answer, or what a model said before it called a tool.
pub(crate) struct TextView {
    output: Output,
    activity: Activity,
    streams: bool,
    shows_tools: bool,
    /// The instance whose answer this is; the others are its helpers.
    instance: Option<InstanceId>,
    /// What was written of the current step.
    written: String,
    /// Reasoning is shown.
    shows_reasoning: bool,
    /// Reasoning of the current step that was not shown.
    reasoning: String,
    /// Whether the cursor stands at the beginning of a line.
    fresh_line: bool,
    /// What goes on.
    running: Running,
}

impl TextView {
    pub(crate) fn new(output: &Output) -> Self {
        TextView {
            output: *output,
            activity: Activity::new(output),
            streams: Output::stdout_is_terminal(),
            shows_tools: output.verbose > 0 || (Output::stderr_is_terminal() && !output.quiet),
            instance: None,
            written: String::new(),
            shows_reasoning: output.verbose > 0,
            reasoning: String::new(),
            fresh_line: true,
            running: Running::default(),
        }
    }

    /// A turn of `instance` is about to run.
    pub(crate) fn begin(&mut self, instance: &InstanceId) {
        self.activity
            .show(format!("{} is thinking", instance.agent));
        self.instance = Some(instance.clone());
        self.written.clear();
        self.reasoning.clear();
        self.fresh_line = true;
    }

    /// Something happened.
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

    /// Somebody else is about to write: the line that says what is going on makes room.
    pub(crate) fn pause(&mut self) {
        self.activity.hide();
    }

    /// Says what goes on, where that would not tear a line of an answer.
    pub(crate) fn resume(&mut self) {
        match self.running.latest(Utc::now()) {
            Some((words, elapsed)) if self.fresh_line => self.activity.show_since(words, elapsed),
            Some(_) => self.activity.hide(),
            None => {}
        }
    }

    /// The turn is over: what has not been seen of the answer is written now.
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

    /// The answer of a turn that no input of this run began. In the conversation that is followed it is part of the result
    /// where it belongs to what was asked (`is_later`), and was seen where text streams.
    pub(crate) fn answer(&mut self, unasked: &Unasked<'_>, is_later: bool) -> Result<(), CliError> {
        let is_shown = self.is_mine(unasked.instance) && (is_later || self.streams);
        if is_shown && unasked.result.finish_reason == FinishReason::TextResponse {
            return self.end(unasked.result);
        }
        if self
            .instance
            .as_ref()
            .is_some_and(|mine| is_work(mine, unasked))
            && !self.shows_tools
        {
            return Ok(());
        }
        self.pause();
        self.end_line()?;
        unasked
            .words()
            .map_or(Ok(()), |words| self.output.note(&words))
    }

    fn is_mine(&self, instance: &InstanceId) -> bool {
        self.instance.as_ref() == Some(instance)
    }

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
            } if self.shows_tools => self.tool_lines(event, &[calls::called(tool_name, arguments)]),
            RuntimeEventKind::ToolCompleted {
                tool_name,
                status,
                duration,
                shown,
                ..
            } if self.shows_tools => self.tool_lines(
                event,
                &calls::completed(tool_name, *status, *duration, shown, Output::columns()),
            ),
            RuntimeEventKind::ToolFailed {
                tool_name,
                duration,
                error_message,
                ..
            } if self.shows_tools => {
                let shown = failed_call(error_message);
                let lines = calls::completed(
                    tool_name,
                    ToolCallStatus::Error,
                    *duration,
                    &shown,
                    Output::columns(),
                );
                self.tool_lines(event, &lines)
            }
            RuntimeEventKind::ApprovalRemembered { scope, grants, .. } => {
                self.remembered(*scope, grants)
            }
            _ => Ok(()),
        }
    }

    /// What an answer will hold for: whoever gave it sees it at once.
    fn remembered(&mut self, scope: Scope, grants: &[String]) -> Result<(), CliError> {
        self.pause();
        self.end_line()?;
        remembered(scope, grants).try_for_each(|line| self.output.note(&line))
    }

    /// The conversation goes on without an input.
    fn goes_on(&mut self, event_type: &str) -> Result<(), CliError> {
        let Some(what) = goes_on(event_type) else {
            return Ok(());
        };
        self.pause();
        self.end_line()?;
        let faint = style::FAINT;
        self.output.trace(&format!("{faint}{what}{faint:#}"))
    }

    /// Lines about a tool call; helpers say who they are.
    fn tool_lines(&mut self, event: &RuntimeEvent, lines: &[String]) -> Result<(), CliError> {
        self.activity.hide();
        self.end_line()?;
        let who = if self.is_mine(&event.instance()) {
            String::new()
        } else {
            format!("{} ", event.agent_name)
        };
        let faint = style::FAINT;
        self.output.trace(&format!(
            "{faint}{}{faint:#}{}",
            shown::line(who),
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
        let lines = shown::lines(reasoning.trim()).to_string();
        self.output
            .trace(&format!("{faint}{}{faint:#}", lines.replace('\n', "\n  ")))
    }

    fn write(&mut self, text: &str) -> Result<(), CliError> {
        if text.is_empty() {
            return Ok(());
        }
        self.show_reasoning()?;
        self.activity.hide();
        self.output.foreign(text)?;
        self.written.push_str(text);
        self.fresh_line = text.ends_with('\n');
        Ok(())
    }

    fn end_line(&mut self) -> Result<(), CliError> {
        if !std::mem::replace(&mut self.fresh_line, true) {
            self.activity.hide();
            self.output.piece("\n")?;
        }
        Ok(())
    }

    fn reset(&mut self) -> Result<(), CliError> {
        self.end_line()?;
        self.reasoning.clear();
        if std::mem::take(&mut self.written).is_empty() {
            return Ok(());
        }
        self.output.note(BROKEN_OFF)
    }
}

/// Note about an answer that broke off after some of it was shown.
pub(in crate::commands::run) const BROKEN_OFF: &str = "The answer broke off and begins again.";

/// Returns the line about a model call that is retried; none for other events. Other agents are named.
pub(in crate::commands::run) fn retry_line(event: &RuntimeEvent, is_mine: bool) -> Option<String> {
    let notice = retry_notice(&event.kind)?;
    Some(match is_mine {
        true => shown::line(notice).to_string(),
        false => format!(
            "{}: {}",
            shown::line(&event.agent_name),
            shown::line(notice)
        ),
    })
}

/// Returns the warning about an incomplete answer; none for a complete answer.
pub(in crate::commands::run) fn cut_warning(result: &TurnResult) -> Option<String> {
    let notice = CutNotice::of(result.model_finish_reason.as_ref()?)?;
    let yellow = style::WARNING;
    Some(format!("{yellow}warning{yellow:#}: {}", notice.sentences()))
}

/// What other agents than `mine` say without anybody waiting for it belongs to their work, as their calls do.
pub(in crate::commands::run) fn is_work(mine: &InstanceId, unasked: &Unasked<'_>) -> bool {
    mine.agent != unasked.instance.agent
        && unasked.result.finish_reason == FinishReason::TextResponse
        && ![INPUT, FIRED].contains(&unasked.cause)
}

/// What an answer to a question will hold for.
pub(in crate::commands::run) fn remembered(
    scope: Scope,
    grants: &[String],
) -> impl Iterator<Item = String> {
    let until = if scope == Scope::Conversation {
        " for this conversation"
    } else {
        ""
    };
    grants
        .iter()
        .map(move |grant| format!("Remembered{until}: {}.", shown::line(grant)))
}

/// Why a conversation goes on without an input; `None` where it has one.
pub(in crate::commands::run) fn goes_on(event_type: &str) -> Option<&'static str> {
    match event_type {
        INPUT => None,
        RESPONSE => Some("An answer has come."),
        FIRED => Some("A job is due."),
        _ => Some("A message of another agent has come."),
    }
}

/// How a call that failed is shown.
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

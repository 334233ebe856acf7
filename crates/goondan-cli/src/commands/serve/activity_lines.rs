//! Lines of `gdn serve` about turns, waiting approvals and delivered answers.

use std::time::{Duration, Instant};

use chrono::Local;
use goondan::event::{
    COMPACT_EVENT, CRON_EVENT, FinishReason, INPUT_EVENT, RESPONSE_EVENT, UNDO_EVENT,
};
use goondan::event::{RuntimeEvent, RuntimeEventKind, SwarmEvent};
use goondan::internal::untrusted_text;
use goondan::ports::approval::ApprovalRequest;
use goondan_connect::DeliveredAnswer;

use crate::exit::CliError;
use crate::output::{CommandOutput, duration, turn_error};

/// Maximum number of lines in [`LINE_WINDOW`].
const MAX_LINES: usize = 20;
/// Period of the limit.
const LINE_WINDOW: Duration = Duration::from_secs(10);
/// Maximum number of characters of a line.
const MAX_LINE_CHARS: usize = 400;
const OMITTED: &str = "More lines follow at once and are left out. `gdn logs` prints all events.";

/// Printer of the lines. `--quiet` and `--json` print none.
pub(super) struct ActivityLines {
    output: CommandOutput,
    /// Budget of lines about failures, approvals and answers.
    budget: LineBudget,
    /// Budget of lines about turns, which must not displace the others.
    turn_budget: LineBudget,
}

impl ActivityLines {
    pub(super) fn new(output: &CommandOutput) -> Self {
        ActivityLines {
            output: *output,
            budget: LineBudget::new(Instant::now()),
            turn_budget: LineBudget::new(Instant::now()),
        }
    }

    /// Prints a line about an approval request.
    pub(super) fn approval(&mut self, request: &ApprovalRequest) -> Result<(), CliError> {
        let permit = self.budget.take(Instant::now());
        self.print(permit, &approval_line(request))
    }

    /// Prints a line if the event is the start or the end of a turn.
    pub(super) fn event(&mut self, event: &SwarmEvent) -> Result<(), CliError> {
        if let Some(line) = failure_line(event) {
            let permit = self.budget.take(Instant::now());
            return self.print(permit, &line);
        }
        let SwarmEvent::Runtime(event) = event else {
            return Ok(());
        };
        let Some(line) = turn_line(event) else {
            return Ok(());
        };
        let permit = self.turn_budget.take(Instant::now());
        self.print(permit, &line)
    }

    /// Prints a line about a delivered answer.
    pub(super) fn delivery(&mut self, answer: &DeliveredAnswer) -> Result<(), CliError> {
        let line = format!(
            "Connection/{} delivered an answer of {}.",
            answer.connection, answer.conversation
        );
        let permit = self.budget.take(Instant::now());
        self.print(permit, &line)
    }

    /// Prints a line with the time, without secrets and control characters.
    fn print(&self, permit: LinePermit, line: &str) -> Result<(), CliError> {
        let printed = match permit {
            LinePermit::Print => format!(
                "{} {}",
                Local::now().format("%H:%M:%S"),
                printable_line(&crate::output::redactor().text(line))
            ),
            LinePermit::Last => OMITTED.to_owned(),
            LinePermit::Omit => return Ok(()),
        };
        self.output.note(&printed)
    }
}

/// Treatment of a line.
#[derive(Debug, PartialEq, Eq)]
enum LinePermit {
    Print,
    /// The first omitted line of a window.
    Last,
    Omit,
}

/// Limit of the lines per window.
struct LineBudget {
    begin: Instant,
    used: usize,
}

impl LineBudget {
    fn new(now: Instant) -> Self {
        LineBudget {
            begin: now,
            used: 0,
        }
    }

    /// Counts a line at `now`.
    fn take(&mut self, now: Instant) -> LinePermit {
        if now.duration_since(self.begin) >= LINE_WINDOW {
            *self = LineBudget::new(now);
        }
        self.used += 1;
        match self.used {
            used if used <= MAX_LINES => LinePermit::Print,
            used if used == MAX_LINES + 1 => LinePermit::Last,
            _ => LinePermit::Omit,
        }
    }
}

/// Returns the line as one line of limited length, with visible control characters.
fn printable_line(line: &str) -> String {
    let line = untrusted_text::line(line).to_string();
    match line.char_indices().nth(MAX_LINE_CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// Describes an approval request.
fn approval_line(request: &ApprovalRequest) -> String {
    format!(
        "{} waits for an approval of {}. Answer it in the studio or with `gdn attach`.",
        request.instance, request.tool_name
    )
}

/// Describes the start or the successful end of a turn; `None` for other events.
fn turn_line(event: &RuntimeEvent) -> Option<String> {
    let instance = event.instance();
    match &event.kind {
        RuntimeEventKind::TurnStarted { event_type, .. } => {
            let cause = match event_type.as_str() {
                INPUT_EVENT => "received an input",
                RESPONSE_EVENT => "received a response",
                CRON_EVENT => "started on schedule",
                COMPACT_EVENT => "is being compacted",
                UNDO_EVENT => "takes back its last turn",
                _ => "received a message of another agent",
            };
            Some(format!("{instance} {cause}."))
        }
        RuntimeEventKind::TurnCompleted {
            duration: millis,
            step_count,
            finish_reason,
            ..
        } => {
            let outcome = match finish_reason {
                FinishReason::TextResponse => "answered",
                FinishReason::Cancelled => "was cancelled",
                FinishReason::MaxSteps | FinishReason::Error => return None,
            };
            let steps = if *step_count == 1 { "step" } else { "steps" };
            Some(format!(
                "{instance} {outcome} after {} ({step_count} {steps}).",
                duration(*millis)
            ))
        }
        _ => None,
    }
}

/// Describes a failed turn; `None` for other events.
fn failure_line(event: &SwarmEvent) -> Option<String> {
    let SwarmEvent::TurnEnded {
        instance, result, ..
    } = event
    else {
        return None;
    };
    if result.finish_reason == FinishReason::Cancelled {
        return None;
    }
    let error = turn_error(result)?;
    Some(format!(
        "A turn of {instance} failed: [{}] {}",
        error.code, error.message
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use goondan::event::{TurnError, TurnResult};
    use goondan::ids::InstanceId;

    fn ended(finish_reason: FinishReason, message: &str) -> SwarmEvent {
        let error = (finish_reason == FinishReason::Error).then(|| TurnError {
            code: "E_TOOL_DENIED".to_owned(),
            message: message.to_owned(),
            suggestion: None,
            status: None,
        });
        let result = TurnResult {
            turn_id: "t".to_owned(),
            finish_reason,
            model_finish_reason: None,
            response_message: None,
            output: None,
            error,
            usage: Default::default(),
            step_count: 4,
        };
        SwarmEvent::TurnEnded {
            instance: InstanceId::new("a", "telegram:7"),
            event_id: "e".to_owned(),
            joined_ids: Vec::new(),
            event_type: "user.input".to_owned(),
            trace_id: "0".to_owned(),
            is_for_agent: false,
            result: Box::new(result),
        }
    }

    #[test]
    fn only_a_failed_turn_has_a_line() {
        let line = |reason| failure_line(&ended(reason, "no"));
        assert_eq!(line(FinishReason::TextResponse), None);
        assert_eq!(line(FinishReason::Cancelled), None);
        assert_eq!(
            line(FinishReason::Error).as_deref(),
            Some("A turn of a:telegram:7 failed: [E_TOOL_DENIED] no")
        );
        assert!(
            line(FinishReason::MaxSteps)
                .unwrap()
                .contains("E_MAX_STEPS")
        );
    }

    #[test]
    fn an_activity_line_has_no_line_breaks_and_a_limited_length() {
        let failed = failure_line(&ended(FinishReason::Error, "a\nServing \u{1b}[2J\u{202e}b"));
        let line = printable_line(&failed.unwrap());
        assert!(!line.contains(['\n', '\u{1b}', '\u{202e}']), "{line}");
        assert_eq!(
            printable_line(&"ä".repeat(500)).chars().count(),
            MAX_LINE_CHARS + 1
        );
    }

    #[test]
    fn too_many_activity_lines_are_omitted_after_one_notice() {
        let begin = Instant::now();
        let mut budget = LineBudget::new(begin);
        let permits: Vec<LinePermit> = (0..MAX_LINES + 3).map(|_| budget.take(begin)).collect();
        assert!(
            permits[..MAX_LINES]
                .iter()
                .all(|one| *one == LinePermit::Print)
        );
        assert_eq!(
            permits[MAX_LINES..],
            [LinePermit::Last, LinePermit::Omit, LinePermit::Omit]
        );
        assert_eq!(budget.take(begin + LINE_WINDOW), LinePermit::Print);
    }
}

//! What goes on right now, for the one line that says so.

use std::time::Duration;

use chrono::{DateTime, Utc};
use goondan::event::{RateScope, RuntimeEvent, RuntimeEventKind};

/// All that goes on, the latest last: what an agent waits for began after the wait.
#[derive(Debug, Default)]
pub(super) struct Running(Vec<Work>);

/// An agent that thinks, or a call.
#[derive(Debug)]
struct Work {
    /// Of which step it is, and the call where it is one.
    step_id: String,
    tool_call_id: Option<String>,
    words: String,
    since: DateTime<Utc>,
    /// Since when somebody is asked about it.
    asked: Option<DateTime<Utc>>,
    /// Until when it waits for the limit of a model, and how that is said.
    limited: Option<(DateTime<Utc>, String)>,
}

impl Running {
    /// Takes note of what has happened.
    pub(super) fn note(&mut self, event: &RuntimeEvent) {
        let (who, now) = (&event.agent_name, event.timestamp);
        match &event.kind {
            RuntimeEventKind::StepStarted { step_id, .. } => {
                self.begin(step_id, None, format!("{who} is thinking"), now)
            }
            RuntimeEventKind::ToolCalled { step_id, tool_call_id, tool_name, .. } => {
                self.0.retain(|work| work.step_id != *step_id || work.tool_call_id.is_some());
                self.begin(step_id, Some(tool_call_id), format!("{who} runs {tool_name}"), now);
            }
            RuntimeEventKind::ModelWaiting { step_id: Some(step_id), model, scope, wait, .. } => {
                let is_it = |work: &&mut Work| work.step_id == *step_id && work.tool_call_id.is_none();
                if let Some(work) = self.0.iter_mut().find(is_it) {
                    let until =
                        now + chrono::Duration::milliseconds(i64::try_from(*wait).unwrap_or(i64::MAX).min(60_000));
                    let whose = if *scope == RateScope::Swarm { "the swarm" } else { model };
                    work.limited = Some((until, format!("{who} waits for the rate limit of {whose}")));
                }
            }
            RuntimeEventKind::ToolProgress { tool_call_id, title, turn_id, .. } => {
                if let Some(work) = self.call(tool_call_id, turn_id) {
                    work.words = format!("{who}: {title}");
                }
            }
            RuntimeEventKind::ToolCompleted { step_id, tool_call_id, .. } => {
                self.0.retain(|work| work.step_id != *step_id || work.tool_call_id.as_ref() != Some(tool_call_id));
            }
            RuntimeEventKind::StepCompleted { step_id, .. } | RuntimeEventKind::StepFailed { step_id, .. } => {
                self.0.retain(|work| work.step_id != *step_id);
            }
            RuntimeEventKind::TurnCompleted { turn_id, .. } | RuntimeEventKind::TurnFailed { turn_id, .. } => {
                self.0.retain(|work| !is_of(work, turn_id));
            }
            RuntimeEventKind::ApprovalRequested { tool_call_id, .. } => {
                self.asked(tool_call_id).into_iter().for_each(|work| work.asked = Some(now));
            }
            RuntimeEventKind::ApprovalResolved { tool_call_id, .. } => {
                if let Some(work) = self.asked(tool_call_id) {
                    // Whoever reads a question is not waited for.
                    work.since += work.asked.take().map_or_else(chrono::Duration::zero, |asked| now - asked);
                }
            }
            _ => {}
        }
    }

    /// What began last, and for how long it has gone on.
    pub(super) fn latest(&self, now: DateTime<Utc>) -> Option<(&str, Duration)> {
        let work = self.0.iter().rev().find(|work| work.asked.is_none())?;
        let words = work.limited.as_ref().filter(|(until, _)| now < *until).map_or(&work.words, |(_, words)| words);
        Some((words, (now - work.since).to_std().unwrap_or_default()))
    }

    fn begin(&mut self, step_id: &str, tool_call_id: Option<&String>, words: String, since: DateTime<Utc>) {
        let (step_id, tool_call_id) = (step_id.to_owned(), tool_call_id.cloned());
        self.0.push(Work { step_id, tool_call_id, words, since, asked: None, limited: None });
    }

    fn call(&mut self, tool_call_id: &str, turn_id: &str) -> Option<&mut Work> {
        let is_it = |work: &&mut Work| work.tool_call_id.as_deref() == Some(tool_call_id) && is_of(work, turn_id);
        self.0.iter_mut().find(is_it)
    }

    fn asked(&mut self, tool_call_id: &str) -> Option<&mut Work> {
        self.0.iter_mut().rev().find(|work| work.tool_call_id.as_deref() == Some(tool_call_id))
    }
}

/// Ids of steps begin with that of their turn.
fn is_of(work: &Work, turn_id: &str) -> bool {
    work.step_id.strip_prefix(turn_id).is_some_and(|rest| rest.starts_with("-step-"))
}

#[cfg(test)]
mod tests {
    use goondan::ids::TraceContext;
    use serde_json::Value;

    use super::*;

    fn at(second: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(second, 0).unwrap()
    }

    fn event(agent: &str, second: i64, kind: RuntimeEventKind) -> RuntimeEvent {
        RuntimeEvent {
            sequence: 1,
            kind,
            timestamp: at(second),
            agent_name: agent.to_owned(),
            instance_key: "main".to_owned(),
            trace: TraceContext::root("0", None, "turn"),
        }
    }

    fn step(turn: &str) -> RuntimeEventKind {
        RuntimeEventKind::StepStarted { step_id: format!("{turn}-step-0"), step_index: 0, turn_id: turn.to_owned() }
    }

    fn called(turn: &str, call: &str, tool: &str) -> RuntimeEventKind {
        RuntimeEventKind::ToolCalled {
            tool_call_id: call.to_owned(),
            tool_name: tool.to_owned(),
            step_id: format!("{turn}-step-0"),
            turn_id: turn.to_owned(),
            arguments: Value::Null,
            is_cut: false,
        }
    }

    fn approval(call: &str, resolved: bool) -> RuntimeEventKind {
        let (approval_id, tool_call_id, tool_name) = ("x".to_owned(), call.to_owned(), "t".to_owned());
        match resolved {
            false => RuntimeEventKind::ApprovalRequested { approval_id, tool_call_id, tool_name },
            true => RuntimeEventKind::ApprovalResolved {
                covers: None,
                approval_id,
                tool_call_id,
                tool_name,
                answer: "allow".to_owned(),
                scope: None,
            },
        }
    }

    #[test]
    fn the_latest_is_told_with_its_time_without_that_of_a_question() {
        let mut running = Running::default();
        let told = |running: &Running, second| {
            running.latest(at(second)).map(|(words, time)| (words.to_owned(), time.as_secs()))
        };
        let mut note = |agent: &str, second, kind| running.note(&event(agent, second, kind));
        note("boss", 0, step("b"));
        note("boss", 1, called("b", "1", "agents__request"));
        note("worker", 2, step("w"));
        note("worker", 4, called("w", "1", "bash__exec"));
        assert_eq!(told(&running, 9), Some(("worker runs bash__exec".to_owned(), 5)));
        running.note(&event("worker", 9, approval("1", false)));
        assert_eq!(told(&running, 100), Some(("boss runs agents__request".to_owned(), 99)));
        running.note(&event("worker", 109, approval("1", true)));
        assert_eq!(told(&running, 110), Some(("worker runs bash__exec".to_owned(), 6)));
        let end = RuntimeEventKind::TurnFailed {
            turn_id: "w".to_owned(),
            duration: 1,
            error_message: String::new(),
            error_code: None,
            token_usage: None,
            cost: None,
        };
        running.note(&event("worker", 111, end));
        assert_eq!(told(&running, 112), Some(("boss runs agents__request".to_owned(), 111)));
    }
}

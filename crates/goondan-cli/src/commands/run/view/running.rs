//! What goes on right now, for the line or the tree that says so.

use std::collections::HashMap;
use std::time::Duration;

use chrono::{DateTime, Utc};
use goondan::event::{RateScope, RuntimeEvent, RuntimeEventKind};

/// All that goes on, the latest last: what an agent waits for began after the wait.
#[derive(Debug, Default)]
pub(in crate::commands::run) struct Running {
    works: Vec<Work>,
    /// By turn: the span of the call that waits for it, or of whatever else has caused it.
    causes: HashMap<String, Option<String>>,
}

/// A piece of work, below the one that waits for it.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::commands::run) struct Doing<'r> {
    /// How many pieces of work wait for it.
    pub(in crate::commands::run) depth: usize,
    /// Who does what. It may hold words of strangers.
    pub(in crate::commands::run) words: &'r str,
    /// For how long it has gone on.
    pub(in crate::commands::run) elapsed: Duration,
}

/// An agent that thinks, or a call.
#[derive(Debug)]
struct Work {
    /// Of which step it is, and the call where it is one.
    step_id: String,
    tool_call_id: Option<String>,
    /// Its own span, and that of the call which waits for its turn.
    span: String,
    cause: Option<String>,
    words: String,
    since: DateTime<Utc>,
    /// Since when somebody is asked about it.
    asked: Option<DateTime<Utc>>,
    /// Until when it waits for the limit of a model or for a retry, and how that is said.
    limited: Option<(DateTime<Utc>, String)>,
}

impl Running {
    /// Takes note of what has happened.
    pub(in crate::commands::run) fn note(&mut self, event: &RuntimeEvent) {
        let (who, now) = (&event.agent_name, event.timestamp);
        match &event.kind {
            RuntimeEventKind::TurnStarted { turn_id, .. } => {
                self.causes
                    .insert(turn_id.clone(), event.trace.parent_span_id.clone());
            }
            RuntimeEventKind::StepStarted {
                step_id, turn_id, ..
            } => {
                self.begin(
                    event,
                    (turn_id, step_id),
                    None,
                    format!("{who} is thinking"),
                );
            }
            RuntimeEventKind::ToolCalled {
                step_id,
                turn_id,
                tool_call_id,
                tool_name,
                ..
            } => {
                self.works
                    .retain(|work| work.step_id != *step_id || work.tool_call_id.is_some());
                self.begin(
                    event,
                    (turn_id, step_id),
                    Some(tool_call_id),
                    format!("{who} runs {tool_name}"),
                );
            }
            RuntimeEventKind::ModelWaiting {
                step_id: Some(step_id),
                model,
                scope,
                wait,
                ..
            } => {
                let whose = if *scope == RateScope::Swarm {
                    "the swarm"
                } else {
                    model
                };
                let words = format!("{who} waits for the rate limit of {whose}");
                self.limit(step_id, now, *wait, words);
            }
            RuntimeEventKind::ModelRetrying {
                step_id: Some(step_id),
                model,
                wait_ms,
                ..
            } => {
                let words = format!("{who} waits to retry {model}");
                self.limit(step_id, now, *wait_ms, words);
            }
            RuntimeEventKind::ToolProgress {
                tool_call_id,
                title,
                turn_id,
                ..
            } => {
                if let Some(work) = self.call(tool_call_id, turn_id) {
                    work.words = format!("{who}: {title}");
                }
            }
            RuntimeEventKind::ToolCompleted {
                step_id,
                tool_call_id,
                ..
            } => {
                self.works.retain(|work| {
                    work.step_id != *step_id || work.tool_call_id.as_ref() != Some(tool_call_id)
                });
            }
            RuntimeEventKind::StepCompleted { step_id, .. }
            | RuntimeEventKind::StepFailed { step_id, .. } => {
                self.works.retain(|work| work.step_id != *step_id);
            }
            RuntimeEventKind::TurnCompleted { turn_id, .. }
            | RuntimeEventKind::TurnFailed { turn_id, .. } => {
                self.works.retain(|work| !is_of(work, turn_id));
                self.causes.remove(turn_id);
            }
            RuntimeEventKind::ApprovalRequested { tool_call_id, .. } => {
                self.asked(tool_call_id)
                    .into_iter()
                    .for_each(|work| work.asked = Some(now));
            }
            RuntimeEventKind::ApprovalResolved { tool_call_id, .. } => {
                if let Some(work) = self.asked(tool_call_id) {
                    // Whoever reads a question is not waited for.
                    work.since += work
                        .asked
                        .take()
                        .map_or_else(chrono::Duration::zero, |asked| now - asked);
                }
            }
            _ => {}
        }
    }

    /// What began last, and for how long it has gone on.
    pub(super) fn latest(&self, now: DateTime<Utc>) -> Option<(&str, Duration)> {
        let work = self.works.iter().rev().find(|work| work.asked.is_none())?;
        Some((work.words_at(now), work.elapsed(now)))
    }

    /// Whether anything goes on.
    pub(in crate::commands::run) fn is_empty(&self) -> bool {
        self.works.is_empty()
    }

    /// All that goes on, each below what waits for it.
    pub(in crate::commands::run) fn tree(&self, now: DateTime<Utc>) -> Vec<Doing<'_>> {
        let is_root = |work: &&Work| {
            let waits = |other: &Work| work.cause.as_ref() == Some(&other.span);
            !self.works.iter().any(waits)
        };
        let mut tree = Vec::new();
        for root in self.works.iter().filter(is_root) {
            self.branch(root, 0, now, &mut tree);
        }
        tree
    }

    fn branch<'r>(
        &'r self,
        work: &'r Work,
        depth: usize,
        now: DateTime<Utc>,
        tree: &mut Vec<Doing<'r>>,
    ) {
        // Spans come from another process, too: one that waits for itself would have no end.
        if tree.len() > self.works.len() {
            return;
        }
        tree.push(Doing {
            depth,
            words: work.words_at(now),
            elapsed: work.elapsed(now),
        });
        for below in self
            .works
            .iter()
            .filter(|below| below.cause.as_ref() == Some(&work.span))
        {
            self.branch(below, depth + 1, now, tree);
        }
    }

    fn begin(
        &mut self,
        event: &RuntimeEvent,
        (turn_id, step_id): (&str, &str),
        tool_call_id: Option<&String>,
        words: String,
    ) {
        self.works.push(Work {
            step_id: step_id.to_owned(),
            tool_call_id: tool_call_id.cloned(),
            span: event.trace.span_id.clone(),
            cause: self.causes.get(turn_id).cloned().flatten(),
            words,
            since: event.timestamp,
            asked: None,
            limited: None,
        });
    }

    /// Shows other words for a step until `wait` milliseconds after `now`.
    fn limit(&mut self, step_id: &str, now: DateTime<Utc>, wait: u64, words: String) {
        let is_it = |work: &&mut Work| work.step_id == step_id && work.tool_call_id.is_none();
        if let Some(work) = self.works.iter_mut().find(is_it) {
            let wait = i64::try_from(wait).unwrap_or(i64::MAX).min(60_000);
            work.limited = Some((now + chrono::Duration::milliseconds(wait), words));
        }
    }

    fn call(&mut self, tool_call_id: &str, turn_id: &str) -> Option<&mut Work> {
        let is_it = |work: &&mut Work| {
            work.tool_call_id.as_deref() == Some(tool_call_id) && is_of(work, turn_id)
        };
        self.works.iter_mut().find(is_it)
    }

    fn asked(&mut self, tool_call_id: &str) -> Option<&mut Work> {
        self.works
            .iter_mut()
            .rev()
            .find(|work| work.tool_call_id.as_deref() == Some(tool_call_id))
    }
}

impl Work {
    fn words_at(&self, now: DateTime<Utc>) -> &str {
        self.limited
            .as_ref()
            .filter(|(until, _)| now < *until)
            .map_or(&self.words, |(_, words)| words)
    }

    /// Without the time in which somebody reads a question.
    fn elapsed(&self, now: DateTime<Utc>) -> Duration {
        (self.asked.unwrap_or(now) - self.since)
            .to_std()
            .unwrap_or_default()
    }
}

/// Ids of steps begin with that of their turn.
fn is_of(work: &Work, turn_id: &str) -> bool {
    work.step_id
        .strip_prefix(turn_id)
        .is_some_and(|rest| rest.starts_with("-step-"))
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
        RuntimeEventKind::StepStarted {
            step_id: format!("{turn}-step-0"),
            step_index: 0,
            turn_id: turn.to_owned(),
        }
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
        let (approval_id, tool_call_id, tool_name) =
            ("x".to_owned(), call.to_owned(), "t".to_owned());
        match resolved {
            false => RuntimeEventKind::ApprovalRequested {
                approval_id,
                tool_call_id,
                tool_name,
            },
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
            running
                .latest(at(second))
                .map(|(words, time)| (words.to_owned(), time.as_secs()))
        };
        let mut note = |agent: &str, second, kind| running.note(&event(agent, second, kind));
        note("boss", 0, step("b"));
        note("boss", 1, called("b", "1", "agents__request"));
        note("worker", 2, step("w"));
        note("worker", 4, called("w", "1", "bash__exec"));
        assert_eq!(
            told(&running, 9),
            Some(("worker runs bash__exec".to_owned(), 5))
        );
        running.note(&event("worker", 9, approval("1", false)));
        assert_eq!(
            told(&running, 100),
            Some(("boss runs agents__request".to_owned(), 99))
        );
        running.note(&event("worker", 109, approval("1", true)));
        assert_eq!(
            told(&running, 110),
            Some(("worker runs bash__exec".to_owned(), 6))
        );
        let end = RuntimeEventKind::TurnFailed {
            turn_id: "w".to_owned(),
            duration: 1,
            error_message: String::new(),
            error_code: None,
            token_usage: None,
            cost: None,
        };
        running.note(&event("worker", 111, end));
        assert_eq!(
            told(&running, 112),
            Some(("boss runs agents__request".to_owned(), 111))
        );
    }

    #[test]
    fn what_an_agent_waits_for_stands_below_it() {
        let mut running = Running::default();
        let traced = |agent: &str, span: &str, parent: Option<&str>, kind| {
            let mut event = event(agent, 0, kind);
            (event.trace.span_id, event.trace.parent_span_id) =
                (span.to_owned(), parent.map(str::to_owned));
            event
        };
        let started = |turn: &str| RuntimeEventKind::TurnStarted {
            turn_id: turn.to_owned(),
            event_id: "e".to_owned(),
            event_type: "agent.request".to_owned(),
        };
        running.note(&traced("boss", "1", None, started("b")));
        running.note(&traced("boss", "2", Some("1"), step("b")));
        running.note(&traced(
            "boss",
            "3",
            Some("2"),
            called("b", "1", "agents__request"),
        ));
        running.note(&traced(
            "boss",
            "4",
            Some("2"),
            called("b", "2", "bash__exec"),
        ));
        running.note(&traced("worker", "5", Some("3"), started("w")));
        running.note(&traced("worker", "6", Some("5"), step("w")));
        let tree: Vec<(usize, &str)> = running
            .tree(at(1))
            .iter()
            .map(|doing| (doing.depth, doing.words))
            .collect();
        assert_eq!(
            tree,
            [
                (0, "boss runs agents__request"),
                (1, "worker is thinking"),
                (0, "boss runs bash__exec")
            ]
        );
        // One that is its own cause.
        running.note(&traced("x", "8", Some("9"), started("x")));
        running.note(&traced("x", "9", Some("8"), step("x")));
        assert!(running.tree(at(1)).len() <= 4);
    }
}

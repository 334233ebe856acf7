//! Work in progress, for the activity line and the tree.

use std::collections::HashMap;
use std::time::Duration;

use chrono::{DateTime, Utc};
use goondan::event::{RateScope, RuntimeEvent, RuntimeEventKind};

/// Running steps and calls, latest last: work that an agent waits for begins after the wait.
#[derive(Debug, Default)]
pub(in crate::commands::run) struct WorkTracker {
    works: Vec<RunningWork>,
    /// Span that caused each turn, by turn id: for example the span of the call that waits for the
    /// turn.
    causes: HashMap<String, Option<String>>,
}

/// Row of the tree of running work. Callers come before the work that they wait for.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::commands::run) struct WorkRow<'r> {
    /// Number of running items that wait for this work.
    pub(in crate::commands::run) depth: usize,
    /// Agent and activity. May contain foreign content.
    pub(in crate::commands::run) words: &'r str,
    /// Time since its start.
    pub(in crate::commands::run) elapsed: Duration,
}

/// Step of an agent, or tool call.
#[derive(Debug)]
struct RunningWork {
    /// Id of the step, and of the call if it is one.
    step_id: String,
    tool_call_id: Option<String>,
    /// Span of this work, and span of the call that waits for its turn.
    span: String,
    cause: Option<String>,
    words: String,
    since: DateTime<Utc>,
    /// Start of the open approval request.
    asked: Option<DateTime<Utc>>,
    /// End of a wait for a rate limit or a retry, with its description.
    limited: Option<(DateTime<Utc>, String)>,
}

impl WorkTracker {
    /// Updates the state from an event.
    pub(in crate::commands::run) fn note(&mut self, event: &RuntimeEvent) {
        let (agent, now) = (&event.agent_name, event.timestamp);
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
                    format!("{agent} is thinking"),
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
                    format!("{agent} runs {tool_name}"),
                );
            }
            RuntimeEventKind::ModelWaiting {
                step_id: Some(step_id),
                model,
                scope,
                wait,
                ..
            } => {
                let limit_owner = if *scope == RateScope::Swarm {
                    "the swarm"
                } else {
                    model
                };
                let description = format!("{agent} waits for the rate limit of {limit_owner}");
                self.limit(step_id, now, *wait, description);
            }
            RuntimeEventKind::ModelRetrying {
                step_id: Some(step_id),
                model,
                wait_ms,
                ..
            } => {
                let description = format!("{agent} waits to retry {model}");
                self.limit(step_id, now, *wait_ms, description);
            }
            RuntimeEventKind::ToolProgress {
                tool_call_id,
                title,
                turn_id,
                ..
            } => {
                if let Some(work) = self.call_of_turn(tool_call_id, turn_id) {
                    work.words = format!("{agent}: {title}");
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
                if let Some(work) = self.latest_call(tool_call_id) {
                    work.asked = Some(now);
                }
            }
            RuntimeEventKind::ApprovalResolved { tool_call_id, .. } => {
                if let Some(work) = self.latest_call(tool_call_id) {
                    // Time spent on an approval request does not count.
                    work.since += work
                        .asked
                        .take()
                        .map_or_else(chrono::Duration::zero, |asked| now - asked);
                }
            }
            _ => {}
        }
    }

    /// Returns the latest work that does not wait for approval, with the time since its start.
    pub(super) fn latest(&self, now: DateTime<Utc>) -> Option<(&str, Duration)> {
        let work = self.works.iter().rev().find(|work| work.asked.is_none())?;
        Some((work.words_at(now), work.elapsed(now)))
    }

    /// Returns true if nothing is running.
    pub(in crate::commands::run) fn is_empty(&self) -> bool {
        self.works.is_empty()
    }

    /// Returns all work as a tree, each item below the one that waits for it.
    pub(in crate::commands::run) fn tree(&self, now: DateTime<Utc>) -> Vec<WorkRow<'_>> {
        let is_root = |work: &&RunningWork| {
            let waits = |other: &RunningWork| work.cause.as_ref() == Some(&other.span);
            !self.works.iter().any(waits)
        };
        let mut tree = Vec::new();
        for root in self.works.iter().filter(is_root) {
            self.add_branch(root, 0, now, &mut tree);
        }
        tree
    }

    /// Adds the row of `work` to `tree`, then the rows of the work that it waits for.
    fn add_branch<'r>(
        &'r self,
        work: &'r RunningWork,
        depth: usize,
        now: DateTime<Utc>,
        tree: &mut Vec<WorkRow<'r>>,
    ) {
        // Spans also come from other processes, so a cycle must not recurse forever.
        if tree.len() > self.works.len() {
            return;
        }
        tree.push(WorkRow {
            depth,
            words: work.words_at(now),
            elapsed: work.elapsed(now),
        });
        for awaited_work in self
            .works
            .iter()
            .filter(|awaited_work| awaited_work.cause.as_ref() == Some(&work.span))
        {
            self.add_branch(awaited_work, depth + 1, now, tree);
        }
    }

    /// Adds a step, or a tool call if `tool_call_id` is given.
    fn begin(
        &mut self,
        event: &RuntimeEvent,
        (turn_id, step_id): (&str, &str),
        tool_call_id: Option<&String>,
        words: String,
    ) {
        self.works.push(RunningWork {
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

    /// Shows another description of a step until `wait` milliseconds after `now`, at most a minute.
    fn limit(&mut self, step_id: &str, now: DateTime<Utc>, wait: u64, description: String) {
        let is_step =
            |work: &&mut RunningWork| work.step_id == step_id && work.tool_call_id.is_none();
        if let Some(work) = self.works.iter_mut().find(is_step) {
            let wait = i64::try_from(wait).unwrap_or(i64::MAX).min(60_000);
            work.limited = Some((now + chrono::Duration::milliseconds(wait), description));
        }
    }

    /// Returns the running call of this turn, if it is known.
    fn call_of_turn(&mut self, tool_call_id: &str, turn_id: &str) -> Option<&mut RunningWork> {
        let is_call = |work: &&mut RunningWork| {
            work.tool_call_id.as_deref() == Some(tool_call_id) && is_of(work, turn_id)
        };
        self.works.iter_mut().find(is_call)
    }

    /// Returns the latest running call with this id, if it is known.
    fn latest_call(&mut self, tool_call_id: &str) -> Option<&mut RunningWork> {
        self.works
            .iter_mut()
            .rev()
            .find(|work| work.tool_call_id.as_deref() == Some(tool_call_id))
    }
}

impl RunningWork {
    /// Returns the description at this time: of a wait for a limit or a retry, or of the work.
    fn words_at(&self, now: DateTime<Utc>) -> &str {
        self.limited
            .as_ref()
            .filter(|(until, _)| now < *until)
            .map_or(&self.words, |(_, words)| words)
    }

    /// Returns the time since the work started, minus the time in which an approval request was
    /// open.
    fn elapsed(&self, now: DateTime<Utc>) -> Duration {
        (self.asked.unwrap_or(now) - self.since)
            .to_std()
            .unwrap_or_default()
    }
}

/// Returns true if work belongs to a turn. Step ids begin with the turn's id.
fn is_of(work: &RunningWork, turn_id: &str) -> bool {
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
        if resolved {
            RuntimeEventKind::ApprovalResolved {
                covers: None,
                approval_id,
                tool_call_id,
                tool_name,
                answer: "allow".to_owned(),
                scope: None,
            }
        } else {
            RuntimeEventKind::ApprovalRequested {
                approval_id,
                tool_call_id,
                tool_name,
            }
        }
    }

    #[test]
    fn the_latest_activity_excludes_time_spent_on_approval_requests() {
        let mut running = WorkTracker::default();
        let latest_at = |running: &WorkTracker, second| {
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
            latest_at(&running, 9),
            Some(("worker runs bash__exec".to_owned(), 5))
        );
        running.note(&event("worker", 9, approval("1", false)));
        assert_eq!(
            latest_at(&running, 100),
            Some(("boss runs agents__request".to_owned(), 99))
        );
        running.note(&event("worker", 109, approval("1", true)));
        assert_eq!(
            latest_at(&running, 110),
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
            latest_at(&running, 112),
            Some(("boss runs agents__request".to_owned(), 111))
        );
    }

    #[test]
    fn called_agents_are_nested_below_the_waiting_call() {
        let mut running = WorkTracker::default();
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
        // Two spans that are parents of each other.
        running.note(&traced("x", "8", Some("9"), started("x")));
        running.note(&traced("x", "9", Some("8"), step("x")));
        assert!(running.tree(at(1)).len() <= 4);
    }
}

//! Nesting of runtime events: turn ⊃ step ⊃ tool. Everything that starts ends, and all events of a
//! chain share a trace.

use std::collections::{BTreeMap, BTreeSet};

use goondan::event::{RuntimeEvent, RuntimeEventKind as Kind};
use goondan::ids::TraceContext;

use crate::runner::evidence::CaseEvidence;

/// Returns violations of the nesting of turns, steps and calls in the runtime events.
pub(super) fn check(evidence: &CaseEvidence<'_>) -> Vec<String> {
    find_violations(
        &evidence.events,
        GapAllowance {
            cut_off: evidence.cut_off,
            direct_calls: evidence.has_direct_calls(),
        },
    )
}

/// Actions of the test case that explain gaps.
#[derive(Clone, Copy)]
struct GapAllowance {
    /// Units may have no end, or start twice.
    cut_off: bool,
    /// Tool events may belong to no turn.
    direct_calls: bool,
}

/// A turn, a step or a tool call, with an id that is unique on its level.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct EventUnit {
    level: UnitLevel,
    id: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum UnitLevel {
    Turn,
    Step,
    Tool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UnitEdge {
    Start,
    End,
}

/// Returns violations in `events`; `allowance` states the gaps that are not violations.
fn find_violations(events: &[RuntimeEvent], allowance: GapAllowance) -> Vec<String> {
    let mut walk = NestingCheck {
        allowance,
        open: BTreeMap::new(),
        spans: BTreeMap::new(),
        problems: Vec::new(),
    };
    for event in events {
        walk.check_ids(&event.trace);
        if let Some((edge, unit, parent)) = event_edge(&event.kind) {
            match edge {
                UnitEdge::Start => walk.start(unit, parent, &event.trace),
                UnitEdge::End => walk.end(&unit, &event.trace),
            }
        }
    }
    walk.finish()
}

/// Returns the unit that an event starts or ends, and its parent. `None` for other events.
fn event_edge(kind: &Kind) -> Option<(UnitEdge, EventUnit, Option<EventUnit>)> {
    let turn = |id: &String| EventUnit {
        level: UnitLevel::Turn,
        id: id.clone(),
    };
    let step = |id: &String| EventUnit {
        level: UnitLevel::Step,
        id: id.clone(),
    };
    let tool = |step: &String, call: &String| EventUnit {
        level: UnitLevel::Tool,
        id: format!("{step}/{call}"),
    };
    Some(match kind {
        Kind::TurnStarted { turn_id, .. } => (UnitEdge::Start, turn(turn_id), None),
        Kind::TurnCompleted { turn_id, .. } | Kind::TurnFailed { turn_id, .. } => {
            (UnitEdge::End, turn(turn_id), None)
        }
        Kind::StepStarted {
            step_id, turn_id, ..
        } => (UnitEdge::Start, step(step_id), Some(turn(turn_id))),
        Kind::StepCompleted {
            step_id, turn_id, ..
        }
        | Kind::StepFailed {
            step_id, turn_id, ..
        } => (UnitEdge::End, step(step_id), Some(turn(turn_id))),
        Kind::ToolCalled {
            tool_call_id,
            step_id,
            ..
        } => (
            UnitEdge::Start,
            tool(step_id, tool_call_id),
            Some(step(step_id)),
        ),
        Kind::ToolCompleted {
            tool_call_id,
            step_id,
            ..
        }
        | Kind::ToolFailed {
            tool_call_id,
            step_id,
            ..
        } => (
            UnitEdge::End,
            tool(step_id, tool_call_id),
            Some(step(step_id)),
        ),
        _ => return None,
    })
}

/// An open unit.
struct OpenUnit {
    trace: TraceContext,
    parent: Option<EventUnit>,
}

struct NestingCheck {
    allowance: GapAllowance,
    open: BTreeMap<EventUnit, OpenUnit>,
    /// Traces of all spans so far, by span id.
    spans: BTreeMap<String, String>,
    problems: Vec<String>,
}

impl NestingCheck {
    /// Reports trace and span ids that are not lower-case hex digits of the right length.
    fn check_ids(&mut self, trace: &TraceContext) {
        let parent = trace.parent_span_id.iter().map(|id| (id, 16));
        for (id, digits) in [(&trace.trace_id, 32), (&trace.span_id, 16)]
            .into_iter()
            .chain(parent)
        {
            let is_hex = id
                .chars()
                .all(|c| c.is_ascii_digit() || ('a'..='f').contains(&c));
            if id.len() != digits || !is_hex {
                self.problems
                    .push(format!("`{id}` is not {digits} lower-case hex digits"));
            }
        }
    }

    /// Opens a unit; reports it if it is already open or does not fit its parent.
    fn start(&mut self, unit: EventUnit, parent: Option<EventUnit>, trace: &TraceContext) {
        match &parent {
            Some(around) => self.check_parent(&unit, around, trace),
            None => self.check_cause(&unit, trace),
        }
        self.spans
            .insert(trace.span_id.clone(), trace.trace_id.clone());
        let name = unit.name();
        let opened = OpenUnit {
            trace: trace.clone(),
            parent,
        };
        if self.open.insert(unit, opened).is_some() && !self.allowance.cut_off {
            self.problems.push(format!("{name} starts twice"));
        }
    }

    /// Checks that the parent is open and has the same trace.
    fn check_parent(&mut self, unit: &EventUnit, around: &EventUnit, trace: &TraceContext) {
        let name = unit.name();
        let problem = match self.open.get(around) {
            None if self.allowance.direct_calls && unit.level == UnitLevel::Tool => return,
            None => format!("{name} starts outside {}", around.name()),
            Some(outer) if outer.trace.trace_id != trace.trace_id => {
                format!("{name} has another traceId than {}", around.name())
            }
            Some(outer) if trace.parent_span_id.as_ref() != Some(&outer.trace.span_id) => {
                format!("the parent span of {name} is not {}", around.name())
            }
            Some(_) => return,
        };
        self.problems.push(problem);
    }

    /// Checks that a turn shares the trace of its cause, which is an earlier span.
    fn check_cause(&mut self, unit: &EventUnit, trace: &TraceContext) {
        let Some(parent) = &trace.parent_span_id else {
            return;
        };
        match self.spans.get(parent) {
            Some(trace_id) if *trace_id == trace.trace_id => {}
            Some(_) => self.problems.push(format!(
                "{} has another traceId than its cause",
                unit.name()
            )),
            None if self.allowance.direct_calls => {}
            None => self
                .problems
                .push(format!("the parent span of {} does not exist", unit.name())),
        }
    }

    /// Closes a unit; reports it if it never started, changed its span, or contains open units.
    fn end(&mut self, unit: &EventUnit, trace: &TraceContext) {
        let Some(opened) = self.open.remove(unit) else {
            return self
                .problems
                .push(format!("{} ends but never started", unit.name()));
        };
        let is_same_span =
            (&opened.trace.trace_id, &opened.trace.span_id) == (&trace.trace_id, &trace.span_id);
        if !is_same_span && !self.allowance.cut_off {
            self.problems.push(format!(
                "{} ends under another span than it started",
                unit.name()
            ));
        }
        let inside: Vec<EventUnit> = self
            .open
            .iter()
            .filter(|(_, open)| open.parent.as_ref() == Some(unit))
            .map(|(unit, _)| unit.clone())
            .collect();
        for inner in inside {
            if !self.allowance.cut_off {
                self.problems
                    .push(format!("{} ends before {}", unit.name(), inner.name()));
            }
            self.open.remove(&inner);
        }
    }

    /// Reports units that are still open, and returns all violations without duplicates.
    fn finish(mut self) -> Vec<String> {
        if !self.allowance.cut_off {
            self.problems.extend(
                self.open
                    .keys()
                    .map(|unit| format!("{} never ends", unit.name())),
            );
        }
        let mut seen_units = BTreeSet::new();
        self.problems
            .retain(|problem| seen_units.insert(problem.clone()));
        self.problems
    }
}

impl EventUnit {
    /// Describes the unit for messages.
    fn name(&self) -> String {
        let level = match self.level {
            UnitLevel::Turn => "turn",
            UnitLevel::Step => "step",
            UnitLevel::Tool => "tool call",
        };
        format!("{level} {}", self.id)
    }
}

#[cfg(test)]
mod tests {
    use goondan::event::FinishReason;
    use goondan::ports::tool::ToolCallStatus;

    use super::*;

    const STRICT: GapAllowance = GapAllowance {
        cut_off: false,
        direct_calls: false,
    };

    fn event(kind: Kind, trace: char, span: u8, parent: Option<u8>) -> RuntimeEvent {
        RuntimeEvent {
            sequence: 1,
            kind,
            timestamp: Default::default(),
            agent_name: "a".into(),
            instance_key: "main".into(),
            trace: TraceContext {
                trace_id: trace.to_string().repeat(32),
                span_id: format!("{span:016x}"),
                parent_span_id: parent.map(|span| format!("{span:016x}")),
                caller: None,
            },
        }
    }

    fn turn_started(id: &str, trace: char, span: u8, parent: Option<u8>) -> RuntimeEvent {
        event(
            Kind::TurnStarted {
                turn_id: id.into(),
                event_id: "e".into(),
                event_type: "user.input".into(),
            },
            trace,
            span,
            parent,
        )
    }

    fn turn_completed(id: &str, trace: char, span: u8, parent: Option<u8>) -> RuntimeEvent {
        let step_count = 1;
        let duration = 0;
        let finish_reason = FinishReason::TextResponse;
        let turn_id = id.into();
        let token_usage = None;
        let cost = None;
        let kind = Kind::TurnCompleted {
            turn_id,
            step_count,
            duration,
            finish_reason,
            model_finish_reason: None,
            token_usage,
            cost,
        };
        event(kind, trace, span, parent)
    }

    fn step_started(id: &str, span: u8, parent: u8) -> RuntimeEvent {
        let kind = Kind::StepStarted {
            step_id: id.into(),
            step_index: 0,
            turn_id: "t".into(),
        };
        event(kind, '1', span, Some(parent))
    }

    fn step_completed(id: &str, span: u8, parent: u8) -> RuntimeEvent {
        let (step_id, turn_id) = (id.into(), "t".into());
        let kind = Kind::StepCompleted {
            step_id,
            step_index: 0,
            turn_id,
            tool_call_count: 1,
            duration: 0,
            token_usage: None,
        };
        event(kind, '1', span, Some(parent))
    }

    fn tool_called(step: &str, span: u8, parent: u8) -> RuntimeEvent {
        let (tool_call_id, tool_name) = ("c".into(), "a__b".into());
        let kind = Kind::ToolCalled {
            tool_call_id,
            tool_name,
            step_id: step.into(),
            turn_id: "t".into(),
            arguments: serde_json::Value::Null,
            is_cut: false,
        };
        event(kind, '1', span, Some(parent))
    }

    fn tool_completed(step: &str, span: u8, parent: u8) -> RuntimeEvent {
        let kind = Kind::ToolCompleted {
            tool_call_id: "c".into(),
            tool_name: "a__b".into(),
            step_id: step.into(),
            turn_id: "t".into(),
            status: ToolCallStatus::Ok,
            duration: 0,
            shown: Box::default(),
        };
        event(kind, '1', span, Some(parent))
    }

    /// Returns the events of a turn whose tool call starts a turn of another agent.
    fn complete_turn() -> Vec<RuntimeEvent> {
        vec![
            turn_started("t", '1', 1, None),
            step_started("s", 2, 1),
            tool_called("s", 3, 2),
            turn_started("u", '1', 4, Some(3)),
            turn_completed("u", '1', 4, Some(3)),
            tool_completed("s", 3, 2),
            step_completed("s", 2, 1),
            turn_completed("t", '1', 1, None),
        ]
    }

    #[test]
    fn a_complete_turn_has_no_violations() {
        assert_eq!(
            find_violations(&complete_turn(), STRICT),
            Vec::<String>::new()
        );
    }

    #[test]
    fn every_missing_event_is_a_violation() {
        for missing in 0..complete_turn().len() {
            let mut events = complete_turn();
            events.remove(missing);
            assert_ne!(
                find_violations(&events, STRICT),
                Vec::<String>::new(),
                "without event {missing}"
            );
        }
    }

    #[test]
    fn missing_end_events_are_allowed_after_a_kill() {
        let cut = GapAllowance {
            cut_off: true,
            ..STRICT
        };
        for length in 1..complete_turn().len() {
            assert_eq!(
                find_violations(&complete_turn()[..length], cut),
                Vec::<String>::new(),
                "{length} events"
            );
        }
    }

    #[test]
    fn wrong_trace_ids_and_parent_spans_are_violations() {
        let mut other_trace = complete_turn();
        other_trace[3] = turn_started("u", '2', 4, Some(3));
        assert!(
            find_violations(&other_trace, STRICT)[0].contains("another traceId than its cause")
        );
        let mut other_parent = complete_turn();
        other_parent[2] = tool_called("s", 3, 1);
        assert!(
            find_violations(&other_parent, STRICT)[0]
                .contains("the parent span of tool call s/c is not step s")
        );
        let mut invalid_hex = complete_turn();
        invalid_hex[0].trace.trace_id = "xyz".into();
        assert!(
            find_violations(&invalid_hex, STRICT)[0].contains("is not 32 lower-case hex digits")
        );
    }

    #[test]
    fn a_direct_call_needs_no_turn() {
        let events = [tool_called("s", 3, 2), tool_completed("s", 3, 2)];
        assert_eq!(
            find_violations(
                &events,
                GapAllowance {
                    direct_calls: true,
                    ..STRICT
                }
            ),
            Vec::<String>::new()
        );
        assert_ne!(find_violations(&events, STRICT), Vec::<String>::new());
    }
}

//! Display of a swarm while a turn runs.

pub(super) mod calls;
mod lines;
pub(super) mod text;
pub(super) mod work_tracker;

use goondan::ChainUsage;
use goondan::event::{SwarmEvent, TurnResult};
use goondan::ids::InstanceId;

use super::unprompted_answers::UnpromptedAnswer;

pub(crate) use lines::event_line;
pub(crate) use text::TextView;

use crate::exit::CliError;
use crate::output::{CommandOutput, TurnReport};

/// Display of events.
pub(crate) enum TurnView {
    /// For users: streamed text, tool calls, an activity line.
    Text(Box<TextView>),
    /// For programs: one event per line.
    Lines(CommandOutput),
    /// No output.
    Silent,
}

impl TurnView {
    /// Creates a display for users.
    pub(crate) fn text(output: &CommandOutput) -> Self {
        TurnView::Text(Box::new(TextView::new(output)))
    }

    /// Creates a display for programs.
    pub(crate) fn lines(output: &CommandOutput) -> Self {
        TurnView::Lines(*output)
    }

    /// Creates a display without output.
    pub(crate) fn silent() -> Self {
        TurnView::Silent
    }

    /// Prepares for a turn of `instance`.
    pub(crate) fn begin(&mut self, instance: &InstanceId) {
        if let TurnView::Text(view) = self {
            view.begin(instance);
        }
    }

    /// Shows an event.
    pub(crate) fn show(&mut self, event: &SwarmEvent) -> Result<(), CliError> {
        match self {
            TurnView::Text(view) => view.show(event),
            TurnView::Lines(output) => match event_line(event) {
                Some(line) => output.json_line(&line),
                None => Ok(()),
            },
            TurnView::Silent => Ok(()),
        }
    }

    /// Shows the answer of a turn that no input of this run started, for example of a scheduled job.
    /// `in_followed_trace`: the turn is a later part of the trace that this run follows. `usage`
    /// returns the usage of the turn's trace so far.
    pub(crate) fn answer(
        &mut self,
        answer: &UnpromptedAnswer<'_>,
        in_followed_trace: bool,
        usage: impl FnOnce() -> ChainUsage,
    ) -> Result<(), CliError> {
        match self {
            TurnView::Text(view) => view.answer(answer, in_followed_trace),
            TurnView::Lines(output) => output.json_line(&TurnReport::answer(answer, Some(usage()))),
            TurnView::Silent => Ok(()),
        }
    }

    /// Hides the activity line, so that other output can be written.
    pub(crate) fn pause(&mut self) {
        if let TurnView::Text(view) = self {
            view.pause();
        }
    }

    /// Shows the activity line again.
    pub(crate) fn resume(&mut self) {
        if let TurnView::Text(view) = self {
            view.resume();
        }
    }

    /// Returns true if notices are shown in addition to events. Programs receive only events.
    pub(crate) fn is_for_people(&self) -> bool {
        !matches!(self, TurnView::Lines(_))
    }

    /// Shows the end of the turn.
    pub(crate) fn end(&mut self, result: &TurnResult) -> Result<(), CliError> {
        match self {
            TurnView::Text(view) => view.end(result),
            TurnView::Lines(_) | TurnView::Silent => Ok(()),
        }
    }
}

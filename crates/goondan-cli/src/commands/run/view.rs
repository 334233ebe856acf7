//! What is shown of a swarm while a turn runs.

pub(super) mod calls;
mod lines;
pub(super) mod running;
pub(super) mod text;

use goondan::ChainUsage;
use goondan::event::{SwarmEvent, TurnResult};
use goondan::ids::InstanceId;

use super::answers::Unasked;

pub(crate) use lines::event_line;
pub(crate) use text::TextView;

use crate::exit::CliError;
use crate::output::{Output, TurnReport};

/// How events are shown.
pub(crate) enum View {
    /// For people: streamed text, tool calls, a line that says what is going on.
    Text(Box<TextView>),
    /// For programs: one event a line.
    Lines(Output),
    /// Not at all.
    Silent,
}

impl View {
    pub(crate) fn text(output: &Output) -> Self {
        View::Text(Box::new(TextView::new(output)))
    }

    pub(crate) fn lines(output: &Output) -> Self {
        View::Lines(*output)
    }

    pub(crate) fn silent() -> Self {
        View::Silent
    }

    /// A turn of `instance` is about to run.
    pub(crate) fn begin(&mut self, instance: &InstanceId) {
        if let View::Text(view) = self {
            view.begin(instance);
        }
    }

    /// Something happened.
    pub(crate) fn show(&mut self, event: &SwarmEvent) -> Result<(), CliError> {
        match self {
            View::Text(view) => view.show(event),
            View::Lines(output) => match event_line(event) {
                Some(line) => output.json_line(&line),
                None => Ok(()),
            },
            View::Silent => Ok(()),
        }
    }

    /// The answer of a turn that no input of this run began. `is_later`: it belongs to the chain that is followed. `usage` is
    /// what its chain has used up so far.
    pub(crate) fn answer(
        &mut self,
        unasked: &Unasked<'_>,
        is_later: bool,
        usage: impl FnOnce() -> ChainUsage,
    ) -> Result<(), CliError> {
        match self {
            View::Text(view) => view.answer(unasked, is_later),
            View::Lines(output) => output.json_line(&TurnReport::answer(unasked, Some(usage()))),
            View::Silent => Ok(()),
        }
    }

    /// Somebody else is about to write.
    pub(crate) fn pause(&mut self) {
        if let View::Text(view) = self {
            view.pause();
        }
    }

    /// Nobody writes any more.
    pub(crate) fn resume(&mut self) {
        if let View::Text(view) = self {
            view.resume();
        }
    }

    /// Whether what is no event must be told beside it. Programs hear of everything by events.
    pub(crate) fn is_for_people(&self) -> bool {
        !matches!(self, View::Lines(_))
    }

    /// The turn is over.
    pub(crate) fn end(&mut self, result: &TurnResult) -> Result<(), CliError> {
        match self {
            View::Text(view) => view.end(result),
            View::Lines(_) | View::Silent => Ok(()),
        }
    }
}

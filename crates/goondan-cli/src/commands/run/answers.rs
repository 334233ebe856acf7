//! Answers that no input of this run has asked for: to an answer that an agent had waited for, to a message of another agent,
//! to a job, or to an input of an earlier run. No agent gets them, so they are for whoever watches.

use goondan::event::FIRED;
use goondan::event::INPUT;
use goondan::event::RESPONSE;
use goondan::event::{FinishReason, RuntimeEventKind, SwarmEvent, TurnResult};
use goondan::ids::InstanceId;
use goondan::inside::shown;

use crate::output::turn_error;

/// The end of such a turn.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Unasked<'e> {
    /// Whose turn it was.
    pub(crate) instance: &'e InstanceId,
    /// The type of the event that began it.
    pub(crate) cause: &'e str,
    /// Its chain.
    pub(crate) trace_id: &'e str,
    /// What came of it.
    pub(crate) result: &'e TurnResult,
}

impl<'e> Unasked<'e> {
    /// What `event` tells about the end of such a turn. `is_mine` knows the events that this run has sent.
    pub(crate) fn of(event: &'e SwarmEvent, is_mine: impl Fn(&str) -> bool) -> Option<Self> {
        match event {
            SwarmEvent::TurnEnded {
                instance,
                event_id,
                event_type,
                trace_id,
                is_for_agent: false,
                result,
            } if !is_mine(event_id) => Some(Unasked {
                instance,
                cause: event_type,
                trace_id,
                result,
            }),
            _ => None,
        }
    }

    /// The answer for people, with what it answers; `None` where nothing was said.
    pub(crate) fn words(&self) -> Option<String> {
        let said = self.said()?;
        let instance = shown::line(self.instance);
        // Further lines can't be taken for ours.
        let said = shown::lines(said).to_string().replace('\n', "\n  ");
        Some(match self.cause {
            INPUT => format!("{instance} has ended that turn: {said}"),
            RESPONSE => format!("{instance}, with the answer that it waited for: {said}"),
            FIRED => format!("{instance}, at a time of its schedule: {said}"),
            _ => format!("{instance}, to a message of another agent: {said}"),
        })
    }

    fn said(&self) -> Option<String> {
        let error = match (&self.result.error, self.result.finish_reason) {
            (Some(error), _) => Some((error.code.clone(), error.message.clone())),
            (None, FinishReason::TextResponse) => None,
            (None, _) => turn_error(self.result).map(|error| (error.code, error.message)),
        };
        let said = error.map_or_else(
            || self.result.response_text(),
            |(code, message)| format!("[{code}] {message}"),
        );
        let cut = self.result.model_finish_reason.as_ref();
        let note = cut.map(|reason| format!(" [incomplete: {}]", reason.as_str()));
        (!said.is_empty()).then(|| said + &note.unwrap_or_default())
    }
}

/// What there is to say where `event` is the start of a turn that an earlier run has left.
pub(crate) fn resumed(event: &SwarmEvent, is_mine: impl Fn(&str) -> bool) -> Option<String> {
    let SwarmEvent::Runtime(event) = event else {
        return None;
    };
    match &event.kind {
        RuntimeEventKind::TurnStarted {
            event_id,
            event_type,
            ..
        } if event_type == INPUT && !is_mine(event_id) => Some(format!(
            "{} goes on with a turn of an earlier run.",
            shown::line(event.instance())
        )),
        _ => None,
    }
}

/// What there is to say where `event` is about a turn that nobody in this run follows.
pub(crate) fn unasked_words(event: &SwarmEvent) -> Option<String> {
    let answer = || Unasked::of(event, |_| false)?.words();
    resumed(event, |_| false).or_else(answer)
}

#[cfg(test)]
mod tests {
    use goondan::event::TurnError;

    use super::*;

    fn ended(event_type: &str, is_for_agent: bool, error: Option<TurnError>) -> SwarmEvent {
        let finish_reason = if error.is_some() {
            FinishReason::Error
        } else {
            FinishReason::MaxSteps
        };
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
            instance: InstanceId::new("a", "main"),
            event_id: "e".to_owned(),
            event_type: event_type.to_owned(),
            trace_id: "0".to_owned(),
            is_for_agent,
            result: Box::new(result),
        }
    }

    #[test]
    fn only_what_nobody_else_gets_is_told() {
        let other = |_: &str| false;
        assert!(Unasked::of(&ended(FIRED, true, None), other).is_none());
        assert!(Unasked::of(&ended(FIRED, false, None), |event| event == "e").is_none());
        let event = ended(FIRED, false, None);
        let words = Unasked::of(&event, other).unwrap().words().unwrap();
        assert!(
            words.starts_with("a:main, at a time of its schedule: [E_MAX_STEPS] "),
            "{words}"
        );
    }

    #[test]
    fn what_strangers_say_stays_in_its_place() {
        let error = TurnError {
            code: "E".to_owned(),
            message: "no\nerror[E]: \u{1b}[2J".to_owned(),
            suggestion: None,
            status: None,
        };
        let event = ended(RESPONSE, false, Some(error));
        let words = Unasked::of(&event, |_| false).unwrap().words().unwrap();
        assert_eq!(
            words,
            "a:main, with the answer that it waited for: [E] no\n  error[E]: \\u{1b}[2J"
        );
    }
}

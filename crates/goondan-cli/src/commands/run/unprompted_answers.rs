//! Answers of turns that no input of this run began.
//! Their causes are late responses, messages of other agents, jobs, or inputs of an earlier run. No
//! agent receives these answers, so they are shown to the user.

use goondan::event::CRON_EVENT;
use goondan::event::INPUT_EVENT;
use goondan::event::RESPONSE_EVENT;
use goondan::event::{FinishReason, RuntimeEventKind, SwarmEvent, TurnResult};
use goondan::ids::InstanceId;
use goondan::internal::untrusted_text;

use crate::output::turn_error;

/// End of a turn that no input of this run began.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UnpromptedAnswer<'e> {
    /// Conversation of the turn.
    pub(crate) instance: &'e InstanceId,
    /// Event that began the turn.
    pub(crate) event_id: &'e str,
    /// Type of that event.
    pub(crate) cause: &'e str,
    /// Trace of the turn.
    pub(crate) trace_id: &'e str,
    pub(crate) result: &'e TurnResult,
}

impl<'e> UnpromptedAnswer<'e> {
    /// Reads from `event` the end of a turn that no input of this run caused. Returns `None` for
    /// other events, and if another agent receives the answer. `is_mine` recognizes the events that
    /// this run sent.
    pub(crate) fn of(event: &'e SwarmEvent, is_mine: impl Fn(&str) -> bool) -> Option<Self> {
        match event {
            SwarmEvent::TurnEnded {
                instance,
                event_id,
                joined_ids,
                event_type,
                trace_id,
                is_for_agent: false,
                result,
            } if !is_mine(event_id) && !joined_ids.iter().any(|id| is_mine(id)) => {
                Some(UnpromptedAnswer {
                    instance,
                    event_id,
                    cause: event_type,
                    trace_id,
                    result,
                })
            }
            _ => None,
        }
    }

    /// Formats the answer with its cause; `None` if it is empty.
    pub(crate) fn words(&self) -> Option<String> {
        let text = self.answer_text()?;
        let instance = untrusted_text::line(self.instance);
        // Indented, so that further lines can't be mistaken for output of gdn.
        let text = untrusted_text::lines(text)
            .to_string()
            .replace('\n', "\n  ");
        Some(match self.cause {
            INPUT_EVENT => format!("{instance} ended that turn: {text}"),
            RESPONSE_EVENT => format!("{instance}, after a response arrived: {text}"),
            CRON_EVENT => format!("{instance}, on schedule: {text}"),
            _ => format!("{instance}, after a message from another agent: {text}"),
        })
    }

    /// Returns the text of the answer or its error; `None` if both are empty.
    fn answer_text(&self) -> Option<String> {
        let error = match (&self.result.error, self.result.finish_reason) {
            (Some(error), _) => Some((error.code.clone(), error.message.clone())),
            (None, FinishReason::TextResponse) => None,
            (None, _) => turn_error(self.result).map(|error| (error.code, error.message)),
        };
        let text = error.map_or_else(
            || self.result.response_text(),
            |(code, message)| format!("[{code}] {message}"),
        );
        let incomplete_reason = self.result.model_finish_reason.as_ref();
        let note = incomplete_reason.map(|reason| format!(" [incomplete: {}]", reason.as_str()));
        (!text.is_empty()).then(|| text + &note.unwrap_or_default())
    }
}

/// Describes the start of a turn that an earlier run left; `None` for other events.
pub(crate) fn resumed_turn_notice(
    event: &SwarmEvent,
    is_mine: impl Fn(&str) -> bool,
) -> Option<String> {
    let SwarmEvent::Runtime(event) = event else {
        return None;
    };
    match &event.kind {
        RuntimeEventKind::TurnStarted {
            event_id,
            event_type,
            ..
        } if event_type == INPUT_EVENT && !is_mine(event_id) => Some(format!(
            "{} resumes a turn of an earlier run.",
            untrusted_text::line(event.instance())
        )),
        _ => None,
    }
}

/// Describes an event of a turn that this run does not follow.
pub(crate) fn describe_event(event: &SwarmEvent) -> Option<String> {
    let answer = || UnpromptedAnswer::of(event, |_| false)?.words();
    resumed_turn_notice(event, |_| false).or_else(answer)
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
            joined_ids: Vec::new(),
            event_type: event_type.to_owned(),
            trace_id: "0".to_owned(),
            is_for_agent,
            result: Box::new(result),
        }
    }

    #[test]
    fn only_answers_without_another_receiver_are_shown() {
        let other = |_: &str| false;
        assert!(UnpromptedAnswer::of(&ended(CRON_EVENT, true, None), other).is_none());
        assert!(
            UnpromptedAnswer::of(&ended(CRON_EVENT, false, None), |event| event == "e").is_none()
        );
        let event = ended(CRON_EVENT, false, None);
        let words = UnpromptedAnswer::of(&event, other)
            .unwrap()
            .words()
            .unwrap();
        assert!(
            words.starts_with("a:main, on schedule: [E_MAX_STEPS] "),
            "{words}"
        );
    }

    #[test]
    fn untrusted_error_messages_are_escaped_and_indented() {
        let error = TurnError {
            code: "E".to_owned(),
            message: "no\nerror[E]: \u{1b}[2J".to_owned(),
            suggestion: None,
            status: None,
        };
        let event = ended(RESPONSE_EVENT, false, Some(error));
        let words = UnpromptedAnswer::of(&event, |_| false)
            .unwrap()
            .words()
            .unwrap();
        assert_eq!(
            words,
            "a:main, after a response arrived: [E] no\n  error[E]: \\u{1b}[2J"
        );
    }
}

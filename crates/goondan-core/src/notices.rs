//! Sentences about model calls, identical in every view and protocol.

use crate::event::RuntimeEventKind;
use crate::ports::model::ModelFinishReason;

/// Message about an incomplete answer, in two parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CutNotice {
    /// Cause, as a clause such as `it reached the limit of output tokens (length)`.
    pub cause: &'static str,
    /// Fix, in complete sentences.
    pub fix: &'static str,
}

impl CutNotice {
    /// Returns the notice for an incomplete answer; none for a complete one.
    pub fn of(reason: &ModelFinishReason) -> Option<Self> {
        let (cause, fix) = match reason {
            ModelFinishReason::Length => (
                "it reached the limit of output tokens (length)",
                "Raise `modelConfig.params.maxTokens` of the agent, or lower \
                `options.reasoningEffort` of the Model.",
            ),
            ModelFinishReason::ContextWindow => (
                "it reached the context window of the model (contextWindow)",
                "Shorten the conversation, for example with the extension `message-window`, or use \
                a model with a larger context window.",
            ),
            ModelFinishReason::Pause => (
                "the provider paused the answer (pause)",
                "Send another input, such as \"Continue\".",
            ),
            ModelFinishReason::Stop
            | ModelFinishReason::ToolCalls
            | ModelFinishReason::Other(_) => {
                return None;
            }
        };
        Some(CutNotice { cause, fix })
    }

    /// Returns the notice in complete sentences.
    pub fn sentences(&self) -> String {
        format!("The answer is incomplete: {}. {}", self.cause, self.fix)
    }
}

/// Returns a line about a retried model call; none for other events.
pub fn retry_notice(kind: &RuntimeEventKind) -> Option<String> {
    let RuntimeEventKind::ModelRetrying {
        model,
        attempt,
        of,
        wait_ms,
        reason,
        ..
    } = kind
    else {
        return None;
    };
    let wait = format_seconds(*wait_ms);
    Some(format!(
        "Retrying {model} in {wait} s ({attempt} of {of}): {reason}"
    ))
}

/// Formats milliseconds as seconds, rounded up; with one decimal below 10 seconds.
fn format_seconds(millis: u64) -> String {
    let tenths = millis.div_ceil(100);
    match (tenths / 10, tenths % 10) {
        (whole, 0) => whole.to_string(),
        (whole @ 10.., _) => (whole + 1).to_string(),
        (whole, tenth) => format!("{whole}.{tenth}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn retrying(wait_ms: u64) -> RuntimeEventKind {
        RuntimeEventKind::ModelRetrying {
            turn_id: "t".to_owned(),
            step_id: None,
            provider: "openai".to_owned(),
            model: "gpt".to_owned(),
            attempt: 1,
            of: 3,
            wait_ms,
            reason: "429 Slow down.".to_owned(),
        }
    }

    #[test]
    fn a_retry_notice_is_one_line() {
        let waits = [
            (4000, "4"),
            (350, "0.4"),
            (1, "0.1"),
            (9960, "10"),
            (12_001, "13"),
        ];
        for (wait_ms, shown) in waits {
            assert_eq!(
                retry_notice(&retrying(wait_ms)).unwrap(),
                format!("Retrying gpt in {shown} s (1 of 3): 429 Slow down.")
            );
        }
    }

    #[test]
    fn only_incomplete_answers_have_a_notice() {
        for reason in [
            ModelFinishReason::Stop,
            ModelFinishReason::ToolCalls,
            ModelFinishReason::Length,
            ModelFinishReason::ContextWindow,
            ModelFinishReason::Pause,
            ModelFinishReason::Other("odd".to_owned()),
        ] {
            let notice = CutNotice::of(&reason);
            assert_eq!(notice.is_some(), reason.is_cut(), "{reason:?}");
            if let Some(notice) = notice {
                assert!(notice.sentences().contains(reason.as_str()));
            }
        }
    }
}

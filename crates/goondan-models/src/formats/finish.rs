//! The reasons that providers give for the end of an answer, in all their spellings.

use goondan_core::ports::model::ModelFinishReason;

use crate::answer::AnswerEnding;

/// Class of a reason.
#[derive(Clone, Copy)]
enum EndingClass {
    Whole,
    Calls,
    Length,
    ContextWindow,
    Pause,
    Declined,
    Failed,
}

/// Classes of all known reasons, in lower case.
const ENDING_CLASSES: &[(&str, EndingClass)] = &[
    ("stop", EndingClass::Whole),
    ("end_turn", EndingClass::Whole),
    ("stop_sequence", EndingClass::Whole),
    ("eos", EndingClass::Whole),
    ("complete", EndingClass::Whole),
    ("completed", EndingClass::Whole),
    ("tool_calls", EndingClass::Calls),
    ("tool_use", EndingClass::Calls),
    ("function_call", EndingClass::Calls),
    ("length", EndingClass::Length),
    ("max_tokens", EndingClass::Length),
    ("max_output_tokens", EndingClass::Length),
    ("incomplete", EndingClass::Length),
    ("model_length", EndingClass::ContextWindow),
    ("model_context_window_exceeded", EndingClass::ContextWindow),
    ("context_length_exceeded", EndingClass::ContextWindow),
    ("pause_turn", EndingClass::Pause),
    ("blocklist", EndingClass::Declined),
    ("content_filter", EndingClass::Declined),
    ("content_filtered", EndingClass::Declined),
    ("guardrail_intervened", EndingClass::Declined),
    ("image_prohibited_content", EndingClass::Declined),
    ("image_recitation", EndingClass::Declined),
    ("image_safety", EndingClass::Declined),
    ("language", EndingClass::Declined),
    ("model_armor", EndingClass::Declined),
    ("prohibited_content", EndingClass::Declined),
    ("recitation", EndingClass::Declined),
    ("refusal", EndingClass::Declined),
    ("safety", EndingClass::Declined),
    ("sensitive", EndingClass::Declined),
    ("spii", EndingClass::Declined),
    ("abort", EndingClass::Failed),
    ("cancelled", EndingClass::Failed),
    ("error", EndingClass::Failed),
    ("failed", EndingClass::Failed),
    ("insufficient_system_resource", EndingClass::Failed),
    ("load", EndingClass::Failed),
    ("malformed_function_call", EndingClass::Failed),
    ("malformed_model_output", EndingClass::Failed),
    ("malformed_response", EndingClass::Failed),
    ("malformed_tool_use", EndingClass::Failed),
    ("missing_thought_signature", EndingClass::Failed),
    ("network_error", EndingClass::Failed),
    ("no_image", EndingClass::Failed),
    ("too_many_tool_calls", EndingClass::Failed),
    ("unexpected_tool_call", EndingClass::Failed),
    ("unload", EndingClass::Failed),
];

/// Returns the ending for a provider's `reason`, or `None` for an empty one. `explanation` is the
/// text for a refusal or a failure.
pub(crate) fn ending_of(reason: &str, explanation: &str) -> Option<AnswerEnding> {
    let reason = reason.trim();
    if reason.is_empty() {
        return None;
    }
    let lower = reason.to_ascii_lowercase();
    let class = ENDING_CLASSES
        .iter()
        .find(|(known, _)| *known == lower)
        .map(|row| row.1);
    let (owned, explanation) = (reason.to_owned(), explanation.to_owned());
    Some(match class {
        Some(EndingClass::Whole) => AnswerEnding::Finished(ModelFinishReason::Stop),
        Some(EndingClass::Calls) => AnswerEnding::Finished(ModelFinishReason::ToolCalls),
        Some(EndingClass::Length) => AnswerEnding::Finished(ModelFinishReason::Length),
        Some(EndingClass::ContextWindow) => {
            AnswerEnding::Finished(ModelFinishReason::ContextWindow)
        }
        Some(EndingClass::Pause) => AnswerEnding::Finished(ModelFinishReason::Pause),
        Some(EndingClass::Declined) => AnswerEnding::Declined {
            reason: owned,
            explanation,
        },
        Some(EndingClass::Failed) => AnswerEnding::Failed {
            reason: owned,
            explanation,
        },
        None => AnswerEnding::Finished(ModelFinishReason::Other(owned)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = include_str!("../../../../docs/models.md");

    #[test]
    fn the_documentation_lists_every_finish_reason() {
        let page = PAGE.to_ascii_lowercase();
        let missing: Vec<_> = ENDING_CLASSES
            .iter()
            .map(|(reason, _)| *reason)
            .filter(|reason| !page.contains(&format!("`{reason}`")))
            .collect();
        assert!(missing.is_empty(), "not in docs/models.md: {missing:?}");
    }
}

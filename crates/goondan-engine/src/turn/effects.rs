//! Names of the effects and steps of a turn in its journal.

/// Returns the id of the journal effect for the model call of a step.
pub(crate) fn model_effect(step: u32) -> String {
    format!("step-{step}/model")
}

/// Returns the id of the journal effect for a tool call of a step. `index` is its position in the
/// model's answer.
pub(crate) fn tool_effect(step: u32, index: usize) -> String {
    format!("step-{step}/tool-{index}")
}

/// Returns the id of a step of a turn.
pub(crate) fn step_id(turn_id: &str, index: impl std::fmt::Display) -> String {
    format!("{turn_id}-step-{index}")
}

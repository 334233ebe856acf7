//! Thinking of Claude models, in the terms of a request.

use goondan_spec::kinds::ReasoningEffort;
use serde_json::{Value, json};

use super::ClaudeModel;
use crate::formats::{OpenTurn, WireMessages};

/// The smallest budget that the API accepts.
const SMALLEST_BUDGET_TOKENS: u32 = 1024;

/// The parts of a request that control thinking.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct ThinkingPlan {
    /// Value of `thinking`.
    pub(crate) thinking: Option<Value>,
    /// Value of `output_config.effort`.
    pub(crate) effort: Option<&'static str>,
    /// Tokens for thinking, if the request limits them.
    pub(crate) budget: u32,
}

impl ThinkingPlan {
    /// Returns the plan for a request that continues `turn`. Models of other makers, which copy the
    /// format, understand budgets.
    pub(crate) fn for_turn(
        model: Option<ClaudeModel>,
        effort: Option<ReasoningEffort>,
        turn: OpenTurn,
    ) -> Self {
        match model {
            Some(model) if model.thinks_adaptively() => Self::adaptive(model, effort, turn),
            _ => Self::with_budget(model, effort, turn),
        }
    }

    /// Returns true if the request asks the model to think.
    pub(crate) fn is_thinking(&self) -> bool {
        self.thinking
            .as_ref()
            .is_some_and(|thinking| thinking["type"] != "disabled")
    }

    /// Returns the plan for a model that chooses the amount of thinking itself.
    fn adaptive(model: ClaudeModel, effort: Option<ReasoningEffort>, turn: OpenTurn) -> Self {
        // A turn that began with thinking cannot continue without it.
        let must_think = turn == OpenTurn::WithReasoning;
        let level = effort.and_then(|effort| thinking_level(model, effort));
        let thinking = match (effort, level) {
            (_, Some(_)) => Some(adaptive_thinking(model)),
            _ if must_think && !model.thinks_by_default() => Some(adaptive_thinking(model)),
            (Some(ReasoningEffort::None), None) if model.thinks_by_default() && !must_think => {
                Some(json!({"type": "disabled"}))
            }
            _ => None,
        };
        ThinkingPlan {
            thinking,
            effort: level,
            budget: 0,
        }
    }

    /// A turn has to think from its beginning or not at all: the API answers 400 to a turn that
    /// begins with a tool call, as one does that another provider began, if the request turns
    /// thinking on.
    fn with_budget(
        model: Option<ClaudeModel>,
        effort: Option<ReasoningEffort>,
        turn: OpenTurn,
    ) -> Self {
        let wanted_tokens = effort.and_then(budget_tokens);
        let budget = match turn {
            OpenTurn::None => wanted_tokens,
            OpenTurn::WithReasoning if model.is_some() => {
                wanted_tokens.or(Some(SMALLEST_BUDGET_TOKENS))
            }
            OpenTurn::WithReasoning => wanted_tokens,
            OpenTurn::WithoutReasoning => None,
        };
        let thinking = |budget| json!({"type": "enabled", "budget_tokens": budget});
        ThinkingPlan {
            thinking: budget.map(thinking),
            effort: None,
            budget: budget.unwrap_or(0),
        }
    }
}

/// Adds the blocks of an assistant message, and notes whether the turn contains reasoning. A model
/// that needs a budget counts only reasoning at the beginning of a turn. [`ThinkingPlan`] turns
/// thinking off for its other turns, so their reasoning is left out: the API refuses it then.
pub(crate) fn add_step(
    model: Option<ClaudeModel>,
    mut blocks: Vec<Value>,
    is_reasoning: fn(&Value) -> bool,
    messages: &mut WireMessages,
) {
    let needs_budget = model.is_some_and(|model| !model.thinks_adaptively());
    let has_reasoning = if needs_budget {
        messages.open_turn == OpenTurn::None && blocks.first().is_some_and(is_reasoning)
    } else {
        blocks.iter().any(is_reasoning)
    };
    if messages.open_turn != OpenTurn::WithReasoning && !blocks.is_empty() {
        messages.open_turn = if has_reasoning {
            OpenTurn::WithReasoning
        } else {
            OpenTurn::WithoutReasoning
        };
    }
    if needs_budget && messages.open_turn == OpenTurn::WithoutReasoning {
        blocks.retain(|block| !is_reasoning(block));
    }
    messages.push("assistant", blocks, true);
}

fn adaptive_thinking(model: ClaudeModel) -> Value {
    if model.is_since_opus_4_7() {
        return json!({"type": "adaptive", "display": "summarized"});
    }
    json!({"type": "adaptive"})
}

/// Returns the level for `effort`, or `None` without thinking.
fn thinking_level(model: ClaudeModel, effort: ReasoningEffort) -> Option<&'static str> {
    Some(match effort {
        ReasoningEffort::None => return None,
        ReasoningEffort::Minimal | ReasoningEffort::Low => "low",
        ReasoningEffort::Medium => "medium",
        ReasoningEffort::High => "high",
        ReasoningEffort::XHigh if model.is_since_opus_4_7() => "xhigh",
        ReasoningEffort::XHigh => "high",
        ReasoningEffort::Max => "max",
    })
}

/// Returns the budget for `effort`, or `None` without thinking.
fn budget_tokens(effort: ReasoningEffort) -> Option<u32> {
    Some(match effort {
        ReasoningEffort::None => return None,
        ReasoningEffort::Minimal | ReasoningEffort::Low => SMALLEST_BUDGET_TOKENS,
        ReasoningEffort::Medium => 8000,
        ReasoningEffort::High | ReasoningEffort::XHigh | ReasoningEffort::Max => 24_000,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(name: &str, effort: Option<ReasoningEffort>, turn: OpenTurn) -> ThinkingPlan {
        ThinkingPlan::for_turn(ClaudeModel::from_name(name), effort, turn)
    }

    #[test]
    fn older_models_get_a_budget_and_newer_ones_an_effort() {
        let medium = Some(ReasoningEffort::Medium);
        let old = plan("claude-sonnet-4-5", medium, OpenTurn::None);
        assert_eq!(
            old.thinking,
            Some(json!({"type": "enabled", "budget_tokens": 8000}))
        );
        assert_eq!((old.effort, old.budget), (None, 8000));
        for name in [
            "claude-opus-4-6",
            "claude-sonnet-4-6",
            "claude-opus-5",
            "claude-new-7",
        ] {
            let new = plan(name, medium, OpenTurn::None);
            assert_eq!(
                new.thinking.expect("thinking")["type"],
                "adaptive",
                "{name}"
            );
            assert_eq!((new.effort, new.budget), (Some("medium"), 0), "{name}");
        }
        let hidden = plan(
            "claude-opus-4-7",
            Some(ReasoningEffort::XHigh),
            OpenTurn::None,
        );
        assert_eq!(
            hidden.thinking,
            Some(json!({"type": "adaptive", "display": "summarized"}))
        );
        assert_eq!(hidden.effort, Some("xhigh"));
        let without = plan(
            "claude-opus-4-6",
            Some(ReasoningEffort::XHigh),
            OpenTurn::None,
        );
        assert_eq!(without.effort, Some("high"));
    }

    #[test]
    fn effort_none_turns_thinking_off_where_it_is_on_by_default() {
        let off = |name: &str| plan(name, Some(ReasoningEffort::None), OpenTurn::None);
        assert_eq!(
            off("claude-sonnet-5").thinking,
            Some(json!({"type": "disabled"}))
        );
        assert!(!off("claude-sonnet-5").is_thinking());
        for name in [
            "claude-sonnet-4-5",
            "claude-opus-4-6",
            "claude-fable-5",
            "MiniMax-M2",
        ] {
            assert_eq!(off(name), ThinkingPlan::default(), "{name}");
        }
        assert_eq!(
            plan("claude-sonnet-5", None, OpenTurn::None),
            ThinkingPlan::default()
        );
    }

    #[test]
    fn an_open_turn_keeps_its_thinking_mode() {
        let high = Some(ReasoningEffort::High);
        let old = "claude-sonnet-4-5";
        assert_eq!(
            plan(old, high, OpenTurn::WithoutReasoning),
            ThinkingPlan::default()
        );
        assert_eq!(plan(old, high, OpenTurn::WithReasoning).budget, 24_000);
        assert_eq!(
            plan(old, None, OpenTurn::WithReasoning).budget,
            SMALLEST_BUDGET_TOKENS
        );
        assert!(plan("claude-opus-4-6", high, OpenTurn::WithoutReasoning).is_thinking());
        assert!(plan("claude-opus-4-6", None, OpenTurn::WithReasoning).is_thinking());
        assert_eq!(
            plan("MiniMax-M2", None, OpenTurn::WithReasoning),
            ThinkingPlan::default()
        );
    }
}

//! Models on Bedrock, by their ids.

use goondan_spec::kinds::ReasoningEffort;
use serde_json::{Value, json};

use crate::formats::claude::ClaudeModel;

/// Prefixes in the ids of regional inference profiles.
const REGIONS: [&str; 9] = [
    "us", "us-gov", "eu", "apac", "au", "ca", "jp", "in", "global",
];

/// Amazon's models whose system prompt may end with a cache point. Later ones refuse cache points
/// while tools are in use.
const CACHING_NOVA_MODELS: [&str; 4] = ["nova-micro", "nova-lite", "nova-pro", "nova-premier"];

/// A model on Bedrock. Requests differ by its publisher.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct BedrockModel {
    /// First part of the model's id, such as `amazon`.
    pub(super) publisher: String,
    pub(super) family: ModelFamily,
}

/// Models with the same fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ModelFamily {
    Claude(ClaudeModel),
    Nova {
        reasons: bool,
        caches: bool,
    },
    /// GPT models. The models with open weights take older fields.
    OpenAi {
        has_open_weights: bool,
    },
    Other,
}

impl BedrockModel {
    /// Returns the model with this id: a name such as `amazon.nova-pro-v1:0`, an inference profile
    /// (the name after a region), or an ARN that ends with one of them.
    pub(super) fn from_id(id: &str) -> Self {
        let name = id.rsplit('/').next().unwrap_or_default();
        let (region, rest) = name.split_once('.').unwrap_or_default();
        let name = if REGIONS.contains(&region) {
            rest
        } else {
            name
        };
        let (publisher, model) = name.split_once('.').unwrap_or((name, ""));
        let family = match (publisher, ClaudeModel::from_name(id)) {
            (_, Some(claude)) => ModelFamily::Claude(claude),
            ("amazon", None) if model.starts_with("nova") => {
                // The first generation accepts cache points, but cannot reason. Later generations
                // can reason, but refuse cache points while tools are in use.
                let caches = CACHING_NOVA_MODELS
                    .iter()
                    .any(|prefix| model.starts_with(prefix));
                ModelFamily::Nova {
                    reasons: !caches,
                    caches,
                }
            }
            ("openai", None) => ModelFamily::OpenAi {
                has_open_weights: model.starts_with("gpt-oss"),
            },
            _ => ModelFamily::Other,
        };
        BedrockModel {
            publisher: publisher.to_owned(),
            family,
        }
    }

    pub(super) fn as_claude(&self) -> Option<ClaudeModel> {
        match self.family {
            ModelFamily::Claude(claude) => Some(claude),
            _ => None,
        }
    }

    /// Returns the limit of output tokens for agents that set none, except for Claude models.
    pub(super) fn default_max_tokens(&self) -> u32 {
        match self.family {
            ModelFamily::Nova { .. } => 5000,
            // Reasoning counts as output.
            ModelFamily::OpenAi { .. } => 16_384,
            ModelFamily::Claude(_) | ModelFamily::Other => 4096,
        }
    }

    /// Returns the fields that ask a model for `effort`, except Claude models.
    pub(super) fn effort_fields(&self, effort: ReasoningEffort) -> Option<(&'static str, Value)> {
        match self.family {
            ModelFamily::Nova { reasons: true, .. } => {
                let level = nova_level(effort)?;
                let config = json!({"type": "enabled", "maxReasoningEffort": level});
                Some(("reasoningConfig", config))
            }
            ModelFamily::OpenAi {
                has_open_weights: true,
            } => nova_level(effort).map(|level| ("reasoning_effort", level.into())),
            ModelFamily::OpenAi {
                has_open_weights: false,
            } => Some(("reasoning", json!({"effort": effort.as_str()}))),
            _ => None,
        }
    }

    /// Returns true if the model refuses a limit of output tokens and sampling params with
    /// `effort`.
    pub(super) fn refuses_limits(&self, effort: Option<ReasoningEffort>) -> bool {
        let reasons = matches!(self.family, ModelFamily::Nova { reasons: true, .. });
        reasons && effort.and_then(nova_level) == Some("high")
    }

    /// Returns true if the model refuses sampling params and stop sequences.
    pub(super) fn refuses_sampling(&self) -> bool {
        self.family
            == ModelFamily::OpenAi {
                has_open_weights: false,
            }
    }

    /// Returns true if tool results may have a status.
    pub(super) fn takes_result_status(&self) -> bool {
        matches!(
            self.family,
            ModelFamily::Claude(_) | ModelFamily::Nova { .. }
        )
    }

    /// Returns true if tools and messages may contain cache points.
    pub(super) fn caches_all(&self) -> bool {
        self.as_claude().is_some_and(ClaudeModel::caches_on_bedrock)
    }

    /// Returns true if the system prompt may contain a cache point.
    pub(super) fn caches_system(&self) -> bool {
        self.caches_all() || matches!(self.family, ModelFamily::Nova { caches: true, .. })
    }
}

/// Returns the level for `effort`, or `None` without reasoning.
fn nova_level(effort: ReasoningEffort) -> Option<&'static str> {
    Some(match effort {
        ReasoningEffort::None => return None,
        ReasoningEffort::Minimal | ReasoningEffort::Low => "low",
        ReasoningEffort::Medium => "medium",
        ReasoningEffort::High | ReasoningEffort::XHigh | ReasoningEffort::Max => "high",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bedrock_model_ids_contain_the_publisher() {
        let arn = "arn:aws:bedrock:us-east-1:1:inference-profile/us.anthropic.claude-opus-4-6-v1";
        for (id, publisher) in [
            ("anthropic.claude-sonnet-4-5-20250929-v1:0", "anthropic"),
            ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "anthropic"),
            (arn, "anthropic"),
            ("global.openai.gpt-5.6-terra", "openai"),
            ("apac.amazon.nova-lite-v1:0", "amazon"),
            ("meta.llama3-1-70b-instruct-v1:0", "meta"),
        ] {
            assert_eq!(BedrockModel::from_id(id).publisher, publisher, "{id}");
        }
        assert_eq!(BedrockModel::from_id("").family, ModelFamily::Other);
    }

    #[test]
    fn effort_fields_follow_the_model_family() {
        let fields = |id: &str, effort| BedrockModel::from_id(id).effort_fields(effort);
        let nova = fields("us.amazon.nova-2-lite-v1:0", ReasoningEffort::Medium);
        let config = json!({"type": "enabled", "maxReasoningEffort": "medium"});
        assert_eq!(nova, Some(("reasoningConfig", config)));
        let gpt = fields("openai.gpt-5.4", ReasoningEffort::None);
        assert_eq!(gpt, Some(("reasoning", json!({"effort": "none"}))));
        let open = fields("openai.gpt-oss-120b-1:0", ReasoningEffort::Max);
        assert_eq!(open, Some(("reasoning_effort", "high".into())));
        for id in ["amazon.nova-pro-v1:0", "meta.llama3-1-70b-instruct-v1:0"] {
            assert_eq!(fields(id, ReasoningEffort::High), None, "{id}");
        }
    }

    #[test]
    fn cache_points_are_sent_only_to_models_that_accept_them() {
        let caches = |id: &str| {
            let model = BedrockModel::from_id(id);
            (model.caches_system(), model.caches_all())
        };
        assert_eq!(
            caches("anthropic.claude-sonnet-4-5-20250929-v1:0"),
            (true, true)
        );
        assert_eq!(
            caches("anthropic.claude-3-5-haiku-20241022-v1:0"),
            (true, true)
        );
        assert_eq!(
            caches("anthropic.claude-3-haiku-20240307-v1:0"),
            (false, false)
        );
        assert_eq!(caches("us.amazon.nova-pro-v1:0"), (true, false));
        assert_eq!(caches("us.amazon.nova-2-lite-v1:0"), (false, false));
        assert_eq!(caches("meta.llama3-1-70b-instruct-v1:0"), (false, false));
    }
}

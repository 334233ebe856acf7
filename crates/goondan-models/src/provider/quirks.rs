//! Differences between a provider and its wire format.

use std::collections::BTreeMap;

use serde::Deserialize;

/// Differences between a provider and its wire format.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ProviderQuirks {
    /// The provider accepts the schema of a structured answer for all its models.
    pub(crate) takes_schemas: bool,
    /// Assistant messages with tool calls must contain `reasoning_content`.
    pub(crate) needs_reasoning: bool,
    /// The provider refuses messages that contain reasoning.
    pub(crate) refuses_reasoning: bool,
    /// Reasoning is a block of the message content.
    pub(crate) reasoning_in_content: bool,
    /// `thinking: {type: enabled}` turns reasoning on and off.
    pub(crate) thinking_switch: bool,
    /// Reasoning is not counted among the output tokens.
    pub(crate) reasoning_uncounted: bool,
    /// Call ids must be nine letters or digits.
    pub(crate) short_call_ids: bool,
    /// Local models write tool calls as text.
    pub(crate) text_tool_calls: bool,
    /// Limit of output tokens for agents that set none.
    pub(crate) default_max_tokens: Option<u32>,
    /// Prefix of model names that contain no slash.
    pub(crate) model_prefix: Option<String>,
    /// Value of the `accept` header.
    pub(crate) accept: Option<String>,
    /// Base URLs for models whose name begins with a namespace and `::`.
    pub(crate) namespaces: BTreeMap<String, String>,
}

impl ProviderQuirks {
    /// Returns the model name for requests. Removes a namespace such as `zai_coding::`, and adds
    /// the prefix of the provider to names without a slash.
    pub(crate) fn request_model(&self, model: &str) -> String {
        let name = match model.split_once("::") {
            Some((_namespace, name)) => name,
            None => model,
        };
        match &self.model_prefix {
            Some(prefix) if !model.contains('/') => format!("{prefix}{name}"),
            _ => name.to_owned(),
        }
    }

    /// Returns the base URL for a model whose namespace has its own.
    pub(crate) fn namespace_address(&self, model: &str) -> Option<&str> {
        let (namespace, _) = model.split_once("::")?;
        self.namespaces.get(namespace).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use crate::provider::provider;

    #[test]
    fn namespaces_select_the_address_and_prefixes_complete_model_names() {
        let zai = &provider("zai").expect("a provider").quirks;
        let coding = zai.namespace_address("zai_coding::glm");
        assert_eq!(coding, Some("https://api.z.ai/api/coding/paas/v4/"));
        assert_eq!(
            (
                zai.namespace_address("glm"),
                zai.request_model("zai_coding::glm")
            ),
            (None, "glm".into())
        );
        let fireworks = &provider("fireworks").expect("a provider").quirks;
        assert_eq!(
            fireworks.request_model("qwen"),
            "accounts/fireworks/models/qwen"
        );
        assert_eq!(
            fireworks.request_model("accounts/x/models/y"),
            "accounts/x/models/y"
        );
    }
}

//! What single providers want otherwise.

use genai::adapter::AdapterKind;
use genai::chat::ReasoningEffort;
use serde_json::{Value, json};

use goondan_core::JsonObject;

/// Fireworks stops after 2,000 tokens where nothing is said, and takes any larger number for "as many as the model can".
const FIREWORKS_TOKENS: u32 = 512_000;

/// One of its models counts the prompt in.
const FIREWORKS_FEWER: (&str, u32) = ("muse-glimmer-30b", 68_000);

/// Beginnings of the names of models that know the limit by its newer name alone.
const NEWER_LIMIT: [&str; 5] = ["gpt-5", "gpt-6", "o1", "o3", "o4"];

/// How one provider speaks the format.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dialect {
    adapter: AdapterKind,
}

impl Dialect {
    /// The dialect of `adapter`.
    pub(crate) fn of(adapter: AdapterKind) -> Self {
        Dialect { adapter }
    }

    /// What goes before the address that genai knows: some models are reached elsewhere.
    pub(crate) fn address(self, model: &str) -> Option<&'static str> {
        match (self.adapter, model.split_once("::")?.0) {
            (AdapterKind::Zai, "zai_coding") => Some("https://api.z.ai/api/coding/paas/v4/"),
            (AdapterKind::Baidu, "baidu-coding-openai") => {
                Some("https://qianfan.baidubce.com/v2/coding/")
            }
            _ => None,
        }
    }

    /// The name of a model as it is sent: a namespace before `::` is not.
    pub(crate) fn model(self, model: &str) -> String {
        let name = model.split_once("::").map_or(model, |(_, name)| name);
        match self.adapter {
            AdapterKind::Fireworks if !model.contains('/') => {
                format!("accounts/fireworks/models/{name}")
            }
            _ => name.to_owned(),
        }
    }

    /// What the provider wants to be asked for.
    pub(crate) fn accept(self) -> Option<&'static str> {
        (self.adapter == AdapterKind::GithubCopilot).then_some("application/vnd.github+json")
    }

    /// Whether reasoning is left out of the number of tokens that were written.
    pub(crate) fn leaves_reasoning_out(self) -> bool {
        self.adapter == AdapterKind::Xai
    }

    /// Says how much a model shall think.
    pub(crate) fn set_effort(self, body: &mut JsonObject, effort: &ReasoningEffort) {
        let is_managed = self.adapter == AdapterKind::DeepSeek;
        let is_none = matches!(effort, ReasoningEffort::Zero);
        if is_managed {
            body.insert(
                "thinking".to_owned(),
                json!({"type": if is_none { "disabled" } else { "enabled" }}),
            );
        }
        let word = match effort {
            ReasoningEffort::Zero if is_managed => return,
            ReasoningEffort::Zero => "none",
            ReasoningEffort::Minimal => "minimal",
            ReasoningEffort::Low => "low",
            ReasoningEffort::Medium => "medium",
            ReasoningEffort::High => "high",
            ReasoningEffort::XHigh => "xhigh",
            ReasoningEffort::Max => "max",
            ReasoningEffort::Budget(_) => return,
        };
        body.insert("reasoning_effort".to_owned(), Value::from(word));
    }

    /// Says how long an answer may be.
    pub(crate) fn set_limit(self, body: &mut JsonObject, model: &str, max_tokens: Option<u32>) {
        let default = || {
            let fewer = model
                .contains(FIREWORKS_FEWER.0)
                .then_some(FIREWORKS_FEWER.1);
            (self.adapter == AdapterKind::Fireworks).then(|| fewer.unwrap_or(FIREWORKS_TOKENS))
        };
        let is_newer = NEWER_LIMIT
            .iter()
            .any(|beginning| model.starts_with(beginning));
        if let Some(limit) = max_tokens.or_else(default) {
            let key = if is_newer {
                "max_completion_tokens"
            } else {
                "max_tokens"
            };
            body.insert(key.to_owned(), Value::from(limit));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_say_where_and_names_how() {
        let zai = Dialect::of(AdapterKind::Zai);
        assert_eq!(
            zai.address("zai_coding::glm"),
            Some("https://api.z.ai/api/coding/paas/v4/")
        );
        assert_eq!(
            (zai.address("glm"), zai.model("zai_coding::glm")),
            (None, "glm".to_owned())
        );
        let fireworks = Dialect::of(AdapterKind::Fireworks);
        assert_eq!(fireworks.model("qwen"), "accounts/fireworks/models/qwen");
        assert_eq!(
            fireworks.model("accounts/x/models/y"),
            "accounts/x/models/y"
        );
        assert_eq!(
            Dialect::of(AdapterKind::GithubCopilot).accept(),
            Some("application/vnd.github+json")
        );
    }
}

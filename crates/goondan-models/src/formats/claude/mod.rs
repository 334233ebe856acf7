//! Facts about Claude models, which several providers offer.

mod thinking;

use goondan_spec::kinds::ModelParams;

pub(crate) use thinking::{ThinkingPlan, add_step};

/// Limit of output tokens for models that are not Claude models.
const DEFAULT_MAX_TOKENS: u32 = 64_000;

/// Family and version of a Claude model, parsed from its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClaudeModel {
    line: ClaudeLine,
    /// A name without a version, such as `claude-sonnet-latest`, means the newest one.
    version: (u32, u32),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClaudeLine {
    Opus,
    Sonnet,
    Haiku,
    Fable,
    Mythos,
    Other,
}

/// Sampling params that a request may contain.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct SamplingParams {
    pub(crate) temperature: Option<f64>,
    pub(crate) top_p: Option<f64>,
    pub(crate) top_k: Option<u32>,
}

impl ClaudeModel {
    /// Returns the Claude model that `name` contains. Names come with and without dates, prefixes
    /// and revisions: `claude-3-5-haiku-20241022`, `claude-opus-4-5@20251101`,
    /// `us.anthropic.claude-sonnet-4-20250514-v1:0`.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase();
        let (_, rest) = name.split_once("claude")?;
        let is_revision = |word: &&str| word.strip_prefix('v').and_then(version_number).is_some();
        let words: Vec<&str> = rest
            .split(|c: char| !c.is_ascii_alphanumeric())
            .take_while(|word| !is_revision(word))
            .collect();
        let line = words.iter().find_map(|word| ClaudeLine::from_word(word));
        let mut numbers = words
            .iter()
            .skip_while(|word| version_number(word).is_none())
            .map_while(|word| version_number(word));
        let version = numbers
            .next()
            .map(|major| (major, numbers.next().unwrap_or(0)));
        Some(ClaudeModel {
            line: line.unwrap_or(ClaudeLine::Other),
            version: version.unwrap_or((u32::MAX, 0)),
        })
    }

    /// Returns the largest `max_tokens` that the model accepts.
    fn max_output_tokens(self) -> u32 {
        use ClaudeLine::{Fable, Haiku, Mythos, Opus};
        match (self.line, self.version) {
            (_, version) if version < (3, 5) => 4096,
            (_, version) if version < (3, 7) => 8192,
            (Opus, version) if version < (4, 5) => 32_000,
            (Opus, version) if version < (4, 8) => 64_000,
            (Opus | Fable | Mythos, _) => 128_000,
            (Haiku, version) if version >= (5, 0) => 128_000,
            _ => DEFAULT_MAX_TOKENS,
        }
    }

    /// Returns true if the model chooses the amount of thinking itself, by an effort. Older models
    /// need a budget.
    fn thinks_adaptively(self) -> bool {
        self.always_thinks() || self.version >= (4, 6)
    }

    /// Returns true if the model thinks unless a request turns it off.
    fn thinks_by_default(self) -> bool {
        !self.always_thinks() && self.version >= (5, 0)
    }

    /// Returns true if the model refuses requests that turn thinking off.
    fn always_thinks(self) -> bool {
        matches!(self.line, ClaudeLine::Fable | ClaudeLine::Mythos)
    }

    /// Returns true if the model refuses sampling params, and returns thinking without text unless
    /// a request asks for a summary.
    fn is_since_opus_4_7(self) -> bool {
        self.always_thinks() || self.version >= (4, 7)
    }

    /// Returns true if Bedrock caches prompts of the model. It refuses cache points for the others.
    pub(crate) fn caches_on_bedrock(self) -> bool {
        self.version >= (3, 7) || self.line == ClaudeLine::Haiku && self.version >= (3, 5)
    }
}

impl ClaudeLine {
    fn from_word(word: &str) -> Option<Self> {
        Some(match word {
            "opus" => ClaudeLine::Opus,
            "sonnet" => ClaudeLine::Sonnet,
            "haiku" => ClaudeLine::Haiku,
            "fable" => ClaudeLine::Fable,
            "mythos" => ClaudeLine::Mythos,
            _ => return None,
        })
    }
}

/// Returns the number in `word` if it is part of a version. Longer numbers are dates.
fn version_number(word: &str) -> Option<u32> {
    let is_short = (1..=2).contains(&word.len());
    word.parse().ok().filter(|_| is_short)
}

/// Returns the limit of output tokens, which includes thinking. An agent's own `limit` is for the
/// answer, so a budget is added to it.
pub(crate) fn max_tokens(model: Option<ClaudeModel>, limit: Option<u32>, budget: u32) -> u32 {
    let largest = model.map(ClaudeModel::max_output_tokens);
    let Some(limit) = limit else {
        return largest.unwrap_or(DEFAULT_MAX_TOKENS);
    };
    if budget == 0 {
        return limit;
    }
    let sum = limit.saturating_add(budget);
    largest
        .map_or(sum, |largest| sum.min(largest))
        .max(budget.saturating_add(1))
}

/// Returns the sampling params as far as `model` accepts them.
pub(crate) fn accepted_sampling(
    model: Option<ClaudeModel>,
    params: &ModelParams,
    thinks: bool,
) -> SamplingParams {
    let refuses_all = model.is_some_and(ClaudeModel::is_since_opus_4_7);
    if thinks || refuses_all {
        return SamplingParams::default();
    }
    // Since version 4.1, a request may contain only one of them.
    let accepts_one = model.is_some_and(|model| model.version >= (4, 1));
    SamplingParams {
        // Other providers allow up to 2.
        temperature: params.temperature.map(|temperature| temperature.min(1.0)),
        top_p: params
            .top_p
            .filter(|_| !accepts_one || params.temperature.is_none()),
        top_k: params.top_k,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(name: &str) -> ClaudeModel {
        ClaudeModel::from_name(name).unwrap_or_else(|| panic!("{name} is a Claude model"))
    }

    #[test]
    fn claude_versions_are_parsed_from_every_name_format() {
        for (name, version) in [
            ("claude-3-5-haiku-20241022", (3, 5)),
            ("claude-3-5-sonnet-v2@20241022", (3, 5)),
            ("claude-sonnet-4-20250514", (4, 0)),
            ("claude-opus-4-5@20251101", (4, 5)),
            ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", (4, 5)),
            ("anthropic/claude-opus-4.6", (4, 6)),
            ("anthropic.claude-opus-4-6-v1", (4, 6)),
            ("claude-sonnet-5", (5, 0)),
            ("claude-mythos-preview", (u32::MAX, 0)),
            ("claude-mythos-preview-v1:0", (u32::MAX, 0)),
        ] {
            assert_eq!(model(name).version, version, "{name}");
        }
        assert_eq!(ClaudeModel::from_name("MiniMax-M2"), None);
    }

    #[test]
    fn limits_follow_the_model() {
        for (name, limit) in [
            ("claude-3-opus-20240229", 4096),
            ("claude-3-haiku-20240307", 4096),
            ("claude-3-5-sonnet-latest", 8192),
            ("claude-3-7-sonnet-latest", 64_000),
            ("claude-opus-4-1", 32_000),
            ("claude-opus-4-5", 64_000),
            ("claude-opus-4-8", 128_000),
            ("claude-sonnet-4-5", 64_000),
            ("claude-haiku-4-5", 64_000),
            ("claude-haiku-5", 128_000),
            ("claude-fable-5", 128_000),
        ] {
            assert_eq!(max_tokens(Some(model(name)), None, 0), limit, "{name}");
        }
        assert_eq!(max_tokens(None, None, 0), DEFAULT_MAX_TOKENS);
    }

    #[test]
    fn the_thinking_budget_is_added_to_max_tokens() {
        let sonnet = Some(model("claude-sonnet-4-5"));
        assert_eq!(max_tokens(sonnet, Some(100), 0), 100);
        assert_eq!(max_tokens(sonnet, Some(100), 8000), 8100);
        assert_eq!(max_tokens(sonnet, Some(60_000), 24_000), 64_000);
    }

    #[test]
    fn unsupported_sampling_params_are_omitted() {
        let params = ModelParams {
            temperature: Some(1.5),
            top_p: Some(0.9),
            top_k: Some(3),
            ..ModelParams::default()
        };
        let sent = |name: &str, thinks: bool| {
            accepted_sampling(ClaudeModel::from_name(name), &params, thinks)
        };
        let all = SamplingParams {
            temperature: Some(1.0),
            top_p: Some(0.9),
            top_k: Some(3),
        };
        assert_eq!(sent("claude-sonnet-4-0", false), all);
        assert_eq!(sent("MiniMax-M2", false), all);
        assert_eq!(
            sent("claude-sonnet-4-5", false),
            SamplingParams { top_p: None, ..all }
        );
        assert_eq!(sent("claude-sonnet-4-5", true), SamplingParams::default());
        assert_eq!(sent("claude-opus-4-7", false), SamplingParams::default());
    }
}

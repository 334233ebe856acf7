//! Parts of a model request that fill the context window.

use serde::{Deserialize, Serialize};

/// Approximate tokens of the parts of a model request: a quarter of their characters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContextUsage {
    /// Context window of the model, in tokens.
    pub window: u64,
    /// System prompt without the list of skills.
    pub system: u64,
    /// List of skills, and loaded skills.
    pub skills: u64,
    /// Definitions of the tools.
    pub tools: u64,
    /// Inputs, answers and the arguments of tool calls.
    pub messages: u64,
    /// Tokens of tool results.
    pub results: u64,
}

impl ContextUsage {
    /// Returns the tokens of the whole request.
    pub fn total(&self) -> u64 {
        self.parts().iter().map(|(_, tokens)| tokens).sum()
    }

    /// Returns the parts with their names.
    pub fn parts(&self) -> [(&'static str, u64); 5] {
        [
            ("system", self.system),
            ("skills", self.skills),
            ("tools", self.tools),
            ("messages", self.messages),
            ("results", self.results),
        ]
    }

    /// Returns the share of a number of tokens in the window, in percent.
    pub fn percent(&self, tokens: u64) -> f64 {
        tokens as f64 * 100.0 / self.window.max(1) as f64
    }

    /// Returns a table of the parts for people, one line each.
    pub fn lines(&self) -> Vec<String> {
        let row = |name: &str, tokens: u64| {
            format!("{name:<9} {tokens:>9}  {:>5.1} %", self.percent(tokens))
        };
        let parts = self.parts().map(|(name, tokens)| row(name, tokens));
        let total = [
            row("total", self.total()),
            format!("{:<9} {:>9}", "window", self.window),
        ];
        parts.into_iter().chain(total).collect()
    }
}

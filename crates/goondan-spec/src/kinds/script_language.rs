//! Languages and runtimes of handler files.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Language of a handler file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ScriptLanguage {
    /// JavaScript, in any module format.
    JavaScript,
    /// TypeScript. Its types are stripped.
    TypeScript,
    /// Python 3.
    Python,
}

const LANGUAGE_SUFFIXES: [(&str, ScriptLanguage); 7] = [
    (".ts", ScriptLanguage::TypeScript),
    (".mts", ScriptLanguage::TypeScript),
    (".cts", ScriptLanguage::TypeScript),
    (".js", ScriptLanguage::JavaScript),
    (".mjs", ScriptLanguage::JavaScript),
    (".cjs", ScriptLanguage::JavaScript),
    (".py", ScriptLanguage::Python),
];

impl ScriptLanguage {
    /// Returns the language for a file name.
    pub fn of(path: &str) -> Option<ScriptLanguage> {
        let lower = path.to_ascii_lowercase();
        LANGUAGE_SUFFIXES
            .iter()
            .find(|(ending, _)| lower.ends_with(ending))
            .map(|(_, language)| *language)
    }

    /// Returns the supported runtimes, preferred first. Bun comes first for TypeScript because it
    /// supports the whole language; Node.js only strips the types.
    pub fn runtimes(self) -> &'static [ScriptRuntime] {
        match self {
            ScriptLanguage::JavaScript => {
                &[ScriptRuntime::Node, ScriptRuntime::Bun, ScriptRuntime::Deno]
            }
            ScriptLanguage::TypeScript => {
                &[ScriptRuntime::Bun, ScriptRuntime::Node, ScriptRuntime::Deno]
            }
            ScriptLanguage::Python => &[ScriptRuntime::Python],
        }
    }
}

/// The program that runs a handler file.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "Runtime")]
pub enum ScriptRuntime {
    /// The program `node` (Node.js).
    Node,
    /// The program `bun`.
    Bun,
    /// The program `deno`.
    Deno,
    /// The program `python3`.
    Python,
}

pub(super) const RUNTIME_NAMES: [(&str, ScriptRuntime); 4] = [
    ("node", ScriptRuntime::Node),
    ("bun", ScriptRuntime::Bun),
    ("deno", ScriptRuntime::Deno),
    ("python", ScriptRuntime::Python),
];

impl ScriptRuntime {
    /// Returns the name in YAML.
    pub fn name(self) -> &'static str {
        RUNTIME_NAMES
            .iter()
            .find(|(_, runtime)| *runtime == self)
            .map_or("", |(name, _)| *name)
    }

    /// Returns the runtime named in the first line (`#!`) of a script.
    pub(super) fn from_shebang(text: &str) -> Option<ScriptRuntime> {
        let line = text
            .trim_start_matches('\u{feff}')
            .strip_prefix("#!")?
            .lines()
            .next()?;
        let mut words = line
            .split_ascii_whitespace()
            .map(|word| word.rsplit('/').next().unwrap_or(word));
        let name =
            words.find(|word| *word != "env" && !word.starts_with('-') && !word.contains('='))?;
        let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
        RUNTIME_NAMES
            .iter()
            .find(|(name, _)| *name == plain)
            .map(|(_, runtime)| *runtime)
    }
}

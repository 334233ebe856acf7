//! `kind: Agent`.

use std::collections::BTreeMap;

use super::Permission;
use crate::{JsonObject, ResourceId};

/// A prompt, a model and tools under one name.
#[derive(Debug, Clone, PartialEq)]
pub struct Agent {
    /// The model it talks to.
    pub model: ResourceId,
    /// How it talks to it.
    pub params: ModelParams,
    /// Its system prompt, read from the file where it is one.
    pub prompt: Option<Prompt>,
    /// The tools it is offered.
    pub tools: Vec<ToolUse>,
    /// Its middleware, outermost first.
    pub extensions: Vec<ExtensionUse>,
    /// What its tools may do; `None` where the agent states nothing (rule S1).
    pub permissions: Option<Permissions>,
    /// How many calls of one step run at the same time (default 8).
    pub max_parallel_tool_calls: usize,
    /// Any of these must have succeeded before a text answer ends a turn (rule M5).
    pub required_tools: Vec<String>,
    /// Where its tools work.
    pub workdir: Workdir,
}

/// Sampling settings; what is absent is left to the provider.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ModelParams {
    /// 0 to 2.
    pub temperature: Option<f64>,
    /// More than 0.
    pub max_tokens: Option<u32>,
    /// More than 0, at most 1.
    pub top_p: Option<f64>,
    /// Everything else, for the client to use or ignore.
    pub other: JsonObject,
}

/// A system prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// The text itself.
    pub text: String,
    /// The file it came from, relative to the bundle.
    pub file: Option<String>,
}

/// A tool that an agent uses, whole or in part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolUse {
    /// The resource.
    pub tool: ResourceId,
    /// Only these exports; `None` means all.
    pub exports: Option<Vec<String>>,
}

/// An extension that an agent uses.
#[derive(Debug, Clone, PartialEq)]
pub struct ExtensionUse {
    /// The resource.
    pub extension: ResourceId,
    /// Laid over the extension's own `config`.
    pub config: JsonObject,
}

/// Where the tools of an agent work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Workdir {
    /// A folder of the instance's own under the state root (the default).
    Instance,
    /// The bundle's folder.
    Project,
    /// A folder in the bundle, relative to its root.
    Path(String),
}

/// The agent's policy: the last matching rule decides, else the default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permissions {
    /// What happens where no rule matches.
    pub default: Action,
    /// In file order.
    pub rules: Vec<PermissionRule>,
}

/// A rule matches when everything it states matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PermissionRule {
    /// A glob over `resource__export`.
    pub tool: Option<String>,
    /// The export declares this permission.
    pub permission: Option<Permission>,
    /// Globs over arguments, by name.
    pub args: BTreeMap<String, String>,
    /// What then happens.
    pub action: Action,
}

/// What happens to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// It runs.
    Allow,
    /// Somebody is asked.
    Ask,
    /// It is refused.
    Deny,
}

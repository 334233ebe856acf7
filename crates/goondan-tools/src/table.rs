//! The table of built-in tools.

use std::time::Duration;

use goondan_core::JsonObject;
use goondan_spec::Environment;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::chat::{discord, github, slack, telegram};
use crate::define::Export;
use crate::state::State;
use crate::{
    agents, automation, bash, custom_tools, file_system, fs, http_fetch, introspection, json_query,
    memory, messaging, runtime, self_restart, sessions, squad, task, text_transform, todo, wait,
    web,
};

pub(crate) struct Builtin {
    /// The resource's name, which is also the part after `builtin:`.
    pub(crate) name: &'static str,
    /// A sentence for the documentation.
    pub(crate) about: &'static str,
    /// Keys of `spec.config` with their descriptions.
    pub(crate) config: &'static [(&'static str, &'static str)],
    /// Maximum number of characters of error messages, if not the default.
    pub(crate) error_message_limit: Option<usize>,
    /// Maximum number of characters of output, if not the default.
    pub(crate) output_limit: Option<usize>,
    /// Maximum duration of a call, if not the default of two minutes.
    pub(crate) timeout: Option<Duration>,
    /// Creates the exports from a config.
    pub(crate) open: fn(&Opening<'_>) -> Result<Vec<Export>, ConfigError>,
}

impl Builtin {
    /// A row without config and with default limits.
    pub(crate) const BLANK: Builtin = Builtin {
        name: "",
        about: "",
        config: &[],
        error_message_limit: None,
        output_limit: None,
        timeout: None,
        open: |_| Ok(Vec::new()),
    };

    pub(crate) fn exports(&self, opening: &Opening<'_>) -> Result<Vec<Export>, ConfigError> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Nothing {}
        if self.config.is_empty() {
            opening.config::<Nothing>()?;
        }
        (self.open)(opening)
    }
}

/// An error in a config.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    #[error(transparent)]
    Form(#[from] serde_json::Error),
    #[error("`{0}` must be a value source: write `{{valueFrom: {{env: NAME}}}}`")]
    NoSource(String),
    #[error("`{field}` needs the environment variable {}", .tried.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "))]
    Unset { field: String, tried: Vec<String> },
    #[error("`{0}` is not a URL")]
    NoUrl(String),
    #[error("`{field}` must lie between 1 and {most}")]
    Range { field: &'static str, most: u64 },
    #[error(
        "`host` must be a host as `ssh` takes it, such as `user@build.internal` or `ssh://build.internal:2222`, not `{0}`"
    )]
    NoHost(String),
    #[error("`hostCommands` needs a `host`")]
    NoHostFor,
    #[error(
        "`{0}` holds on this machine alone: take it out, or name the programs that run on the host in `hostCommands`"
    )]
    NotThere(&'static str),
    #[error("`{0}` must have the form `Model/name`")]
    NoModel(&'static str),
    #[error("channels.{0} needs exactly one of `webhook`, `agent` (with `instanceKey`) and `log`")]
    NoChannel(String),
}

/// The inputs for opening a tool.
pub(crate) struct Opening<'a> {
    pub(crate) config: &'a JsonObject,
    /// Environment of value sources in the config.
    pub(crate) environment: &'a Environment,
    /// State that outlives a call.
    pub(crate) state: &'a State,
}

impl Opening<'_> {
    /// Parses the config. Unknown keys are errors, so that typing errors are noticed.
    pub(crate) fn config<C: DeserializeOwned>(&self) -> Result<C, ConfigError> {
        Ok(serde_json::from_value(Value::Object(self.config.clone()))?)
    }
}

/// All built-in tools in alphabetical order.
pub(crate) const BUILTINS: &[Builtin] = &[
    agents::BUILTIN,
    automation::BUILTIN,
    bash::BUILTIN,
    custom_tools::BUILTIN,
    discord::BUILTIN,
    file_system::BUILTIN,
    fs::BUILTIN,
    github::BUILTIN,
    http_fetch::BUILTIN,
    introspection::BUILTIN,
    json_query::BUILTIN,
    memory::BUILTIN,
    messaging::BUILTIN,
    runtime::BUILTIN,
    self_restart::BUILTIN,
    sessions::BUILTIN,
    slack::BUILTIN,
    squad::BUILTIN,
    task::BUILTIN,
    telegram::BUILTIN,
    text_transform::BUILTIN,
    todo::BUILTIN,
    wait::BUILTIN,
    web::BUILTIN,
];

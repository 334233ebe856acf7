//! Errors in the config of a built-in tool.

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
    #[error("`{field}` must be from 1 to {most}")]
    Range { field: &'static str, most: u64 },
    #[error(
        "`host` must be an `ssh` destination such as `user@build.internal` or \
        `ssh://build.internal:2222`, not `{0}`"
    )]
    NoHost(String),
    #[error("`hostCommands` needs a `host`")]
    NoHostFor,
    #[error(
        "`{0}` applies only to local programs: remove it, or list the programs that run on the \
        host in `hostCommands`"
    )]
    NotThere(&'static str),
    #[error("`{0}` must have the form `Model/name`")]
    NoModel(&'static str),
    #[error("channels.{0} needs exactly one of `webhook`, `agent` (with `instanceKey`) and `log`")]
    NoChannel(String),
}

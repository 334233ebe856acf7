//! The definition of a built-in tool.

use std::time::Duration;

use goondan_core::JsonObject;
use goondan_spec::Environment;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::builtin_state::BuiltinToolState;
use crate::config_error::ConfigError;
use crate::tool_operation::ToolExport;

pub(crate) struct BuiltinTool {
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
    pub(crate) open: fn(&ToolOpenContext<'_>) -> Result<Vec<ToolExport>, ConfigError>,
}

impl BuiltinTool {
    /// A row without config and with default limits.
    pub(crate) const DEFAULT_ROW: BuiltinTool = BuiltinTool {
        name: "",
        about: "",
        config: &[],
        error_message_limit: None,
        output_limit: None,
        timeout: None,
        open: |_| Ok(Vec::new()),
    };

    pub(crate) fn exports(
        &self,
        opening: &ToolOpenContext<'_>,
    ) -> Result<Vec<ToolExport>, ConfigError> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct EmptyConfig {}
        if self.config.is_empty() {
            opening.config::<EmptyConfig>()?;
        }
        (self.open)(opening)
    }
}

/// The inputs for opening a tool.
pub(crate) struct ToolOpenContext<'a> {
    pub(crate) config: &'a JsonObject,
    /// Environment of value sources in the config.
    pub(crate) environment: &'a Environment,
    /// State that outlives a call.
    pub(crate) state: &'a BuiltinToolState,
}

impl ToolOpenContext<'_> {
    /// Parses the config. Unknown keys are errors, so that typing errors are noticed.
    pub(crate) fn config<C: DeserializeOwned>(&self) -> Result<C, ConfigError> {
        Ok(serde_json::from_value(Value::Object(self.config.clone()))?)
    }
}

//! The built-in package.

use crate::JsonObject;
use crate::kinds::{ConnectorManifest, ToolManifest};

/// Built-in package `@goondan/base`, provided by the caller.
#[derive(Debug, Clone, Default)]
pub struct BasePackage {
    /// Built-in tools.
    pub tools: Vec<ToolManifest>,
    /// Built-in extensions: name and default config.
    pub extensions: Vec<(String, JsonObject)>,
    /// Built-in connectors.
    pub connectors: Vec<ConnectorManifest>,
}

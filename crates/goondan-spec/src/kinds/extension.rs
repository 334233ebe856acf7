//! `kind: Extension`.

use schemars::JsonSchema;

use super::{Scope, free_map};
use crate::JsonObject;
use crate::decode::Field;
use crate::entry;
use crate::findings::Findings;

/// Middleware of an agent.
#[derive(Debug, Clone, PartialEq)]
pub struct Extension {
    /// `builtin:NAME`, or a path in the bundle that a later version will load.
    pub entry: String,
    /// Free settings.
    pub config: JsonObject,
}

pub(crate) fn decode(spec: &Field<'_>, scope: &Scope<'_>, findings: &mut Findings) -> Option<Extension> {
    let mut fields = spec.fields(findings)?;
    let names: Vec<&str> = scope.base.extensions.iter().map(|(name, _)| name.as_str()).collect();
    let entry =
        fields.required("entry", findings).and_then(|field| entry::module(&field, &names, scope.folder, findings));
    let config = free_map(fields.optional("config"), findings);
    fields.finish(findings);
    let entry = entry?;
    let defaults = scope.base.extensions.iter().find(|(name, _)| entry.strip_prefix("builtin:") == Some(name));
    let mut merged = defaults.map(|(_, config)| config.clone()).unwrap_or_default();
    merged.extend(config?);
    Some(Extension { entry, config: merged })
}

/// Middleware around an agent's turns, steps and tool calls.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Extension")]
#[expect(dead_code, reason = "read by the schema generator alone")]
pub(crate) struct ExtensionSpec {
    /// `builtin:NAME`, or a path in the project. Extensions from a path are checked, and not run yet.
    #[schemars(length(min = 1))]
    #[schemars(extend("x-goondan-names" = "file"))]
    entry: String,
    /// Settings. They replace fields of the same name in the defaults of a built-in extension.
    config: Option<JsonObject>,
}

//! `kind: Extension`: reads and checks the spec of an extension.

use std::time::Duration;

use schemars::JsonSchema;

use super::build::{self, BuildShape};
use super::call_timeout::MAX_TIMEOUT_MS;
use super::call_timeout::read_timeout;
use super::script_language::ScriptRuntime;
use super::script_module::ScriptModule;
use super::tool_build::BuildSettings;
use super::{ResourceScope, free_config};
use crate::JsonObject;
use crate::decode::FieldReader;
use crate::diagnostic_sink::DiagnosticSink;
use crate::entry;

const DEFAULT_WORK_TIMEOUT_MS: u64 = 60_000;

/// Middleware of an agent.
#[derive(Debug, Clone, PartialEq)]
pub struct Extension {
    /// Location of the code.
    pub entry: ExtensionEntry,
    /// Free-form settings.
    pub config: JsonObject,
    /// Longest continuous work of its code. Waiting for the model, tools or agents does not count.
    pub timeout: Duration,
    /// Build settings of the entry.
    pub build: Option<BuildSettings>,
}

/// Location of an extension's code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExtensionEntry {
    /// Built-in extension.
    Builtin(String),
    /// File in JavaScript, TypeScript or Python.
    Module(Box<ScriptModule>),
    /// Dynamic library, relative to the bundle.
    Library(String),
}

impl Extension {
    pub(crate) fn from_builtin(name: &str, config: &JsonObject) -> Extension {
        let timeout = Duration::from_millis(DEFAULT_WORK_TIMEOUT_MS);
        Extension {
            entry: ExtensionEntry::Builtin(name.to_owned()),
            config: config.clone(),
            timeout,
            build: None,
        }
    }
}

/// Decodes the spec of an Extension; `None` if a field is invalid.
pub(crate) fn decode(
    spec: &FieldReader<'_>,
    scope: &ResourceScope<'_>,
    findings: &mut DiagnosticSink,
) -> Option<Extension> {
    let mut fields = spec.fields(findings)?;
    let names: Vec<&str> = scope
        .base
        .extensions
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    let entry_field = fields.required("entry", findings);
    if let Some(field) = entry_field.as_ref() {
        findings.record_position(field);
    }
    let build = build::read(
        fields.optional("build").as_ref(),
        entry_field.as_ref(),
        scope,
        findings,
    );
    let mut entry =
        entry_field.and_then(|field| entry::extension(&field, &names, scope.folder, findings));
    let runtime = fields.optional("runtime");
    let runtime = match &mut entry {
        // Errors in the entry are already reported.
        None => Some(()),
        Some(ExtensionEntry::Module(module)) => {
            ScriptRuntime::apply_field(runtime, Some(module), findings)
        }
        Some(_) => ScriptRuntime::apply_field(runtime, None, findings),
    };
    let timeout = fields
        .optional("timeout")
        .map_or(Some(DEFAULT_WORK_TIMEOUT_MS), |field| {
            read_timeout(&field, findings)
        });
    let config = free_config(fields.optional("config"), false, findings);
    fields.finish(findings);
    let entry = entry?;
    let defaults = scope
        .base
        .extensions
        .iter()
        .find(|(name, _)| entry == ExtensionEntry::Builtin(name.clone()));
    let mut merged = defaults
        .map(|(_, config)| config.clone())
        .unwrap_or_default();
    merged.extend(config?);
    runtime?;
    Some(Extension {
        entry,
        config: merged,
        timeout: Duration::from_millis(timeout?),
        build: build?,
    })
}

/// Middleware around an agent's turns, steps and tool calls.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Extension")]
#[expect(dead_code, reason = "read only by the schema generator")]
pub(crate) struct ExtensionSpec {
    /// `builtin:NAME`, or the path of a file. The file exports `register` in JavaScript, TypeScript
    /// or Python, or is a dynamic library. The prefix and suffix of a library may be omitted.
    #[schemars(length(min = 1))]
    #[schemars(extend("x-goondan-names" = "file"))]
    entry: String,
    /// The runtime of an entry in JavaScript, TypeScript or Python. By default, it is chosen as for
    /// a Tool.
    runtime: Option<ScriptRuntime>,
    /// The time that the code may work continuously, in milliseconds. Waiting for the model, for
    /// tools or for other agents does not count.
    #[schemars(range(min = 1, max = MAX_TIMEOUT_MS), extend("default" = DEFAULT_WORK_TIMEOUT_MS))]
    timeout_ms: Option<u64>,
    /// Settings. They replace fields of the same name in the defaults of a built-in extension.
    /// `env`, `sandbox` and `resources` configure the process that runs a file.
    config: Option<JsonObject>,
    /// The command that builds the entry for `gdn build`, `gdn run --build` and `gdn run --watch`,
    /// or a map with more settings.
    build: Option<BuildShape>,
}

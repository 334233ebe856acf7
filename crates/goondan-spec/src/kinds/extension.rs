//! `kind: Extension`.

use std::time::Duration;

use schemars::JsonSchema;

use super::build::{self, Build, BuildShape};
use super::module::{Module, Runtime};
use super::tool::{MAX_TIMEOUT_MS, read_timeout};
use super::{Scope, free_map};
use crate::JsonObject;
use crate::decode::Field;
use crate::entry;
use crate::findings::Findings;

/// How long the code of an extension may work at a stretch where nothing else is said, in milliseconds.
const TIMEOUT_MS: u64 = 60_000;

/// Middleware of an agent.
#[derive(Debug, Clone, PartialEq)]
pub struct Extension {
    /// Where its code is.
    pub entry: ExtensionEntry,
    /// Free settings.
    pub config: JsonObject,
    /// How long its code may work at a stretch. What it waits for in others does not count.
    pub timeout: Duration,
    /// How the entry is made, where it is.
    pub build: Option<Build>,
}

/// Where the code of an extension is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExtensionEntry {
    /// An extension of this program.
    Builtin(String),
    /// A file in JavaScript, TypeScript or Python.
    Module(Box<Module>),
    /// A dynamic library, relative to the bundle.
    Library(String),
}

impl Extension {
    /// The extension that a built-in one is without a resource of the user's own.
    pub(crate) fn of_base(name: &str, config: &JsonObject) -> Extension {
        let timeout = Duration::from_millis(TIMEOUT_MS);
        Extension {
            entry: ExtensionEntry::Builtin(name.to_owned()),
            config: config.clone(),
            timeout,
            build: None,
        }
    }
}

pub(crate) fn decode(
    spec: &Field<'_>,
    scope: &Scope<'_>,
    findings: &mut Findings,
) -> Option<Extension> {
    let mut fields = spec.fields(findings)?;
    let names: Vec<&str> = scope
        .base
        .extensions
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    let entry_field = fields.required("entry", findings);
    entry_field
        .iter()
        .for_each(|field| findings.note_place(field));
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
        // What is wrong with the entry was told.
        None => Some(()),
        Some(ExtensionEntry::Module(module)) => Runtime::lay_over(runtime, Some(module), findings),
        Some(_) => Runtime::lay_over(runtime, None, findings),
    };
    let timeout = fields
        .optional("timeoutMs")
        .map_or(Some(TIMEOUT_MS), |field| read_timeout(&field, findings));
    let config = free_map(fields.optional("config"), findings);
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
#[expect(dead_code, reason = "read by the schema generator alone")]
pub(crate) struct ExtensionSpec {
    /// `builtin:NAME`, or the path of a file in JavaScript, TypeScript or Python that exports `register`, or of a dynamic
    /// library. The prefix and suffix of a library may be left out.
    #[schemars(length(min = 1))]
    #[schemars(extend("x-goondan-names" = "file"))]
    entry: String,
    /// What runs an entry in JavaScript, TypeScript or Python. By default it is found as for a Tool.
    runtime: Option<Runtime>,
    /// How many milliseconds the code may work at a stretch. While it waits for the model, for tools or for other
    /// agents, the time does not run.
    #[schemars(range(min = 1, max = MAX_TIMEOUT_MS), extend("default" = TIMEOUT_MS))]
    timeout_ms: Option<u64>,
    /// Settings. They replace fields of the same name in the defaults of a built-in extension. `env`, `sandbox` and `limits`
    /// are about the process that runs a file.
    config: Option<JsonObject>,
    /// How `gdn build`, `gdn run --build` and `gdn run --watch` make the entry: a command, or a map with more settings.
    build: Option<BuildShape>,
}

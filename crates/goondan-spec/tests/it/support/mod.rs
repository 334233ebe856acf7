//! A bundle in memory, and a built-in package to refer to.

pub(crate) mod examples;
pub(crate) mod fields;

use std::path::Path;

use goondan_spec::kinds::{
    ConnectorManifest, ConnectorSetting, EventDeclaration, ExportSpec, Permission,
    SettingRequirement, ToolManifest,
};
use goondan_spec::{BasePackage, LoadInput, LoadResult, MemoryFiles, load};
use serde_json::json;

/// A valid Model, Agent and Swarm; tests add to them.
pub(crate) const VALID_PROJECT: &str = "apiVersion: goondan.ai/v1
kind: Model
metadata: {name: m}
spec: {provider: scripted, model: any}
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: assistant}
spec: {modelConfig: {modelRef: Model/m}}
---
apiVersion: goondan.ai/v1
kind: Swarm
metadata: {name: default}
spec: {entryAgent: Agent/assistant, agents: [{ref: Agent/assistant}]}
";

/// Returns a base package with some tools, extensions and a connector.
pub(crate) fn base() -> BasePackage {
    BasePackage {
        tools: vec![
            manifest(
                "bash",
                &[
                    ("exec", Permission::Execute),
                    ("script", Permission::Execute),
                ],
            ),
            manifest(
                "fs",
                &[("read", Permission::Read), ("write", Permission::Write)],
            ),
            manifest(
                "json-query",
                &[("query", Permission::Read), ("pick", Permission::Read)],
            ),
            manifest(
                "text-transform",
                &[("case", Permission::Read), ("trim", Permission::Read)],
            ),
        ],
        extensions: vec![
            extension("compaction", json!({"keep": 4, "at": 100})),
            extension("message-window", json!({"maxMessages": 80, "pinned": true})),
        ],
        connectors: vec![connector()],
    }
}

/// Returns a connector that sends replies and identifies senders.
fn connector() -> ConnectorManifest {
    let is_number = |value: &str| {
        value
            .parse::<u32>()
            .map(drop)
            .map_err(|_| "must be an integer".to_owned())
    };
    ConnectorManifest {
        name: "pager".to_owned(),
        events: vec![EventDeclaration {
            name: "page".to_owned(),
            properties: Default::default(),
        }],
        config: vec![ConnectorSetting::new(
            "volume",
            SettingRequirement::Never,
            is_number,
        )],
        secrets: vec![
            ConnectorSetting::new("signingSecret", SettingRequirement::Always, |_| Ok(())),
            ConnectorSetting::new("botToken", SettingRequirement::ForReplies, |_| Ok(())),
        ],
        answers: true,
        streams: true,
        asks: true,
        knows_senders: true,
        ..ConnectorManifest::default()
    }
}

fn extension(name: &str, config: serde_json::Value) -> (String, goondan_spec::JsonObject) {
    (
        name.to_owned(),
        config.as_object().cloned().unwrap_or_default(),
    )
}

fn manifest(name: &str, exports: &[(&str, Permission)]) -> ToolManifest {
    let export = |(name, permission): &(&str, Permission)| ExportSpec {
        name: (*name).to_owned(),
        description: format!("Does {name}."),
        parameters: json!({"type": "object", "properties": {"command": {"type": "string"}, "path": {"type": "string"}}}),
        permissions: [*permission].into(),
        read_only: *permission == Permission::Read,
        ..ExportSpec::default()
    };
    ToolManifest {
        name: name.to_owned(),
        exports: exports.iter().map(export).collect::<Vec<_>>().into(),
        timeout_ms: Some(5_000),
        ..ToolManifest::default()
    }
}

/// Loads the bundle at `/p`.
pub(crate) fn load_files(files: &MemoryFiles) -> LoadResult {
    load(LoadInput {
        root: Path::new("/p"),
        files,
        base: &base(),
    })
}

/// Loads a bundle with the given files.
pub(crate) fn load_texts(texts: &[(&str, &str)]) -> LoadResult {
    load_files(&files(texts))
}

/// Returns the given files below `/p`.
pub(crate) fn files(texts: &[(&str, &str)]) -> MemoryFiles {
    texts
        .iter()
        .fold(MemoryFiles::new().directory("/p"), |files, (path, text)| {
            files.file(format!("/p/{path}"), *text)
        })
}

/// Returns one line per diagnostic: `CODE file:line field`.
pub(crate) fn found(loaded: &LoadResult) -> Vec<String> {
    let line = |found: &goondan_spec::Diagnostic| {
        let place = found
            .position
            .map_or_else(String::new, |at| format!(":{}", at.line));
        let field = found
            .field
            .as_deref()
            .map_or_else(String::new, |field| format!(" {field}"));
        format!(
            "{} {}{place}{field}",
            found.code,
            found.file.as_deref().unwrap_or("-")
        )
    };
    loaded.diagnostics.iter().map(line).collect()
}

//! Sandboxes for the programs that tools run (rule S4).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::decode::FieldReader;
use crate::diagnostic_sink::DiagnosticSink;

/// The access of a program. It writes only in its working directory, reads the system, the project
/// and its working directory, and has no network.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Sandbox")]
pub struct SandboxSettings {
    /// Allows programs to use the network.
    #[serde(default)]
    pub network: bool,
    /// Additional directories that programs may read: absolute, beginning with `~/`, or relative to
    /// the project.
    #[serde(default)]
    pub read: Vec<String>,
    /// Additional directories that programs may write, in the same forms.
    #[serde(default)]
    pub write: Vec<String>,
    /// Programs that may be started, by name or path; `"*"` means any. Without it, the sandbox of
    /// an agent allows every program. The sandbox of a rule allows only the commands that the rule
    /// allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub programs: Option<Vec<String>>,
}

/// Sandbox for a command that a rule allows by a pattern.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum RuleSandbox {
    /// Default sandbox, derived from the agent's permissions.
    #[default]
    Usual,
    /// No sandbox.
    Off,
    /// Default sandbox with additional access.
    With(SandboxSettings),
}

/// `false` for no sandbox, or access in addition to the usual sandbox.
#[derive(JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "RuleSandbox")]
#[expect(dead_code, reason = "read only by the schema generator")]
pub(crate) enum RuleSandboxShape {
    /// `false`: the command runs without a sandbox.
    Off(bool),
    /// Access in addition to the usual sandbox.
    With(SandboxSettings),
}

/// `true` for a sandbox without additional access, `false` for none, or additional access.
#[derive(JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "AgentSandbox")]
#[expect(dead_code, reason = "read only by the schema generator")]
pub(crate) enum AgentSandboxShape {
    /// `true`: no additional access. `false`: no sandbox.
    Switch(bool),
    /// Additional access.
    With(SandboxSettings),
}

/// Reads `sandbox` in `permissions` of an Agent. The inner `None` means no sandbox.
pub(super) fn read_of_agent(
    field: &FieldReader<'_>,
    findings: &mut DiagnosticSink,
) -> Option<Option<SandboxSettings>> {
    match field.node.to_json() {
        serde_json::Value::Bool(false) => Some(None),
        serde_json::Value::Bool(true) => Some(Some(SandboxSettings::default())),
        _ => read(field, findings).map(Some),
    }
}

/// Reads `sandbox` of a permission rule.
pub(super) fn read_of_rule(
    field: &FieldReader<'_>,
    findings: &mut DiagnosticSink,
) -> Option<RuleSandbox> {
    match field.node.to_json() {
        serde_json::Value::Bool(false) => Some(RuleSandbox::Off),
        serde_json::Value::Bool(true) => Some(RuleSandbox::Usual),
        _ => read(field, findings).map(RuleSandbox::With),
    }
}

/// Resource limits of a program. An absent value sets no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProcessLimits {
    /// CPU time, in seconds.
    pub cpu_seconds: Option<u64>,
    /// Address space of each process, in MiB.
    pub memory_mib: Option<u64>,
    /// Size of the largest file that may be written, in MiB.
    pub file_size_mib: Option<u64>,
    /// Processes of the user. The operating system counts all processes of the user, and exempts
    /// root.
    pub processes: Option<u64>,
}

/// Reads the sandbox settings in `permissions` of an Agent.
pub(super) fn read(
    field: &FieldReader<'_>,
    findings: &mut DiagnosticSink,
) -> Option<SandboxSettings> {
    match serde_json::from_value(field.node.to_json()) {
        Ok(sandbox) => Some(sandbox),
        Err(error) => {
            let message = format!("`{}` is not a valid sandbox: {error}.", field.path);
            findings.add(field.invalid_value(message).suggest(
                "write `true`, or `{network: true, read: […], write: […], programs: […]}`",
            ));
            None
        }
    }
}

//! What contains the programs that tools run (rule S4).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::decode::Field;
use crate::findings::Findings;

/// What a program may reach: it writes in its working folder and nowhere else, reads the system, the project and its
/// working folder, and has no network.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Sandbox {
    /// Whether programs may use the network.
    #[serde(default)]
    pub network: bool,
    /// More folders that programs may read: absolute, beginning with `~/`, or relative to the project.
    #[serde(default)]
    pub read: Vec<String>,
    /// More folders that programs may write, in the same forms.
    #[serde(default)]
    pub write: Vec<String>,
    /// Programs that may be started, by name or path; `"*"` means any. Without it, the sandbox of an agent allows every
    /// program, and the sandbox of a rule only the commands that the rule allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub programs: Option<Vec<String>>,
}

/// What contains a command that a rule allows by a pattern.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum RuleSandbox {
    /// The one that such commands have: it follows from what the agent may do otherwise.
    #[default]
    Usual,
    /// None.
    Off,
    /// The usual one, with more.
    With(Sandbox),
}

/// `false` for no sandbox, or what is open in addition to the usual one.
#[derive(JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "RuleSandbox")]
#[expect(dead_code, reason = "read by the schema generator alone")]
pub(crate) enum RuleSandboxShape {
    /// `false`: the command runs without a sandbox.
    Off(bool),
    /// What is open in addition to the usual sandbox.
    With(Sandbox),
}

/// Reads `sandbox` of a permission rule.
pub(super) fn read_of_rule(field: &Field<'_>, findings: &mut Findings) -> Option<RuleSandbox> {
    match field.node.to_json() {
        serde_json::Value::Bool(false) => Some(RuleSandbox::Off),
        serde_json::Value::Bool(true) => Some(RuleSandbox::Usual),
        _ => read(field, findings).map(RuleSandbox::With),
    }
}

/// What a program may use up. What is absent has no limit of its own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProcessLimits {
    /// Seconds of processor time.
    pub cpu_seconds: Option<u64>,
    /// Address space of each process, in MiB.
    pub memory_mib: Option<u64>,
    /// The largest file that may be written, in MiB.
    pub file_size_mib: Option<u64>,
    /// Processes of the user. The operating system counts all that the user has, and does not hold root to it.
    pub processes: Option<u64>,
}

/// Reads `permissions.sandbox` of an agent, or what a rule opens.
pub(super) fn read(field: &Field<'_>, findings: &mut Findings) -> Option<Sandbox> {
    match serde_json::from_value(field.node.to_json()) {
        Ok(sandbox) => Some(sandbox),
        Err(error) => {
            let message = format!("`{}` is not a valid sandbox: {error}.", field.path);
            findings.add(
                field.invalid(message).suggest(
                    "write `{}`, or `{network: true, read: […], write: […], programs: […]}`",
                ),
            );
            None
        }
    }
}

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
    /// The network may be used.
    #[serde(default)]
    pub network: bool,
    /// Folders that may be read, too: absolute, `~/…`, or relative to the project.
    #[serde(default)]
    pub read: Vec<String>,
    /// Folders that may be written, too.
    #[serde(default)]
    pub write: Vec<String>,
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

/// Reads `permissions.sandbox` of an agent.
pub(super) fn read(field: &Field<'_>, findings: &mut Findings) -> Option<Sandbox> {
    match serde_json::from_value(field.node.to_json()) {
        Ok(sandbox) => Some(sandbox),
        Err(error) => {
            let message = format!("`{}` is no sandbox: {error}.", field.path);
            findings.add(field.invalid(message).suggest("write `{}`, or `{network: true, read: […], write: […]}`"));
            None
        }
    }
}

//! `task`: delegates a task to another agent.

use std::sync::Arc;
use std::time::Duration;

use goondan_core::JsonObject;
use goondan_core::ports::tool::{HandlerError, ToolContext, ToolOutput};
use goondan_spec::kinds::Permission;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::builtin_tool::BuiltinTool;
use crate::sessions::{SessionRequest, request_answer};
use crate::tool_operation::{ToolExport, ToolOperation, titled_output};

pub(crate) const BUILTIN: BuiltinTool = BuiltinTool {
    name: "task",
    about: "Gives work to an agent of the swarm, in a new conversation.",
    // Longer than the longest silence of a session.
    timeout: Some(Duration::from_secs(1_860)),
    open: |_| {
        // The ids of the session and of its request are derived from the call id.
        Ok(vec![
            ToolExport::new::<RunTask>("run", &Arc::new(()))
                .with_permission(Permission::Execute)
                .idempotent(),
        ])
    },
    ..BuiltinTool::DEFAULT_ROW
};

/// Give work to an agent of the swarm, in a new conversation with this working directory. Returns
/// its answer. It does not see this conversation: include everything it needs.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RunTask {
    /// Title in three to five words, for people.
    #[schemars(length(min = 1))]
    description: String,
    /// Task, and the expected answer.
    #[schemars(length(min = 1))]
    prompt: String,
    /// The agent, from `introspection__agents_list` or `agents__catalog`.
    #[schemars(length(min = 1))]
    agent: String,
}

impl ToolOperation for RunTask {
    type Shared = ();

    async fn run(self, ctx: &ToolContext, (): &()) -> Result<ToolOutput, HandlerError> {
        ctx.progress.update(
            &self.description,
            JsonObject::from_iter([("agent".to_owned(), json!(self.agent))]),
        );
        let asked = SessionRequest {
            agent: &self.agent,
            input: self.prompt,
            narrowing: None,
            event_type: "task.run",
        };
        let answer = request_answer(ctx, asked).await?;
        let output = json!({"agent": self.agent, "session_id": answer.session.to_string(), "result": answer.text});
        Ok(titled_output(self.description, output))
    }
}

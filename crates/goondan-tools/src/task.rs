//! `task`: delegates a task to another agent.

use std::sync::Arc;
use std::time::Duration;

use goondan_core::JsonObject;
use goondan_core::ports::tool::{ToolContext, ToolError, ToolOutput};
use goondan_spec::kinds::Permission;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::define::{Export, Operation, titled};
use crate::sessions::{Ask, ask};
use crate::table::Builtin;

pub(crate) const BUILTIN: Builtin = Builtin {
    name: "task",
    about: "Gives a piece of work to an agent of the swarm, in its own conversation.",
    // Longer than the longest silence of a session.
    timeout: Some(Duration::from_secs(1_860)),
    open: |_| {
        // The ids of the session and of its request are derived from the call id.
        Ok(vec![
            Export::new::<Run>("run", &Arc::new(()))
                .needs(Permission::Execute)
                .idempotent(),
        ])
    },
    ..Builtin::BLANK
};

/// Give a piece of work to an agent of the swarm, in a fresh conversation that works in this folder. Its answer is the
/// result. It knows nothing of this conversation, so tell it everything that it needs.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Run {
    /// The work in three to five words, for people.
    #[schemars(length(min = 1))]
    description: String,
    /// What to do, and what to answer.
    #[schemars(length(min = 1))]
    prompt: String,
    /// The agent; `introspection__agents_list` and `agents__catalog` list them.
    #[schemars(length(min = 1))]
    agent: String,
}

impl Operation for Run {
    type Shared = ();

    async fn run(self, ctx: &ToolContext, (): &()) -> Result<ToolOutput, ToolError> {
        ctx.progress.update(
            &self.description,
            JsonObject::from_iter([("agent".to_owned(), json!(self.agent))]),
        );
        let asked = Ask {
            agent: &self.agent,
            input: self.prompt,
            narrowing: None,
            event_type: "task.run",
        };
        let answer = ask(ctx, asked).await?;
        let output = json!({"agent": self.agent, "session_id": answer.session.to_string(), "result": answer.text});
        Ok(titled(self.description, output))
    }
}

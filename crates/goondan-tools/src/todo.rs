//! `todo`: a task list for each agent instance.

use std::sync::Arc;

use goondan_core::JsonObject;
use goondan_core::ports::tool::{ToolContext, ToolError, ToolOutput};
use goondan_spec::kinds::Permission;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::define::{Export, Operation, titled};
use crate::errors;
use crate::powers;
use crate::table::Builtin;

/// Maximum number of tasks in a list.
const MOST: usize = 200;
/// Name of the stored list.
const STATE: &str = "todo";

pub(crate) const BUILTIN: Builtin = Builtin {
    name: "todo",
    about: "A task list for each conversation. The agent uses it to keep track of longer work, and people see the progress. \
            The list is stored with the conversation and survives restarts.",
    open: |_| {
        let none = Arc::new(());
        Ok(vec![
            Export::new::<Write>("write", &none)
                .needs(Permission::Read)
                .idempotent(),
            Export::new::<Read>("read", &none)
                .needs(Permission::Read)
                .read_only(),
        ])
    },
    ..Builtin::BLANK
};

/// One task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Task {
    /// What is to be done.
    #[schemars(length(min = 1, max = 1_000))]
    content: String,
    /// How far it is.
    #[serde(default)]
    status: Status,
}

/// How far a task is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Status {
    #[default]
    Pending,
    InProgress,
    Completed,
    Cancelled,
}

/// Write the task list of this conversation. The whole list replaces the previous one. Keep one task in progress, and write
/// the list again as soon as a task is done.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Write {
    /// The tasks, in the order in which to do them.
    #[schemars(length(max = 200))]
    todos: Vec<Task>,
}

impl Operation for Write {
    type Shared = ();

    async fn run(self, ctx: &ToolContext, (): &()) -> Result<ToolOutput, ToolError> {
        if self.todos.len() > MOST {
            return Err(errors::invalid(format!(
                "a list has at most {MOST} tasks, not {}",
                self.todos.len()
            )));
        }
        let output = shown(&self.todos);
        powers::state(ctx)?.save(STATE, json!(self.todos)).await?;
        ctx.progress.update(
            output.title.as_deref().unwrap_or_default(),
            output.metadata.clone(),
        );
        Ok(output)
    }
}

/// Read the task list of this conversation.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Read {}

impl Operation for Read {
    type Shared = ();

    async fn run(self, ctx: &ToolContext, (): &()) -> Result<ToolOutput, ToolError> {
        let saved = powers::state(ctx)?.load(STATE).await?;
        // An unreadable list was edited by hand, and counts as missing.
        let todos: Vec<Task> = saved
            .and_then(|saved| serde_json::from_value(saved).ok())
            .unwrap_or_default();
        Ok(shown(&todos))
    }
}

/// Returns the list for the model, with a title for users.
fn shown(todos: &[Task]) -> ToolOutput {
    let count = |status| todos.iter().filter(|task| task.status == status).count();
    let (open, done) = (
        count(Status::Pending) + count(Status::InProgress),
        count(Status::Completed),
    );
    let output = json!({
        "todos": todos,
        "pending": count(Status::Pending),
        "in_progress": count(Status::InProgress),
        "completed": done,
        "cancelled": count(Status::Cancelled),
    });
    let metadata = JsonObject::from_iter([("todos".to_owned(), json!(todos))]);
    ToolOutput {
        metadata,
        ..titled(format!("{done} of {} tasks done", open + done), output)
    }
}

//! `todo`: a task list for each agent instance.

use std::sync::Arc;

use goondan_core::JsonObject;
use goondan_core::ports::tool::{HandlerError, ToolContext, ToolOutput};
use goondan_core::reserved_names::TODO_STATE;
use goondan_spec::kinds::Permission;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::builtin_tool::BuiltinTool;
use crate::errors;
use crate::host_capabilities;
use crate::tool_operation::{ToolExport, ToolOperation, titled_output};

/// Maximum number of tasks in a list.
const MAX_TODO_TASKS: usize = 200;

pub(crate) const BUILTIN: BuiltinTool = BuiltinTool {
    name: "todo",
    about: "A task list for each conversation. The agent uses it to track longer work, and users \
        see the progress. The list is stored with the conversation and survives restarts.",
    open: |_| {
        let none = Arc::new(());
        Ok(vec![
            ToolExport::new::<WriteTaskList>("write", &none)
                .with_permission(Permission::Read)
                .idempotent(),
            ToolExport::new::<ReadTaskList>("read", &none)
                .with_permission(Permission::Read)
                .read_only(),
        ])
    },
    ..BuiltinTool::DEFAULT_ROW
};

/// One task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TodoTask {
    /// Task.
    #[schemars(length(min = 1, max = 1_000))]
    content: String,
    /// The status.
    #[serde(default)]
    status: TodoStatus,
}

/// How far a task is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum TodoStatus {
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
struct WriteTaskList {
    /// Tasks, in order.
    #[schemars(length(max = 200))]
    todos: Vec<TodoTask>,
}

impl ToolOperation for WriteTaskList {
    type Shared = ();

    async fn run(self, ctx: &ToolContext, (): &()) -> Result<ToolOutput, HandlerError> {
        if self.todos.len() > MAX_TODO_TASKS {
            return Err(errors::invalid_argument(format!(
                "a list has at most {MAX_TODO_TASKS} tasks, not {}",
                self.todos.len()
            )));
        }
        let output = todo_output(&self.todos);
        host_capabilities::state(ctx)?
            .save(TODO_STATE, json!(self.todos))
            .await?;
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
struct ReadTaskList {}

impl ToolOperation for ReadTaskList {
    type Shared = ();

    async fn run(self, ctx: &ToolContext, (): &()) -> Result<ToolOutput, HandlerError> {
        let saved = host_capabilities::state(ctx)?.load(TODO_STATE).await?;
        // An unreadable list was edited by hand, and counts as missing.
        let todos: Vec<TodoTask> = saved
            .and_then(|saved| serde_json::from_value(saved).ok())
            .unwrap_or_default();
        Ok(todo_output(&todos))
    }
}

/// Returns the list for the model, with a title for users.
fn todo_output(todos: &[TodoTask]) -> ToolOutput {
    let count = |status| todos.iter().filter(|task| task.status == status).count();
    let (open, done) = (
        count(TodoStatus::Pending) + count(TodoStatus::InProgress),
        count(TodoStatus::Completed),
    );
    let output = json!({
        "todos": todos,
        "pending": count(TodoStatus::Pending),
        "in_progress": count(TodoStatus::InProgress),
        "completed": done,
        "cancelled": count(TodoStatus::Cancelled),
    });
    let metadata = JsonObject::from_iter([("todos".to_owned(), json!(todos))]);
    ToolOutput {
        metadata,
        ..titled_output(format!("{done} of {} tasks done", open + done), output)
    }
}

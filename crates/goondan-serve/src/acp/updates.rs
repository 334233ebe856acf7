//! Session updates for tool calls, results and text.

use std::path::Path;

use agent_client_protocol::v1::schema as wire;
use goondan::event::{ShownResult, TurnResult, output_lines};
use goondan::ports::tool::ToolCallStatus;
use goondan::spec::{Code, JsonObject};
use serde_json::Value;

/// Maximum length in characters of a title made from arguments.
const MAX_TITLE_CHARS: usize = 100;

/// Maximum length in bytes of the output that an editor shows for a running command.
const MAX_LIVE_BYTES: usize = 8_000;

/// Returns a text chunk of the message with this id.
pub(super) fn text(text: &str, message: Option<&str>) -> wire::ContentChunk {
    let chunk = wire::ContentChunk::new(wire::ContentBlock::from(text.to_owned()));
    match message {
        Some(id) => chunk.message_id(wire::MessageId::new(id)),
        None => chunk,
    }
}

/// Returns the id of the reasoning that belongs to a message.
pub(super) fn reasoning_id(message: &str) -> String {
    format!("{message}-reasoning")
}

/// Returns the error message of a turn whose model declined to answer.
pub(super) fn refusal_message(result: &TurnResult) -> Option<&str> {
    let error = result.error.as_ref()?;
    let is_refusal = Code::find(&error.code) == Some(Code::MODEL_DECLINED);
    is_refusal.then_some(&*error.message)
}

/// Returns a call id that is unique in its session.
pub(super) fn call_id(step_id: &str, tool_call_id: &str) -> String {
    format!("{step_id}/{tool_call_id}")
}

/// Call that is not over.
pub(super) struct ShownToolCall {
    /// Id that the editor has for the call.
    pub(super) id: String,
    /// End of the output of a running command.
    output: String,
}

impl ShownToolCall {
    pub(super) fn new(id: &str) -> Self {
        ShownToolCall {
            id: id.to_owned(),
            output: String::new(),
        }
    }

    /// Returns the update for a progress event: the output of a command so far, or a new title.
    pub(super) fn progress_update(
        &mut self,
        title: &str,
        metadata: &JsonObject,
    ) -> Option<wire::ToolCallUpdate> {
        let before = self.output.len();
        for line in output_lines(metadata) {
            self.output.push_str(line);
            self.output.push('\n');
        }
        let fields = wire::ToolCallUpdateFields::new();
        let fields = if self.output.len() > before {
            let excess = self.output.len().saturating_sub(MAX_LIVE_BYTES);
            self.output.drain(..self.output.ceil_char_boundary(excess));
            // The editor replaces the content of a call with each update.
            fields.content(vec![content(&self.output)])
        } else if !title.is_empty() {
            fields.title(title.to_owned())
        } else {
            return None;
        };
        Some(wire::ToolCallUpdate::new(self.id.clone(), fields))
    }
}

pub(super) struct ShownCall<'a> {
    /// Id that the editor has for the call.
    pub(super) id: String,
    /// Tool name, as `resource__export`.
    pub(super) tool: &'a str,
    /// Usually an object.
    pub(super) arguments: &'a Value,
    /// Working directory of the agent's tools.
    pub(super) workdir: &'a Path,
}

impl ShownCall<'_> {
    /// Returns the first update of the call.
    pub(super) fn initial_update(&self, status: wire::ToolCallStatus) -> wire::ToolCall {
        wire::ToolCall::new(self.id.clone(), self.title())
            .name(self.tool.to_owned())
            .kind(kind(self.tool))
            .status(status)
            .locations(self.locations())
            .raw_input(Some(self.arguments.clone()).filter(|arguments| !arguments.is_null()))
    }

    /// Returns the call as part of an approval request.
    pub(super) fn permission_fields(&self) -> wire::ToolCallUpdateFields {
        wire::ToolCallUpdateFields::new()
            .title(self.title())
            .name(self.tool.to_owned())
            .kind(kind(self.tool))
            .status(wire::ToolCallStatus::Pending)
            .locations(self.locations())
            .raw_input(self.arguments.clone())
    }

    /// Returns the tool name with the first string argument, such as a path, a command or a
    /// question.
    fn title(&self) -> String {
        let name = self.tool.replace("__", " ");
        let argument = self
            .arguments
            .as_object()
            .into_iter()
            .flat_map(JsonObject::values)
            .find_map(Value::as_str);
        let Some(line) =
            argument.and_then(|argument| argument.lines().find(|line| !line.trim().is_empty()))
        else {
            return name;
        };
        let mut line: String = line.trim().chars().take(MAX_TITLE_CHARS + 1).collect();
        if line.chars().count() > MAX_TITLE_CHARS {
            line = line.chars().take(MAX_TITLE_CHARS).chain(['…']).collect();
        }
        format!("{name}: {line}")
    }

    /// Returns the files of the call.
    fn locations(&self) -> Vec<wire::ToolCallLocation> {
        let path = self.arguments.get("path").and_then(Value::as_str);
        path.map(|path| wire::ToolCallLocation::new(self.workdir.join(path)))
            .into_iter()
            .collect()
    }
}

/// Returns the kind, which determines the editor's icon. Export names usually begin with a verb.
fn kind(tool: &str) -> wire::ToolKind {
    let export = tool.rsplit("__").next().unwrap_or_default();
    match export.split(['-', '_']).next().unwrap_or_default() {
        "read" | "list" | "get" | "show" | "stat" => wire::ToolKind::Read,
        "write" | "edit" | "create" | "update" | "append" | "replace" | "patch" => {
            wire::ToolKind::Edit
        }
        "delete" | "remove" => wire::ToolKind::Delete,
        "move" | "rename" => wire::ToolKind::Move,
        "search" | "find" | "grep" | "glob" | "query" => wire::ToolKind::Search,
        "exec" | "run" | "script" | "start" => wire::ToolKind::Execute,
        "fetch" | "download" => wire::ToolKind::Fetch,
        "think" => wire::ToolKind::Think,
        _ => wire::ToolKind::Other,
    }
}

/// Converts the status of a call.
pub(super) fn status(status: ToolCallStatus) -> wire::ToolCallStatus {
    match status {
        ToolCallStatus::Ok => wire::ToolCallStatus::Completed,
        _ => wire::ToolCallStatus::Failed,
    }
}

/// Returns the update for a finished call.
pub(super) fn completed_update(
    ended: ToolCallStatus,
    shown: &ShownResult,
) -> wire::ToolCallUpdateFields {
    let error = shown
        .error
        .as_ref()
        .map(|error| content(&format!("{} [{}]", error.message, error.code)));
    let output = output_text(&shown.output).map(|text| content(&text));
    wire::ToolCallUpdateFields::new()
        .status(status(ended))
        .title(shown.title.clone())
        .content(error.or(output).map(|content| vec![content]))
        .raw_output(Some(shown.output.clone()).filter(|output| !output.is_null()))
}

/// Returns the update for a failed call.
pub(super) fn failed_update(message: &str) -> wire::ToolCallUpdateFields {
    wire::ToolCallUpdateFields::new()
        .status(wire::ToolCallStatus::Failed)
        .content(vec![content(message)])
}

/// Wraps a text.
pub(super) fn content(text: &str) -> wire::ToolCallContent {
    wire::ToolCallContent::from(wire::ContentBlock::from(text.to_owned()))
}

/// Returns an output as text; `None` if it is empty.
pub(super) fn output_text(output: &Value) -> Option<String> {
    match output {
        Value::Null => None,
        Value::String(text) => Some(text.clone()).filter(|text| !text.is_empty()),
        other => serde_json::to_string_pretty(other).ok(),
    }
}

/// Returns the task list of a conversation, if a call has written one.
pub(super) fn plan(metadata: &JsonObject) -> Option<wire::Plan> {
    let entry = |task: &Value| {
        let status = match task.get("status")?.as_str()? {
            "pending" => wire::PlanEntryStatus::Pending,
            "in_progress" => wire::PlanEntryStatus::InProgress,
            "completed" => wire::PlanEntryStatus::Completed,
            // The protocol has no status for abandoned tasks.
            _ => return None,
        };
        let content = task.get("content")?.as_str()?;
        Some(wire::PlanEntry::new(
            content,
            wire::PlanEntryPriority::Medium,
            status,
        ))
    };
    let tasks = metadata.get("todos")?.as_array()?;
    Some(wire::Plan::new(tasks.iter().filter_map(entry).collect()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_running_command_shows_the_end_of_its_output() {
        let mut call = ShownToolCall::new("s/c");
        let mut shown = |title: &str, metadata: Value| {
            let update = call.progress_update(title, metadata.as_object()?)?;
            Some(json!(update))
        };
        let text = |update: &Option<Value>| {
            let content = update.as_ref()?.pointer("/content/0/content/text")?;
            content.as_str().map(str::to_owned)
        };
        let first = shown("b", json!({"lines": ["a", "b"]}));
        assert_eq!(text(&first).as_deref(), Some("a\nb\n"));
        let long = shown("c", json!({"lines": ["é".repeat(MAX_LIVE_BYTES), "c"]}));
        let long = text(&long).unwrap();
        assert!(long.len() <= MAX_LIVE_BYTES && long.ends_with("é\nc\n"));
        let title = shown("half", json!({})).unwrap();
        assert_eq!(title["title"], "half");
        assert_eq!(shown("", json!({})), None);
    }

    fn call(tool: &'static str, arguments: &Value) -> Value {
        let call = ShownCall {
            id: "s/c".to_owned(),
            tool,
            arguments,
            workdir: Path::new("/w"),
        };
        json!(call.initial_update(wire::ToolCallStatus::InProgress))
    }

    #[test]
    fn a_tool_call_update_has_title_kind_and_locations() {
        let arguments = json!({"limit": 3, "path": "a/b.txt"});
        let update = call("file-system__read", &arguments);
        assert_eq!(update["title"], "file-system read: a/b.txt");
        assert_eq!(
            (&update["kind"], &update["status"]),
            (&json!("read"), &json!("in_progress"))
        );
        assert_eq!(update["locations"], json!([{"path": "/w/a/b.txt"}]));
        assert_eq!(update["rawInput"], arguments);
        assert_eq!(call("todo__read", &Value::Null)["title"], "todo read");
        let long = json!({"command": format!("\n  {}\nmore", "x".repeat(MAX_TITLE_CHARS + 1))});
        assert_eq!(
            call("bash__exec", &long)["title"],
            format!("bash exec: {}…", "x".repeat(MAX_TITLE_CHARS))
        );
    }

    #[test]
    fn a_todo_list_becomes_a_plan_without_cancelled_entries() {
        let metadata = json!({"todos": [
            {"content": "a", "status": "completed"}, {"content": "b", "status": "cancelled"},
            {"content": "c", "status": "pending"},
        ]});
        let plan = json!(plan(metadata.as_object().unwrap()));
        let statuses: Vec<_> = plan["entries"]
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| &entry["status"])
            .collect();
        assert_eq!(statuses, ["completed", "pending"]);
    }
}

//! Steps of a test case.

use std::time::Duration;

use goondan::spec::DurationText;
use schemars::{JsonSchema, Schema};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::conversation::{ConversationStep, SendDelivery};
use super::file::parse_mode;
pub use super::nodes::{NodePartition, OneNode, SomeNode};
use super::{CaseFilePath, FileContent};
use crate::matcher::ValueMatcher;

/// Default time limit of a wait.
const DEFAULT_WAIT: Duration = Duration::from_secs(5);
/// Longest step of the clock: one year.
const MAX_ADVANCE: Duration = Duration::from_secs(31_536_000);

/// An action with an expectation.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "RawStep")]
pub struct CaseStep {
    /// Action.
    pub action: StepAction,
    /// Expected result.
    pub expect: Option<ValueMatcher>,
    /// With `--live`: criteria that the answer must meet. A Model of the project judges them.
    pub judge: Option<String>,
}

/// Action of a step.
#[derive(Debug, Clone)]
pub enum StepAction {
    /// Submits an input.
    Send(SendStep),
    /// Calls a tool without a model.
    Call(CallStep),
    /// Replaces the messages of a conversation with a summary.
    Compact(ConversationStep),
    /// Removes the last turn of a conversation.
    Undo(ConversationStep),
    /// Runs the file of a Connection without a swarm.
    Connect(ConnectStep),
    /// Writes a project file.
    Write(CaseFilePath, FileContent),
    /// Replaces a string in a project file.
    Replace(ReplaceText),
    /// Removes a project file or directory.
    Remove(CaseFilePath),
    /// Reloads the project.
    Reload,
    /// Waits for the next reload that no earlier step waited for.
    AwaitReload(AwaitReload),
    /// Answers the next approval request.
    Approve(ApproveStep),
    /// Ends the runtime or one node, like a process that crashes.
    Kill(SomeNode),
    /// Starts a new runtime or one node on the same state.
    Restart(SomeNode),
    /// Suspends a node.
    Pause(OneNode),
    /// Resumes one or all suspended nodes.
    Resume(SomeNode),
    /// Separates a node from its database.
    Partition(NodePartition),
    /// Ends the partition of one or all nodes.
    Heal(SomeNode),
    /// Waits for runtime events.
    Await(AwaitEvents),
    /// Starts a second runtime on the state of the running one.
    Second,
    /// Advances the clock.
    Advance(AdvanceClock),
}

impl StepAction {
    /// Returns the name of the action in the file.
    pub fn name(&self) -> &'static str {
        match self {
            StepAction::Send(_) => "send",
            StepAction::Call(_) => "call",
            StepAction::Compact(_) => "compact",
            StepAction::Undo(_) => "undo",
            StepAction::Connect(_) => "connect",
            StepAction::Write(..) => "write",
            StepAction::Replace(_) => "replace",
            StepAction::Remove(_) => "remove",
            StepAction::Reload => "reload",
            StepAction::AwaitReload(_) => "awaitReload",
            StepAction::Approve(_) => "approve",
            StepAction::Kill(_) => "kill",
            StepAction::Restart(_) => "restart",
            StepAction::Pause(_) => "pause",
            StepAction::Resume(_) => "resume",
            StepAction::Partition(_) => "partition",
            StepAction::Heal(_) => "heal",
            StepAction::Await(_) => "await",
            StepAction::Second => "second",
            StepAction::Advance(_) => "advance",
        }
    }
}

/// An input.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schemars(rename = "Send", transform = add_older_name)]
pub struct SendStep {
    /// Message text.
    pub input: String,
    /// Agent. Default: the entry agent.
    pub agent: Option<String>,
    /// Conversation key. Default: `main`.
    #[serde(alias = "instance")]
    pub instance_key: Option<String>,
    /// Wait until the turn is over. Default: true.
    #[serde(default = "default_true")]
    pub wait: bool,
    /// Handling of the input while a turn of its conversation runs. Default: `queue`.
    #[serde(default)]
    pub delivery: SendDelivery,
    /// Name of the saved result, for `${name.…}` in later steps.
    pub save_as: Option<String>,
}

/// Adds `instance`, the older name of `instanceKey`, to a schema.
fn add_older_name(schema: &mut Schema) {
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    if let Some(properties) = properties {
        let older = json!({
            "type": "string",
            "description": "Older name of `instanceKey`.",
            "deprecated": true,
        });
        properties.insert("instance".to_owned(), older);
    }
}

/// A tool call without a model.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schemars(rename = "Call", transform = add_older_name)]
pub struct CallStep {
    /// Tool name, as `resource__export`.
    pub tool: String,
    /// Arguments: an object, or any other value that a model could send.
    #[serde(default = "empty_arguments")]
    pub args: Value,
    /// Agent. Default: the entry agent.
    pub agent: Option<String>,
    /// Conversation key. Default: `main`.
    #[serde(alias = "instance")]
    pub instance_key: Option<String>,
    /// Name of the saved result, for `${name.…}` in later steps.
    pub save_as: Option<String>,
}

/// Runs the file of a Connection without a swarm, so its events start no turns.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schemars(rename = "Connect")]
pub struct ConnectStep {
    /// Name of the Connection.
    pub connection: String,
    /// Number of events after which the run ends. It also ends when the file ends.
    #[serde(default = "default_count")]
    pub events: usize,
    /// Lines of standard input.
    #[serde(default)]
    pub lines: Vec<String>,
    /// Answer to each event that has an `origin`.
    pub answer: Option<String>,
}

/// Replaces all occurrences of a string in a file.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schemars(rename = "Replace")]
pub struct ReplaceText {
    /// File path.
    pub path: CaseFilePath,
    /// String to replace. It must occur at least once.
    pub old: String,
    /// New string.
    pub new: String,
}

/// An answer to an approval request.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schemars(rename = "Approve")]
pub struct ApproveStep {
    /// Tool of the request. Default: any tool.
    pub tool: Option<String>,
    /// Decision.
    pub answer: ApprovalDecision,
    /// Scope of a remembered approval. Default: `call`.
    #[serde(default)]
    pub covers: DecisionScope,
    /// Delay before the answer. Default: none.
    pub after: Option<DurationText>,
    /// Older name of `after`, with a number of milliseconds.
    #[schemars(extend("deprecated" = true))]
    pub after_ms: Option<u64>,
}

impl ApproveStep {
    /// Returns the delay before the answer. Fails if both names are given.
    pub fn delay(&self) -> Result<Option<Duration>, String> {
        DurationText::one_of(self.after, self.after_ms, "after")
    }
}

/// Decision about an approval request, and its duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "Answer")]
pub enum ApprovalDecision {
    /// Allow the call.
    Allow,
    /// Same as `allow`.
    Once,
    /// Allow the call and equal calls in this conversation.
    Conversation,
    /// Allow the call and equal calls in the project.
    Always,
    /// Deny the call.
    Deny,
    /// Give no answer: the call waits until the test case kills the swarm or cancels the turn.
    Wait,
}

/// Scope of a remembered approval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "Cover")]
pub enum DecisionScope {
    /// Calls with the same arguments.
    #[default]
    Call,
    /// Command lines of the same programs.
    Program,
    /// All calls of the tool.
    Tool,
}

/// Waits for a number of runtime events, counted from the start of the test case.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schemars(rename = "Await")]
pub struct AwaitEvents {
    /// Event type, such as `turn.completed`.
    pub event: String,
    /// Only events of this agent.
    pub agent: Option<String>,
    /// Number of events. Default: 1.
    #[serde(default = "default_count")]
    pub count: usize,
    /// Time limit. Default: `5s`.
    pub within: Option<DurationText>,
    /// Older name of `within`, with a number of milliseconds.
    #[schemars(extend("deprecated" = true))]
    pub within_ms: Option<u64>,
}

/// Advances the clock.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schemars(rename = "Advance")]
pub struct AdvanceClock {
    /// Duration, at most one year.
    pub by: Option<DurationText>,
    /// Older form of `by`, in seconds.
    #[schemars(range(min = 1, max = 31_536_000), extend("deprecated" = true))]
    pub seconds: Option<u32>,
}

impl AdvanceClock {
    /// Returns the duration. Fails if it is missing, stated twice or too long.
    pub fn duration(&self) -> Result<Duration, String> {
        let duration = match (self.by, self.seconds) {
            (Some(by), None) => by.duration(),
            (None, Some(seconds)) => Duration::from_secs(seconds.into()),
            _ => return Err("`advance` needs `by`, such as `advance: {by: 1h}`".to_owned()),
        };
        if duration.is_zero() || duration > MAX_ADVANCE {
            return Err("`advance` takes a duration from `1ms` to `365d`".to_owned());
        }
        Ok(duration)
    }
}

impl AwaitEvents {
    /// Returns the time limit. Fails if both names are given.
    pub fn limit(&self) -> Result<Duration, String> {
        wait_limit(self.within, self.within_ms)
    }
}

/// Waits for a reload that a file change triggers.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct AwaitReload {
    /// Time limit. Default: `5s`.
    pub within: Option<DurationText>,
    /// Older name of `within`, with a number of milliseconds.
    #[schemars(extend("deprecated" = true))]
    pub within_ms: Option<u64>,
}

impl AwaitReload {
    /// Returns the time limit. Fails if both names are given.
    pub fn limit(&self) -> Result<Duration, String> {
        wait_limit(self.within, self.within_ms)
    }
}

/// Default for a boolean field: true.
pub(super) fn default_true() -> bool {
    true
}

/// Default arguments of a call: an empty object.
fn empty_arguments() -> Value {
    Value::Object(Map::new())
}

/// Default of a number of events.
fn default_count() -> usize {
    1
}

/// Returns the time limit of a wait. Fails if both names are given.
fn wait_limit(within: Option<DurationText>, within_ms: Option<u64>) -> Result<Duration, String> {
    let limit = DurationText::one_of(within, within_ms, "within")?;
    Ok(limit.unwrap_or(DEFAULT_WAIT))
}

/// A step: exactly one action, and optionally `expect`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schemars(rename = "Step")]
struct RawStep {
    send: Option<SendStep>,
    call: Option<CallStep>,
    compact: Option<ConversationStep>,
    undo: Option<ConversationStep>,
    connect: Option<ConnectStep>,
    write: Option<WriteFile>,
    replace: Option<ReplaceText>,
    remove: Option<RemoveFile>,
    reload: Option<EmptyOptions>,
    await_reload: Option<AwaitReload>,
    approve: Option<ApproveStep>,
    kill: Option<SomeNode>,
    restart: Option<SomeNode>,
    pause: Option<OneNode>,
    resume: Option<SomeNode>,
    partition: Option<NodePartition>,
    heal: Option<SomeNode>,
    #[serde(rename = "await")]
    await_: Option<AwaitEvents>,
    second: Option<EmptyOptions>,
    advance: Option<AdvanceClock>,
    /// Expected result.
    expect: Option<ValueMatcher>,
    /// With `--live`: criteria that the answer to a `send` must meet. A Model of the project judges
    /// them.
    judge: Option<String>,
}

/// A new or changed file.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Write")]
struct WriteFile {
    path: CaseFilePath,
    content: String,
    /// Unix permission bits in octal, as a string: `"755"`.
    mode: Option<String>,
}

/// A file or directory to remove.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Remove")]
struct RemoveFile {
    path: CaseFilePath,
}

/// An empty map, for actions without options.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Nothing")]
struct EmptyOptions {}

impl TryFrom<RawStep> for CaseStep {
    type Error = String;

    fn try_from(raw: RawStep) -> Result<CaseStep, String> {
        let write = raw.write.map(write_action).transpose()?;
        let actions = [
            raw.send.map(StepAction::Send),
            raw.call.map(StepAction::Call),
            raw.compact.map(StepAction::Compact),
            raw.undo.map(StepAction::Undo),
            raw.connect.map(StepAction::Connect),
            write,
            raw.replace.map(StepAction::Replace),
            raw.remove.map(|remove| StepAction::Remove(remove.path)),
            raw.reload.map(|EmptyOptions {}| StepAction::Reload),
            raw.await_reload.map(StepAction::AwaitReload),
            raw.approve.map(StepAction::Approve),
            raw.kill.map(StepAction::Kill),
            raw.restart.map(StepAction::Restart),
            raw.pause.map(StepAction::Pause),
            raw.resume.map(StepAction::Resume),
            raw.partition.map(StepAction::Partition),
            raw.heal.map(StepAction::Heal),
            raw.await_.map(StepAction::Await),
            raw.second.map(|EmptyOptions {}| StepAction::Second),
            raw.advance.map(StepAction::Advance),
        ];
        let mut given_actions = actions.into_iter().flatten();
        match (given_actions.next(), given_actions.next()) {
            (Some(action), None) => checked_step(action, raw.expect, raw.judge),
            _ => Err(
                "a step must have exactly one of these keys: `send`, `call`, `compact`, `undo`, \
                    `connect`, `write`, `replace`, `remove`, `reload`, `awaitReload`, `approve`, \
                    `kill`, `restart`, `pause`, `resume`, `partition`, `heal`, `await`, `second` \
                    or `advance`; it can also have `expect`"
                    .to_owned(),
            ),
        }
    }
}

/// Creates the action that writes a file. Fails if its mode is not octal.
fn write_action(write: WriteFile) -> Result<StepAction, String> {
    let mode = write.mode.as_deref().map(parse_mode).transpose()?;
    Ok(StepAction::Write(
        write.path,
        FileContent {
            bytes: write.content.into_bytes(),
            mode,
        },
    ))
}

/// Creates a step. Fails if `expect` or `judge` is set for an action without a result.
fn checked_step(
    action: StepAction,
    expect: Option<ValueMatcher>,
    judge: Option<String>,
) -> Result<CaseStep, String> {
    let answers = matches!(
        action,
        StepAction::Send(_)
            | StepAction::Call(_)
            | StepAction::Compact(_)
            | StepAction::Undo(_)
            | StepAction::Connect(_)
            | StepAction::Reload
            | StepAction::AwaitReload(_)
            | StepAction::Second
    );
    if expect.is_some() && !answers {
        return Err(
            "only send, call, compact, undo, connect, reload, awaitReload and second have a result \
                that `expect` can check"
                .to_owned(),
        );
    }
    check_durations(&action)?;
    if judge.is_some() && !matches!(action, StepAction::Send(SendStep { wait: true, .. })) {
        return Err("only a `send` that waits has an answer that `judge` can check".to_owned());
    }
    Ok(CaseStep {
        action,
        expect,
        judge,
    })
}

/// Fails if a duration of the action is missing or stated twice.
fn check_durations(action: &StepAction) -> Result<(), String> {
    match action {
        StepAction::Approve(approve) => approve.delay().map(drop),
        StepAction::Await(events) => events.limit().map(drop),
        StepAction::AwaitReload(reload) => reload.limit().map(drop),
        StepAction::Advance(by) => by.duration().map(drop),
        StepAction::Partition(partition) => partition.duration().map(drop),
        _ => Ok(()),
    }
}

impl JsonSchema for CaseStep {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        RawStep::schema_name()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        RawStep::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(value: Value) -> Result<CaseStep, String> {
        serde_json::from_value(value).map_err(|error| error.to_string())
    }

    #[test]
    fn steps_have_default_values() {
        let Ok(CaseStep {
            action: StepAction::Send(send),
            expect: None,
            judge: None,
        }) = read(json!({"send": {"input": "hi"}}))
        else {
            panic!("no send")
        };
        assert!(send.wait && send.agent.is_none() && send.instance_key.is_none());
        let Ok(CaseStep {
            action: StepAction::Await(await_),
            ..
        }) = read(json!({"await": {"event": "turn.completed"}}))
        else {
            panic!("no await")
        };
        assert_eq!(await_.count, 1);
        assert_eq!(await_.limit(), Ok(Duration::from_secs(5)));
        let Ok(CaseStep {
            action: StepAction::Call(call),
            ..
        }) = read(json!({"call": {"tool": "a__b"}}))
        else {
            panic!("no call")
        };
        assert_eq!(call.args, json!({}));
    }

    #[test]
    fn invalid_steps_have_error_messages() {
        let error = |value| read(value).expect_err("an error");
        insta::assert_snapshot!(
            [
                error(json!({"expect": {}})),
                error(json!({"send": {"input": "a"}, "kill": {}})),
                error(json!({"send": {"inptu": "a"}})),
                error(json!({"kill": {"hard": true}})),
                error(json!({"kill": {}, "expect": {"ok": true}})),
                error(json!({"pause": {}})),
                error(json!({"pause": {"node": 0}})),
                error(json!({"kill": {"node": "writer"}})),
                error(json!({"partition": {"node": 1, "how": "loud"}})),
                error(json!({"approve": {"answer": "maybe"}})),
                error(json!({"approve": {"answer": "deny", "after": "1s", "afterMs": 5}})),
                error(json!({"await": {"event": "a", "within": 5}})),
                error(json!({"advance": {}})),
                error(json!({"advance": {"by": "400d"}})),
                error(json!({"partition": {"node": 1, "for": "1s", "seconds": 1}})),
                error(json!({"write": {"path": "../x", "content": ""}})),
                error(json!({"send": {"input": "a"}, "expect": {"steps": {"$max": 3}}})),
            ]
            .join("\n")
        );
    }
}

//! What a case does, one thing after another.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::file::octal;
pub use super::nodes::{OneNode, Partition, SomeNode};
use super::{FileContent, ProjectPath};
use crate::matcher::Matcher;

/// One thing that is done, and what must come of it.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "RawStep")]
pub struct Step {
    /// What is done.
    pub action: Action,
    /// What must come of it.
    pub expect: Option<Matcher>,
    /// With `--live`: criteria that the answer must meet. A model of the project judges them.
    pub judge: Option<String>,
}

/// What is done.
#[derive(Debug, Clone)]
pub enum Action {
    /// Hands in an input.
    Send(Send),
    /// Calls a tool through dispatch, without a model.
    Call(Call),
    /// Runs the file of a Connection by itself.
    Connect(Connect),
    /// Writes a file of the project.
    Write(ProjectPath, FileContent),
    /// Replaces text in a file of the project.
    Replace(Replace),
    /// Removes a file or folder of the project.
    Remove(ProjectPath),
    /// Reads the bundle again.
    Reload,
    /// Waits for the next reload that nobody has waited for yet.
    AwaitReload(AwaitReload),
    /// Answers the next approval request.
    Approve(Approve),
    /// Ends the runtime, or one of its nodes, as if the process had died.
    Kill(SomeNode),
    /// Starts a fresh runtime on the same state, or one of its nodes.
    Restart(SomeNode),
    /// Lets a node stand still.
    Pause(OneNode),
    /// Lets a node go on that stands still, or all.
    Resume(SomeNode),
    /// Keeps a node from its database.
    Partition(Partition),
    /// Ends the partition of a node, or of all.
    Heal(SomeNode),
    /// Waits for runtime events.
    Await(Await),
    /// Starts another runtime on the same state, while the first one runs.
    Second,
    /// Puts the clock forward.
    Advance(Advance),
}

impl Action {
    /// As it is written.
    pub fn name(&self) -> &'static str {
        match self {
            Action::Send(_) => "send",
            Action::Call(_) => "call",
            Action::Connect(_) => "connect",
            Action::Write(..) => "write",
            Action::Replace(_) => "replace",
            Action::Remove(_) => "remove",
            Action::Reload => "reload",
            Action::AwaitReload(_) => "awaitReload",
            Action::Approve(_) => "approve",
            Action::Kill(_) => "kill",
            Action::Restart(_) => "restart",
            Action::Pause(_) => "pause",
            Action::Resume(_) => "resume",
            Action::Partition(_) => "partition",
            Action::Heal(_) => "heal",
            Action::Await(_) => "await",
            Action::Second => "second",
            Action::Advance(_) => "advance",
        }
    }
}

/// An input from outside.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Send {
    /// The text.
    pub input: String,
    /// The agent; the entry agent by default.
    pub agent: Option<String>,
    /// The instance's key; `main` by default.
    pub instance: Option<String>,
    /// Whether the step lasts until the turn is over.
    #[serde(default = "yes")]
    pub wait: bool,
    /// Keeps what came of it, for `${name.…}` in later steps.
    pub save_as: Option<String>,
}

/// A tool call without a model.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Call {
    /// The tool, as `resource__export`.
    pub tool: String,
    /// Its arguments: an object, or whatever a model might send instead.
    #[serde(default = "no_arguments")]
    pub args: Value,
    /// The agent; the entry agent by default.
    pub agent: Option<String>,
    /// The instance's key; `main` by default.
    pub instance: Option<String>,
    /// Keeps what came of it, for `${name.…}` in later steps.
    pub save_as: Option<String>,
}

/// The file of a Connection, run by itself: what it hands in starts no turns.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Connect {
    /// The name of the Connection.
    pub connection: String,
    /// It is run until it has handed in so many events, or has ended.
    #[serde(default = "one")]
    pub events: usize,
    /// Lines that somebody types meanwhile.
    #[serde(default)]
    pub lines: Vec<String>,
    /// What each event that has an `origin` is answered.
    pub answer: Option<String>,
}

/// Text that takes the place of other text, wherever that stands in the file.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Replace {
    /// The file.
    pub path: ProjectPath,
    /// What stands there at least once.
    pub old: String,
    /// What shall stand there.
    pub new: String,
}

/// An answer to an approval request.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Approve {
    /// The tool that asks; any by default.
    pub tool: Option<String>,
    /// The answer.
    pub answer: Answer,
    /// For what an answer holds that holds on: the call by default.
    #[serde(default)]
    pub covers: Cover,
    /// So long it takes somebody to read the question.
    #[serde(default)]
    pub after_ms: u64,
}

/// Yes, for how long, or no.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    /// The call runs.
    Allow,
    /// The same.
    Once,
    /// It runs, and the same call again in this conversation.
    Conversation,
    /// It runs, and the same call again in the project.
    Always,
    /// It is refused.
    Deny,
    /// Nobody has answered yet: the call waits until the case kills the swarm or cancels the turn.
    Wait,
}

/// For what an answer holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Cover {
    /// The same arguments.
    #[default]
    Call,
    /// Command lines of the same programs.
    Program,
    /// All calls of the tool.
    Tool,
}

/// A number of runtime events to wait for, counted since the case began.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Await {
    /// The type, such as `turn.completed`.
    pub event: String,
    /// Only events of that agent.
    pub agent: Option<String>,
    /// How many.
    #[serde(default = "one")]
    pub count: usize,
    /// How long to wait, in milliseconds.
    #[serde(default = "five_seconds")]
    pub within_ms: u64,
}

/// How far the clock is put forward.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Advance {
    /// In seconds, a year at most.
    #[schemars(range(min = 1, max = 31_536_000))]
    pub seconds: u32,
}

impl Await {
    /// How long to wait.
    pub fn within(&self) -> Duration {
        Duration::from_millis(self.within_ms)
    }
}

/// A reload that a change of a file brings about.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct AwaitReload {
    /// How long to wait, in milliseconds.
    #[serde(default = "five_seconds")]
    pub within_ms: u64,
}

fn yes() -> bool {
    true
}

fn no_arguments() -> Value {
    Value::Object(Map::new())
}

fn one() -> usize {
    1
}

fn five_seconds() -> u64 {
    5000
}

/// A step as it is written: one of the actions, and `expect`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schemars(rename = "Step")]
struct RawStep {
    send: Option<Send>,
    call: Option<Call>,
    connect: Option<Connect>,
    write: Option<Write>,
    replace: Option<Replace>,
    remove: Option<Remove>,
    reload: Option<Nothing>,
    await_reload: Option<AwaitReload>,
    approve: Option<Approve>,
    kill: Option<SomeNode>,
    restart: Option<SomeNode>,
    pause: Option<OneNode>,
    resume: Option<SomeNode>,
    partition: Option<Partition>,
    heal: Option<SomeNode>,
    #[serde(rename = "await")]
    await_: Option<Await>,
    second: Option<Nothing>,
    advance: Option<Advance>,
    /// What must come of it.
    expect: Option<Matcher>,
    /// With `--live`: criteria that the answer to a `send` must meet. A model of the project judges them.
    judge: Option<String>,
}

/// A new or changed file.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Write {
    path: ProjectPath,
    content: String,
    /// Unix permission bits in octal, as text: `"755"`.
    mode: Option<String>,
}

/// A file or folder that goes.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Remove {
    path: ProjectPath,
}

/// `{}`: there is nothing to say.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Nothing {}

impl TryFrom<RawStep> for Step {
    type Error = String;

    fn try_from(raw: RawStep) -> Result<Step, String> {
        let write = raw.write.map(action_of_write).transpose()?;
        let actions = [
            raw.send.map(Action::Send),
            raw.call.map(Action::Call),
            raw.connect.map(Action::Connect),
            write,
            raw.replace.map(Action::Replace),
            raw.remove.map(|remove| Action::Remove(remove.path)),
            raw.reload.map(|Nothing {}| Action::Reload),
            raw.await_reload.map(Action::AwaitReload),
            raw.approve.map(Action::Approve),
            raw.kill.map(Action::Kill),
            raw.restart.map(Action::Restart),
            raw.pause.map(Action::Pause),
            raw.resume.map(Action::Resume),
            raw.partition.map(Action::Partition),
            raw.heal.map(Action::Heal),
            raw.await_.map(Action::Await),
            raw.second.map(|Nothing {}| Action::Second),
            raw.advance.map(Action::Advance),
        ];
        let mut given = actions.into_iter().flatten();
        match (given.next(), given.next()) {
            (Some(action), None) => step(action, raw.expect, raw.judge),
            _ => Err(
                "a step has exactly one of send, call, connect, write, replace, remove, reload, awaitReload, approve, kill, \
                      restart, pause, resume, partition, heal, await, second and advance, and may have `expect` beside it"
                    .to_owned(),
            ),
        }
    }
}

fn action_of_write(write: Write) -> Result<Action, String> {
    let mode = write.mode.as_deref().map(octal).transpose()?;
    Ok(Action::Write(
        write.path,
        FileContent {
            bytes: write.content.into_bytes(),
            mode,
        },
    ))
}

fn step(action: Action, expect: Option<Matcher>, judge: Option<String>) -> Result<Step, String> {
    let answers = matches!(
        action,
        Action::Send(_)
            | Action::Call(_)
            | Action::Connect(_)
            | Action::Reload
            | Action::AwaitReload(_)
            | Action::Second
    );
    if expect.is_some() && !answers {
        return Err(
            "only send, call, connect, reload, awaitReload and second bring something back that `expect` can look at"
                .to_owned(),
        );
    }
    if judge.is_some() && !matches!(action, Action::Send(Send { wait: true, .. })) {
        return Err("only a `send` that waits has an answer that `judge` can look at".to_owned());
    }
    Ok(Step {
        action,
        expect,
        judge,
    })
}

impl JsonSchema for Step {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        RawStep::schema_name()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        RawStep::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(value: Value) -> Result<Step, String> {
        serde_json::from_value(value).map_err(|error| error.to_string())
    }

    #[test]
    fn defaults_are_those_of_the_format() {
        let Ok(Step {
            action: Action::Send(send),
            expect: None,
            judge: None,
        }) = read(json!({"send": {"input": "hi"}}))
        else {
            panic!("no send")
        };
        assert!(send.wait && send.agent.is_none() && send.instance.is_none());
        let Ok(Step {
            action: Action::Await(await_),
            ..
        }) = read(json!({"await": {"event": "turn.completed"}}))
        else {
            panic!("no await")
        };
        assert_eq!((await_.count, await_.within()), (1, Duration::from_secs(5)));
        let Ok(Step {
            action: Action::Call(call),
            ..
        }) = read(json!({"call": {"tool": "a__b"}}))
        else {
            panic!("no call")
        };
        assert_eq!(call.args, json!({}));
    }

    #[test]
    fn mistakes_are_named() {
        let error = |value| read(value).expect_err("a mistake");
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
                error(json!({"write": {"path": "../x", "content": ""}})),
                error(json!({"send": {"input": "a"}, "expect": {"steps": {"$max": 3}}})),
            ]
            .join("\n")
        );
    }
}

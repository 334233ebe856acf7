//! Model answers as scripted replies.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use goondan::ids::InstanceId;
use goondan::internal::ANSWER_TOOL;
use goondan::message::{Message, MessageRole, MessageSource, ToolCall, ToolResultPart};
use goondan::ports::model::ModelFinishReason;
use goondan::ports::tool::ToolCallStatus;
use goondan::spec::Bundle;
use goondan::spec::kinds::AnswerMode;
use serde_json::{Map, Value, json};

use super::history::{self, CaseHistory, RecordedStep};
use super::{RecordingError, RecordingSource, turn_name};

/// Answers of all steps. Their calls have new ids.
pub(super) struct RecordedReplies {
    steps: Vec<RecordedAnswer>,
}

/// A step with its answer and calls.
struct RecordedAnswer {
    instance: InstanceId,
    message: Arc<Message>,
    calls: Vec<RecordedCall>,
    /// The reason why the answer is incomplete; none for a complete answer.
    cut: Option<ModelFinishReason>,
    /// The model submitted its answer through a tool, which scripted models do not have.
    is_submitted: bool,
}

/// A recorded call with its result.
pub(super) struct RecordedCall {
    /// Call id in the test case.
    pub(super) id: String,
    /// Original step id and call id.
    pub(super) key: (String, String),
    pub(super) tool: String,
    input: Value,
    pub(super) result: ToolResultPart,
}

impl RecordedReplies {
    /// Collects the answers of all steps. Fails if an answer was replaced or removed since.
    pub(super) fn from_history(
        history: &CaseHistory,
        source: &RecordingSource<'_>,
    ) -> Result<Self, RecordingError> {
        let mut number = 0;
        let mut steps = Vec::new();
        for step in &history.steps {
            let messages = source
                .conversations
                .get(&step.instance)
                .map(Vec::as_slice)
                .unwrap_or_default();
            let message = answer(history, step, messages)?;
            let mut calls = Vec::new();
            for call in message.tool_calls() {
                number += 1;
                calls.push(recorded_call(history, step, call, number, messages)?);
            }
            let is_submitted = is_submitted(source.bundle, step, &calls);
            steps.push(RecordedAnswer {
                instance: step.instance.clone(),
                message,
                calls,
                cut: step.cut.clone(),
                is_submitted,
            });
        }
        Ok(RecordedReplies { steps })
    }

    /// Returns the replies by agent. Agents with several instances have replies by instance,
    /// because the instances may run concurrently.
    pub(super) fn models(&self, history: &CaseHistory) -> Value {
        let mut instances: BTreeMap<&str, BTreeSet<&InstanceId>> = BTreeMap::new();
        for step in &history.steps {
            instances
                .entry(&step.instance.agent)
                .or_default()
                .insert(&step.instance);
        }
        let mut models = Map::new();
        for step in &self.steps {
            let agent = step.instance.agent.as_str();
            let is_alone = instances
                .get(agent)
                .is_none_or(|instances| instances.len() == 1);
            let name = if is_alone {
                agent.to_owned()
            } else {
                step.instance.to_string()
            };
            let list = models.entry(name).or_insert_with(|| json!([]));
            if let Value::Array(list) = list {
                list.push(step.reply());
            }
        }
        Value::Object(models)
    }

    /// Returns all calls in order.
    pub(super) fn calls(&self) -> impl Iterator<Item = &RecordedCall> {
        self.steps
            .iter()
            .filter(|step| !step.is_submitted)
            .flat_map(|step| &step.calls)
    }

    /// Returns the number of conversations with tool calls.
    pub(super) fn conversation_count(&self) -> usize {
        let calling = self.steps.iter().filter(|step| !step.calls.is_empty());
        calling
            .map(|step| &step.instance)
            .collect::<BTreeSet<_>>()
            .len()
    }

    /// Returns the status of each call, without its output.
    pub(super) fn call_statuses(&self) -> Vec<Value> {
        let call_result = |call: &RecordedCall| {
            let mut view =
                json!({"toolCallId": call.id, "toolName": call.tool, "status": call.result.status});
            if let Some(error) = &call.result.error {
                view["error"] = json!({"code": error.code});
            }
            view
        };
        self.calls().map(call_result).collect()
    }

    /// Returns the tools that each agent called, in order.
    pub(super) fn calls_by_agent(&self) -> BTreeMap<&str, Vec<&str>> {
        let mut calls: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        // Several conversations of an agent have no fixed order.
        let mut owners: BTreeMap<&str, BTreeSet<&InstanceId>> = BTreeMap::new();
        for step in self
            .steps
            .iter()
            .filter(|step| !step.is_submitted && !step.calls.is_empty())
        {
            let agent = step.instance.agent.as_str();
            owners.entry(agent).or_default().insert(&step.instance);
            calls
                .entry(agent)
                .or_default()
                .extend(step.calls.iter().map(|call| call.tool.as_str()));
        }
        calls.retain(|agent, _| owners.get(agent).is_some_and(|owners| owners.len() == 1));
        calls
    }
}

impl RecordedAnswer {
    /// Returns the scripted reply.
    fn reply(&self) -> Value {
        if self.is_submitted {
            let answer = self
                .calls
                .iter()
                .map(|call| call.input.to_string())
                .collect::<String>();
            return json!({"text": escape_template(&answer)});
        }
        let text = self.message.text();
        let mut reply = Map::new();
        let reasoning = self.message.reasoning();
        if !reasoning.is_empty() {
            reply.insert("reasoning".to_owned(), json!(escape_template(&reasoning)));
        }
        if !text.is_empty() || self.calls.is_empty() {
            reply.insert("text".to_owned(), json!(escape_template(&text)));
        }
        let is_plain = self.calls.iter().all(|call| call.input.is_object());
        let call_json = |call: &RecordedCall| {
            if is_plain {
                json!({"id": call.id, "tool": call.tool, "args": escape_templates(&call.input)})
            } else {
                json!({"id": call.id, "tool": call.tool, "args": as_written(&call.input)})
            }
        };
        if !self.calls.is_empty() {
            let calls: Value = self.calls.iter().map(call_json).collect();
            reply.insert(
                if is_plain { "calls" } else { "rawCalls" }.to_owned(),
                calls,
            );
        }
        if let Some(reason) = &self.cut {
            reply.insert("finishReason".to_owned(), json!(reason));
        }
        Value::Object(reply)
    }
}

/// Returns the model's answer in a step.
fn answer(
    history: &CaseHistory,
    step: &RecordedStep,
    messages: &[Arc<Message>],
) -> Result<Arc<Message>, RecordingError> {
    let is_answer = |message: &&Arc<Message>| {
        message.data.role == MessageRole::Assistant
            && matches!(&message.source, MessageSource::Assistant { step_id } if *step_id == step.id)
    };
    let turn = history.turn(&step.turn_id);
    let answer = messages.iter().find(is_answer).cloned().ok_or_else(|| {
        let turn = turn.map_or_else(|| step.instance.to_string(), turn_name);
        RecordingError(format!(
            "A model answer in {turn} is no longer part of the conversation: it was summarized, \
                replaced or removed."
        ))
    })?;
    if let Some(turn) = turn {
        history::refuse_files(turn, &answer)?;
    }
    Ok(answer)
}

/// Returns a call with its result.
fn recorded_call(
    history: &CaseHistory,
    step: &RecordedStep,
    call: &ToolCall,
    number: usize,
    messages: &[Arc<Message>],
) -> Result<RecordedCall, RecordingError> {
    let step_messages = messages.iter().filter(
        |message| matches!(&message.source, MessageSource::Tool { step_id } if *step_id == step.id),
    );
    let step_results = step_messages
        .flat_map(|message| message.tool_results().map(move |result| (message, result)));
    let Some((message, result)) = step_results
        .into_iter()
        .find(|(_, result)| result.tool_call_id == call.tool_call_id)
    else {
        return Err(RecordingError(format!(
            "The result of {} in the conversation of {} is no longer stored.",
            call.tool_name, step.instance
        )));
    };
    if let Some(turn) = history.turn(&step.turn_id) {
        history::refuse_files(turn, message)?;
    }
    Ok(RecordedCall {
        id: format!("c{number}"),
        key: (step.id.clone(), call.tool_call_id.clone()),
        tool: call.tool_name.clone(),
        input: call.input.clone(),
        result: result.clone(),
    })
}

/// Returns true if the step's only call submits the answer of an agent that also accepts a plain
/// answer.
fn is_submitted(bundle: &Bundle, step: &RecordedStep, calls: &[RecordedCall]) -> bool {
    let agent = bundle
        .agents()
        .values()
        .find(|agent| agent.id.name == step.instance.agent);
    let output = agent.and_then(|agent| agent.spec.output.as_ref());
    let [call] = calls else { return false };
    call.tool == ANSWER_TOOL
        && call.result.status == ToolCallStatus::Ok
        && output.is_some_and(|output| output.mode != Some(AnswerMode::Tool))
}

/// Returns the arguments as the model wrote them, as far as they are stored.
fn as_written(input: &Value) -> String {
    match input {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Escapes `text`, so that it renders to itself as a template.
fn escape_template(text: &str) -> String {
    let mut escaped = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('{') {
        let (before, after) = rest.split_at(at);
        escaped.push_str(before);
        match after
            .get(..2)
            .filter(|mark| ["{{", "{%", "{#"].contains(mark))
        {
            Some(mark) => {
                escaped.push_str(&format!("{{{{ \"{mark}\" }}}}"));
                rest = &after[2..];
            }
            None => {
                escaped.push('{');
                rest = &after[1..];
            }
        }
    }
    escaped.push_str(rest);
    escaped
}

/// Escapes all strings in `value` like [`literal`].
fn escape_templates(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(escape_template(text)),
        Value::Array(items) => items.iter().map(escape_templates).collect(),
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| (key.clone(), escape_templates(value)))
            .collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn template_syntax_in_recorded_text_is_escaped() {
        assert_eq!(
            escape_template("plain {} text { x }"),
            "plain {} text { x }"
        );
        assert_eq!(escape_template("{{ input }}"), "{{ \"{{\" }} input }}");
        assert_eq!(
            escape_template("a {% b {{{"),
            "a {{ \"{%\" }} b {{ \"{{\" }}{"
        );
        assert_eq!(
            escape_templates(&json!({"a": ["{#"]})),
            json!({"a": ["{{ \"{#\" }}"]})
        );
    }
}

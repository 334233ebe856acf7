//! The context of a layer.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use serde_json::{Value, json};

use super::conversation::Conversation;
use super::session::RegisteredSession;
use super::{MessageResources, base_call_request};
use crate::sdk::context::{CallLogger, ToolContext};
use crate::wire::{
    AgentRequest, JsonObject, LayerChanges, LayerRun, MessageResult, NextRequest, NextResult,
    SendRequest, ToolError, code, operation,
};

/// Makes message ids unique.
static EMITTED: AtomicU64 = AtomicU64::new(0);

/// The context of a layer's run, with its operations.
///
/// A layer may change `metadata`. It may also change `args` around tool calls, and `tool_catalog`
/// around steps.
pub struct LayerContext<'a> {
    session: &'a RegisteredSession,
    base: ToolContext,
    fields: JsonObject,
    /// Data shared by the layers of one turn, step or call.
    pub metadata: JsonObject,
    /// The arguments of a tool call; they are validated after the layers.
    pub args: Value,
    /// The tools offered to the model in a step: `name`, `description`, `parameters`. Only these
    /// tools can be called.
    pub tool_catalog: Vec<Value>,
    /// The values of `metadata`, `args` and the tool catalog that the host has.
    known: JsonObject,
    emitted: Vec<Value>,
    has_next: bool,
    /// An error that ends the layer regardless of its return value.
    broken: Option<ToolError>,
}

impl<'a> LayerContext<'a> {
    pub(super) fn new(
        session: &'a RegisteredSession,
        run: LayerRun,
        means: MessageResources,
    ) -> Self {
        let base = means.context(base_call_request(&session.registration, Some(&run)));
        let mut fields = run.context;
        let metadata = match fields.remove("metadata") {
            Some(Value::Object(metadata)) => metadata,
            _ => JsonObject::new(),
        };
        let tool_catalog = match fields.remove("toolCatalog") {
            Some(Value::Array(catalog)) => Some(catalog),
            _ => None,
        };
        let args = fields.remove("args");
        let mut known = JsonObject::new();
        known.insert("metadata".to_owned(), Value::Object(metadata.clone()));
        known.extend(args.clone().map(|args| ("args".to_owned(), args)));
        known.extend(
            tool_catalog
                .as_deref()
                .map(|catalog| ("toolCatalog".to_owned(), names(catalog))),
        );
        LayerContext {
            session,
            base,
            fields,
            metadata,
            args: args.unwrap_or_default(),
            tool_catalog: tool_catalog.unwrap_or_default(),
            known,
            emitted: Vec::new(),
            has_next: false,
            broken: None,
        }
    }

    /// Returns the name of the agent.
    pub fn agent_name(&self) -> &str {
        self.base.agent_name()
    }

    /// Returns the key of the conversation.
    pub fn instance_key(&self) -> &str {
        self.base.instance_key()
    }

    /// Returns the id of the turn.
    pub fn turn_id(&self) -> &str {
        self.base.turn_id()
    }

    /// Returns the trace id.
    pub fn trace_id(&self) -> &str {
        self.base.trace_id()
    }

    /// Returns any other field of the context, such as `inputEvent`, `runtime`, `stepIndex` or
    /// `toolName`. Returns null if this kind of layer does not have it.
    pub fn field(&self, name: &str) -> &Value {
        self.fields.get(name).unwrap_or(&Value::Null)
    }

    /// Returns the input of the turn, around turns and steps.
    pub fn input(&self) -> &str {
        self.field("inputEvent")["input"]
            .as_str()
            .unwrap_or_default()
    }

    /// Returns the name of the tool, around a tool call.
    pub fn tool_name(&self) -> &str {
        self.field("toolName").as_str().unwrap_or_default()
    }

    /// Returns the index of the step in the turn, around steps and tool calls.
    pub fn step_index(&self) -> Option<u64> {
        self.field("stepIndex").as_u64()
    }

    /// Returns the logger of this run.
    pub fn logger(&self) -> CallLogger<'_> {
        self.base.logger()
    }

    /// Returns true if the turn was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.base.is_cancelled()
    }

    /// Blocks for `duration`.
    ///
    /// # Errors
    ///
    /// Fails as soon as the turn is cancelled.
    pub fn sleep(&self, duration: Duration) -> Result<(), ToolError> {
        self.base.sleep(duration)
    }

    /// Returns the conversation with this layer's own changes, around turns and steps.
    pub fn conversation(&self) -> Conversation {
        let mut conversation = self.session.conversation().clone();
        self.emitted
            .iter()
            .cloned()
            .for_each(|event| conversation.push(event));
        conversation
    }

    /// Changes the conversation, around turns and steps. Event forms: `{type: append, message}`,
    /// `{type: replace, targetId, message}`, `{type: remove, targetId}`, `{type: truncate}`. A
    /// message needs `data: {role, content}`.
    ///
    /// # Errors
    ///
    /// Fails if the event is invalid, or not allowed in this layer.
    pub fn emit(&mut self, mut event: Value) -> Result<(), ToolError> {
        let wrong = |what: &str| ToolError::new(what).code(code::RESULT);
        if self.fields.contains_key("toolName") {
            return Err(wrong("layers around tool calls cannot emit message events"));
        }
        let kind = event["type"].as_str().unwrap_or_default().to_owned();
        if !["append", "replace", "remove", "truncate"].contains(&kind.as_str()) {
            return Err(wrong(
                "the type of a message event must be append, replace, remove or truncate",
            ));
        }
        if kind == "append" || kind == "replace" {
            let target = event["targetId"].clone();
            let message = &mut event["message"];
            let has_data =
                message["data"]["role"].is_string() && !message["data"]["content"].is_null();
            if !has_data {
                return Err(wrong("a message needs `data: {role, content}`"));
            }
            if let Some(text) = message["data"]["content"].as_str() {
                message["data"]["content"] = json!([{"type": "text", "text": text}]);
            }
            if message["id"].is_null() {
                message["id"] = if target.is_string() {
                    target
                } else {
                    self.new_id().into()
                };
            }
            if message["metadata"].is_null() {
                message["metadata"] = json!({});
            }
        }
        self.emitted.push(event);
        Ok(())
    }

    /// Appends a text message.
    ///
    /// # Errors
    ///
    /// Fails like [`LayerContext::emit`].
    pub fn append(&mut self, role: &str, text: impl Into<String>) -> Result<(), ToolError> {
        self.emit(
            json!({"type": "append", "message": {"data": {"role": role, "content": text.into()}}}),
        )
    }

    /// Sends a request to another agent and waits for its answer, around turns and steps: `{target,
    /// response}`.
    ///
    /// # Errors
    ///
    /// Fails if the agent does not exist, its turn fails or times out, requests form a cycle, or
    /// this turn ends.
    pub fn request(&self, question: AgentRequest) -> Result<Value, ToolError> {
        self.request_host(operation::LAYER_REQUEST, &question)
    }

    /// Sends a message to another agent, around turns and steps: `{accepted}`.
    ///
    /// # Errors
    ///
    /// Fails if the agent does not exist, or this turn ends.
    pub fn send(&self, message: SendRequest) -> Result<Value, ToolError> {
        self.request_host(operation::LAYER_SEND, &message)
    }

    /// Runs the wrapped operation, once, and waits for its result.
    ///
    /// # Errors
    ///
    /// Fails if the wrapped operation fails or has already run.
    #[expect(
        clippy::should_implement_trait,
        reason = "it is what all languages call it, and no iterator"
    )]
    pub fn next(&mut self) -> Result<Value, ToolError> {
        if std::mem::replace(&mut self.has_next, true) {
            let error = ToolError::new("`next` was called a second time").code(code::NEXT);
            let error = error.suggest("Call `next` once, and keep its result.");
            self.broken = Some(error.clone());
            return Err(error);
        }
        let changes = self.changes();
        let reply = self.request_host(
            operation::LAYER_NEXT,
            &NextRequest {
                changes,
                state: self.session.state.news(),
                listens: self.session.listens(),
            },
        )?;
        let NextResult {
            result,
            metadata,
            news,
        } = serde_json::from_value(reply)?;
        self.session.apply_news(news)?;
        self.known
            .insert("metadata".to_owned(), Value::Object(metadata.clone()));
        self.metadata = metadata;
        Ok(result)
    }

    /// Converts the return value of the layer to the message for the host.
    pub(super) fn end(mut self, returned: Result<Value, ToolError>) -> MessageResult {
        let returned = match self.broken.take() {
            Some(error) => Err(error),
            None => returned,
        };
        let (state, listens) = (self.session.state.news(), self.session.listens());
        match returned {
            Ok(result) => MessageResult {
                result,
                changes: self.changes(),
                state,
                listens,
                error: None,
            },
            Err(error) => MessageResult {
                error: Some(error),
                state,
                listens,
                ..MessageResult::default()
            },
        }
    }

    /// Sends the request `name` to the host and blocks until its reply.
    fn request_host(&self, name: &str, payload: &impl Serialize) -> Result<Value, ToolError> {
        pollster::block_on(self.base.request_host(name, payload))
    }

    /// Returns the changes that the host does not have yet.
    fn changes(&mut self) -> LayerChanges {
        let now = [
            ("metadata", Value::Object(self.metadata.clone())),
            ("args", self.args.clone()),
            ("toolCatalog", names(&self.tool_catalog)),
        ];
        let mut fields = JsonObject::new();
        for (name, value) in now {
            if self.known.get(name).is_some_and(|known| *known != value) {
                self.known.insert(name.to_owned(), value.clone());
                fields.insert(name.to_owned(), value);
            }
        }
        LayerChanges {
            fields,
            events: std::mem::take(&mut self.emitted),
        }
    }

    /// Returns a unique message id.
    fn new_id(&self) -> String {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_millis());
        let number = EMITTED.fetch_add(1, Ordering::Relaxed);
        format!(
            "{}-{}-{now}-{number}",
            self.session.registration.extension,
            self.turn_id()
        )
    }
}

/// Reduces a catalog to its tool names, which identify the items.
fn names(catalog: &[Value]) -> Value {
    catalog
        .iter()
        .map(|item| json!({"name": item["name"]}))
        .collect()
}

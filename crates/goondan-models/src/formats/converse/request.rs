//! Encodes requests of Amazon's Converse API.

use std::collections::BTreeSet;

use goondan_core::JsonObject;
use goondan_core::message::{Message, MessageRole};
use goondan_core::ports::model::ToolDefinition;
use goondan_spec::sent_schema::{ProviderWireFormat, sent_schema};
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use serde_json::{Value, json};
use url::form_urlencoded::byte_serialize;

use super::blocks::{
    ConverseOpaqueOwner, assistant_blocks, file_blocks, is_reasoning, result_block, user_blocks,
};
use super::model::{BedrockModel, ModelFamily};
use super::stream::ConverseDecoder;
use crate::formats::call_ids::plain_name;
use crate::formats::claude::{
    SamplingParams, ThinkingPlan, accepted_sampling, add_step, max_tokens,
};
use crate::formats::output_schema::output_schema;
use crate::formats::{
    CacheMark, DraftMessage, EventFraming, FORMER_TOOL_DESCRIPTION, ModelTarget, OpenTurn,
    RequestContext, StreamDecoder, WireFormat, WireMessages,
};

/// Cache point after the last block of a user message.
const MESSAGE_MARK: CacheMark = CacheMark {
    role: "user",
    bytes_from_end: "]}".len(),
    text: r#",{"cachePoint":{"type":"default"}}"#,
};

/// Converse for one model.
pub(crate) struct ConverseFormat {
    target: ModelTarget,
    model: BedrockModel,
}

impl ConverseFormat {
    pub(crate) fn new(target: ModelTarget) -> Self {
        ConverseFormat {
            model: BedrockModel::from_id(&target.model),
            target,
        }
    }

    fn owner(&self) -> ConverseOpaqueOwner<'_> {
        ConverseOpaqueOwner {
            family: self.target.family(),
            publisher: &self.model.publisher,
        }
    }

    /// Returns `toolConfig`, without which a history with tool calls is refused.
    fn tool_config(&self, context: &RequestContext<'_>) -> Option<Value> {
        let mut tools: Vec<Value> = match context.tools {
            [] => former_tools(context.called_tools),
            tools => tools.iter().map(encode_tool).collect(),
        };
        if tools.is_empty() {
            return None;
        }
        if self.target.prompt_caching && self.model.caches_all() {
            tools.push(cache_point());
        }
        Some(json!({"tools": tools}))
    }

    /// Returns the thinking fields for Claude; empty for other models, which get
    /// [`BedrockModel::effort_fields`].
    fn thinking_plan(&self, context: &RequestContext<'_>) -> ThinkingPlan {
        match self.model.as_claude() {
            Some(claude) => ThinkingPlan::for_turn(Some(claude), context.effort, context.open_turn),
            None => ThinkingPlan::default(),
        }
    }

    /// Encodes the limit of tokens and the sampling settings.
    fn inference_config(&self, context: &RequestContext<'_>, plan: &ThinkingPlan) -> JsonObject {
        let params = context.params;
        let mut config = JsonObject::new();
        let mut set = |key: &str, value: Option<Value>| {
            if let Some(value) = value {
                config.insert(key.to_owned(), value);
            }
        };
        if !self.model.refuses_limits(context.effort) {
            let limit = match self.model.as_claude() {
                None => params.max_tokens.unwrap_or(self.model.default_max_tokens()),
                claude => max_tokens(claude, params.max_tokens, plan.budget),
            };
            set("maxTokens", Some(limit.into()));
            let sampling = self.accepted_sampling(context, plan);
            set("temperature", sampling.temperature.map(Value::from));
            set("topP", sampling.top_p.map(Value::from));
        }
        let stop: Vec<_> = params
            .stop
            .iter()
            .filter(|text| !text.trim().is_empty())
            .collect();
        let takes_stop = !stop.is_empty() && !self.model.refuses_sampling();
        set("stopSequences", takes_stop.then(|| json!(stop)));
        config
    }

    /// Returns the sampling settings that the model accepts.
    fn accepted_sampling(
        &self,
        context: &RequestContext<'_>,
        plan: &ThinkingPlan,
    ) -> SamplingParams {
        if self.model.refuses_sampling() {
            SamplingParams::default()
        } else {
            accepted_sampling(self.model.as_claude(), context.params, plan.is_thinking())
        }
    }

    /// Returns `additionalModelRequestFields`: what Converse has no field for.
    fn model_fields(&self, context: &RequestContext<'_>, plan: ThinkingPlan) -> JsonObject {
        let top_k = self.accepted_sampling(context, &plan).top_k;
        let mut fields = JsonObject::new();
        let mut set = |key: &str, value: Value| fields.insert(key.to_owned(), value);
        if let Some(thinking) = plan.thinking {
            set("thinking", thinking);
        }
        if let Some(effort) = plan.effort {
            set("output_config", json!({"effort": effort}));
        }
        match (self.model.family, top_k) {
            (ModelFamily::Claude(_), Some(top_k)) => {
                set("top_k", top_k.into());
            }
            (ModelFamily::Nova { .. }, Some(top_k)) => {
                set("inferenceConfig", json!({"topK": top_k}));
            }
            _ => {}
        }
        if let Some((key, value)) = context
            .effort
            .and_then(|effort| self.model.effort_fields(effort))
        {
            set(key, value);
        }
        fields
    }
}

impl WireFormat for ConverseFormat {
    fn wire_format(&self) -> ProviderWireFormat {
        ProviderWireFormat::Converse
    }

    fn path(&self) -> String {
        let model: String = byte_serialize(self.target.model.as_bytes()).collect();
        format!("model/{model}/converse-stream")
    }

    fn add_headers(&self, key: Option<&str>, headers: &mut HeaderMap) -> Result<(), String> {
        let Some(key) = key else { return Ok(()) };
        let bearer = format!("Bearer {key}");
        let mut value = HeaderValue::from_str(&bearer).map_err(|error| error.to_string())?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
        Ok(())
    }

    fn framing(&self) -> EventFraming {
        EventFraming::AmazonEvents
    }

    fn fields(&self, context: &RequestContext<'_>) -> JsonObject {
        let plan = self.thinking_plan(context);
        let inference = self.inference_config(context, &plan);
        let model_fields = self.model_fields(context, plan);
        let mut fields = JsonObject::new();
        let mut set = |key: &str, value: Option<Value>| {
            if let Some(value) = value {
                fields.insert(key.to_owned(), value);
            }
        };
        let object = |object: JsonObject| (!object.is_empty()).then_some(Value::Object(object));
        set("inferenceConfig", object(inference));
        set("additionalModelRequestFields", object(model_fields));
        set("outputConfig", context.output.map(output_config));
        set("toolConfig", self.tool_config(context));
        fields
    }

    fn system_field(
        &self,
        system: Option<&str>,
        notes: &[String],
    ) -> Option<(&'static str, Value)> {
        let texts = system.into_iter().chain(notes.iter().map(String::as_str));
        let mut blocks: Vec<Value> = texts.map(|text| json!({"text": text})).collect();
        if blocks.is_empty() {
            return None;
        }
        if self.target.prompt_caching && self.model.caches_system() {
            blocks.push(cache_point());
        }
        Some(("system", Value::Array(blocks)))
    }

    fn add_message(&self, message: &Message, messages: &mut WireMessages) {
        match message.data.role {
            MessageRole::System => messages.add_note(message),
            MessageRole::User => {
                let blocks = user_blocks(message);
                if !blocks.is_empty() && !ends_with_results(messages) {
                    messages.open_turn = OpenTurn::None;
                }
                messages.push("user", blocks, true);
            }
            MessageRole::Assistant => {
                let blocks = assistant_blocks(message, self.owner());
                add_step(self.model.as_claude(), blocks, is_reasoning, messages);
            }
            MessageRole::Tool => {
                let has_status = self.model.takes_result_status();
                let results = message
                    .tool_results()
                    .map(|result| result_block(result, has_status));
                messages.push("user", results.collect(), true);
                messages.hold_files(file_blocks(message));
            }
        }
    }

    fn close(&self, draft: &DraftMessage) -> Value {
        let mut content = draft.content.clone();
        // Results come first in a message.
        content.sort_by_key(|block| !is_result(block));
        json!({"role": draft.role, "content": content})
    }

    fn cache_mark(&self) -> Option<CacheMark> {
        let caches = self.target.prompt_caching && self.model.caches_all();
        caches.then_some(MESSAGE_MARK)
    }

    fn decoder(&self) -> Box<dyn StreamDecoder> {
        Box::new(ConverseDecoder::new(&self.model.publisher))
    }
}

/// Returns true if following text joins tool results, so that it does not end the turn.
fn ends_with_results(messages: &WireMessages) -> bool {
    messages
        .open
        .as_ref()
        .is_some_and(|draft| draft.content.iter().any(is_result))
}

/// Returns true if `block` is a tool result.
fn is_result(block: &Value) -> bool {
    block.get("toolResult").is_some()
}

fn cache_point() -> Value {
    json!({"cachePoint": {"type": "default"}})
}

/// Encodes the description of a tool.
fn encode_tool(definition: &ToolDefinition) -> Value {
    let schema = sent_schema(ProviderWireFormat::Converse, &definition.parameters);
    tool_spec(&definition.name, &definition.description, schema)
}

/// Returns stubs of tools that the conversation has called and that the agent no longer has.
fn former_tools(names: &BTreeSet<String>) -> Vec<Value> {
    let names: BTreeSet<String> = names.iter().map(|name| plain_name(name)).collect();
    let stub = |name| tool_spec(name, FORMER_TOOL_DESCRIPTION, json!({"type": "object"}));
    names.iter().map(|name| stub(name)).collect()
}

fn tool_spec(name: &str, description: &str, schema: Value) -> Value {
    let mut spec = json!({"name": name, "inputSchema": {"json": schema}});
    // Bedrock refuses an empty description.
    if !description.trim().is_empty() {
        spec["description"] = description.into();
    }
    json!({"toolSpec": spec})
}

/// Converse takes the schema as text.
fn output_config(schema: &Value) -> Value {
    let schema = output_schema(schema).to_string();
    let structure = json!({"jsonSchema": {"name": "answer", "schema": schema}});
    json!({"textFormat": {"type": "json_schema", "structure": structure}})
}

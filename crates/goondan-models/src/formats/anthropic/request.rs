//! Encodes requests of Anthropic's messages API.

use std::collections::BTreeSet;

use goondan_core::JsonObject;
use goondan_core::message::{Message, MessageRole};
use goondan_core::ports::model::ToolDefinition;
use goondan_spec::sent_schema::{ProviderWireFormat, sent_schema};
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};

use super::blocks::{
    AnthropicOpaqueOwner, assistant_blocks, file_block, is_thinking, result_block, user_blocks,
};
use super::stream::AnthropicDecoder;
use crate::formats::call_ids::plain_name;
use crate::formats::claude::{ClaudeModel, ThinkingPlan, accepted_sampling, add_step, max_tokens};
use crate::formats::output_schema::output_schema;
use crate::formats::{
    CacheMark, DraftMessage, FORMER_TOOL_DESCRIPTION, ModelTarget, OpenTurn, RequestContext,
    StreamDecoder, WireFormat, WireMessages,
};
use crate::provider::ProviderFormat;

/// Version of the API at Anthropic and MiniMax.
const API_VERSION: &str = "2023-06-01";

/// Version of the API on Vertex AI.
const VERTEX_API_VERSION: &str = "vertex-2023-10-16";

/// Mark at the end of the last block of a user message.
const MESSAGE_MARK: CacheMark = CacheMark {
    role: "user",
    bytes_from_end: "}]}".len(),
    text: r#","cache_control":{"type":"ephemeral"}"#,
};

/// Anthropic's messages for one model.
pub(crate) struct AnthropicFormat {
    target: ModelTarget,
    claude: Option<ClaudeModel>,
}

impl AnthropicFormat {
    pub(crate) fn new(target: ModelTarget) -> Self {
        AnthropicFormat {
            claude: ClaudeModel::from_name(&target.model),
            target,
        }
    }

    fn is_vertex(&self) -> bool {
        self.target.provider.format() == ProviderFormat::Vertex
    }

    fn owner(&self) -> AnthropicOpaqueOwner<'_> {
        AnthropicOpaqueOwner {
            family: self.target.family(),
            accepts_unsigned: self.claude.is_none(),
        }
    }

    /// Encodes the tools of the request. A request without tools declares the tools that were
    /// called earlier, because the API refuses tool calls in the history of a request without
    /// tools.
    fn encode_tools(&self, context: &RequestContext<'_>) -> Vec<Value> {
        let mut tools: Vec<Value> = if context.tools.is_empty() {
            former_tools(context.called_tools)
        } else {
            context.tools.iter().map(encode_tool).collect()
        };
        if let Some(last) = tools.last_mut() {
            self.mark_cache_end(last);
        }
        tools
    }

    /// Marks the end of a prefix that the provider keeps in its cache.
    fn mark_cache_end(&self, block: &mut Value) {
        if self.target.prompt_caching {
            block["cache_control"] = json!({"type": "ephemeral"});
        }
    }
}

impl WireFormat for AnthropicFormat {
    fn wire_format(&self) -> ProviderWireFormat {
        ProviderWireFormat::Anthropic
    }

    fn path(&self) -> String {
        if self.is_vertex() {
            format!(
                "publishers/anthropic/models/{}:streamRawPredict",
                self.target.model
            )
        } else {
            "messages".to_owned()
        }
    }

    fn add_headers(&self, key: Option<&str>, headers: &mut HeaderMap) -> Result<(), String> {
        if !self.is_vertex() {
            let version = HeaderName::from_static("anthropic-version");
            headers.insert(version, HeaderValue::from_static(API_VERSION));
        }
        let Some(key) = key else { return Ok(()) };
        let (name, value) = if self.is_vertex() {
            (AUTHORIZATION, format!("Bearer {key}"))
        } else {
            (HeaderName::from_static("x-api-key"), key.to_owned())
        };
        let mut value = HeaderValue::from_str(&value).map_err(|error| error.to_string())?;
        value.set_sensitive(true);
        headers.insert(name, value);
        Ok(())
    }

    fn fields(&self, context: &RequestContext<'_>) -> JsonObject {
        let params = context.params;
        let plan = ThinkingPlan::for_turn(self.claude, context.effort, context.open_turn);
        let sampling = accepted_sampling(self.claude, params, plan.is_thinking());
        let stop: Vec<_> = params
            .stop
            .iter()
            .filter(|text| !text.trim().is_empty())
            .collect();
        let tools = self.encode_tools(context);
        let mut fields = JsonObject::new();
        let mut set = |key: &str, value: Option<Value>| {
            if let Some(value) = value {
                fields.insert(key.to_owned(), value);
            }
        };
        if self.is_vertex() {
            set("anthropic_version", Some(VERTEX_API_VERSION.into()))
        } else {
            set("model", Some(self.target.model.as_str().into()))
        }
        set("stream", Some(true.into()));
        set(
            "max_tokens",
            Some(max_tokens(self.claude, params.max_tokens, plan.budget).into()),
        );
        set("temperature", sampling.temperature.map(Value::from));
        set("top_p", sampling.top_p.map(Value::from));
        set("top_k", sampling.top_k.map(Value::from));
        set("stop_sequences", (!stop.is_empty()).then(|| json!(stop)));
        set("output_config", output_config(&plan, context.output));
        set("thinking", plan.thinking);
        set("tools", (!tools.is_empty()).then(|| Value::Array(tools)));
        fields
    }

    fn system_field(
        &self,
        system: Option<&str>,
        notes: &[String],
    ) -> Option<(&'static str, Value)> {
        let texts = system.into_iter().chain(notes.iter().map(String::as_str));
        let mut blocks: Vec<_> = texts
            .map(|text| json!({"type": "text", "text": text}))
            .collect();
        self.mark_cache_end(blocks.last_mut()?);
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
                add_step(self.claude, blocks, is_thinking, messages);
            }
            MessageRole::Tool => {
                let results = message.tool_results().map(result_block).collect();
                messages.push("user", results, true);
                messages.hold_files(message.data.content.iter().filter_map(file_block));
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
        self.target.prompt_caching.then_some(MESSAGE_MARK)
    }

    fn decoder(&self) -> Box<dyn StreamDecoder> {
        Box::new(AnthropicDecoder::new(self.claude.is_none()))
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
    block["type"] == "tool_result"
}

/// Encodes the description of a tool.
fn encode_tool(definition: &ToolDefinition) -> Value {
    json!({
        "name": definition.name,
        "description": definition.description,
        "input_schema": sent_schema(ProviderWireFormat::Anthropic, &definition.parameters),
    })
}

/// Returns stubs of tools that the conversation has called and that the agent no longer has.
fn former_tools(names: &BTreeSet<String>) -> Vec<Value> {
    let names: BTreeSet<String> = names.iter().map(|name| plain_name(name)).collect();
    let stub = |name: String| {
        json!({
            "name": name,
            "description": FORMER_TOOL_DESCRIPTION,
            "input_schema": {"type": "object"},
        })
    };
    names.into_iter().map(stub).collect()
}

/// Encodes the effort and the schema of a structured answer; `None` without both.
fn output_config(plan: &ThinkingPlan, output: Option<&Value>) -> Option<Value> {
    let mut config = JsonObject::new();
    if let Some(effort) = plan.effort {
        config.insert("effort".to_owned(), effort.into());
    }
    if let Some(schema) = output {
        let format = json!({"type": "json_schema", "schema": output_schema(schema)});
        config.insert("format".to_owned(), format);
    }
    (!config.is_empty()).then_some(Value::Object(config))
}

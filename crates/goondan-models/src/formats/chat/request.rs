//! Encodes requests in OpenAI's chat completions format.

use goondan_core::JsonObject;
use goondan_core::message::{Message, MessagePart, MessageRole, ToolCall};
use goondan_core::ports::model::ToolDefinition;
use goondan_core::ports::tool::Attachment;
use goondan_spec::kinds::ReasoningEffort;
use goondan_spec::sent_schema::{ProviderWireFormat, is_strict, sent_schema};
use reqwest::header::{ACCEPT, AUTHORIZATION, HeaderMap, HeaderValue};
use serde_json::{Value, json};

use super::stream::ChatDecoder;
use crate::formats::attachments::{AttachmentForm, attachment_form, data_url, file_name};
use crate::formats::call_ids::short_id;
use crate::formats::results::{object_arguments, result_text};
use crate::formats::{
    DraftMessage, ModelTarget, RequestContext, StreamDecoder, WireFormat, WireMessages,
};
use crate::provider::ProviderQuirks;

/// Beginnings of the names of models that accept only the newer name of the token limit.
const NEWER_LIMIT_MODELS: [&str; 5] = ["gpt-5", "gpt-6", "o1", "o3", "o4"];

/// Reasoning for calls of another provider. Providers that require reasoning refuse an empty text.
const REASONING_PLACEHOLDER: &str = " ";

/// Google's documented signature for calls that another model made.
const SIGNATURE_PLACEHOLDER: &str = "skip_thought_signature_validator";

/// The chat format for one model.
pub(crate) struct ChatFormat {
    target: ModelTarget,
}

impl ChatFormat {
    pub(crate) fn new(target: ModelTarget) -> Self {
        ChatFormat { target }
    }

    fn quirks(&self) -> &ProviderQuirks {
        &self.target.provider.quirks
    }

    /// Adds the reasoning effort, and the switch for thinking if the provider needs it.
    fn add_effort(&self, effort: ReasoningEffort, fields: &mut JsonObject) {
        let is_off = effort == ReasoningEffort::None;
        if self.quirks().thinking_switch {
            let switch = if is_off { "disabled" } else { "enabled" };
            fields.insert("thinking".to_owned(), json!({ "type": switch }));
            if is_off {
                return;
            }
        }
        fields.insert("reasoning_effort".to_owned(), effort.as_str().into());
    }

    /// Adds the limit of tokens, under the name that the model accepts.
    fn add_limit(&self, max_tokens: Option<u32>, fields: &mut JsonObject) {
        let model = &self.target.model;
        let is_newer = NEWER_LIMIT_MODELS
            .iter()
            .any(|start| model.starts_with(start));
        if let Some(limit) = max_tokens.or(self.quirks().default_max_tokens) {
            let key = if is_newer {
                "max_completion_tokens"
            } else {
                "max_tokens"
            };
            fields.insert(key.to_owned(), limit.into());
        }
    }

    /// OpenRouter caches Anthropic models only on demand.
    fn wants_cache_control(&self) -> bool {
        self.target.prompt_caching
            && self.target.provider.name == "openrouter"
            && self.target.model.starts_with("anthropic/")
    }

    /// Returns a call id that the provider accepts.
    fn call_id(&self, id: &str) -> String {
        if self.quirks().short_call_ids {
            short_id(id)
        } else {
            id.to_owned()
        }
    }

    /// Encodes an answer of the model; `None` if it has neither text nor calls.
    fn assistant_message(&self, message: &Message) -> Option<Value> {
        let texts: Vec<&str> = message
            .data
            .content
            .iter()
            .filter_map(MessagePart::as_text)
            .filter(|text| !text.trim().is_empty())
            .collect();
        let calls: Vec<Value> = message
            .tool_calls()
            .enumerate()
            .map(|(index, call)| self.encode_call(index, call))
            .collect();
        if texts.is_empty() && calls.is_empty() {
            return None;
        }
        let mut sent = JsonObject::new();
        sent.insert("role".to_owned(), "assistant".into());
        sent.insert("content".to_owned(), texts.join("\n\n").into());
        self.add_reasoning(message, !calls.is_empty(), &mut sent);
        if !calls.is_empty() {
            sent.insert("tool_calls".to_owned(), Value::Array(calls));
        }
        Some(Value::Object(sent))
    }

    /// Adds the reasoning of `message` to the encoded message `sent`, in the field in which it
    /// arrived. Adds no reasoning of another provider. `has_calls`: whether the message contains
    /// tool calls.
    fn add_reasoning(&self, message: &Message, has_calls: bool, sent: &mut JsonObject) {
        if self.quirks().refuses_reasoning {
            return;
        }
        let family = self.target.provider.family();
        for part in &message.data.content {
            let MessagePart::Reasoning {
                text,
                provider_metadata,
            } = part
            else {
                continue;
            };
            let Some(metadata) = provider_metadata.get(family) else {
                continue;
            };
            if let Some(Value::Array(details)) = metadata.get("reasoning_details") {
                let sent_details = sent.entry("reasoning_details").or_insert_with(|| json!([]));
                if let Some(sent_details) = sent_details.as_array_mut() {
                    sent_details.extend(details.iter().cloned());
                }
            } else if metadata.get("content").is_some() {
                prepend_thinking(text, sent);
            } else if let Some(field) = metadata.get("field").and_then(Value::as_str) {
                append_text(sent, field, text);
            }
        }
        if has_calls && self.quirks().needs_reasoning {
            sent.entry("reasoning_content")
                .or_insert_with(|| REASONING_PLACEHOLDER.into());
        }
    }

    /// Encodes the call with the index `index` in its message.
    fn encode_call(&self, index: usize, call: &ToolCall) -> Value {
        let mut sent = json!({
            "type": "function",
            "id": self.call_id(&call.tool_call_id),
            "function": {
                "name": call.tool_name,
                "arguments": object_arguments(&call.input).to_string(),
            },
        });
        let metadata = call.provider_metadata.get(self.target.provider.family());
        if let Some(extra) = metadata.and_then(|metadata| metadata.get("extra_content")) {
            sent["extra_content"] = extra.clone();
        } else if index == 0 && metadata.is_none() && self.is_gemini_endpoint() {
            sent["extra_content"] = json!({"google": {"thought_signature": SIGNATURE_PLACEHOLDER}});
        }
        sent
    }

    /// Google's OpenAI-compatible address requires signatures for Gemini 3 and later.
    fn is_gemini_endpoint(&self) -> bool {
        let name = self.target.model.rsplit('/').next().unwrap_or_default();
        self.target.provider.name == "openai-compatible" && name.starts_with("gemini-3")
    }
}

impl WireFormat for ChatFormat {
    fn wire_format(&self) -> ProviderWireFormat {
        ProviderWireFormat::Chat
    }

    fn path(&self) -> String {
        "chat/completions".to_owned()
    }

    fn add_headers(&self, key: Option<&str>, headers: &mut HeaderMap) -> Result<(), String> {
        // Local servers without keys ignore the header, but some refuse requests without one.
        let bearer = format!("Bearer {}", key.unwrap_or("none"));
        let mut value = HeaderValue::from_str(&bearer).map_err(|error| error.to_string())?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
        if let Some(accept) = &self.quirks().accept {
            headers.insert(
                ACCEPT,
                HeaderValue::from_str(accept).map_err(|error| error.to_string())?,
            );
        }
        Ok(())
    }

    fn fields(&self, context: &RequestContext<'_>) -> JsonObject {
        let params = context.params;
        let mut fields = JsonObject::new();
        let mut set = |key: &str, value: Option<Value>| {
            if let Some(value) = value {
                fields.insert(key.to_owned(), value);
            }
        };
        set("model", Some(self.target.model.as_str().into()));
        set("stream", Some(true.into()));
        set("stream_options", Some(json!({"include_usage": true})));
        set("temperature", params.temperature.map(Value::from));
        set("top_p", params.top_p.map(Value::from));
        set("top_k", params.top_k.map(Value::from));
        set(
            "stop",
            (!params.stop.is_empty()).then(|| json!(params.stop)),
        );
        set("seed", params.seed.map(Value::from));
        set("presence_penalty", params.presence_penalty.map(Value::from));
        set(
            "frequency_penalty",
            params.frequency_penalty.map(Value::from),
        );
        set(
            "cache_control",
            self.wants_cache_control()
                .then(|| json!({"type": "ephemeral"})),
        );
        let tools = || context.tools.iter().map(encode_tool).collect();
        set("tools", (!context.tools.is_empty()).then(tools));
        set("response_format", context.output.map(response_format));
        self.add_limit(params.max_tokens, &mut fields);
        if let Some(effort) = context.effort {
            self.add_effort(effort, &mut fields);
        }
        fields
    }

    fn system_message(&self, system: &str) -> Option<Value> {
        Some(json!({"role": "system", "content": system}))
    }

    fn add_message(&self, message: &Message, messages: &mut WireMessages) {
        match message.data.role {
            MessageRole::System => {
                let text = message.text();
                if !text.trim().is_empty() {
                    messages.push("system", vec![text.into()], false);
                }
            }
            MessageRole::User => {
                let parts = message.data.content.iter().filter_map(user_part).collect();
                messages.push("user", parts, true);
            }
            MessageRole::Assistant => {
                messages.push(
                    "assistant",
                    self.assistant_message(message).into_iter().collect(),
                    false,
                );
            }
            MessageRole::Tool => {
                for result in message.tool_results() {
                    let sent = json!({
                        "role": "tool",
                        "tool_call_id": self.call_id(&result.tool_call_id),
                        "content": result_text(result),
                    });
                    messages.push("tool", vec![sent], false);
                }
                messages.hold_files(message.data.content.iter().filter_map(file_part));
            }
        }
    }

    fn close(&self, draft: &DraftMessage) -> Value {
        let content = &draft.content;
        match draft.role {
            "user" => match joined_text(content) {
                Some(text) => json!({"role": "user", "content": text}),
                None => json!({"role": "user", "content": content}),
            },
            "system" => json!({"role": "system", "content": content.first()}),
            _ => content.first().cloned().unwrap_or(Value::Null),
        }
    }

    fn decoder(&self) -> Box<dyn StreamDecoder> {
        Box::new(ChatDecoder::new(self.quirks().reasoning_uncounted))
    }
}

/// Appends `text` to the string in `field`.
fn append_text(sent: &mut JsonObject, field: &str, text: &str) {
    let known_text = sent.get(field).and_then(Value::as_str).unwrap_or_default();
    let joined = format!("{known_text}{text}");
    sent.insert(field.to_owned(), joined.into());
}

/// Mistral expects reasoning as a block before the text.
fn prepend_thinking(text: &str, sent: &mut JsonObject) {
    let thinking = json!({"type": "thinking", "thinking": [{"type": "text", "text": text}]});
    let content = match sent.get_mut("content") {
        Some(Value::Array(blocks)) => {
            let texts_begin = blocks
                .iter()
                .take_while(|block| block["type"] == "thinking")
                .count();
            blocks.insert(texts_begin, thinking);
            return;
        }
        Some(Value::String(text)) if !text.is_empty() => {
            vec![thinking, json!({"type": "text", "text": text})]
        }
        _ => vec![thinking],
    };
    sent.insert("content".to_owned(), Value::Array(content));
}

/// Encodes a part of a user message; `None` for parts that the format omits.
fn user_part(part: &MessagePart) -> Option<Value> {
    match part {
        MessagePart::Text { text, .. } => Some(text_part(text)),
        _ => file_part(part),
    }
}

/// Encodes a file; `None` for other parts.
fn file_part(part: &MessagePart) -> Option<Value> {
    match part {
        MessagePart::File(file) => Some(encode_file(file)),
        _ => None,
    }
}

/// Encodes a text.
fn text_part(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// Encodes an attachment, as text if the format does not accept its type.
fn encode_file(file: &Attachment) -> Value {
    if let AttachmentForm::Text(text) = attachment_form(ProviderWireFormat::Chat, file) {
        return text_part(&text);
    }
    match file.media_type.split_once('/') {
        Some(("audio", kind)) => {
            let format = if kind == "mpeg" { "mp3" } else { kind };
            json!({"type": "input_audio", "input_audio": {"data": file.data, "format": format}})
        }
        Some(("image", _)) => json!({"type": "image_url", "image_url": {"url": data_url(file)}}),
        _ => {
            json!({"type": "file", "file": {"filename": file_name(file), "file_data": data_url(file)}})
        }
    }
}

/// Returns the text of a message that consists of text. Many servers accept lists of parts only for
/// attachments.
fn joined_text(parts: &[Value]) -> Option<String> {
    let mut joined = String::new();
    for part in parts {
        let text = part
            .get("text")
            .and_then(Value::as_str)
            .filter(|_| part["type"] == "text")?;
        if !joined.is_empty() {
            joined.push_str(if joined.ends_with('\n') { "\n" } else { "\n\n" });
        }
        joined.push_str(text);
    }
    Some(joined)
}

/// Encodes the description of a tool.
fn encode_tool(definition: &ToolDefinition) -> Value {
    json!({
        "type": "function",
        "function": {
            "name": definition.name,
            "description": definition.description,
            "parameters": sent_schema(ProviderWireFormat::Chat, &definition.parameters),
            "strict": false,
        },
    })
}

/// Encodes the schema of a structured answer.
fn response_format(schema: &Value) -> Value {
    let schema = sent_schema(ProviderWireFormat::Chat, schema);
    let strict = is_strict(&schema);
    json!({"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": strict}})
}

//! Encodes requests in OpenAI's responses format.

use goondan_core::JsonObject;
use goondan_core::message::{Message, MessagePart, MessageRole, ToolCall};
use goondan_core::ports::model::ToolDefinition;
use goondan_core::ports::tool::Attachment;
use goondan_spec::kinds::ReasoningEffort;
use goondan_spec::sent_schema::{ProviderWireFormat, is_strict, sent_schema};
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use serde_json::{Value, json};

use super::stream::ResponsesDecoder;
use crate::formats::attachments::{AttachmentForm, attachment_form, data_url, file_name};
use crate::formats::call_ids::plain_id;
use crate::formats::results::{object_arguments, result_text};
use crate::formats::{
    DraftMessage, ModelTarget, RequestContext, StreamDecoder, WireFormat, WireMessages,
};

/// Maximum length of a call id that OpenAI accepts.
const MAX_CALL_ID_LENGTH: usize = 64;

/// Beginnings of the names of models that reason.
const REASONING_MODELS: [&str; 2] = ["gpt-5", "gpt-6"];

/// Beginnings of the names of models that do not reason, and refuse the reasoning of others.
const CHAT_MODELS: [&str; 4] = ["gpt-5-chat", "gpt-4", "gpt-3", "chatgpt"];

/// The responses format for one model.
pub(crate) struct ResponsesFormat {
    target: ModelTarget,
}

impl ResponsesFormat {
    pub(crate) fn new(target: ModelTarget) -> Self {
        ResponsesFormat { target }
    }

    /// Returns true if requests ask for encrypted reasoning. OpenAI refuses the field for models
    /// that do not reason. Other servers return their reasoning as text, and some refuse unknown
    /// fields. An unknown model therefore counts as one that reasons only at OpenAI, and only with
    /// an effort.
    fn requests_encrypted_reasoning(&self, effort: Option<ReasoningEffort>) -> bool {
        let has_effort = effort.is_some_and(|effort| effort != ReasoningEffort::None);
        is_reasoning_model(&self.target.model)
            || (has_effort && self.target.provider.name == "openai")
    }

    /// Returns the field `reasoning`. OpenAI streams readable reasoning only as a summary.
    fn reasoning_field(&self, effort: ReasoningEffort) -> Value {
        let mut reasoning = json!({"effort": effort.as_str()});
        if effort != ReasoningEffort::None && is_reasoning_model(&self.target.model) {
            reasoning["summary"] = "auto".into();
        }
        reasoning
    }

    /// Returns the opaque data that this provider sent with a part.
    fn own_metadata<'a>(&self, metadata: &'a JsonObject) -> Option<&'a Value> {
        metadata.get(self.target.provider.family())
    }

    /// Encodes an answer of the model as items.
    fn assistant_items(&self, message: &Message) -> Vec<Value> {
        let parts = message.data.content.iter();
        let mut items: Vec<Value> = parts.filter_map(|part| self.assistant_item(part)).collect();
        // Reasoning that led to nothing is refused.
        let is_reasoning = |item: &Value| item["type"] == "reasoning";
        while items.last().is_some_and(is_reasoning) {
            items.pop();
        }
        items
    }

    /// Encodes a part of an answer; `None` for parts that the provider would refuse.
    fn assistant_item(&self, part: &MessagePart) -> Option<Value> {
        match part {
            MessagePart::Text {
                text,
                provider_metadata,
            } => {
                let own_fields = self.own_metadata(provider_metadata);
                (!text.trim().is_empty()).then(|| encode_text(text, own_fields))
            }
            MessagePart::Reasoning {
                provider_metadata, ..
            } => {
                let own_fields = self.own_metadata(provider_metadata)?;
                let is_sent = !is_chat_model(&self.target.model);
                is_sent.then(|| encode_reasoning(own_fields)).flatten()
            }
            MessagePart::Opaque { provider_metadata } => {
                let item = self.own_metadata(provider_metadata)?;
                item["type"].is_string().then(|| item.clone())
            }
            MessagePart::ToolCall(call) => Some(encode_call(
                call,
                self.own_metadata(&call.provider_metadata),
            )),
            MessagePart::ToolResult(_) | MessagePart::File(_) => None,
        }
    }
}

impl WireFormat for ResponsesFormat {
    fn wire_format(&self) -> ProviderWireFormat {
        ProviderWireFormat::Responses
    }

    fn path(&self) -> String {
        "responses".to_owned()
    }

    fn add_headers(&self, key: Option<&str>, headers: &mut HeaderMap) -> Result<(), String> {
        // Local servers without keys ignore the header, but some refuse requests without one.
        let bearer = format!("Bearer {}", key.unwrap_or("none"));
        let mut value = HeaderValue::from_str(&bearer).map_err(|error| error.to_string())?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
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
        let include = || json!(["reasoning.encrypted_content"]);
        let has_include = self.requests_encrypted_reasoning(context.effort);
        set("model", Some(self.target.model.as_str().into()));
        set("stream", Some(true.into()));
        set("store", Some(false.into()));
        set("include", has_include.then(include));
        set(
            "reasoning",
            context.effort.map(|effort| self.reasoning_field(effort)),
        );
        set("max_output_tokens", params.max_tokens.map(Value::from));
        set("temperature", params.temperature.map(Value::from));
        set("top_p", params.top_p.map(Value::from));
        // OpenAI refuses the following fields by name, but servers that imitate it accept them.
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
        let tools = || context.tools.iter().map(encode_tool).collect();
        set("tools", (!context.tools.is_empty()).then(tools));
        set("text", context.output.map(text_format));
        fields
    }

    fn system_field(&self, system: Option<&str>, _: &[String]) -> Option<(&'static str, Value)> {
        system.map(|system| ("instructions", system.into()))
    }

    fn messages_field(&self) -> &'static str {
        "input"
    }

    fn add_message(&self, message: &Message, messages: &mut WireMessages) {
        let content = &message.data.content;
        match message.data.role {
            MessageRole::System => {
                let text = message.text();
                if !text.trim().is_empty() {
                    let item = json!({"role": "system", "content": text});
                    messages.push("system", vec![item], false);
                }
            }
            MessageRole::User => {
                messages.push("user", content.iter().filter_map(user_part).collect(), true);
            }
            MessageRole::Assistant => {
                for item in self.assistant_items(message) {
                    messages.push("assistant", vec![item], false);
                }
            }
            MessageRole::Tool => {
                for result in message.tool_results() {
                    let item = json!({
                        "type": "function_call_output",
                        "call_id": call_id(&result.tool_call_id),
                        "output": result_text(result),
                    });
                    messages.push("tool", vec![item], false);
                }
                messages.hold_files(content.iter().filter_map(file_part));
            }
        }
    }

    fn close(&self, draft: &DraftMessage) -> Value {
        let content = &draft.content;
        if draft.role != "user" {
            return content.first().cloned().unwrap_or(Value::Null);
        }
        match joined_text(content) {
            Some(text) => json!({"role": "user", "content": text}),
            None => json!({"role": "user", "content": content}),
        }
    }

    fn decoder(&self) -> Box<dyn StreamDecoder> {
        Box::new(ResponsesDecoder::default())
    }
}

/// Returns true if OpenAI's model `model` reasons.
fn is_reasoning_model(model: &str) -> bool {
    let name = bare_name(model);
    let is_o_model = || {
        let rest = name.strip_prefix('o');
        rest.is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
    };
    let is_known = || REASONING_MODELS.iter().any(|start| name.starts_with(start));
    name.contains("codex") || (!is_chat_model(model) && (is_known() || is_o_model()))
}

/// Returns true if OpenAI's model `model` does not reason.
fn is_chat_model(model: &str) -> bool {
    let name = bare_name(model);
    CHAT_MODELS.iter().any(|start| name.starts_with(start)) && !name.contains("codex")
}

/// Returns the name of a model without a vendor, such as `openai/`, and without the mark of a tuned
/// model.
fn bare_name(model: &str) -> String {
    let name = model.rsplit('/').next().unwrap_or_default().to_lowercase();
    name.strip_prefix("ft:").unwrap_or(&name).to_owned()
}

/// Returns a call id that OpenAI accepts. Other providers make longer ones.
fn call_id(id: &str) -> String {
    if id.len() > MAX_CALL_ID_LENGTH {
        plain_id(id)
    } else {
        id.to_owned()
    }
}

/// Encodes text of the model. `metadata` is the opaque data that this provider sent with the text.
fn encode_text(text: &str, metadata: Option<&Value>) -> Value {
    let mut item = json!({
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": text}],
    });
    if let Some(phase) = metadata.and_then(|metadata| metadata.get("phase")) {
        item["phase"] = phase.clone();
    }
    item
}

/// Returns a reasoning item as the provider accepts it: without empty fields and without the
/// status. Returns `None` for an item without content, which is only a reference to a stored item.
fn encode_reasoning(metadata: &Value) -> Option<Value> {
    let item = metadata.get("item")?.as_object()?;
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        _ => false,
    };
    let has_field = |key: &str| item.get(key).is_some_and(|value| !is_empty(value));
    if !has_field("encrypted_content") && !has_field("content") {
        return None;
    }
    let kept_fields = item
        .iter()
        .filter(|(key, value)| *key != "status" && !is_empty(value));
    let mut sent: JsonObject = kept_fields
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    sent.entry("summary").or_insert_with(|| json!([]));
    Some(Value::Object(sent))
}

/// Encodes a call with the fields that the provider sent, except its id.
fn encode_call(call: &ToolCall, own_fields: Option<&Value>) -> Value {
    let mut sent = json!({
        "type": "function_call",
        "call_id": call_id(&call.tool_call_id),
        "name": call.tool_name,
        "arguments": object_arguments(&call.input).to_string(),
    });
    let own_item = own_fields
        .and_then(|fields| fields.get("item"))
        .and_then(Value::as_object);
    for (key, value) in own_item
        .into_iter()
        .flatten()
        .filter(|(key, _)| *key != "id")
    {
        sent[key.as_str()] = value.clone();
    }
    sent
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
    json!({"type": "input_text", "text": text})
}

/// Encodes an attachment, as text if the format does not accept its type.
fn encode_file(file: &Attachment) -> Value {
    if let AttachmentForm::Text(text) = attachment_form(ProviderWireFormat::Responses, file) {
        return text_part(&text);
    }
    if file.media_type.starts_with("image/") {
        json!({"type": "input_image", "detail": "auto", "image_url": data_url(file)})
    } else {
        json!({"type": "input_file", "filename": file_name(file), "file_data": data_url(file)})
    }
}

/// Returns the text of a message that consists of text, as all servers accept it.
fn joined_text(parts: &[Value]) -> Option<String> {
    let mut joined = String::new();
    for part in parts {
        let is_text = part["type"] == "input_text";
        let text = part["text"].as_str().filter(|_| is_text)?;
        if !joined.is_empty() {
            joined.push_str(if joined.ends_with('\n') { "\n" } else { "\n\n" });
        }
        joined.push_str(text);
    }
    Some(joined)
}

/// Returns a tool. Without `strict: false`, OpenAI turns optional arguments into required ones.
fn encode_tool(definition: &ToolDefinition) -> Value {
    json!({
        "type": "function",
        "name": definition.name,
        "description": definition.description,
        "parameters": sent_schema(ProviderWireFormat::Responses, &definition.parameters),
        "strict": false,
    })
}

/// Encodes the schema of a structured answer.
fn text_format(schema: &Value) -> Value {
    let schema = sent_schema(ProviderWireFormat::Responses, schema);
    let strict = is_strict(&schema);
    json!({"format": {"type": "json_schema", "name": "answer", "schema": schema, "strict": strict}})
}

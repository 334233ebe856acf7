//! Encodes requests of Ollama's chat API.

use goondan_core::JsonObject;
use goondan_core::message::{Message, MessagePart, MessageRole, ToolCall};
use goondan_core::ports::model::ToolDefinition;
use goondan_core::ports::tool::Attachment;
use goondan_spec::kinds::{ModelParams, ReasoningEffort};
use goondan_spec::sent_schema::{ProviderWireFormat, sent_schema};
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use serde_json::{Value, json};

use super::stream::OllamaDecoder;
use crate::formats::attachments::{AttachmentForm, attachment_form};
use crate::formats::results::{object_arguments, result_text};
use crate::formats::{
    DraftMessage, EventFraming, ModelTarget, RequestContext, StreamDecoder, WireFormat,
    WireMessages,
};

/// Part of the names of models that reason by level. Older versions of Ollama refuse levels for
/// other models.
const LEVEL_MODELS: &str = "gpt-oss";

/// Ollama's chat for one model.
pub(crate) struct OllamaFormat {
    target: ModelTarget,
}

impl OllamaFormat {
    pub(crate) fn new(target: ModelTarget) -> Self {
        OllamaFormat { target }
    }

    /// Returns the value of `think`: a level for models that cannot turn reasoning off, else a
    /// switch.
    fn think_value(&self, effort: ReasoningEffort) -> Value {
        if !self.target.model.contains(LEVEL_MODELS) {
            return (effort != ReasoningEffort::None).into();
        }
        match effort {
            ReasoningEffort::None | ReasoningEffort::Minimal | ReasoningEffort::Low => "low",
            ReasoningEffort::Medium => "medium",
            ReasoningEffort::High | ReasoningEffort::XHigh | ReasoningEffort::Max => "high",
        }
        .into()
    }

    /// Encodes an answer of the model; `None` if it is empty.
    fn assistant_message(&self, message: &Message) -> Option<Value> {
        let text = join_paragraphs(message.data.content.iter().filter_map(MessagePart::as_text));
        let calls: Vec<Value> = message.tool_calls().map(encode_call).collect();
        if text.is_empty() && calls.is_empty() {
            return None;
        }
        let mut sent = json!({"role": "assistant", "content": text});
        let thinking: String = message
            .data
            .content
            .iter()
            .filter_map(|part| self.own_reasoning(part))
            .collect();
        if !thinking.is_empty() {
            sent["thinking"] = thinking.into();
        }
        if !calls.is_empty() {
            sent["tool_calls"] = Value::Array(calls);
        }
        Some(sent)
    }

    /// Returns reasoning that came from this provider's family.
    fn own_reasoning<'p>(&self, part: &'p MessagePart) -> Option<&'p str> {
        match part {
            MessagePart::Reasoning {
                text,
                provider_metadata,
            } => provider_metadata
                .contains_key(self.target.provider.family())
                .then_some(text.as_str()),
            _ => None,
        }
    }
}

impl WireFormat for OllamaFormat {
    fn wire_format(&self) -> ProviderWireFormat {
        ProviderWireFormat::Ollama
    }

    fn path(&self) -> String {
        "api/chat".to_owned()
    }

    fn add_headers(&self, key: Option<&str>, headers: &mut HeaderMap) -> Result<(), String> {
        if let Some(key) = key {
            let bearer = HeaderValue::from_str(&format!("Bearer {key}"));
            let mut value = bearer.map_err(|error| error.to_string())?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        Ok(())
    }

    fn framing(&self) -> EventFraming {
        EventFraming::JsonLines
    }

    fn fields(&self, context: &RequestContext<'_>) -> JsonObject {
        let mut fields = JsonObject::new();
        let mut set = |key: &str, value: Option<Value>| {
            if let Some(value) = value {
                fields.insert(key.to_owned(), value);
            }
        };
        let options = options(context.params);
        let tools = || context.tools.iter().map(encode_tool).collect();
        set("model", Some(self.target.model.as_str().into()));
        set("stream", Some(true.into()));
        set(
            "options",
            (!options.is_empty()).then_some(Value::Object(options)),
        );
        set(
            "think",
            context.effort.map(|effort| self.think_value(effort)),
        );
        set("tools", (!context.tools.is_empty()).then(tools));
        set(
            "format",
            context
                .output
                .map(|schema| sent_schema(ProviderWireFormat::Ollama, schema)),
        );
        fields
    }

    fn system_message(&self, system: &str) -> Option<Value> {
        Some(json!({"role": "system", "content": system}))
    }

    fn add_message(&self, message: &Message, messages: &mut WireMessages) {
        // The last argument of `push` is true for content that may join the message before it: only
        // user content, which includes the files of tool results.
        match message.data.role {
            MessageRole::System => {
                let text = message.text();
                if !text.trim().is_empty() {
                    messages.push(
                        "system",
                        vec![json!({"role": "system", "content": text})],
                        false,
                    );
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
                        "tool_name": result.tool_name,
                        "tool_call_id": result.tool_call_id,
                        "content": result_text(result),
                    });
                    messages.push("tool", vec![sent], false);
                }
                // A tool message has no images, so the files follow as user content after the
                // results.
                messages.hold_files(message.data.content.iter().filter_map(file_part));
            }
        }
    }

    fn close(&self, draft: &DraftMessage) -> Value {
        match draft.role {
            "user" => user_message(&draft.content),
            _ => draft.content.first().cloned().unwrap_or(Value::Null),
        }
    }

    fn decoder(&self) -> Box<dyn StreamDecoder> {
        Box::new(OllamaDecoder::default())
    }
}

/// Returns the sampling params under Ollama's names.
fn options(params: &ModelParams) -> JsonObject {
    let stop = (!params.stop.is_empty()).then(|| json!(params.stop));
    let options = [
        ("temperature", params.temperature.map(Value::from)),
        ("top_p", params.top_p.map(Value::from)),
        ("top_k", params.top_k.map(Value::from)),
        ("seed", params.seed.map(Value::from)),
        ("stop", stop),
        ("num_predict", params.max_tokens.map(Value::from)),
        ("presence_penalty", params.presence_penalty.map(Value::from)),
        (
            "frequency_penalty",
            params.frequency_penalty.map(Value::from),
        ),
    ];
    let set = options
        .into_iter()
        .filter_map(|(key, value)| Some((key.to_owned(), value?)));
    set.collect()
}

fn encode_call(call: &ToolCall) -> Value {
    let function = json!({"name": call.tool_name, "arguments": object_arguments(&call.input)});
    json!({"id": call.tool_call_id, "function": function})
}

/// Encodes the description of a tool.
fn encode_tool(definition: &ToolDefinition) -> Value {
    json!({
        "type": "function",
        "function": {
            "name": definition.name,
            "description": definition.description,
            "parameters": sent_schema(ProviderWireFormat::Ollama, &definition.parameters),
        },
    })
}

/// Returns text as a string and an image as `{"image": BASE64}`, from which [`user_message`] makes
/// a message.
fn user_part(part: &MessagePart) -> Option<Value> {
    match part {
        MessagePart::Text { text, .. } => Some(text.as_str().into()),
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

/// Encodes an attachment, as text if the format does not accept its type.
fn encode_file(file: &Attachment) -> Value {
    match attachment_form(ProviderWireFormat::Ollama, file) {
        AttachmentForm::Data => json!({"image": file.data}),
        AttachmentForm::Text(text) => text.into(),
    }
}

/// Encodes a user message. Each of `parts` is a string, or an object with an image as
/// [`encode_file`] returns it.
fn user_message(parts: &[Value]) -> Value {
    let images: Vec<&Value> = parts.iter().filter_map(|part| part.get("image")).collect();
    let text = join_paragraphs(parts.iter().filter_map(Value::as_str));
    let mut message = json!({"role": "user", "content": text});
    if !images.is_empty() {
        message["images"] = json!(images);
    }
    message
}

/// Joins texts that are not empty, with an empty line between them.
fn join_paragraphs<'t>(texts: impl Iterator<Item = &'t str>) -> String {
    let texts: Vec<&str> = texts.filter(|text| !text.trim().is_empty()).collect();
    texts.join("\n\n")
}

//! Encodes requests in Gemini's format.

use goondan_core::JsonObject;
use goondan_core::message::{Message, MessagePart, MessageRole, ToolCall, ToolResultPart};
use goondan_core::ports::model::ToolDefinition;
use goondan_core::ports::tool::Attachment;
use goondan_spec::sent_schema::{ProviderWireFormat, sent_schema};
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};

use super::SIGNATURE;
use super::stream::GeminiDecoder;
use super::thinking::{is_older_than_3, thinking_config};
use crate::formats::attachments::{AttachmentForm, attachment_form};
use crate::formats::results::{object_arguments, result_text};
use crate::formats::{
    DraftMessage, ModelTarget, RequestContext, StreamDecoder, WireFormat, WireMessages,
};

/// Google's documented signature for calls that another model made.
const SIGNATURE_PLACEHOLDER: &str = "skip_thought_signature_validator";

/// Header of Google AI that contains the key.
const KEY_HEADER: HeaderName = HeaderName::from_static("x-goog-api-key");

/// Internal role of drafts with tool results. It keeps them apart from other content of the user;
/// Gemini receives them with the role `user`.
const RESULTS_ROLE: &str = "results";

/// Gemini's format for one model.
pub(crate) struct GeminiFormat {
    target: ModelTarget,
}

impl GeminiFormat {
    pub(crate) fn new(target: ModelTarget) -> Self {
        GeminiFormat { target }
    }

    /// Returns true if the API is Vertex AI instead of Google AI.
    fn is_vertex(&self) -> bool {
        self.target.provider.name == "vertex"
    }

    /// Returns the opaque data that this provider sent with a part.
    fn own_metadata<'a>(&self, metadata: &'a JsonObject) -> Option<&'a Value> {
        metadata.get(self.target.provider.family())
    }

    /// Returns the signature that this provider sent with a part.
    fn signature(&self, metadata: &JsonObject) -> Option<Value> {
        self.own_metadata(metadata)?.get(SIGNATURE).cloned()
    }

    /// Encodes an answer of the model as parts.
    fn model_parts(&self, message: &Message) -> Vec<Value> {
        let mut has_calls = false;
        let parts = message.data.content.iter();
        parts
            .filter_map(|part| match part {
                MessagePart::ToolCall(call) => {
                    let is_first = !std::mem::replace(&mut has_calls, true);
                    Some(self.encode_call(call, is_first))
                }
                other => self.model_part(other),
            })
            .collect()
    }

    /// Encodes text, reasoning or opaque data of an answer; `None` if Google would ignore or refuse
    /// the part.
    fn model_part(&self, part: &MessagePart) -> Option<Value> {
        match part {
            MessagePart::Text {
                text,
                provider_metadata,
            } => {
                let signature = self.signature(provider_metadata);
                let is_sent = signature.is_some() || !text.trim().is_empty();
                is_sent.then(|| with_signature(json!({"text": text}), signature))
            }
            // Google ignores a thought without a signature.
            MessagePart::Reasoning {
                text,
                provider_metadata,
            } => {
                let signature = self.signature(provider_metadata)?;
                let thought = json!({"text": text, "thought": true});
                Some(with_signature(thought, Some(signature)))
            }
            MessagePart::Opaque { provider_metadata } => {
                // Vertex AI also serves Claude. Blocks of Claude have a `type` and are not sent to
                // Gemini.
                let own_fields = self.own_metadata(provider_metadata)?;
                (own_fields.is_object() && own_fields.get("type").is_none())
                    .then(|| own_fields.clone())
            }
            MessagePart::ToolCall(_) | MessagePart::ToolResult(_) | MessagePart::File(_) => None,
        }
    }

    /// Returns a call. Gemini 3 and later require a signature of the first call in a message.
    fn encode_call(&self, call: &ToolCall, is_first: bool) -> Value {
        let mut function = json!({
            "name": call.tool_name,
            "args": object_arguments(&call.input),
        });
        self.add_id(&call.tool_call_id, &mut function);
        let needs_one = is_first && !is_older_than_3(&self.target.model);
        let placeholder = || needs_one.then(|| SIGNATURE_PLACEHOLDER.into());
        let signature = self.signature(&call.provider_metadata).or_else(placeholder);
        with_signature(json!({ "functionCall": function }), signature)
    }

    fn encode_result(&self, result: &ToolResultPart) -> Value {
        let key = if result.error.is_some() {
            "error"
        } else {
            "result"
        };
        let mut function = json!({
            "name": result.tool_name,
            "response": {key: result_text(result)},
        });
        self.add_id(&result.tool_call_id, &mut function);
        json!({ "functionResponse": function })
    }

    /// Adds the call id to an encoded call or result, unless gdn generated the id. Without ids,
    /// Google matches results by their order. Vertex AI refuses ids for models before Gemini 3,
    /// which generate none.
    fn add_id(&self, id: &str, function: &mut Value) {
        let is_generated_by_gdn = match id.strip_prefix("call_") {
            Some(number) => number.bytes().all(|c| c.is_ascii_digit()),
            None => false,
        };
        if !is_generated_by_gdn && !is_older_than_3(&self.target.model) {
            function["id"] = id.into();
        }
    }

    /// Encodes the sampling settings and the schema of a structured answer.
    fn generation_config(&self, context: &RequestContext<'_>) -> JsonObject {
        let params = context.params;
        let mut config = JsonObject::new();
        let mut set = |key: &str, value: Option<Value>| {
            if let Some(value) = value {
                config.insert(key.to_owned(), value);
            }
        };
        set("maxOutputTokens", params.max_tokens.map(Value::from));
        set("temperature", params.temperature.map(Value::from));
        set("topP", params.top_p.map(Value::from));
        set("topK", params.top_k.map(Value::from));
        set(
            "stopSequences",
            (!params.stop.is_empty()).then(|| json!(params.stop)),
        );
        set("seed", params.seed.map(Value::from));
        set("presencePenalty", params.presence_penalty.map(Value::from));
        set(
            "frequencyPenalty",
            params.frequency_penalty.map(Value::from),
        );
        set(
            "thinkingConfig",
            thinking_config(&self.target.model, context.effort),
        );
        set(
            "responseMimeType",
            context.output.map(|_| "application/json".into()),
        );
        let schema = |schema: &Value| sent_schema(ProviderWireFormat::Gemini, schema);
        set("responseJsonSchema", context.output.map(schema));
        config
    }
}

impl WireFormat for GeminiFormat {
    fn wire_format(&self) -> ProviderWireFormat {
        ProviderWireFormat::Gemini
    }

    fn path(&self) -> String {
        let name = &self.target.model;
        let name = name.strip_prefix("models/").unwrap_or(name);
        let publisher = if self.is_vertex() {
            "publishers/google/"
        } else {
            ""
        };
        format!("{publisher}models/{name}:streamGenerateContent?alt=sse")
    }

    fn add_headers(&self, key: Option<&str>, headers: &mut HeaderMap) -> Result<(), String> {
        let Some(key) = key else { return Ok(()) };
        let (name, value) = if self.is_vertex() {
            (AUTHORIZATION, format!("Bearer {key}"))
        } else {
            (KEY_HEADER, key.to_owned())
        };
        let mut value = HeaderValue::from_str(&value).map_err(|error| error.to_string())?;
        value.set_sensitive(true);
        headers.insert(name, value);
        Ok(())
    }

    fn fields(&self, context: &RequestContext<'_>) -> JsonObject {
        let mut fields = JsonObject::new();
        let config = self.generation_config(context);
        if !config.is_empty() {
            fields.insert("generationConfig".to_owned(), Value::Object(config));
        }
        if !context.tools.is_empty() {
            let declarations: Vec<Value> = context.tools.iter().map(encode_tool).collect();
            let tools = json!([{"functionDeclarations": declarations}]);
            fields.insert("tools".to_owned(), tools);
        }
        fields
    }

    /// Returns the system prompt and the system messages of the conversation, which have no place
    /// among the messages.
    fn system_field(
        &self,
        system: Option<&str>,
        notes: &[String],
    ) -> Option<(&'static str, Value)> {
        let texts: Vec<&str> = system
            .into_iter()
            .chain(notes.iter().map(String::as_str))
            .collect();
        let parts = || json!({"parts": [{"text": texts.join("\n\n")}]});
        (!texts.is_empty()).then(|| ("systemInstruction", parts()))
    }

    fn messages_field(&self) -> &'static str {
        "contents"
    }

    fn add_message(&self, message: &Message, messages: &mut WireMessages) {
        let content = &message.data.content;
        match message.data.role {
            MessageRole::System => messages.add_note(message),
            MessageRole::User => {
                messages.push("user", content.iter().filter_map(user_part).collect(), true);
            }
            MessageRole::Assistant => messages.push("model", self.model_parts(message), false),
            MessageRole::Tool => {
                let results = message.tool_results();
                let parts = results.map(|result| self.encode_result(result)).collect();
                messages.push(RESULTS_ROLE, parts, true);
                messages.hold_files(content.iter().filter_map(file_part));
            }
        }
    }

    fn close(&self, draft: &DraftMessage) -> Value {
        let role = if draft.role == RESULTS_ROLE {
            "user"
        } else {
            draft.role
        };
        json!({"role": role, "parts": draft.content})
    }

    fn decoder(&self) -> Box<dyn StreamDecoder> {
        Box::new(GeminiDecoder::default())
    }
}

/// Adds `signature` to `part`, if there is one.
fn with_signature(mut part: Value, signature: Option<Value>) -> Value {
    if let Some(signature) = signature {
        part[SIGNATURE] = signature;
    }
    part
}

/// Encodes a part of a user message; `None` for parts that the format omits.
fn user_part(part: &MessagePart) -> Option<Value> {
    match part {
        MessagePart::Text { text, .. } => (!text.is_empty()).then(|| json!({"text": text})),
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
    match attachment_form(ProviderWireFormat::Gemini, file) {
        AttachmentForm::Text(text) => json!({ "text": text }),
        AttachmentForm::Data => {
            json!({"inlineData": {"mimeType": file.media_type, "data": file.data}})
        }
    }
}

/// Encodes the description of a tool.
fn encode_tool(definition: &ToolDefinition) -> Value {
    json!({
        "name": definition.name,
        "description": definition.description,
        "parametersJsonSchema": sent_schema(ProviderWireFormat::Gemini, &definition.parameters),
    })
}

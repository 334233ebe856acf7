//! Request bodies. Parts that do not change between steps are encoded once.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use bytes::Bytes;
use goondan_core::JsonObject;
use goondan_core::ports::model::{ModelRequest, ToolDefinition};
use goondan_spec::kinds::{ModelParams, ReasoningEffort};
use serde_json::Value;

use crate::formats::{EncodedTranscript, OpenTurn, RequestContext, TranscriptCache, WireFormat};
use crate::transport::SharedBody;

/// Maximum number of encoded heads in memory: one for each set of params and tools in use.
const MAX_HEADS: usize = 64;

/// Maker of the request bodies of one model.
pub(crate) struct RequestBuilder {
    format: Arc<dyn WireFormat>,
    /// Key of this model's transcripts in a conversation.
    transcript_key: String,
    effort: Option<ReasoningEffort>,
    /// Fields of the Model's `options.body`, which take precedence.
    model_fields: JsonObject,
    cached_heads: Mutex<Vec<CachedHead>>,
}

/// The fields of a body except the system prompt and the messages.
#[derive(Clone)]
struct EncodedHead {
    /// JSON object without its closing brace.
    json: Bytes,
    has_messages: bool,
    has_system: bool,
}

struct CachedHead {
    params: Weak<ModelParams>,
    tools: Weak<[ToolDefinition]>,
    output: Option<Weak<Value>>,
    open_turn: OpenTurn,
    head: EncodedHead,
}

impl RequestBuilder {
    /// Creates a builder. Each request contains the `model_fields` unchanged.
    pub(crate) fn new(
        format: Arc<dyn WireFormat>,
        transcript_key: String,
        effort: Option<ReasoningEffort>,
        model_fields: JsonObject,
    ) -> Self {
        RequestBuilder {
            format,
            transcript_key,
            effort,
            model_fields,
            cached_heads: Mutex::default(),
        }
    }

    /// Returns the body of `request`.
    pub(crate) fn body(&self, request: &ModelRequest) -> SharedBody {
        let format = &*self.format;
        self.with_transcript(request, |transcript| {
            let head = self.cached_head(request, transcript);
            let mut pieces = vec![head.json.clone()];
            if !head.has_system {
                pieces.extend(self.encode_system_field(request, transcript));
            }
            if !head.has_messages {
                pieces.extend(self.encode_messages_field(request, transcript.bytes(format)));
            }
            pieces.push(Bytes::from_static(b"}"));
            SharedBody::new(pieces)
        })
    }

    /// Lets `work` use the conversation in this model's format.
    pub(crate) fn with_transcript<R>(
        &self,
        request: &ModelRequest,
        work: impl FnOnce(&EncodedTranscript) -> R,
    ) -> R {
        request.messages.with_cache(|cache: &mut TranscriptCache| {
            let transcript = cache.transcript(&self.transcript_key);
            transcript.catch_up(&request.messages, &*self.format);
            work(transcript)
        })
    }

    /// Returns the JSON text of the field with the system prompt, which follows other fields and
    /// therefore begins with a comma. Returns `None` if the format has no such field or there is no
    /// system prompt.
    fn encode_system_field(
        &self,
        request: &ModelRequest,
        transcript: &EncodedTranscript,
    ) -> Option<Bytes> {
        let (key, value) = self
            .format
            .system_field(system_prompt(request), &transcript.messages.notes)?;
        Some(Bytes::from(format!(",{}:{value}", Value::from(key))))
    }

    /// Returns the JSON text of the field with the messages, with a comma before it. Each of
    /// `encoded_messages` begins with a comma.
    fn encode_messages_field(
        &self,
        request: &ModelRequest,
        encoded_messages: Vec<Bytes>,
    ) -> Vec<Bytes> {
        let key = Value::from(self.format.messages_field());
        let system_message =
            system_prompt(request).and_then(|prompt| self.format.system_message(prompt));
        let mut pieces = vec![Bytes::from(format!(",{key}:["))];
        let mut encoded_messages = encoded_messages.into_iter();
        if let Some(message) = system_message {
            pieces.push(Bytes::from(message.to_string()));
        } else if let Some(first) = encoded_messages.next() {
            let without_comma = first.slice(1..);
            pieces.push(without_comma);
        }
        pieces.extend(encoded_messages);
        pieces.push(Bytes::from_static(b"]"));
        pieces
    }

    /// Returns the head of `request`. The same params, tools and output, by identity, have the same head.
    fn cached_head(&self, request: &ModelRequest, transcript: &EncodedTranscript) -> EncodedHead {
        let called = &transcript.messages.called_tools;
        let open_turn = transcript.messages.open_turn;
        if request.tools.is_empty() && !called.is_empty() {
            return self.encode_head(request, called, open_turn);
        }
        let mut heads = self
            .cached_heads
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let is_same =
            |known: &&CachedHead| known.open_turn == open_turn && known.belongs_to(request);
        if let Some(known) = heads.iter().find(is_same) {
            return known.head.clone();
        }
        heads.retain(CachedHead::is_in_use);
        if heads.len() == MAX_HEADS {
            heads.remove(0);
        }
        let head = self.encode_head(request, &BTreeSet::new(), open_turn);
        heads.push(CachedHead {
            params: Arc::downgrade(&request.params),
            tools: Arc::downgrade(&request.tools),
            output: request.output.as_ref().map(Arc::downgrade),
            open_turn,
            head: head.clone(),
        });
        head
    }

    /// Encodes all fields of a request except the messages and the system prompt.
    fn encode_head(
        &self,
        request: &ModelRequest,
        called_tools: &BTreeSet<String>,
        open_turn: OpenTurn,
    ) -> EncodedHead {
        let mut fields = self.format.fields(&RequestContext {
            params: &request.params,
            effort: request.params.reasoning_effort.or(self.effort),
            tools: &request.tools,
            output: request.output.as_deref(),
            called_tools,
            open_turn,
        });
        merge_own_fields(&mut fields, &self.model_fields);
        let has_messages = fields.contains_key(self.format.messages_field());
        let has_system = self
            .format
            .system_field(Some("x"), &[])
            .is_some_and(|(key, _)| fields.contains_key(key));
        let mut json = Value::Object(fields).to_string();
        json.pop();
        EncodedHead {
            json: Bytes::from(json),
            has_messages,
            has_system,
        }
    }
}

/// Adds the Model's own fields, which take precedence. Objects are merged, so that one option of
/// many can be set.
fn merge_own_fields(fields: &mut JsonObject, own: &JsonObject) {
    for (key, value) in own {
        match (fields.get_mut(key), value) {
            (Some(Value::Object(known)), Value::Object(more)) => known.extend(more.clone()),
            _ => {
                fields.insert(key.clone(), value.clone());
            }
        }
    }
}

impl CachedHead {
    fn belongs_to(&self, request: &ModelRequest) -> bool {
        std::ptr::eq(self.params.as_ptr(), Arc::as_ptr(&request.params))
            && std::ptr::addr_eq(self.tools.as_ptr(), Arc::as_ptr(&request.tools))
            && self.output.as_ref().map(Weak::as_ptr) == request.output.as_ref().map(Arc::as_ptr)
    }

    /// Returns true if the params and tools of this head are still in use. A weak pointer keeps its
    /// memory, so no other params or tools can have that address.
    fn is_in_use(&self) -> bool {
        self.params.strong_count() > 0 && self.tools.strong_count() > 0
    }
}

/// Returns the system prompt of `request`, unless it is blank.
fn system_prompt(request: &ModelRequest) -> Option<&str> {
    let prompt = request.system.as_deref()?;
    (!prompt.trim().is_empty()).then_some(prompt)
}

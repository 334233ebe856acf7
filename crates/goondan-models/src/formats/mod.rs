//! The wire formats of model providers.
//!
//! A format is pure: it makes request bodies from a conversation and decodes the events of an answer. It has no
//! network, no clock and no state beyond one answer, so recorded transcripts test it completely.

pub(crate) mod attachments;
pub(crate) mod call_ids;
pub(crate) mod finish;
mod messages;
pub(crate) mod output_schema;
mod result_outline;
pub(crate) mod results;
pub(crate) mod text_calls;
pub(crate) mod tool_calls;
mod transcript;

pub(crate) mod anthropic;
pub(crate) mod chat;
pub(crate) mod claude;
pub(crate) mod converse;
pub(crate) mod gemini;
pub(crate) mod ollama;
pub(crate) mod responses;
#[cfg(test)]
pub(crate) mod test_bodies;

#[cfg(test)]
mod fuzz;

use std::collections::BTreeSet;

use goondan_core::JsonObject;
use goondan_core::message::Message;
use goondan_core::ports::model::ToolDefinition;
use goondan_spec::kinds::{ModelParams, ReasoningEffort};
use goondan_spec::sent_schema::ProviderWireFormat;
use reqwest::header::HeaderMap;
use serde_json::Value;

use crate::answer::AnswerBuilder;
use crate::errors::ProviderError;
use crate::provider::{ModelProvider, ProviderFormat};

pub(crate) use messages::{CacheMark, DraftMessage, OpenTurn, WireMessages};
pub(crate) use transcript::{EncodedTranscript, TranscriptCache};

/// Description of a tool that the conversation has called and that the agent no longer has.
pub(crate) const FORMER_TOOL_DESCRIPTION: &str = "Not available any more.";

/// A model and its provider, as a format needs them.
#[derive(Debug, Clone)]
pub(crate) struct ModelTarget {
    pub(crate) provider: &'static ModelProvider,
    /// Model name as requests contain it.
    pub(crate) model: String,
    /// Requests mark prefixes for the provider's cache.
    pub(crate) prompt_caching: bool,
}

impl ModelTarget {
    /// Returns the key under which messages keep opaque data of this model. Signatures of Claude
    /// models are valid on Vertex AI and at Anthropic.
    pub(crate) fn family(&self) -> &str {
        match (
            self.provider.format(),
            self.provider.wire_format(&self.model),
        ) {
            (ProviderFormat::Vertex, Some(ProviderWireFormat::Anthropic)) => "anthropic",
            _ => self.provider.family(),
        }
    }
}

/// Everything that a request contains besides its messages.
pub(crate) struct RequestContext<'a> {
    pub(crate) params: &'a ModelParams,
    pub(crate) effort: Option<ReasoningEffort>,
    pub(crate) tools: &'a [ToolDefinition],
    /// JSON Schema of a structured answer.
    pub(crate) output: Option<&'a Value>,
    /// Tools that the conversation has called. Empty unless `tools` is empty.
    pub(crate) called_tools: &'a BTreeSet<String>,
    /// State of [`WireMessages::open_turn`].
    pub(crate) open_turn: OpenTurn,
}

/// Division of the response body into events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventFraming {
    /// Server-sent events; the event is the JSON of its `data` lines.
    ServerSentEvents,
    /// One JSON value per line.
    JsonLines,
    /// Amazon's binary event stream; the data is the JSON payload.
    AmazonEvents,
}

/// Progress of an answer after an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnswerProgress {
    /// More events follow.
    More,
    /// The answer is complete; later events do not count.
    Done,
}

/// A wire format for one model.
pub(crate) trait WireFormat: Send + Sync {
    fn wire_format(&self) -> ProviderWireFormat;

    /// Returns the path of a model call, relative to the base URL, with its query.
    fn path(&self) -> String;

    /// Adds the headers that carry `key`, and those that the format requires.
    ///
    /// # Errors
    /// The key contains characters that no header may contain.
    fn add_headers(&self, key: Option<&str>, headers: &mut HeaderMap) -> Result<(), String>;

    fn framing(&self) -> EventFraming {
        EventFraming::ServerSentEvents
    }

    /// Returns all fields of the body except the system prompt and the messages.
    fn fields(&self, context: &RequestContext<'_>) -> JsonObject;

    /// Returns the field that contains the system prompt, if it is not a message. `notes` are the system messages of
    /// the conversation.
    fn system_field(
        &self,
        _system: Option<&str>,
        _notes: &[String],
    ) -> Option<(&'static str, Value)> {
        None
    }

    /// Returns the message that contains the system prompt, if it is not a field.
    fn system_message(&self, _system: &str) -> Option<Value> {
        None
    }

    /// Name of the field that contains the messages.
    fn messages_field(&self) -> &'static str {
        "messages"
    }

    /// Appends `message` in the shape of this format.
    fn add_message(&self, message: &Message, messages: &mut WireMessages);

    /// Returns the JSON of a message to which nothing more is added.
    fn close(&self, draft: &DraftMessage) -> Value;

    /// Returns the position and text of a cache mark in a message that [`WireFormat::close`] returned.
    fn cache_mark(&self) -> Option<CacheMark> {
        None
    }

    /// Returns a decoder for one answer.
    fn decoder(&self) -> Box<dyn StreamDecoder>;
}

/// An event of an answer as it arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WireEvent<'a> {
    /// Name of a server-sent event or of an Amazon event.
    pub(crate) name: Option<&'a str>,
    pub(crate) data: &'a str,
}

/// Decoder of the events of one answer.
pub(crate) trait StreamDecoder: Send + Sync {
    /// Decodes one event and adds its content to `answer`.
    ///
    /// # Errors
    /// The event reports an error, or is not an event of this format.
    fn decode(
        &mut self,
        event: WireEvent<'_>,
        answer: &mut AnswerBuilder,
    ) -> Result<AnswerProgress, ProviderError>;
}

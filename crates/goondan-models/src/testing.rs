//! Test helpers of this crate.

use std::collections::HashSet;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use futures::TryStreamExt;
use goondan_core::JsonObject;
use goondan_core::ids::InstanceId;
use goondan_core::message::{
    Message, MessageData, MessagePart, MessageRole, MessageSource, ProviderMetadata, ToolResultPart,
};
use goondan_core::ports::model::{
    CompletedAnswer, ModelChunk, ModelClient, ModelError, ModelRequest,
};
use goondan_core::ports::tool::{Attachment, ToolCallError, ToolCallStatus};
use goondan_spec::kinds::{Model, ReasoningEffort};
use goondan_spec::{BasePackage, Code, LoadInput, MemoryFiles, Resource, load};
use http_body::Body;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::answer::AnswerBuilder;
use crate::client::RequestBuilder;
use crate::errors::ProviderError;
use crate::formats::call_ids::CallIds;
use crate::formats::{AnswerProgress, EventFraming, WireEvent, WireFormat};
use crate::transport::{EventReader, FramingError};

pub(crate) fn model(provider: &str, options: Value) -> Resource<Model> {
    load_model(json!({"provider": provider, "model": "m", "options": options}))
}

/// Loads a Model with this `spec` from a project.
fn load_model(spec: Value) -> Resource<Model> {
    let document = json!({
        "apiVersion": "goondan.ai/v1", "kind": "Model", "metadata": {"name": "m"}, "spec": spec,
    });
    let files = MemoryFiles::new().file("/p/goondan.yaml", document.to_string());
    let loaded = load(LoadInput {
        root: Path::new("/p"),
        files: &files,
        base: &BasePackage::default(),
    });
    let bundle = loaded
        .bundle
        .unwrap_or_else(|| panic!("{:?}", loaded.diagnostics));
    Resource::clone(&bundle.models()[0])
}

pub(crate) fn message(role: MessageRole, content: Vec<MessagePart>) -> Arc<Message> {
    Arc::new(Message {
        id: "id".to_owned(),
        data: MessageData { role, content },
        metadata: Default::default(),
        created_at: Default::default(),
        source: MessageSource::User,
    })
}

pub(crate) fn request(agent: &str, input: &str) -> ModelRequest {
    ModelRequest {
        instance: InstanceId::new(agent, "main"),
        system: None,
        messages: vec![message(MessageRole::User, vec![MessagePart::text(input)])].into(),
        tools: Arc::from([]),
        params: Arc::default(),
        output: None,
        caller: None,
        exchange: None,
    }
}

/// Returns all chunks of an answer, or the first error.
pub(crate) async fn answer(
    client: &Arc<dyn ModelClient>,
    request: ModelRequest,
) -> Result<Vec<ModelChunk>, ModelError> {
    client.stream(request).await?.try_collect().await
}

/// Sends `request` and returns the text of the answer.
pub(crate) async fn answer_text(client: &Arc<dyn ModelClient>, request: ModelRequest) -> String {
    let chunks = answer(client, request).await.expect("an answer");
    let text = |chunk| {
        if let ModelChunk::Text(text) = chunk {
            Some(text)
        } else {
            None
        }
    };
    chunks.into_iter().filter_map(text).collect()
}

/// Decodes a complete response body as the client does. `pieces` are the reads from the network.
pub(crate) fn decode_pieces<'a>(
    format: &dyn WireFormat,
    family: &str,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> Result<CompletedAnswer, ProviderError> {
    let mut events = EventReader::new(format.framing(), 1024 * 1024);
    let mut decoder = format.decoder();
    let mut answer = AnswerBuilder::new(family);
    let mut outcome = Ok(AnswerProgress::More);
    let mut sink = |event: WireEvent<'_>| {
        if matches!(outcome, Ok(AnswerProgress::More)) && !event.data.is_empty() {
            outcome = decoder.decode(event, &mut answer);
        }
    };
    let framing_error = |error: FramingError| ProviderError::reported(format!("{error:?}"));
    for piece in pieces {
        events.take(piece, &mut sink).map_err(framing_error)?;
    }
    events.finish(&mut sink).map_err(framing_error)?;
    match outcome? {
        AnswerProgress::More if !answer.has_ended() => Err(ProviderError::reported("broke off")),
        _ => answer.complete(&mut CallIds::new(&HashSet::new())),
    }
}

/// Decodes a complete response body that arrives in one piece.
pub(crate) fn decode_stream(
    format: &dyn WireFormat,
    family: &str,
    body: &[u8],
) -> Result<CompletedAnswer, ProviderError> {
    decode_pieces(format, family, [body])
}

/// Returns equivalent forms of a response body: with CRLF, with keep-alives between events, and cut
/// at any byte. `body` has an empty line after each event, or one event per line.
pub(crate) fn equivalent_bodies(
    framing: EventFraming,
    body: String,
) -> impl Strategy<Value = Vec<Vec<u8>>> {
    let keep_alives = prop::collection::vec(0u8..4, 0..40);
    let cuts = prop::collection::vec(any::<prop::sample::Index>(), 0..20);
    (any::<bool>(), keep_alives, cuts).prop_map(move |(has_returns, keep_alives, cuts)| {
        let text = with_keep_alives(framing, &body, &keep_alives);
        let text = if has_returns {
            text.replace('\n', "\r\n")
        } else {
            text
        };
        cut_at(text.as_bytes(), &cuts)
    })
}

/// Cuts `bytes` at the positions `cuts`.
pub(crate) fn cut_at(bytes: &[u8], cuts: &[prop::sample::Index]) -> Vec<Vec<u8>> {
    let mut cut_positions: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
    cut_positions.extend([0, bytes.len()]);
    cut_positions.sort_unstable();
    cut_positions
        .windows(2)
        .map(|ends| bytes[ends[0]..ends[1]].to_vec())
        .collect()
}

/// Inserts a keep-alive between the events of `body`.
fn with_keep_alives(framing: EventFraming, body: &str, keep_alives: &[u8]) -> String {
    let (end, comments) = match framing {
        EventFraming::ServerSentEvents => {
            ("\n\n", ["", ": keep-alive\n\n", ":\n\n", "retry: 10\n\n"])
        }
        EventFraming::JsonLines | EventFraming::AmazonEvents => ("\n", ["", "\n", " \n", "\n\n"]),
    };
    let mut choices = keep_alives.iter().cycle();
    let events = body.split_inclusive(end);
    events.fold(String::new(), |text, event| {
        let comment = choices
            .next()
            .map_or("", |choice| comments[usize::from(*choice)]);
        text + comment + event
    })
}

/// Returns the body of the request that a client of `format` sends.
pub(crate) fn sent_body(
    format: Arc<dyn WireFormat>,
    effort: Option<ReasoningEffort>,
    request: &ModelRequest,
) -> Value {
    let builder = RequestBuilder::new(format, "key".to_owned(), effort, JsonObject::new());
    let mut body = builder.body(request);
    let mut frame = || {
        let context = &mut Context::from_waker(Waker::noop());
        match Pin::new(&mut body).poll_frame(context) {
            Poll::Ready(frame) => frame?.ok()?.into_data().ok(),
            Poll::Pending => None,
        }
    };
    let bytes: Vec<u8> = std::iter::from_fn(&mut frame).flatten().collect();
    serde_json::from_slice(&bytes).expect("a body of JSON")
}

/// Returns opaque data of the provider `family`.
pub(crate) fn opaque_data(family: &str, data: Value) -> ProviderMetadata {
    [(family.to_owned(), data)].into_iter().collect()
}

/// Returns the result of a tool call.
pub(crate) fn result(id: &str, output: Value) -> MessagePart {
    MessagePart::ToolResult(ToolResultPart {
        tool_call_id: id.to_owned(),
        tool_name: "t__x".to_owned(),
        status: ToolCallStatus::Ok,
        output: Some(output),
        error: None,
        untrusted: false,
    })
}

/// Returns the result of a tool call that failed.
pub(crate) fn failed_result(id: &str) -> MessagePart {
    let error = ToolCallError {
        name: None,
        message: "no such city".to_owned(),
        code: Code::TOOL_FAILED.as_str().to_owned(),
        suggestion: None,
        help_url: None,
    };
    MessagePart::ToolResult(ToolResultPart {
        tool_call_id: id.to_owned(),
        tool_name: "t__x".to_owned(),
        status: ToolCallStatus::Error,
        output: None,
        error: Some(error),
        untrusted: false,
    })
}

/// Returns an attachment with three bytes.
pub(crate) fn file(media_type: &str, name: Option<&str>) -> MessagePart {
    MessagePart::File(Attachment {
        media_type: media_type.to_owned(),
        data: "YWJj".to_owned(),
        name: name.map(str::to_owned),
    })
}

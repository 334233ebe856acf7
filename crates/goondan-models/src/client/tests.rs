//! Text tool calls and embeddings from a local server.

use std::path::Path;
use std::sync::Arc;

use futures::TryStreamExt;
use goondan_core::message::{MessagePart, ToolCall};
use goondan_core::ports::model::{
    CompletedAnswer, ModelChunk, ModelClient, ModelErrorKind, ModelFactory, ModelFinishReason,
    ModelRequest, ToolDefinition,
};
use goondan_spec::{Environment, Secret, ValueSource};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::provider::ModelProviders;
use crate::testing::{model, request};

/// Starts a server that sends `body` once, and returns its address.
async fn server(body: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        let mut seen = Vec::new();
        while !has_whole_request(&seen) {
            stream.read_buf(&mut seen).await.expect("a request");
        }
        let head = "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n";
        let response = format!("{head}{body}");
        stream
            .write_all(response.as_bytes())
            .await
            .expect("a client");
    });
    format!("http://{address}")
}

fn has_whole_request(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes).to_lowercase();
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    length.is_some_and(|length: usize| body.len() >= length)
}

fn client(provider: &str, endpoint: &str, options: Value) -> Arc<dyn ModelClient> {
    let mut model = model(provider, options);
    model.spec.endpoint = Some(endpoint.to_owned());
    model.spec.api_key = Some(ValueSource::Value(Secret::new("k")));
    let environment = Environment::default();
    ModelProviders::new()
        .client(&model, Path::new("/"), &environment)
        .expect("a client")
}

fn request_with_tool() -> ModelRequest {
    let tool = ToolDefinition {
        name: "t__x".to_owned(),
        description: String::new(),
        parameters: json!({"type": "object", "properties": {"n": {"type": "integer"}}}),
    };
    ModelRequest {
        tools: Arc::from([tool]),
        ..request("a", "go")
    }
}

/// Returns the streamed text and the completed answer.
async fn streamed_answer(text: &str, options: Value) -> (String, CompletedAnswer) {
    let pieces = text
        .split_inclusive(' ')
        .map(|piece| json!({"message": {"content": piece}}));
    let end = json!({"message": {"content": ""}, "done": true, "done_reason": "stop"});
    let lines: String = pieces
        .chain([end])
        .map(|line| format!("{line}\n"))
        .collect();
    let client = client("ollama", &server(lines).await, options);
    let stream = client.stream(request_with_tool()).await.expect("an answer");
    let mut chunks: Vec<ModelChunk> = stream.try_collect().await.expect("an answer");
    let Some(ModelChunk::Finish(answer)) = chunks.pop() else {
        panic!("{chunks:?}")
    };
    let shown = chunks.into_iter().map(|chunk| match chunk {
        ModelChunk::Text(text) => text,
        other => panic!("{other:?}"),
    });
    (shown.collect(), *answer)
}

#[tokio::test]
async fn text_tool_calls_are_extracted_unless_an_option_disables_it() {
    let call = "<function=t__x> <parameter=n> 1 </parameter> </function>";
    let text = format!("I look. {call}");
    let (shown, answer) = streamed_answer(&text, json!({})).await;
    assert_eq!(shown, "I look.");
    let expected = [
        MessagePart::text("I look."),
        MessagePart::ToolCall(ToolCall::new("call_1", "t__x", json!({"n": 1}))),
    ];
    assert_eq!(answer.parts, expected);
    assert_eq!(answer.finish_reason, ModelFinishReason::ToolCalls);
    let (shown, answer) = streamed_answer(&text, json!({"textToolCalls": false})).await;
    assert_eq!(
        (shown.as_str(), answer.parts),
        (text.as_str(), vec![MessagePart::text(text.as_str())])
    );
}

#[tokio::test]
async fn ollama_embeddings_are_decoded_and_invalid_bodies_are_errors() {
    let texts = || vec!["cats".to_owned(), "dogs".to_owned()];
    let vectors = json!({"embeddings": [[0.5, 1.0], [0.0, -1.0]]}).to_string();
    let ollama = client("ollama", &server(vectors).await, json!({}));
    assert_eq!(
        ollama.embed(texts()).await.expect("vectors"),
        [vec![0.5, 1.0], vec![0.0, -1.0]]
    );
    for (body, kind, words) in [
        (
            "{\"embeddings\": 1}",
            ModelErrorKind::Protocol,
            "is not a list of embeddings",
        ),
        (
            "{\"embeddings\": [",
            ModelErrorKind::Connection,
            "sent an incomplete answer",
        ),
        ("<html></html>", ModelErrorKind::Protocol, "web page"),
        (
            "{\"error\": \"no such model\"}",
            ModelErrorKind::Connection,
            "no such model",
        ),
    ] {
        let client = client("ollama", &server(body.to_owned()).await, json!({}));
        let error = client.embed(texts()).await.expect_err("no vectors");
        assert_eq!(error.kind, kind, "{error:?}");
        assert!(error.message.contains(words), "{error:?}");
    }
}

#[tokio::test]
async fn embedding_without_provider_support_is_a_configuration_error() {
    let vertex = client("vertex", "http://127.0.0.1:9", json!({}));
    let error = vertex
        .embed(vec![String::new()])
        .await
        .expect_err("no vectors");
    assert_eq!(error.kind, ModelErrorKind::Configuration);
    assert_eq!(error.message, "This provider has no embeddings.");
}

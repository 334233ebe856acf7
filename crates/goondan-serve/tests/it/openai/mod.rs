//! The OpenAI-compatible API. `ci/openai` tests it with the official clients.

mod clients;
mod conversations;
mod errors;
mod finish_reasons;
mod format;
mod streams;

use std::path::Path;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures::StreamExt;
use goondan::message::{Message, MessagePart, MessageRole, ToolCall};
use goondan::ports::model::{
    CompletedAnswer, ModelChunk, ModelClient, ModelError, ModelErrorKind, ModelFactory,
    ModelFinishReason, ModelRequest, ModelStream, TokenUsage,
};
use goondan::spec::kinds::Model;
use goondan::spec::{Environment, Resource};
use goondan_serve::ServerLimits;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

use crate::support::{TestServer, with_timeout};

const PROJECT: &str = "
apiVersion: goondan.ai/v1
kind: Model
metadata: {name: m}
spec: {provider: any, model: any}
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: a}
spec: {modelConfig: {modelRef: Model/m}, tools: [{ref: Tool/text-transform}]}
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: b}
spec: {modelConfig: {modelRef: Model/m}}
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: data}
spec: {modelConfig: {modelRef: Model/m}, output: {schema: {type: object, required: [m]}}}
---
apiVersion: goondan.ai/v1
kind: Swarm
metadata: {name: default}
spec: {entryAgent: Agent/a, agents: [{ref: Agent/a}, {ref: Agent/b}, {ref: Agent/data}]}
";

/// Model whose answer is the number of user messages and the last user message. An input with
/// `hold` pauses in the middle of its answer until a permit of `resume` is added.
#[derive(Clone)]
struct CountingModel {
    /// Received messages of each call as `role: text`, after the system prompt.
    seen: Arc<Mutex<Vec<Vec<String>>>>,
    resume: Arc<Semaphore>,
}

impl Default for CountingModel {
    fn default() -> Self {
        CountingModel {
            seen: Arc::default(),
            resume: Arc::new(Semaphore::new(0)),
        }
    }
}

impl ModelFactory for CountingModel {
    fn client(
        &self,
        _: &Resource<Model>,
        _: &Path,
        _: &Environment,
    ) -> Result<Arc<dyn ModelClient>, ModelError> {
        Ok(Arc::new(self.clone()))
    }
}

fn line(message: &Message) -> String {
    let role = match message.data.role {
        MessageRole::User => "user",
        MessageRole::Assistant => "assistant",
        MessageRole::Tool => "tool",
        MessageRole::System => "system",
    };
    format!("{role}: {}", message.text())
}

#[async_trait]
impl ModelClient for CountingModel {
    async fn stream(&self, request: ModelRequest) -> Result<ModelStream, ModelError> {
        let mut seen: Vec<String> = request
            .messages
            .iter()
            .map(|message| line(message))
            .collect();
        seen.insert(0, request.system.unwrap_or_default());
        self.seen.lock().unwrap().push(seen);
        let users = request
            .messages
            .iter()
            .filter(|message| message.data.role == MessageRole::User);
        let (count, text) = users.fold((0, String::new()), |(count, _), message| {
            (count + 1, message.text())
        });
        if text.contains("fail") {
            return Err(ModelError::new(ModelErrorKind::Status(400), "no"));
        }
        let usage = Some(TokenUsage {
            prompt_tokens: 1,
            completion_tokens: 2,
            total_tokens: 3,
            cached_tokens: 1,
            ..TokenUsage::default()
        });
        if text.contains("decline") {
            let words = "The model declined to answer: not this.";
            let error = ModelError::new(ModelErrorKind::Declined, words);
            let chunks = [Ok(ModelChunk::Text("Half an".to_owned())), Err(error)];
            return Ok(futures::stream::iter(chunks).boxed());
        }
        if text.contains("reason") || text.contains("cut") {
            return Ok(reasoned(&text, usage));
        }
        // With an output schema, the first user message is the answer.
        if request
            .tools
            .iter()
            .any(|tool| tool.name == "answer__submit")
        {
            let said = request
                .messages
                .iter()
                .find(|message| message.data.role == MessageRole::User)
                .unwrap()
                .text();
            let arguments = serde_json::from_str(&said).unwrap();
            let call = MessagePart::ToolCall(ToolCall::new("", "answer__submit", arguments));
            let answer = ModelChunk::finish(vec![call], usage);
            return Ok(futures::stream::iter([Ok(answer)]).boxed());
        }
        let is_first_step = request
            .messages
            .last()
            .is_some_and(|message| message.data.role == MessageRole::User);
        if text.contains("shout") && is_first_step {
            let arguments = json!({"text": "x", "to": "upper"});
            let call = MessagePart::ToolCall(ToolCall::new("", "text-transform__case", arguments));
            let chunks = [
                ModelChunk::Text("One moment.".to_owned()),
                ModelChunk::finish(vec![MessagePart::text("One moment."), call], usage),
            ];
            return Ok(futures::stream::iter(chunks.map(Ok)).boxed());
        }
        let resume = text.contains("hold").then(|| Arc::clone(&self.resume));
        let whole = MessagePart::text(format!("{count}: {text}"));
        let begin = futures::stream::iter([Ok(ModelChunk::Text(format!("{count}: ")))]);
        let rest = futures::stream::once(async move {
            if let Some(resume) = resume {
                resume.acquire().await.unwrap().forget();
            }
            Ok(ModelChunk::Text(text))
        });
        Ok(begin
            .chain(rest)
            .chain(futures::stream::iter([Ok(ModelChunk::finish(
                vec![whole],
                usage,
            ))]))
            .boxed())
    }
}

/// Returns an answer with reasoning. If the input contains `cut`, the answer is incomplete.
fn reasoned(text: &str, usage: Option<TokenUsage>) -> ModelStream {
    let mut answer = CompletedAnswer::of_parts(
        vec![
            MessagePart::reasoning("Let me see."),
            MessagePart::text("Seen."),
        ],
        usage,
    );
    if text.contains("cut") {
        answer.finish_reason = ModelFinishReason::Length;
    }
    let chunks = [
        ModelChunk::Reasoning("Let me ".to_owned()),
        ModelChunk::Reasoning("see.".to_owned()),
        ModelChunk::Text("Seen.".to_owned()),
        ModelChunk::Finish(Box::new(answer)),
    ];
    futures::stream::iter(chunks.map(Ok)).boxed()
}

/// Server whose agents use a [`CountingModel`].
struct OpenAiServer {
    inner: TestServer,
    model: CountingModel,
    _state: tempfile::TempDir,
}

impl OpenAiServer {
    async fn start() -> OpenAiServer {
        let (state, model) = (tempfile::tempdir().unwrap(), CountingModel::default());
        let inner = start(state.path(), &model).await;
        OpenAiServer {
            inner,
            model,
            _state: state,
        }
    }

    /// Simulates a crash, and starts another server with the same state.
    async fn restart(self) -> OpenAiServer {
        let OpenAiServer {
            inner,
            model,
            _state,
        } = self;
        inner.kill().await;
        let inner = start(_state.path(), &model).await;
        OpenAiServer {
            inner,
            model,
            _state,
        }
    }

    async fn chat(&self, messages: Value) -> Reply {
        self.post(
            "chat/completions",
            &json!({"model": "a", "messages": messages}),
            &[],
        )
        .await
    }

    async fn post(&self, path: &str, body: &Value, headers: &[(&str, &str)]) -> Reply {
        self.request("POST", path, &body.to_string(), headers).await
    }

    async fn request(
        &self,
        method: &str,
        path: &str,
        body: &str,
        headers: &[(&str, &str)],
    ) -> Reply {
        let mut request = format!(
            "{method} /v1/{path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {}\r\n",
            body.len()
        );
        let bearer = format!("Bearer {}", self.inner.endpoint.token.expose());
        let authorization = ("authorization", &*bearer);
        let is_given = headers.iter().any(|(name, _)| *name == "authorization");
        for (name, value) in headers
            .iter()
            .copied()
            .chain((!is_given).then_some(authorization))
        {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        let mut stream = TcpStream::connect(self.inner.address).await.unwrap();
        stream
            .write_all(format!("{request}\r\n{body}").as_bytes())
            .await
            .unwrap();
        Reply {
            stream,
            text: String::new(),
        }
    }

    /// Returns the messages of all conversations, oldest conversation first.
    async fn conversations(&self) -> Vec<Vec<String>> {
        let mut all = Vec::new();
        for meta in self.inner.swarm.instances().await {
            let messages = self.inner.swarm.conversation(&meta.id()).await.unwrap();
            all.push(messages.iter().map(|message| line(message)).collect());
        }
        all
    }

    /// Returns the number of model calls.
    fn model_calls(&self) -> usize {
        self.model.seen.lock().unwrap().len()
    }
}

async fn start(state: &Path, model: &CountingModel) -> TestServer {
    let models = Arc::new(model.clone());
    TestServer::start_project(
        state,
        ServerLimits {
            body: 100_000,
            ..ServerLimits::default()
        },
        PROJECT,
        |builder| builder.models(models),
    )
    .await
}

/// Response that is read incrementally.
struct Reply {
    stream: TcpStream,
    text: String,
}

impl Reply {
    /// Reads a chunk. Returns false at the end of the response.
    async fn read_chunk(&mut self) -> bool {
        let mut bytes = [0; 4096];
        let length = with_timeout(self.stream.read(&mut bytes)).await.unwrap();
        self.text
            .push_str(std::str::from_utf8(&bytes[..length]).unwrap());
        length > 0
    }

    /// Reads until the response contains `text`.
    async fn read_until(&mut self, text: &str) {
        while !self.text.contains(text) {
            assert!(
                self.read_chunk().await,
                "{text:?} is missing in the response: {}",
                self.text
            );
        }
    }

    async fn read_all(mut self) -> String {
        while self.read_chunk().await {}
        self.text
    }

    async fn head(self) -> (u16, String, Value) {
        let text = self.read_all().await;
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (
            status,
            head.to_owned(),
            serde_json::from_str(body).unwrap_or_else(|_| panic!("the body is not JSON: {text}")),
        )
    }

    async fn json(self) -> (u16, Value) {
        let (status, _, body) = self.head().await;
        (status, body)
    }

    /// Returns the text of a completion.
    async fn answer(self) -> String {
        let (status, body) = self.json().await;
        assert_eq!(status, 200, "{body}");
        body["choices"][0]["message"]["content"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    /// Returns the events of a stream.
    async fn events(self) -> Vec<Value> {
        let text = self.read_all().await;
        let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
        data.map(|data| serde_json::from_str(data).unwrap_or_else(|_| data.into()))
            .collect()
    }
}

/// Returns the text of streamed chunks.
fn content(chunks: &[Value]) -> String {
    chunks
        .iter()
        .filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str())
        .collect()
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

fn assistant(text: &str) -> Value {
    json!({"role": "assistant", "content": text})
}

fn stream(text: &str) -> Value {
    json!({"model": "a", "stream": true, "messages": [user(text)]})
}

//! A test server with a swarm.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use goondan::ids::InstanceId;
use goondan::spec::Environment;
use goondan::{ApprovalBroker, Swarm, SwarmBuilder};
use goondan_serve::client::{LocalClient, ServerEvent, ServerEvents};
use goondan_serve::local_endpoint::{EndpointAddress, LocalEndpoint};
use goondan_serve::wire::{InputBody, InputState};
use goondan_serve::{
    AccessPolicy, Server, ServerLimits, ServerOptions, ServerToken, Service, ServiceGuard,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Project whose model repeats its input in three chunks, calls a tool, waits, or fails, depending
/// on the input.
pub(crate) const PROJECT: &str = r#"
apiVersion: goondan.ai/v1
kind: Model
metadata: {name: m}
spec:
  provider: scripted
  model: any
  options:
    rules:
      - {when: {role: user, contains: write}, reply: {calls: [{id: w, tool: file-system__write, args: {path: note.txt, content: hi}}]}}
      - {when: {contains: slow}, reply: {text: late, delayMs: 600000}}
      - {when: {contains: break}, reply: {error: {status: 400, message: no}}}
      - {when: {contains: half}, reply: {reasoning: Let me see., text: a half, finishReason: length}}
    default: {text: "{{ last }} one two", chunks: 3, usage: {promptTokens: 3, completionTokens: 2}}
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: a}
spec:
  modelConfig: {modelRef: Model/m}
  tools: [{ref: Tool/file-system}]
  permissions: {default: allow, rules: [{permission: write, action: ask}]}
---
apiVersion: goondan.ai/v1
kind: Swarm
metadata: {name: default}
spec: {entryAgent: Agent/a, agents: [{ref: Agent/a}]}
"#;

/// Server with a swarm, and a client for it.
pub(crate) struct TestServer {
    pub(crate) swarm: Swarm,
    pub(crate) service: Service,
    pub(crate) client: LocalClient,
    pub(crate) endpoint: LocalEndpoint,
    pub(crate) broker: ApprovalBroker,
    pub(crate) server: Server,
    pub(crate) address: SocketAddr,
    _guard: ServiceGuard,
    _project: tempfile::TempDir,
}

impl TestServer {
    /// Starts a server that stores its state in the directory `state`.
    pub(crate) async fn start(state: &Path) -> TestServer {
        TestServer::start_with(state, ServerLimits::default()).await
    }

    pub(crate) async fn start_with(state: &Path, limits: ServerLimits) -> TestServer {
        TestServer::start_project(state, limits, PROJECT, |builder| builder).await
    }

    pub(crate) async fn start_project(
        state: &Path,
        limits: ServerLimits,
        project: &str,
        with: impl FnOnce(SwarmBuilder) -> SwarmBuilder,
    ) -> TestServer {
        TestServer::start_with_options(state, limits, project, with, |options| options).await
    }

    /// Works like [`TestServer::start_project`], with changed server options.
    pub(crate) async fn start_with_options(
        state: &Path,
        limits: ServerLimits,
        project: &str,
        with: impl FnOnce(SwarmBuilder) -> SwarmBuilder,
        configure: impl FnOnce(ServerOptions) -> ServerOptions,
    ) -> TestServer {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("goondan.yaml"), project).unwrap();
        let project = goondan::load(directory.path());
        assert_eq!(project.diagnostics, []);
        let broker = ApprovalBroker::default();
        let builder = Swarm::builder(project.bundle.unwrap())
            .state_root(state)
            .workspace(goondan::Workspace {
                id: "w".to_owned(),
                dir: state.join("w"),
            })
            .environment(Environment::default())
            .approver(std::sync::Arc::new(broker.clone()));
        let swarm = with(builder).start().await.unwrap();
        let (service, guard) = Service::begin(swarm.clone(), broker.clone(), "0");
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let token = ServerToken::random();
        let options = configure(ServerOptions {
            limits,
            ..AccessPolicy::local(token.clone()).into()
        });
        let address = listener.local_addr().unwrap();
        let server = Server::listen(listener, service.clone(), options);
        let endpoint = LocalEndpoint {
            address: EndpointAddress::Address(address),
            token,
            pid: 0,
        };
        let client = LocalClient::for_endpoint(&endpoint);
        TestServer {
            swarm,
            service,
            client,
            endpoint,
            broker,
            server,
            address,
            _guard: guard,
            _project: directory,
        }
    }

    /// Stops the server as a crash would, and releases the workspace.
    pub(crate) async fn kill(self) {
        let TestServer {
            swarm,
            service,
            server,
            _guard,
            ..
        } = self;
        swarm.kill();
        drop(_guard);
        drop(service);
        server.end().await;
        drop(swarm);
    }

    /// Submits an input and waits for the end of its turn.
    pub(crate) async fn run_turn(&self, text: &str) -> InputState {
        self.client
            .post("/api/inputs?wait=true", &input(text))
            .await
            .unwrap()
    }

    /// Returns the number of user messages in the main conversation.
    pub(crate) async fn user_message_count(&self) -> usize {
        let messages = self
            .swarm
            .conversation(&InstanceId::new("a", "main"))
            .await
            .unwrap();
        messages
            .iter()
            .filter(|message| message.data.role == goondan::message::MessageRole::User)
            .count()
    }

    /// Sends raw bytes. Returns the whole response with its head.
    pub(crate) async fn raw(&self, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        // The server may already have closed the connection after it rejected the request.
        let _ = stream.write_all(request).await;
        let mut response = Vec::new();
        let _ = with_timeout(stream.read_to_end(&mut response)).await;
        String::from_utf8_lossy(&response).into_owned()
    }
}

pub(crate) fn input(text: &str) -> InputBody {
    InputBody {
        input: text.to_owned(),
        ..InputBody::default()
    }
}

/// Reads all events up to the end of the stream.
pub(crate) async fn all(mut events: ServerEvents) -> Vec<ServerEvent> {
    let mut all = Vec::new();
    while let Some(event) = with_timeout(events.next()).await.unwrap() {
        all.push(event);
    }
    all
}

/// Awaits a future, and panics after a minute.
pub(crate) async fn with_timeout<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), future)
        .await
        .expect("the operation timed out after a minute")
}

pub(crate) fn names(events: &[ServerEvent]) -> Vec<&str> {
    events.iter().map(|event| &*event.name).collect()
}

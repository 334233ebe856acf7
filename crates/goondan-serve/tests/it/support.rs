//! A swarm behind a server.

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

/// The model says what it hears, in three pieces, or calls a tool, or waits.
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

/// A swarm behind a server.
pub(crate) struct Running {
    pub(crate) swarm: Swarm,
    pub(crate) service: Service,
    pub(crate) client: LocalClient,
    pub(crate) door: LocalEndpoint,
    pub(crate) broker: ApprovalBroker,
    pub(crate) server: Server,
    pub(crate) address: SocketAddr,
    _serving: ServiceGuard,
    _project: tempfile::TempDir,
}

impl Running {
    /// Keeps its state in that folder.
    pub(crate) async fn start(state: &Path) -> Running {
        Running::start_with(state, ServerLimits::default()).await
    }

    pub(crate) async fn start_with(state: &Path, limits: ServerLimits) -> Running {
        Running::start_project(state, limits, PROJECT, |builder| builder).await
    }

    pub(crate) async fn start_project(
        state: &Path,
        limits: ServerLimits,
        project: &str,
        with: impl FnOnce(SwarmBuilder) -> SwarmBuilder,
    ) -> Running {
        Running::start_offer(state, limits, project, with, |offer| offer).await
    }

    /// With another offer than the usual one.
    pub(crate) async fn start_offer(
        state: &Path,
        limits: ServerLimits,
        project: &str,
        with: impl FnOnce(SwarmBuilder) -> SwarmBuilder,
        offer: impl FnOnce(ServerOptions) -> ServerOptions,
    ) -> Running {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("goondan.yaml"), project).unwrap();
        let project = goondan::load(folder.path());
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
        let (service, serving) = Service::begin(swarm.clone(), broker.clone(), "0");
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let token = ServerToken::random();
        let offer = offer(ServerOptions {
            limits,
            ..AccessPolicy::local(token.clone()).into()
        });
        let address = listener.local_addr().unwrap();
        let server = Server::listen(listener, service.clone(), offer);
        let door = LocalEndpoint {
            address: EndpointAddress::Address(address),
            token,
            pid: 0,
        };
        let client = LocalClient::for_endpoint(&door);
        Running {
            swarm,
            service,
            client,
            door,
            broker,
            server,
            address,
            _serving: serving,
            _project: folder,
        }
    }

    /// Ends it as if the process had died, so that its workspace is free.
    pub(crate) async fn kill(self) {
        let Running {
            swarm,
            service,
            server,
            _serving,
            ..
        } = self;
        swarm.kill();
        drop(_serving);
        drop(service);
        server.end().await;
        drop(swarm);
    }

    /// Hands an input in and waits for the end of its turn.
    pub(crate) async fn ask(&self, text: &str) -> InputState {
        self.client
            .post("/api/inputs?wait=true", &input(text))
            .await
            .unwrap()
    }

    /// How many user messages the main conversation has.
    pub(crate) async fn turns(&self) -> usize {
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

    /// A response to bytes as they are: its head and body.
    pub(crate) async fn raw(&self, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        // A server that has refused may have closed its side already.
        let _ = stream.write_all(request).await;
        let mut response = Vec::new();
        let _ = within(stream.read_to_end(&mut response)).await;
        String::from_utf8_lossy(&response).into_owned()
    }
}

pub(crate) fn input(text: &str) -> InputBody {
    InputBody {
        input: text.to_owned(),
        ..InputBody::default()
    }
}

/// All events up to the end of the stream.
pub(crate) async fn all(mut events: ServerEvents) -> Vec<ServerEvent> {
    let mut all = Vec::new();
    while let Some(event) = within(events.next()).await.unwrap() {
        all.push(event);
    }
    all
}

/// What hangs fails.
pub(crate) async fn within<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), what)
        .await
        .expect("it took a minute")
}

pub(crate) fn names(events: &[ServerEvent]) -> Vec<&str> {
    events.iter().map(|event| &*event.name).collect()
}

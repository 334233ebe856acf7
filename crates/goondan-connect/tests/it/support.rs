//! A swarm with connections.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode};
use goondan::gateway::SwarmGateway;
use goondan::ids::InstanceId;
use goondan::message::MessageRole;
use goondan::ports::clock::{Clock, SystemClock};
use goondan::spec::Environment;
use goondan::{ApprovalBroker, HostCommand, Swarm};
use goondan_connect::{ConnectionOptions, ConnectionSnapshot, ConnectionStateDir, Connections};
use tower::ServiceExt as _;

/// The model repeats what it hears, fails, takes forever, or wants to do something that a policy asks about.
pub(crate) const AGENTS: &str = r#"
apiVersion: goondan.ai/v1
kind: Model
metadata: {name: m}
spec:
  provider: scripted
  model: any
  options:
    rules:
      - {when: {contains: slow}, reply: {text: late, delayMs: 600000}}
      - {when: {contains: break}, reply: {error: {status: 400, message: no}}}
      - {when: {role: tool}, reply: {text: "it is done"}}
      - {when: {contains: draw}, reply: {calls: [{id: d, tool: fs__read, args: {path: picture.png}}]}}
      - {when: {contains: plan at length}, reply: {calls: [{id: t, tool: todo__write, args: {todos: [{content: "{{ last }}"}, {content: "{{ last }}"}, {content: "{{ last }}"}, {content: "{{ last }}"}]}}]}}
      - {when: {contains: plan without end}, reply: {calls: [{id: t, tool: todo__write, args: {todos: [{content: "{{ last }}"}, {content: "{{ last }}"}, {content: "{{ last }}"}, {content: "{{ last }}"}, {content: "{{ last }}"}, {content: "{{ last }}"}, {content: "{{ last }}"}, {content: "{{ last }}"}, {content: "{{ last }}"}, {content: "{{ last }}"}, {content: "{{ last }}"}, {content: "{{ last }}"}]}}]}}
      - {when: {contains: plan it}, reply: {text: Let me plan., calls: [{id: t, tool: todo__write, args: {todos: []}}]}}
    default: {text: "heard {{ last }}"}
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: a}
spec:
  modelConfig: {modelRef: Model/m}
  tools: [{ref: Tool/todo}, {ref: Tool/fs}]
  permissions: {default: allow, rules: [{tool: "todo__*", action: ask}]}
---
apiVersion: goondan.ai/v1
kind: Swarm
metadata: {name: default}
spec: {entryAgent: Agent/a, agents: [{ref: Agent/a}]}
"#;

/// A swarm with connections.
pub(crate) struct Running {
    pub(crate) swarm: Swarm,
    pub(crate) connections: Connections,
    router: Router,
    workspace: std::path::PathBuf,
    pub(crate) broker: ApprovalBroker,
    _somebody: goondan::ApprovalListener,
    project: tempfile::TempDir,
}

impl Running {
    /// Keeps its state in that folder. `connections` is YAML.
    pub(crate) async fn start(state: &Path, connections: &str) -> Running {
        Running::start_at(state, connections, Arc::new(SystemClock)).await
    }

    /// As [`Running::start`], where the connections see another time.
    pub(crate) async fn start_at(
        state: &Path,
        connections: &str,
        clock: Arc<dyn Clock>,
    ) -> Running {
        let options = ConnectionOptions {
            has_server: true,
            clock,
            ..ConnectionOptions::default()
        };
        Running::start_with(state, connections, &[], options).await
    }

    /// As [`Running::start`], with further files of the project.
    pub(crate) async fn start_with(
        state: &Path,
        connections: &str,
        files: &[(&str, &str)],
        options: ConnectionOptions,
    ) -> Running {
        let put = |folder: &Path| {
            files
                .iter()
                .for_each(|(name, text)| std::fs::write(folder.join(name), text).unwrap());
        };
        Running::start_hosting(state, connections, put, options, None).await
    }

    /// As [`Running::start_with`], where `put` puts further files into the project, and libraries run in processes of `host`.
    pub(crate) async fn start_hosting(
        state: &Path,
        connections: &str,
        put: impl FnOnce(&Path),
        options: ConnectionOptions,
        host: Option<HostCommand>,
    ) -> Running {
        let text = format!("{AGENTS}---\n{connections}");
        Running::start_project(state, &text, put, options, host).await
    }

    /// Works like [`Running::start_hosting`], for a project with its own agents.
    pub(crate) async fn start_project(
        state: &Path,
        text: &str,
        put: impl FnOnce(&Path),
        options: ConnectionOptions,
        host: Option<HostCommand>,
    ) -> Running {
        let folder = tempfile::tempdir().unwrap();
        put(folder.path());
        std::fs::write(folder.path().join("goondan.yaml"), text).unwrap();
        let project = goondan::load(folder.path());
        assert_eq!(project.diagnostics, []);
        let workspace = state.join("w");
        let broker = ApprovalBroker::default();
        // As a server does: questions wait for whoever comes.
        let somebody = broker.listen();
        let builder = Swarm::builder(project.bundle.unwrap());
        let builder = host
            .into_iter()
            .fold(builder, |builder, host| builder.tool_host(host));
        let swarm = builder
            .approver(Arc::new(broker.clone()))
            .state_root(state)
            .workspace(goondan::Workspace {
                id: "w".to_owned(),
                dir: workspace.clone(),
            })
            .environment(Environment::default())
            .start()
            .await
            .unwrap();
        let gateway = SwarmGateway::open(swarm.clone(), broker.clone());
        let connections = Connections::begin(gateway, options).await;
        assert_eq!(connections.problems(), []);
        let router = connections.router();
        Running {
            swarm,
            connections,
            router,
            workspace,
            broker,
            _somebody: somebody,
            project: folder,
        }
    }

    /// Ends it as if the process had died.
    pub(crate) async fn kill(self) {
        self.swarm.kill();
        drop(self.connections);
        drop(self.router);
        // Tasks that were dropped let go of the workspace a moment later.
        let lock = goondan::Workspace {
            id: "w".to_owned(),
            dir: self.workspace.clone(),
        };
        drop(self.swarm);
        within(async {
            while lock.running_process().unwrap().is_some() {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }

    /// A file of the project.
    pub(crate) fn file(&self, name: &str) -> std::path::PathBuf {
        self.project.path().join(name)
    }

    /// Puts another project in place, and reloads it.
    pub(crate) async fn reload(&self, connections: &str) {
        std::fs::write(
            self.project.path().join("goondan.yaml"),
            format!("{AGENTS}---\n{connections}"),
        )
        .unwrap();
        self.swarm.reload().await.result.unwrap();
    }

    /// What a platform gets that delivers `body`.
    pub(crate) async fn deliver(
        &self,
        connection: &str,
        headers: &[(&str, String)],
        body: &[u8],
    ) -> (StatusCode, String) {
        let mut request = Request::post(format!("/connect/{connection}"));
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        let request = request.body(Body::from(body.to_owned())).unwrap();
        let response = within(self.router.clone().oneshot(request)).await.unwrap();
        let status = response.status();
        let body = to_bytes(response.into_body(), 1 << 20).await.unwrap();
        (status, String::from_utf8_lossy(&body).into_owned())
    }

    /// What people have said in a conversation.
    pub(crate) async fn heard(&self, key: &str) -> Vec<String> {
        let messages = self
            .swarm
            .conversation(&InstanceId::new("a", key))
            .await
            .unwrap();
        messages
            .iter()
            .filter(|message| message.data.role == MessageRole::User)
            .map(|message| message.text())
            .collect()
    }

    /// Waits until so much was answered in a conversation, and gives back what was said.
    pub(crate) async fn answered(&self, key: &str, count: usize) -> Vec<String> {
        let mut events = self.swarm.subscribe();
        within(async {
            loop {
                let messages = self
                    .swarm
                    .conversation(&InstanceId::new("a", key))
                    .await
                    .unwrap();
                if messages
                    .iter()
                    .filter(|message| message.data.role == MessageRole::Assistant)
                    .count()
                    >= count
                {
                    return;
                }
                events.recv().await;
            }
        })
        .await;
        self.heard(key).await
    }

    pub(crate) fn look(&self, connection: &str) -> ConnectionSnapshot {
        self.shelf(connection).look().unwrap()
    }

    pub(crate) fn shelf(&self, connection: &str) -> ConnectionStateDir {
        ConnectionStateDir::of(&self.workspace, connection)
    }

    /// Waits until something can be seen of a connection.
    pub(crate) async fn until(&self, connection: &str, what: impl Fn(&ConnectionSnapshot) -> bool) {
        within(async {
            while !what(&self.look(connection)) {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }
}

/// What hangs fails.
pub(crate) async fn within<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), what)
        .await
        .expect("it took a minute")
}

/// A value that a mock's closure and its test share.
pub(crate) fn shared<T>(value: T) -> Arc<std::sync::Mutex<T>> {
    Arc::new(std::sync::Mutex::new(value))
}

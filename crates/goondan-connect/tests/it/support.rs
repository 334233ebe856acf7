//! A running swarm with connections.

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

/// Project whose model repeats its input, fails, waits for ten minutes, or calls a tool that needs
/// an approval, depending on the input.
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

/// Running swarm with connections.
pub(crate) struct TestRuntime {
    pub(crate) swarm: Swarm,
    pub(crate) connections: Connections,
    router: Router,
    workspace: std::path::PathBuf,
    pub(crate) broker: ApprovalBroker,
    _listener: goondan::ApprovalListener,
    project: tempfile::TempDir,
}

impl TestRuntime {
    /// Starts a swarm that stores its state in the directory `state`. `connections` is YAML.
    pub(crate) async fn start(state: &Path, connections: &str) -> TestRuntime {
        TestRuntime::start_at(state, connections, Arc::new(SystemClock)).await
    }

    /// Works like [`TestRuntime::start`], with another clock for the connections.
    pub(crate) async fn start_at(
        state: &Path,
        connections: &str,
        clock: Arc<dyn Clock>,
    ) -> TestRuntime {
        let options = ConnectionOptions {
            has_server: true,
            clock,
            ..ConnectionOptions::default()
        };
        TestRuntime::start_with(state, connections, &[], options).await
    }

    /// Works like [`TestRuntime::start`], with additional project files.
    pub(crate) async fn start_with(
        state: &Path,
        connections: &str,
        files: &[(&str, &str)],
        options: ConnectionOptions,
    ) -> TestRuntime {
        let add_files = |directory: &Path| {
            files
                .iter()
                .for_each(|(name, text)| std::fs::write(directory.join(name), text).unwrap());
        };
        TestRuntime::start_with_host(state, connections, add_files, options, None).await
    }

    /// Works like [`TestRuntime::start_with`], but `add_files` adds files to the project, and
    /// `host` runs libraries.
    pub(crate) async fn start_with_host(
        state: &Path,
        connections: &str,
        add_files: impl FnOnce(&Path),
        options: ConnectionOptions,
        host: Option<HostCommand>,
    ) -> TestRuntime {
        let text = format!("{AGENTS}---\n{connections}");
        TestRuntime::start_project(state, &text, add_files, options, host).await
    }

    /// Works like [`TestRuntime::start_with_host`], for a project with its own agents.
    pub(crate) async fn start_project(
        state: &Path,
        text: &str,
        add_files: impl FnOnce(&Path),
        options: ConnectionOptions,
        host: Option<HostCommand>,
    ) -> TestRuntime {
        let directory = tempfile::tempdir().unwrap();
        add_files(directory.path());
        std::fs::write(directory.path().join("goondan.yaml"), text).unwrap();
        let project = goondan::load(directory.path());
        assert_eq!(project.diagnostics, []);
        let workspace = state.join("w");
        let broker = ApprovalBroker::default();
        // As in a server, approval requests stay open until a client answers.
        let listener = broker.listen();
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
        TestRuntime {
            swarm,
            connections,
            router,
            workspace,
            broker,
            _listener: listener,
            project: directory,
        }
    }

    /// Stops the swarm as a crash would, and releases the workspace.
    pub(crate) async fn kill(self) {
        self.swarm.kill();
        drop(self.connections);
        drop(self.router);
        // Dropped tasks release the workspace lock a moment later.
        let lock = goondan::Workspace {
            id: "w".to_owned(),
            dir: self.workspace.clone(),
        };
        drop(self.swarm);
        with_timeout(async {
            while lock.running_process().unwrap().is_some() {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }

    /// Returns the path of a project file.
    pub(crate) fn file(&self, name: &str) -> std::path::PathBuf {
        self.project.path().join(name)
    }

    /// Replaces the connections of the project, and reloads the swarm.
    pub(crate) async fn reload(&self, connections: &str) {
        std::fs::write(
            self.project.path().join("goondan.yaml"),
            format!("{AGENTS}---\n{connections}"),
        )
        .unwrap();
        self.swarm.reload().await.result.unwrap();
    }

    /// Delivers a webhook request. Returns its status and response body.
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
        let response = with_timeout(self.router.clone().oneshot(request))
            .await
            .unwrap();
        let status = response.status();
        let body = to_bytes(response.into_body(), 1 << 20).await.unwrap();
        (status, String::from_utf8_lossy(&body).into_owned())
    }

    /// Returns the user messages of a conversation.
    pub(crate) async fn user_messages(&self, key: &str) -> Vec<String> {
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

    /// Waits for `count` answers in a conversation. Returns its user messages.
    pub(crate) async fn wait_for_answers(&self, key: &str, count: usize) -> Vec<String> {
        let mut events = self.swarm.subscribe();
        with_timeout(async {
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
        self.user_messages(key).await
    }

    pub(crate) fn snapshot(&self, connection: &str) -> ConnectionSnapshot {
        self.state_dir(connection).look().unwrap()
    }

    pub(crate) fn state_dir(&self, connection: &str) -> ConnectionStateDir {
        ConnectionStateDir::of(&self.workspace, connection)
    }

    /// Waits until the state of a connection fulfills a condition.
    pub(crate) async fn wait_until(
        &self,
        connection: &str,
        condition: impl Fn(&ConnectionSnapshot) -> bool,
    ) {
        with_timeout(async {
            while !condition(&self.snapshot(connection)) {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }
}

/// Awaits a future, and panics after a minute.
pub(crate) async fn with_timeout<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), future)
        .await
        .expect("the operation timed out after a minute")
}

/// Wraps a value that a test and the closure of its mock share.
pub(crate) fn shared<T>(value: T) -> Arc<std::sync::Mutex<T>> {
    Arc::new(std::sync::Mutex::new(value))
}

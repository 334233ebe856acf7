//! Local control endpoint of a workspace.
//! Every command that runs a swarm opens it for other commands of the same user.

use std::sync::Arc;

use goondan::spec::Secret;
use goondan::{ApprovalBroker, Swarm};
use goondan_serve::local_endpoint::{self, EndpointSocket, PublishedEndpoint};
use goondan_serve::{
    AccessPolicy, CaseRecorder, CaseRunner, Server, ServerOptions, ServerToken, Service,
    ServiceGuard,
};
use tokio::task::JoinHandle;

/// Local control endpoint with its service.
pub(crate) struct LocalEndpoint {
    pub(crate) service: Service,
    /// Broker of approval requests.
    pub(crate) broker: ApprovalBroker,
    /// Creates and runs test cases.
    pub(crate) cases: CasePorts,
    serving: Option<ServiceGuard>,
    opening: Option<JoinHandle<std::io::Result<OpenEndpoint>>>,
    open: Option<OpenEndpoint>,
}

/// Creates test cases from conversations, and runs the test cases of the project.
#[derive(Clone)]
pub(crate) struct CasePorts {
    pub(crate) recorder: Arc<dyn CaseRecorder>,
    pub(crate) runner: Arc<dyn CaseRunner>,
}

/// Server of an open endpoint, with its files.
struct OpenEndpoint {
    server: Server,
    published: PublishedEndpoint,
    socket: EndpointSocket,
}

impl LocalEndpoint {
    /// Opens the endpoint in the background. If that fails, the command continues without it.
    pub(crate) fn open(swarm: &Swarm, broker: ApprovalBroker, cases: CasePorts) -> Self {
        let (service, serving) =
            Service::begin(swarm.clone(), broker.clone(), env!("CARGO_PKG_VERSION"));
        let opening = Some(tokio::spawn(listen(service.clone(), cases.clone())));
        LocalEndpoint {
            service,
            broker,
            cases,
            serving: Some(serving),
            opening,
            open: None,
        }
    }

    /// Waits until the endpoint is open or has failed.
    pub(crate) async fn wait_until_open(&mut self) {
        let Some(opening) = self.opening.take() else {
            return;
        };
        match opening.await.map_err(std::io::Error::other).flatten() {
            Ok(open) => self.open = Some(open),
            Err(error) => tracing::warn!(%error, "control endpoint failed to open; other \
                commands can't reach this process"),
        }
    }

    /// Closes the endpoint and its streams.
    pub(crate) async fn close(&mut self) {
        drop(self.serving.take());
        self.wait_until_open().await;
        if let Some(open) = self.open.take() {
            drop(open.published);
            open.server.end().await;
            drop(open.socket);
        }
    }
}

/// Starts the control server, and publishes its address and token in the workspace.
async fn listen(service: Service, cases: CasePorts) -> std::io::Result<OpenEndpoint> {
    let (workspace, token) = (service.swarm().workspace_dir(), ServerToken::random());
    // A tool outside of any sandbox can read the file, so its result must not contain the token.
    crate::output::redactor().add_secrets([Secret::new(token.expose())]);
    let (socket, listener) = EndpointSocket::bind(&workspace)?;
    let options = ServerOptions {
        studio: true,
        recorder: Some(cases.recorder),
        runner: Some(cases.runner),
        // Files are only edited through the server that was started with `--edit`.
        editor: None,
        ..AccessPolicy::local(token.clone()).into()
    };
    let server = Server::listen(listener, service, options);
    let published = local_endpoint::LocalEndpoint {
        address: socket.address.clone(),
        token,
        pid: std::process::id(),
    }
    .open(&workspace)?;
    Ok(OpenEndpoint {
        server,
        published,
        socket,
    })
}

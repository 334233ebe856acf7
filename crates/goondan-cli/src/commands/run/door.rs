//! The door of the workspace, which every command opens that runs a swarm: other commands of the same user come in there.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use goondan::{Broker, Swarm};
use goondan_serve::door::{self, OpenDoor};
use goondan_serve::{Access, Offer, Recorder, Server, Service, Serving, Token};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// The door of the workspace, and what is behind it.
pub(crate) struct Door {
    /// What clients get.
    pub(crate) service: Service,
    /// Who answers questions.
    pub(crate) broker: Broker,
    /// Who makes cases of conversations.
    pub(crate) recorder: Arc<dyn Recorder>,
    serving: Option<Serving>,
    opening: Option<JoinHandle<std::io::Result<(Server, OpenDoor)>>>,
    open: Option<(Server, OpenDoor)>,
}

impl Door {
    /// Opens it, beside whatever the command does. That it can't be opened is no reason to run nothing.
    pub(crate) fn open(swarm: &Swarm, broker: Broker, recorder: Arc<dyn Recorder>) -> Self {
        let (service, serving) =
            Service::begin(swarm.clone(), broker.clone(), env!("CARGO_PKG_VERSION"));
        let opening = Some(tokio::spawn(listen(service.clone(), Arc::clone(&recorder))));
        Door {
            service,
            broker,
            recorder,
            serving: Some(serving),
            opening,
            open: None,
        }
    }

    /// Waits until it is open, or can't be opened.
    pub(crate) async fn opened(&mut self) {
        let Some(opening) = self.opening.take() else {
            return;
        };
        match opening.await.map_err(std::io::Error::other).flatten() {
            Ok(open) => self.open = Some(open),
            Err(error) => tracing::warn!(%error, "other commands can't reach this one"),
        }
    }

    /// Closes it, with its streams.
    pub(crate) async fn close(&mut self) {
        drop(self.serving.take());
        self.opened().await;
        if let Some((server, door)) = self.open.take() {
            drop(door);
            server.end().await;
        }
    }
}

async fn listen(
    service: Service,
    recorder: Arc<dyn Recorder>,
) -> std::io::Result<(Server, OpenDoor)> {
    let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?;
    let (workspace, token) = (service.swarm().workspace_dir(), Token::random());
    let offer = Offer {
        studio: true,
        recorder: Some(recorder),
        ..Access::local(token.clone()).into()
    };
    let server = Server::listen(listener, service, offer)?;
    let door = door::Door {
        address: server.address(),
        token,
        pid: std::process::id(),
    }
    .open(&workspace)?;
    Ok((server, door))
}

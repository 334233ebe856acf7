//! Relay of a local TCP port to a control endpoint, because browsers can't connect to Unix sockets.

use std::time::Duration;

use goondan_serve::local_endpoint::EndpointAddress;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// Delay before the next attempt after a failed one.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);

/// Relays every client of `listener` to the endpoint. Dropping the future closes all connections.
pub(super) async fn relay(listener: TcpListener, endpoint: EndpointAddress) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((client, _)) => drop(connections.spawn(relay_client(client, endpoint.clone()))),
                Err(error) => {
                    tracing::warn!(%error, "Could not accept a connection from a browser.");
                    // The error can persist, such as when no file descriptor is free.
                    tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Relays one connection until either side ends it.
async fn relay_client(mut client: TcpStream, endpoint: EndpointAddress) {
    let Ok(mut server) = endpoint.connect().await else {
        return;
    };
    // Small events must not wait for more data.
    let _ = client.set_nodelay(true);
    // A browser reports a broken connection itself.
    let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
}

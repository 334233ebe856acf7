//! Sockets of the server: TCP, and Unix sockets for clients of the same user.

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncRead, AsyncWrite};
#[cfg(unix)]
use tokio::net::UnixListener;
use tokio::net::{TcpListener, TcpStream};

/// Connection of a client.
pub trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for T {}

/// A connected client, before the check of its process.
pub(crate) struct AcceptedClient {
    /// Address of a TCP client.
    address: Option<SocketAddr>,
    stream: Box<dyn ByteStream>,
}

impl AcceptedClient {
    /// Returns the stream of the client, unless the client is a sandboxed program of this process.
    /// The check may take some milliseconds, so other clients must not wait for it.
    pub(crate) async fn permitted_stream(self) -> Option<Box<dyn ByteStream>> {
        if let Some(client) = self.address
            && is_sandboxed(client).await
        {
            tracing::warn!(%client, "a client was refused because it is a program in a sandbox of \
                this swarm");
            return None;
        }
        Some(self.stream)
    }
}

/// Returns true if the client may be a sandboxed program of this process.
#[cfg(target_os = "linux")]
async fn is_sandboxed(client: SocketAddr) -> bool {
    let check = tokio::task::spawn_blocking(move || goondan::is_sandboxed_client(client));
    // Without an answer, the client is refused.
    check.await.unwrap_or(true)
}

/// Returns false: the check exists only for Linux.
#[cfg(not(target_os = "linux"))]
async fn is_sandboxed(_client: SocketAddr) -> bool {
    false
}

/// Socket on which a server accepts clients.
#[derive(Debug)]
pub enum ServerListener {
    /// TCP port.
    Tcp(TcpListener),
    /// Unix socket. Clients of other users are refused.
    #[cfg(unix)]
    Local(UnixListener),
}

impl From<TcpListener> for ServerListener {
    fn from(listener: TcpListener) -> Self {
        ServerListener::Tcp(listener)
    }
}

#[cfg(unix)]
impl From<UnixListener> for ServerListener {
    fn from(listener: UnixListener) -> Self {
        ServerListener::Local(listener)
    }
}

impl ServerListener {
    /// Waits for the next client; `None` for a refused client.
    pub(crate) async fn accept(&self) -> io::Result<Option<AcceptedClient>> {
        match self {
            ServerListener::Tcp(listener) => {
                let (stream, address) = listener.accept().await?;
                Ok(Some(tcp_client(stream, address)))
            }
            #[cfg(unix)]
            ServerListener::Local(listener) => Ok(local_client(listener.accept().await?.0)),
        }
    }

    /// Accepts all connections that wait in the queue of the listener. Calls the system directly,
    /// because Tokio reports new connections with a delay.
    pub(crate) fn accept_waiting(self) -> Vec<AcceptedClient> {
        match self {
            ServerListener::Tcp(listener) => {
                let accept = |listener: &std::net::TcpListener| {
                    let (stream, address) = listener.accept().ok()?;
                    stream.set_nonblocking(true).ok()?;
                    let stream = TcpStream::from_std(stream).ok();
                    Some(stream.map(|stream| tcp_client(stream, address)))
                };
                accept_all_waiting(listener.into_std().ok(), accept)
            }
            #[cfg(unix)]
            ServerListener::Local(listener) => {
                let accept = |listener: &std::os::unix::net::UnixListener| {
                    let (stream, _) = listener.accept().ok()?;
                    stream.set_nonblocking(true).ok()?;
                    let stream = tokio::net::UnixStream::from_std(stream).ok();
                    Some(stream.and_then(local_client))
                };
                accept_all_waiting(listener.into_std().ok(), accept)
            }
        }
    }
}

/// Calls `accept` until it returns `None`, and returns the accepted clients. `Some(None)` skips a
/// refused client.
fn accept_all_waiting<L>(
    listener: Option<L>,
    accept: impl Fn(&L) -> Option<Option<AcceptedClient>>,
) -> Vec<AcceptedClient> {
    let Some(listener) = listener else {
        return Vec::new();
    };
    std::iter::from_fn(|| accept(&listener)).flatten().collect()
}

/// Wraps the stream of a TCP client. `address` is that of the acceptance, because the stream of a
/// reset connection has none.
fn tcp_client(stream: TcpStream, address: SocketAddr) -> AcceptedClient {
    // Small events must not wait for more data.
    let _ = stream.set_nodelay(true);
    AcceptedClient {
        address: Some(address),
        stream: Box::new(stream),
    }
}

/// Accepts a client of the Unix socket that runs as the same user or as root. Returns `None` for
/// another user.
#[cfg(unix)]
fn local_client(stream: tokio::net::UnixStream) -> Option<AcceptedClient> {
    let is_permitted = |peer: u32| is_permitted(peer, rustix::process::geteuid().as_raw());
    if stream
        .peer_cred()
        .is_ok_and(|peer| is_permitted(peer.uid()))
    {
        return Some(AcceptedClient {
            address: None,
            stream: Box::new(stream),
        });
    }
    tracing::warn!("a client of another user was refused at the control endpoint");
    None
}

#[cfg(unix)]
fn is_permitted(peer: u32, own: u32) -> bool {
    peer == own || peer == 0
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_address_of_a_reset_connection_is_known() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = listener.local_addr().unwrap();
        let client = TcpStream::connect(server).await.unwrap();
        let address = client.local_addr().unwrap();
        client.set_zero_linger().unwrap();
        drop(client);
        let accepted = ServerListener::from(listener).accept().await.unwrap();
        assert_eq!(accepted.unwrap().address, Some(address));
    }

    #[test]
    fn clients_of_other_users_are_refused() {
        assert!(is_permitted(1000, 1000) && is_permitted(0, 1000) && is_permitted(0, 0));
        assert!(!is_permitted(1001, 1000) && !is_permitted(1000, 0));
    }
}

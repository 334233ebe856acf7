//! Sockets of the server: TCP, and Unix sockets for clients of the same user.

use std::io;

use tokio::io::{AsyncRead, AsyncWrite};
#[cfg(unix)]
use tokio::net::UnixListener;
use tokio::net::{TcpListener, TcpStream};

/// Connection of a client.
pub trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for T {}

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
    pub(crate) async fn accept(&self) -> io::Result<Option<Box<dyn ByteStream>>> {
        match self {
            ServerListener::Tcp(listener) => Ok(tcp_client(listener.accept().await?.0)),
            #[cfg(unix)]
            ServerListener::Local(listener) => Ok(local_client(listener.accept().await?.0)),
        }
    }

    /// Returns clients that were not accepted yet. Calls the system directly, because the runtime
    /// learns of new connections with a delay.
    pub(crate) fn pending(self) -> Vec<Box<dyn ByteStream>> {
        match self {
            ServerListener::Tcp(listener) => {
                let accept = |listener: &std::net::TcpListener| {
                    let (stream, _) = listener.accept().ok()?;
                    stream.set_nonblocking(true).ok()?;
                    Some(TcpStream::from_std(stream).ok().and_then(tcp_client))
                };
                all_pending(listener.into_std().ok(), accept)
            }
            #[cfg(unix)]
            ServerListener::Local(listener) => {
                let accept = |listener: &std::os::unix::net::UnixListener| {
                    let (stream, _) = listener.accept().ok()?;
                    stream.set_nonblocking(true).ok()?;
                    let stream = tokio::net::UnixStream::from_std(stream).ok();
                    Some(stream.and_then(local_client))
                };
                all_pending(listener.into_std().ok(), accept)
            }
        }
    }
}

/// Calls `accept` until it returns `None`, and returns the accepted clients.
fn all_pending<L>(
    listener: Option<L>,
    accept: impl Fn(&L) -> Option<Option<Box<dyn ByteStream>>>,
) -> Vec<Box<dyn ByteStream>> {
    let Some(listener) = listener else {
        return Vec::new();
    };
    std::iter::from_fn(|| accept(&listener)).flatten().collect()
}

fn tcp_client(stream: TcpStream) -> Option<Box<dyn ByteStream>> {
    // Small events must not wait for more data.
    let _ = stream.set_nodelay(true);
    Some(Box::new(stream))
}

/// Returns the stream of a client that runs as the same user or as root.
#[cfg(unix)]
fn local_client(stream: tokio::net::UnixStream) -> Option<Box<dyn ByteStream>> {
    let is_permitted = |peer: u32| is_permitted(peer, rustix::process::geteuid().as_raw());
    if stream
        .peer_cred()
        .is_ok_and(|peer| is_permitted(peer.uid()))
    {
        return Some(Box::new(stream));
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
    use super::is_permitted;

    #[test]
    fn clients_of_other_users_are_refused() {
        assert!(is_permitted(1000, 1000) && is_permitted(0, 1000) && is_permitted(0, 0));
        assert!(!is_permitted(1001, 1000) && !is_permitted(1000, 0));
    }
}

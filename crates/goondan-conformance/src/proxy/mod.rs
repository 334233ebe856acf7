//! TCP proxy between a node and its database, for network faults.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use goondan::workspace::database::DatabaseEndpoint;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::sync::watch;

/// Buffer size of each direction, in bytes.
const CHUNK_BYTES: usize = 16 << 10;

/// Delay after a failed accept.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(10);

/// Forwarding mode of all connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyFlow {
    /// Bytes are forwarded.
    Open,
    /// Each chunk is forwarded after this delay.
    Slow(Duration),
    /// Bytes are held back without notice to either side. New connections are accepted but never
    /// answered. Held bytes are forwarded later.
    Silent,
    /// Connections are closed, and new ones are refused.
    Cut,
}

/// A running proxy. Dropping it closes all connections.
#[derive(Debug)]
pub struct FaultProxy {
    address: SocketAddr,
    flow: watch::Sender<ProxyFlow>,
}

impl FaultProxy {
    /// Starts a proxy for `server` on a local port.
    pub fn start(server: DatabaseEndpoint) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let listener = runtime.block_on(TcpListener::bind(("127.0.0.1", 0)))?;
        let address = listener.local_addr()?;
        let (flow, flowing) = watch::channel(ProxyFlow::Open);
        std::thread::Builder::new()
            .name("proxy".to_owned())
            .spawn(move || runtime.block_on(listen(&listener, &server, &flowing)))?;
        Ok(FaultProxy { address, flow })
    }

    /// Returns the proxy's address.
    pub fn place(&self) -> SocketAddr {
        self.address
    }

    /// Sets the treatment of bytes from now on.
    pub fn set(&self, flow: ProxyFlow) {
        self.flow.send_replace(flow);
    }

    /// Returns the treatment of bytes.
    pub fn flow(&self) -> ProxyFlow {
        *self.flow.borrow()
    }
}

/// Accepts connections until the proxy is dropped; closes them at once while the flow is cut.
async fn listen(
    listener: &TcpListener,
    server: &DatabaseEndpoint,
    flow: &watch::Receiver<ProxyFlow>,
) {
    let mut ended = flow.clone();
    loop {
        tokio::select! {
            // Fails when the proxy is dropped.
            gone = ended.changed() => if gone.is_err() { return },
            accepted = listener.accept() => match accepted {
                Ok((node, _)) if *flow.borrow() != ProxyFlow::Cut => {
                    tokio::spawn(connect(node, server.clone(), flow.clone()));
                }
                // Dropping a connection closes it.
                Ok(_) => {}
                Err(_) => tokio::time::sleep(ACCEPT_RETRY_DELAY).await,
            },
        }
    }
}

/// Forwards one connection until one side closes it or it is cut.
async fn connect(node: TcpStream, server: DatabaseEndpoint, flow: watch::Receiver<ProxyFlow>) {
    let mut cut = flow.clone();
    tokio::select! {
        _ = forward(node, server, flow) => {}
        _ = cut.wait_for(|flow| *flow == ProxyFlow::Cut) => {}
    }
}

/// Connects a node to the database and forwards data until one side closes.
async fn forward(
    node: TcpStream,
    server: DatabaseEndpoint,
    mut flow: watch::Receiver<ProxyFlow>,
) -> io::Result<()> {
    wait_for_flow(&mut flow).await?;
    node.set_nodelay(true)?;
    match server {
        DatabaseEndpoint::Tcp(name, port) => {
            let server = TcpStream::connect((name, port)).await?;
            server.set_nodelay(true)?;
            forward_both_ways(node, server, flow).await
        }
        #[cfg(unix)]
        DatabaseEndpoint::Unix(socket) => {
            forward_both_ways(node, tokio::net::UnixStream::connect(socket).await?, flow).await
        }
    }
}

/// Forwards data in both directions until one of them ends.
async fn forward_both_ways(
    node: TcpStream,
    server: impl AsyncRead + AsyncWrite,
    flow: watch::Receiver<ProxyFlow>,
) -> io::Result<()> {
    let ((from_node, to_node), (from_server, to_server)) =
        (tokio::io::split(node), tokio::io::split(server));
    tokio::select! {
        done = forward_one_way(from_node, to_server, flow.clone()) => done,
        done = forward_one_way(from_server, to_node, flow) => done,
    }
}

/// Forwards data in one direction; waits while the flow is silent, and delays data while it is
/// slow.
async fn forward_one_way(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut flow: watch::Receiver<ProxyFlow>,
) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let read = from.read(&mut chunk).await;
        // While the flow is silent, the end of a side is also not visible to the other side.
        let now = wait_for_flow(&mut flow).await?;
        let length = read?;
        if length == 0 {
            return Ok(());
        }
        if let ProxyFlow::Slow(by) = now {
            tokio::time::sleep(by).await;
        }
        to.write_all(&chunk[..length]).await?;
    }
}

/// Waits until bytes are forwarded.
async fn wait_for_flow(flow: &mut watch::Receiver<ProxyFlow>) -> io::Result<ProxyFlow> {
    let flow = flow.wait_for(|flow| *flow != ProxyFlow::Silent).await;
    flow.map(|flow| *flow)
        .map_err(|_| io::ErrorKind::ConnectionAborted.into())
}

#[cfg(test)]
mod tests;

//! A proxy between a node and its database, which cuts the node off.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use goondan::database::Server;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::sync::watch;

/// How much is carried at once.
const CHUNK: usize = 16 << 10;

/// Before it looks again for connections where the system gives it none.
const NO_ROOM: Duration = Duration::from_millis(10);

/// What happens to the bytes of all connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// They are carried.
    Open,
    /// Each piece is carried that much later.
    Slow(Duration),
    /// They stand still, and nobody is told. New connections are accepted and never answered. What stands is carried later.
    Silent,
    /// Connections are closed, and new ones too.
    Cut,
}

/// A proxy. Dropped, it closes all connections.
#[derive(Debug)]
pub struct Proxy {
    place: SocketAddr,
    flow: watch::Sender<Flow>,
}

impl Proxy {
    /// Listens at a port of this machine, and carries what comes to `server`.
    pub fn start(server: Server) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let listener = runtime.block_on(TcpListener::bind(("127.0.0.1", 0)))?;
        let place = listener.local_addr()?;
        let (flow, flowing) = watch::channel(Flow::Open);
        std::thread::Builder::new()
            .name("proxy".to_owned())
            .spawn(move || runtime.block_on(listen(&listener, &server, &flowing)))?;
        Ok(Proxy { place, flow })
    }

    /// Where it listens.
    pub fn place(&self) -> SocketAddr {
        self.place
    }

    /// From now on bytes fare like that.
    pub fn set(&self, flow: Flow) {
        self.flow.send_replace(flow);
    }

    /// How bytes fare.
    pub fn flow(&self) -> Flow {
        *self.flow.borrow()
    }
}

async fn listen(listener: &TcpListener, server: &Server, flow: &watch::Receiver<Flow>) {
    let mut ended = flow.clone();
    loop {
        tokio::select! {
            // It fails when the proxy is dropped.
            gone = ended.changed() => if gone.is_err() { return },
            accepted = listener.accept() => match accepted {
                Ok((node, _)) if *flow.borrow() != Flow::Cut => {
                    tokio::spawn(connect(node, server.clone(), flow.clone()));
                }
                // A connection that is dropped is closed.
                Ok(_) => {}
                Err(_) => tokio::time::sleep(NO_ROOM).await,
            },
        }
    }
}

/// Carries one connection until one side closes it, or it is cut.
async fn connect(node: TcpStream, server: Server, flow: watch::Receiver<Flow>) {
    let mut cut = flow.clone();
    tokio::select! {
        _ = carried(node, server, flow) => {}
        _ = cut.wait_for(|flow| *flow == Flow::Cut) => {}
    }
}

async fn carried(
    node: TcpStream,
    server: Server,
    mut flow: watch::Receiver<Flow>,
) -> io::Result<()> {
    flows(&mut flow).await?;
    node.set_nodelay(true)?;
    match server {
        Server::Tcp(name, port) => {
            let server = TcpStream::connect((name, port)).await?;
            server.set_nodelay(true)?;
            both_ways(node, server, flow).await
        }
        #[cfg(unix)]
        Server::Unix(socket) => {
            both_ways(node, tokio::net::UnixStream::connect(socket).await?, flow).await
        }
    }
}

async fn both_ways(
    node: TcpStream,
    server: impl AsyncRead + AsyncWrite,
    flow: watch::Receiver<Flow>,
) -> io::Result<()> {
    let ((from_node, to_node), (from_server, to_server)) =
        (tokio::io::split(node), tokio::io::split(server));
    tokio::select! {
        done = carry(from_node, to_server, flow.clone()) => done,
        done = carry(from_server, to_node, flow) => done,
    }
}

async fn carry(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut flow: watch::Receiver<Flow>,
) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK];
    loop {
        let read = from.read(&mut chunk).await;
        // Of a side that is gone nobody hears either, while all stands still.
        let now = flows(&mut flow).await?;
        let length = read?;
        if length == 0 {
            return Ok(());
        }
        if let Flow::Slow(by) = now {
            tokio::time::sleep(by).await;
        }
        to.write_all(&chunk[..length]).await?;
    }
}

/// Waits until something flows.
async fn flows(flow: &mut watch::Receiver<Flow>) -> io::Result<Flow> {
    let flow = flow.wait_for(|flow| *flow != Flow::Silent).await;
    flow.map(|flow| *flow)
        .map_err(|_| io::ErrorKind::ConnectionAborted.into())
}

#[cfg(test)]
mod tests;

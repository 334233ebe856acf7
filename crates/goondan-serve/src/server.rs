//! Listens, and bounds what a client can make the server hold.

use std::cell::LazyCell;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use hyper::service::Service;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{self, Sender};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::api;
use crate::guard::Access;
use crate::recorder::Recorder;
use crate::service;

/// What a client may make the server hold.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The largest body of a request, in bytes.
    pub body: usize,
    /// How many connections there may be. More wait until one ends.
    pub connections: usize,
    /// How long the head of a request may take.
    pub head: Duration,
}

/// The largest body, in bytes, unless the server is told otherwise.
const BODY: usize = 32 * 1024 * 1024;
/// So many connections may there be.
const CONNECTIONS: usize = 4_096;
/// How long the head of a request may take.
const HEAD: Duration = Duration::from_secs(10);

impl Default for Limits {
    fn default() -> Self {
        Limits {
            body: BODY,
            connections: CONNECTIONS,
            head: HEAD,
        }
    }
}

/// How long those that have just connected may take to say something when the server ends.
const FIRST_WORDS: Duration = Duration::from_millis(200);
/// How long connections may take to end after the last request.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// A server that listens. Dropping it ends it at once.
pub struct Server {
    address: SocketAddr,
    stop: CancellationToken,
    accepting: JoinHandle<()>,
}

/// What a server offers, and to whom.
#[derive(Debug, Clone)]
pub struct Offer {
    /// Who may talk to the swarm.
    pub access: Access,
    /// What a client may make the server hold.
    pub limits: Limits,
    /// A folder whose files everybody may read who reaches the server: pages that use it.
    pub site: Option<PathBuf>,
    /// Whether the studio is there, a page where a person sees and steers the swarm.
    pub studio: bool,
    /// Who makes cases of conversations for the studio.
    pub recorder: Option<Arc<dyn Recorder>>,
    /// Further addresses. They know no token: whoever offers them checks who comes.
    pub further: Option<Router>,
}

impl From<Access> for Offer {
    fn from(access: Access) -> Self {
        Offer {
            access,
            limits: Limits::default(),
            site: None,
            studio: false,
            recorder: None,
            further: None,
        }
    }
}

impl Server {
    /// Listens from now on.
    pub fn listen(
        listener: TcpListener,
        service: service::Service,
        offer: impl Into<Offer>,
    ) -> std::io::Result<Server> {
        let offer = offer.into();
        let (address, limits) = (listener.local_addr()?, offer.limits);
        // Most swarms run without a client: routes and their description are made for the first one.
        let router = LazyCell::new(move || api::router(service, offer));
        let stop = CancellationToken::new();
        let accepting = tokio::spawn(accept(listener, router, limits, stop.clone()));
        Ok(Server {
            address,
            stop,
            accepting,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes no more connections, and waits a moment until those end that there are.
    pub async fn end(mut self) {
        self.stop.cancel();
        // It ends by itself, or was aborted.
        let _ = (&mut self.accepting).await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(
    listener: TcpListener,
    router: LazyCell<Router, impl FnOnce() -> Router>,
    limits: Limits,
    stop: CancellationToken,
) {
    let room = Arc::new(Semaphore::new(limits.connections));
    let graceful = GracefulShutdown::new();
    let (unheard, mut all_heard) = mpsc::channel(1);
    let serve = |stream, router: Router, permit: OwnedSemaphorePermit| {
        let serving = graceful.watch(connection(stream, router, unheard.clone(), limits));
        tokio::spawn(async move {
            if let Err(error) = serving.await {
                tracing::debug!(%error, "a connection has failed");
            }
            drop(permit);
        });
    };
    loop {
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else {
            return;
        };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.cancelled() => break,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Out of descriptors, as a rule: some connections have to end first.
                tracing::warn!(%error, "a connection was not accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        serve(stream, LazyCell::force(&router).clone(), permit);
    }
    // Whoever has connected is told that this is the end: of a connection that breaks nobody knows what it has done.
    for stream in connected(listener) {
        let Ok(permit) = Arc::clone(&room).try_acquire_owned() else {
            break;
        };
        serve(stream, LazyCell::force(&router).clone(), permit);
    }
    drop(unheard);
    let _ = tokio::time::timeout(FIRST_WORDS, all_heard.recv()).await;
    // Who does not end is dropped with the process.
    let _ = tokio::time::timeout(LAST_WORDS, graceful.shutdown()).await;
}

/// Those that have connected and were not accepted yet. The system is asked itself: the runtime hears of them later.
fn connected(listener: TcpListener) -> Vec<TcpStream> {
    let accept = |listener: &std::net::TcpListener| {
        let (stream, _) = listener.accept().ok()?;
        stream.set_nonblocking(true).ok()?;
        TcpStream::from_std(stream).ok()
    };
    let Ok(listener) = listener.into_std() else {
        return Vec::new();
    };
    std::iter::from_fn(|| accept(&listener)).collect()
}

/// The service of one connection, which drops `unheard` with its first request.
struct Heard {
    router: TowerToHyperService<Router>,
    unheard: Mutex<Option<Sender<()>>>,
}

impl Service<Request<Incoming>> for Heard {
    type Response = <TowerToHyperService<Router> as Service<Request<Incoming>>>::Response;
    type Error = <TowerToHyperService<Router> as Service<Request<Incoming>>>::Error;
    type Future = <TowerToHyperService<Router> as Service<Request<Incoming>>>::Future;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        drop(
            self.unheard
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take(),
        );
        self.router.call(request)
    }
}

fn connection(
    stream: TcpStream,
    router: Router,
    unheard: Sender<()>,
    limits: Limits,
) -> hyper::server::conn::http1::Connection<TokioIo<TcpStream>, Heard> {
    // Small events must not wait for more.
    let _ = stream.set_nodelay(true);
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .max_buf_size(64 * 1024);
    let heard = Heard {
        router: TowerToHyperService::new(router),
        unheard: Mutex::new(Some(unheard)),
    };
    http.serve_connection(TokioIo::new(stream), heard)
}

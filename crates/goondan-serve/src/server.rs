//! HTTP server with limits on the resources that a client can use.

use std::cell::LazyCell;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::sync::mpsc::{self, Sender};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::api;
use crate::listener::{AcceptedClient, ByteStream, ServerListener};
use crate::received_body;
use crate::server_options::{ServerLimits, ServerOptions};
use crate::service;
use crate::write_timeout::WriteTimeoutStream;

/// Time that new connections have, at shutdown, to send their first request.
const FIRST_REQUEST_TIMEOUT: Duration = Duration::from_millis(200);
/// Time limit for connections to end after the last request.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

/// A listening server. Dropping it ends all connections at once.
pub struct Server {
    stop: CancellationToken,
    accepting: JoinHandle<()>,
}

impl Server {
    /// Starts the server on `listener`.
    pub fn listen(
        listener: impl Into<ServerListener>,
        service: service::Service,
        offer: impl Into<ServerOptions>,
    ) -> Server {
        let (listener, offer) = (listener.into(), offer.into());
        let limits = offer.limits;
        // Most swarms run without a client, so the first connection builds the routes and their
        // description.
        let router = LazyCell::new(move || api::router(service, offer));
        let stop = CancellationToken::new();
        let accepting = tokio::spawn(accept_connections(listener, router, limits, stop.clone()));
        Server { stop, accepting }
    }

    /// Stops accepting connections and waits up to 2 seconds for open connections to end.
    pub async fn end(mut self) {
        self.stop.cancel();
        // The task ends normally or was aborted; both are fine.
        let _ = (&mut self.accepting).await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Accepts connections until `stop` is cancelled, then waits for pending requests.
async fn accept_connections(
    listener: ServerListener,
    router: LazyCell<Router, impl FnOnce() -> Router>,
    limits: ServerLimits,
    stop: CancellationToken,
) {
    let room = Arc::new(Semaphore::new(limits.connections));
    let graceful = GracefulShutdown::new();
    let (first_request_guard, mut all_first_requests) = mpsc::channel(1);
    let serve = |client: AcceptedClient, router: Router, permit: OwnedSemaphorePermit| {
        let (watcher, first_request_guard) = (graceful.watcher(), first_request_guard.clone());
        tokio::spawn(async move {
            if let Some(stream) = client.permitted_stream().await
                && let Err(error) = watcher
                    .watch(connection(stream, router, first_request_guard, limits))
                    .await
            {
                tracing::debug!(%error, "an HTTP connection failed");
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
        let client = match accepted {
            Ok(Some(client)) => client,
            Ok(None) => continue,
            Err(error) => {
                // Usually out of file descriptors: other connections must end first.
                tracing::warn!(%error, "could not accept a connection; retrying");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        serve(client, LazyCell::force(&router).clone(), permit);
    }
    // Clients that connected in time get a response. After a broken connection, a client cannot
    // tell if its request took effect.
    for client in listener.accept_waiting() {
        let Ok(permit) = Arc::clone(&room).try_acquire_owned() else {
            break;
        };
        serve(client, LazyCell::force(&router).clone(), permit);
    }
    drop(first_request_guard);
    let _ = tokio::time::timeout(FIRST_REQUEST_TIMEOUT, all_first_requests.recv()).await;
    // Remaining connections are dropped with the process.
    let _ = tokio::time::timeout(SHUTDOWN_TIMEOUT, graceful.shutdown()).await;
}

/// Service of one connection.
struct ConnectionService {
    router: TowerToHyperService<Router>,
    /// Exists until the first request. During shutdown, the server waits until every connection
    /// has dropped its sender.
    first_request_guard: Mutex<Option<Sender<()>>>,
}

impl Service<Request<Incoming>> for ConnectionService {
    type Response = <TowerToHyperService<Router> as Service<Request<Incoming>>>::Response;
    type Error = <TowerToHyperService<Router> as Service<Request<Incoming>>>::Error;
    type Future = <TowerToHyperService<Router> as Service<Request<Incoming>>>::Future;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        received_body::normalize_path(&mut request);
        // A dropped sender means that this connection has sent a request.
        drop(
            self.first_request_guard
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take(),
        );
        self.router.call(request)
    }
}

/// Stream of one accepted connection.
type ClientStream = WriteTimeoutStream<Box<dyn ByteStream>>;

/// Configures HTTP for one accepted connection.
fn connection(
    stream: Box<dyn ByteStream>,
    router: Router,
    first_request_guard: Sender<()>,
    limits: ServerLimits,
) -> http1::Connection<TokioIo<ClientStream>, ConnectionService> {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .max_buf_size(64 * 1024);
    let service = ConnectionService {
        router: TowerToHyperService::new(router),
        first_request_guard: Mutex::new(Some(first_request_guard)),
    };
    let stream = WriteTimeoutStream::new(stream, limits.write);
    http.serve_connection(TokioIo::new(stream), service)
}

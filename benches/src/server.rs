//! A model server that speaks the OpenAI protocol, answers at once unless it is told to wait, and remembers when it was asked.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};

use crate::behaviour;

/// One request and its answer.
#[derive(Debug, Clone)]
pub struct Exchange {
    /// The model that was asked.
    pub model: String,
    /// When the request had come whole.
    pub came: Instant,
    /// When its answer was handed to the connection.
    pub left: Instant,
    /// The size of the request's body, in bytes.
    pub bytes: usize,
}

/// What the server remembers.
#[derive(Default)]
struct Log {
    exchanges: Mutex<Vec<Exchange>>,
    grew: Condvar,
}

/// A running server. It ends with the process.
#[derive(Clone)]
pub struct ModelServer {
    address: SocketAddr,
    log: Arc<Log>,
}

impl ModelServer {
    /// Listens on `port` of the loopback address (0: any free one), on a thread of its own.
    pub fn start(port: u16) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let listener = runtime
            .block_on(TcpListener::bind(("127.0.0.1", port)))
            .context("no port to listen on")?;
        let (address, log) = (listener.local_addr()?, Arc::new(Log::default()));
        let server = ModelServer {
            address,
            log: Arc::clone(&log),
        };
        std::thread::spawn(move || runtime.block_on(accept(listener, log)));
        Ok(server)
    }

    /// What a Model resource names as its `endpoint`.
    pub fn endpoint(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Everything since the last time, in the order in which it came.
    pub fn take(&self) -> Vec<Exchange> {
        std::mem::take(
            &mut *self
                .log
                .exchanges
                .lock()
                .unwrap_or_else(PoisonError::into_inner),
        )
    }

    /// Waits until `count` requests were answered since the last [`ModelServer::take`].
    pub fn wait_for(&self, count: usize, limit: Duration) -> anyhow::Result<()> {
        let exchanges = self
            .log
            .exchanges
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let waited = self
            .log
            .grew
            .wait_timeout_while(exchanges, limit, |exchanges| exchanges.len() < count);
        let (exchanges, timed_out) = waited.unwrap_or_else(PoisonError::into_inner);
        anyhow::ensure!(
            !timed_out.timed_out(),
            "only {} of {count} requests came within {limit:?}",
            exchanges.len()
        );
        Ok(())
    }
}

async fn accept(listener: TcpListener, log: Arc<Log>) {
    let local = tokio::task::LocalSet::new();
    let accepting = async {
        // A connection that could not be accepted is the client's to notice.
        while let Ok((stream, _)) = listener.accept().await {
            tokio::task::spawn_local(serve(stream, Arc::clone(&log)));
        }
    };
    local.run_until(accepting).await;
}

async fn serve(stream: TcpStream, log: Arc<Log>) {
    // Without this, answers wait for acknowledgements.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| answer(request, Arc::clone(&log)));
    // A client that goes away is no fault.
    let _ = hyper::server::conn::http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

async fn answer(
    request: Request<Incoming>,
    log: Arc<Log>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let Ok(body) = request
        .into_body()
        .collect()
        .await
        .map(http_body_util::Collected::to_bytes)
    else {
        return Ok(Response::new(Full::default()));
    };
    let came = Instant::now();
    let (reply, model) = (behaviour::reply(&body), behaviour::model(&body));
    let delay = behaviour::delay(&model);
    if !delay.is_zero() {
        tokio::time::sleep(delay).await;
    }
    let is_streamed = memchr::memmem::find(&body, b"\"stream\":true").is_some();
    let mut exchanges = log.exchanges.lock().unwrap_or_else(PoisonError::into_inner);
    let number = exchanges.len() as u64;
    let (format, bytes) = if is_streamed {
        ("text/event-stream", behaviour::streamed(&reply, number))
    } else {
        ("application/json", behaviour::whole(&reply, number))
    };
    exchanges.push(Exchange {
        model,
        came,
        left: Instant::now(),
        bytes: body.len(),
    });
    drop(exchanges);
    log.grew.notify_all();
    let response = Response::builder()
        .header("content-type", format)
        .body(Full::new(Bytes::from(bytes)));
    Ok(response.unwrap_or_default())
}

/// The median time from sending a request of about `bytes` bytes to the last byte of its answer, over one connection.
pub fn round_trip(address: SocketAddr, bytes: usize, times: usize) -> anyhow::Result<Duration> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let head = r#"{"model":"text","stream":true,"messages":[{"role":"user","content":""#;
        let body = Bytes::from(format!(
            "{head}{}\"}}]}}",
            "x".repeat(bytes.saturating_sub(head.len() + 4))
        ));
        let mut took = Vec::with_capacity(times);
        for _ in 0..times {
            let began = Instant::now();
            let request = Request::post("/v1/chat/completions")
                .header("host", "127.0.0.1")
                .header("content-type", "application/json")
                .body(Full::new(body.clone()))?;
            sender
                .send_request(request)
                .await?
                .into_body()
                .collect()
                .await?;
            took.push(began.elapsed());
        }
        took.sort_unstable();
        Ok(took[times / 2])
    })
}

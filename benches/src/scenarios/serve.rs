//! A swarm that is served over HTTP. The clients and the model server use the same cores as the swarm.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::Context;
use http_body_util::BodyExt;
use hyper::Method;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::Setup;
use crate::figures::Run;
use crate::http::{Client, Served};
use crate::projects;

/// How long the model takes for an answer where the load is measured, as the name of a model says it.
const SLOW: &str = "after:50:text";

/// That many conversations, each of which takes `turns` turns one after another.
pub(super) fn turns(setup: &Setup, conversations: usize, turns: usize) -> anyhow::Result<Run> {
    let served = served(setup, SLOW)?;
    block_on(async {
        talk(&served, conversations, 2).await?;
        let before = served.usage()?;
        let began = Instant::now();
        let mut took = talk(&served, conversations, turns).await?;
        let wall = began.elapsed();
        let usage = served.usage()?;
        took.sort_unstable();
        let at = |share: f64| took[((took.len() - 1) as f64 * share) as usize];
        Ok(Run::default()
            .with("turns_per_second", took.len() as f64 / wall.as_secs_f64())
            .millis("p50", at(0.5))
            .millis("p99", at(0.99))
            .with(
                "cpu_share",
                usage.cpu.saturating_sub(before.cpu).as_secs_f64() / wall.as_secs_f64(),
            )
            .megabytes("memory_after", usage.resident))
    })
}

/// What each turn took.
async fn talk(
    served: &Served,
    conversations: usize,
    turns: usize,
) -> anyhow::Result<Vec<Duration>> {
    let mut talks = JoinSet::new();
    for number in 0..conversations {
        let mut client = served.client().await?;
        talks.spawn(async move {
            let mut took = Vec::with_capacity(turns);
            for _ in 0..turns {
                let began = Instant::now();
                client.turn(&format!("c{number}")).await?;
                took.push(began.elapsed());
            }
            anyhow::Ok(took)
        });
    }
    let mut took = Vec::new();
    while let Some(talk) = talks.join_next().await {
        took.extend(talk??);
    }
    Ok(took)
}

/// Memory of that many open streams, all of which are told of ten turns.
pub(super) fn streams(setup: &Setup, count: usize) -> anyhow::Result<Run> {
    let served = served(setup, "text")?;
    block_on(async {
        let mut client = served.client().await?;
        client.turn("warm-up").await?;
        let before = served.usage()?.resident;
        let mut open = Vec::with_capacity(count);
        for _ in 0..count {
            let mut client = served.client().await?;
            let response = client.send(Method::GET, "/api/events", None, true).await?;
            open.push((client, response.into_body()));
        }
        let began = Instant::now();
        for _ in 0..10 {
            client.turn("main").await?;
        }
        for (_, body) in &mut open {
            read_until(body, "turn.completed", 10).await?;
        }
        let told = began.elapsed();
        let after = served.usage()?.resident;
        Ok(Run::default()
            .megabytes("more", after.saturating_sub(before))
            .millis("ten_turns_told", told))
    })
}

/// From the moment in which the model's answer leaves its server to the client's first byte of it.
pub(super) fn first_byte(setup: &Setup, turns: usize) -> anyhow::Result<Run> {
    let served = served(setup, "text")?;
    block_on(async {
        let mut client = served.client().await?;
        client.turn("main").await?;
        let mut late = Vec::with_capacity(turns);
        for _ in 0..turns {
            setup.server.take();
            let input = serde_json::json!({"text": "go", "instanceKey": "main"});
            let response = client
                .send(Method::POST, "/api/inputs", Some(input), true)
                .await?;
            let mut body = response.into_body();
            read_until(&mut body, "event: text.delta", 1).await?;
            let came = Instant::now();
            body.collect().await?;
            let left = setup
                .server
                .take()
                .first()
                .context("the model was not asked")?
                .left;
            late.push(came.saturating_duration_since(left));
        }
        late.sort_unstable();
        Ok(Run::default()
            .millis("first_byte_p50", late[turns / 2])
            .millis("first_byte_p99", late[(turns - 1) * 99 / 100]))
    })
}

/// What strangers can make the server hold: requests that are none, bodies without end, and a thousand streams that nobody
/// reads while two thousand turns run.
pub(super) fn hostile(setup: &Setup) -> anyhow::Result<Run> {
    let served = served(setup, "text")?;
    block_on(async {
        let mut client = served.client().await?;
        for _ in 0..100 {
            client.turn("warm-up").await?;
        }
        let before = served.usage()?.resident;
        junk(served.address(), 10_000).await?;
        let after_junk = served.usage()?.resident;
        for _ in 0..20 {
            large(served.address(), 100_000_000).await?;
        }
        let after_bodies = served.usage()?.resident;
        let slow = unread(&served, 1_000).await?;
        for _ in 0..2_000 {
            client.turn("main").await?;
        }
        let with_slow = served.usage()?.resident;
        drop(slow);
        let began = Instant::now();
        client.turn("main").await?;
        Ok(Run::default()
            .megabytes("before", before)
            .megabytes("after_junk", after_junk)
            .megabytes("after_bodies", after_bodies)
            .megabytes("with_slow_readers", with_slow)
            .millis("turn_after_all", began.elapsed()))
    })
}

/// Requests that make no sense, each on a connection of its own.
async fn junk(address: SocketAddr, count: usize) -> anyhow::Result<()> {
    const KINDS: [&[u8]; 6] = [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /api/swarm HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n",
        b"GET /api/swarm HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n",
        b"POST /api/inputs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -5\r\n\r\n",
        b"GET /%00%ff/../../etc/passwd HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n",
    ];
    for number in 0..count {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(KINDS[number % KINDS.len()]).await?;
        stream.shutdown().await?;
        let mut answer = Vec::new();
        // Some are cut off without an answer.
        let _ = stream.read_to_end(&mut answer).await;
        anyhow::ensure!(
            !answer.starts_with(b"HTTP/1.1 2") && !answer.starts_with(b"HTTP/1.1 5"),
            "junk was taken"
        );
    }
    Ok(())
}

/// A body that is far too large; the server has to say so before it has read it.
async fn large(address: SocketAddr, bytes: usize) -> anyhow::Result<()> {
    let mut stream = TcpStream::connect(address).await?;
    let head = format!(
        "POST /api/inputs HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
         Content-Length: {bytes}\r\n\r\n",
        crate::http::TOKEN
    );
    stream.write_all(head.as_bytes()).await?;
    let piece = vec![b' '; 1 << 20];
    for _ in 0..bytes / piece.len() {
        if stream.write_all(&piece).await.is_err() {
            break;
        }
    }
    let mut answer = [0; 12];
    // Or the connection was cut while the body was on its way.
    if stream.read_exact(&mut answer).await.is_ok() {
        anyhow::ensure!(
            &answer == b"HTTP/1.1 413",
            "a body of {bytes} bytes was taken"
        );
    }
    Ok(())
}

/// Streams of everything that nobody reads.
async fn unread(
    served: &Served,
    count: usize,
) -> anyhow::Result<Vec<(Client, hyper::Response<hyper::body::Incoming>)>> {
    let mut open = Vec::with_capacity(count);
    for _ in 0..count {
        let mut client = served.client().await?;
        let response = client.send(Method::GET, "/api/events", None, true).await?;
        open.push((client, response));
    }
    Ok(open)
}

/// Reads a stream until it has held `what` so many times.
async fn read_until(
    body: &mut hyper::body::Incoming,
    what: &str,
    times: usize,
) -> anyhow::Result<()> {
    let (mut seen, mut rest) = (0, Vec::new());
    while seen < times {
        let frame = body.frame().await.context("the stream ended early")??;
        rest.extend_from_slice(frame.data_ref().map(|data| &data[..]).unwrap_or_default());
        while let Some(at) = memchr::memmem::find(&rest, what.as_bytes()) {
            seen += 1;
            rest.drain(..at + what.len());
        }
    }
    Ok(())
}

fn served(setup: &Setup, behaviour: &str) -> anyhow::Result<Served> {
    projects::one_agent(&setup.project, &setup.server.endpoint(), behaviour, &[])?;
    Served::start(&setup.gdn, &setup.project)
}

fn block_on<T>(what: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(what)
}

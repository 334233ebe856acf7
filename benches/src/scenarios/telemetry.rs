//! What telemetry costs a turn, whatever its receiver does.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use super::Setup;
use crate::figures::{Run, median};
use crate::gdn::{BenchSwarm, Gdn};
use crate::projects;

const TURNS: usize = 1_000;

/// Turns over the scripted model, of four swarms in turn: without telemetry, with a receiver, with one that is down, and with one
/// that takes the connection and never answers.
pub(super) fn turns(setup: &Setup) -> anyhow::Result<Run> {
    projects::scripted(&setup.project)?;
    let receiver = listen(|stream| drop(answer(stream)))?;
    let silent = listen(|mut stream| drop(std::io::copy(&mut stream, &mut std::io::sink())))?;
    // Nobody listens at a port that was given back.
    let down = TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string();
    let mut without = swarm(setup, "without", None)?;
    let mut with = [("up", receiver), ("down", down), ("silent", silent)]
        .into_iter()
        .map(|(name, address)| swarm(setup, name, Some(&address)))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let mut took = vec![Vec::with_capacity(TURNS); with.len() + 1];
    for _ in 0..TURNS {
        for (swarm, took) in std::iter::once(&mut without)
            .chain(&mut with)
            .zip(&mut took)
        {
            took.push(turn(swarm)?);
        }
    }
    let [none, up, down, silent] = took.try_into().unwrap_or_default();
    let none = median(none);
    let ratio = |took: Vec<Duration>| median(took).as_secs_f64() / none.as_secs_f64().max(1e-9);
    Ok(Run::default()
        .millis("turn", none)
        .with("times_with_receiver", ratio(up))
        .with("times_receiver_down", ratio(down))
        .with("times_receiver_silent", ratio(silent)))
}

fn swarm(setup: &Setup, name: &str, receiver: Option<&str>) -> anyhow::Result<BenchSwarm> {
    let variable = |address: &str| {
        (
            "OTEL_EXPORTER_OTLP_ENDPOINT".to_owned(),
            format!("http://{address}"),
        )
    };
    let variables = receiver.map(variable).into_iter().collect();
    let gdn = Gdn {
        state: setup.gdn.state.join(name),
        variables,
        ..setup.gdn.clone()
    };
    gdn.serve(&setup.project)
}

fn turn(swarm: &mut BenchSwarm) -> anyhow::Result<Duration> {
    let began = Instant::now();
    swarm.send("main", "go")?;
    swarm.result()?;
    Ok(began.elapsed())
}

/// The address of a server that handles each connection on a thread of its own, as long as the process lives.
fn listen(handle: fn(TcpStream)) -> anyhow::Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?.to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || handle(stream));
        }
    });
    Ok(address)
}

/// Takes every request of a connection, and has nothing to say to it.
fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    let mut piece = [0; 64 * 1024];
    let mut seen = Vec::new();
    loop {
        let read = stream.read(&mut piece)?;
        if read == 0 {
            return Ok(());
        }
        seen.extend_from_slice(&piece[..read]);
        while let Some(length) = whole(&seen) {
            seen.drain(..length);
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")?;
        }
    }
}

/// The length of the first request, where all of it is there.
fn whole(seen: &[u8]) -> Option<usize> {
    let head = seen.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let text = String::from_utf8_lossy(&seen[..head]).to_ascii_lowercase();
    let body = text.lines().find_map(|line| {
        line.strip_prefix("content-length:")?
            .trim()
            .parse::<usize>()
            .ok()
    });
    let length = head + body.unwrap_or_default();
    (seen.len() >= length).then_some(length)
}

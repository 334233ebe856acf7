//! Many conversations at once with a server of any kind, over HTTP: turns a second, and how long one takes.
//!
//! `load 127.0.0.1:2024 --turn PATH BODY [--open PATH BODY]`: each conversation sends `open` once, then turns one after
//! another. `{n}` in a path or a body is the number of the conversation, in twelve digits.

#![allow(clippy::print_stdout, reason = "the figures are the program's result")]

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Parser;
use goondan_benches::http::Client;
use http_body_util::BodyExt;
use hyper::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;

#[derive(Parser)]
struct Args {
    /// Where the server listens
    server: SocketAddr,
    /// The request of a turn
    #[arg(long, num_args = 2, value_names = ["PATH", "BODY"])]
    turn: Vec<String>,
    /// What comes before the turns of a conversation
    #[arg(long, num_args = 2, value_names = ["PATH", "BODY"])]
    open: Vec<String>,
    /// What the answer to a turn has to contain
    #[arg(long, default_value = "")]
    wants: String,
    #[arg(long, default_value_t = 64)]
    conversations: usize,
    /// How long, in seconds; turns of the first fifth do not count
    #[arg(long, default_value_t = 20)]
    seconds: u64,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let args: &'static Args = Box::leak(Box::new(Args::parse()));
    let begins = Instant::now() + Duration::from_secs(args.seconds) / 5;
    let ends = begins + Duration::from_secs(args.seconds) * 4 / 5;
    let mut talks = JoinSet::new();
    for number in 0..args.conversations {
        talks.spawn(talk(args, number, begins, ends));
    }
    let mut took = Vec::new();
    while let Some(talk) = talks.join_next().await {
        took.extend(talk??);
    }
    took.sort_unstable();
    anyhow::ensure!(!took.is_empty(), "no turn ended in that time");
    let at = |share: f64| took[((took.len() - 1) as f64 * share) as usize].as_secs_f64() * 1_000.0;
    let seconds = (ends - begins).as_secs_f64();
    let figures = json!({
        "turns": took.len(), "turns_per_second": took.len() as f64 / seconds, "p50_ms": at(0.5), "p99_ms": at(0.99),
    });
    println!("{figures}");
    Ok(())
}

/// What each turn took of those that began after `begins` and ended before `ends`.
async fn talk(
    args: &Args,
    number: usize,
    begins: Instant,
    ends: Instant,
) -> anyhow::Result<Vec<Duration>> {
    let mut client = Client::connect(args.server).await?;
    if let [path, body] = args.open.as_slice() {
        ask(&mut client, path, body, number).await?;
    }
    let [path, body] = args.turn.as_slice() else {
        anyhow::bail!("--turn is missing")
    };
    let mut took = Vec::new();
    loop {
        let began = Instant::now();
        if began >= ends {
            return Ok(took);
        }
        let answer = ask(&mut client, path, body, number).await?;
        anyhow::ensure!(answer.contains(&args.wants), "a turn failed: {answer}");
        let ended = Instant::now();
        if began >= begins && ended <= ends {
            took.push(ended - began);
        }
    }
}

async fn ask(client: &mut Client, path: &str, body: &str, number: usize) -> anyhow::Result<String> {
    let filled = |text: &str| text.replace("{n}", &format!("{number:012}"));
    let body: Value = serde_json::from_str(&filled(body)).context("a body is JSON")?;
    let response = client
        .send(Method::POST, &filled(path), Some(body), false)
        .await?;
    let status = response.status();
    let answer =
        String::from_utf8_lossy(&response.into_body().collect().await?.to_bytes()).into_owned();
    anyhow::ensure!(status.is_success(), "{path}: {status} {answer}");
    Ok(answer)
}

//! A connector that hands in each line that somebody types. Where its config says so it does something else: each function shows
//! one thing that a connector can do, right or wrong.

mod mistakes;

use std::future::poll_fn;
use std::hint::black_box;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

use goondan_abi::sdk::{ConnectorContext, ConnectorEvent, ToolError, export_connector};
use serde_json::json;

export_connector! { run = run }

/// Tests write over this in copies of the library: each copy is another library with the same code.
static MARKER: [u8; 16] = *b"GENERATION-00000";

async fn run(ctx: ConnectorContext) -> Result<(), ToolError> {
    match ctx.config().get("does").map_or("lines", String::as_str) {
        "lines" => lines(&ctx).await,
        "orders" => orders(&ctx).await,
        "answers" => answers(&ctx).await,
        "generation" => generation(&ctx).await,
        "floods" => mistakes::floods(&ctx).await,
        "never" => mistakes::never(&ctx),
        "prints" => mistakes::prints(&ctx).await,
        "returns" => Ok(()),
        "fails" => Err(ToolError::new("out of luck")),
        "panics" => panic!("not today"),
        "panicsInThread" => mistakes::panics_in_thread(&ctx).await,
        "aborts" => std::process::abort(),
        "exits" => std::process::exit(3),
        other => Err(ToolError::new(format!("nothing does {other}"))),
    }
}

/// Each line is an event of the room, and its answer goes back there.
async fn lines(ctx: &ConnectorContext) -> Result<(), ToolError> {
    let log = ctx.clone();
    ctx.on_reply(move |reply| {
        log.logger().info(&reply.text);
        Ok(())
    })?;
    let room = ctx.config().get("room").map_or("desk", String::as_str);
    while let Some(line) = ctx.line().await? {
        let event = ConnectorEvent::new("order", line)
            .property("table", room)
            .origin(json!({ "room": room }));
        ctx.emit(event).await?;
    }
    Ok(())
}

fn order(text: impl Into<String>) -> ConnectorEvent {
    ConnectorEvent::new("order", text.into()).property("table", "4")
}

/// The same event comes twice under one id; others have none. What is said of one that is none is an event, too.
async fn orders(ctx: &ConnectorContext) -> Result<(), ToolError> {
    ctx.emit(order("tea").id("one")).await?;
    ctx.blocking().emit(order("tea").id("one"))?;
    for sent in all(["a", "b", "c"].map(|text| ctx.emit(order(text)))).await {
        sent?;
    }
    let environment = std::env::vars().any(|(_, value)| value == "s3cr3t");
    let told = format!(
        "{} {} {environment}",
        ctx.setting("greeting")?,
        ctx.secret("key")?
    );
    ctx.emit(order(told)).await?;
    let refused = ctx
        .emit(json!({ "name": "order" }))
        .await
        .err()
        .and_then(|error| error.code)
        .unwrap_or_default();
    ctx.emit(order(format!("refused {refused}"))).await?;
    ctx.cancelled().await;
    Ok(())
}

/// Hands three events in, and writes down the answers; one of them it can't send.
async fn answers(ctx: &ConnectorContext) -> Result<(), ToolError> {
    let (count, file) = (AtomicU64::new(0), ctx.setting("greeting")?.to_owned());
    ctx.on_reply(move |reply| {
        let table = &reply.origin["table"];
        if *table == 3 {
            return Err(ToolError::new("table 3 is gone"));
        }
        let number = count.fetch_add(1, Ordering::Relaxed) + 1;
        let mut file = std::fs::File::options()
            .create(true)
            .append(true)
            .open(&file)?;
        writeln!(file, "{number} {table}: {}", reply.text)?;
        Ok(())
    })?;
    let table =
        |text: &str, table: u32| ConnectorEvent::new("order", text).property("table", table);
    ctx.emit(table("tea", 4).id("a").origin(json!({ "table": 4 })))
        .await?;
    ctx.emit(table("cake", 3).id("b").origin(json!({ "table": 3 })))
        .await?;
    ctx.emit(table("no way back", 2).id("c")).await?;
    ctx.cancelled().await;
    Ok(())
}

/// Says which copy of the library this is.
async fn generation(ctx: &ConnectorContext) -> Result<(), ToolError> {
    ctx.emit(order(String::from_utf8_lossy(black_box(&MARKER))))
        .await?;
    ctx.cancelled().await;
    Ok(())
}

/// Polls all futures at the same time, and gives back what they come to.
async fn all<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut running: Vec<_> = futures
        .into_iter()
        .map(|future| (Box::pin(future), None))
        .collect();
    poll_fn(|context| {
        let mut is_over = true;
        for (future, output) in running.iter_mut().filter(|(_, output)| output.is_none()) {
            match future.as_mut().poll(context) {
                Poll::Ready(value) => *output = Some(value),
                Poll::Pending => is_over = false,
            }
        }
        if is_over {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
    running
        .into_iter()
        .filter_map(|(_, output)| output)
        .collect()
}

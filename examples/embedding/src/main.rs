//! A program that embeds a swarm: it loads a project, provides a tool, sends an input, watches events, answers an approval, and
//! reloads.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context as _;
use async_trait::async_trait;
use goondan::event::{RuntimeEventKind, SwarmEvent};
use goondan::ports::approval::{ApprovalAnswer, ApprovalRequest, Approver};
use goondan::ports::tool::ToolContext;
use goondan::{EmbeddedTool, Input, Swarm};
use serde::Deserialize;
use serde_json::json;

/// Allows what it is asked, once.
struct Yes;

#[async_trait]
impl Approver for Yes {
    async fn ask(&self, request: ApprovalRequest) -> ApprovalAnswer {
        say(&format!("asked: may {} run?", request.tool_name));
        ApprovalAnswer::ONCE
    }
}

/// Arguments of `register__number`.
#[derive(Deserialize)]
struct NumberArguments {
    note: String,
}

/// Creates the tool `register`, which counts in the memory of this program.
fn register() -> EmbeddedTool {
    let last = Arc::new(AtomicU64::new(0));
    EmbeddedTool::new("register").function(
        "number",
        move |_context: ToolContext, arguments: NumberArguments| {
            let number = last.fetch_add(1, Ordering::Relaxed) + 1;
            async move { Ok(json!({"number": number, "note": arguments.note})) }
        },
    )
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("project");
    let bundle = goondan::load(&project)
        .bundle
        .context("the project has mistakes: see `gdn validate`")?;
    let state = std::env::temp_dir().join(format!("embedding-{}", std::process::id()));
    let swarm = Swarm::builder(bundle)
        .state_root(&state)
        .approver(Arc::new(Yes))
        .tool(register())
        .start()
        .await?;
    let mut events = swarm.subscribe();
    let turn = swarm.send(Input::text("Buy milk.")).await?;
    let result = turn.result().await.context("the swarm has ended")?;
    while let Ok(event) = events.try_recv() {
        if let SwarmEvent::Runtime(event) = event
            && let RuntimeEventKind::ToolCompleted { tool_name, .. } = &event.kind
        {
            say(&format!("happened: {tool_name} was called"));
        }
    }
    say(&format!("answer: {}", result.response_text()));
    let reloaded = swarm.reload().await.result;
    say(&format!(
        "reloaded: generation {} serves",
        reloaded.map_err(|_| anyhow::anyhow!("the project has mistakes"))?
    ));
    swarm.shutdown().await;
    Ok(std::fs::remove_dir_all(state)?)
}

#[allow(clippy::print_stdout, reason = "it is what the program is for")]
fn say(line: &str) {
    println!("{line}");
}

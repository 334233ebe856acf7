//! Work that takes its time: it says how far it is, and stops when it is told to.

use std::time::Duration;

use goondan_abi::sdk::{JsonObject, ToolContext, ToolError, export_tools};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Do a number of steps, each taking a while
#[derive(Deserialize, JsonSchema)]
struct Work {
    /// How many steps
    steps: u32,
    /// How long each takes, in milliseconds
    #[serde(default)]
    step_ms: u64,
}

#[derive(Serialize)]
struct Done {
    steps: u32,
}

/// `sleep` and `until_cancelled` end with an error as soon as the call is cancelled; `?` passes it on.
fn work(ctx: ToolContext, input: Work) -> Result<Done, ToolError> {
    for step in 1..=input.steps {
        ctx.sleep(Duration::from_millis(input.step_ms))?;
        let mut metadata = JsonObject::new();
        metadata.insert("step".to_owned(), step.into());
        ctx.progress(&format!("step {step} of {}", input.steps), metadata);
    }
    Ok(Done { steps: input.steps })
}

/// Wait until the call is cancelled
#[derive(Deserialize, JsonSchema)]
struct Wait {}

async fn wait(ctx: ToolContext, _input: Wait) -> Result<Done, ToolError> {
    ctx.progress("waiting", JsonObject::new());
    ctx.until_cancelled(std::future::pending::<()>()).await?;
    Ok(Done { steps: 0 })
}

export_tools! {
    tools = [work, wait],
}

//! The connector `__NAME__`.

use goondan_abi::sdk::{ConnectorContext, ConnectorEvent, ToolError, export_connector};
use serde_json::json;

// Runs as long as the connection does. Each line that somebody types is an event; ask your platform for its messages instead. A
// function that is not async does the same with `ctx.blocking()`. The page docs/connections.md of gdn lists what `ctx` has.
async fn run(ctx: ConnectorContext) -> Result<(), ToolError> {
    let answers = ctx.clone();
    // An answer that can't be sent has failed: return an error that says why.
    ctx.on_reply(move |reply| {
        answers.logger().info(&reply.text);
        Ok(())
    })?;
    let room = ctx.setting("room")?;
    while let Some(line) = ctx.line().await? {
        // It returns once the event is on disk. Where the platform has an id of the message, add it with `.id(…)`: the same id
        // starts one turn, however often it comes.
        let event = ConnectorEvent::new("line", line).instance_key(room).origin(json!({ "room": room }));
        ctx.emit(event).await?;
    }
    Ok(())
}

export_connector! { run = run }

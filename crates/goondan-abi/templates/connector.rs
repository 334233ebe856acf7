//! The connector `__NAME__`.

use goondan_abi::sdk::{ConnectorContext, ConnectorEvent, ToolError, export_connector};
use serde_json::json;

// Runs as long as the connection. Each typed line is an event; fetch the messages of your platform
// instead. A function that is not async uses `ctx.blocking()`. The page docs/connections.md of gdn
// lists the methods of `ctx`.
async fn run(ctx: ConnectorContext) -> Result<(), ToolError> {
    let answers = ctx.clone();
    // If an answer cannot be sent, return an error with the reason.
    ctx.on_reply(move |reply| {
        answers.logger().info(&reply.text);
        Ok(())
    })?;
    let room = ctx.setting("room")?;
    while let Some(line) = ctx.line().await? {
        // Returns once the event is durable. If the platform has message ids, add them with
        // `.id(…)`: repeated events with the same id start only one turn.
        let event = ConnectorEvent::new("line", line).instance_key(room).origin(json!({ "room": room }));
        ctx.emit(event).await?;
    }
    Ok(())
}

export_connector! { run = run }

//! The extension `__NAME__`.

use goondan_abi::sdk::{ExtensionApi, LayerKind, ToolError, export_extension};
use serde::Deserialize;
use serde_json::json;

/// `spec.config` of the Extension.
#[derive(Deserialize)]
struct Config {
    what: String,
}

// Registers layers around turns, steps (`Step`) and tool calls (`ToolCall`), once per conversation.
// Code of a layer before `ctx.next()` runs before the wrapped operation, the rest after it. The
// page docs/extensions.md of gdn lists the methods of `api` and `ctx`.
fn register(api: &mut ExtensionApi) -> Result<(), ToolError> {
    let config: Config = api.config()?;
    let state = api.state();
    api.layer(LayerKind::Turn, move |ctx| {
        // The state belongs to the conversation and survives restarts.
        let turns = state.get()["turns"].as_u64().unwrap_or_default() + 1;
        state.set(json!({ "turns": turns }));
        ctx.append("system", format!("This is {} {turns} of the conversation.", config.what))?;
        let result = ctx.next()?;
        ctx.logger().debug(&format!("the turn is over: {}", result["finishReason"]));
        Ok(result)
    });
    Ok(())
}

export_extension! { register = register }

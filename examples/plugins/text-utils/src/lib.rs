//! The smallest tool library: one export, `text-utils__uppercase`.

use goondan_abi::sdk::{ToolContext, ToolError, export_tools};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// Convert text to uppercase
#[derive(Deserialize, JsonSchema)]
struct Uppercase {
    /// Text to convert
    text: String,
}

async fn uppercase(ctx: ToolContext, input: Uppercase) -> Result<Value, ToolError> {
    ctx.logger()
        .info(&format!("Converting {:?} to uppercase", input.text));
    Ok(json!({ "result": input.text.to_uppercase() }))
}

export_tools! {
    tools = [uppercase => read_only().idempotent()],
}

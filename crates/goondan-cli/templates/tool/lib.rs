//! The tool library `__NAME__`: one export, which the model sees as `__NAME____reverse`.

use goondan_abi::sdk::{ToolContext, ToolError, export_tools};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// Turn text around
// What is said here and below is what the model is told.
#[derive(Deserialize, JsonSchema)]
struct Reverse {
    /// The text to turn around
    text: String,
}

fn reverse(ctx: ToolContext, input: Reverse) -> Result<Value, ToolError> {
    ctx.logger().info(&format!("turning {:?} around", input.text));
    Ok(json!({ "result": input.text.chars().rev().collect::<String>() }))
}

export_tools! {
    tools = [reverse => read_only().idempotent()],
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_is_a_function() {
        let ctx = ToolContext::detached(std::env::temp_dir());
        let input = Reverse { text: "abc".to_owned() };
        let output = reverse(ctx, input).expect("it has no way to fail");
        assert_eq!(output, json!({ "result": "cba" }));
    }
}

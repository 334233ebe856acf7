//! The tool library `__NAME__`.

use goondan_abi::sdk::{ToolContext, ToolError, export_tools};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// __ABOUT__
// The model sees the doc comments above and below.
#[derive(Deserialize, JsonSchema)]
struct __INPUT__ {
    /// The text to turn around
    text: String,
}

// An example that reverses a text.
fn __EXPORT__(ctx: ToolContext, input: __INPUT__) -> Result<Value, ToolError> {
    ctx.logger().info(&format!("turning {:?} around", input.text));
    Ok(json!({ "result": input.text.chars().rev().collect::<String>() }))
}

export_tools! {
    tools = [__EXPORT__ => read_only().idempotent()],
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_is_a_function() {
        let ctx = ToolContext::detached(std::env::temp_dir());
        let input = __INPUT__ { text: "abc".to_owned() };
        let output = __EXPORT__(ctx, input).expect("it has no way to fail");
        assert_eq!(output, json!({ "result": "cba" }));
    }
}

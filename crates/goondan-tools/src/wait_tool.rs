//! `wait`: waits for a given time.

use std::sync::Arc;
use std::time::Duration;

use goondan_core::ports::tool::{HandlerError, ToolContext, ToolOutput};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::builtin_tool::BuiltinTool;
use crate::errors;
use crate::tool_operation::{ToolExport, ToolOperation, json_number, titled_output};

/// Longest wait in seconds.
const MAX_WAIT_SECONDS: f64 = 300.0;

pub(crate) const BUILTIN: BuiltinTool = BuiltinTool {
    name: "wait",
    about: "Waits.",
    error_message_limit: Some(600),
    timeout: Some(Duration::from_secs(310)),
    open: |_| {
        Ok(vec![
            ToolExport::new::<WaitSeconds>("seconds", &Arc::new(())).read_only(),
        ])
    },
    ..BuiltinTool::DEFAULT_ROW
};

/// Wait for some seconds before continuing.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WaitSeconds {
    /// Seconds to wait (0 to 300; fractions are allowed).
    #[schemars(range(min = 0, max = 300))]
    seconds: f64,
}

impl ToolOperation for WaitSeconds {
    type Shared = ();

    async fn run(self, _ctx: &ToolContext, (): &()) -> Result<ToolOutput, HandlerError> {
        if !(0.0..=MAX_WAIT_SECONDS).contains(&self.seconds) {
            return Err(errors::invalid_argument(format!(
                "seconds must be from 0 to {MAX_WAIT_SECONDS}, not {}",
                self.seconds
            )));
        }
        let wait = Duration::from_secs_f64(self.seconds);
        tokio::time::sleep(wait).await;
        let output = json!({"waitedSeconds": json_number(self.seconds), "waitedMs": wait.as_millis() as u64});
        Ok(titled_output(format!("Waited {} s", self.seconds), output))
    }
}

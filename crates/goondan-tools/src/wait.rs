//! `wait`: waits for a given time.

use std::sync::Arc;
use std::time::Duration;

use goondan_core::ports::tool::{ToolContext, ToolError, ToolOutput};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::define::{Export, Operation, number, titled};
use crate::errors;
use crate::table::Builtin;

/// Longest wait in seconds.
const LONGEST: f64 = 300.0;

pub(crate) const BUILTIN: Builtin = Builtin {
    name: "wait",
    about: "Waits.",
    error_message_limit: Some(600),
    timeout: Some(Duration::from_secs(310)),
    open: |_| {
        Ok(vec![
            Export::new::<Seconds>("seconds", &Arc::new(())).read_only(),
        ])
    },
    ..Builtin::BLANK
};

/// Wait for some seconds before going on.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Seconds {
    /// How long to wait, in seconds (0 to 300; fractions are fine).
    #[schemars(range(min = 0, max = 300))]
    seconds: f64,
}

impl Operation for Seconds {
    type Shared = ();

    async fn run(self, _ctx: &ToolContext, (): &()) -> Result<ToolOutput, ToolError> {
        if !(0.0..=LONGEST).contains(&self.seconds) {
            return Err(errors::invalid(format!(
                "seconds must be from 0 to {LONGEST}, not {}",
                self.seconds
            )));
        }
        let wait = Duration::from_secs_f64(self.seconds);
        tokio::time::sleep(wait).await;
        let output =
            json!({"waitedSeconds": number(self.seconds), "waitedMs": wait.as_millis() as u64});
        Ok(titled(format!("Waited {} s", self.seconds), output))
    }
}

//! State that lives as long as the library is loaded: a reload of the same file keeps it, a rebuilt file starts anew.

use std::sync::atomic::{AtomicU64, Ordering};

use goondan_abi::sdk::{ToolContext, ToolError, export_tools};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

static COUNT: AtomicU64 = AtomicU64::new(0);

/// Count up and say where the count stands
#[derive(Deserialize, JsonSchema)]
struct Increment {
    /// How much to add
    #[serde(default = "one")]
    by: u64,
}

fn one() -> u64 {
    1
}

/// Say where the count stands
#[derive(Deserialize, JsonSchema)]
struct Current {}

#[derive(Serialize)]
struct Count {
    count: u64,
}

fn increment(_ctx: ToolContext, input: Increment) -> Result<Count, ToolError> {
    let before = COUNT.fetch_add(input.by, Ordering::Relaxed);
    Ok(Count {
        count: before.wrapping_add(input.by),
    })
}

fn current(_ctx: ToolContext, _input: Current) -> Result<Count, ToolError> {
    Ok(Count {
        count: COUNT.load(Ordering::Relaxed),
    })
}

export_tools! {
    tools = [
        increment,
        current => read_only().idempotent(),
    ],
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn increment_adds_to_the_current_count() {
        let ctx = ToolContext::detached(std::env::temp_dir());
        let before = current(ctx.clone(), Current {})
            .map(|count| count.count)
            .unwrap_or_default();
        let after = increment(ctx, Increment { by: 2 })
            .map(|count| count.count)
            .unwrap_or_default();
        assert_eq!(after, before + 2);
    }
}

//! What a connector can do wrong.

use std::time::Duration;

use goondan_abi::sdk::{ConnectorContext, ToolError};
use serde_json::json;

use crate::{all, order};

/// Events that are handed in at once.
const FLOOD: usize = 10_000;

/// Ten thousand events at once: half of them are the same, half of them are none.
pub(crate) async fn floods(ctx: &ConnectorContext) -> Result<(), ToolError> {
    let event = |number: usize| match number % 2 {
        0 => json!(order("again").id("same")),
        _ => json!({ "name": number }),
    };
    let taken = all((0..FLOOD).map(|number| ctx.emit(event(number)))).await;
    let refused = |code: &str| {
        taken
            .iter()
            .filter(|outcome| {
                outcome
                    .as_ref()
                    .is_err_and(|error| error.code.as_deref() == Some(code))
            })
            .count()
    };
    let good = taken.iter().filter(|outcome| outcome.is_ok()).count();
    ctx.emit(order(format!(
        "{good} taken, {} refused",
        refused("E_CONNECTOR_EVENT")
    )))
    .await?;
    ctx.cancelled().await;
    Ok(())
}

/// Ignores that the connection has ended. The file that its config names says which process it is.
pub(crate) fn never(ctx: &ConnectorContext) -> Result<(), ToolError> {
    std::fs::write(ctx.setting("greeting")?, std::process::id().to_string())?;
    ctx.blocking().emit(order("here"))?;
    loop {
        std::thread::sleep(Duration::from_secs(3_600));
    }
}

/// Writes on standard output, which does not belong to a library.
pub(crate) async fn prints(ctx: &ConnectorContext) -> Result<(), ToolError> {
    #[allow(clippy::print_stdout)]
    {
        println!("{{\"complete\": nonsense");
    }
    ctx.emit(order("printed")).await?;
    ctx.cancelled().await;
    Ok(())
}

/// A panic in a thread of its own, which nobody joins.
pub(crate) async fn panics_in_thread(ctx: &ConnectorContext) -> Result<(), ToolError> {
    let has_panicked = std::thread::spawn(|| panic!("in a thread")).join().is_err();
    ctx.emit(order(format!("panicked: {has_panicked}"))).await?;
    ctx.cancelled().await;
    Ok(())
}

//! What `tests/src/kills/module.mjs` does, as a library. It runs in the process of `gdn`, so that is who is killed.

use std::fs::{File, read_to_string, write};
use std::io::Write as _;
use std::thread::park;

use goondan_abi::sdk::{
    AgentRequest, ExtensionApi, LayerContext, LayerKind, SendRequest, ToolContext, ToolError,
    export_extension,
};
use rustix::process::{Signal, getpid, kill_process};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

export_extension! { register = register, tools = [act] }

/// Each is an operation, and at one of them somebody is killed.
fn operation(name: &str) -> Result<(), ToolError> {
    append("operations", name)?;
    let plan: Value = serde_json::from_str(&read("plan")).map_err(failed)?;
    if Some(read("operations").lines().count() as u64) != plan["number"].as_u64()
        || !read("killed").is_empty()
    {
        return Ok(());
    }
    write("killed", name).map_err(failed)?;
    kill_process(getpid(), Signal::KILL).map_err(failed)?;
    loop {
        park();
    }
}

fn read(file: &str) -> String {
    read_to_string(file).unwrap_or_default()
}

fn append(file: &str, line: &str) -> Result<(), ToolError> {
    let mut file = File::options()
        .create(true)
        .append(true)
        .open(file)
        .map_err(failed)?;
    writeln!(file, "{line}").map_err(failed)
}

fn failed(error: impl std::fmt::Display) -> ToolError {
    ToolError::new(error.to_string())
}

/// Acts.
#[derive(Deserialize, JsonSchema)]
struct Act {}

async fn act(ctx: ToolContext, _: Act) -> Result<String, ToolError> {
    operation("handler begins")?;
    append("ledger", ctx.tool_call_id())?;
    operation("handler has acted")?;
    ctx.runtime()
        .request(AgentRequest::new("other", "from the tool"))
        .await?;
    operation("handler has asked")?;
    Ok("acted".to_owned())
}

fn register(api: &mut ExtensionApi) -> Result<(), ToolError> {
    let turns = api.state();
    api.layer(LayerKind::Turn, move |ctx| {
        if !is_first(ctx) {
            return ctx.next();
        }
        operation("turn begins")?;
        turns.set(json!({"turns": turns.get()["turns"].as_u64().unwrap_or_default() + 1}));
        ctx.append("user", "begun")?;
        operation("turn has a state and a message")?;
        ctx.request(AgentRequest::new("other", "from the turn"))?;
        operation("turn has asked")?;
        ctx.send(SendRequest::new("other", "told by the turn"))?;
        operation("turn has told")?;
        let result = ctx.next()?;
        operation("turn is over")?;
        ctx.append("user", "ended")?;
        operation("turn ends")?;
        Ok(result)
    });
    api.layer(LayerKind::Step, |ctx| {
        if !is_first(ctx) {
            return ctx.next();
        }
        operation("step begins")?;
        let result = ctx.next()?;
        operation("step ends")?;
        Ok(result)
    });
    let calls = api.state();
    api.layer(LayerKind::ToolCall, move |ctx| {
        operation("call begins")?;
        let result = ctx.next()?;
        operation("call ends")?;
        let mut state = calls.get();
        state["calls"] = (state["calls"].as_u64().unwrap_or_default() + 1).into();
        calls.set(state);
        operation("call is counted")?;
        Ok(result)
    });
    Ok(())
}

/// Whether it belongs to the turn in which somebody is killed.
fn is_first(ctx: &LayerContext<'_>) -> bool {
    let event = [ctx.field("inputEvent"), &ctx.field("turn")["inputEvent"]]
        .into_iter()
        .find(|event| !event.is_null());
    event.is_some_and(|event| event["input"] == "go")
}

//! An extension that does what its config says: each function shows one thing that layers can do. `probe.mjs` and `probe.py` of
//! the tests (`tests/fixtures/layers`) and `examples/plugins/c-layers` do the same.

mod conversations;
mod hears;
mod mistakes;

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use goondan_abi::sdk::{
    ExtensionApi, LayerKind, StateHandle, ToolContext, ToolError, export_extension, tool,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

export_extension! { register = register }

#[derive(Deserialize)]
struct Config {
    does: String,
}

fn register(api: &mut ExtensionApi) -> Result<(), ToolError> {
    let Config { does } = api.config()?;
    match does.as_str() {
        "marks" => marks(api),
        "orders" => orders(api),
        "counts" => counts(api),
        "filters" => filters(api),
        "insists" => insists(api),
        "answers" => answers(api),
        "denies" => denies(api),
        "offers" => offers(api),
        "speaks" => speaks(api),
        "listens" => listens(api),
        "hears" => hears::hears(api),
        "remembers" => conversations::remembers(api),
        "edits" => conversations::edits(api),
        "forgets" => conversations::forgets(api),
        "asks" => conversations::asks(api),
        "context" => conversations::context(api),
        "twice" => mistakes::twice(api),
        "silent" => mistakes::silent(api),
        "throws" => mistakes::throws(api),
        "throwsInCall" => mistakes::throws_in_call(api),
        "panics" => mistakes::panics(api),
        "spins" => mistakes::spins(api),
        "failsToRegister" => return Err(ToolError::new("not in the mood")),
        other => return Err(ToolError::new(format!("nothing does {other}"))),
    }
    Ok(())
}

/// Around a tool call: other arguments, another result, variables for each conversation.
fn marks(api: &mut ExtensionApi) {
    let calls = AtomicU64::new(0);
    let instance = api.instance_key().to_owned();
    api.layer(LayerKind::ToolCall, move |ctx| {
        ctx.args["text"] = format!("{}!", ctx.args["text"].as_str().unwrap_or_default()).into();
        let calls = calls.fetch_add(1, Ordering::Relaxed) + 1;
        let mut result = ctx.next()?;
        result["output"]["calls"] = calls.into();
        result["output"]["tool"] = ctx.tool_name().into();
        result["output"]["step"] = ctx.step_index().into();
        result["output"]["agents"] = ctx.field("runtime").is_null().into();
        result["output"]["instance"] = instance.as_str().into();
        Ok(result)
    });
}

/// Layers in the order of their priorities, whatever the order in which they are registered.
fn orders(api: &mut ExtensionApi) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut layer = |name: &'static str, priority: f64| {
        api.layer_at(LayerKind::ToolCall, priority, move |ctx| {
            ctx.args = json!({"text": text(&ctx.args["text"]) + name});
            let way = ctx.metadata.get("way").map(text).unwrap_or_default() + name;
            ctx.metadata.insert("way".to_owned(), way.into());
            let mut result = ctx.next()?;
            result["output"]["back"] = (text(&result["output"]["back"]) + name).into();
            result["output"]["way"] = ctx.metadata["way"].clone();
            Ok(result)
        });
    };
    layer("c", 5.0);
    layer("b", 0.0);
    layer("a", -1.0);
}

/// Around a turn: a state, and a message for each turn.
fn counts(api: &mut ExtensionApi) {
    let state = api.state();
    api.layer(LayerKind::Turn, move |ctx| {
        let turns = state.get()["turns"].as_u64().unwrap_or_default() + 1;
        state.set(json!({"turns": turns}));
        ctx.append("system", format!("turn {turns}"))?;
        let last = ctx.conversation().next_messages().pop().unwrap_or_default();
        if last["data"]["content"][0]["text"] != format!("turn {turns}") {
            return Err(ToolError::new("the message is not there"));
        }
        let result = ctx.next()?;
        let conversation = ctx.conversation();
        let new = conversation.next_messages().len() - conversation.base_messages().len();
        ctx.append(
            "system",
            format!(
                "{new} new, {}",
                result["finishReason"].as_str().unwrap_or_default()
            ),
        )?;
        Ok(result)
    });
    // What is kept by a layer around a tool call is kept, too.
    let state = api.state();
    api.layer(LayerKind::ToolCall, move |ctx| {
        let mut kept = state.get();
        kept["calls"] = (kept["calls"].as_u64().unwrap_or_default() + 1).into();
        state.set(kept);
        ctx.next()
    });
}

/// Around a step: fewer tools.
fn filters(api: &mut ExtensionApi) {
    api.layer(LayerKind::Step, |ctx| {
        ctx.tool_catalog.retain(|tool| tool["name"] != "echo__slow");
        let result = ctx.next()?;
        let has_calls = result["toolCalls"]
            .as_array()
            .is_some_and(|calls| !calls.is_empty());
        if result["status"] != "completed" || result["hasToolCalls"] != has_calls {
            return Err(ToolError::new("odd result"));
        }
        Ok(result)
    });
}

/// An answer is not accepted before a tool was called.
fn insists(api: &mut ExtensionApi) {
    let called = Arc::new(Mutex::new(HashSet::new()));
    let calls = Arc::clone(&called);
    api.layer(LayerKind::ToolCall, move |ctx| {
        let result = ctx.next()?;
        if result["status"] == "ok" {
            calls
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .insert(ctx.turn_id().to_owned());
        }
        Ok(result)
    });
    api.layer(LayerKind::Step, move |ctx| {
        let mut result = ctx.next()?;
        let has_called = called
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .contains(ctx.turn_id());
        if result["shouldContinue"] != true && !has_called {
            ctx.append("user", "call a tool first")?;
            result["shouldContinue"] = true.into();
        }
        Ok(result)
    });
}

/// The layer stands in for the model.
fn answers(api: &mut ExtensionApi) {
    api.layer(LayerKind::Step, |ctx| {
        let said = format!("you said: {}", ctx.input());
        ctx.append("assistant", said)?;
        Ok(json!({"status": "completed", "shouldContinue": false}))
    });
}

/// The layer stands in for the tool.
fn denies(api: &mut ExtensionApi) {
    api.layer(LayerKind::ToolCall, |_| {
        Ok(json!({"status": "error", "error": {"code": "NOT_TODAY", "message": "not today"}}))
    });
}

/// Keep a note.
#[derive(Deserialize, JsonSchema)]
struct Note {
    note: String,
}

/// A tool of its own, and its state.
fn offers(api: &mut ExtensionApi) {
    let state = api.state();
    api.tool(tool("notes__add", move |ctx: ToolContext, input: Note| {
        add(&state, &ctx, input)
    }));
}

fn add(state: &StateHandle, ctx: &ToolContext, input: Note) -> Result<Value, ToolError> {
    let mut notes = state.get().as_array().cloned().unwrap_or_default();
    notes.push(input.note.into());
    let count = notes.len();
    state.set(notes);
    Ok(json!({"notes": count, "agent": ctx.agent_name()}))
}

/// Events between extensions; a listener that fails gets in nobody's way.
fn speaks(api: &mut ExtensionApi) {
    let events = api.events();
    api.layer(LayerKind::ToolCall, move |ctx| {
        events.emit("probe.called", json!({"tool": ctx.tool_name()}));
        ctx.next()
    });
}

fn listens(api: &mut ExtensionApi) {
    let heard = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&heard);
    let events = api.events();
    events.on("probe.called", |_| panic!("I fail"));
    events.on("probe.called", move |event| {
        if event["tool"] == "echo__say" {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    });
    api.layer(LayerKind::ToolCall, move |ctx| {
        let mut result = ctx.next()?;
        result["output"]["heard"] = heard.load(Ordering::Relaxed).into();
        Ok(result)
    });
}

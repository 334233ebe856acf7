//! What layers should not do.

use goondan_abi::sdk::{ExtensionApi, LayerKind, ToolError};
use serde_json::Value;

pub(crate) fn twice(api: &mut ExtensionApi) {
    api.layer(LayerKind::Step, |ctx| {
        let result = ctx.next()?;
        let _ = ctx.next();
        Ok(result)
    });
}

pub(crate) fn silent(api: &mut ExtensionApi) {
    api.layer(LayerKind::Turn, |ctx| ctx.next().map(|_| Value::Null));
}

pub(crate) fn throws(api: &mut ExtensionApi) {
    api.layer(LayerKind::Turn, |_| {
        Err(ToolError::new("no turn today")
            .code("NO_TURN")
            .suggest("try tomorrow"))
    });
}

pub(crate) fn throws_in_call(api: &mut ExtensionApi) {
    api.layer(LayerKind::ToolCall, |_| {
        Err(ToolError::new("no call today"))
    });
}

pub(crate) fn panics(api: &mut ExtensionApi) {
    api.layer(LayerKind::Turn, |ctx| {
        if ctx.input() == "panic" {
            panic!("no panic today")
        } else {
            ctx.next()
        }
    });
}

/// A library cannot be ended from outside: this layer ends when it is told to.
pub(crate) fn spins(api: &mut ExtensionApi) {
    api.layer(LayerKind::Step, |ctx| {
        while ctx.input() != "go" && !ctx.is_cancelled() {
            std::thread::yield_now();
        }
        ctx.next()
    });
}

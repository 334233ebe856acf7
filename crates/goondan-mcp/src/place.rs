//! For whom a server runs: whoever shares a place shares its process.

use std::path::PathBuf;

use goondan_core::ports::tool::ToolContext;
use goondan_spec::kinds::Sandbox;

/// The sandboxes that calls are made from, and what may be written there. Without a sandbox every call is made from the same
/// place.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Place {
    pub(crate) sandboxes: Vec<Sandbox>,
    /// Empty where there is no sandbox.
    pub(crate) workdir: PathBuf,
}

impl Place {
    /// Where a call is made from.
    pub(crate) fn of(ctx: &ToolContext) -> Self {
        match ctx.sandboxes.is_empty() {
            true => Place::default(),
            false => Place {
                sandboxes: ctx.sandboxes.clone(),
                workdir: ctx.workdir.clone(),
            },
        }
    }
}

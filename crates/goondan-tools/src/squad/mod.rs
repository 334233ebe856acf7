//! `squad`: the team work of a Squad project in its `.squad/` directory, with one module per
//! export.
//!
//! Errors of the team, such as an unknown agent or skill, are results with `failure`, so that the
//! model can continue.

mod decide;
mod folder;
mod memory;
mod merge;
mod route;
mod sessions;
mod skill;
mod status;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use goondan_core::ids::InstanceId;
use goondan_core::ports::store::{InstanceMeta, InstanceStatus};
use goondan_core::ports::tool::{ToolContext, ToolError, ToolOutput};
use goondan_spec::kinds::Permission::{Read, Write};
use serde::Deserialize;
use serde_json::{Value, json};

use self::folder::Folder;
pub(crate) use self::sessions::Sessions;
use crate::define::{Export, titled};
use crate::table::Builtin;

/// Maximum size of a result's text in bytes.
const LONGEST: usize = 10 * 1024;

pub(crate) const BUILTIN: Builtin = Builtin {
    name: "squad",
    about: "Team work in a Squad project: it gives work to agents with a charter, collects decisions in an inbox and learnings \
            in histories, and shares skills. All of it is in `.squad/`.",
    config: &[
        (
            "dir",
            "the folder of the squad, relative to the project (default `.squad`)",
        ),
        (
            "maxConcurrent",
            "how many routed sessions may work at the same time (default 8)",
        ),
    ],
    // Longer than the longest silence of a routed session.
    timeout: Some(Duration::from_secs(1_860)),
    open: |opening| {
        let squad = Arc::new(Squad {
            settings: opening.config()?,
            sessions: Arc::clone(&opening.state.squad_sessions),
        });
        Ok(vec![
            // The ids of the session and of its request are derived from the call id.
            Export::new::<route::Route>("route", &squad)
                .needs(Read)
                .idempotent(),
            Export::new::<decide::Decide>("decide", &squad).needs(Write),
            // Merged proposals are not merged again.
            Export::new::<merge::Merge>("merge", &squad)
                .needs(Write)
                .idempotent(),
            Export::new::<memory::Memory>("memory", &squad).needs(Write),
            Export::new::<status::Status>("status", &squad).read_only(),
            Export::new::<skill::Skill>("skill", &squad)
                .needs(Read)
                .needs(Write),
        ])
    },
    ..Builtin::BLANK
};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Settings {
    /// Directory of the squad, relative to the project.
    #[serde(default = "default_dir")]
    dir: String,
    /// Maximum number of concurrent routed sessions.
    #[serde(default = "default_concurrent")]
    max_concurrent: usize,
}

struct Squad {
    settings: Settings,
    sessions: Arc<Sessions>,
}

impl Squad {
    fn folder(&self, ctx: &ToolContext) -> Folder {
        Folder::new(ctx.project_dir.clone(), self.settings.dir.clone())
    }

    /// Loads the stored sessions, and marks finished ones that no call waits for. If the host has
    /// no session list, they count as running.
    async fn look_after_started(&self, ctx: &ToolContext) -> Result<(), ToolError> {
        if let Some(state) = ctx.runtime.state() {
            self.sessions.restore(state).await?;
        }
        let Some(power) = ctx.runtime.sessions() else {
            return Ok(());
        };
        let Ok(all) = power.sessions().await else {
            return Ok(());
        };
        let busy = |session: &&InstanceMeta| session.status == InstanceStatus::Processing;
        let busy: HashSet<&str> = all
            .iter()
            .filter(busy)
            .map(|session| session.instance_key.as_str())
            .collect();
        self.sessions.settle(|key| busy.contains(key));
        Ok(())
    }

    /// Stores the sessions that the caller has routed, if the host has storage.
    async fn keep(&self, ctx: &ToolContext) -> Result<(), ToolError> {
        match ctx.runtime.state() {
            Some(state) => self.sessions.keep(&caller(ctx), state).await,
            None => Ok(()),
        }
    }
}

fn caller(ctx: &ToolContext) -> InstanceId {
    InstanceId::new(&*ctx.agent_name, &*ctx.instance_key)
}

/// Returns a squad result: success or failure, and the text for the model.
fn result(outcome: Result<String, String>) -> ToolOutput {
    let (kind, text) = match outcome {
        Ok(text) => ("success", text),
        Err(text) => ("failure", text),
    };
    titled(
        title(&text),
        json!({"resultType": kind, "textResultForLlm": cut(text)}),
    )
}

/// Returns the first line for users.
fn title(text: &str) -> String {
    text.lines()
        .next()
        .unwrap_or_default()
        .chars()
        .take(80)
        .collect()
}

/// Truncates a text to [`LONGEST`] bytes, with a note about the rest.
fn cut(text: String) -> Value {
    if text.len() <= LONGEST {
        return Value::from(text);
    }
    let end = text.floor_char_boundary(LONGEST);
    Value::from(format!(
        "{}\n[{} more bytes were cut.]",
        &text[..end],
        text.len() - end
    ))
}

/// Formats a tool error as a squad failure.
fn told(error: ToolError) -> String {
    match error.suggestion {
        Some(suggestion) => format!("{} ({suggestion})", error.message),
        None => error.message,
    }
}

fn default_dir() -> String {
    ".squad".to_owned()
}

fn default_concurrent() -> usize {
    8
}

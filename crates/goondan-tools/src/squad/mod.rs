//! `squad`: the team work of a Squad project, over its `.squad/` folder, one file an export.
//!
//! What goes wrong in the team's own terms (no such agent, no such skill) is a result that says `failure`, so that the
//! model can go on with it.

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

/// How much text a result has at most, in bytes.
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
    // Longer than a routed session may give no sign of life.
    timeout: Some(Duration::from_secs(1_860)),
    open: |opening| {
        let squad = Arc::new(Squad {
            settings: opening.config()?,
            sessions: Arc::clone(&opening.state.squad_sessions),
        });
        Ok(vec![
            // The ids of the session and of its question are derived from the id of the call.
            Export::new::<route::Route>("route", &squad)
                .needs(Read)
                .idempotent(),
            Export::new::<decide::Decide>("decide", &squad).needs(Write),
            // What was merged is not merged again.
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

/// What `spec.config` may say.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Settings {
    /// The folder of the squad, relative to the project.
    #[serde(default = "default_dir")]
    dir: String,
    /// How many routed sessions may be at work at once.
    #[serde(default = "default_concurrent")]
    max_concurrent: usize,
}

/// What the exports share.
struct Squad {
    settings: Settings,
    sessions: Arc<Sessions>,
}

impl Squad {
    /// The squad's folder in the project of the call.
    fn folder(&self, ctx: &ToolContext) -> Folder {
        Folder::new(ctx.project_dir.clone(), self.settings.dir.clone())
    }

    /// Reads what was kept, and notes which sessions are done that nobody waits for. Where the host does not tell, they count
    /// as at work.
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

    /// Keeps the sessions that the caller has routed, where the host lets it.
    async fn keep(&self, ctx: &ToolContext) -> Result<(), ToolError> {
        match ctx.runtime.state() {
            Some(state) => self.sessions.keep(&caller(ctx), state).await,
            None => Ok(()),
        }
    }
}

/// The conversation that makes the call.
fn caller(ctx: &ToolContext) -> InstanceId {
    InstanceId::new(&*ctx.agent_name, &*ctx.instance_key)
}

/// A result of the squad: whether it worked, and what to tell the model.
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

/// The first line, for people.
fn title(text: &str) -> String {
    text.lines()
        .next()
        .unwrap_or_default()
        .chars()
        .take(80)
        .collect()
}

/// At most [`LONGEST`] bytes of a text, with a word about the rest.
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

/// A failure of the tool as the squad tells it.
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

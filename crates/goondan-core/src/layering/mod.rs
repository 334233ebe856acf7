//! How extensions whose code is spoken with in messages are run: in a process of a runtime, or in a library.
//!
//! The code registers for each instance and says which layers and tools it has ([`Register`]); each run of a layer is told what
//! has happened ([`News`]), asks for what it wraps, and says at its end what it has changed. An adapter says where the code
//! is ([`Code`]) and passes the messages on ([`Runner`], [`Line`]); all that follows from them is the same for all
//! ([`extension`]).
//!
//! What this module does not know: how a message travels, and what the engine makes of it. That is behind [`Line`] and
//! [`LayerDesk`](crate::ports::extension::LayerDesk).

mod extension;
mod messages;
mod run;
mod sessions;
mod told;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;

pub use self::extension::extension;
pub use self::messages::{
    Begin, Kept, News, NextAsk, Offered, Part, Register, Registered, Run, Splice,
};
pub use self::sessions::{Session, Sessions};
use crate::JsonObject;
use crate::ports::extension::{Changes, Seat};
use crate::ports::tool::{LogLevel, ToolContext, ToolError, ToolOutput};

/// The code of an extension, with its config.
#[async_trait]
pub trait Code: Send + Sync + 'static {
    /// The Extension's name.
    fn name(&self) -> &str;

    /// Where it is. With its name, its config and an instance it tells a registration from others.
    fn place(&self) -> String;

    /// The project's folder.
    fn project(&self) -> &Path;

    /// What it is configured with.
    fn config(&self) -> &JsonObject;

    /// How long it may work at a stretch.
    fn limit(&self) -> Duration;

    /// The files that it is made of.
    fn files(&self) -> Vec<PathBuf>;

    /// Something that runs it.
    ///
    /// # Errors
    /// There is none, and none can be had.
    async fn connect(&self, seat: &Seat) -> Result<Arc<dyn Runner>, ToolError>;
}

/// What runs the code of an extension.
#[async_trait]
pub trait Runner: Send + Sync {
    /// The extensions that have registered in it.
    fn sessions(&self) -> &Sessions;

    /// Has it begin something.
    ///
    /// # Errors
    /// It takes nothing more.
    fn begin(&self, what: &Begin<'_>) -> Result<Box<dyn Line>, ToolError>;

    /// Runs a tool that an extension offers.
    async fn call(&self, call: OfferedCall<'_>, ctx: &ToolContext) -> Ended;

    /// A registration is no longer wanted.
    fn forget(&self, session: u64);

    /// Tells a registration that something happened in its instance. Waits for nothing: an event may get lost where too many
    /// wait already.
    fn happened(&self, session: u64, event: &Value);
}

/// A call of a tool that an extension offers.
pub struct OfferedCall<'a> {
    /// Whose it is.
    pub session: u64,
    /// The Extension's name.
    pub extension: &'a str,
    /// The tool's name.
    pub name: &'a str,
    /// What the extension is configured with.
    pub config: &'a JsonObject,
    /// The arguments.
    pub input: &'a JsonObject,
    /// How long it may take, as it is told. The engine keeps the time.
    pub timeout: Duration,
}

/// Something that the code has begun. Dropped before its end, it is given up.
#[async_trait]
pub trait Line: Send {
    /// What the code says next. Safe to drop and ask again; not asked again after the end.
    async fn hear(&mut self) -> Heard;

    /// What was said before the end and was not heard yet.
    fn rest(&mut self) -> Option<Event>;

    /// Answers a question.
    fn answer(&mut self, ask: u64, outcome: Result<Value, ToolError>);

    /// Asks the code to come to its end.
    fn cancel(&mut self);
}

/// What code says.
#[derive(Debug)]
pub enum Heard {
    /// Something, while it runs.
    Said(Event),
    /// Its last word.
    Ended(Box<Ended>),
}

/// What code says before its end.
#[derive(Debug)]
pub enum Event {
    /// For the log.
    Log(LogLevel, String, JsonObject),
    /// How far it is.
    Progress(String, JsonObject),
    /// A question.
    Ask {
        /// Its number.
        ask: u64,
        /// What is asked for.
        name: String,
        /// With what.
        payload: Value,
    },
}

/// How code ends, with what came along.
#[derive(Debug)]
pub struct Ended {
    /// What came of it.
    pub outcome: Result<ToolOutput, ToolError>,
    /// What a layer has changed at its end.
    pub changes: Changes,
    /// What the extension keeps from now on.
    pub state: Option<Kept>,
    /// The events that it listens to from now on.
    pub listens: Option<Vec<String>>,
}

impl From<Result<ToolOutput, ToolError>> for Ended {
    fn from(outcome: Result<ToolOutput, ToolError>) -> Self {
        Ended {
            outcome,
            changes: Changes::default(),
            state: None,
            listens: None,
        }
    }
}

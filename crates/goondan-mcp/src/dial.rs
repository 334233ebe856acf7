//! The port behind which programs are started, contained and ended.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::io::{AsyncRead, AsyncWrite};

use goondan_core::JsonObject;
use goondan_core::ports::tool::ToolError;
use goondan_spec::kinds::Sandbox;

/// Starts the programs of servers.
#[async_trait]
pub trait Dialer: Send + Sync {
    /// Starts `program` with nothing inherited but what every program needs.
    ///
    /// # Errors
    /// It can't be started, or not be contained as it should.
    async fn start(&self, program: &Program) -> Result<Stream, ToolError>;
}

/// Stands in for servers: a case plays them.
#[async_trait]
pub trait StandIns: Send + Sync {
    /// What is spoken with in place of the server of that Tool; `None` where that is the server itself.
    async fn stand_in(&self, tool: &str) -> Option<Result<Stream, ToolError>>;
}

/// How servers are reached.
#[derive(Clone)]
pub(crate) struct Ways {
    /// Where tokens lie, below a folder of their own.
    pub(crate) folder: PathBuf,
    pub(crate) dialer: Arc<dyn Dialer>,
    pub(crate) stand_ins: Option<Arc<dyn StandIns>>,
}

/// A program to be started.
#[derive(Debug, Clone)]
pub struct Program {
    /// Where it is, or its name.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its variables beside the ordinary ones.
    pub env: BTreeMap<String, String>,
    /// Where it runs.
    pub folder: PathBuf,
    /// The project's folder.
    pub project: PathBuf,
    /// `spec.config` of its Tool.
    pub config: JsonObject,
    /// The sandboxes of those who call it, beside that of `config`.
    pub sandboxes: Vec<Sandbox>,
    /// The folder that programs in a sandbox may write to.
    pub workdir: PathBuf,
}

/// Both ends of a conversation in lines.
pub struct Stream {
    /// What the server says.
    pub input: Box<dyn AsyncRead + Send + Sync + Unpin>,
    /// What it is told.
    pub output: Box<dyn AsyncWrite + Send + Sync + Unpin>,
    /// What it complains about.
    pub errors: Option<Box<dyn AsyncRead + Send + Sync + Unpin>>,
    /// The program behind it. Dropping it ends all of its processes.
    pub program: Option<Box<dyn Running>>,
}

/// A program that runs.
#[async_trait]
pub trait Running: Send + Sync {
    /// Ends it with all that it has started, if it has not ended: first it is left a moment to end by itself, for nobody
    /// speaks to it any more; then it is asked, then made to.
    async fn end(&mut self) -> String;
}

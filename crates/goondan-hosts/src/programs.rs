//! The port behind which hosts are started, contained and ended.

use std::path::PathBuf;

use async_trait::async_trait;
use goondan_core::JsonObject;
use goondan_core::ports::tool::ToolError;
use goondan_spec::kinds::Sandbox;
use tokio::io::{AsyncRead, AsyncWrite};

/// Starts hosts.
#[async_trait]
pub trait HostPrograms: Send + Sync {
    /// Starts `program` with nothing inherited but what every program needs.
    ///
    /// # Errors
    /// It can't be started, or not be contained as it should.
    async fn start(&self, program: &HostProgram) -> Result<Streams, ToolError>;
}

/// A host to be started.
#[derive(Debug, Clone)]
pub struct HostProgram {
    /// Where it is.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// Where it runs.
    pub folder: PathBuf,
    /// The project's folder.
    pub project: PathBuf,
    /// The settings of its tools for programs: `env`, `sandbox` and `limits`.
    pub config: JsonObject,
    /// The sandboxes of those who call it, beside that of `config`.
    pub sandboxes: Vec<Sandbox>,
    /// The folder that programs in a sandbox may write to.
    pub workdir: PathBuf,
    /// Folders that it reads, in a sandbox too.
    pub reads: Vec<PathBuf>,
    /// Programs that it consists of, which a sandbox lets start.
    pub starts: Vec<PathBuf>,
}

/// Both ends of a conversation in lines.
pub struct Streams {
    /// What the host says.
    pub input: Box<dyn AsyncRead + Send + Unpin>,
    /// What it is told.
    pub output: Box<dyn AsyncWrite + Send + Unpin>,
    /// What its modules print past the shim.
    pub printed: Box<dyn AsyncRead + Send + Unpin>,
    /// The process. Dropping it kills it with all that it has started.
    pub program: Box<dyn RunningHost>,
}

/// A host that runs.
#[async_trait]
pub trait RunningHost: Send + Sync {
    /// Waits until it ends by itself, and says how it did. What it has started ends with it.
    async fn wait(&mut self) -> String;

    /// Kills it with all that it has started, and says how it ended.
    async fn kill(&mut self) -> String;
}

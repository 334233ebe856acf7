//! The interface through which runtime processes are started, sandboxed and ended.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use goondan_core::JsonObject;
use goondan_core::ports::tool::{ApprovedFile, HandlerError};
use goondan_spec::kinds::SandboxSettings;
use tokio::io::{AsyncRead, AsyncWrite};

#[async_trait]
pub trait HostPrograms: Send + Sync {
    /// Starts `program` with a minimal environment.
    ///
    /// # Errors
    ///
    /// Fails if the program cannot be started, or not be sandboxed as required.
    async fn start(&self, program: &HostProgram) -> Result<RuntimeStreams, HandlerError>;
}

/// A runtime process to start.
#[derive(Debug, Clone)]
pub struct HostProgram {
    /// Path of the program.
    pub program: PathBuf,
    pub args: Vec<String>,
    /// Working directory.
    pub folder: PathBuf,
    /// Directory of the project.
    pub project: PathBuf,
    /// The tools' settings for programs: `env`, `sandbox` and `limits`.
    pub config: JsonObject,
    /// Sandboxes of the callers, in addition to that of `config`.
    pub sandboxes: Vec<SandboxSettings>,
    /// Directory that sandboxed programs may write to.
    pub workdir: PathBuf,
    /// Directories that the process may read even in a sandbox.
    pub reads: Vec<PathBuf>,
    /// Programs that the process may start even in a sandbox.
    pub starts: Vec<PathBuf>,
    /// Files that an approval of the call covers. The process starts only with their content.
    pub approved_files: Arc<[ApprovedFile]>,
}

/// The connections to a runtime process.
pub struct RuntimeStreams {
    /// Messages from the process.
    pub input: Box<dyn AsyncRead + Send + Unpin>,
    /// Messages to the process.
    pub output: Box<dyn AsyncWrite + Send + Unpin>,
    /// Output that modules print without the shim.
    pub printed: Box<dyn AsyncRead + Send + Unpin>,
    /// The process. Dropping it kills the process and its child processes.
    pub program: Box<dyn RunningHost>,
}

#[async_trait]
pub trait RunningHost: Send + Sync {
    /// Waits until the process exits, and describes its end. Its child processes end with it.
    async fn wait(&mut self) -> String;

    /// Kills the process with its child processes, and describes its end.
    async fn kill(&mut self) -> String;
}

//! The interface through which programs are started, sandboxed and ended.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::io::{AsyncRead, AsyncWrite};

use goondan_core::JsonObject;
use goondan_core::ports::tool::{ApprovedFile, HandlerError};
use goondan_core::redact::SecretRedactor;
use goondan_spec::kinds::SandboxSettings;

#[async_trait]
pub trait ServerSpawner: Send + Sync {
    /// Starts `program` with a minimal environment.
    ///
    /// # Errors
    ///
    /// Fails if the program cannot be started, or cannot be sandboxed as required.
    async fn start(&self, program: &McpServerProgram) -> Result<ProgramStreams, HandlerError>;
}

/// Replaces servers with mocks in tests.
#[async_trait]
pub trait ServerMocks: Send + Sync {
    /// Returns the mock for the server of the Tool `tool`; `None` for the real server.
    async fn mock(&self, tool: &str) -> Option<Result<ProgramStreams, HandlerError>>;
}

/// Options for connecting to servers.
#[derive(Clone)]
pub(crate) struct ServerConnectOptions {
    /// Directory of the token directory and the catalogs.
    pub(crate) folder: PathBuf,
    /// Masks the tokens of logins.
    pub(crate) redactor: SecretRedactor,
    pub(crate) spawner: Arc<dyn ServerSpawner>,
    /// Mocks of servers in tests.
    pub(crate) mocks: Option<Arc<dyn ServerMocks>>,
}

/// A program to start.
#[derive(Debug, Clone)]
pub struct McpServerProgram {
    /// Path or name of the program.
    pub command: String,
    pub args: Vec<String>,
    /// Environment variables in addition to the minimal ones.
    pub env: BTreeMap<String, String>,
    /// Working directory of the program.
    pub folder: PathBuf,
    /// The project directory.
    pub project: PathBuf,
    /// `spec.config` of the Tool.
    pub config: JsonObject,
    /// Sandboxes of the callers, in addition to the sandbox of `config`.
    pub sandboxes: Vec<SandboxSettings>,
    /// Directory that sandboxed programs may write to.
    pub workdir: PathBuf,
    /// Files that an approval of the call covers. The program starts only with their content.
    pub approved_files: Arc<[ApprovedFile]>,
}

/// Both directions of a line-based connection.
pub struct ProgramStreams {
    /// Messages from the server.
    pub input: Box<dyn AsyncRead + Send + Sync + Unpin>,
    /// Messages to the server.
    pub output: Box<dyn AsyncWrite + Send + Sync + Unpin>,
    /// Error output of the server.
    pub errors: Option<Box<dyn AsyncRead + Send + Sync + Unpin>>,
    /// The program that serves the connection. Dropping it ends all of its processes.
    pub program: Option<Box<dyn RunningProgram>>,
}

#[async_trait]
pub trait RunningProgram: Send + Sync {
    /// Ends the program and its child processes, if it has not ended yet. Waits briefly for it to
    /// exit, then requests termination, and finally kills it. Returns a description of the end.
    async fn end(&mut self) -> String;
}

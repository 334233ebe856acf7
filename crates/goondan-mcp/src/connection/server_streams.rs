//! Streams to MCP servers: the standard streams of a program, or a Unix socket.

use std::sync::Arc;

use goondan_core::ports::tool::{ApprovedFile, HandlerError};
use goondan_core::started_files::StartedFiles;
use goondan_spec::Code;

use crate::call_scope::CallScope;
use crate::codes::error;
use crate::definition::{McpServerDefinition, ServerTransport};
use crate::spawn_port::{McpServerProgram, ProgramStreams, ServerSpawner};

/// Returns the current content of the program's files.
pub(crate) async fn contents_now(definition: &McpServerDefinition) -> StartedFiles {
    let definition = definition.clone();
    let reading = tokio::task::spawn_blocking(move || definition.program_contents());
    reading.await.unwrap_or_default()
}

/// Opens the stream of a program or a socket; `None` for a server that is reached by URL.
pub(super) async fn stream(
    definition: &McpServerDefinition,
    spawner: &dyn ServerSpawner,
    scope: &CallScope,
    approved_files: &Arc<[ApprovedFile]>,
) -> Result<Option<ProgramStreams>, HandlerError> {
    match &definition.way {
        ServerTransport::Program {
            command,
            args,
            env,
            folder,
        } => {
            let program = McpServerProgram {
                command: command.clone(),
                args: args.clone(),
                env: env.clone(),
                folder: folder.clone(),
                project: definition.project.clone(),
                config: definition.config.clone(),
                sandboxes: scope.sandboxes.clone(),
                workdir: match scope.sandboxes.is_empty() {
                    true => folder.clone(),
                    false => scope.workdir.clone(),
                },
                approved_files: Arc::clone(approved_files),
            };
            let failed = |cause: HandlerError| HandlerError {
                message: format!(
                    "the MCP server of Tool/{} cannot be started: {}",
                    definition.name(),
                    cause.message
                ),
                code: Some(
                    cause
                        .code
                        .filter(|code| *code == Code::TOOL_SANDBOX || *code == Code::TOOL_DENIED)
                        .unwrap_or_else(|| Code::MCP_START.to_string()),
                ),
                suggestion: cause
                    .suggestion
                    .or_else(|| Some(install_suggestion(command))),
                ..cause
            };
            spawner.start(&program).await.map(Some).map_err(failed)
        }
        ServerTransport::Socket(path) => connect_socket(definition, path).await.map(Some),
        ServerTransport::Http { .. } => Ok(None),
    }
}

/// Suggestion for a command that does not exist.
fn install_suggestion(command: &str) -> String {
    format!("The swarm operator can install `{command}` or correct `command` in `spec.mcp`.")
}

/// Connects to the Unix socket of a server.
#[cfg(unix)]
async fn connect_socket(
    definition: &McpServerDefinition,
    path: &std::path::Path,
) -> Result<ProgramStreams, HandlerError> {
    let connecting = tokio::time::timeout(
        definition.connect_timeout,
        tokio::net::UnixStream::connect(path),
    );
    let connected = connecting
        .await
        .unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()));
    let stream = connected.map_err(|cause| {
        error(
            Code::MCP_CONNECT,
            definition.name(),
            format_args!("cannot be reached on {}: {cause}", path.display()),
        )
        .suggest("Start the server that listens on this socket.")
    })?;
    let (input, output) = stream.into_split();
    Ok(ProgramStreams {
        input: Box::new(input),
        output: Box::new(output),
        errors: None,
        program: None,
    })
}

#[cfg(not(unix))]
async fn connect_socket(
    definition: &McpServerDefinition,
    _path: &std::path::Path,
) -> Result<ProgramStreams, HandlerError> {
    Err(error(
        Code::MCP_CONNECT,
        definition.name(),
        "uses a Unix socket, which this system does not support",
    ))
}

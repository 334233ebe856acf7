//! Start of MCP servers with the same sandbox as other tool programs, and access to a project's
//! servers without a swarm.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use goondan_core::ports::tool::HandlerError;
use goondan_core::redact::SecretRedactor;
use goondan_mcp::{McpServerProgram, McpTools, ProgramStreams, RunningProgram, ServerSpawner};
use goondan_spec::{Bundle, Diagnostic};
use goondan_tools::{HelperCommand, ServerCommand, ServerProgram, ServerPrograms};

use crate::start::environment::project_variables;
use crate::start::package_copies::copy_packages;
use crate::workspace::StateRoot;

/// Starts server programs with the sandbox that their Tools and callers require.
pub(crate) struct ServerDialer(pub(crate) ServerPrograms);

#[async_trait]
impl ServerSpawner for ServerDialer {
    async fn start(&self, program: &McpServerProgram) -> Result<ProgramStreams, HandlerError> {
        let command = ServerCommand {
            program: &program.command,
            args: &program.args,
            env: &program.env,
            folder: &program.folder,
            config: &program.config,
            sandboxes: &program.sandboxes,
            project: &program.project,
            workdir: &program.workdir,
            runtime: None,
            approved_files: &program.approved_files,
        };
        let mut started = self.0.start(&command).await?;
        // The output of the server is our input, and the reverse.
        let (Some(input), Some(output)) = (started.stdout.take(), started.stdin.take()) else {
            return Err(HandlerError::new(
                "the standard input and output of the server program could not be opened",
            ));
        };
        Ok(ProgramStreams {
            input: Box::new(input),
            output: Box::new(output),
            errors: started.stderr.take().map(|errors| Box::new(errors) as _),
            program: Some(Box::new(SandboxedServer(started))),
        })
    }
}

/// Running server program.
struct SandboxedServer(ServerProgram);

#[async_trait]
impl RunningProgram for SandboxedServer {
    async fn end(&mut self) -> String {
        self.0.end().await
    }
}

/// Returns the MCP servers of a project with its variables. An untrusted project gets only those of
/// this process, because its environment files are not read. Connections are opened on demand. The
/// secrets of the project are added to `redactor`.
///
/// # Errors
/// Fails if an environment file or a source of secrets is unusable.
pub async fn mcp_servers(
    bundle: &Bundle,
    state_root: &StateRoot,
    env_file: Option<&Path>,
    is_trusted: bool,
    helper: Option<HelperCommand>,
    redactor: SecretRedactor,
) -> Result<McpTools, Diagnostic> {
    let environment = project_variables(bundle, env_file, is_trusted).await?;
    state_root.protect();
    if is_trusted {
        copy_packages(bundle, state_root).await?;
    }
    let dialer = Arc::new(ServerDialer(ServerPrograms::new(helper)));
    let servers = McpTools::new(&state_root.0, dialer, environment).redactor(redactor);
    servers.mask_secrets_of(bundle);
    Ok(servers)
}

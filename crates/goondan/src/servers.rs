//! How the programs of MCP servers are started: as those of other tools are. And the servers of a project for whoever looks at
//! them outside of a swarm.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use goondan_core::ports::tool::ToolError;
use goondan_mcp::{Dialer, McpTools, Program, Running, Stream};
use goondan_spec::{Bundle, Diagnostic, Environment};
use goondan_tools::{HelperCommand, ServerCommand, ServerProgram, ServerPrograms};

use crate::workspace::StateRoot;
use crate::{environment, secrets};

/// Starts programs, contained as their Tools and their callers want.
pub(crate) struct ServerDialer(pub(crate) ServerPrograms);

#[async_trait]
impl Dialer for ServerDialer {
    async fn start(&self, program: &Program) -> Result<Stream, ToolError> {
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
        };
        let mut started = self.0.start(&command).await?;
        let (Some(input), Some(output)) = (started.stdout.take(), started.stdin.take()) else {
            return Err(ToolError::new(
                "its standard input and output could not be opened",
            ));
        };
        Ok(Stream {
            input: Box::new(input),
            output: Box::new(output),
            errors: started.stderr.take().map(|errors| Box::new(errors) as _),
            program: Some(Box::new(Server(started))),
        })
    }
}

struct Server(ServerProgram);

#[async_trait]
impl Running for Server {
    async fn end(&mut self) -> String {
        self.0.end().await
    }
}

/// The MCP servers of a project, with the variables that it sees; of one that is not trusted those of this process, for its
/// environment files are not read. Nobody is reached before somebody asks for it.
///
/// # Errors
/// An environment file or a place of secrets can't be used.
pub async fn mcp_servers(
    bundle: &Bundle,
    state_root: &StateRoot,
    env_file: Option<&Path>,
    is_trusted: bool,
    helper: Option<HelperCommand>,
) -> Result<McpTools, Diagnostic> {
    let mut environment = match is_trusted {
        true => environment(bundle.root(), env_file)?,
        false => Environment::of_process(),
    };
    if let (true, Ok(swarm)) = (is_trusted, bundle.choose_swarm(None)) {
        environment = secrets::complete(bundle, &swarm.id, environment).await?;
    }
    let dialer = Arc::new(ServerDialer(ServerPrograms::new(helper)));
    Ok(McpTools::new(&state_root.0, dialer, environment))
}

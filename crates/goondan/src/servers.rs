//! How the programs of MCP servers are started: as those of other tools are.

use async_trait::async_trait;
use goondan_mcp::{Dialer, Program, Running, Stream};
use goondan_runtime::ports::tool::ToolError;
use goondan_tools::{ServerCommand, ServerProgram, ServerPrograms};

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
        };
        let mut started = self.0.start(&command).await?;
        let (Some(input), Some(output)) = (started.stdout.take(), started.stdin.take()) else {
            return Err(ToolError::new("its standard input and output could not be opened"));
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

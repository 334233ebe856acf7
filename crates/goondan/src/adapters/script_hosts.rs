//! Start of runtime processes for handler files, with the same sandbox as other tool programs.

use async_trait::async_trait;
use goondan_core::ports::tool::HandlerError;
use goondan_hosts::{HostProgram, HostPrograms, RunningHost, RuntimeStreams};
use goondan_tools::{RuntimeFiles, ServerCommand, ServerProgram, ServerPrograms};

/// Starts runtime processes with the sandbox that their Tools and callers require.
pub(crate) struct HostStarter(pub(crate) ServerPrograms);

#[async_trait]
impl HostPrograms for HostStarter {
    async fn start(&self, program: &HostProgram) -> Result<RuntimeStreams, HandlerError> {
        let command = ServerCommand {
            program: &program.program.to_string_lossy(),
            args: &program.args,
            env: &Default::default(),
            folder: &program.folder,
            config: &program.config,
            sandboxes: &program.sandboxes,
            project: &program.project,
            workdir: &program.workdir,
            runtime: Some(RuntimeFiles {
                reads: &program.reads,
                starts: &program.starts,
            }),
            approved_files: &program.approved_files,
        };
        let mut started = self.0.start(&command).await?;
        // The output of the process is our input, and the reverse.
        let (input, output, printed) = (
            started.stdout.take(),
            started.stdin.take(),
            started.stderr.take(),
        );
        let (Some(input), Some(output), Some(printed)) = (input, output, printed) else {
            return Err(HandlerError::new(
                "the standard streams of the runtime process could not be opened",
            ));
        };
        let (input, output, printed) = (Box::new(input), Box::new(output), Box::new(printed));
        Ok(RuntimeStreams {
            input,
            output,
            printed,
            program: Box::new(SandboxedHost(started)),
        })
    }
}

/// Running runtime process.
struct SandboxedHost(ServerProgram);

#[async_trait]
impl RunningHost for SandboxedHost {
    async fn wait(&mut self) -> String {
        self.0.wait().await
    }

    async fn kill(&mut self) -> String {
        self.0.kill().await
    }
}

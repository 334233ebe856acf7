//! Runs command lines of a small grammar without a shell. Only the programs that policies have
//! checked are started.

mod running_command;
mod standard_streams;
mod word_expansion;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::ExitStatus;
use std::sync::Arc;

use futures::future::join_all;
use goondan_core::ports::tool::{CommandContainment, DirectExecution, ToolContext};
use goondan_core::shell;
use goondan_spec::command_line::{
    CD_COMMAND, CommandGroup, CommandScript, PipelineStage, ScriptStep, ShellCommand, StepCondition,
};

use crate::process::{self, Environment, ProgramGroup as Processes, exit_status_of_code};
use crate::sandbox::program_files::{self, FoundProgram};
use crate::sandbox::{ProgramLauncher, SandboxApplyError};
use running_command::RunningGroups;
pub(crate) use running_command::{PreparedCommand, RunningCommand};
use standard_streams::{StandardStreams, StreamTarget};

/// Exit code of a shell for a missing program.
const NOT_FOUND_EXIT_CODE: u8 = 127;
/// Exit code of a shell for a program that cannot be started.
const NOT_STARTED_EXIT_CODE: u8 = 126;
/// Exit code of a shell for a failed redirection or directory change.
const FAILURE_EXIT_CODE: u8 = 2;

type CommandFuture<'a, T> = Pin<Box<dyn std::future::Future<Output = T> + Send + 'a>>;

/// A command line, with everything required to run it.
pub(crate) struct CommandLineRunner {
    script: CommandScript,
    /// The names of the programs that each command starts.
    programs: Vec<Vec<String>>,
    /// The sandboxes of each command.
    contained: Vec<Vec<CommandContainment>>,
    /// The sandboxes for opening each file.
    files: BTreeMap<String, Vec<CommandContainment>>,
    launcher: ProgramLauncher,
    ctx: ToolContext,
    folder: PathBuf,
    environment: Environment,
    /// True if redirections must stay in the working directory.
    stays: bool,
}

/// The state of a command, which `cd` changes.
#[derive(Clone)]
struct CommandState {
    folder: PathBuf,
    streams: StandardStreams,
}

impl CommandLineRunner {
    /// Creates a line that runs `script` in `folder`, with the sandboxes that policies require.
    pub(crate) fn new(
        script: CommandScript,
        direct: &DirectExecution,
        launcher: &ProgramLauncher,
        ctx: &ToolContext,
        folder: PathBuf,
        environment: Environment,
    ) -> io::Result<CommandLineRunner> {
        // On Unix, the path has no links. Resolving it again would follow a link that another program
        // has put in its place.
        let workdir = if cfg!(unix) {
            ctx.workdir.clone()
        } else {
            ctx.workdir.canonicalize().unwrap_or(ctx.workdir.clone())
        };
        // The directory may have been replaced by a link after the check.
        if !direct.is_outside && !folder.starts_with(&workdir) {
            return Err(io::Error::other("the directory to run in was moved"));
        }
        Ok(CommandLineRunner {
            programs: shell::programs(&script),
            stays: script.stays_below_start() && !direct.is_outside,
            script,
            contained: direct.commands.clone(),
            files: direct.files.clone(),
            launcher: launcher.clone(),
            ctx: ToolContext {
                workdir,
                ..ctx.clone()
            },
            folder,
            environment,
        })
    }

    async fn run(
        self: Arc<Self>,
        streams: StandardStreams,
        running: Arc<RunningGroups>,
    ) -> io::Result<ExitStatus> {
        let mut scope = CommandState {
            folder: self.folder.clone(),
            streams,
        };
        let shell = CommandLineRun {
            line: &self,
            running: &running,
        };
        shell.run_script(&self.script, &mut scope).await
    }
}

#[derive(Clone, Copy)]
struct CommandLineRun<'a> {
    line: &'a CommandLineRunner,
    running: &'a RunningGroups,
}

impl<'a> CommandLineRun<'a> {
    /// Runs the steps of `script` in order. Returns the exit status of the last step that ran.
    fn run_script<'s>(
        self,
        script: &'s CommandScript,
        scope: &'s mut CommandState,
    ) -> CommandFuture<'s, io::Result<ExitStatus>>
    where
        'a: 's,
    {
        Box::pin(async move {
            let mut last = exit_status_of_code(0);
            for step in &script.steps {
                let runs = match step.when {
                    StepCondition::Always => true,
                    StepCondition::IfOk => last.success(),
                    StepCondition::IfFailed => !last.success(),
                };
                if runs && !self.running.is_stopping() {
                    last = self.step(step, scope).await?;
                }
            }
            Ok(last)
        })
    }

    /// Runs the stages of a step concurrently, connected by pipes. Returns the exit status of the
    /// last stage.
    async fn step(self, step: &ScriptStep, scope: &mut CommandState) -> io::Result<ExitStatus> {
        if let [only] = step.stages.as_slice() {
            return self.run_stage(only, scope).await;
        }
        let mut stages = Vec::new();
        let mut input = None;
        for (index, stage) in step.stages.iter().enumerate() {
            let mut stage_scope = scope.clone();
            if let Some(input) = input.take() {
                stage_scope.streams.set(0, input);
            }
            if index + 1 < step.stages.len() {
                let (reader, writer) = io::pipe()?;
                input = Some(StreamTarget::Reader(Arc::new(reader)));
                stage_scope
                    .streams
                    .set(1, StreamTarget::Writer(Arc::new(writer)));
            }
            // Dropping its pipe ends at its end notifies the neighboring commands.
            stages.push(async move { self.run_stage(stage, &mut stage_scope).await });
        }
        let stage_results = join_all(stages).await;
        stage_results
            .into_iter()
            .next_back()
            .unwrap_or_else(|| Ok(exit_status_of_code(0)))
    }

    /// Runs `cd`, a command, or a group.
    async fn run_stage(
        self,
        stage: &PipelineStage,
        scope: &mut CommandState,
    ) -> io::Result<ExitStatus> {
        match stage {
            PipelineStage::Command(command) if command.name() == CD_COMMAND => {
                self.change_folder(command, scope).await
            }
            PipelineStage::Command(command) => self.run_command(command, scope).await,
            PipelineStage::Group(group) => self.run_group(group, scope).await,
        }
    }

    /// Runs a group. Changes of the directory and the streams apply only inside the group.
    async fn run_group(self, group: &CommandGroup, scope: &CommandState) -> io::Result<ExitStatus> {
        let mut group_scope = scope.clone();
        if let Err(reason) = group_scope
            .streams
            .apply_redirects(self.line, &scope.folder, &group.redirects)
            .await?
        {
            return group_scope
                .streams
                .report_error(reason, FAILURE_EXIT_CODE)
                .await;
        }
        self.run_script(&group.script, &mut group_scope).await
    }

    /// Runs `cd`: changes the directory of `scope`.
    async fn change_folder(
        self,
        command: &ShellCommand,
        scope: &mut CommandState,
    ) -> io::Result<ExitStatus> {
        let target = command.cd_target().unwrap_or_default();
        let folder = remove_dots(&scope.folder.join(&target));
        if !folder.is_dir() {
            return scope
                .streams
                .report_error(
                    format!("cd: no such directory: {target}"),
                    FAILURE_EXIT_CODE,
                )
                .await;
        }
        scope.folder = folder;
        Ok(exit_status_of_code(0))
    }

    /// Expands the words of a command, redirects its streams, and runs the program.
    async fn run_command(
        self,
        command: &ShellCommand,
        scope: &CommandState,
    ) -> io::Result<ExitStatus> {
        let mut words = Vec::new();
        for word in &command.words {
            words.extend(self.expand(word, scope).await?);
        }
        let mut streams = scope.streams.clone();
        if let Err(reason) = streams
            .apply_redirects(self.line, &scope.folder, &command.redirects)
            .await?
        {
            return streams.report_error(reason, FAILURE_EXIT_CODE).await;
        }
        let name = command.name();
        let program = match self.line.find(&name, &scope.folder) {
            Ok(program) => program,
            Err((reason, code)) => return streams.report_error(reason, code).await,
        };
        let mut started = process::command(
            &program.path,
            &scope.folder,
            self.line.command_environment(command, &scope.folder),
        );
        #[cfg(unix)]
        started.arg0(&name);
        started.args(words.iter().skip(1));
        let inner = self
            .line
            .programs
            .get(command.number)
            .into_iter()
            .flatten()
            .filter(|inner| **inner != name);
        let inner: Vec<&String> = inner.collect();
        if let Some(other) = inner
            .iter()
            .find(|inner| self.line.is_elsewhere(inner, &scope.folder))
        {
            return streams
                .report_error(wrong_directory_message(other), NOT_STARTED_EXIT_CODE)
                .await;
        }
        let other_programs: Vec<FoundProgram> = inner
            .into_iter()
            .filter_map(|inner| self.line.find(inner, &scope.folder).ok())
            .collect();
        let contained = self
            .line
            .contained
            .get(command.number)
            .map_or(&[][..], Vec::as_slice);
        let (launcher, ctx) = (&self.line.launcher, &self.line.ctx);
        let mut contained = launcher
            .confine_command(started, ctx, &program, &other_programs, contained)
            .map_err(io::Error::other)?;
        streams.assign_to(&mut contained)?;
        let group = Processes::spawn_patiently(contained).await;
        match group {
            Ok(group) => {
                drop(streams);
                self.running.wait_for(group).await
            }
            Err(error)
                if error
                    .get_ref()
                    .is_some_and(|inner| inner.is::<SandboxApplyError>()) =>
            {
                Err(error)
            }
            Err(error) => {
                streams
                    .report_error(format!("{name}: {error}"), NOT_STARTED_EXIT_CODE)
                    .await
            }
        }
    }
}

impl CommandLineRunner {
    /// Returns the environment of a command: the variables of the command line, and the assignments
    /// of the command itself.
    fn command_environment(&self, command: &ShellCommand, folder: &Path) -> Environment {
        let mut environment = self.environment.clone();
        environment.insert("PATH".into(), self.path());
        environment.insert("PWD".into(), folder.into());
        environment.extend(
            command
                .assignments
                .iter()
                .map(|(name, value)| (name.into(), value.into())),
        );
        environment
    }

    /// Returns the `PATH` for programs, without directories that an agent can write to.
    fn path(&self) -> OsString {
        let path = self
            .environment
            .get(OsStr::new("PATH"))
            .cloned()
            .unwrap_or_default();
        let folders: Vec<PathBuf> =
            program_files::search_directories(&path, &[&self.ctx.workdir]).collect();
        std::env::join_paths(folders).unwrap_or_default()
    }

    /// Returns the directories for file patterns: the working directory, and the directory that the
    /// line may run in.
    fn glob_roots(&self) -> Vec<PathBuf> {
        vec![self.ctx.workdir.clone(), self.folder.clone()]
    }

    /// Returns true if `./x` differs from the checked file, which is relative to the working
    /// directory.
    fn is_elsewhere(&self, name: &str, folder: &Path) -> bool {
        name.contains('/')
            && !name.starts_with('/')
            && remove_dots(folder) != remove_dots(&self.ctx.workdir)
    }

    /// Finds the program of a name, or returns the message and exit code of a shell.
    fn find(&self, name: &str, folder: &Path) -> Result<FoundProgram, (String, u8)> {
        if !name.contains('/') {
            let program = program_files::on_path(name, &self.path(), &[&self.ctx.workdir])
                .map(FoundProgram::from_path);
            return program.ok_or_else(|| (format!("{name}: not found"), NOT_FOUND_EXIT_CODE));
        }
        if self.is_elsewhere(name, folder) {
            return Err((wrong_directory_message(name), NOT_STARTED_EXIT_CODE));
        }
        let path = folder.join(name);
        if !path.exists() {
            return Err((format!("{name}: not found"), NOT_FOUND_EXIT_CODE));
        }
        if !program_files::is_program(&path) {
            return Err((format!("{name}: not a program"), NOT_STARTED_EXIT_CODE));
        }
        Ok(FoundProgram::from_path(path))
    }
}

/// Returns the message about a program whose path was permitted only in the working directory.
fn wrong_directory_message(name: &str) -> String {
    format!("{name}: not started, because the permission was for a file in the working directory")
}

/// Removes `.` and `..` from an absolute path textually, like a shell.
fn remove_dots(path: &Path) -> PathBuf {
    path.to_str()
        .map_or_else(|| path.to_owned(), |text| PathBuf::from(shell::fold(text)))
}

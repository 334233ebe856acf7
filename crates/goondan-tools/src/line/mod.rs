//! Runs command lines of a small grammar without a shell. Only the programs that policies have
//! checked are started.

mod expand;
mod job;
mod streams;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::ExitStatus;
use std::sync::Arc;

use futures::future::join_all;
use goondan_core::ports::tool::{Containment, Direct, ToolContext};
use goondan_core::shell;
use goondan_spec::command_line::{CD, Command, Group, Script, Stage, Step, When};

use crate::confine::programs::{self, Found};
use crate::confine::{Launcher, NoSandbox};
use crate::process::{self, Environment, Group as Processes, failed_with};
use job::Running;
pub(crate) use job::{Started, Work};
use streams::{Stream, Streams};

/// Exit code of a shell for a missing program.
const NOT_FOUND: u8 = 127;
/// Exit code of a shell for a program that cannot be started.
const NOT_STARTED: u8 = 126;
/// Exit code of a shell for a failed redirection or directory change.
const FAILED: u8 = 2;

type Future<'a, T> = Pin<Box<dyn std::future::Future<Output = T> + Send + 'a>>;

/// A command line, with everything required to run it.
pub(crate) struct Line {
    script: Script,
    /// The names of the programs that each command starts.
    programs: Vec<Vec<String>>,
    /// The sandboxes of each command.
    contained: Vec<Vec<Containment>>,
    /// The sandboxes for opening each file.
    files: BTreeMap<String, Vec<Containment>>,
    launcher: Launcher,
    ctx: ToolContext,
    folder: PathBuf,
    environment: Environment,
    /// True if redirections must stay in the working directory.
    stays: bool,
}

/// The state of a command, which `cd` changes.
#[derive(Clone)]
struct Scope {
    folder: PathBuf,
    streams: Streams,
}

impl Line {
    /// Creates a line that runs `script` in `folder`, with the sandboxes that policies require.
    pub(crate) fn new(
        script: Script,
        direct: &Direct,
        launcher: &Launcher,
        ctx: &ToolContext,
        folder: PathBuf,
        environment: Environment,
    ) -> io::Result<Line> {
        let workdir = ctx
            .workdir
            .canonicalize()
            .unwrap_or_else(|_| ctx.workdir.clone());
        // The directory may have been replaced by a link after the check.
        if !direct.is_outside && !folder.starts_with(&workdir) {
            return Err(io::Error::other(
                "the folder to run in has been moved meanwhile",
            ));
        }
        Ok(Line {
            programs: shell::programs(&script),
            stays: script.stays() && !direct.is_outside,
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
        streams: Streams,
        running: Arc<Running>,
    ) -> io::Result<ExitStatus> {
        let mut scope = Scope {
            folder: self.folder.clone(),
            streams,
        };
        let shell = Shell {
            line: &self,
            running: &running,
        };
        shell.script(&self.script, &mut scope).await
    }
}

#[derive(Clone, Copy)]
struct Shell<'a> {
    line: &'a Line,
    running: &'a Running,
}

impl<'a> Shell<'a> {
    fn script<'s>(
        self,
        script: &'s Script,
        scope: &'s mut Scope,
    ) -> Future<'s, io::Result<ExitStatus>>
    where
        'a: 's,
    {
        Box::pin(async move {
            let mut last = failed_with(0);
            for step in &script.steps {
                let runs = match step.when {
                    When::Always => true,
                    When::IfOk => last.success(),
                    When::IfFailed => !last.success(),
                };
                if runs && !self.running.is_stopping() {
                    last = self.step(step, scope).await?;
                }
            }
            Ok(last)
        })
    }

    async fn step(self, step: &Step, scope: &mut Scope) -> io::Result<ExitStatus> {
        if let [only] = step.stages.as_slice() {
            return self.stage(only, scope).await;
        }
        let mut stages = Vec::new();
        let mut input = None;
        for (index, stage) in step.stages.iter().enumerate() {
            let mut own = scope.clone();
            if let Some(input) = input.take() {
                own.streams.set(0, input);
            }
            if index + 1 < step.stages.len() {
                let (reader, writer) = io::pipe()?;
                input = Some(Stream::Reader(Arc::new(reader)));
                own.streams.set(1, Stream::Writer(Arc::new(writer)));
            }
            // Dropping its pipe ends at its end notifies the neighboring commands.
            stages.push(async move { self.stage(stage, &mut own).await });
        }
        let ends = join_all(stages).await;
        ends.into_iter()
            .next_back()
            .unwrap_or_else(|| Ok(failed_with(0)))
    }

    async fn stage(self, stage: &Stage, scope: &mut Scope) -> io::Result<ExitStatus> {
        match stage {
            Stage::Command(command) if command.name() == CD => {
                self.change_folder(command, scope).await
            }
            Stage::Command(command) => self.command(command, scope).await,
            Stage::Group(group) => self.group(group, scope).await,
        }
    }

    async fn group(self, group: &Group, scope: &Scope) -> io::Result<ExitStatus> {
        let mut own = scope.clone();
        if let Err(reason) = own
            .streams
            .redirect(self.line, &scope.folder, &group.redirects)?
        {
            return own.streams.complain(reason, FAILED).await;
        }
        self.script(&group.script, &mut own).await
    }

    async fn change_folder(self, command: &Command, scope: &mut Scope) -> io::Result<ExitStatus> {
        let given = command.folder().unwrap_or_default();
        let folder = by_text(&scope.folder.join(&given));
        if !folder.is_dir() {
            return scope
                .streams
                .complain(format!("cd: there is no folder {given}"), FAILED)
                .await;
        }
        scope.folder = folder;
        Ok(failed_with(0))
    }

    async fn command(self, command: &Command, scope: &Scope) -> io::Result<ExitStatus> {
        let mut words = Vec::new();
        for word in &command.words {
            words.extend(self.expand(word, scope).await?);
        }
        let mut streams = scope.streams.clone();
        if let Err(reason) = streams.redirect(self.line, &scope.folder, &command.redirects)? {
            return streams.complain(reason, FAILED).await;
        }
        let name = command.name();
        let found = match self.line.find(&name, &scope.folder) {
            Ok(found) => found,
            Err((reason, code)) => return streams.complain(reason, code).await,
        };
        let mut started = process::command(
            &found.path,
            &scope.folder,
            self.line.environment(command, &scope.folder),
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
            return streams.complain(elsewhere(other), NOT_STARTED).await;
        }
        let beside: Vec<Found> = inner
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
            .confine_command(started, ctx, &found, &beside, contained)
            .map_err(io::Error::other)?;
        streams.give_to(&mut contained.command)?;
        let group = Processes::spawn_patiently(contained).await;
        match group {
            Ok(group) => {
                drop(streams);
                self.running.wait_for(group).await
            }
            Err(error) if error.get_ref().is_some_and(|inner| inner.is::<NoSandbox>()) => {
                Err(error)
            }
            Err(error) => {
                streams
                    .complain(format!("{name}: {error}"), NOT_STARTED)
                    .await
            }
        }
    }
}

impl Line {
    /// Returns the environment of a command: that of the line, and its own assignments.
    fn environment(&self, command: &Command, folder: &Path) -> Environment {
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

    /// Returns the directories to search for programs, without those that an agent can write to.
    fn path(&self) -> OsString {
        let given = self
            .environment
            .get(OsStr::new("PATH"))
            .cloned()
            .unwrap_or_default();
        let folders: Vec<PathBuf> = programs::folders(&given, &[&self.ctx.workdir]).collect();
        std::env::join_paths(folders).unwrap_or_default()
    }

    /// Returns the directories for file patterns: the working directory, and the directory that the
    /// line may run in.
    fn roots(&self) -> Vec<PathBuf> {
        vec![self.ctx.workdir.clone(), self.folder.clone()]
    }

    /// Returns true if `./x` differs from the checked file, which is relative to the working
    /// directory.
    fn is_elsewhere(&self, name: &str, folder: &Path) -> bool {
        name.contains('/')
            && !name.starts_with('/')
            && by_text(folder) != by_text(&self.ctx.workdir)
    }

    /// Finds the program of a name, or returns the message and exit code of a shell.
    fn find(&self, name: &str, folder: &Path) -> Result<Found, (String, u8)> {
        if !name.contains('/') {
            let found = programs::on_path(name, &self.path(), &[&self.ctx.workdir]).map(Found::at);
            return found.ok_or_else(|| (format!("{name}: not found"), NOT_FOUND));
        }
        if self.is_elsewhere(name, folder) {
            return Err((elsewhere(name), NOT_STARTED));
        }
        let path = folder.join(name);
        if !path.exists() {
            return Err((format!("{name}: not found"), NOT_FOUND));
        }
        if !programs::is_program(&path) {
            return Err((format!("{name}: it is not a program"), NOT_STARTED));
        }
        Ok(Found::at(path))
    }
}

fn elsewhere(name: &str) -> String {
    format!("{name}: not started, since it was judged as a file of the working folder")
}

/// Removes `.` and `..` from an absolute path textually, like a shell.
fn by_text(path: &Path) -> PathBuf {
    path.to_str()
        .map_or_else(|| path.to_owned(), |text| PathBuf::from(shell::fold(text)))
}

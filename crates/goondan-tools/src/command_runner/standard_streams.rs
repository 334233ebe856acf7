//! Standard streams of commands that run without a shell: files, pipes and writers.

use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;

use goondan_core::ports::tool::HandlerError;
use goondan_core::shell;
use goondan_spec::Code;
use goondan_spec::command_line::{RedirectTarget, StreamRedirect, is_path_inside};

use super::CommandLineRunner;
use crate::paths::FileRoot;
use crate::process::exit_status_of_code;
use crate::running_programs::{RegisteredProgram, WriteAccess};
use crate::sandbox::{self, SandboxedCommand, sandboxed_start};
use goondan_core::nofollow_fs::{FileOpenMode, open_without_links};
use goondan_spec::reason;
use goondan_spec::secret_files::{has_secret_name, is_declared};

/// The target of a stream.
#[derive(Clone)]
pub(super) enum StreamTarget {
    Null,
    Reader(Arc<PipeReader>),
    Writer(Arc<PipeWriter>),
    File(Arc<RedirectedFile>),
}

/// The file of a redirection.
pub(super) struct RedirectedFile {
    file: File,
    /// The exclusion of approved calls, if the file is open for writing.
    written: Option<FileWrite>,
}

/// A registered write of a file, which lasts as long as the file is open.
struct FileWrite {
    access: WriteAccess,
    _registered: RegisteredProgram,
}

impl FileWrite {
    /// Registers the write before the file is opened. Opening it may already truncate an approved
    /// script, so this waits until no call with approved files is starting there.
    async fn begin(access: WriteAccess) -> io::Result<FileWrite> {
        Ok(FileWrite {
            _registered: RegisteredProgram::begin(access.clone(), &Arc::default()).await?,
            access,
        })
    }
}

impl StreamTarget {
    /// Returns the stream for a child process.
    fn to_stdio(&self) -> io::Result<Stdio> {
        Ok(match self {
            StreamTarget::Null => Stdio::null(),
            StreamTarget::Reader(end) => end.try_clone()?.into(),
            StreamTarget::Writer(end) => end.try_clone()?.into(),
            StreamTarget::File(opened) => opened.file.try_clone()?.into(),
        })
    }

    /// Writes `text`, if the target accepts output. Errors are ignored.
    fn write(&self, text: &str) {
        // A closed reader is not an error of the command.
        let _ = match self {
            StreamTarget::Writer(end) => (&**end).write_all(text.as_bytes()),
            StreamTarget::File(opened) => (&opened.file).write_all(text.as_bytes()),
            StreamTarget::Null | StreamTarget::Reader(_) => Ok(()),
        };
    }
}

/// Standard input, output and error.
#[derive(Clone)]
pub(super) struct StandardStreams([StreamTarget; 3]);

impl StandardStreams {
    pub(super) fn new(
        input: StreamTarget,
        output: StreamTarget,
        errors: StreamTarget,
    ) -> StandardStreams {
        StandardStreams([input, output, errors])
    }

    /// Replaces stream `number`: 0 for input, 1 for output, 2 for errors. Ignores other numbers.
    pub(super) fn set(&mut self, number: usize, stream: StreamTarget) {
        if let Some(current) = self.0.get_mut(number) {
            *current = stream;
        }
    }

    /// Assigns the streams to a command. The command may write to their files, even if its sandbox does
    /// not permit to open them.
    pub(super) fn assign_to(&self, program: &mut SandboxedCommand) -> io::Result<()> {
        let [input, output, errors] = &self.0;
        program
            .command
            .stdin(input.to_stdio()?)
            .stdout(output.to_stdio()?)
            .stderr(errors.to_stdio()?);
        for stream in &self.0 {
            if let StreamTarget::File(opened) = stream
                && let Some(written) = &opened.written
            {
                program.write_access.extend(&written.access);
            }
        }
        Ok(())
    }

    /// Opens the files of `redirects` in order. The inner error is the reason why a file cannot be
    /// opened; earlier redirections stay in effect. The outer error means that the sandbox cannot start,
    /// or that a call with approved files is starting. Then no file is opened.
    pub(super) async fn apply_redirects(
        &mut self,
        line: &CommandLineRunner,
        folder: &Path,
        redirects: &[StreamRedirect],
    ) -> io::Result<Result<(), String>> {
        for StreamRedirect { stream, target } in redirects {
            let (path, what) = match target {
                RedirectTarget::Stream(other) => {
                    self.set(
                        *stream,
                        self.0.get(*other).cloned().unwrap_or(StreamTarget::Null),
                    );
                    continue;
                }
                RedirectTarget::Null => {
                    self.set(*stream, StreamTarget::Null);
                    continue;
                }
                RedirectTarget::Read(path) => (path, RedirectionMode::Reading),
                RedirectTarget::Write {
                    path,
                    append: false,
                } => (path, RedirectionMode::Writing),
                RedirectTarget::Write { path, append: true } => (path, RedirectionMode::Appending),
            };
            let contained = shell::file(target).and_then(|file| line.files.get(&file));
            let layers = line
                .launcher
                .sandbox_layers(&line.ctx, contained.map_or(&[], Vec::as_slice))
                .map_err(io::Error::other)?;
            let written = match what {
                RedirectionMode::Reading => None,
                RedirectionMode::Writing | RedirectionMode::Appending => {
                    let access = sandbox::write_access(&layers).unwrap_or_else(|| {
                        WriteAccess::of_file(super::remove_dots(&folder.join(path)))
                    });
                    Some(FileWrite::begin(access).await?)
                }
            };
            match sandboxed_start::run_in_sandbox(&layers, || {
                Ok(open_redirect(line, folder, path, what, !layers.is_empty()))
            })? {
                Ok(file) => {
                    let opened = RedirectedFile { file, written };
                    self.set(*stream, StreamTarget::File(Arc::new(opened)));
                }
                Err(reason) => return Ok(Err(reason)),
            }
        }
        Ok(Ok(()))
    }

    /// Writes a line to standard error like a shell, and returns the exit status `code`.
    pub(super) async fn report_error(&self, reason: String, code: u8) -> io::Result<ExitStatus> {
        let errors = self.0[2].clone();
        // Writing to a full pipe blocks until it is read.
        let _ = tokio::task::spawn_blocking(move || errors.write(&format!("{reason}\n"))).await;
        Ok(exit_status_of_code(code))
    }
}

#[derive(Clone, Copy)]
enum RedirectionMode {
    Reading,
    Writing,
    Appending,
}

/// Opens the file of a redirection at its checked place: below the working directory, whatever
/// links exist, or exactly at a path outside that a rule permits. Returns the reason if this fails.
fn open_redirect(
    line: &CommandLineRunner,
    folder: &Path,
    path: &str,
    what: RedirectionMode,
    in_sandbox: bool,
) -> Result<File, String> {
    let absolute = folder.join(path);
    let failed = |error: &io::Error| match error.kind() {
        io::ErrorKind::PermissionDenied if in_sandbox => {
            format!("{path}: the sandbox of the command, the tool or an agent denies access")
        }
        _ => format!("{path}: {}", reason(error)),
    };
    if line.stays && is_path_inside(path) {
        open_in_workdir(line, &absolute, what).map_err(|error| error.to_string())
    } else {
        open_anywhere(&absolute, what).map_err(|error| failed(&error))
    }
}

/// Opens a file inside the working directory. Fails if `path` leads to a protected file and its
/// name does not show that.
fn open_in_workdir(
    line: &CommandLineRunner,
    path: &Path,
    mode: RedirectionMode,
) -> Result<File, HandlerError> {
    let root = FileRoot::from_context(&line.ctx)?;
    let resolved = root.resolve(&path.to_string_lossy())?;
    // A link or a directory may lead to a protected file, for which a direct redirection would need
    // an approval.
    let below = root.relative_path(&resolved.path);
    let leads_to_key_file = is_declared(&resolved.path) && !is_declared(path);
    let has_protected_target = match mode {
        RedirectionMode::Reading => has_secret_name(below),
        RedirectionMode::Writing | RedirectionMode::Appending => {
            shell::is_protected(&below.to_string_lossy())
        }
    };
    if leads_to_key_file || (has_protected_target && !has_protected_name(path)) {
        let message = format!(
            "`{}` is protected, but was not checked as a protected path",
            resolved.path.display()
        );
        return Err(HandlerError::new(message).code(Code::TOOL_DENIED));
    }
    match mode {
        RedirectionMode::Reading => root.open(&resolved).map(|(file, _)| file),
        RedirectionMode::Writing => root.open_to_write(&resolved),
        RedirectionMode::Appending => root.open_to_append(&resolved),
    }
}

/// Returns true if the last component of a path is a protected name, which users can see.
fn has_protected_name(path: &Path) -> bool {
    path.file_name()
        .is_some_and(|name| shell::is_protected(&name.to_string_lossy()))
}

/// Opens a regular file at exactly this path, without links.
fn open_anywhere(path: &Path, mode: RedirectionMode) -> io::Result<File> {
    let path = without_links(path)?;
    // Such files refer to objects of the opening process, such as its terminal.
    if ["/dev", "/proc", "/sys"]
        .iter()
        .any(|folder| path.starts_with(folder))
    {
        return Err(io::Error::other("not a regular file"));
    }
    let open_mode = match mode {
        RedirectionMode::Reading => FileOpenMode::Read,
        RedirectionMode::Writing => FileOpenMode::Write,
        RedirectionMode::Appending => FileOpenMode::Append,
    };
    let file = open_without_links(&path, open_mode)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    if matches!(mode, RedirectionMode::Writing) {
        file.set_len(0)?;
    }
    Ok(file)
}

/// Returns a path whose directories contain no links, so that it does not lead elsewhere.
fn without_links(path: &Path) -> io::Result<PathBuf> {
    let path = super::remove_dots(path);
    let leads_away = || io::Error::other("a symbolic link leads elsewhere");
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(leads_away());
    };
    let is_link = path
        .symlink_metadata()
        .is_ok_and(|metadata| metadata.is_symlink());
    if is_link || folder.canonicalize()? != folder {
        Err(leads_away())
    } else {
        Ok(folder.join(name))
    }
}

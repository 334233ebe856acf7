//! Where the standard streams of commands lead.

use std::fs::{File, OpenOptions};
use std::io::{self, PipeReader, PipeWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;

use goondan_core::ports::tool::ToolError;
use goondan_core::shell;
use goondan_spec::Code;
use goondan_spec::command_line::{Redirect, Target, stays_inside};
use tokio::process::Command;

use super::Line;
use crate::paths::Root;
use crate::process::failed_with;

/// One end of something.
#[derive(Clone)]
pub(super) enum Stream {
    Null,
    Reader(Arc<PipeReader>),
    Writer(Arc<PipeWriter>),
    File(Arc<File>),
}

impl Stream {
    fn stdio(&self) -> io::Result<Stdio> {
        Ok(match self {
            Stream::Null => Stdio::null(),
            Stream::Reader(end) => end.try_clone()?.into(),
            Stream::Writer(end) => end.try_clone()?.into(),
            Stream::File(file) => file.try_clone()?.into(),
        })
    }

    fn write(&self, text: &str) {
        // Who does not read what a command has to say is not told.
        let _ = match self {
            Stream::Writer(end) => (&**end).write_all(text.as_bytes()),
            Stream::File(file) => (&**file).write_all(text.as_bytes()),
            Stream::Null | Stream::Reader(_) => Ok(()),
        };
    }
}

/// Standard input, output and error.
#[derive(Clone)]
pub(super) struct Streams([Stream; 3]);

impl Streams {
    pub(super) fn new(input: Stream, output: Stream, errors: Stream) -> Streams {
        Streams([input, output, errors])
    }

    pub(super) fn set(&mut self, number: usize, stream: Stream) {
        if let Some(place) = self.0.get_mut(number) {
            *place = stream;
        }
    }

    /// Lets a command have them.
    pub(super) fn give_to(&self, command: &mut Command) -> io::Result<()> {
        let [input, output, errors] = &self.0;
        command.stdin(input.stdio()?).stdout(output.stdio()?).stderr(errors.stdio()?);
        Ok(())
    }

    /// Opens what `redirects` name, in their order; else why not. What was opened until then is in place.
    pub(super) fn redirect(&mut self, line: &Line, folder: &Path, redirects: &[Redirect]) -> Result<(), String> {
        for redirect in redirects {
            let stream = match &redirect.target {
                Target::Stream(other) => self.0.get(*other).cloned().unwrap_or(Stream::Null),
                Target::Null => Stream::Null,
                Target::Read(path) => opened(line, folder, path, For::Reading)?,
                Target::Write { path, append: false } => opened(line, folder, path, For::Writing)?,
                Target::Write { path, append: true } => opened(line, folder, path, For::Appending)?,
            };
            self.set(redirect.stream, stream);
        }
        Ok(())
    }

    /// Writes a line to standard error, as a shell would, and gives back what the command comes to.
    pub(super) async fn complain(&self, reason: String, code: u8) -> io::Result<ExitStatus> {
        let errors = self.0[2].clone();
        // A pipe that is full waits for its reader.
        let _ = tokio::task::spawn_blocking(move || errors.write(&format!("{reason}\n"))).await;
        Ok(failed_with(code))
    }
}

/// What a file is opened for.
#[derive(Clone, Copy)]
enum For {
    Reading,
    Writing,
    Appending,
}

/// Opens a file where it was judged to lie: below the working folder, whatever links there are, or at the very place
/// outside that a rule allows.
fn opened(line: &Line, folder: &Path, path: &str, what: For) -> Result<Stream, String> {
    let place = folder.join(path);
    let file = match line.stays && stays_inside(path) {
        true => inside(line, &place, what).map_err(|error| error.to_string()),
        false => outside(&place, what).map_err(|error| format!("{path}: {error}")),
    };
    Ok(Stream::File(Arc::new(file?)))
}

fn inside(line: &Line, place: &Path, what: For) -> Result<File, ToolError> {
    let root = Root::of(&line.ctx)?;
    let given = place;
    let place = root.resolve(&place.to_string_lossy())?;
    // A link or a folder may lead to what a redirection by that name would have been asked about.
    let is_hidden = |path: &Path| shell::is_protected(&root.relative(path).to_string_lossy());
    if !matches!(what, For::Reading) && is_hidden(&place.path) && !is_named(given) {
        let message = format!("`{}` is a protected place, and was not judged as one", place.path.display());
        return Err(ToolError::new(message).code(Code::TOOL_DENIED));
    }
    match what {
        For::Reading => root.open(&place).map(|(file, _)| file),
        For::Writing => root.open_to_write(&place),
        For::Appending => root.open_to_append(&place),
    }
}

/// Whether a path names a protected place in its last part, where everybody sees it.
fn is_named(given: &Path) -> bool {
    given.file_name().is_some_and(|name| shell::is_protected(&name.to_string_lossy()))
}

fn outside(place: &Path, what: For) -> io::Result<File> {
    let place = without_links(place)?;
    // What such files lead to belongs to whoever opens them: a terminal, another process.
    if ["/dev", "/proc", "/sys"].iter().any(|folder| place.starts_with(folder)) {
        return Err(io::Error::other("it is not an ordinary file"));
    }
    let mut how = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut how, WITHOUT_WAITING);
    match what {
        For::Reading => how.read(true),
        For::Writing => how.write(true).create(true).truncate(false),
        For::Appending => how.append(true).create(true),
    };
    let file = how.open(place)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not an ordinary file"));
    }
    if matches!(what, For::Writing) {
        file.set_len(0)?;
    }
    Ok(file)
}

/// A pipe is not waited for, and a terminal does not become that of this program.
#[cfg(unix)]
const WITHOUT_WAITING: i32 = nix::fcntl::OFlag::O_NONBLOCK.union(nix::fcntl::OFlag::O_NOCTTY).bits();

/// A path whose folders are what their names say, so that no link leads away from it.
fn without_links(place: &Path) -> io::Result<PathBuf> {
    let place = super::by_text(place);
    let leads_away = || io::Error::other("a link leads away from it");
    let (Some(folder), Some(name)) = (place.parent(), place.file_name()) else { return Err(leads_away()) };
    let is_link = place.symlink_metadata().is_ok_and(|about| about.is_symlink());
    if is_link || folder.canonicalize()? != folder { Err(leads_away()) } else { Ok(folder.join(name)) }
}

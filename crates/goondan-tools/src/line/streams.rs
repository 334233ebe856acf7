//! Where the standard streams of commands lead.

use std::fs::File;
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
use crate::beneath::{How, open_without_links};
use crate::confine::start;
use crate::paths::Root;
use crate::process::failed_with;
use goondan_spec::reason;

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
        command
            .stdin(input.stdio()?)
            .stdout(output.stdio()?)
            .stderr(errors.stdio()?);
        Ok(())
    }

    /// Opens what `redirects` name, in their order; else why not. What was opened until then is in place. An error is that
    /// of the sandboxes, without which nothing is opened.
    pub(super) fn redirect(
        &mut self,
        line: &Line,
        folder: &Path,
        redirects: &[Redirect],
    ) -> io::Result<Result<(), String>> {
        for Redirect { stream, target } in redirects {
            let (path, what) = match target {
                Target::Stream(other) => {
                    self.set(*stream, self.0.get(*other).cloned().unwrap_or(Stream::Null));
                    continue;
                }
                Target::Null => {
                    self.set(*stream, Stream::Null);
                    continue;
                }
                Target::Read(path) => (path, For::Reading),
                Target::Write {
                    path,
                    append: false,
                } => (path, For::Writing),
                Target::Write { path, append: true } => (path, For::Appending),
            };
            let contained = shell::file(target).and_then(|file| line.files.get(&file));
            let layers = line
                .launcher
                .layers(&line.ctx, contained.map_or(&[], Vec::as_slice));
            match start::inside(&layers, || {
                Ok(opened(line, folder, path, what, !layers.is_empty()))
            })? {
                Ok(opened) => self.set(*stream, opened),
                Err(reason) => return Ok(Err(reason)),
            }
        }
        Ok(Ok(()))
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
fn opened(
    line: &Line,
    folder: &Path,
    path: &str,
    what: For,
    in_sandbox: bool,
) -> Result<Stream, String> {
    let place = folder.join(path);
    let failed = |error: &io::Error| match error.kind() {
        io::ErrorKind::PermissionDenied if in_sandbox => {
            format!(
                "{path}: the sandbox of the command, of the tool or of an agent does not let it be opened"
            )
        }
        _ => format!("{path}: {}", reason(error)),
    };
    let file = match line.stays && stays_inside(path) {
        true => inside(line, &place, what).map_err(|error| error.to_string()),
        false => outside(&place, what).map_err(|error| failed(&error)),
    };
    Ok(Stream::File(Arc::new(file?)))
}

fn inside(line: &Line, place: &Path, what: For) -> Result<File, ToolError> {
    let root = Root::of(&line.ctx)?;
    let given = place;
    let place = root.resolve(&place.to_string_lossy())?;
    // A link or a folder may lead to what a redirection by that name would have been asked about.
    let below = root.relative(&place.path).to_string_lossy();
    let is_hidden = match what {
        For::Reading => shell::is_secret(&below),
        For::Writing | For::Appending => shell::is_protected(&below),
    };
    if is_hidden && !is_named(given) {
        let message = format!(
            "`{}` is a protected place, and was not judged as one",
            place.path.display()
        );
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
    given
        .file_name()
        .is_some_and(|name| shell::is_protected(&name.to_string_lossy()))
}

fn outside(place: &Path, what: For) -> io::Result<File> {
    let place = without_links(place)?;
    // What such files lead to belongs to whoever opens them: a terminal, another process.
    if ["/dev", "/proc", "/sys"]
        .iter()
        .any(|folder| place.starts_with(folder))
    {
        return Err(io::Error::other("it is not an ordinary file"));
    }
    let how = match what {
        For::Reading => How::Read,
        For::Writing => How::Write,
        For::Appending => How::Append,
    };
    let file = open_without_links(&place, how)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not an ordinary file"));
    }
    if matches!(what, For::Writing) {
        file.set_len(0)?;
    }
    Ok(file)
}

/// A path whose folders are what their names say, so that no link leads away from it.
fn without_links(place: &Path) -> io::Result<PathBuf> {
    let place = super::by_text(place);
    let leads_away = || io::Error::other("a link leads away from it");
    let (Some(folder), Some(name)) = (place.parent(), place.file_name()) else {
        return Err(leads_away());
    };
    let is_link = place
        .symlink_metadata()
        .is_ok_and(|about| about.is_symlink());
    if is_link || folder.canonicalize()? != folder {
        Err(leads_away())
    } else {
        Ok(folder.join(name))
    }
}

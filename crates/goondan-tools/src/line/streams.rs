//! The standard streams of commands.

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

/// The target of a stream.
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
        // A closed reader is not an error of the command.
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

    /// Assigns the streams to a command.
    pub(super) fn give_to(&self, command: &mut Command) -> io::Result<()> {
        let [input, output, errors] = &self.0;
        command
            .stdin(input.stdio()?)
            .stdout(output.stdio()?)
            .stderr(errors.stdio()?);
        Ok(())
    }

    /// Opens the files of `redirects` in order. Returns the reason if one fails; earlier ones stay
    /// in effect. An outer error comes from the sandbox, and then nothing is opened.
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

    /// Writes a line to standard error like a shell, and returns the exit status `code`.
    pub(super) async fn complain(&self, reason: String, code: u8) -> io::Result<ExitStatus> {
        let errors = self.0[2].clone();
        // Writing to a full pipe blocks until it is read.
        let _ = tokio::task::spawn_blocking(move || errors.write(&format!("{reason}\n"))).await;
        Ok(failed_with(code))
    }
}

#[derive(Clone, Copy)]
enum For {
    Reading,
    Writing,
    Appending,
}

/// Opens a file at its checked place: below the working directory, whatever links exist, or exactly
/// at a path outside that a rule permits.
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
    // A link or a directory may lead to a protected file, for which a direct redirection would need
    // an approval.
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

/// Returns true if the last component of a path is a protected name, which users can see.
fn is_named(given: &Path) -> bool {
    given
        .file_name()
        .is_some_and(|name| shell::is_protected(&name.to_string_lossy()))
}

fn outside(place: &Path, what: For) -> io::Result<File> {
    let place = without_links(place)?;
    // Such files refer to objects of the opening process, such as its terminal.
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

/// Returns a path whose directories contain no links, so that it does not lead elsewhere.
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

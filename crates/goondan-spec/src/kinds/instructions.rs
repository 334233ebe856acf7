//! `Agent.spec.prompt.instructions`: files with instructions for agents, such as `AGENTS.md`.
//!
//! The files belong to directories, not to the project. They are collected from the working
//! directory up to the top of the repository. The crate `goondan` decides about trust in files
//! outside the project.

use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};

use super::{AgentWorkdir, ResourceScope};
use crate::decode::FieldReader;
use crate::diagnostic::{Code, Diagnostic};
use crate::diagnostic_sink::DiagnosticSink;
use crate::paths::FileReadError;
use crate::text::{excerpt, reason};

/// Limit on instructions in a prompt, in bytes. Files nearer to the working directory take
/// precedence.
pub const MAX_INSTRUCTION_BYTES: usize = 64 * 1024;
/// Limit on directories that are searched, from the working directory upward.
const MAX_SEARCHED_DIRECTORIES: usize = 64;

const INSTRUCTIONS_HEADING: &str = "The files below are instructions from the repository that \
    you work in. Each applies to its directory and everything below it. If two disagree, follow \
    the later file; user messages in the conversation take precedence over all files.";

/// Instruction files of an agent's working directory and its parents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentInstructions {
    /// Accepted file names. In each directory, the first existing file counts.
    pub names: Vec<String>,
    /// Files, from the top directory down to the working directory.
    pub files: Vec<InstructionFile>,
}

/// File with instructions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstructionFile {
    /// Path relative to the working directory, such as `../AGENTS.md`.
    pub name: String,
    /// Canonical directory of a file outside the project. `None` for files of the project.
    pub outside: Option<PathBuf>,
    /// Contents, cut to the available space.
    pub text: String,
    /// Number of bytes that were cut off.
    pub cut: usize,
}

impl AgentInstructions {
    /// Returns the section of the system prompt, or `None` if there are no files.
    pub fn prompt(&self) -> Option<String> {
        if self.files.is_empty() {
            return None;
        }
        Some(
            self.files
                .iter()
                .fold(INSTRUCTIONS_HEADING.to_owned(), |mut prompt, file| {
                    prompt.push_str("\n\n");
                    prompt.push_str(&file.block());
                    prompt
                }),
        )
    }
}

impl InstructionFile {
    /// Returns the contents in a tag with the file name.
    pub fn block(&self) -> String {
        // The contents must not be able to close the tag.
        let text = self.text.replace("</instructions", "<\\/instructions");
        let mut block = format!("<instructions file=\"{}\">\n{}", self.name, text.trim());
        if self.cut > 0 {
            // Writing to a string cannot fail.
            let _ = write!(
                block,
                "\n[{} more bytes of the file are not shown.]",
                self.cut
            );
        }
        block + "\n</instructions>"
    }

    /// Cuts the contents to at most `max_bytes` bytes.
    pub fn shorten(&mut self, max_bytes: usize) {
        let end = self
            .text
            .floor_char_boundary(max_bytes.min(self.text.len()));
        self.cut += self.text.len() - end;
        self.text.truncate(end);
    }
}

/// Reads the file names in `instructions` and finds the files. Nearer files come last.
pub(super) fn read(
    field: &FieldReader<'_>,
    workdir: &AgentWorkdir,
    scope: &ResourceScope<'_>,
    findings: &mut DiagnosticSink,
) -> Option<AgentInstructions> {
    field.filled_list("file name", findings)?;
    let items = field.unique_strings(findings)?;
    let names: Vec<String> = items
        .iter()
        .filter_map(|item| read_file_name(item, findings))
        .collect();
    if names.len() < items.len() {
        return None;
    }
    if *workdir == AgentWorkdir::Instance {
        let message = "The agent works in a separate directory per conversation, which contains \
            no instruction files.";
        findings.add(
            field
                .invalid_value(message)
                .suggest("write `workdir: project` or `workdir: repository`"),
        );
        return None;
    }
    let mut files = Vec::new();
    for folder in searched_directories(workdir, scope) {
        files.extend(find_instructions(field, &folder, &names, scope, findings));
    }
    files.reverse();
    cut_to_limit(field, &mut files, findings);
    Some(AgentInstructions { names, files })
}

/// Reads a file name without directories.
fn read_file_name(field: &FieldReader<'_>, findings: &mut DiagnosticSink) -> Option<String> {
    let name = field.node.text()?;
    if name.contains(['/', '\\', '\0', '"', '\n']) || name == "." || name == ".." {
        let message = format!("`{}` is not a file name.", excerpt(name, 80));
        findings.add(
            field.invalid_value(message).suggest(
                "write a name such as `AGENTS.md`; gdn looks for the name in each directory",
            ),
        );
        return None;
    }
    Some(name.to_owned())
}

/// Directory to search.
struct InstructionDirectory {
    /// Canonical path.
    folder: PathBuf,
    /// Number of levels above the working directory.
    up: usize,
}

/// Returns the directories from the working directory up to the top of the repository. Without a
/// repository, the project directory is the top.
fn searched_directories(
    workdir: &AgentWorkdir,
    scope: &ResourceScope<'_>,
) -> Vec<InstructionDirectory> {
    let root = scope.folder.canonical_root();
    let inner = match workdir {
        AgentWorkdir::Instance => return Vec::new(),
        AgentWorkdir::Project => root.to_owned(),
        AgentWorkdir::Path(path) => root.join(path),
        AgentWorkdir::Repository(folder) => folder.clone(),
    };
    let top = scope
        .folder
        .repository_root()
        .map_or(root, PathBuf::as_path)
        .to_owned();
    let directories = inner
        .ancestors()
        .take_while(|folder| folder.starts_with(&top))
        .take(MAX_SEARCHED_DIRECTORIES);
    directories
        .enumerate()
        .map(|(up, folder)| InstructionDirectory {
            folder: folder.to_owned(),
            up,
        })
        .collect()
}

/// Returns the first of `names` that exists in a directory.
fn find_instructions(
    field: &FieldReader<'_>,
    place: &InstructionDirectory,
    names: &[String],
    scope: &ResourceScope<'_>,
    findings: &mut DiagnosticSink,
) -> Option<InstructionFile> {
    for name in names {
        let shown_path = "../".repeat(place.up) + name;
        let (text, real) = match scope.folder.read_in_repository(&place.folder.join(name)) {
            Ok(found) => found,
            Err(FileReadError::Io(error)) if is_absent(&error) => continue,
            Err(problem) => {
                findings.add(unreadable_file_error(field, &shown_path, problem));
                return None;
            }
        };
        if scope.folder.may_contain_keys(&real) {
            let message = format!(
                "`{shown_path}` (relative to the working directory) is an `.env` file, which may \
                contain keys."
            );
            findings.add(
                field
                    .diagnostic(Code::PATH_ESCAPE, message)
                    .suggest("use a file without secrets"),
            );
            return None;
        }
        // A link may lead to a file with another owner, so the real location of the file counts.
        let root = scope.folder.canonical_root();
        let outside = (!real.starts_with(root)).then(|| real.parent().unwrap_or(&real).to_owned());
        if let (None, Ok(relative)) = (&outside, place.folder.strip_prefix(root)) {
            findings.depends_on(to_slash_path(&relative.join(name)));
        }
        let text = text.trim_start_matches('\u{feff}').to_owned();
        return (!text.trim().is_empty()).then_some(InstructionFile {
            name: shown_path,
            outside,
            text,
            cut: 0,
        });
    }
    None
}

/// Returns true if the error means that the file does not exist.
fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// Converts a relative path to one with `/` as the separator.
fn to_slash_path(path: &Path) -> String {
    path.components()
        .map(|part| part.as_os_str().to_string_lossy())
        .collect::<Vec<_>>()
        .join("/")
}

/// Creates the error for an instruction file that cannot be read.
fn unreadable_file_error(
    field: &FieldReader<'_>,
    shown: &str,
    problem: FileReadError,
) -> Diagnostic {
    match problem {
        FileReadError::TooLarge => {
            let message =
                format!("`{shown}` (relative to the working directory) is larger than 1 MiB.");
            field
                .diagnostic(Code::FILE_TOO_LARGE, message)
                .suggest("shorten it")
        }
        FileReadError::NotText(_) => {
            let message =
                format!("`{shown}` (relative to the working directory) is not UTF-8 text.");
            field
                .diagnostic(Code::PARSE_ERROR, message)
                .suggest("save it as UTF-8")
        }
        FileReadError::Io(error)
            if error.kind() == io::ErrorKind::PermissionDenied && error.get_ref().is_some() =>
        {
            let message = format!(
                "`{shown}` (relative to the working directory) leads out of the repository \
                through a link."
            );
            field
                .diagnostic(Code::PATH_ESCAPE, message)
                .suggest("copy the target of the link into the repository")
        }
        FileReadError::Io(error) => {
            let message = format!(
                "`{shown}` (relative to the working directory) cannot be read: {}.",
                reason(&error)
            );
            field
                .diagnostic(Code::ENTRY_NOT_FOUND, message)
                .suggest("put a regular file there that you may read")
        }
    }
}

/// Cuts files beyond the limit, and reports them.
fn cut_to_limit(
    field: &FieldReader<'_>,
    files: &mut [InstructionFile],
    findings: &mut DiagnosticSink,
) {
    let mut room = MAX_INSTRUCTION_BYTES;
    for file in files.iter_mut().rev() {
        file.shorten(room);
        room -= file.text.len();
    }
    for file in files.iter().filter(|file| file.cut > 0) {
        let message = format!(
            "`{}` (relative to the working directory) is cut: {} of its bytes do not fit into \
            the prompt, which has room for {} KiB of instructions.",
            file.name,
            file.cut,
            MAX_INSTRUCTION_BYTES / 1024
        );
        let suggestion = "shorten it, or move instructions about one directory into a file in \
            that directory";
        findings.add(
            field
                .diagnostic(Code::INSTRUCTIONS_CUT, message)
                .suggest(suggestion),
        );
    }
}

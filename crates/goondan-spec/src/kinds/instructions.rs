//! `Agent.spec.prompt.instructions`: the files in which a repository tells agents how to work in it, such as `AGENTS.md`.
//!
//! They belong to folders and not to the project, so they are looked for from the top of the repository down to the folder
//! that the agent works in. Who trusts a file that lies outside of the project is decided elsewhere (`goondan`: `wants/`).

use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};

use super::{Scope, Workdir};
use crate::decode::Field;
use crate::diagnostic::{Code, Diagnostic};
use crate::findings::Findings;
use crate::paths::Unreadable;
use crate::text::{excerpt, reason};

/// How many bytes of instructions a prompt has room for. Files nearer to the working folder come first.
pub const MAX_INSTRUCTIONS: usize = 64 * 1024;
/// So many folders up from the working folder are looked into.
const MAX_FOLDERS: usize = 64;

/// What stands above the files.
const HEADING: &str = "The files below are part of the repository that you work in, and tell how to work in it. Each is about its \
                       folder and what is below it. Where two disagree, the one further down counts; what a person says in the \
                       conversation counts more than any of them.";

/// The instructions of the folders that an agent works in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instructions {
    /// What such a file may be called. In each folder the first that is there counts.
    pub names: Vec<String>,
    /// Those from the top down to the working folder.
    pub files: Vec<InstructionFile>,
}

/// A file with instructions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstructionFile {
    /// As seen from the working folder, such as `../AGENTS.md`.
    pub name: String,
    /// The folder that it lies in, without links, where that is outside of the project.
    pub outside: Option<PathBuf>,
    /// Its text, as far as there was room for it.
    pub text: String,
    /// Bytes that there was no room for.
    pub cut: usize,
}

impl Instructions {
    /// What a system prompt says of them; nothing where there are none.
    pub fn prompt(&self) -> Option<String> {
        if self.files.is_empty() {
            return None;
        }
        Some(
            self.files
                .iter()
                .fold(HEADING.to_owned(), |mut prompt, file| {
                    prompt.push_str("\n\n");
                    prompt.push_str(&file.block());
                    prompt
                }),
        )
    }
}

impl InstructionFile {
    /// Its text, marked as that of the file.
    pub fn block(&self) -> String {
        // Where the text ends, it does not say itself.
        let text = self.text.replace("</instructions", "<\\/instructions");
        let mut block = format!("<instructions file=\"{}\">\n{}", self.name, text.trim());
        if self.cut > 0 {
            // Writing to a text can't fail.
            let _ = write!(
                block,
                "\n[{} more bytes of the file are not shown.]",
                self.cut
            );
        }
        block + "\n</instructions>"
    }

    /// Keeps at most `most` bytes.
    pub fn shorten(&mut self, most: usize) {
        let end = self.text.floor_char_boundary(most.min(self.text.len()));
        self.cut += self.text.len() - end;
        self.text.truncate(end);
    }
}

pub(super) fn read(
    field: &Field<'_>,
    workdir: &Workdir,
    scope: &Scope<'_>,
    findings: &mut Findings,
) -> Option<Instructions> {
    field.filled_list("file name", findings)?;
    let items = field.texts(findings)?;
    let names: Vec<String> = items
        .iter()
        .filter_map(|item| name(item, findings))
        .collect();
    if names.len() < items.len() {
        return None;
    }
    if *workdir == Workdir::Instance {
        let message = "The agent works in a folder of its own in each conversation, where no repository has instructions.";
        findings.add(
            field
                .invalid(message)
                .suggest("write `workdir: project` or `workdir: repository`"),
        );
        return None;
    }
    let mut files = Vec::new();
    for folder in folders(workdir, scope) {
        files.extend(find(field, &folder, &names, scope, findings));
    }
    files.reverse();
    fit(field, &mut files, findings);
    Some(Instructions { names, files })
}

/// A file name without folders: it is looked for in each of them.
fn name(field: &Field<'_>, findings: &mut Findings) -> Option<String> {
    let name = field.node.text()?;
    if name.contains(['/', '\\', '\0', '"', '\n']) || name == "." || name == ".." {
        let message = format!("`{}` is not a file name.", excerpt(name, 80));
        findings.add(
            field
                .invalid(message)
                .suggest("write a name such as `AGENTS.md`; it is looked for in each folder"),
        );
        return None;
    }
    Some(name.to_owned())
}

/// A folder that may have instructions.
struct Place {
    /// Without links.
    folder: PathBuf,
    /// How many folders up from the working folder it is.
    up: usize,
}

/// The folders from the working folder up to the top of the repository, or of the project where there is none.
fn folders(workdir: &Workdir, scope: &Scope<'_>) -> Vec<Place> {
    let root = scope.folder.canonical();
    let inner = match workdir {
        Workdir::Instance => return Vec::new(),
        Workdir::Project => root.to_owned(),
        Workdir::Path(path) => root.join(path),
        Workdir::Repository(folder) => folder.clone(),
    };
    let top = scope
        .folder
        .repository()
        .map_or(root, PathBuf::as_path)
        .to_owned();
    let all = inner
        .ancestors()
        .take_while(|folder| folder.starts_with(&top))
        .take(MAX_FOLDERS);
    all.enumerate()
        .map(|(up, folder)| Place {
            folder: folder.to_owned(),
            up,
        })
        .collect()
}

/// The first of the names that is in a folder.
fn find(
    field: &Field<'_>,
    place: &Place,
    names: &[String],
    scope: &Scope<'_>,
    findings: &mut Findings,
) -> Option<InstructionFile> {
    for name in names {
        let shown = "../".repeat(place.up) + name;
        let (text, real) = match scope.folder.read_in_repository(&place.folder.join(name)) {
            Ok(found) => found,
            Err(Unreadable::Io(error)) if is_absent(&error) => continue,
            Err(problem) => {
                findings.add(unreadable(field, &shown, problem));
                return None;
            }
        };
        if is_env(&real) {
            let message = format!(
                "`{shown}`, seen from the working folder, is an `.env` file, which may hold keys."
            );
            findings.add(
                field
                    .problem(Code::PATH_ESCAPE, message)
                    .suggest("name a file that is meant to be read"),
            );
            return None;
        }
        // A link may lead to what somebody else writes: it counts where the file lies.
        let root = scope.folder.canonical();
        let outside = (!real.starts_with(root)).then(|| real.parent().unwrap_or(&real).to_owned());
        if let (None, Ok(relative)) = (&outside, place.folder.strip_prefix(root)) {
            findings.depends_on(slashed(&relative.join(name)));
        }
        let text = text.trim_start_matches('\u{feff}').to_owned();
        return (!text.trim().is_empty()).then_some(InstructionFile {
            name: shown,
            outside,
            text,
            cut: 0,
        });
    }
    None
}

fn is_env(path: &Path) -> bool {
    path.file_name().is_some_and(|name| {
        name.to_string_lossy()
            .to_ascii_lowercase()
            .starts_with(".env")
    })
}

fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

fn slashed(path: &Path) -> String {
    path.components()
        .map(|part| part.as_os_str().to_string_lossy())
        .collect::<Vec<_>>()
        .join("/")
}

fn unreadable(field: &Field<'_>, shown: &str, problem: Unreadable) -> Diagnostic {
    match problem {
        Unreadable::TooLarge => {
            let message = format!("`{shown}`, seen from the working folder, is larger than 1 MiB.");
            field
                .problem(Code::FILE_TOO_LARGE, message)
                .suggest("shorten it")
        }
        Unreadable::NotText(_) => {
            let message = format!("`{shown}`, seen from the working folder, is not UTF-8 text.");
            field
                .problem(Code::PARSE_ERROR, message)
                .suggest("save it as UTF-8")
        }
        Unreadable::Io(error)
            if error.kind() == io::ErrorKind::PermissionDenied && error.get_ref().is_some() =>
        {
            let message = format!(
                "`{shown}`, seen from the working folder, leads out of the repository through a link."
            );
            field
                .problem(Code::PATH_ESCAPE, message)
                .suggest("copy what it links to into the repository")
        }
        Unreadable::Io(error) => {
            let message = format!(
                "`{shown}`, seen from the working folder, cannot be read: {}.",
                reason(&error)
            );
            field
                .problem(Code::ENTRY_NOT_FOUND, message)
                .suggest("put a regular file there that you may read")
        }
    }
}

/// Cuts what there is no room for, and says so.
fn fit(field: &Field<'_>, files: &mut [InstructionFile], findings: &mut Findings) {
    let mut room = MAX_INSTRUCTIONS;
    for file in files.iter_mut().rev() {
        file.shorten(room);
        room -= file.text.len();
    }
    for file in files.iter().filter(|file| file.cut > 0) {
        let message = format!(
            "`{}`, seen from the working folder, is cut: {} bytes of it do not fit into the prompt, which has room for {} KiB \
             of instructions.",
            file.name,
            file.cut,
            MAX_INSTRUCTIONS / 1024
        );
        let suggestion = "shorten it, or move what is about one folder into a file of that folder";
        findings.add(
            field
                .problem(Code::INSTRUCTIONS_CUT, message)
                .suggest(suggestion),
        );
    }
}

//! Files that the redirections of a command line open, with all their possible paths.

use std::collections::BTreeSet;

use goondan_spec::command_line::{
    CommandScript, PipelineStage, RedirectTarget, StreamRedirect, WordPiece, parse,
};

use super::{file, fold};

/// Maximum number of directories in which a redirection can take place.
const MAX_DIRECTORIES: usize = 256;

/// A file that a redirection opens.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct OpenedFile {
    /// The file in the form of [`file`].
    pub file: String,
    /// Possible paths, relative to the initial directory of the line. More than one if the success
    /// of a `cd` is unknown.
    pub paths: BTreeSet<String>,
    /// The redirection writes the file.
    pub is_written: bool,
}

/// Returns the files that the redirections of `line` open; empty if only a shell can run the line.
/// `None` if the line changes its directory too often to track.
pub fn opened(line: &str) -> Option<BTreeSet<OpenedFile>> {
    let Ok(script) = parse(line) else {
        return Some(BTreeSet::new());
    };
    let mut walk = RedirectWalk {
        folders: BTreeSet::from([String::new()]),
        opened: BTreeSet::new(),
    };
    walk.visit_script(&script)?;
    Some(walk.opened)
}

struct RedirectWalk {
    /// Possible directories of the next command.
    folders: BTreeSet<String>,
    opened: BTreeSet<OpenedFile>,
}

impl RedirectWalk {
    /// Collects the redirections of a script; `None` if it changes directory too often.
    fn visit_script(&mut self, script: &CommandScript) -> Option<()> {
        for stage in script.steps.iter().flat_map(|step| &step.stages) {
            match stage {
                PipelineStage::Group(group) => {
                    self.visit_subshell(&group.script)?;
                    self.visit_redirects(&group.redirects);
                }
                PipelineStage::Command(command) => {
                    for piece in command.words.iter().flat_map(|word| &word.pieces) {
                        if let WordPiece::Output(inner) = piece {
                            self.visit_subshell(inner)?;
                        }
                    }
                    self.visit_redirects(&command.redirects);
                    if let Some(folder) = command.cd_target() {
                        let new_folders: Vec<String> = self
                            .folders
                            .iter()
                            .map(|from| join_path(from, &folder))
                            .collect();
                        self.folders.extend(new_folders);
                        (self.folders.len() <= MAX_DIRECTORIES).then_some(())?;
                    }
                }
            }
        }
        Some(())
    }

    /// Analyzes a subshell, whose directory changes do not affect the commands after it.
    fn visit_subshell(&mut self, script: &CommandScript) -> Option<()> {
        let folders = self.folders.clone();
        self.visit_script(script)?;
        self.folders = folders;
        Some(())
    }

    /// Collects the files that these redirections open, for each directory that the shell may be
    /// in.
    fn visit_redirects(&mut self, redirects: &[StreamRedirect]) {
        for StreamRedirect { target, .. } in redirects {
            let (path, is_written) = match target {
                RedirectTarget::Stream(_) | RedirectTarget::Null => continue,
                RedirectTarget::Read(path) => (path, false),
                RedirectTarget::Write { path, .. } => (path, true),
            };
            let paths = self
                .folders
                .iter()
                .map(|folder| join_path(folder, path))
                .collect();
            self.opened.extend(file(target).map(|file| OpenedFile {
                file,
                paths,
                is_written,
            }));
        }
    }
}

/// Joins a path with the directory of the shell, and removes `.` and `..`.
fn join_path(folder: &str, path: &str) -> String {
    if folder.is_empty() || path.starts_with('/') {
        fold(path)
    } else {
        fold(&format!("{folder}/{path}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opened_files_are_relative_to_the_start_directory_of_the_line() {
        let opened_by = |line: &str| -> Vec<String> {
            opened(line)
                .unwrap()
                .into_iter()
                .flat_map(|file| {
                    file.paths
                        .into_iter()
                        .map(move |path| (path, file.is_written))
                })
                .map(|(path, is_written)| format!("{}{path}", if is_written { ">" } else { "<" }))
                .collect()
        };
        assert_eq!(
            opened_by("cat < ./a//b > c 2>&1 2> /dev/null"),
            ["<a/b", ">c"]
        );
        assert_eq!(opened_by("cd x && echo a > ../y"), [">../y", ">y"]);
        assert_eq!(
            opened_by("(cd x; echo a > y) > z; echo > w"),
            [">w", ">x/y", ">y", ">z"]
        );
        assert_eq!(opened_by("echo \"$(cd x; cat < y)\""), ["<x/y", "<y"]);
        assert_eq!(opened_by("cd /x; sh -c 'echo a > y'"), [">/x/y", ">y"]);
        assert_eq!(opened_by("for i in 1; do echo > x; done"), [""; 0]);
        assert_eq!(
            opened(&(0..9).map(|n| format!("cd {n}; ")).collect::<String>()),
            None
        );
    }
}

//! The files that the redirections of a command line open, and where these may lie.

use std::collections::BTreeSet;

use goondan_spec::command_line::{Piece, Redirect, Script, Stage, Target, parse};

use super::{file, fold};

/// In so many folders a redirection may be done.
const MOST_FOLDERS: usize = 256;

/// A file that a redirection opens.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Opened {
    /// As [`file`] calls it.
    pub file: String,
    /// Its paths, seen from the folder that the line begins in. There are several where nobody knows which `cd` will have succeeded.
    pub paths: BTreeSet<String>,
    /// It is written.
    pub is_written: bool,
}

/// The files that the redirections of `line` open; none where only a shell can run it. `None` where the line changes its folder too
/// often to tell.
pub fn opened(line: &str) -> Option<BTreeSet<Opened>> {
    let Ok(script) = parse(line) else {
        return Some(BTreeSet::new());
    };
    let mut walk = Walk {
        folders: BTreeSet::from([String::new()]),
        opened: BTreeSet::new(),
    };
    walk.script(&script)?;
    Some(walk.opened)
}

struct Walk {
    /// Where the next command may run.
    folders: BTreeSet<String>,
    opened: BTreeSet<Opened>,
}

impl Walk {
    fn script(&mut self, script: &Script) -> Option<()> {
        for stage in script.steps.iter().flat_map(|step| &step.stages) {
            match stage {
                Stage::Group(group) => {
                    self.apart(&group.script)?;
                    self.redirects(&group.redirects);
                }
                Stage::Command(command) => {
                    for piece in command.words.iter().flat_map(|word| &word.pieces) {
                        if let Piece::Output(inner) = piece {
                            self.apart(inner)?;
                        }
                    }
                    self.redirects(&command.redirects);
                    if let Some(folder) = command.folder() {
                        let gone: Vec<String> = self
                            .folders
                            .iter()
                            .map(|from| joined(from, &folder))
                            .collect();
                        self.folders.extend(gone);
                        (self.folders.len() <= MOST_FOLDERS).then_some(())?;
                    }
                }
            }
        }
        Some(())
    }

    /// What changes the folder for itself alone.
    fn apart(&mut self, script: &Script) -> Option<()> {
        let folders = self.folders.clone();
        self.script(script)?;
        self.folders = folders;
        Some(())
    }

    fn redirects(&mut self, redirects: &[Redirect]) {
        for Redirect { target, .. } in redirects {
            let (path, is_written) = match target {
                Target::Stream(_) | Target::Null => continue,
                Target::Read(path) => (path, false),
                Target::Write { path, .. } => (path, true),
            };
            let paths = self
                .folders
                .iter()
                .map(|folder| joined(folder, path))
                .collect();
            self.opened.extend(file(target).map(|file| Opened {
                file,
                paths,
                is_written,
            }));
        }
    }
}

/// `path` as it is seen from where `folder` is.
fn joined(folder: &str, path: &str) -> String {
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
    fn files_are_seen_from_where_the_line_begins() {
        let told = |line: &str| -> Vec<String> {
            opened(line)
                .unwrap()
                .into_iter()
                .flat_map(|one| {
                    one.paths
                        .into_iter()
                        .map(move |path| (path, one.is_written))
                })
                .map(|(path, is_written)| format!("{}{path}", if is_written { ">" } else { "<" }))
                .collect()
        };
        assert_eq!(told("cat < ./a//b > c 2>&1 2> /dev/null"), ["<a/b", ">c"]);
        assert_eq!(told("cd x && echo a > ../y"), [">../y", ">y"]);
        assert_eq!(
            told("(cd x; echo a > y) > z; echo > w"),
            [">w", ">x/y", ">y", ">z"]
        );
        assert_eq!(told("echo \"$(cd x; cat < y)\""), ["<x/y", "<y"]);
        assert_eq!(told("cd /x; sh -c 'echo a > y'"), [">/x/y", ">y"]);
        assert_eq!(told("for i in 1; do echo > x; done"), [""; 0]);
        assert_eq!(
            opened(&(0..9).map(|n| format!("cd {n}; ")).collect::<String>()),
            None
        );
    }
}

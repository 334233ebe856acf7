//! Files that a command line names, such as scripts and their input files. A remembered approval of
//! the line also covers their contents, because an agent could change the script later.
//!
//! Only the text is analyzed. Files that a program finds itself (a `Makefile`) and files from
//! patterns or variables are not found. A command with a known form is excluded: its files are
//! data.

use std::collections::BTreeSet;
use std::path::PathBuf;

use goondan_core::shell::{self, CommandPart, CommandPartKind};
use goondan_spec::command_line::{self, CommandScript, CommandWord, WordPiece};
use goondan_spec::pattern::PatternAtom;

use super::shell_words;

/// Programs that neither read nor copy the files that they name.
const NON_READING_PROGRAMS: [&str; 4] = ["mkdir", "rm", "rmdir", "touch"];

/// Limit of words per call.
const MAX_WORDS: usize = 2000;
/// Limit of searched directories per call.
const MAX_SEARCHED_DIRS: usize = 16;
/// Limit of directory changes per call.
const MAX_DIR_CHANGES: usize = 4;
/// Limit of fragments between blanks and quotes that may form one name.
const MAX_JOINED_PIECES: usize = 4;
/// Limit of nested strings.
const MAX_STRING_DEPTH: usize = 3;

/// Returns the files that the lines name if they run in one of `folders`. `None` if there are too
/// many words or the line cannot be split into words.
pub(super) fn files(lines: &[String], folders: &[PathBuf]) -> Option<BTreeSet<PathBuf>> {
    let mut referenced = ReferencedWords::default();
    for line in lines {
        referenced.add_line(line)?;
    }
    if referenced.words.len() > MAX_WORDS || referenced.changes > MAX_DIR_CHANGES {
        return None;
    }
    let home = std::env::home_dir();
    let resolve = |folder: &PathBuf, word: &String| match word.strip_prefix("~/").zip(home.as_ref())
    {
        Some((below, home)) => home.join(below),
        None => folder.join(word),
    };
    let below = |folder: &PathBuf| {
        referenced
            .words
            .iter()
            .map(|word| resolve(folder, word))
            .collect::<Vec<_>>()
    };
    let mut all = folders.to_vec();
    let mut visited: BTreeSet<PathBuf> = all
        .iter()
        .filter_map(|folder| folder.canonicalize().ok())
        .collect();
    // A line may change into a directory before it names a file, and from there into the next one.
    for _ in 0..referenced.changes.max(1) {
        let inside: Vec<PathBuf> = all
            .iter()
            .flat_map(below)
            .filter(|path| path.is_dir())
            .collect();
        all.extend(
            inside
                .into_iter()
                .filter(|path| path.canonicalize().is_ok_and(|real| visited.insert(real))),
        );
        if all.len() > MAX_SEARCHED_DIRS {
            return None;
        }
    }
    Some(
        all.iter()
            .flat_map(below)
            .filter(|path| path.is_file())
            .collect(),
    )
}

/// Words of command lines that may name files to run.
#[derive(Default)]
struct ReferencedWords {
    words: BTreeSet<String>,
    /// Number of directory changes.
    changes: usize,
}

impl ReferencedWords {
    /// Adds the words of a command line; `None` if it cannot be split into words.
    fn add_line(&mut self, line: &str) -> Option<()> {
        match command_line::parse(line) {
            Ok(script) => self.add_script(line, &script),
            Err(_) => {
                let words = shell_words::words(line)?;
                self.changes += words
                    .iter()
                    .filter(|word| ["cd", "pushd"].contains(&word.as_str()))
                    .count();
                words.iter().for_each(|word| self.add_word(word));
                self.add_text(line, 0);
            }
        }
        Some(())
    }

    /// Adds the words of all commands that can read files.
    fn add_script(&mut self, line: &str, script: &CommandScript) {
        let parts = shell::parts(line);
        let commands = script.commands();
        // No word precedes the name, such as a variable that makes the program load a file.
        let is_about_names = |part: &CommandPart| {
            text(&part.whole)
                .split_whitespace()
                .next()
                .is_some_and(|name| NON_READING_PROGRAMS.contains(&name))
        };
        let counts = |part: &&CommandPart| match part.what {
            CommandPartKind::Hidden { .. } => true,
            CommandPartKind::Command => shell::form(part).is_none() && !is_about_names(part),
            _ => false,
        };
        let counting: Vec<&CommandPart> = parts.iter().filter(counts).collect();
        let is_hidden = counting.iter().any(|part| part.command.is_none());
        for command in commands {
            // After a directory change, file names are relative to the new directory.
            let is_change = command.cd_target().is_some();
            self.changes += usize::from(is_change);
            if is_hidden
                || is_change
                || counting
                    .iter()
                    .any(|part| part.command == Some(command.number))
            {
                command
                    .words
                    .iter()
                    .for_each(|word| self.add_word(&known(word)));
                command
                    .assignments
                    .iter()
                    .for_each(|(_, value)| self.add_word(value));
            }
        }
        let read = parts
            .iter()
            .filter_map(|part| part.file.as_ref()?.strip_prefix("< "));
        read.filter(|_| !counting.is_empty())
            .for_each(|path| self.add_word(path));
    }

    /// Adds the file names that a word may contain: the word, its parts (split at `=`, `,` and
    /// `:`), and the words of a script in it.
    fn add_word(&mut self, word: &str) {
        self.add_pieces(word);
        self.add_text(word, 0);
    }

    /// Adds a word, and the parts of the word that can be a path: after separators and option
    /// prefixes.
    fn add_pieces(&mut self, word: &str) {
        const SEPARATORS: [&[char]; 7] = [
            &['='],
            &[','],
            &[':'],
            &['=', ','],
            &['=', ':'],
            &[',', ':'],
            &['=', ',', ':'],
        ];
        let texts = [Some(word), word.split_once('=').map(|(_, rest)| rest)];
        let cut = |text: &'_ str| -> Vec<String> {
            let cut = SEPARATORS.iter().flat_map(|ends| text.split(*ends));
            std::iter::once(text)
                .chain(cut)
                .map(str::to_owned)
                .collect()
        };
        for piece in texts.into_iter().flatten().flat_map(cut) {
            let behind_letter = piece.strip_prefix('-').and_then(|rest| rest.get(1..));
            let behind_signs = piece.trim_start_matches(['-', '=', '+', '?', '@']);
            let all = [Some(piece.as_str()), behind_letter, Some(behind_signs)];
            self.words.extend(
                all.into_iter()
                    .flatten()
                    .filter(|piece| !piece.is_empty())
                    .map(str::to_owned),
            );
        }
    }

    /// Adds the words of a string that may be a script in any language.
    fn add_text(&mut self, text: &str, depth: usize) {
        let is_end = |c: char| c.is_whitespace() || ";&|<>()[]{}'\"`\\".contains(c);
        if depth > MAX_STRING_DEPTH || !text.contains(is_end) {
            return;
        }
        for word in shell_words::words(text).unwrap_or_default() {
            self.add_pieces(&word);
            self.add_text(&word, depth + 1);
        }
        // Quotes may have another meaning in that language, so the string is also split without
        // them.
        let (mut starts, mut at) = (Vec::new(), 0);
        for piece in text.split_inclusive(is_end) {
            let name = piece.trim_end_matches(is_end);
            if !name.is_empty() {
                starts.push(at);
                for start in starts.iter().rev().take(MAX_JOINED_PIECES) {
                    let joined = text.get(*start..at + name.len()).unwrap_or_default();
                    self.add_pieces(&joined.replace(['\'', '"', '\\'], ""));
                }
            }
            at += piece.len();
        }
    }
}

/// Returns the word with unknown parts replaced by `*`.
fn known(word: &CommandWord) -> String {
    let of = |piece: &WordPiece| {
        if let WordPiece::Text(text) = piece {
            text.clone()
        } else {
            "*".to_owned()
        }
    };
    word.pieces.iter().map(of).collect()
}

/// Returns a pattern as text, with `*` for each unknown part.
fn text(atoms: &[PatternAtom]) -> String {
    atoms
        .iter()
        .map(|atom| {
            if let PatternAtom::Char(c) = atom {
                *c
            } else {
                '*'
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_script_is_found_however_it_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("work");
        fs::create_dir_all(folder.join("sub")).unwrap();
        for file in ["run.sh", "sub/run.py", "notes.txt", "../outside.run.sh"] {
            fs::write(folder.join(file), "x").unwrap();
        }
        let named = |line: &str| -> Vec<String> {
            let files = files(&[line.to_owned()], std::slice::from_ref(&folder)).unwrap();
            files
                .iter()
                .map(|file| {
                    file.strip_prefix(&folder)
                        .unwrap_or(file)
                        .display()
                        .to_string()
                })
                .collect()
        };
        for line in [
            "sh run.sh",
            "./run.sh",
            "bash -c 'sh run.sh'",
            "env X=1 sh run.sh",
            "cat notes.txt | sh run.sh",
            "sh < run.sh",
            "for i in 1; do . run.sh; done",
            "X=run.sh; sh $X",
            "python3 --file=run.sh",
            "sh ../outside.run.sh",
            "python3 - < run.sh",
            "make -frun.sh",
            "java @run.sh",
        ] {
            assert!(
                named(line).iter().any(|file| file.ends_with("run.sh")),
                "{line}: {:?}",
                named(line)
            );
        }
        assert_eq!(named("cd sub && python3 run.py"), ["sub/run.py"]);
        assert_eq!(named("LD_PRELOAD=run.sh touch x"), ["run.sh"]);
        for line in [
            "cat notes.txt",
            "git diff run.sh",
            "ls",
            "make test",
            "touch run.sh",
            "rm -f run.sh",
        ] {
            assert_eq!(named(line), Vec::<String>::new(), "{line}");
        }
        assert_eq!(
            files(
                &[(0..6000).map(|n| format!(" w{n}")).collect::<String>()],
                &[folder]
            ),
            None
        );
    }

    #[test]
    fn a_script_is_found_whatever_its_name_is_made_of() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().to_owned();
        fs::create_dir_all(folder.join("one/two")).unwrap();
        for file in [
            "run.sh",
            "a,b.sh",
            "my run.sh",
            "a=b.sh",
            "it's.sh",
            "a:b.sh",
            "one/two/c.sh",
        ] {
            fs::write(folder.join(file), "x").unwrap();
        }
        let named = |line: &str| files(&[line.to_owned()], std::slice::from_ref(&folder));
        for (line, file) in [
            ("sh a,b.sh", "a,b.sh"),
            ("sh './my run.sh'", "my run.sh"),
            ("sh 'ru'n.sh; X=1", "run.sh"),
            ("sh r\\un.sh; X=1", "run.sh"),
            ("sh './my run.sh'; X=1", "my run.sh"),
            ("sh ./my\\ run.sh; X=1", "my run.sh"),
            ("X=1; sh \"./my run\".sh", "my run.sh"),
            ("X=1; echo \"$(sh \"my run.sh\")\"", "my run.sh"),
            ("X=1; eval \"sh 'my run.sh'\"", "my run.sh"),
            ("X=1; sh a,b.sh", "a,b.sh"),
            ("sh a=b.sh", "a=b.sh"),
            ("sh \"it's.sh\"", "it's.sh"),
            ("X=1; sh it\\'s.sh", "it's.sh"),
            ("python3 --file=a,b.sh", "a,b.sh"),
            ("python3 --file=a=b.sh,x", "a=b.sh"),
            ("python3 --path=x:a,b.sh:y", "a,b.sh"),
            ("python3 -c \"open('a,b.sh')\"", "a,b.sh"),
            ("python3 -c \"# it's\nopen('my run.sh')\"", "my run.sh"),
            ("python3 - < 'my run.sh'", "my run.sh"),
            ("sh -c \"sh 'my run.sh'\"", "my run.sh"),
            ("cd one && cd two && sh c.sh", "one/two/c.sh"),
            ("X=1; cd one; cd two; sh c.sh", "one/two/c.sh"),
        ] {
            let found = named(line).unwrap_or_default();
            assert!(
                found.iter().any(|path| path.ends_with(file)),
                "{line}: {found:?}"
            );
        }
        for line in [
            "sh $'r\\x75n.sh'",
            "sh <<'E'\n. './my run.sh'\nE",
            "X=1; sh \"${x:-\"my run.sh\"}\"",
            "a 'b",
        ] {
            assert_eq!(named(line), None, "{line}");
        }
        assert!(named("for i in 1 2; do echo $i; done").is_some());
    }
}

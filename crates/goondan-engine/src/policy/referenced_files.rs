//! Files that a command line names, such as scripts and their input files. A remembered approval of
//! the line also covers their contents, because an agent could change the script later. It also
//! covers the targets of links in the named paths, because an agent could change the link later.
//!
//! The text is analyzed, and the first lines of the scripts that it names. Files that a program finds
//! itself (an imported module) and files from patterns are not found, except for well-known names
//! such as `Makefile`. A line with another expansion has no remembered approval. Contents of files
//! count only if the command may run them: for most commands with a known form, they are data.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use goondan_core::program_search::{find_program, interpreters};
use goondan_core::real_path::{depends_on_process, real_path};
use goondan_core::shell::{self, CommandPart, CommandPartKind};
use goondan_core::started_files::{CodePlace, ProgramNames, code_options, is_below, pieces};
use goondan_spec::command_line::{self, CommandScript, CommandWord, ShellCommand, WordPiece};
use goondan_spec::pattern::PatternAtom;

use super::{protected_paths, shell_words};

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

/// Paths that occur in command lines.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ReferencedPaths {
    /// Existing files, and directories of code, that the lines may run or read as code.
    pub(super) files: BTreeSet<PathBuf>,
    /// Targets of the named paths that contain links, by path.
    pub(super) link_targets: BTreeMap<PathBuf, PathBuf>,
    /// A path of a file to run that leads to different files in different processes.
    pub(super) process_dependent_path: Option<PathBuf>,
}

/// Returns the paths that `lines` refer to when they run in any of `folders`. The path of each
/// folder must be free of symbolic links. `project` is the directory of the project.
///
/// `None` if the files of a line are unknown: it cannot be split into words, has too many, has a
/// variable that names the working directory, or has an expansion that can name a file to run.
pub(super) fn find(
    lines: &[String],
    folders: &[PathBuf],
    project: &Path,
) -> Option<ReferencedPaths> {
    let mut referenced = ReferencedWords::default();
    for line in lines {
        referenced.add_line(line)?;
    }
    let word_count = referenced.words.len() + referenced.data_words.len();
    if word_count > MAX_WORDS || referenced.directory_changes > MAX_DIR_CHANGES {
        return None;
    }
    let home = std::env::home_dir();
    let resolve = |folder: &PathBuf, word: &String| match word.strip_prefix("~/").zip(home.as_ref())
    {
        Some((below, home)) => home.join(below),
        None => folder.join(word),
    };
    let below = |folder: &PathBuf, words: &BTreeSet<String>| {
        let paths = words.iter().map(|word| resolve(folder, word));
        paths.collect::<Vec<_>>()
    };
    let mut all = folders.to_vec();
    let mut visited: BTreeSet<PathBuf> = all
        .iter()
        .filter_map(|folder| folder.canonicalize().ok())
        .collect();
    // A line may change into a directory before it names a file, and from there into the next one.
    for _ in 0..referenced.directory_changes.max(1) {
        let inside: Vec<PathBuf> = all
            .iter()
            .flat_map(|folder| below(folder, &referenced.words))
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
    let in_each = |words| all.iter().flat_map(move |folder| below(folder, words));
    let own: Vec<&Path> = folders
        .iter()
        .map(PathBuf::as_path)
        .chain([project])
        .collect();
    let mut files: BTreeSet<PathBuf> = in_each(&referenced.words).collect();
    files.extend(referenced.implied_files(&all));
    files.extend(referenced.programs(&all, &own));
    files.retain(|path| path.is_file());
    files.extend(interpreters(&files, &all, None));
    let variables = in_each(&referenced.variables).map(|path| (path, true));
    let options = in_each(&referenced.options).map(|path| (path, false));
    for (path, is_variable) in variables.chain(options) {
        let place = folders
            .iter()
            .map(|folder| CodePlace::of(&path, folder, &own));
        match place.max() {
            Some(CodePlace::AroundFolder) if is_variable => return None,
            Some(CodePlace::Directory) => drop(files.insert(path)),
            _ => {}
        }
    }
    let named = in_each(&referenced.words).chain(in_each(&referenced.data_words));
    let links = named.filter_map(|path| {
        let target = real_path(&path).unwrap_or_default();
        (target != protected_paths::folded(&path)).then_some((path, target))
    });
    let mut paths = in_each(&referenced.words);
    Some(ReferencedPaths {
        files,
        link_targets: links.collect(),
        process_dependent_path: paths.find(|path| depends_on_process(path)),
    })
}

/// Words of command lines that may name files to run.
#[derive(Default)]
struct ReferencedWords {
    words: BTreeSet<String>,
    /// Words that name files whose contents are only data.
    data_words: BTreeSet<String>,
    /// Values of variables, which may name a directory of code.
    variables: BTreeSet<String>,
    /// Values of options for directories of code.
    options: BTreeSet<String>,
    /// Number of directory changes.
    directory_changes: usize,
}

impl ReferencedWords {
    /// Adds the words of a command line; `None` if it cannot be split into words.
    fn add_line(&mut self, line: &str) -> Option<()> {
        match command_line::parse(line) {
            Ok(script) => self.add_script(line, &script)?,
            Err(_) if has_expansion(line) => return None,
            Err(_) => {
                let words = shell_words::words(line)?;
                self.directory_changes += words
                    .iter()
                    .filter(|word| ["cd", "pushd"].contains(&word.as_str()))
                    .count();
                self.add_words(&words);
                self.add_text(line, 0);
            }
        }
        Some(())
    }

    /// Adds the words of commands that may run or read files as code. Words of other commands, and
    /// redirection targets, are data words. `None` if an expansion can name a file to run.
    fn add_script(&mut self, line: &str, script: &CommandScript) -> Option<()> {
        let parts = shell::parts(line);
        let commands = script.commands();
        // The program name must be the first word: a variable before it, such as `LD_PRELOAD`, can
        // make the program load a file.
        let never_reads_files = |part: &CommandPart| {
            text(&part.whole)
                .split_whitespace()
                .next()
                .is_some_and(|name| NON_READING_PROGRAMS.contains(&name))
        };
        let may_read_files = |part: &&CommandPart| match part.what {
            CommandPartKind::Hidden { .. } => true,
            CommandPartKind::Command => shell::form(part).is_none() && !never_reads_files(part),
            _ => false,
        };
        let reading_parts: Vec<&CommandPart> = parts.iter().filter(may_read_files).collect();
        let has_hidden_command = reading_parts.iter().any(|part| part.command.is_none());
        for command in commands {
            // After a directory change, file names are relative to the new directory.
            let is_change = command.cd_target().is_some();
            self.directory_changes += usize::from(is_change);
            let words: Vec<String> = command.words.iter().map(known).collect();
            let programs = ProgramNames::of(words.iter().map(String::as_str));
            if has_hidden_command
                || is_change
                || programs.run_command_files()
                || reading_parts
                    .iter()
                    .any(|part| part.command == Some(command.number))
            {
                if names_unknown_file(command, &words) {
                    return None;
                }
                self.add_words(&words);
                for (_, value) in &command.assignments {
                    self.add_word(value);
                    self.variables.extend(pieces(value));
                }
            } else {
                self.data_words
                    .extend(words.iter().flat_map(|word| pieces(word)));
            }
        }
        for file in parts.iter().filter_map(|part| part.file.as_ref()) {
            match file.split_once(' ') {
                Some(("<", path)) if !reading_parts.is_empty() => self.add_word(path),
                Some((_, path)) => drop(self.data_words.insert(path.to_owned())),
                None => {}
            }
        }
        Some(())
    }

    /// Adds the words of a command, and the directories of code that they name.
    fn add_words(&mut self, words: &[String]) {
        words.iter().for_each(|word| self.add_word(word));
        self.add_code_directories(words);
    }

    /// Adds the directories of code that options and variables name.
    fn add_code_directories(&mut self, words: &[String]) {
        let options = code_options(words.iter().map(String::as_str));
        self.options
            .extend(options.iter().flat_map(|word| pieces(word)));
        let variables = words.iter().filter_map(|word| assigned_value(word));
        self.variables.extend(variables.flat_map(pieces));
    }

    /// Returns the files that programs of the lines load because of their names, or for a word that
    /// is no path of a file. They may not exist.
    fn implied_files(&self, folders: &[PathBuf]) -> Vec<PathBuf> {
        let programs = ProgramNames::of(self.words.iter().map(String::as_str));
        let mut files: Vec<PathBuf> = programs.command_files(folders).collect();
        for folder in folders {
            let words = self.words.iter();
            files.extend(words.flat_map(|word| programs.implied_files(folder, word)));
        }
        files
    }

    /// Returns the programs in the search path that an agent may be able to change.
    fn programs(&self, folders: &[PathBuf], own: &[&Path]) -> Vec<PathBuf> {
        let temporary = std::env::temp_dir();
        let words = self.words.iter();
        let found = words.flat_map(|word| {
            let folders = folders.iter();
            folders.filter_map(move |folder| find_program(word, None, folder))
        });
        found
            .filter(|path| is_below(path, own) || is_below(path, &[&temporary]))
            .collect()
    }

    /// Adds the file names that a word may contain: the word, its parts (split at `=`, `,` and
    /// `:`), and the words of a script in it.
    fn add_word(&mut self, word: &str) {
        self.words.extend(pieces(word));
        self.add_text(word, 0);
    }

    /// Adds the words of a string that may be a script in any language.
    fn add_text(&mut self, text: &str, depth: usize) {
        let is_end = |c: char| c.is_whitespace() || ";&|<>()[]{}'\"`\\".contains(c);
        if depth > MAX_STRING_DEPTH || !text.contains(is_end) {
            return;
        }
        let words = shell_words::words(text).unwrap_or_default();
        self.add_code_directories(&words);
        for word in words {
            self.words.extend(pieces(&word));
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
                    self.words
                        .extend(pieces(&joined.replace(['\'', '"', '\\'], "")));
                }
            }
            at += piece.len();
        }
    }
}

/// Returns the value of a word such as `NAME=value`, which may set a variable.
fn assigned_value(word: &str) -> Option<&str> {
    let (name, value) = word.split_once('=')?;
    let is_first = |c: char| c.is_ascii_alphabetic() || c == '_';
    let is_name =
        name.starts_with(is_first) && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    is_name.then_some(value)
}

/// Returns true if the text contains an expansion of a shell whose result is unknown, such as `$PWD`,
/// `$(…)`, `~+` or `{a,b}`.
fn has_expansion(text: &str) -> bool {
    text.contains(['$', '`'])
        || ["~+", "~-"].iter().any(|part| text.contains(part))
        || (text.contains('{') && text.contains([',', '.']))
}

/// Returns true if the command may run a file that its words do not name: a word contains the output
/// of another command, a string for a shell contains an expansion, or a shell reads its commands from
/// its input.
fn names_unknown_file(command: &ShellCommand, words: &[String]) -> bool {
    let has_output = |word: &CommandWord| {
        let mut pieces = word.pieces.iter();
        pieces.any(|piece| matches!(piece, WordPiece::Output(_)))
    };
    let shell_at = words.iter().position(|word| shell::is_shell(word));
    let has_no_script = |at: usize| words.iter().skip(at + 1).all(|word| word.starts_with('-'));
    let is_fed = command.redirects.is_empty() && shell_at.is_some_and(has_no_script);
    let is_expanded = shell_at.is_some() && words.iter().any(|word| has_expansion(word));
    let mut values = command.assignments.iter().map(|(_, value)| value);
    command.words.iter().any(has_output)
        || is_fed
        || is_expanded
        || values.any(|value| has_expansion(value))
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
    fn a_line_with_an_unknown_file_has_no_remembered_approval() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().to_owned();
        fs::write(folder.join("run.sh"), "x").unwrap();
        for line in [
            "sh \"$PWD/run.sh\"",
            ". \"$PWD/run.sh\"",
            "sh \"$(pwd)/run.sh\"",
            "D=$PWD; sh $D/run.sh",
            "make -C \"$(pwd)/sub\"",
            "cd $PWD/sub; make",
            "BASH_ENV=$PWD/run.sh bash -c true",
            "F=run; sh $F.sh",
            "X=run.sh; sh $X",
            "X=1; echo \"$(sh run.sh)\"",
            "sh $(echo run).sh",
            "sh ${X:-run}.sh",
            "set -- run sh; sh $1.$2",
            "for i in run; do sh $i.sh; done",
            "sh -c 'sh \"$0/run.sh\"' sub",
            "bash -c 'sh {run,x}.sh'",
            "bash -c 'sh ~+/run.sh'",
            "echo c2ggcnVuLnNo | base64 -d | sh",
            "Q=/proc; sh $Q/self/cwd/run.sh",
            "GIT_EXTERNAL_DIFF='$PWD/run.sh' git diff",
        ] {
            let found = find(&[line.to_owned()], std::slice::from_ref(&folder), &folder);
            assert_eq!(found, None, "{line}");
        }
        // An expansion that no shell of the line evaluates names no file.
        let found = find(
            &["awk '{print $1}' notes.txt".to_owned()],
            std::slice::from_ref(&folder),
            &folder,
        );
        assert!(found.is_some());
    }

    #[test]
    fn a_script_is_found_however_it_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("work");
        fs::create_dir_all(folder.join("sub")).unwrap();
        for file in ["run.sh", "sub/run.py", "notes.txt", "../outside.run.sh"] {
            fs::write(folder.join(file), "x").unwrap();
        }
        let named = |line: &str| -> Vec<String> {
            let found = find(&[line.to_owned()], std::slice::from_ref(&folder), &folder).unwrap();
            found
                .files
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
            find(
                &[(0..6000).map(|n| format!(" w{n}")).collect::<String>()],
                std::slice::from_ref(&folder),
                &folder
            ),
            None
        );
    }

    #[test]
    fn files_that_a_program_loads_by_itself_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("work");
        for (file, content) in [
            ("Makefile", "x"),
            ("sub/Makefile", "x"),
            ("sub/package.json", "{}"),
            ("pkg/mod.py", "x"),
            ("lib/start.py", "x"),
            ("data/notes.txt", "x"),
            ("program", "#!./interpreter\n"),
            ("interpreter", "#!/bin/sh\n"),
            ("start.py", "x"),
        ] {
            let path = folder.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        let named = |line: &str| {
            let found = find(&[line.to_owned()], std::slice::from_ref(&folder), &folder)?;
            let below = found.files.iter().map(|file| {
                let file = file.strip_prefix(&folder).unwrap_or(file);
                file.display().to_string()
            });
            Some(below.collect::<Vec<_>>())
        };
        for (line, expected) in [
            ("./program", &["interpreter", "program"][..]),
            ("make test", &["Makefile"]),
            ("make -C sub", &["Makefile", "sub/Makefile"]),
            ("make -sCsub", &["Makefile", "sub/Makefile"]),
            ("make --directory=sub", &["Makefile", "sub/Makefile"]),
            ("npm --prefix sub run build", &["sub/package.json"]),
            ("python3 -m pkg.mod", &["pkg/mod.py"]),
            ("PYTHONPATH=lib python3 -V", &["lib"]),
            ("PYTHONPATH=/usr/lib:lib python3 -V", &["lib"]),
            ("env PYTHONPATH=lib python3 -V", &["lib"]),
            ("export PYTHONPATH=lib; python3 -V", &["lib"]),
            ("sh -c 'PYTHONPATH=lib python3 -V'", &["lib"]),
            ("PYTHONSTARTUP=start.py python3 -i", &["start.py"]),
            ("PYTHONPATH=data python3 -V", &[]),
            ("perl -Ilib -v", &["lib"]),
            ("perl -I lib -v", &["lib"]),
            ("python3 -V data", &[]),
            ("cat program", &[]),
        ] {
            let expected: Vec<String> = expected.iter().map(|file| (*file).to_owned()).collect();
            assert_eq!(named(line), Some(expected), "{line}");
        }
        assert_eq!(named("PYTHONPATH=. python3 -V"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_path_through_a_process_is_found_unless_it_is_data() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().to_owned();
        fs::write(folder.join("run.sh"), "x").unwrap();
        std::os::unix::fs::symlink("/proc/self/cwd/run.sh", folder.join("link")).unwrap();
        std::os::unix::fs::symlink("/proc/thread-self/cwd", folder.join("here")).unwrap();
        let found = |line: &str| {
            let found = find(&[line.to_owned()], std::slice::from_ref(&folder), &folder).unwrap();
            found.process_dependent_path
        };
        for line in [
            "sh /proc/self/cwd/run.sh",
            "sh /proc/thread-self/cwd/run.sh",
            "sh /dev/fd/../cwd/run.sh",
            "sh link",
            "sh here/run.sh",
            "cd here && sh run.sh",
            "cd /proc/self && sh cwd/run.sh",
            "python3 --file=/proc/self/cwd/run.sh",
            "sh < link",
            "python3 -c \"exec(open('/proc/self/cwd/run.sh').read())\"",
        ] {
            assert!(found(line).is_some(), "{line}");
        }
        for line in [
            "sh run.sh",
            "sh -c 'cat /proc/self/status > /dev/stderr'",
            "cat /proc/self/cwd/run.sh",
            "sh /dev/stdin < run.sh",
        ] {
            assert_eq!(found(line), None, "{line}");
        }
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
        let named = |line: &str| {
            let found = find(&[line.to_owned()], std::slice::from_ref(&folder), &folder)?;
            Some(found.files)
        };
        for (line, file) in [
            ("sh a,b.sh", "a,b.sh"),
            ("sh './my run.sh'", "my run.sh"),
            ("sh 'ru'n.sh; X=1", "run.sh"),
            ("sh r\\un.sh; X=1", "run.sh"),
            ("sh './my run.sh'; X=1", "my run.sh"),
            ("sh ./my\\ run.sh; X=1", "my run.sh"),
            ("X=1; sh \"./my run\".sh", "my run.sh"),
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
        assert!(named("for i in 1 2; do echo 1; done").is_some());
    }

    #[cfg(unix)]
    #[test]
    fn the_targets_of_links_are_found_in_all_commands() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().canonicalize().unwrap();
        fs::create_dir_all(folder.join("real")).unwrap();
        fs::write(folder.join("real/notes"), "x").unwrap();
        std::os::unix::fs::symlink("real", folder.join("link")).unwrap();
        std::os::unix::fs::symlink("gone", folder.join("new")).unwrap();
        let targets = |line: &str| -> Vec<String> {
            let found = find(&[line.to_owned()], std::slice::from_ref(&folder), &folder).unwrap();
            let name = |path: &PathBuf| path.strip_prefix(&folder).unwrap().display().to_string();
            let links = found.link_targets.iter();
            links
                .map(|(path, target)| format!("{} {}", name(path), name(target)))
                .collect()
        };
        for (line, expected) in [
            ("cd link && make", "link real"),
            ("rm link/notes", "link/notes real/notes"),
            ("git diff link", "link real"),
            ("echo x > link/notes", "link/notes real/notes"),
            ("echo x >> new", "new gone"),
            ("sort < link/notes", "link/notes real/notes"),
            ("tar --directory=link -x", "link real"),
            (
                "for i in 1; do cat link/notes; done",
                "link/notes real/notes",
            ),
        ] {
            let found = targets(line);
            assert!(found.iter().any(|one| one == expected), "{line}: {found:?}");
        }
        assert_eq!(targets("cat real/notes > real/copy"), [""; 0]);
    }
}

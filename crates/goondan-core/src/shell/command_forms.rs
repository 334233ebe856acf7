//! Programs that a user can allow with any arguments.
//!
//! A pattern is a rule that a user would write: `git diff *`, `ls *`, `npm run test *`. Only
//! programs of these lists have one. For any other program, it is unknown which of its words
//! selects its operation. `rm a *` describes no kind of command, and `python3 x.py *` runs the
//! content of `x.py` at that time.

use super::{CommandPart, CommandPartKind};
use goondan_spec::command_line::is_path_inside;
use goondan_spec::pattern::atoms;

/// Group of commands that a user can allow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandForm {
    /// Its pattern. A command without anything in place of `*` also matches.
    pub pattern: String,
    /// Requires a sandbox. Such commands run files of the working directory, which the agent can
    /// write, or their arguments can make them write anywhere.
    pub needs_sandbox: bool,
}

/// Programs that print their input, and run nothing.
pub(super) const READ_ONLY_PROGRAMS: [&str; 29] = [
    "basename", "cat", "cmp", "comm", "cut", "df", "diff", "dirname", "du", "echo", "egrep",
    "false", "fgrep", "file", "grep", "head", "jq", "ls", "nl", "printf", "pwd", "realpath",
    "stat", "tail", "test", "tr", "true", "wc", "which",
];

/// Programs for which [`never_reads_files`] returns true.
const NON_READING_PROGRAMS: [&str; 4] = ["mkdir", "rm", "rmdir", "touch"];

/// Programs with a single purpose that run files of the working directory.
pub(super) const SINGLE_PURPOSE_PROGRAMS: [&str; 14] = [
    "clippy-driver",
    "ctest",
    "eslint",
    "gofmt",
    "jest",
    "mocha",
    "mypy",
    "ninja",
    "prettier",
    "pytest",
    "rustfmt",
    "tox",
    "tsc",
    "vitest",
];

/// Programs whose first word selects a subcommand.
pub(super) const SUBCOMMAND_PROGRAMS: [&str; 22] = [
    "bazel", "bundle", "cabal", "cargo", "composer", "dotnet", "git", "go", "gradle", "just",
    "make", "mix", "mvn", "npm", "pip", "pip3", "pnpm", "poetry", "rake", "ruff", "uv", "yarn",
];

/// Subcommands of git that never run or write anything, with any arguments. Excludes `git diff`,
/// which has `--output`.
const GIT_READ_ONLY_SUBCOMMANDS: [&str; 7] = [
    "blame",
    "describe",
    "ls-files",
    "ls-tree",
    "rev-list",
    "rev-parse",
    "status",
];

/// Subcommands of git that only print, except through options such as `--output`.
const GIT_PRINTING_SUBCOMMANDS: [&str; 16] = [
    "blame",
    "cat-file",
    "cherry",
    "describe",
    "diff",
    "for-each-ref",
    "grep",
    "log",
    "ls-files",
    "ls-tree",
    "name-rev",
    "rev-list",
    "rev-parse",
    "shortlog",
    "show",
    "status",
];

/// Words after which the next word selects the program to run.
const RUN_SUBCOMMANDS: [&str; 4] = ["run", "run-script", "exec", "tool"];

/// Returns the form of a known command; `None` if a user could not judge a pattern for it.
pub fn form(part: &CommandPart) -> Option<CommandForm> {
    let words: Vec<&str> = part.start.iter().map(String::as_str).collect();
    let (&name, rest) = words
        .split_first()
        .filter(|_| part.what == CommandPartKind::Command)?;
    // Assignments before the name change the effect of a command as much as the name.
    let is_plain = part.whole.starts_with(&atoms(name));
    let form_of = |words: &[&str], needs_sandbox| CommandForm {
        pattern: format!("{} *", words.join(" ")),
        needs_sandbox,
    };
    match rest {
        _ if !is_plain => None,
        _ if READ_ONLY_PROGRAMS.contains(&name) => Some(form_of(&words[..1], false)),
        _ if SINGLE_PURPOSE_PROGRAMS.contains(&name) => Some(form_of(&words[..1], true)),
        // The pattern of `cd` names exactly one directory.
        [folder]
            if name == "cd"
                && is_path_inside(folder)
                && part.whole == atoms(&format!("cd {folder}")) =>
        {
            Some(CommandForm {
                pattern: format!("cd {folder}"),
                needs_sandbox: false,
            })
        }
        [command, ..] if !SUBCOMMAND_PROGRAMS.contains(&name) || !is_word(command) => None,
        [run, command, ..] if RUN_SUBCOMMANDS.contains(run) => {
            is_word(command).then(|| form_of(&words[..3], true))
        }
        [run] if RUN_SUBCOMMANDS.contains(run) => None,
        [command, ..] => Some(form_of(
            &words[..2],
            name != "git" || !GIT_READ_ONLY_SUBCOMMANDS.contains(command),
        )),
        [] => None,
    }
}

/// Returns true if the program neither runs, reads nor copies the files that its arguments name. The
/// files of such a command do not count.
pub fn never_reads_files(program: &str) -> bool {
    NON_READING_PROGRAMS.contains(&program)
}

/// Returns true if the program only prints the files that its arguments name.
pub fn only_reads_files(program: &str) -> bool {
    READ_ONLY_PROGRAMS.contains(&program)
}

/// Returns true if the command has the purpose to print. Its sandbox then needs no write access, so no
/// option of it writes a file.
pub fn only_prints(part: &CommandPart) -> bool {
    let words: Vec<&str> = part.start.iter().map(String::as_str).collect();
    let is_plain = |name: &str| part.whole.starts_with(&atoms(name));
    match words.as_slice() {
        [name, ..] if !is_plain(name) => false,
        ["git", subcommand, ..] => GIT_PRINTING_SUBCOMMANDS.contains(subcommand),
        [name, ..] => READ_ONLY_PROGRAMS.contains(name),
        [] => false,
    }
}

/// Returns true if a word is a name of an operation, not an option, a path or a pattern.
fn is_word(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_alphabetic())
        && word
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | ':'))
}

#[cfg(test)]
mod tests {
    use super::super::parts;
    use super::*;

    fn forms(line: &str) -> Vec<Option<String>> {
        parts(line)
            .iter()
            .map(|part| Some(form(part)?.pattern))
            .collect()
    }

    #[test]
    fn a_command_form_is_a_program_and_its_subcommand() {
        let single = |form: &str| vec![Some(form.to_owned())];
        for (line, expected) in [
            ("git diff --stat src", "git diff *"),
            ("git diff", "git diff *"),
            ("ls", "ls *"),
            ("cat 'a b'", "cat *"),
            ("timeout 5 cargo test -p x", "cargo test *"),
            ("npm run test:unit -- -x", "npm run test:unit *"),
            ("pytest tests/a.py", "pytest *"),
            ("cd sub/folder", "cd sub/folder"),
        ] {
            assert_eq!(forms(line), single(expected), "{line}");
        }
        assert_eq!(forms("cargo fmt && cargo test").len(), 2);
    }

    #[test]
    fn commands_that_cannot_be_judged_have_no_form() {
        for line in [
            "rm build",
            "python3 gen.py",
            "sh run.sh",
            "./git diff",
            "/tmp/git diff",
            "tools/ls",
            "PATH=. git diff",
            "git -C x diff",
            "git -c core.pager=x diff",
            "git bisect run x",
            "npm run",
            "go run main.go",
            "make -f other.mk",
            "cargo ../x",
            "git 'dif f'",
            "git d*",
            "cd",
            "cd a b",
            "cd ../a",
            "cd /a",
            "cd *",
            "for x in 1; do git diff; done",
            "git diff $x",
            "find . -exec git '{}' ';'",
        ] {
            assert!(
                forms(line).iter().all(Option::is_none),
                "{line}: {:?}",
                forms(line)
            );
        }
    }

    #[test]
    fn a_command_that_only_prints_needs_no_write_access() {
        let prints = |line: &str| parts(line).iter().all(only_prints);
        for line in [
            "git log --output=goondan.yaml",
            "git diff HEAD",
            "timeout 5 git show x",
            "ls -l",
            "jq . a.json",
        ] {
            assert!(prints(line), "{line}");
        }
        for line in [
            "git -C x log",
            "git commit -m x",
            "GIT_DIR=x git log",
            "./git log",
            "sort -o x y",
            "git l*",
        ] {
            assert!(!prints(line), "{line}");
        }
    }

    #[test]
    fn different_commands_have_different_forms() {
        for line in [
            "git difftool x",
            "git diffx",
            "./git diff x",
            "git log",
            "X=1 git diff",
            "sudo git diff",
        ] {
            assert!(
                !forms(line).contains(&Some("git diff *".to_owned())),
                "{line}"
            );
        }
        assert_eq!(
            forms("git diff > out"),
            [Some("git diff *".to_owned()), None]
        );
    }
}

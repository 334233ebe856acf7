//! The programs of which a person may say: this one, whatever its arguments are.
//!
//! A pattern that is made here is one that somebody would write into a rule: `git diff *`, `ls *`, `npm run test *`. It is made
//! of programs of these lists alone. Of any other nobody can tell which of its words says what it does: `rm a *` is no kind of
//! command, and `python3 x.py *` runs whatever is in `x.py` by then.

use super::{Part, What};
use goondan_spec::command_line::stays_inside;
use goondan_spec::pattern::atoms;

/// A form of commands that a person may allow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Form {
    /// Its pattern. Without anything in place of `*` a command is of the form, too.
    pub pattern: String,
    /// It runs files of the folder, which whoever asks may write, or its arguments may have it write anywhere: a sandbox has to
    /// contain it.
    pub needs_sandbox: bool,
}

/// Programs that print what they read, and run nothing.
const READING: [&str; 30] = [
    "basename", "cat", "cmp", "comm", "cut", "date", "df", "diff", "dirname", "du", "echo",
    "egrep", "false", "fgrep", "file", "grep", "head", "jq", "ls", "nl", "printf", "pwd",
    "realpath", "stat", "tail", "test", "tr", "true", "wc", "which",
];

/// Programs that do one thing, and for that run what is in the folder.
const RUNNING: [&str; 14] = [
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

/// Programs whose first word says what they do.
const WITH_COMMANDS: [&str; 22] = [
    "bazel", "bundle", "cabal", "cargo", "composer", "dotnet", "git", "go", "gradle", "just",
    "make", "mix", "mvn", "npm", "pip", "pip3", "pnpm", "poetry", "rake", "ruff", "uv", "yarn",
];

/// What git does without running or writing anything, whatever the arguments are. `git diff` has `--output`.
const GIT_READS: [&str; 7] = [
    "blame",
    "describe",
    "ls-files",
    "ls-tree",
    "rev-list",
    "rev-parse",
    "status",
];

/// Words behind which the next one says what runs.
const RUN: [&str; 4] = ["run", "run-script", "exec", "tool"];

/// The form of a command that is known; `None` where there is none that a person could judge.
pub fn form(part: &Part) -> Option<Form> {
    let words: Vec<&str> = part.start.iter().map(String::as_str).collect();
    let (&name, rest) = words.split_first().filter(|_| part.what == What::Command)?;
    // Assignments before it say what it does as much as its name.
    let is_plain = part.whole.starts_with(&atoms(name));
    let of = |words: &[&str], needs_sandbox| Form {
        pattern: format!("{} *", words.join(" ")),
        needs_sandbox,
    };
    match rest {
        _ if !is_plain => None,
        _ if READING.contains(&name) => Some(of(&words[..1], false)),
        _ if RUNNING.contains(&name) => Some(of(&words[..1], true)),
        // Each folder is one of its own.
        [folder]
            if name == "cd"
                && stays_inside(folder)
                && part.whole == atoms(&format!("cd {folder}")) =>
        {
            Some(Form {
                pattern: format!("cd {folder}"),
                needs_sandbox: false,
            })
        }
        [command, ..] if !WITH_COMMANDS.contains(&name) || !is_word(command) => None,
        [run, command, ..] if RUN.contains(run) => is_word(command).then(|| of(&words[..3], true)),
        [run] if RUN.contains(run) => None,
        [command, ..] => Some(of(
            &words[..2],
            name != "git" || !GIT_READS.contains(command),
        )),
        [] => None,
    }
}

/// A word that names what a program does, not an option, a path or a pattern.
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
    fn a_form_is_a_program_and_what_it_does() {
        let some = |form: &str| vec![Some(form.to_owned())];
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
            assert_eq!(forms(line), some(expected), "{line}");
        }
        assert_eq!(forms("cargo fmt && cargo test").len(), 2);
    }

    #[test]
    fn nobody_is_offered_what_cannot_be_judged() {
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
    fn another_command_is_of_another_form() {
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

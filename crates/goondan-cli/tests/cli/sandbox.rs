//! A separate directory for each test, in which `gdn` runs with a clean environment.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

/// An empty directory with a state root next to it.
pub(crate) struct Sandbox {
    root: TempDir,
}

/// Result of a command.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// The exit code.
    pub(crate) code: i32,
    /// Standard output.
    pub(crate) stdout: String,
    /// Standard error.
    pub(crate) stderr: String,
}

impl Sandbox {
    pub(crate) fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("work")).unwrap();
        Sandbox { root }
    }

    /// Returns the directory in which commands run.
    pub(crate) fn dir(&self) -> PathBuf {
        self.root.path().join("work")
    }

    /// Returns the state root.
    pub(crate) fn state(&self) -> PathBuf {
        self.root.path().join("state")
    }

    /// Writes `text` to `path` below the directory.
    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.dir().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// Returns `gdn` with `arguments`, not started yet. All projects are trusted.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.command_without_trust(arguments);
        command.env("GOONDAN_TRUST", "1");
        command
    }

    /// Returns `gdn` with `arguments`, not started yet. No project is trusted.
    pub(crate) fn command_without_trust(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gdn"));
        command.args(arguments).current_dir(self.dir()).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command
            .env("HOME", self.root.path())
            .env("GOONDAN_STATE_ROOT", self.state());
        command
    }

    /// Runs `gdn` with empty standard input.
    pub(crate) fn gdn(&self, arguments: &[&str]) -> Outcome {
        outcome_of(
            self.command(arguments)
                .stdin(Stdio::null())
                .output()
                .unwrap(),
        )
    }

    /// Creates a named pipe.
    #[cfg(unix)]
    pub(crate) fn named_pipe(&self, path: &str) -> PathBuf {
        let pipe = self.dir().join(path);
        let created = Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(created.success());
        pipe
    }

    /// Runs `command` with empty standard input.
    pub(crate) fn run_command(&self, mut command: Command) -> Outcome {
        outcome_of(command.stdin(Stdio::null()).output().unwrap())
    }

    /// Runs `gdn` in a subdirectory, with empty standard input.
    pub(crate) fn gdn_in(&self, folder: &str, arguments: &[&str]) -> Outcome {
        let mut command = self.command(arguments);
        outcome_of(
            command
                .current_dir(self.dir().join(folder))
                .stdin(Stdio::null())
                .output()
                .unwrap(),
        )
    }

    /// Runs `gdn` with the Rust toolchain of this machine, without network access. All tests share
    /// one build directory, so that only the first build is slow.
    pub(crate) fn gdn_with_toolchain(&self, arguments: &[&str]) -> Outcome {
        let mut command = self.command(arguments);
        let home = PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
        for (name, folder) in [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")] {
            command.env(
                name,
                std::env::var_os(name).map_or_else(|| home.join(folder), PathBuf::from),
            );
        }
        let shared = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tools");
        command
            .env("CARGO_BUILD_BUILD_DIR", shared)
            .env("CARGO_NET_OFFLINE", "true");
        command.env_remove("CARGO_TARGET_DIR");
        outcome_of(command.stdin(Stdio::null()).output().unwrap())
    }

    /// Runs `gdn` with `input` on standard input.
    pub(crate) fn gdn_with_stdin(&self, arguments: &[&str], input: &str) -> Outcome {
        let mut command = self.command(arguments);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // A command that refuses its arguments does not read its input, and the write may fail.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        outcome_of(child.wait_with_output().unwrap())
    }

    /// Returns snapshot settings that replace paths, times and durations.
    pub(crate) fn settings(&self) -> insta::Settings {
        let mut settings = insta::Settings::clone_current();
        for (path, name) in [
            (self.dir(), "[DIR]"),
            (self.state(), "[STATE]"),
            (self.root.path().to_owned(), "[ROOT]"),
        ] {
            settings.add_filter(&escaped(&path), name);
        }
        settings.add_filter(r"\bp-[0-9a-f]{12}\b", "p-[HASH]");
        settings.add_filter(r"(under )?\d+ ms", "[N] ms");
        settings.add_filter(r"in \d+\.\d s", "in [N] s");
        settings.add_filter(
            r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?([+-]\d\d:\d\d|Z)?",
            "[TIME]",
        );
        settings.set_omit_expression(true);
        settings
    }
}

impl Outcome {
    /// Asserts success. Returns standard output.
    #[track_caller]
    pub(crate) fn ok(&self) -> &str {
        assert_eq!(self.code, 0, "{self:#?}");
        &self.stdout
    }

    /// Returns the exit code and all output in one text.
    pub(crate) fn report(&self) -> String {
        format!(
            "exit: {}\n---- stdout\n{}---- stderr\n{}",
            self.code, self.stdout, self.stderr
        )
    }
}

/// Reads events until one has the type `kind`.
#[cfg(unix)]
pub(crate) fn read_until_event(events: &mut impl std::io::BufRead, kind: &str) {
    for line in std::io::BufRead::lines(events) {
        let event: serde_json::Value = serde_json::from_str(&line.unwrap()).unwrap();
        if event["type"] == kind {
            return;
        }
    }
    panic!("no {kind} was received");
}

fn outcome_of(output: Output) -> Outcome {
    Outcome {
        code: output.status.code().expect("the command was not killed"),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Returns a regular expression that matches the path.
fn escaped(path: &Path) -> String {
    path.to_str().unwrap().replace('.', r"\.")
}

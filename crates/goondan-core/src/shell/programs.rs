//! Programs and built-ins that run other commands.

use super::options;
use super::unwrap::Known;

/// A program that runs the command in its arguments.
pub(super) struct Wrapper {
    pub(super) name: &'static str,
    /// Options that take the next word.
    pub(super) valued: &'static [&'static str],
    /// Options that stand alone, or with their value in the same word.
    flags: &'static [&'static str],
    /// Words before the command.
    pub(super) positional: usize,
    /// Takes `NAME=value` before the command.
    pub(super) assigns: bool,
    /// Adds arguments of its own.
    pub(super) appends: bool,
    /// Runs it with other rights.
    pub(super) elevates: bool,
}

impl Wrapper {
    /// Whether `option` is one of those that change nothing about what runs.
    pub(super) fn knows(&self, option: &str) -> bool {
        let with_value = |known: &&str| {
            let short = known.len() == 2 && !option.starts_with("--") && option.starts_with(*known);
            short
                || option
                    .strip_prefix(*known)
                    .is_some_and(|rest| rest.starts_with('='))
        };
        self.flags.contains(&option) || self.valued.iter().any(with_value)
    }
}

const PLAIN: Wrapper = Wrapper {
    name: "",
    valued: &[],
    flags: &[],
    positional: 0,
    assigns: false,
    appends: false,
    elevates: false,
};

const WRAPPERS: [Wrapper; 9] = [
    Wrapper {
        name: "nohup",
        ..PLAIN
    },
    Wrapper {
        name: "setsid",
        flags: &["-f", "-w", "-c", "--fork", "--wait"],
        ..PLAIN
    },
    Wrapper {
        name: "nice",
        valued: &["-n", "--adjustment"],
        ..PLAIN
    },
    Wrapper {
        name: "ionice",
        valued: &["-c", "-n"],
        flags: &["-t"],
        ..PLAIN
    },
    Wrapper {
        name: "stdbuf",
        valued: &["-i", "-o", "-e"],
        ..PLAIN
    },
    Wrapper {
        name: "timeout",
        valued: &["-k", "-s", "--kill-after", "--signal"],
        flags: &["--foreground", "--preserve-status", "-v", "--verbose"],
        positional: 1,
        ..PLAIN
    },
    Wrapper {
        name: "env",
        valued: &["-u", "--unset"],
        flags: &["-i", "-0"],
        assigns: true,
        ..PLAIN
    },
    Wrapper {
        name: "xargs",
        valued: &[
            "-n",
            "-P",
            "-L",
            "-d",
            "-s",
            "-E",
            "--max-args",
            "--max-procs",
            "--delimiter",
        ],
        flags: &[
            "-0",
            "-r",
            "-t",
            "-x",
            "--null",
            "--no-run-if-empty",
            "--verbose",
        ],
        appends: true,
        ..PLAIN
    },
    Wrapper {
        name: "sudo",
        valued: &["-u", "-g"],
        flags: &["-n", "-E", "-H", "-k"],
        elevates: true,
        assigns: true,
        ..PLAIN
    },
];

/// The wrapper of that name.
pub(super) fn wrapper(name: &str) -> Option<&'static Wrapper> {
    let name = if name == "doas" { "sudo" } else { name };
    WRAPPERS.iter().find(|wrapper| wrapper.name == name)
}

/// Programs that run what can't be seen.
const HIDING: [&str; 12] = [
    "busybox", "chroot", "expect", "gdb", "nsenter", "parallel", "script", "strace", "su",
    "toybox", "unshare", "watch",
];

/// Programs that run a script. One in a file is an argument as any other.
const SHELLS: [&str; 8] = ["ash", "bash", "dash", "fish", "ksh", "rbash", "sh", "zsh"];

/// Why it can't be told what the command `name` runs.
pub(super) fn hides(name: &str, words: &[Known]) -> Option<String> {
    let is_script = |word: &Known| {
        word.text()
            .is_some_and(|text| !text.is_empty() && !text.starts_with('-'))
    };
    if SHELLS.contains(&name) && !words.get(1).is_some_and(is_script) {
        return Some(format!("nobody knows what `{name}` is given to run"));
    }
    if HIDING.contains(&name) {
        return Some(format!("`{name}` runs what can't be seen"));
    }
    options::running(name, words)
}

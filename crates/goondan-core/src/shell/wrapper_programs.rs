//! Programs and built-ins that run other commands.

use super::running_options;
use super::unwrap::PartialWord;

/// A program that runs the command in its arguments.
pub(super) struct WrapperProgram {
    pub(super) name: &'static str,
    /// Options that take the next word.
    pub(super) valued: &'static [&'static str],
    /// Options without a value, or with the value in the same word.
    flags: &'static [&'static str],
    /// Number of positional arguments before the command, such as 1 for `timeout 5 ls`.
    pub(super) positional: usize,
    /// Accepts `NAME=value` before the command.
    pub(super) assigns: bool,
    /// Appends arguments to the command.
    pub(super) appends: bool,
    /// Runs the command with other privileges.
    pub(super) elevates: bool,
}

impl WrapperProgram {
    /// Returns true if `option` does not change which command runs.
    pub(super) fn is_neutral_option(&self, option: &str) -> bool {
        let with_value = |known: &&str| {
            let is_short_with_value =
                known.len() == 2 && !option.starts_with("--") && option.starts_with(*known);
            is_short_with_value
                || option
                    .strip_prefix(*known)
                    .is_some_and(|rest| rest.starts_with('='))
        };
        self.flags.contains(&option) || self.valued.iter().any(with_value)
    }
}

const PLAIN_WRAPPER: WrapperProgram = WrapperProgram {
    name: "",
    valued: &[],
    flags: &[],
    positional: 0,
    assigns: false,
    appends: false,
    elevates: false,
};

const WRAPPERS: [WrapperProgram; 9] = [
    WrapperProgram {
        name: "nohup",
        ..PLAIN_WRAPPER
    },
    WrapperProgram {
        name: "setsid",
        flags: &["-f", "-w", "-c", "--fork", "--wait"],
        ..PLAIN_WRAPPER
    },
    WrapperProgram {
        name: "nice",
        valued: &["-n", "--adjustment"],
        ..PLAIN_WRAPPER
    },
    WrapperProgram {
        name: "ionice",
        valued: &["-c", "-n"],
        flags: &["-t"],
        ..PLAIN_WRAPPER
    },
    WrapperProgram {
        name: "stdbuf",
        valued: &["-i", "-o", "-e"],
        ..PLAIN_WRAPPER
    },
    WrapperProgram {
        name: "timeout",
        valued: &["-k", "-s", "--kill-after", "--signal"],
        flags: &["--foreground", "--preserve-status", "-v", "--verbose"],
        positional: 1,
        ..PLAIN_WRAPPER
    },
    WrapperProgram {
        name: "env",
        valued: &["-u", "--unset"],
        flags: &["-i", "-0"],
        assigns: true,
        ..PLAIN_WRAPPER
    },
    WrapperProgram {
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
        ..PLAIN_WRAPPER
    },
    WrapperProgram {
        name: "sudo",
        valued: &["-u", "-g"],
        flags: &["-n", "-E", "-H", "-k"],
        elevates: true,
        assigns: true,
        ..PLAIN_WRAPPER
    },
];

/// Returns the wrapper program `name`; `None` for any other program.
pub(super) fn find_wrapper(name: &str) -> Option<&'static WrapperProgram> {
    let name = if name == "doas" { "sudo" } else { name };
    WRAPPERS.iter().find(|wrapper| wrapper.name == name)
}

/// Programs that run commands that can't be analyzed.
const OPAQUE_PROGRAMS: [&str; 12] = [
    "busybox", "chroot", "expect", "gdb", "nsenter", "parallel", "script", "strace", "su",
    "toybox", "unshare", "watch",
];

/// Programs that run a script. A script in a file is treated like any other argument.
const SHELLS: [&str; 20] = [
    "ash", "bash", "csh", "dash", "elvish", "fish", "ksh", "lksh", "mksh", "nu", "osh", "pdksh",
    "posh", "pwsh", "rbash", "sh", "tcsh", "xonsh", "yash", "zsh",
];

/// Returns true if the word is the name or the path of a shell.
pub fn is_shell(word: &str) -> bool {
    SHELLS.contains(&word.rsplit('/').next().unwrap_or_default())
}

/// Returns the reason why it is unknown what the command `name` runs.
pub(super) fn hidden_reason(name: &str, words: &[PartialWord]) -> Option<String> {
    let is_script = |word: &PartialWord| {
        word.text()
            .is_some_and(|text| !text.is_empty() && !text.starts_with(['-', '+']))
    };
    if SHELLS.contains(&name) && !words.get(1).is_some_and(is_script) {
        return Some(format!("the input that `{name}` runs is unknown"));
    }
    if OPAQUE_PROGRAMS.contains(&name) {
        return Some(format!("`{name}` runs commands that can't be checked"));
    }
    running_options::running_reason(name, words)
}

//! Options with which well-known programs run other programs.
//!
//! Programs accept options in many spellings: abbreviated, in clusters, with the value in the same
//! word. So a word that is possibly such an option is treated as one, and so is every option that
//! is not completely known.

use goondan_spec::pattern::PatternAtom;

use super::unwrap::PartialWord;

/// A program whose arguments can run other programs.
struct RunningOptions {
    name: &'static str,
    /// Options of one letter, alone or in a cluster.
    letters: &'static str,
    /// Long options, without `--`. They can be abbreviated.
    long: &'static [&'static str],
    /// First words that select a subcommand.
    commands: &'static [&'static str],
    /// The first argument is a cluster of letters even without a dash.
    old_style: bool,
}

const NO_RUNNING_OPTIONS: RunningOptions = RunningOptions {
    name: "",
    letters: "",
    long: &[],
    commands: &[],
    old_style: false,
};

/// This list can never be complete: a pattern such as `python *` allows everything that the program
/// can do.
const PROGRAMS_WITH_RUNNING_OPTIONS: [RunningOptions; 6] = [
    RunningOptions {
        name: "git",
        letters: "cxO",
        long: &[
            "config-env",
            "exec-path",
            "upload-pack",
            "receive-pack",
            "exec",
            "extcmd",
            "open-files-in-pager",
            "ext-diff",
        ],
        commands: &[
            "foreach",
            "filter-branch",
            "difftool",
            "mergetool",
            "bisect",
        ],
        ..NO_RUNNING_OPTIONS
    },
    RunningOptions {
        name: "tar",
        letters: "IF",
        long: &[
            "checkpoint-action",
            "to-command",
            "use-compress-program",
            "rsh-command",
            "rmt-command",
            "info-script",
            "new-volume-script",
        ],
        old_style: true,
        ..NO_RUNNING_OPTIONS
    },
    RunningOptions {
        name: "rsync",
        letters: "e",
        long: &["rsh", "rsync-path"],
        ..NO_RUNNING_OPTIONS
    },
    RunningOptions {
        name: "fd",
        ..FD_OPTIONS
    },
    RunningOptions {
        name: "fdfind",
        ..FD_OPTIONS
    },
    RunningOptions {
        name: "ssh",
        letters: "oF",
        ..NO_RUNNING_OPTIONS
    },
];

const FD_OPTIONS: RunningOptions = RunningOptions {
    letters: "xX",
    long: &["exec", "exec-batch"],
    ..NO_RUNNING_OPTIONS
};

/// Returns the reason why the program `name` can run other programs with these arguments.
pub(super) fn running_reason(name: &str, words: &[PartialWord]) -> Option<String> {
    let program = PROGRAMS_WITH_RUNNING_OPTIONS
        .iter()
        .find(|program| program.name == name)?;
    let arguments = words.get(1..).unwrap_or_default();
    let end = arguments
        .iter()
        .position(|word| word.text().as_deref() == Some("--"))
        .unwrap_or(arguments.len());
    let arguments = arguments.get(..end).unwrap_or_default();
    let is_clone = |word: &PartialWord| word.text().as_deref() == Some("clone");
    let clones = name == "git" && arguments.iter().any(is_clone);
    let concerning = arguments
        .iter()
        .enumerate()
        .find(|(at, word)| match word.text() {
            // The program on the other side of a clone, which for a path is a local one.
            Some(text) if clones && is_cluster_with(&text, 'u') => true,
            Some(text) => program.may_run(&text, *at == 0),
            None => program.is_uncertain(arguments, *at),
        });
    Some(match concerning?.1.text() {
        Some(text) => format!("`{name}` can run programs through its argument `{text}`"),
        None => {
            format!("`{name}` can run programs through its arguments, and some of them are unknown")
        }
    })
}

/// Returns true if a word is a cluster of short options that contains `letter`.
fn is_cluster_with(word: &str, letter: char) -> bool {
    word.starts_with('-') && !word.starts_with("--") && word.contains(letter)
}

/// Returns true if a word may be an option whose text is only partly known, for example because it
/// contains a variable.
pub(super) fn is_unknown_option(word: &PartialWord) -> bool {
    word.text().is_none()
        && !word.is_path
        && matches!(
            word.atoms.first(),
            Some(PatternAtom::Any | PatternAtom::One | PatternAtom::Char('-'))
        )
}

impl RunningOptions {
    /// Returns true if a known argument can make the program run others.
    fn may_run(&self, text: &str, is_first: bool) -> bool {
        if let Some(long) = text.strip_prefix("--") {
            let name = long.split('=').next().unwrap_or_default();
            return self
                .long
                .iter()
                .any(|known| known.starts_with(name) || name.starts_with(known));
        }
        let cluster = text
            .strip_prefix('-')
            .or_else(|| Some(text).filter(|_| is_first && self.old_style));
        if let Some(cluster) = cluster {
            return cluster.contains(|letter| self.letters.contains(letter));
        }
        self.commands
            .iter()
            .any(|command| text.starts_with(command))
    }

    /// Returns true if a partly unknown argument can make the program run others.
    fn is_uncertain(&self, arguments: &[PartialWord], at: usize) -> bool {
        let Some(word) = arguments.get(at) else {
            return false;
        };
        let before = arguments.get(..at).unwrap_or_default();
        if is_unknown_option(word) {
            return !(self.name == "git" && is_message(before, word));
        }
        let known_prefix: String = word.atoms.iter().map_while(known_char).collect();
        let may_be = |command: &&'static str| {
            command.starts_with(&known_prefix) || known_prefix.starts_with(command)
        };
        (at == 0 && self.old_style)
            || (!has_certain_subcommand(before) && self.commands.iter().any(may_be))
    }
}

/// Returns the character of a known atom; `None` for an unknown atom.
fn known_char(atom: &PatternAtom) -> Option<char> {
    if let PatternAtom::Char(letter) = atom {
        Some(*letter)
    } else {
        None
    }
}

/// Returns true if the arguments of git certainly determine its subcommand. A word after an option
/// can be its value.
fn has_certain_subcommand(before: &[PartialWord]) -> bool {
    let is_option = |at: usize| {
        before
            .get(at)
            .and_then(PartialWord::text)
            .is_none_or(|text| text.starts_with('-'))
    };
    let command = (0..before.len()).find(|at| !is_option(*at) && (*at == 0 || !is_option(*at - 1)));
    // The next word selects the operation of `git submodule`.
    command.is_some_and(|at| {
        before.get(at).and_then(PartialWord::text).as_deref() != Some("submodule")
    })
}

/// Returns true if a word is the message of a commit or a tag, which git treats only as text.
fn is_message(before: &[PartialWord], word: &PartialWord) -> bool {
    let text = |word: Option<&PartialWord>| word.and_then(PartialWord::text).unwrap_or_default();
    let option = text(before.last());
    let is_cluster = || {
        let flags = option
            .strip_prefix('-')
            .and_then(|cluster| cluster.strip_suffix('m'));
        flags.is_some_and(|flags| flags.chars().all(|flag| "aensqv".contains(flag)))
    };
    // No option of these subcommands runs a program, regardless of the arguments before.
    !word.is_open
        && match text(before.first()).as_str() {
            "commit" => option == "--message" || is_cluster(),
            "tag" | "merge" | "notes" => matches!(option.as_str(), "-m" | "--message"),
            _ => false,
        }
}

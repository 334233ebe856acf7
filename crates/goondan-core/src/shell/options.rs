//! Options by which well-known programs run other programs.
//!
//! Programs read options in many spellings: shortened, in clusters, with values in the same word. So what may be such an option
//! counts as one, and so does every option that is not known as a whole before the line runs.

use goondan_spec::pattern::Atom;

use super::unwrap::Known;

/// A program with arguments by which it runs other programs.
struct Running {
    name: &'static str,
    /// Options of one letter, which may stand in a cluster.
    letters: &'static str,
    /// Options of a word, without `--`. They may be shortened.
    long: &'static [&'static str],
    /// First words that say what it does.
    commands: &'static [&'static str],
    /// The first argument is a cluster of letters even without a dash.
    old_style: bool,
}

const NOTHING: Running = Running {
    name: "",
    letters: "",
    long: &[],
    commands: &[],
    old_style: false,
};

/// No list of these is ever complete: a pattern such as `python *` allows whatever that program can do.
const RUNNING: [Running; 6] = [
    Running {
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
        ..NOTHING
    },
    Running {
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
        ..NOTHING
    },
    Running {
        name: "rsync",
        letters: "e",
        long: &["rsh", "rsync-path"],
        ..NOTHING
    },
    Running { name: "fd", ..FD },
    Running {
        name: "fdfind",
        ..FD
    },
    Running {
        name: "ssh",
        letters: "oF",
        ..NOTHING
    },
];

const FD: Running = Running {
    letters: "xX",
    long: &["exec", "exec-batch"],
    ..NOTHING
};

/// Why the program `name` may run other programs by its arguments.
pub(super) fn running(name: &str, words: &[Known]) -> Option<String> {
    let program = RUNNING.iter().find(|program| program.name == name)?;
    let arguments = words.get(1..).unwrap_or_default();
    let end = arguments
        .iter()
        .position(|word| word.text().as_deref() == Some("--"))
        .unwrap_or(arguments.len());
    let arguments = arguments.get(..end).unwrap_or_default();
    let concerning = arguments
        .iter()
        .enumerate()
        .find(|(at, word)| match word.text() {
            Some(text) => program.may_run(&text, *at == 0),
            None => program.is_uncertain(arguments, *at),
        });
    Some(match concerning?.1.text() {
        Some(text) => format!("`{name}` can run programs by its argument `{text}`"),
        None => format!("`{name}` can run programs by its arguments, and they are not all known"),
    })
}

/// Whether a word is an option of which it is not certain which one it is.
pub(super) fn is_unknown_option(word: &Known) -> bool {
    word.text().is_none()
        && !word.is_path
        && matches!(
            word.atoms.first(),
            Some(Atom::Any | Atom::One | Atom::Char('-'))
        )
}

impl Running {
    /// Whether an argument that is known may be one by which the program runs others.
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

    /// Whether an argument that is not all known may be one by which the program runs others.
    fn is_uncertain(&self, arguments: &[Known], at: usize) -> bool {
        let Some(word) = arguments.get(at) else {
            return false;
        };
        let before = arguments.get(..at).unwrap_or_default();
        if is_unknown_option(word) {
            return !(self.name == "git" && is_message(before, word));
        }
        let known: String = word.atoms.iter().map_while(letter).collect();
        let may_be =
            |command: &&'static str| command.starts_with(&known) || known.starts_with(command);
        (at == 0 && self.old_style) || (!says_what(before) && self.commands.iter().any(may_be))
    }
}

fn letter(atom: &Atom) -> Option<char> {
    if let Atom::Char(letter) = atom {
        Some(*letter)
    } else {
        None
    }
}

/// Whether the arguments of git say for certain which of its commands it is. A word behind an option may be its value.
fn says_what(before: &[Known]) -> bool {
    let is_option = |at: usize| {
        before
            .get(at)
            .and_then(Known::text)
            .is_none_or(|text| text.starts_with('-'))
    };
    let command = (0..before.len()).find(|at| !is_option(*at) && (*at == 0 || !is_option(*at - 1)));
    // What it does with each of them is in the word behind.
    command.is_some_and(|at| before.get(at).and_then(Known::text).as_deref() != Some("submodule"))
}

/// Whether a word is the message of a commit or a tag, which git reads as nothing else.
fn is_message(before: &[Known], word: &Known) -> bool {
    let text = |word: Option<&Known>| word.and_then(Known::text).unwrap_or_default();
    let option = text(before.last());
    let is_cluster = || {
        let flags = option
            .strip_prefix('-')
            .and_then(|cluster| cluster.strip_suffix('m'));
        flags.is_some_and(|flags| flags.chars().all(|flag| "aensqv".contains(flag)))
    };
    // None of these has an option that runs anything, whatever else stands before.
    !word.is_open
        && match text(before.first()).as_str() {
            "commit" => option == "--message" || is_cluster(),
            "tag" | "merge" | "notes" => matches!(option.as_str(), "-m" | "--message"),
            _ => false,
        }
}

//! What a policy decides about in a script: its commands, the files that it opens, and the folders that it goes to.

use goondan_spec::command_line::{
    Command, Group, Piece, Redirect, Script, Stage, Target, stays_inside,
};
use goondan_spec::discover::is_resource_file;
use goondan_spec::pattern::{Atom, atoms};

use super::unwrap::{self, Known, Simple};
use super::{Part, What, excerpt};
use crate::protected::Why;

/// The parts of a script, in its order.
pub(super) fn of(script: &Script) -> Vec<Part> {
    let mut walk = Walk {
        parts: Vec::new(),
        stays: script.stays(),
    };
    walk.script(script);
    walk.parts
}

struct Walk {
    parts: Vec<Part>,
    /// No `cd` leaves the folder.
    stays: bool,
}

impl Walk {
    fn script(&mut self, script: &Script) {
        for stage in script.steps.iter().flat_map(|step| &step.stages) {
            match stage {
                Stage::Command(command) => self.command(command),
                Stage::Group(group) => self.group(group),
            }
        }
    }

    fn group(&mut self, group: &Group) {
        let first = self.parts.len();
        self.script(&group.script);
        if let Some(shell) = &group.shell {
            // What restricts the shell restricts all that it is given.
            let mut named = atoms(shell);
            named.extend([Atom::Char(' '), Atom::Any]);
            self.parts
                .iter_mut()
                .skip(first)
                .for_each(|part| part.names.push(named.clone()));
        }
        group
            .redirects
            .iter()
            .for_each(|redirect| self.redirect(redirect));
    }

    fn command(&mut self, command: &Command) {
        for piece in command.words.iter().flat_map(|word| &word.pieces) {
            if let Piece::Output(inner) = piece {
                self.script(inner);
            }
        }
        let assignment = |(name, value): &(String, String)| {
            let value = Known::new(atoms(value));
            [atoms(&format!("{name}=")), value.quoted()].concat()
        };
        let simple = Simple {
            number: command.number,
            assignments: command.assignments.iter().map(assignment).collect(),
            words: command
                .words
                .iter()
                .map(|word| Known {
                    is_open: word.is_glob(),
                    ..Known::new(word.atoms())
                })
                .collect(),
        };
        unwrap::command(simple, &mut self.parts);
        command
            .redirects
            .iter()
            .for_each(|redirect| self.redirect(redirect));
    }

    fn redirect(&mut self, redirect: &Redirect) {
        let (sign, path, is_read) = match &redirect.target {
            Target::Stream(_) | Target::Null => return,
            Target::Read(path) => ("< ", path, true),
            Target::Write { path, .. } => ("> ", path, false),
        };
        let inside = self.stays && stays_inside(path) && (is_read || !is_protected(path));
        let path = Known::new(atoms(&fold(path)));
        let whole = [atoms(sign), path.quoted()].concat();
        let what = if is_read {
            What::Read { inside }
        } else {
            What::Write { inside }
        };
        self.parts.push(Part {
            shown: show(&whole),
            what,
            names: vec![whole.clone()],
            whole,
            command: None,
            file: file(&redirect.target),
            programs: Vec::new(),
            start: Vec::new(),
        });
    }
}

/// What a redirection opens, and what for: `> path` or `< path`. Nothing where it opens no file.
pub fn file(target: &Target) -> Option<String> {
    match target {
        Target::Stream(_) | Target::Null => None,
        Target::Read(path) => Some(format!("< {}", fold(path))),
        Target::Write { path, .. } => Some(format!("> {}", fold(path))),
    }
}

/// Whether a file that is written there may run later, or say what is allowed: a rule must name it.
pub fn is_protected(path: &str) -> bool {
    let path = path.to_lowercase();
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", &path));
    path.split('/').any(|part| Why::of_name(part).is_some())
        || name == ".gitignore"
        || is_resource_file(folder, name)
}

/// Whether a file there may hold keys, so that who reads it is asked about.
pub fn is_secret(path: &str) -> bool {
    path.to_lowercase()
        .split('/')
        .any(|part| Why::of_name(part) == Some(Why::Secrets))
}

/// A path without `.`, `..` and doubled slashes, as far as its text tells.
pub fn fold(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            ".." if path.starts_with('/') => {}
            part => parts.push(part),
        }
    }
    let start = if path.starts_with('/') { "/" } else { "" };
    format!("{start}{}", parts.join("/"))
}

/// Atoms as a person reads them: `…` stands for what is unknown.
pub(super) fn show(atoms: &[Atom]) -> String {
    let text: String = atoms
        .iter()
        .map(|atom| if let Atom::Char(c) = atom { *c } else { '…' })
        .collect();
    excerpt(&text)
}

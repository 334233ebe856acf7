//! Parts of a script that a policy decides about: its commands, the files that it opens, and its
//! directory changes.

use goondan_spec::command_line::{
    CommandGroup, CommandScript, PipelineStage, RedirectTarget, ShellCommand, StreamRedirect,
    WordPiece, is_path_inside,
};
use goondan_spec::discover::is_resource_file;
use goondan_spec::pattern::{PatternAtom, atoms};

use super::unwrap::{self, PartialWord, SimpleCommand};
use super::{CommandPart, CommandPartKind, excerpt};
use crate::protected_names::ProtectionReason;

/// Returns the parts of a script, in order.
pub(super) fn from_script(script: &CommandScript) -> Vec<CommandPart> {
    let mut walk = PartCollector {
        parts: Vec::new(),
        stays: script.stays_below_start(),
    };
    walk.visit_script(script);
    walk.parts
}

struct PartCollector {
    parts: Vec<CommandPart>,
    /// No `cd` leaves the working directory.
    stays: bool,
}

impl PartCollector {
    /// Adds the parts of all commands of a script.
    fn visit_script(&mut self, script: &CommandScript) {
        for stage in script.steps.iter().flat_map(|step| &step.stages) {
            match stage {
                PipelineStage::Command(command) => self.visit_command(command),
                PipelineStage::Group(group) => self.visit_group(group),
            }
        }
    }

    /// Adds the parts of a group and of its redirections.
    fn visit_group(&mut self, group: &CommandGroup) {
        let first = self.parts.len();
        self.visit_script(&group.script);
        if let Some(shell) = &group.shell {
            // A restriction of the shell applies to all commands that it runs.
            let mut shell_pattern = atoms(shell);
            shell_pattern.extend([PatternAtom::Char(' '), PatternAtom::Any]);
            for part in self.parts.iter_mut().skip(first) {
                part.names.push(shell_pattern.clone());
            }
        }
        for redirect in group.redirects.iter() {
            self.visit_redirect(redirect);
        }
    }

    /// Adds the parts of a command: its substitutions, the command itself, and its redirections.
    fn visit_command(&mut self, command: &ShellCommand) {
        for piece in command.words.iter().flat_map(|word| &word.pieces) {
            if let WordPiece::Output(inner) = piece {
                self.visit_script(inner);
            }
        }
        let assignment = |(name, value): &(String, String)| {
            let value = PartialWord::new(atoms(value));
            [atoms(&format!("{name}=")), value.quoted_atoms()].concat()
        };
        let simple = SimpleCommand {
            number: command.number,
            assignments: command.assignments.iter().map(assignment).collect(),
            words: command
                .words
                .iter()
                .map(|word| PartialWord {
                    is_open: word.is_glob(),
                    ..PartialWord::new(word.atoms())
                })
                .collect(),
        };
        unwrap::unwrap_command(simple, &mut self.parts);
        for redirect in command.redirects.iter() {
            self.visit_redirect(redirect);
        }
    }

    /// Adds the part of a redirection that opens a file.
    fn visit_redirect(&mut self, redirect: &StreamRedirect) {
        let (sign, path, is_read) = match &redirect.target {
            RedirectTarget::Stream(_) | RedirectTarget::Null => return,
            RedirectTarget::Read(path) => ("< ", path, true),
            RedirectTarget::Write { path, .. } => ("> ", path, false),
        };
        let inside = self.stays && is_path_inside(path) && (is_read || !is_protected(path));
        let path = PartialWord::new(atoms(&fold(path)));
        let redirect_pattern = [atoms(sign), path.quoted_atoms()].concat();
        let kind = if is_read {
            CommandPartKind::Read { inside }
        } else {
            CommandPartKind::Write { inside }
        };
        self.parts.push(CommandPart {
            shown: format_atoms(&redirect_pattern),
            what: kind,
            names: vec![redirect_pattern.clone()],
            whole: redirect_pattern,
            command: None,
            file: file(&redirect.target),
            programs: Vec::new(),
            start: Vec::new(),
        });
    }
}

/// Returns the file that a redirection opens, in the form `> path` or `< path`. `None` if it opens
/// no file.
pub fn file(target: &RedirectTarget) -> Option<String> {
    match target {
        RedirectTarget::Stream(_) | RedirectTarget::Null => None,
        RedirectTarget::Read(path) => Some(format!("< {}", fold(path))),
        RedirectTarget::Write { path, .. } => Some(format!("> {}", fold(path))),
    }
}

/// Returns true if a file at `path` can run later or define permissions. A rule must name such a
/// file to allow a write.
pub fn is_protected(path: &str) -> bool {
    let path = path.to_lowercase();
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", &path));
    path.split('/')
        .any(|part| ProtectionReason::of_name(part).is_some())
        || name == ".gitignore"
        || is_resource_file(folder, name)
}

/// Returns a path without `.`, `..` and doubled slashes. Symbolic links are not resolved.
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

/// Returns the display form of atoms; `…` is an unknown part.
pub(super) fn format_atoms(atoms: &[PatternAtom]) -> String {
    let text: String = atoms
        .iter()
        .map(|atom| {
            if let PatternAtom::Char(c) = atom {
                *c
            } else {
                '…'
            }
        })
        .collect();
    excerpt(&text)
}

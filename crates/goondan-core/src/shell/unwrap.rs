//! Unwraps programs that run other programs.

use goondan_spec::pattern::{PatternAtom, atoms};

use super::parts::format_atoms;
use super::running_options::is_unknown_option;
use super::wrapper_programs::{self, WrapperProgram};
use super::{CommandPart, CommandPartKind};

/// A word of a command, possibly with unknown parts.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PartialWord {
    pub(super) atoms: Vec<PatternAtom>,
    /// Can expand to any number of words.
    pub(super) is_open: bool,
    /// Begins like a path, and never like an option.
    pub(super) is_path: bool,
}

impl PartialWord {
    pub(super) fn new(atoms: Vec<PatternAtom>) -> Self {
        PartialWord {
            atoms,
            is_open: false,
            is_path: false,
        }
    }

    /// Returns the text if all of it is known.
    pub(super) fn text(&self) -> Option<String> {
        let text = self.atoms.iter().map(|atom| match atom {
            PatternAtom::Char(c) => Some(*c),
            PatternAtom::One | PatternAtom::Any => None,
        });
        text.collect()
    }

    /// Returns the atoms in the form of a command line; a known word with blanks is quoted.
    pub(super) fn quoted_atoms(&self) -> Vec<PatternAtom> {
        let needs_quotes = |atom: &PatternAtom| matches!(atom, PatternAtom::Char(c) if c.is_whitespace() || ";&|<>()`'\"".contains(*c));
        if !self.atoms.is_empty() && !self.atoms.iter().any(needs_quotes) {
            return self.atoms.clone();
        }
        let quote = [PatternAtom::Char('\'')];
        [&quote, self.atoms.as_slice(), &quote].concat()
    }
}

/// A simple command, possibly with unknown parts.
#[derive(Debug, Clone)]
pub(super) struct SimpleCommand {
    /// Number of the command in the script that it is, or that runs it.
    pub(super) number: usize,
    /// `NAME=value` before the command.
    pub(super) assignments: Vec<Vec<PatternAtom>>,
    /// The command and its arguments.
    pub(super) words: Vec<PartialWord>,
}

/// Maximum number of wrapping programs before a command. Each makes a separate part.
const MAX_WRAPPER_DEPTH: usize = 16;

/// Appends the parts of a simple command.
pub(super) fn unwrap_command(simple: SimpleCommand, parts: &mut Vec<CommandPart>) {
    unwrap_at_depth(simple, 0, parts);
}

/// Appends the parts of a command inside `depth` wrapping programs.
fn unwrap_at_depth(simple: SimpleCommand, depth: usize, parts: &mut Vec<CommandPart>) {
    let command_text = format_atoms(&full_pattern(&simple));
    if depth > MAX_WRAPPER_DEPTH {
        parts.push(CommandPart::hidden(
            &command_text,
            "too many nested programs run the command",
        ));
        return;
    }
    let Some(name) = simple
        .words
        .first()
        .and_then(PartialWord::text)
        .filter(|name| !name.is_empty())
    else {
        parts.push(CommandPart::hidden(
            &command_text,
            "the command is unknown before it runs",
        ));
        return;
    };
    let base = base_name(&name);
    if let Some(why) = wrapper_programs::hidden_reason(base, &simple.words) {
        parts.push(CommandPart::hidden(&command_text, why));
    } else if base == "find" {
        parts.push(command_part(&simple));
        find(&simple, &command_text, depth, parts);
    } else if let Some(wrapper) = wrapper_programs::find_wrapper(base) {
        append_wrapped(&simple, wrapper, &command_text, depth, parts);
    } else {
        parts.push(command_part(&simple));
    }
}

/// Returns the last part of a program's path.
pub(super) fn base_name(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// Returns the part of a command, without unwrapping.
fn command_part(simple: &SimpleCommand) -> CommandPart {
    let pattern = full_pattern(simple);
    let mut names = vec![pattern.clone()];
    let name = simple.words.first().and_then(PartialWord::text);
    if let Some(name) = &name {
        let words = simple.words.get(1..).unwrap_or_default();
        let is_program = |name: &str| {
            let first = std::iter::once(atoms(name));
            join(first.chain(words.iter().map(PartialWord::quoted_atoms)))
        };
        names.push(is_program(name));
        names.push(is_program(base_name(name)));
        names.dedup();
    }
    CommandPart {
        shown: format_atoms(&pattern),
        what: CommandPartKind::Command,
        whole: pattern,
        names,
        command: Some(simple.number),
        file: None,
        programs: name.into_iter().collect(),
        start: simple
            .words
            .iter()
            .map_while(unquoted_text)
            .take(3)
            .collect(),
    }
}

/// Returns the text of a known word that needs no quotes.
fn unquoted_text(word: &PartialWord) -> Option<String> {
    word.text()
        .filter(|_| !word.is_open && word.quoted_atoms() == word.atoms)
}

/// Returns the complete command with its assignments, as a pattern.
fn full_pattern(simple: &SimpleCommand) -> Vec<PatternAtom> {
    join(
        simple
            .assignments
            .iter()
            .cloned()
            .chain(simple.words.iter().map(PartialWord::quoted_atoms)),
    )
}

/// Joins words with spaces.
fn join(words: impl Iterator<Item = Vec<PatternAtom>>) -> Vec<PatternAtom> {
    let mut joined = Vec::new();
    for (index, word) in words.enumerate() {
        if index > 0 {
            joined.push(PatternAtom::Char(' '));
        }
        joined.extend(word);
    }
    joined
}

/// Appends the parts of a command that `wrapper` runs.
fn append_wrapped(
    simple: &SimpleCommand,
    wrapper: &WrapperProgram,
    shown: &str,
    depth: usize,
    parts: &mut Vec<CommandPart>,
) {
    let outer = command_part(simple);
    let Some((assignments, at)) = skip_options(&simple.words, wrapper) else {
        parts.push(CommandPart::hidden(
            shown,
            format!("the command that `{}` runs is unknown", wrapper.name),
        ));
        return;
    };
    let mut words = simple.words.get(at..).unwrap_or_default().to_vec();
    if words.is_empty() {
        parts.push(outer);
        return;
    }
    if wrapper.appends {
        words.push(PartialWord {
            is_open: true,
            ..PartialWord::new(vec![PatternAtom::Any])
        });
    }
    let assignments = [simple.assignments.clone(), assignments].concat();
    let inner = SimpleCommand {
        number: simple.number,
        assignments,
        words,
    };
    let mut inside = Vec::new();
    self::unwrap_at_depth(inner, depth + 1, &mut inside);
    if wrapper.elevates {
        append_elevated(outer, inside, parts);
        return;
    }
    for part in &mut inside {
        part.names.extend(outer.names.iter().cloned());
        part.programs.splice(0..0, outer.programs.iter().cloned());
    }
    parts.append(&mut inside);
}

/// Appends the parts of a command with other privileges. Only a pattern for the complete command
/// allows it; restrictions of the inner command also apply.
fn append_elevated(mut outer: CommandPart, inside: Vec<CommandPart>, parts: &mut Vec<CommandPart>) {
    outer
        .names
        .extend(inside.iter().flat_map(|part| part.names.iter().cloned()));
    parts.push(outer);
    parts.extend(
        inside
            .into_iter()
            .filter(|part| part.what != CommandPartKind::Command),
    );
}

/// Returns the assignments among the wrapper's arguments, and the index of the inner command.
/// `None` if that is not certain.
fn skip_options(
    words: &[PartialWord],
    wrapper: &WrapperProgram,
) -> Option<(Vec<Vec<PatternAtom>>, usize)> {
    let mut assignments = Vec::new();
    let mut positional = wrapper.positional;
    let mut index = 1;
    let mut only_words = false;
    while let Some(word) = words.get(index) {
        if word.is_open {
            return None;
        }
        let text = word.text();
        let option = text
            .as_deref()
            .filter(|text| !only_words && text.starts_with('-') && text.len() > 1);
        if wrapper.assigns && is_assignment(word) {
            assignments.push(word.quoted_atoms());
            index += 1;
        } else if text.is_none() {
            return None;
        } else if let Some(option) = option {
            index += 1;
            if option == "--" {
                only_words = true;
            } else if wrapper.valued.contains(&option) {
                words.get(index)?.text()?;
                index += 1;
            } else if !wrapper.is_neutral_option(option) {
                return None;
            }
        } else if positional > 0 {
            positional -= 1;
            index += 1;
        } else {
            break;
        }
    }
    Some((assignments, index))
}

/// Returns true for a word `NAME=value`.
fn is_assignment(word: &PartialWord) -> bool {
    let name: String = word
        .atoms
        .iter()
        .map_while(|atom| {
            if let PatternAtom::Char(c) = atom {
                Some(*c)
            } else {
                None
            }
        })
        .collect();
    let is_name = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    name.split_once('=').is_some_and(|(name, _)| is_name(name))
}

/// Appends the parts of commands that `find` runs for its results.
fn find(simple: &SimpleCommand, shown: &str, depth: usize, parts: &mut Vec<CommandPart>) {
    let words = &simple.words;
    if words.iter().skip(1).any(is_unknown_option) {
        parts.push(CommandPart::hidden(
            shown,
            "the command that `find` runs is unknown",
        ));
        return;
    }
    let text = |position: usize| words.get(position).and_then(PartialWord::text);
    // Directories that are read from a file can have any name.
    let is_path =
        (1..words.len()).all(|position| text(position).as_deref() != Some("-files0-from"));
    let mut position = 1;
    while position < words.len() {
        let runs = matches!(
            text(position).as_deref(),
            Some("-exec" | "-execdir" | "-ok" | "-okdir")
        );
        position += 1;
        if !runs {
            continue;
        }
        let rest = words.get(position..).unwrap_or_default();
        let text_of = |index: usize| rest.get(index).and_then(PartialWord::text);
        // `+` is only an end after `{}`.
        let ends_command = |index: usize| match text_of(index).as_deref() {
            Some(";") => true,
            Some("+") => index > 0 && text_of(index - 1).as_deref() == Some("{}"),
            _ => false,
        };
        let length = (0..rest.len())
            .find(|index| ends_command(*index))
            .unwrap_or(rest.len());
        let words = rest
            .iter()
            .take(length)
            .map(|word| substitute_path(word, is_path))
            .collect();
        unwrap_at_depth(
            SimpleCommand {
                words,
                ..simple.clone()
            },
            depth + 1,
            parts,
        );
        position += length;
    }
}

/// Returns a word of a command that `find` runs. `{}` is replaced by a path, which begins like the
/// searched directories.
fn substitute_path(word: &PartialWord, is_path: bool) -> PartialWord {
    let Some(text) = word.text().filter(|text| text.contains("{}")) else {
        return word.clone();
    };
    let mut atoms_of_word = Vec::new();
    for (index, piece) in text.split("{}").enumerate() {
        atoms_of_word.extend((index > 0).then_some(PatternAtom::Any));
        atoms_of_word.extend(atoms(piece));
    }
    PartialWord {
        is_path: is_path && text.starts_with("{}"),
        ..PartialWord::new(atoms_of_word)
    }
}

//! Looks through programs that run other programs.

use goondan_spec::pattern::{Atom, atoms};

use super::options::is_unknown_option;
use super::parts::show;
use super::programs::{self, Wrapper};
use super::{Part, What};

/// What is known of a word.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Known {
    pub(super) atoms: Vec<Atom>,
    /// Nobody knows how many words it makes.
    pub(super) is_open: bool,
    /// It begins as a path does, and never as an option.
    pub(super) is_path: bool,
}

impl Known {
    /// One word.
    pub(super) fn new(atoms: Vec<Atom>) -> Self {
        Known {
            atoms,
            is_open: false,
            is_path: false,
        }
    }

    /// The text, where all of it is known.
    pub(super) fn text(&self) -> Option<String> {
        let text = self.atoms.iter().map(|atom| match atom {
            Atom::Char(c) => Some(*c),
            Atom::One | Atom::Any => None,
        });
        text.collect()
    }

    /// The atoms as they stand in a command line; a known word with blanks in it is quoted.
    pub(super) fn quoted(&self) -> Vec<Atom> {
        let needs_quotes = |atom: &Atom| matches!(atom, Atom::Char(c) if c.is_whitespace() || ";&|<>()`'\"".contains(*c));
        if !self.atoms.is_empty() && !self.atoms.iter().any(needs_quotes) {
            return self.atoms.clone();
        }
        let quote = [Atom::Char('\'')];
        [&quote, self.atoms.as_slice(), &quote].concat()
    }
}

/// A simple command, as far as it is known.
#[derive(Debug, Clone)]
pub(super) struct Simple {
    /// Which one of the script it is, or is run by.
    pub(super) number: usize,
    /// `NAME=value` before the command.
    pub(super) assignments: Vec<Vec<Atom>>,
    /// The command and its arguments.
    pub(super) words: Vec<Known>,
}

/// How many programs may stand before a command. Each takes a part of its own.
const DEEPEST: usize = 16;

/// The parts that a simple command makes.
pub(super) fn command(simple: Simple, parts: &mut Vec<Part>) {
    inner(simple, 0, parts);
}

/// The parts of a command that stands behind `depth` others.
fn inner(simple: Simple, depth: usize, parts: &mut Vec<Part>) {
    let shown = show(&whole(&simple));
    if depth > DEEPEST {
        parts.push(Part::hidden(
            &shown,
            "too many programs stand before what runs",
        ));
        return;
    }
    let Some(name) = simple
        .words
        .first()
        .and_then(Known::text)
        .filter(|name| !name.is_empty())
    else {
        parts.push(Part::hidden(
            &shown,
            "which command runs is not known before",
        ));
        return;
    };
    let base = base_name(&name);
    if let Some(why) = programs::hides(base, &simple.words) {
        parts.push(Part::hidden(&shown, why));
    } else if base == "find" {
        parts.push(plain(&simple));
        find(&simple, &shown, depth, parts);
    } else if let Some(wrapper) = programs::wrapper(base) {
        wrapped(&simple, wrapper, &shown, depth, parts);
    } else {
        parts.push(plain(&simple));
    }
}

/// The file name of a program.
pub(super) fn base_name(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// A command that stands for itself.
fn plain(simple: &Simple) -> Part {
    let all = whole(simple);
    let mut names = vec![all.clone()];
    let name = simple.words.first().and_then(Known::text);
    if let Some(name) = &name {
        let words = simple.words.get(1..).unwrap_or_default();
        let named = |name: &str| {
            let first = std::iter::once(atoms(name));
            join(first.chain(words.iter().map(Known::quoted)))
        };
        names.push(named(name));
        names.push(named(base_name(name)));
        names.dedup();
    }
    Part {
        shown: show(&all),
        what: What::Command,
        whole: all,
        names,
        command: Some(simple.number),
        file: None,
        programs: name.into_iter().collect(),
        start: simple.words.iter().map_while(bare).take(3).collect(),
    }
}

/// The text of a word that is known, and that stands in a command line as it is.
fn bare(word: &Known) -> Option<String> {
    word.text()
        .filter(|_| !word.is_open && word.quoted() == word.atoms)
}

fn whole(simple: &Simple) -> Vec<Atom> {
    join(
        simple
            .assignments
            .iter()
            .cloned()
            .chain(simple.words.iter().map(Known::quoted)),
    )
}

fn join(words: impl Iterator<Item = Vec<Atom>>) -> Vec<Atom> {
    let mut joined = Vec::new();
    for (index, word) in words.enumerate() {
        if index > 0 {
            joined.push(Atom::Char(' '));
        }
        joined.extend(word);
    }
    joined
}

/// A command that `wrapper` runs.
fn wrapped(simple: &Simple, wrapper: &Wrapper, shown: &str, depth: usize, parts: &mut Vec<Part>) {
    let outer = plain(simple);
    let Some((assignments, at)) = behind_options(&simple.words, wrapper) else {
        parts.push(Part::hidden(
            shown,
            format!("what `{}` runs is not certain", wrapper.name),
        ));
        return;
    };
    let mut words = simple.words.get(at..).unwrap_or_default().to_vec();
    if words.is_empty() {
        parts.push(outer);
        return;
    }
    if wrapper.appends {
        words.push(Known {
            is_open: true,
            ..Known::new(vec![Atom::Any])
        });
    }
    let assignments = [simple.assignments.clone(), assignments].concat();
    let inner = Simple {
        number: simple.number,
        assignments,
        words,
    };
    let mut inside = Vec::new();
    self::inner(inner, depth + 1, &mut inside);
    if wrapper.elevates {
        elevated(outer, inside, parts);
        return;
    }
    for part in &mut inside {
        part.names.extend(outer.names.iter().cloned());
        part.programs.splice(0..0, outer.programs.iter().cloned());
    }
    parts.append(&mut inside);
}

/// Something that runs with other rights: only a pattern for the whole of it allows it, while a restriction of what is
/// inside holds, too.
fn elevated(mut outer: Part, inside: Vec<Part>, parts: &mut Vec<Part>) {
    outer
        .names
        .extend(inside.iter().flat_map(|part| part.names.iter().cloned()));
    parts.push(outer);
    parts.extend(inside.into_iter().filter(|part| part.what != What::Command));
}

/// The assignments among the wrapper's arguments, and where the command that it runs begins. `None` where that is not
/// certain.
fn behind_options(words: &[Known], wrapper: &Wrapper) -> Option<(Vec<Vec<Atom>>, usize)> {
    let mut assignments = Vec::new();
    let mut positional = wrapper.positional;
    let mut at = 1;
    let mut only_words = false;
    while let Some(word) = words.get(at) {
        if word.is_open {
            return None;
        }
        let text = word.text();
        let option = text
            .as_deref()
            .filter(|text| !only_words && text.starts_with('-') && text.len() > 1);
        if wrapper.assigns && is_assignment(word) {
            assignments.push(word.quoted());
            at += 1;
        } else if text.is_none() {
            return None;
        } else if let Some(option) = option {
            at += 1;
            if option == "--" {
                only_words = true;
            } else if wrapper.valued.contains(&option) {
                words.get(at)?.text()?;
                at += 1;
            } else if !wrapper.knows(option) {
                return None;
            }
        } else if positional > 0 {
            positional -= 1;
            at += 1;
        } else {
            break;
        }
    }
    Some((assignments, at))
}

fn is_assignment(word: &Known) -> bool {
    let name: String = word
        .atoms
        .iter()
        .map_while(|atom| {
            if let Atom::Char(c) = atom {
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

/// What `find` runs for what it finds.
fn find(simple: &Simple, shown: &str, depth: usize, parts: &mut Vec<Part>) {
    let words = &simple.words;
    if words.iter().skip(1).any(is_unknown_option) {
        parts.push(Part::hidden(shown, "what `find` runs is not certain"));
        return;
    }
    let text = |at: usize| words.get(at).and_then(Known::text);
    // Folders that are read from a file may have any name.
    let is_path = (1..words.len()).all(|at| text(at).as_deref() != Some("-files0-from"));
    let mut at = 1;
    while at < words.len() {
        let runs = matches!(
            text(at).as_deref(),
            Some("-exec" | "-execdir" | "-ok" | "-okdir")
        );
        at += 1;
        if !runs {
            continue;
        }
        let rest = words.get(at..).unwrap_or_default();
        let text_of = |index: usize| rest.get(index).and_then(Known::text);
        // `+` ends nothing but a list of what was found.
        let ends = |index: usize| match text_of(index).as_deref() {
            Some(";") => true,
            Some("+") => index > 0 && text_of(index - 1).as_deref() == Some("{}"),
            _ => false,
        };
        let length = (0..rest.len())
            .find(|index| ends(*index))
            .unwrap_or(rest.len());
        let words = rest
            .iter()
            .take(length)
            .map(|word| found(word, is_path))
            .collect();
        inner(
            Simple {
                words,
                ..simple.clone()
            },
            depth + 1,
            parts,
        );
        at += length;
    }
}

/// A word of a command that `find` runs: `{}` stands for a path, which begins as the folders do that are searched.
fn found(word: &Known, is_path: bool) -> Known {
    let Some(text) = word.text().filter(|text| text.contains("{}")) else {
        return word.clone();
    };
    let mut atoms_of_word = Vec::new();
    for (index, piece) in text.split("{}").enumerate() {
        atoms_of_word.extend((index > 0).then_some(Atom::Any));
        atoms_of_word.extend(atoms(piece));
    }
    Known {
        is_path: is_path && text.starts_with("{}"),
        ..Known::new(atoms_of_word)
    }
}

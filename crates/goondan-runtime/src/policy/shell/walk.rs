//! Finds every simple command and every redirection of a program.

use brush_parser::ast::{
    AndOr, AssignmentValue, Command, CommandPrefixOrSuffixItem as Item, CompoundCommand, CompoundList,
    IoFileRedirectKind, IoFileRedirectTarget, IoRedirect, Pipeline, RedirectList, SimpleCommand, Word,
};
use goondan_spec::pattern::{Atom, atoms};

use super::word::{self, Known};
use super::{Part, What, excerpt, parse, unwrap};

/// The parts of a command line.
pub(super) fn line(line: &str, parts: &mut Vec<Part>) {
    match parse(line) {
        Some(program) => program.complete_commands.iter().for_each(|list| compound_list(list, parts)),
        None => parts.push(Part::hidden(line, "it can't be parsed")),
    }
}

fn compound_list(list: &CompoundList, parts: &mut Vec<Part>) {
    for item in &list.0 {
        pipeline(&item.0.first, parts);
        for next in &item.0.additional {
            let (AndOr::And(next) | AndOr::Or(next)) = next;
            pipeline(next, parts);
        }
    }
}

fn pipeline(pipeline: &Pipeline, parts: &mut Vec<Part>) {
    pipeline.seq.iter().for_each(|next| command(next, parts));
}

fn command(command: &Command, parts: &mut Vec<Part>) {
    match command {
        Command::Simple(simple) => simple_command(simple, parts),
        Command::Compound(inner, redirects) => {
            compound(inner, parts);
            all_redirects(redirects.as_ref(), parts);
        }
        Command::Function(function) => {
            compound(&function.body.0, parts);
            all_redirects(function.body.1.as_ref(), parts);
        }
        Command::ExtendedTest(test) => {
            parts.push(Part::hidden(format!("[[ {test} ]]"), "not every shell knows `[[`"));
        }
    }
}

fn compound(command: &CompoundCommand, parts: &mut Vec<Part>) {
    match command {
        CompoundCommand::BraceGroup(group) => compound_list(&group.list, parts),
        CompoundCommand::Subshell(subshell) => compound_list(&subshell.list, parts),
        CompoundCommand::ForClause(clause) => {
            clause.values.iter().flatten().for_each(|value| only_look(value, parts));
            compound_list(&clause.body.list, parts);
        }
        CompoundCommand::CaseClause(clause) => {
            only_look(&clause.value, parts);
            for case in &clause.cases {
                case.patterns.iter().for_each(|pattern| only_look(pattern, parts));
                case.cmd.iter().for_each(|list| compound_list(list, parts));
            }
        }
        CompoundCommand::IfClause(clause) => {
            compound_list(&clause.condition, parts);
            compound_list(&clause.then, parts);
            for other in clause.elses.iter().flatten() {
                other.condition.iter().for_each(|list| compound_list(list, parts));
                compound_list(&other.body, parts);
            }
        }
        CompoundCommand::WhileClause(clause) | CompoundCommand::UntilClause(clause) => {
            compound_list(&clause.0, parts);
            compound_list(&clause.1.list, parts);
        }
        CompoundCommand::Arithmetic(_) | CompoundCommand::ArithmeticForClause(_) => {
            parts.push(Part::hidden("((…))", "not every shell knows `((`"));
        }
    }
}

/// A word that is no command: only what is substituted in it matters.
fn only_look(raw: &Word, parts: &mut Vec<Part>) {
    word::read(&raw.value, parts);
}

fn all_redirects(redirects: Option<&RedirectList>, parts: &mut Vec<Part>) {
    redirects.iter().flat_map(|list| &list.0).for_each(|one| redirect(one, parts));
}

/// A simple command, taken to pieces.
#[derive(Debug, Clone, Default)]
pub(super) struct Simple {
    /// `NAME=value` before the command.
    pub(super) assignments: Vec<Vec<Atom>>,
    /// The command and its arguments.
    pub(super) words: Vec<Known>,
}

fn simple_command(command: &SimpleCommand, parts: &mut Vec<Part>) {
    let mut simple = Simple::default();
    let before = command.prefix.iter().flat_map(|prefix| &prefix.0);
    before.for_each(|item| read_item(item, true, &mut simple, parts));
    if let Some(name) = &command.word_or_name {
        simple.words.push(word::read(&name.value, parts));
    }
    let behind = command.suffix.iter().flat_map(|suffix| &suffix.0);
    behind.for_each(|item| read_item(item, false, &mut simple, parts));
    unwrap::command(simple, parts);
}

fn read_item(item: &Item, is_prefix: bool, simple: &mut Simple, parts: &mut Vec<Part>) {
    match item {
        Item::IoRedirect(one) => redirect(one, parts),
        Item::Word(raw) => simple.words.push(word::read(&raw.value, parts)),
        Item::AssignmentWord(assignment, raw) => {
            if let AssignmentValue::Array(_) = assignment.value {
                parts.push(Part::hidden(&raw.value, "not every shell knows lists"));
            } else if is_prefix {
                simple.assignments.push(word::read(&raw.value, parts).quoted());
            } else {
                simple.words.push(word::read(&raw.value, parts));
            }
        }
        Item::ProcessSubstitution(..) => {
            parts.push(Part::hidden(item.to_string(), "not every shell knows `<(`"));
        }
    }
}

fn redirect(redirect: &IoRedirect, parts: &mut Vec<Part>) {
    match redirect {
        IoRedirect::File(_, kind, target) => file_redirect(redirect, kind, target, parts),
        IoRedirect::HereDocument(_, document) if document.requires_expansion => {
            word::here_document(&document.doc.value, parts);
        }
        IoRedirect::HereDocument(..) => {}
        IoRedirect::HereString(..) | IoRedirect::OutputAndError(..) => {
            parts.push(Part::hidden(redirect.to_string(), "not every shell knows this redirection"));
        }
    }
}

fn file_redirect(
    redirect: &IoRedirect,
    kind: &IoFileRedirectKind,
    target: &IoFileRedirectTarget,
    parts: &mut Vec<Part>,
) {
    let raw = match target {
        IoFileRedirectTarget::Filename(raw) | IoFileRedirectTarget::Duplicate(raw) => raw,
        IoFileRedirectTarget::Fd(_) => return,
        IoFileRedirectTarget::ProcessSubstitution(..) => {
            parts.push(Part::hidden(redirect.to_string(), "not every shell knows `<(`"));
            return;
        }
    };
    let known = word::read(&raw.value, parts);
    let text = known.text();
    let is_descriptor = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    match (kind, text.as_deref()) {
        (_, Some("/dev/null" | "/dev/stdout" | "/dev/stderr")) => {}
        (IoFileRedirectKind::DuplicateInput | IoFileRedirectKind::DuplicateOutput, Some(text))
            if is_descriptor(text) => {}
        // Some shells open a connection instead of such a file.
        (_, Some(text)) if text.starts_with("/dev/tcp") || text.starts_with("/dev/udp") => {
            parts.push(Part::hidden(redirect.to_string(), "it may open a connection"));
        }
        (IoFileRedirectKind::Read | IoFileRedirectKind::DuplicateInput, Some(_)) => {}
        (IoFileRedirectKind::Read | IoFileRedirectKind::DuplicateInput, None) => {
            parts.push(Part::hidden(redirect.to_string(), "nobody knows which file it reads"));
        }
        _ => parts.push(write(&known)),
    }
}

/// A file that is written.
fn write(target: &Known) -> Part {
    let text = target.text();
    let inside = text.as_deref().is_some_and(|path| {
        !path.is_empty() && !path.starts_with(['/', '~']) && !path.split('/').any(|part| part == "..")
    });
    let whole = [atoms("> ").as_slice(), &target.quoted()].concat();
    Part { shown: show(&whole), what: What::Write { inside }, names: vec![whole.clone()], whole }
}

/// Atoms as a person reads them: `…` stands for what is unknown.
pub(super) fn show(atoms: &[Atom]) -> String {
    let text: String = atoms.iter().map(|atom| if let Atom::Char(c) = atom { *c } else { '…' }).collect();
    excerpt(&text)
}

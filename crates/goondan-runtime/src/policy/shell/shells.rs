//! `sh -c`, and shells that read a program from elsewhere.

use super::walk::{self, Simple};
use super::{Part, unwrap};

/// Programs that read the language that is read here.
pub(super) const NAMES: [&str; 7] = ["sh", "bash", "dash", "ash", "ksh", "zsh", "rbash"];

/// Flags that change nothing about what runs.
const FLAGS: &str = "ceuxfnvl";

/// The parts of a shell that is called.
pub(super) fn command(simple: &Simple, shown: &str, parts: &mut Vec<Part>) {
    let mut has_program = false;
    for (index, word) in simple.words.iter().enumerate().skip(1) {
        let Some(text) = word.text().filter(|_| !word.is_open) else { break };
        match text.strip_prefix('-') {
            Some(flags) if !flags.is_empty() && flags.chars().all(|flag| FLAGS.contains(flag)) => {
                has_program |= flags.contains('c');
            }
            Some(_) => break,
            None if has_program && text.contains('$') && simple.words.len() > index + 1 => break,
            None if has_program => return program(simple, &text, parts),
            // A program in a file is a command as any other.
            None => return parts.push(unwrap::plain(simple)),
        }
    }
    parts.push(Part::hidden(shown, "nobody knows what the shell is given to run"));
}

/// A program in an argument. Assignments before the shell hold for all of it.
fn program(simple: &Simple, text: &str, parts: &mut Vec<Part>) {
    if !simple.assignments.is_empty() {
        parts.push(unwrap::plain(&Simple { assignments: simple.assignments.clone(), words: Vec::new() }));
    }
    walk::line(text, parts);
}

//! Two texts, line by line.

use std::fmt::Write as _;

use similar::algorithms::{Capture, Compact, Replace, myers};
use similar::udiff::UnifiedHunkHeader;
use similar::{DiffOp, group_diff_ops};

/// What follows a line that no line break ends.
const NO_NEWLINE: &str = "\n\\ No newline at end of file\n";

/// The hunks of a unified diff, each with so many lines of `context` around what changed. Empty where the texts are equal.
///
/// Of the library's algorithms it names the one that is wanted: what chooses at run time holds all five, compiled for texts.
pub fn unified(before: &str, after: &str, context: usize) -> String {
    let old: Vec<&str> = before.split_inclusive('\n').collect();
    let new: Vec<&str> = after.split_inclusive('\n').collect();
    let mut text = String::new();
    for hunk in group_diff_ops(changes(&old, &new), context).iter().filter(|hunk| !hunk.is_empty()) {
        // To a string, which never fails.
        let _ = writeln!(text, "{}", UnifiedHunkHeader::new(hunk));
        for change in hunk {
            let (gone, come) = (&old[change.old_range()], &new[change.new_range()]);
            match change {
                DiffOp::Equal { .. } => put(&mut text, ' ', gone),
                _ => {
                    put(&mut text, '-', gone);
                    put(&mut text, '+', come);
                }
            }
        }
    }
    text
}

fn changes(old: &[&str], new: &[&str]) -> Vec<DiffOp> {
    let mut found = Compact::new(Replace::new(Capture::new()), old, new);
    let Ok(()) = myers::diff(&mut found, old, 0..old.len(), new, 0..new.len());
    found.into_inner().into_inner().into_ops()
}

fn put(text: &mut String, sign: char, lines: &[&str]) {
    for line in lines {
        text.push(sign);
        text.push_str(line);
        if !line.ends_with('\n') {
            text.push_str(NO_NEWLINE);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_what_the_library_prints(
            before in "([abc]{0,2}\n){0,12}[ab]?",
            after in "([abc]{0,2}\n){0,12}[ab]?",
            context in 0..4usize,
        ) {
            let theirs = similar::TextDiff::from_lines(&before, &after).unified_diff().context_radius(context).to_string();
            prop_assert_eq!(unified(&before, &after, context), theirs);
        }
    }
}

//! Line-by-line differences of two texts.

use std::collections::HashMap;
use std::fmt::Write as _;

use goondan_core::JsonObject;
use similar::algorithms::{Capture, Compact, Replace, myers};
use similar::udiff::UnifiedHunkHeader;
use similar::{DiffOp, group_diff_ops};

/// The note after a last line without a line break.
const NO_NEWLINE_NOTE: &str = "\n\\ No newline at end of file\n";

/// Returns the hunks of a unified diff, with `context` lines around each change. Empty if the texts
/// are equal.
///
/// The algorithm is selected statically: selecting it at run time would compile all five algorithms
/// of the library.
pub fn unified(before: &str, after: &str, context: usize) -> String {
    let old_lines: Vec<&str> = before.split_inclusive('\n').collect();
    let new_lines: Vec<&str> = after.split_inclusive('\n').collect();
    let mut text = String::new();
    for hunk in group_diff_ops(diff_operations(&old_lines, &new_lines), context)
        .iter()
        .filter(|hunk| !hunk.is_empty())
    {
        // Writing to a string never fails.
        let _ = writeln!(text, "{}", UnifiedHunkHeader::new(hunk));
        for change in hunk {
            let (removed, added) = (
                &old_lines[change.old_range()],
                &new_lines[change.new_range()],
            );
            match change {
                DiffOp::Equal { .. } => append_lines(&mut text, ' ', removed),
                _ => {
                    append_lines(&mut text, '-', removed);
                    append_lines(&mut text, '+', added);
                }
            }
        }
    }
    text
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct DiffStat {
    pub(crate) added: usize,
    pub(crate) removed: usize,
}

impl DiffStat {
    /// Counts the lines in hunks of [`unified`].
    pub(crate) fn of_hunks(hunks: &str) -> Self {
        let count = |sign| hunks.lines().filter(|line| line.starts_with(sign)).count();
        DiffStat {
            added: count('+'),
            removed: count('-'),
        }
    }

    /// Compares texts of any length quickly: a moved line counts as unchanged.
    pub(crate) fn of_texts(before: &str, after: &str) -> Self {
        let mut surplus: HashMap<&str, isize> = HashMap::new();
        for line in before.lines() {
            *surplus.entry(line).or_default() -= 1;
        }
        for line in after.lines() {
            *surplus.entry(line).or_default() += 1;
        }
        let sum = |sign: isize| {
            surplus
                .values()
                .map(|count| (count * sign).max(0).unsigned_abs())
                .sum()
        };
        DiffStat {
            added: sum(1),
            removed: sum(-1),
        }
    }

    /// Returns the numbers as metadata of a result.
    pub(crate) fn metadata(self) -> JsonObject {
        [("added", self.added), ("removed", self.removed)]
            .map(|(name, count)| (name.to_owned(), count.into()))
            .into_iter()
            .collect()
    }
}

/// Returns the line operations that convert `old` to `new`.
fn diff_operations(old: &[&str], new: &[&str]) -> Vec<DiffOp> {
    let mut operations = Compact::new(Replace::new(Capture::new()), old, new);
    let Ok(()) = myers::diff(&mut operations, old, 0..old.len(), new, 0..new.len());
    operations.into_inner().into_inner().into_ops()
}

/// Appends each line with `sign` before it. A note follows a line without line end.
fn append_lines(text: &mut String, sign: char, lines: &[&str]) {
    for line in lines {
        text.push(sign);
        text.push_str(line);
        if !line.ends_with('\n') {
            text.push_str(NO_NEWLINE_NOTE);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn diff_stat_counts_added_and_removed_lines() {
        let (before, after) = ("a\nb\n-x\n", "a\nc\n+y\n-x\nb\nb\n");
        let counted = DiffStat::of_hunks(&unified(before, after, 1));
        assert_eq!((counted.added, counted.removed), (4, 1));
        assert_eq!(
            DiffStat::of_texts(before, after),
            DiffStat {
                added: 3,
                removed: 0
            }
        );
        assert_eq!(
            DiffStat::of_texts("", "x"),
            DiffStat {
                added: 1,
                removed: 0
            }
        );
        assert_eq!(
            DiffStat::of_texts("x\nx", "x"),
            DiffStat {
                added: 0,
                removed: 1
            }
        );
    }

    proptest! {
        #[test]
        fn unified_diff_matches_the_output_of_similar(
            before in "([abc]{0,2}\n){0,12}[ab]?",
            after in "([abc]{0,2}\n){0,12}[ab]?",
            context in 0..4usize,
        ) {
            let expected = similar::TextDiff::from_lines(&before, &after).unified_diff().context_radius(context).to_string();
            prop_assert_eq!(unified(&before, &after, context), expected);
        }
    }
}

//! Applies hunks to a text.

use super::parse::{HunkLineKind, PatchHunk};

/// Applies all hunks to `text`, or returns the reason why one does not match. Unchanged lines keep
/// their line ends; new lines get those of the file.
pub(super) fn apply(text: &str, hunks: &[PatchHunk]) -> Result<String, String> {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let line_end = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let mut result = String::with_capacity(text.len());
    let mut cursor = 0;
    for (index, hunk) in hunks.iter().enumerate() {
        let at = locate(&lines, cursor, hunk)
            .map_err(|problem| format!("hunk {}: {problem}", index + 1))?;
        lines[cursor..at]
            .iter()
            .for_each(|line| result.push_str(line));
        cursor = splice(&lines, at, hunk, line_end, &mut result);
    }
    lines[cursor..]
        .iter()
        .for_each(|line| result.push_str(line));
    Ok(result)
}

/// Replaces the matched lines by those of the hunk, and returns the next position in the text.
fn splice(
    lines: &[&str],
    at: usize,
    hunk: &PatchHunk,
    line_end: &str,
    result: &mut String,
) -> usize {
    let mut cursor = at;
    for line in &hunk.lines {
        match line.sign {
            HunkLineKind::Kept => {
                result.push_str(lines[cursor]);
                cursor += 1;
            }
            HunkLineKind::Removed => cursor += 1,
            HunkLineKind::Added => {
                // The last line of a file may lack a line end.
                if !result.is_empty() && !result.ends_with('\n') {
                    result.push_str(line_end);
                }
                result.push_str(&line.text);
                result.push_str(line_end);
            }
        }
    }
    cursor
}

/// Finds the first line at or after `cursor` at which the hunk matches.
fn locate(lines: &[&str], cursor: usize, hunk: &PatchHunk) -> Result<usize, String> {
    let from = match &hunk.anchor {
        Some(anchor) => find_anchor(lines, cursor, anchor)?,
        None => cursor,
    };
    let old: Vec<&str> = hunk
        .lines
        .iter()
        .filter(|line| line.sign != HunkLineKind::Added)
        .map(|line| line.text.as_str())
        .collect();
    if old.is_empty() {
        // A hunk that only adds lines: they follow the anchor, or else the end of the file.
        return Ok(if hunk.anchor.is_some() && !hunk.at_end {
            from + 1
        } else {
            lines.len()
        });
    }
    let fits = |at: usize, same: fn(&str, &str) -> bool| {
        lines.get(at..at + old.len()).is_some_and(|actual| {
            actual
                .iter()
                .zip(&old)
                .all(|(actual, old)| same(actual, old))
        })
    };
    let places = || from..lines.len();
    for same in [
        equal_line as fn(&str, &str) -> bool,
        equal_without_trailing_space,
    ] {
        let position = match hunk.at_end {
            true => lines
                .len()
                .checked_sub(old.len())
                .filter(|at| *at >= from && fits(*at, same)),
            false => places().find(|at| fits(*at, same)),
        };
        if let Some(at) = position {
            return Ok(at);
        }
    }
    Err(format!(
        "these lines were not found{}:\n{}",
        position_note(hunk),
        old.join("\n")
    ))
}

/// Finds the anchor line: an equal line without regard to surrounding white space, or else a line
/// that contains it.
fn find_anchor(lines: &[&str], cursor: usize, anchor: &str) -> Result<usize, String> {
    let rest = || lines.iter().enumerate().skip(cursor);
    rest()
        .find(|(_, line)| line.trim() == anchor)
        .or_else(|| rest().find(|(_, line)| line.contains(anchor)))
        .map(|(at, _)| at)
        .ok_or_else(|| format!("the header line `{anchor}` was not found"))
}

/// Describes where the lines of `hunk` were searched; empty if everywhere.
fn position_note(hunk: &PatchHunk) -> String {
    let anchor = hunk
        .anchor
        .as_ref()
        .map(|anchor| format!(" after `{anchor}`"));
    let end = hunk.at_end.then(|| " at the end of the file".to_owned());
    [anchor, end].into_iter().flatten().collect()
}

/// Compares lines without their line ends.
fn equal_line(actual: &str, old: &str) -> bool {
    actual.trim_end_matches(['\n', '\r']) == old
}

/// Compares lines without white space at their ends.
fn equal_without_trailing_space(actual: &str, old: &str) -> bool {
    actual.trim_end() == old.trim_end()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::parse::{PatchAction, parse};
    use super::*;

    /// Applies hunks in the form of a patch.
    fn applied(text: &str, hunks: &str) -> Result<String, String> {
        let patch = format!("*** Begin Patch\n*** Update File: f\n{hunks}\n*** End Patch");
        match parse(&patch).unwrap().remove(0).action {
            PatchAction::Update { hunks, .. } => apply(text, &hunks),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn hunks_change_their_places() {
        let text = "a\nb\nc\nd\n";
        assert_eq!(applied(text, "@@\n a\n-b\n+B\n c").unwrap(), "a\nB\nc\nd\n");
        assert_eq!(applied(text, " a\n+x\n@@\n-d").unwrap(), "a\nx\nb\nc\n");
        assert_eq!(applied(text, "@@\n+end").unwrap(), "a\nb\nc\nd\nend\n");
        assert_eq!(
            applied(text, "@@ b\n+after b").unwrap(),
            "a\nb\nafter b\nc\nd\n"
        );
        assert_eq!(applied("", "@@\n+x").unwrap(), "x\n");
    }

    #[test]
    fn a_header_leads_to_the_right_place() {
        let text = "fn one() {\n  x\n}\nfn two() {\n  x\n}\n";
        assert_eq!(
            applied(text, "@@ fn two() {\n-  x\n+  y").unwrap(),
            "fn one() {\n  x\n}\nfn two() {\n  y\n}\n"
        );
        assert_eq!(
            applied(text, "@@ two\n fn two() {\n-  x\n+  y").unwrap(),
            "fn one() {\n  x\n}\nfn two() {\n  y\n}\n"
        );
        assert_eq!(
            applied(text, "@@ -1,2 +1,2 @@\n-  x\n+  y").unwrap(),
            "fn one() {\n  y\n}\nfn two() {\n  x\n}\n"
        );
        assert_eq!(
            applied("x\ny\nx\n", "@@\n-x\n+z\n*** End of File").unwrap(),
            "x\ny\nz\n"
        );
    }

    #[test]
    fn white_space_and_line_ends_of_the_file_stay() {
        assert_eq!(
            applied("a  \r\nb\r\n", "@@\n a\n-b\n+c").unwrap(),
            "a  \r\nc\r\n"
        );
        assert_eq!(applied("a\nb", "@@\n b\n+c").unwrap(), "a\nb\nc\n");
        assert_eq!(applied("a\nb", "@@\n-a\n b").unwrap(), "b");
        assert_eq!(applied("a\n\nb\n", "@@\n a\n\n-b\n+c").unwrap(), "a\n\nc\n");
    }

    #[test]
    fn what_does_not_fit_says_which_lines() {
        assert!(
            applied("a\n", "@@\n-b")
                .unwrap_err()
                .contains("hunk 1: these lines were not found:\nb")
        );
        assert!(applied("a\n", "@@ z\n-a").unwrap_err().contains("`z`"));
        assert!(
            applied("a\nb\n", "@@\n-b\n@@\n-a")
                .unwrap_err()
                .contains("hunk 2")
        );
        assert!(
            applied("a\nb\n", "@@\n-a\n*** End of File")
                .unwrap_err()
                .contains("end of the file")
        );
    }

    proptest! {
        /// A patch made from two texts converts the first to the second.
        #[test]
        fn a_whole_file_hunk_gives_the_new_text(old in "([abc]\n){1,6}", new in "([abcx]\n){1,6}") {
            let diff = similar::TextDiff::from_lines(&old, &new);
            let hunk: String = diff.iter_all_changes().map(|change| format!("{}{}", change.tag(), change.value())).collect();
            prop_assert_eq!(applied(&old, &format!("@@\n{}", hunk.trim_end_matches('\n'))).unwrap(), new);
        }

        /// A patch of several hunks with little context finds all places in a long file.
        #[test]
        fn hunks_with_context_find_their_places(
            changes in proptest::collection::vec((0usize..60, 0u8..3), 1..8),
        ) {
            let old: Vec<String> = (0..60).map(|number| format!("line {number}\n")).collect();
            let mut new = old.clone();
            for (at, change) in changes {
                let at = at.min(new.len() - 1);
                match change {
                    0 if new.len() > 1 => drop(new.remove(at)),
                    1 => new.insert(at, format!("new at {at}\n")),
                    _ => new[at] = format!("changed at {at}\n"),
                }
            }
            let (old, new) = (old.concat(), new.concat());
            prop_assume!(old != new);
            let diff = similar::TextDiff::from_lines(&old, &new);
            let mut patch = String::new();
            for group in diff.grouped_ops(3) {
                patch.push_str("@@\n");
                for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
                    patch.push_str(&format!("{}{}", change.tag(), change.value()));
                }
            }
            prop_assert_eq!(applied(&old, patch.trim_end_matches('\n')).unwrap(), new);
        }
    }
}

//! Applies hunks to a text.

use std::collections::VecDeque;

use super::parse::{HunkLineKind, PatchHunk};

/// Maximum number of line numbers in an error.
const MAX_LISTED_LINE_NUMBERS: usize = 10;

/// Applies all hunks to `text`, or returns the reason why one does not match.
///
/// A byte order mark stays first. Unchanged lines keep their line ends, and a new line gets the line
/// end of the line that it replaces. A last line without a line end stays without one.
pub(super) fn apply(text: &str, hunks: &[PatchHunk]) -> Result<String, String> {
    let (mark, text) = match text.strip_prefix('\u{FEFF}') {
        Some(rest) => ("\u{FEFF}", rest),
        None => ("", text),
    };
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let mut output = PatchedText {
        text: String::with_capacity(text.len()),
        default_line_end: if text.contains("\r\n") { "\r\n" } else { "\n" },
        line_end: None,
    };
    let mut cursor = 0;
    for (index, hunk) in hunks.iter().enumerate() {
        let line_index = locate_hunk(&lines, cursor, hunk)
            .map_err(|problem| format!("hunk {}: {problem}", index + 1))?;
        for line in lines[cursor..line_index].iter() {
            output.add_unchanged(line);
        }
        cursor = apply_hunk(&lines, line_index, hunk, &mut output);
    }
    for line in lines[cursor..].iter() {
        output.add_unchanged(line);
    }
    let mut patched = output.text;
    if !text.is_empty() && !text.ends_with('\n') && ends_in_added_line(hunks, cursor, lines.len()) {
        patched.truncate(patched.trim_end_matches('\n').trim_end_matches('\r').len());
    }
    Ok(format!("{mark}{patched}"))
}

/// Returns true if the patched text ends with an added line.
fn ends_in_added_line(hunks: &[PatchHunk], cursor: usize, count: usize) -> bool {
    let last = hunks.last().and_then(|hunk| hunk.lines.last());
    cursor == count && last.is_some_and(|line| line.sign == HunkLineKind::Added)
}

/// The new text of a file.
struct PatchedText<'a> {
    text: String,
    /// Line end of most lines of the file.
    default_line_end: &'static str,
    /// Line end of the nearest line above.
    line_end: Option<&'a str>,
}

impl<'a> PatchedText<'a> {
    fn add_unchanged(&mut self, line: &'a str) {
        self.text.push_str(line);
        self.line_end = Some(line_end(line)).filter(|end| !end.is_empty());
    }

    /// Adds a new line in the place of `replaced`.
    fn add(&mut self, line: &str, replaced: Option<&'a str>) {
        let replaced = replaced.map(line_end).filter(|end| !end.is_empty());
        let end = replaced.or(self.line_end).unwrap_or(self.default_line_end);
        // The last line of a file may lack a line end.
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push_str(end);
        }
        self.text.push_str(line);
        self.text.push_str(end);
    }
}

/// Returns the line end of a line; empty if it has none.
fn line_end(line: &str) -> &str {
    &line[line.trim_end_matches('\n').trim_end_matches('\r').len()..]
}

/// Replaces the matched lines by those of the hunk, and returns the next position in the text.
fn apply_hunk<'a>(
    lines: &[&'a str],
    at: usize,
    hunk: &PatchHunk,
    output: &mut PatchedText<'a>,
) -> usize {
    let mut cursor = at;
    // Removed lines that no added line has replaced yet.
    let mut removed = VecDeque::new();
    for line in &hunk.lines {
        match line.sign {
            HunkLineKind::Kept => {
                output.add_unchanged(lines[cursor]);
                removed.clear();
                cursor += 1;
            }
            HunkLineKind::Removed => {
                removed.push_back(lines[cursor]);
                cursor += 1;
            }
            // An added line keeps the line end of the line that it replaces.
            HunkLineKind::Added => output.add(&line.text, removed.pop_front()),
        }
    }
    cursor
}

/// Finds the line at or after `cursor` at which the hunk matches. Fails if there are several.
fn locate_hunk(lines: &[&str], cursor: usize, hunk: &PatchHunk) -> Result<usize, String> {
    let from = match &hunk.anchor {
        Some(anchor) => find_anchor(lines, cursor, anchor)?,
        None => cursor,
    };
    let old_lines: Vec<&str> = hunk
        .lines
        .iter()
        .filter(|line| line.sign != HunkLineKind::Added)
        .map(|line| line.text.as_str())
        .collect();
    if old_lines.is_empty() {
        // A hunk that only adds lines: they follow the anchor, or else the end of the file.
        return Ok(if hunk.anchor.is_some() && !hunk.at_end {
            from + 1
        } else {
            lines.len()
        });
    }
    for is_same_line in [
        equal_line as fn(&str, &str) -> bool,
        equal_without_trailing_space,
    ] {
        let matches = matching_lines(lines, from, &old_lines, hunk.at_end, is_same_line);
        match matches.as_slice() {
            [] => {}
            // The header line decides between several matches.
            [first, ..] if hunk.anchor.is_some() || matches.len() == 1 => return Ok(*first),
            several => return nearest_match(several, hunk).ok_or_else(|| ambiguous_hunk(several)),
        }
    }
    Err(format!(
        "these lines were not found{}:\n{}",
        position_note(hunk),
        old_lines.join("\n")
    ))
}

/// Returns the positions at or after `from` at which all lines of `old` match.
fn matching_lines(
    lines: &[&str],
    from: usize,
    old: &[&str],
    at_end: bool,
    is_same_line: fn(&str, &str) -> bool,
) -> Vec<usize> {
    let Some(last) = lines.len().checked_sub(old.len()) else {
        return Vec::new();
    };
    let first = if at_end { from.max(last) } else { from };
    let matches_at = |at: &usize| {
        let actual = &lines[*at..*at + old.len()];
        actual
            .iter()
            .zip(old)
            .all(|(actual, old)| is_same_line(actual, old))
    };
    (first..=last).filter(matches_at).collect()
}

/// Returns the match nearest to the line number of the hunk header; `None` without a number or if
/// two matches are equally near.
fn nearest_match(matches: &[usize], hunk: &PatchHunk) -> Option<usize> {
    let hint = hunk.line_hint?.saturating_sub(1);
    let distance = |at: &&usize| at.abs_diff(hint);
    let nearest = matches.iter().min_by_key(distance)?;
    let equally_near = matches
        .iter()
        .filter(|at| at.abs_diff(hint) == nearest.abs_diff(hint));
    (equally_near.count() == 1).then_some(*nearest)
}

/// Describes a hunk that matches several places.
fn ambiguous_hunk(matches: &[usize]) -> String {
    let lines: Vec<String> = matches
        .iter()
        .take(MAX_LISTED_LINE_NUMBERS)
        .map(|at| (at + 1).to_string())
        .collect();
    let ellipsis = if matches.len() > MAX_LISTED_LINE_NUMBERS {
        " and more"
    } else {
        ""
    };
    format!(
        "its lines occur {} times, at lines {}{ellipsis}; add unchanged lines around the change",
        matches.len(),
        lines.join(", ")
    )
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
    fn hunks_change_the_matching_lines() {
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
    fn hunk_headers_and_end_markers_select_among_equal_matches() {
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
    fn patching_preserves_whitespace_and_line_endings() {
        assert_eq!(
            applied("a  \r\nb\r\n", "@@\n a\n-b\n+c").unwrap(),
            "a  \r\nc\r\n"
        );
        assert_eq!(applied("a\nb", "@@\n b\n+c").unwrap(), "a\nb\nc");
        assert_eq!(applied("a\nb", "@@\n-b\n+c").unwrap(), "a\nc");
        assert_eq!(
            applied("a\nb\r\nc\r\n", "@@\n-a\n+x\n+y\n b\n-c\n+z").unwrap(),
            "x\ny\r\nb\r\nz\r\n"
        );
        assert_eq!(
            applied("\u{FEFF}a\nb\n", "@@\n-a\n+x").unwrap(),
            "\u{FEFF}x\nb\n"
        );
        assert_eq!(applied("a\nb", "@@\n-a\n b").unwrap(), "b");
        assert_eq!(applied("a\n\nb\n", "@@\n a\n\n-b\n+c").unwrap(), "a\n\nc\n");
    }

    #[test]
    fn a_hunk_that_does_not_match_names_the_missing_lines() {
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

    #[test]
    fn an_ambiguous_hunk_requires_a_line_hint_or_anchor() {
        let text = "x\ny\nx\nz\n";
        assert!(
            applied(text, "@@\n-x\n+1")
                .unwrap_err()
                .contains("lines 1, 3")
        );
        assert_eq!(
            applied(text, "@@ -3,1 +3,1 @@\n-x\n+1").unwrap(),
            "x\ny\n1\nz\n"
        );
        assert!(applied(text, "@@ -2 +2 @@\n-x\n+1").is_err());
        assert_eq!(applied(text, "@@ y\n-x\n+1").unwrap(), "x\ny\n1\nz\n");
    }

    proptest! {
        /// A patch made from two texts converts the first to the second.
        #[test]
        fn a_whole_file_hunk_produces_the_new_text(old in "([abc]\n){1,6}", new in "([abcx]\n){1,6}") {
            let diff = similar::TextDiff::from_lines(&old, &new);
            let hunk: String = diff.iter_all_changes().map(|change| format!("{}{}", change.tag(), change.value())).collect();
            prop_assert_eq!(applied(&old, &format!("@@\n{}", hunk.trim_end_matches('\n'))).unwrap(), new);
        }

        /// A patch of several hunks with little context finds all places in a long file.
        #[test]
        fn hunks_with_little_context_apply_in_a_long_file(
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

//! Splits notes into searchable passages.

/// Maximum number of lines in a passage.
const MAX_PASSAGE_LINES: usize = 30;

/// Related lines of a note.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NotePassage {
    /// First line number, starting at 1.
    pub(super) from: usize,
    pub(super) to: usize,
    /// The lines without surrounding empty lines.
    pub(super) text: String,
}

/// Returns the passages of a note. A new one begins at each heading, and after the maximum number
/// of lines.
pub(super) fn split_passages(text: &str) -> Vec<NotePassage> {
    let lines: Vec<&str> = text.lines().collect();
    let mut passages = Vec::new();
    let mut start = 0;
    for end in 1..=lines.len() {
        let is_full = end - start == MAX_PASSAGE_LINES;
        if end == lines.len() || is_full || is_heading(lines[end]) {
            passages.extend(build_passage(&lines, start, end));
            start = end;
        }
    }
    passages
}

/// Returns true for a Markdown heading.
fn is_heading(line: &str) -> bool {
    let text = line.trim_start_matches('#');
    text.len() < line.len() && text.starts_with(' ')
}

/// Returns the lines from `start` to `end`; `None` if they are empty.
fn build_passage(lines: &[&str], start: usize, end: usize) -> Option<NotePassage> {
    let has_text = |line: &&str| !line.trim().is_empty();
    let from = start + lines[start..end].iter().position(has_text)?;
    let last_line = end - lines[start..end].iter().rev().position(has_text)?;
    Some(NotePassage {
        from: from + 1,
        to: last_line,
        text: lines[from..last_line].join("\n"),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_heading_begins_a_passage() {
        let found = split_passages("intro\n\n## A\n\na\n\n#tag\n## B\n\n\n");
        let expected = [(1, 1, "intro"), (3, 7, "## A\n\na\n\n#tag"), (8, 8, "## B")];
        let found: Vec<_> = found
            .iter()
            .map(|passage| (passage.from, passage.to, passage.text.as_str()))
            .collect();
        assert_eq!(found, expected);
        assert_eq!(split_passages("\n \n"), []);
    }

    proptest! {
        /// Each non-empty line is in exactly one passage, with correct line numbers.
        #[test]
        fn every_nonempty_line_is_in_exactly_one_passage(text in "(# |[a \n]|\n\n){0,80}") {
            let lines: Vec<&str> = text.lines().collect();
            let mut next = 1;
            for passage in split_passages(&text) {
                prop_assert!(passage.from >= next && passage.to >= passage.from && passage.to < passage.from + MAX_PASSAGE_LINES);
                prop_assert!(lines[next - 1..passage.from - 1].iter().all(|line| line.trim().is_empty()));
                prop_assert_eq!(&passage.text, &lines[passage.from - 1..passage.to].join("\n"));
                next = passage.to + 1;
            }
            prop_assert!(lines[next - 1..].iter().all(|line| line.trim().is_empty()));
        }
    }
}

//! Splits a file into documents before any of them is parsed.
//!
//! A line that begins with `---` always ends a document: YAML forbids such a line even inside
//! quoted strings. So an error in one document does not hide errors in the others.

/// Part of a file that contains one document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DocumentChunk<'t> {
    /// From its `---` (or the directives and comments before it) to the next document.
    pub(crate) text: &'t str,
    pub(crate) lines_before: usize,
    pub(crate) bytes_before: usize,
}

/// Splits `text` into documents. A part with only comments and directives is joined to the next
/// document.
pub(crate) fn split_documents(text: &str) -> Vec<DocumentChunk<'_>> {
    let mut chunks = Vec::new();
    let mut current = DocumentChunk {
        text: "",
        lines_before: 0,
        bytes_before: 0,
    };
    let mut has_content = false;
    // Number of lines and bytes before the directives and comments that follow a line `...`.
    let mut head_of_next: Option<(usize, usize)> = None;
    let mut lines = 0;
    let mut bytes = 0;
    for line in text.split_inclusive('\n') {
        let ended = is_marker(line, "---") && has_content;
        if ended {
            let (lines_before, bytes_before) = head_of_next.unwrap_or((lines, bytes));
            current.text = &text[current.bytes_before..bytes_before];
            chunks.push(current);
            current = DocumentChunk {
                text: "",
                lines_before,
                bytes_before,
            };
        }
        has_content = (has_content && !ended) || is_marker(line, "---") || is_content(line);
        lines += 1;
        bytes += line.len();
        if is_marker(line, "...") {
            head_of_next = Some((lines, bytes));
        } else if is_marker(line, "---") || is_content(line) {
            head_of_next = None;
        }
    }
    current.text = &text[current.bytes_before..];
    chunks.push(current);
    chunks
}

/// Returns true if the line starts with the marker as a separate word.
fn is_marker(line: &str, marker: &str) -> bool {
    line.strip_prefix(marker)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']))
}

/// Returns true if the line is more than a comment, a directive or blank.
fn is_content(line: &str) -> bool {
    let trimmed = line.trim_start_matches('\u{feff}').trim();
    !(trimmed.is_empty()
        || trimmed.starts_with('#')
        || line.starts_with('%')
        || is_marker(line, "..."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<&str> {
        split_documents(text)
            .into_iter()
            .map(|chunk| chunk.text)
            .collect()
    }

    #[test]
    fn documents_end_at_the_next_marker() {
        assert_eq!(
            texts("a: 1\n---\nb: 2\n--- {c: 3}\n"),
            ["a: 1\n", "---\nb: 2\n", "--- {c: 3}\n"]
        );
        assert_eq!(
            texts("# head\n%YAML 1.2\n---\na: 1\n"),
            ["# head\n%YAML 1.2\n---\na: 1\n"]
        );
        assert_eq!(texts("a: |\n  ---\n----\n"), ["a: |\n  ---\n----\n"]);
        assert_eq!(
            texts("a: 1\n...\n# next\n%YAML 1.2\n---\nb: 2\n...\n%YAML 1.2\n"),
            [
                "a: 1\n...\n",
                "# next\n%YAML 1.2\n---\nb: 2\n...\n%YAML 1.2\n"
            ]
        );
        assert_eq!(
            texts("a: 1\n...\nignored\n---\nb: 2\n"),
            ["a: 1\n...\nignored\n", "---\nb: 2\n"]
        );
        assert_eq!(texts(""), [""]);
    }

    #[test]
    fn offsets_are_positions_in_the_file() {
        let text = "a: 1\r\n---\r\nb: 2\r\n";
        let second = split_documents(text)[1];
        assert_eq!((second.lines_before, second.bytes_before), (1, 6));
        assert_eq!(&text[second.bytes_before..], second.text);
    }
}

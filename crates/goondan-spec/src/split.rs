//! Where the documents of a file begin, found before any of them is parsed.
//!
//! A line that begins with `---` ends the document before it, whatever that holds: YAML forbids such a line even inside
//! quoted text. So a mistake in one document does not hide the mistakes in the others.

/// One document's part of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chunk<'t> {
    /// Its text, from its `---` (or the directives and comments above it) up to the next document.
    pub(crate) text: &'t str,
    /// How many lines stand above it in the file.
    pub(crate) lines_before: usize,
    /// How many bytes stand above it in the file.
    pub(crate) bytes_before: usize,
}

/// Cuts `text` into documents. Chunks that hold only comments and directives are joined to the document below.
pub(crate) fn documents(text: &str) -> Vec<Chunk<'_>> {
    let mut chunks = Vec::new();
    let mut current = Chunk {
        text: "",
        lines_before: 0,
        bytes_before: 0,
    };
    let mut has_content = false;
    let (mut lines, mut bytes) = (0, 0);
    for line in text.split_inclusive('\n') {
        let ended = is_marker(line, "---") && has_content;
        if ended {
            current.text = &text[current.bytes_before..bytes];
            chunks.push(current);
            current = Chunk {
                text: "",
                lines_before: lines,
                bytes_before: bytes,
            };
        }
        has_content = (has_content && !ended) || is_marker(line, "---") || is_content(line);
        lines += 1;
        bytes += line.len();
    }
    current.text = &text[current.bytes_before..];
    chunks.push(current);
    chunks
}

fn is_marker(line: &str, marker: &str) -> bool {
    line.strip_prefix(marker)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']))
}

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
        documents(text)
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
        assert_eq!(texts(""), [""]);
    }

    #[test]
    fn offsets_lead_back_into_the_file() {
        let text = "a: 1\r\n---\r\nb: 2\r\n";
        let second = documents(text)[1];
        assert_eq!((second.lines_before, second.bytes_before), (1, 6));
        assert_eq!(&text[second.bytes_before..], second.text);
    }
}

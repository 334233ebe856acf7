//! Cursor in a document and the element under it.

use std::ops::Range;

use goondan_spec::Kind;

use crate::scan::{DocumentScan, PathStep, document_ranges, scan, strip_quotes};

/// Cursor with the scanned document around it.
#[derive(Debug)]
pub(crate) struct DocumentCursor<'t> {
    pub(crate) text: &'t str,
    pub(crate) offset: usize,
    pub(crate) scan: DocumentScan,
    /// Kind that the document states.
    pub(crate) kind: Option<Kind>,
    /// Byte range of its document.
    pub(crate) document: Range<usize>,
}

/// Element at a cursor.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum CursorElement {
    /// Key of the field at `path`.
    Key {
        path: Vec<PathStep>,
        word: Range<usize>,
    },
    /// Value of the field at `path`.
    Value {
        path: Vec<PathStep>,
        word: Range<usize>,
    },
    /// Empty map, list or value at `path`, possibly with an incomplete word.
    Open {
        path: Vec<PathStep>,
        word: Range<usize>,
    },
}

impl<'t> DocumentCursor<'t> {
    /// Scans the YAML document that contains `offset` (in bytes).
    pub(crate) fn at_offset(text: &'t str, offset: usize) -> Self {
        let offset = text.floor_char_boundary(offset);
        let parts = document_ranges(text);
        let document = parts
            .iter()
            .rfind(|part| part.start <= offset)
            .cloned()
            .unwrap_or(0..text.len());
        let scan = scan(text, document.clone(), offset);
        let kind = scan
            .value(text, &[PathStep::Key("kind".to_owned())])
            .and_then(Kind::parse);
        DocumentCursor {
            text,
            offset,
            scan,
            kind,
            document,
        }
    }

    /// Returns the element under the cursor. `None` in a comment or a block scalar.
    pub(crate) fn element(&self) -> Option<CursorElement> {
        if self.scan.in_text || self.offset > self.document.end {
            return None;
        }
        if let Some(path) = &self.scan.blank {
            return Some(CursorElement::Open {
                path: path.clone(),
                word: self.offset..self.offset,
            });
        }
        let offset = self.offset;
        let elements = &self.scan.elements;
        let on_key = |range: &Range<usize>| range.start <= offset && offset <= range.end;
        if let Some((element, word)) = elements
            .iter()
            .find_map(|element| Some((element, element.key.clone().filter(on_key)?)))
        {
            let path = element.path.clone();
            return Some(match element.value {
                Some(_) => CursorElement::Key { path, word },
                None => CursorElement::Open { path, word },
            });
        }
        // Takes the innermost value, which starts last.
        let about = elements
            .iter()
            .filter(|element| element.is_about(offset))
            .min_by_key(|element| {
                let value = element.value.clone().unwrap_or_default();
                usize::MAX - value.start
            })?;
        let value = about.value.clone()?;
        let word = if value.start <= offset && offset <= value.end {
            value
        } else {
            offset..offset
        };
        let path = about.path.clone();
        match about.key {
            Some(_) => Some(CursorElement::Value { path, word }),
            None => Some(CursorElement::Open { path, word }),
        }
    }

    /// Returns the byte range and the text of `word` without its quotes.
    pub(crate) fn unquoted_word(&self, word: Range<usize>) -> (Range<usize>, &'t str) {
        let written = &self.text[word.clone()];
        let inner = strip_quotes(written);
        match inner.len() == written.len() {
            true => (word, inner),
            false => (word.start + 1..word.start + 1 + inner.len(), inner),
        }
    }

    /// Returns the value of the sibling field `name` of `here`.
    pub(crate) fn sibling_value(&self, here: &[PathStep], name: &str) -> Option<&'t str> {
        let (_, above) = here.split_last()?;
        let path: Vec<PathStep> = above
            .iter()
            .cloned()
            .chain([PathStep::Key(name.to_owned())])
            .collect();
        self.scan.value(self.text, &path)
    }

    /// Returns the values of all fields whose path matches `pattern`, without quotes. In the
    /// pattern, `[]` matches any list item.
    pub(crate) fn field_values(&self, pattern: &[&str]) -> Vec<&'t str> {
        let mut values = Vec::new();
        for element in &self.scan.elements {
            if matches_path(pattern, &element.path)
                && let Some(range) = element.value.clone()
            {
                values.push(strip_quotes(&self.text[range]));
            }
        }
        values
    }
}

/// Returns true if `path` matches `pattern`, in which `[]` matches any list item.
fn matches_path(pattern: &[&str], path: &[PathStep]) -> bool {
    let matches_step = |wanted: &str, step: &PathStep| match step {
        PathStep::Key(name) => name == wanted,
        PathStep::Item(_) => wanted == "[]",
    };
    pattern.len() == path.len()
        && pattern
            .iter()
            .zip(path)
            .all(|(wanted, step)| matches_step(wanted, step))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn describe_element(text: &str) -> Option<String> {
        let offset = text.find('|').unwrap();
        let text = text.replacen('|', "", 1);
        let cursor = DocumentCursor::at_offset(&text, offset);
        let shown = |path: Vec<PathStep>, word: Range<usize>| format!("{path:?} {:?}", &text[word]);
        let shown = cursor.element().map(|element| match element {
            CursorElement::Key { path, word } => format!("key {}", shown(path, word)),
            CursorElement::Value { path, word } => format!("value {}", shown(path, word)),
            CursorElement::Open { path, word } => format!("open {}", shown(path, word)),
        });
        shown.map(|text| {
            text.replace("Key(", "")
                .replace("Item(", "")
                .replace(')', "")
        })
    }

    #[test]
    fn the_cursor_element_is_a_key_a_value_or_an_open_position() {
        assert_eq!(
            describe_element("a:\n  b|c: 1").unwrap(),
            r#"key ["a", "bc"] "bc""#
        );
        assert_eq!(
            describe_element("a:\n  bc: x|y").unwrap(),
            r#"value ["a", "bc"] "xy""#
        );
        assert_eq!(
            describe_element("a:\n  bc: |").unwrap(),
            r#"value ["a", "bc"] """#
        );
        assert_eq!(describe_element("a:\n  b|").unwrap(), r#"open ["a"] "b""#);
        assert_eq!(
            describe_element("a:\n  - b|").unwrap(),
            r#"open ["a", 0] "b""#
        );
        assert_eq!(
            describe_element("a:\n  - |").unwrap(),
            r#"open ["a", 0] """#
        );
        assert_eq!(
            describe_element("a: {b: x|, c: y}").unwrap(),
            r#"value ["a", "b"] "x""#
        );
        assert_eq!(
            describe_element("a: {b: 1, c|}").unwrap(),
            r#"open ["a"] "c""#
        );
        assert_eq!(
            describe_element("a: [x, y|]").unwrap(),
            r#"open ["a", 1] "y""#
        );
        assert_eq!(describe_element("a: 1 # com|ment"), None);
        assert_eq!(
            describe_element("a: 1\n---\nb|"),
            Some("open [] \"b\"".to_owned())
        );
    }

    #[test]
    fn the_kind_is_found_anywhere_in_the_document() {
        assert_eq!(
            DocumentCursor::at_offset("spec:\n  x\nkind: Agent\n", 9).kind,
            Some(Kind::Agent)
        );
        assert_eq!(
            DocumentCursor::at_offset("kind: Model\n---\nx\n", 18).kind,
            None
        );
    }
}

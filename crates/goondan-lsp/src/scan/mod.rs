//! Scans possibly incomplete YAML by the indentation of its lines.
//!
//! A parser stops at the first error, and text that is being edited is full of them. Here, an
//! invalid line only affects itself: a key belongs to the nearest less indented line above it.

mod flow;

use std::ops::Range;

use flow::FlowScanner;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PathStep {
    Key(String),
    Item(usize),
}

/// Key or value with its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ScannedElement {
    /// Path to it. For a word that is not yet a key, the path of its parent.
    pub(crate) path: Vec<PathStep>,
    pub(crate) key: Option<Range<usize>>,
    /// Empty if the value is not written yet. `None` for a word that is not yet a key.
    pub(crate) value: Option<Range<usize>>,
    /// Byte range in which the cursor refers to the value.
    cursor_range: Range<usize>,
}

/// Scan result of one document.
#[derive(Debug, Default)]
pub(crate) struct DocumentScan {
    pub(crate) elements: Vec<ScannedElement>,
    /// Path of the parent of an empty line at the cursor.
    pub(crate) blank: Option<Vec<PathStep>>,
    /// Set if the cursor is inside braces or brackets.
    pub(crate) in_flow: bool,
    /// Set if the cursor is in a block scalar or in a comment.
    pub(crate) in_text: bool,
}

impl ScannedElement {
    /// Returns true if a cursor at `offset` refers to the value.
    pub(crate) fn is_about(&self, offset: usize) -> bool {
        self.value.is_some() && self.cursor_range.start <= offset && offset <= self.cursor_range.end
    }
}

impl DocumentScan {
    /// Returns the value at `path` without quotes.
    pub(crate) fn value<'t>(&self, text: &'t str, path: &[PathStep]) -> Option<&'t str> {
        let element = self.elements.iter().find(|element| {
            element.path == path && element.key.is_some() && element.value.is_some()
        })?;
        Some(strip_quotes(&text[element.value.clone()?]))
    }

    /// Returns the keys of the map at `path`.
    pub(crate) fn keys<'s>(&'s self, path: &'s [PathStep]) -> impl Iterator<Item = &'s str> {
        self.elements
            .iter()
            .filter(|element| element.value.is_some())
            .filter_map(move |element| match element.path.split_last()? {
                (PathStep::Key(name), above) if above == path => Some(name.as_str()),
                _ => None,
            })
    }
}

/// Removes the quotes around `text`.
pub(crate) fn strip_quotes(text: &str) -> &str {
    let quoted = |quote: char| {
        text.strip_prefix(quote)
            .map(|rest| rest.strip_suffix(quote).unwrap_or(rest))
    };
    quoted('"').or_else(|| quoted('\'')).unwrap_or(text)
}

/// Returns the byte range of each document. The `---` lines between them belong to none.
pub(crate) fn document_ranges(text: &str) -> Vec<Range<usize>> {
    let (mut documents, mut start) = (Vec::new(), 0);
    for (at, line) in lines(text, 0..text.len()) {
        if line.trim_end() == "---" || line.starts_with("--- ") {
            documents.push(start..at);
            start = (at + line.len() + 1).min(text.len());
        }
    }
    documents.push(start..text.len());
    documents
}

/// Returns the lines in a part of a text without line ends, with their offsets.
fn lines(text: &str, part: Range<usize>) -> impl Iterator<Item = (usize, &str)> {
    let mut at = part.start;
    text[part].split_inclusive('\n').map(move |line| {
        let start = at;
        at += line.len();
        (start, line.trim_end_matches(['\n', '\r']))
    })
}

/// Scans the document in `part` of `text` for a cursor.
pub(crate) fn scan(text: &str, part: Range<usize>, cursor: usize) -> DocumentScan {
    let mut scanner = IndentScanner {
        text,
        end: part.end,
        cursor,
        frames: Vec::new(),
        block: None,
        flow_end: 0,
        found: DocumentScan::default(),
    };
    for (start, line) in lines(text, part.clone()) {
        scanner.scan_line(start, line);
    }
    // A trailing line end is followed by an empty line, which `lines` does not return.
    let ends = part.is_empty() || text[..part.end].ends_with('\n');
    if ends && cursor == part.end {
        scanner.scan_line(part.end, "");
    }
    scanner.found
}

/// Line that may have more indented lines below it.
struct IndentFrame {
    indent: usize,
    step: PathStep,
}

struct IndentScanner<'t> {
    text: &'t str,
    end: usize,
    cursor: usize,
    frames: Vec<IndentFrame>,
    /// Indentation of the key of a block scalar. Deeper lines belong to the scalar.
    block: Option<usize>,
    /// End offset of the last flow collection.
    flow_end: usize,
    found: DocumentScan,
}

impl IndentScanner<'_> {
    /// Scans a line of block style that starts at byte `start`.
    fn scan_line(&mut self, start: usize, line: &str) {
        if start < self.flow_end {
            return;
        }
        let indent = line.len() - line.trim_start_matches(' ').len();
        let body = &line[indent..];
        let has_cursor = (start..=start + line.len()).contains(&self.cursor);
        if let Some(parent) = self.block {
            if body.is_empty() || indent > parent {
                self.found.in_text |=
                    has_cursor && (!body.is_empty() || self.cursor - start > parent);
                if self.found.in_text || !body.is_empty() || !has_cursor {
                    return;
                }
            } else {
                self.block = None;
            }
        }
        if body.trim().is_empty() {
            if has_cursor {
                self.found.blank = Some(self.path_at(self.cursor - start));
            }
            return;
        }
        if body.starts_with('#') {
            self.found.in_text |= has_cursor;
            return;
        }
        self.scan_content(start, indent, line);
    }

    /// Scans a non-empty line from its first dash, key or value on.
    fn scan_content(&mut self, start: usize, indent: usize, line: &str) {
        let mut at = indent;
        while line[at..].starts_with("- ") || &line[at..] == "-" {
            self.begin_item(at);
            let rest = line[at + 1..].trim_start_matches(' ');
            let after = line.len() - rest.len();
            if rest.is_empty() {
                let value_start = start + after.min(line.len());
                let cursor_range = start + at + 1..value_start;
                return self.record_element(
                    self.path(),
                    None,
                    Some(value_start..value_start),
                    cursor_range,
                );
            }
            at = after;
        }
        let is_item = at > indent;
        let rest = strip_comment(&line[at..]);
        if start + at + rest.len() < self.cursor
            && self.cursor <= start + line.len()
            && rest.len() < line.len() - at
        {
            self.found.in_text |= self.cursor > start + at + line[at..].find('#').unwrap_or(0);
        }
        match split_key(rest) {
            Some((name, colon)) => self.record_key(start + at, at, name, colon, rest),
            None if rest.starts_with(['{', '[']) => self.scan_flow(start + at, indent),
            None => {
                if !is_item {
                    self.close_frames(at);
                }
                let word = start + at..start + at + rest.trim_end().len();
                let value = is_item.then(|| word.clone());
                let cursor_range = word.start..start + at + rest.len();
                self.record_element(self.path(), (!is_item).then_some(word), value, cursor_range);
            }
        }
    }

    /// Records `name:` at column `indent`, which is at byte `start` of the text.
    fn record_key(&mut self, start: usize, indent: usize, name: &str, colon: usize, rest: &str) {
        self.close_frames(indent);
        self.frames.push(IndentFrame {
            indent,
            step: PathStep::Key(strip_quotes(name).to_owned()),
        });
        // Anchors and tags precede the value.
        let mut after = &rest[colon + 1..];
        while let Some(after_sign) = after.trim_start().strip_prefix(['&', '!']) {
            after = after_sign
                .find(' ')
                .map_or("", |space| &after_sign[space..]);
        }
        let value_text = after.trim();
        let value_start = start + rest.len() - after.trim_start().len();
        let cursor_range = start + colon + 1..start + rest.len();
        if value_text.starts_with(['|', '>']) {
            self.block = Some(indent);
        }
        let key = Some(start..start + name.len());
        self.record_element(
            self.path(),
            key,
            Some(value_start..value_start + value_text.len()),
            cursor_range,
        );
        if value_text.starts_with(['{', '[']) {
            self.scan_flow(value_start, indent);
        }
    }

    /// Scans the flow collection (`{…}` or `[…]`) at byte `at`; later lines are skipped up to its
    /// end.
    fn scan_flow(&mut self, at: usize, indent: usize) {
        let mut path = self.path();
        self.flow_end = FlowScanner {
            scanner: self,
            indent,
        }
        .scan_collection(&mut path, at, 0);
    }

    /// Begins the next item of the list at column `indent`.
    fn begin_item(&mut self, indent: usize) {
        let is_deeper = |frame: &IndentFrame| frame.indent > indent;
        while self.frames.last().is_some_and(is_deeper) {
            self.frames.pop();
        }
        let last = match self.frames.last() {
            Some(IndentFrame {
                indent: other,
                step: PathStep::Item(index),
            }) if *other == indent => Some(*index),
            _ => None,
        };
        if last.is_some() {
            self.frames.pop();
        }
        self.frames.push(IndentFrame {
            indent,
            step: PathStep::Item(last.map_or(0, |index| index + 1)),
        });
    }

    /// Closes all frames to which a line at column `indent` does not belong.
    fn close_frames(&mut self, indent: usize) {
        while self
            .frames
            .last()
            .is_some_and(|frame| frame.indent >= indent)
        {
            self.frames.pop();
        }
    }

    /// Returns the path to the innermost open block.
    fn path(&self) -> Vec<PathStep> {
        self.frames.iter().map(|frame| frame.step.clone()).collect()
    }

    /// Returns the path of the parent of a line at column `indent`.
    fn path_at(&self, indent: usize) -> Vec<PathStep> {
        self.frames
            .iter()
            .take_while(|frame| frame.indent < indent)
            .map(|frame| frame.step.clone())
            .collect()
    }

    /// Records an element. `cursor_range` is the byte range where the cursor counts as inside the
    /// element.
    fn record_element(
        &mut self,
        path: Vec<PathStep>,
        key: Option<Range<usize>>,
        value: Option<Range<usize>>,
        cursor_range: Range<usize>,
    ) {
        self.found.elements.push(ScannedElement {
            path,
            key,
            value,
            cursor_range,
        });
    }
}

/// Returns the key at the start of a line and the offset of its colon.
fn split_key(rest: &str) -> Option<(&str, usize)> {
    let quote = rest.chars().next().filter(|c| matches!(c, '"' | '\''));
    let from = match quote {
        Some(quote) => rest[1..].find(quote)? + 2,
        None => 0,
    };
    let colon = rest[from..]
        .match_indices(':')
        .map(|(at, _)| from + at)
        .find(|at| matches!(rest[at + 1..].chars().next(), None | Some(' ' | '\t')))?;
    let name = rest[..colon].trim_end();
    (!name.is_empty() && !rest.starts_with(['{', '['])).then_some((name, colon))
}

/// Removes a comment. A `#` in quotes does not start one.
fn strip_comment(line: &str) -> &str {
    let mut quote = None;
    let mut before = ' ';
    for (at, c) in line.char_indices() {
        match (quote, c) {
            (None, '#') if matches!(before, ' ' | '\t') => return &line[..at],
            (None, '"' | '\'') if matches!(before, ' ' | ':' | '[' | '{' | ',' | '-') => {
                quote = Some(c)
            }
            (Some(open), c) if c == open => quote = None,
            _ => {}
        }
        before = c;
    }
    line
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(path: &[PathStep]) -> String {
        let step = |step: &PathStep| match step {
            PathStep::Key(name) => format!(".{name}"),
            PathStep::Item(index) => format!("[{index}]"),
        };
        path.iter().map(step).collect()
    }

    /// Returns each element as its path and value.
    fn elements(text: &str) -> Vec<String> {
        let scan = scan(text, 0..text.len(), usize::MAX);
        let value = |element: &ScannedElement| {
            element
                .value
                .clone()
                .map_or("?", |value| &text[value])
                .to_owned()
        };
        scan.elements
            .iter()
            .map(|element| format!("{}={}", shown(&element.path), value(element)))
            .collect()
    }

    /// Returns the path of the element around a cursor at `|`.
    fn blank(text: &str) -> Option<String> {
        let cursor = text.find('|').unwrap();
        let text = text.replacen('|', "", 1);
        scan(&text, 0..text.len(), cursor)
            .blank
            .map(|path| shown(&path))
    }

    #[test]
    fn indentation_determines_element_paths() {
        let text = "spec:\n  tools:\n    - ref: A # c\n      exports:\n      - x\n      - \
            \"y\"\n    - {ref: B, n: [1, z]}\n  q: 1\n";
        let expected = [
            ".spec=",
            ".spec.tools=",
            ".spec.tools[0].ref=A",
            ".spec.tools[0].exports=",
            ".spec.tools[0].exports[0]=x",
            ".spec.tools[0].exports[1]=\"y\"",
            ".spec.tools[1].ref=B",
            ".spec.tools[1].n[0]=1",
            ".spec.tools[1].n[1]=z",
            ".spec.tools[1].n=[1, z]",
            ".spec.q=1",
        ];
        assert_eq!(elements(text), expected);
    }

    #[test]
    fn an_invalid_line_does_not_stop_the_scan() {
        let text = "a:\n  b: [x, {\n  wor\n  c: 'open\nd: {k: \ne: 1\n";
        assert_eq!(
            elements(text),
            [
                ".a=",
                ".a.b=[x, {",
                ".a.b[0]=x",
                ".a.b[1]=",
                ".a=?",
                ".a.c='open",
                ".d={k:",
                ".d.k=",
                ".e=1"
            ]
        );
    }

    #[test]
    fn the_column_determines_the_parent_of_an_empty_line() {
        assert_eq!(blank("a:\n  b:\n    |\n").as_deref(), Some(".a.b"));
        assert_eq!(blank("a:\n  b:\n  |\n").as_deref(), Some(".a"));
        assert_eq!(blank("a:\n  - b: 1\n    |").as_deref(), Some(".a[0]"));
        assert_eq!(blank("a:\n  - b: 1\n|").as_deref(), Some(""));
        assert_eq!(blank("a: {b: 1, |}").as_deref(), Some(".a"));
        assert_eq!(blank("a: [|]").as_deref(), Some(".a[0]"));
        assert_eq!(blank("|").as_deref(), Some(""));
        assert_eq!(blank("a: >\n  te|xt"), None);
    }

    #[test]
    fn document_ranges_splits_yaml_documents() {
        let text = "a: 1\n---\nb: 2\n--- # c\n";
        let found: Vec<&str> = document_ranges(text)
            .into_iter()
            .map(|part| &text[part])
            .collect();
        assert_eq!(found, ["a: 1\n", "b: 2\n", ""]);
    }

    proptest! {
        #[test]
        fn scan_accepts_any_text(text in "([a-c:{}\\[\\],'\"#|>&! -]|\n|é|\r){0,60}", cursor in 0..70usize) {
            for part in document_ranges(&text) {
                let scan = scan(&text, part, cursor);
                for element in &scan.elements {
                    prop_assert!(element.value.clone().is_none_or(|value| text.get(value).is_some()));
                    prop_assert!(element.key.clone().is_none_or(|key| text.get(key).is_some()));
                }
            }
        }
    }
}

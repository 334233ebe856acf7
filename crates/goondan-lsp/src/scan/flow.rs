//! Flow maps and lists (braces and brackets), including unclosed ones.

use std::ops::Range;

use super::{IndentScanner, PathStep, strip_quotes};

/// Maximum nesting depth of scanned braces and brackets.
const MAX_FLOW_DEPTH: usize = 64;

/// Scanner inside braces and brackets.
pub(super) struct FlowScanner<'s, 't> {
    pub(super) scanner: &'s mut IndentScanner<'t>,
    /// Column of the key or item that contains the collection. A line without a deeper indentation
    /// ends the collection.
    pub(super) indent: usize,
}

impl FlowScanner<'_, '_> {
    /// Scans a map or list that opens at `at` and returns the offset after it.
    pub(super) fn scan_collection(
        &mut self,
        path: &mut Vec<PathStep>,
        at: usize,
        depth: usize,
    ) -> usize {
        let text = self.scanner.text;
        let is_list = text[at..].starts_with('[');
        let (mut here, mut index) = (at + 1, 0);
        loop {
            if is_list {
                path.push(PathStep::Item(index));
            }
            here = self.scan_entry(path, here, is_list, depth);
            if is_list {
                path.pop();
            }
            index += 1;
            let next = text[here..self.scanner.end].chars().next();
            let closes = matches!(next, None | Some('\n' | '}' | ']'));
            if closes {
                let end = if matches!(next, Some('}' | ']')) {
                    here + 1
                } else {
                    here
                };
                self.scanner.found.in_flow |= (at + 1..=here).contains(&self.scanner.cursor);
                return end;
            }
            here += next.map_or(0, char::len_utf8);
        }
    }

    /// Scans an item or a field up to the next comma or closing bracket.
    fn scan_entry(
        &mut self,
        path: &mut Vec<PathStep>,
        from: usize,
        is_list: bool,
        depth: usize,
    ) -> usize {
        let start = self.skip_space(from);
        let end = self.word_end(start);
        let text = self.scanner.text;
        let word = text[start..end].trim_end();
        let word_range = start..start + word.len();
        let is_colon = text[end..self.scanner.end].starts_with(':');
        if let Some(inner) = self.nested_collection(path, start, depth) {
            self.scanner
                .record_element(path.clone(), None, Some(start..start), start..start);
            return self.skip_space(inner);
        }
        if is_colon && !word.is_empty() {
            path.push(PathStep::Key(strip_quotes(word).to_owned()));
            let end = self.scan_field(path, word_range, end, depth);
            path.pop();
            return end;
        }
        if word.is_empty() {
            if (from..=end).contains(&self.scanner.cursor) {
                self.scanner.found.blank = Some(path.clone());
            }
            // Skips a colon without a key.
            return if is_colon { end + 1 } else { end };
        }
        match is_list {
            true => self
                .scanner
                .record_element(path.clone(), None, Some(word_range), start..end),
            false => self
                .scanner
                .record_element(path.clone(), Some(word_range), None, start..end),
        }
        end
    }

    /// Scans the value after a key and its colon.
    fn scan_field(
        &mut self,
        path: &mut Vec<PathStep>,
        key: Range<usize>,
        colon: usize,
        depth: usize,
    ) -> usize {
        let start = self.skip_space(colon + 1);
        let text = self.scanner.text;
        if let Some(inner) = self.nested_collection(path, start, depth) {
            self.scanner.record_element(
                path.clone(),
                Some(key),
                Some(start..inner),
                colon + 1..start,
            );
            return self.skip_space(inner);
        }
        let mut end = self.word_end(start);
        while text[end..self.scanner.end].starts_with(':') {
            end = self.word_end(end + 1);
        }
        let value = start..start + text[start..end].trim_end().len();
        self.scanner
            .record_element(path.clone(), Some(key), Some(value), colon + 1..end);
        end
    }

    /// Scans a collection at `at` and returns its end; `None` if there is none, or if it is nested
    /// too deep.
    fn nested_collection(
        &mut self,
        path: &mut Vec<PathStep>,
        at: usize,
        depth: usize,
    ) -> Option<usize> {
        let opens = self.scanner.text[at..self.scanner.end].starts_with(['{', '[']);
        (opens && depth < MAX_FLOW_DEPTH).then(|| self.scan_collection(path, at, depth + 1))
    }

    /// Skips spaces, and line ends if the next line belongs to the collection.
    fn skip_space(&self, mut at: usize) -> usize {
        let text = self.scanner.text;
        while at < self.scanner.end {
            match text.as_bytes()[at] {
                b' ' | b'\t' | b'\r' => at += 1,
                b'\n' if self.continues_at(at + 1) => at += 1,
                _ => break,
            }
        }
        at
    }

    /// Returns true if the line at `start` belongs to the collection.
    fn continues_at(&self, start: usize) -> bool {
        let line = self.scanner.text[start..self.scanner.end]
            .split('\n')
            .next()
            .unwrap_or_default();
        let indent = line.len() - line.trim_start_matches(' ').len();
        let body = line.trim();
        start < self.scanner.end
            && (body.is_empty() || indent > self.indent || body.starts_with(['}', ']']))
    }

    /// Returns the end of a word: a comma, a bracket, or a colon after a key. Quoted text is
    /// skipped.
    fn word_end(&self, start: usize) -> usize {
        let rest = &self.scanner.text[start..self.scanner.end];
        let quote = rest.chars().next().filter(|c| matches!(c, '"' | '\''));
        let mut from = 0;
        if let Some(quote) = quote {
            from = rest[1..]
                .find([quote, '\n'])
                .map_or(rest.len(), |end| end + 1);
            from += usize::from(rest[from..].starts_with(quote));
        }
        for (at, c) in rest[from..].char_indices() {
            let after = rest[from + at + c.len_utf8()..].chars().next();
            let ends = match c {
                ',' | '}' | ']' | '\n' => true,
                ':' => matches!(after, None | Some(' ' | ',' | '}' | ']' | '\n' | '\r')),
                _ => false,
            };
            if ends {
                return start + from + at;
            }
        }
        self.scanner.end
    }
}

//! Maps and lists in braces and brackets, closed or not.

use std::ops::Range;

use super::{Scanner, Step, bare};

/// How deep braces and brackets are followed.
const MAX_FLOW: usize = 64;

/// Inside of braces and brackets.
pub(super) struct Flow<'s, 't> {
    pub(super) scanner: &'s mut Scanner<'t>,
    /// The column of what it is the value of: lines that are not indented more do not belong to it, closed or not.
    pub(super) indent: usize,
}

impl Flow<'_, '_> {
    /// A map or list that opens at `at`; gives the byte behind it.
    pub(super) fn collection(&mut self, path: &mut Vec<Step>, at: usize, depth: usize) -> usize {
        let text = self.scanner.text;
        let is_list = text[at..].starts_with('[');
        let (mut here, mut index) = (at + 1, 0);
        loop {
            if is_list {
                path.push(Step::Item(index));
            }
            here = self.entry(path, here, is_list, depth);
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

    /// An item or a field from `from` on, up to the comma or the end behind it.
    fn entry(&mut self, path: &mut Vec<Step>, from: usize, is_list: bool, depth: usize) -> usize {
        let start = self.skip_space(from);
        let end = self.word_end(start);
        let text = self.scanner.text;
        let word = text[start..end].trim_end();
        let word_range = start..start + word.len();
        let is_colon = text[end..self.scanner.end].starts_with(':');
        if let Some(inner) = self.inner(path, start, depth) {
            self.scanner
                .spot(path.clone(), None, Some(start..start), start..start);
            return self.skip_space(inner);
        }
        if is_colon && !word.is_empty() {
            path.push(Step::Key(bare(word).to_owned()));
            let end = self.field(path, word_range, end, depth);
            path.pop();
            return end;
        }
        if word.is_empty() {
            if (from..=end).contains(&self.scanner.cursor) {
                self.scanner.found.blank = Some(path.clone());
            }
            // A colon without a key is passed over.
            return if is_colon { end + 1 } else { end };
        }
        match is_list {
            true => self
                .scanner
                .spot(path.clone(), None, Some(word_range), start..end),
            false => self
                .scanner
                .spot(path.clone(), Some(word_range), None, start..end),
        }
        end
    }

    /// The value behind a key and its colon.
    fn field(
        &mut self,
        path: &mut Vec<Step>,
        key: Range<usize>,
        colon: usize,
        depth: usize,
    ) -> usize {
        let start = self.skip_space(colon + 1);
        let text = self.scanner.text;
        if let Some(inner) = self.inner(path, start, depth) {
            self.scanner.spot(
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
            .spot(path.clone(), Some(key), Some(value), colon + 1..end);
        end
    }

    fn inner(&mut self, path: &mut Vec<Step>, at: usize, depth: usize) -> Option<usize> {
        let opens = self.scanner.text[at..self.scanner.end].starts_with(['{', '[']);
        (opens && depth < MAX_FLOW).then(|| self.collection(path, at, depth + 1))
    }

    /// Behind spaces, and behind the ends of lines that the next line belongs to.
    fn skip_space(&self, mut at: usize) -> usize {
        let text = self.scanner.text;
        while at < self.scanner.end {
            match text.as_bytes()[at] {
                b' ' | b'\t' | b'\r' => at += 1,
                b'\n' if self.goes_on(at + 1) => at += 1,
                _ => break,
            }
        }
        at
    }

    /// Whether the line at `start` belongs to the collection.
    fn goes_on(&self, start: usize) -> bool {
        let line = self.scanner.text[start..self.scanner.end]
            .split('\n')
            .next()
            .unwrap_or_default();
        let indent = line.len() - line.trim_start_matches(' ').len();
        let body = line.trim();
        start < self.scanner.end
            && (body.is_empty() || indent > self.indent || body.starts_with(['}', ']']))
    }

    /// The end of a word: a comma, an end, or a colon that ends a key. Quotes are passed over.
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

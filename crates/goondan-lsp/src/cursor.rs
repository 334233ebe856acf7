//! What a cursor is about.

use std::ops::Range;

use goondan_spec::Kind;

use crate::scan::{Scan, Step, bare, documents, scan};

/// A place in a document, with what is known of the document around it.
#[derive(Debug)]
pub(crate) struct Cursor<'t> {
    pub(crate) text: &'t str,
    pub(crate) offset: usize,
    pub(crate) scan: Scan,
    /// The kind that the document says it has.
    pub(crate) kind: Option<Kind>,
    /// The part of the text that is its document.
    pub(crate) document: Range<usize>,
}

/// What may be written at a cursor.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum About {
    /// The key of a field; the way leads to it.
    Key { path: Vec<Step>, word: Range<usize> },
    /// A value; the way leads to it.
    Value { path: Vec<Step>, word: Range<usize> },
    /// The way leads to a map, a list or a value of which nothing is there but perhaps a word.
    Open { path: Vec<Step>, word: Range<usize> },
}

impl<'t> Cursor<'t> {
    pub(crate) fn at(text: &'t str, offset: usize) -> Self {
        let offset = text.floor_char_boundary(offset);
        let parts = documents(text);
        let document = parts
            .iter()
            .rfind(|part| part.start <= offset)
            .cloned()
            .unwrap_or(0..text.len());
        let scan = scan(text, document.clone(), offset);
        let kind = scan
            .value(text, &[Step::Key("kind".to_owned())])
            .and_then(Kind::parse);
        Cursor {
            text,
            offset,
            scan,
            kind,
            document,
        }
    }

    /// What the cursor is about; nothing in a comment or a text of several lines.
    pub(crate) fn about(&self) -> Option<About> {
        if self.scan.in_text || self.offset > self.document.end {
            return None;
        }
        if let Some(path) = &self.scan.blank {
            return Some(About::Open {
                path: path.clone(),
                word: self.offset..self.offset,
            });
        }
        let offset = self.offset;
        let spots = &self.scan.spots;
        let on_key = |range: &Range<usize>| range.start <= offset && offset <= range.end;
        if let Some((spot, word)) = spots
            .iter()
            .find_map(|spot| Some((spot, spot.key.clone().filter(on_key)?)))
        {
            let path = spot.path.clone();
            return Some(match spot.value {
                Some(_) => About::Key { path, word },
                None => About::Open { path, word },
            });
        }
        // The innermost one was found last, or it reaches less far.
        let about = spots
            .iter()
            .filter(|spot| spot.is_about(offset))
            .min_by_key(|spot| {
                let value = spot.value.clone().unwrap_or_default();
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
            Some(_) => Some(About::Value { path, word }),
            None => Some(About::Open { path, word }),
        }
    }

    /// The bytes of `word` between its quotes, and the text there.
    pub(crate) fn inner(&self, word: Range<usize>) -> (Range<usize>, &'t str) {
        let written = &self.text[word.clone()];
        let inner = bare(written);
        match inner.len() == written.len() {
            true => (word, inner),
            false => (word.start + 1..word.start + 1 + inner.len(), inner),
        }
    }

    /// What stands at `path`, a key each, with the last step of the way `here` replaced.
    pub(crate) fn beside(&self, here: &[Step], name: &str) -> Option<&'t str> {
        let (_, above) = here.split_last()?;
        let path: Vec<Step> = above
            .iter()
            .cloned()
            .chain([Step::Key(name.to_owned())])
            .collect();
        self.scan.value(self.text, &path)
    }

    /// The values of all fields whose way looks like `pattern`: names, with `[]` for any item.
    pub(crate) fn all(&self, pattern: &[&str]) -> impl Iterator<Item = &'t str> {
        let text = self.text;
        let fits = |step: &Step, wanted: &&str| match step {
            Step::Key(name) => name == wanted,
            Step::Item(_) => *wanted == "[]",
        };
        let found = self.scan.spots.iter().filter(move |spot| {
            spot.path.len() == pattern.len()
                && spot
                    .path
                    .iter()
                    .zip(pattern)
                    .all(|(step, wanted)| fits(step, wanted))
        });
        found.filter_map(move |spot| Some(bare(&text[spot.value.clone()?])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about(text: &str) -> Option<String> {
        let offset = text.find('|').unwrap();
        let text = text.replacen('|', "", 1);
        let cursor = Cursor::at(&text, offset);
        let shown = |path: Vec<Step>, word: Range<usize>| format!("{path:?} {:?}", &text[word]);
        let shown = cursor.about().map(|about| match about {
            About::Key { path, word } => format!("key {}", shown(path, word)),
            About::Value { path, word } => format!("value {}", shown(path, word)),
            About::Open { path, word } => format!("open {}", shown(path, word)),
        });
        shown.map(|text| {
            text.replace("Key(", "")
                .replace("Item(", "")
                .replace(')', "")
        })
    }

    #[test]
    fn a_cursor_is_about_a_key_or_a_value() {
        assert_eq!(about("a:\n  b|c: 1").unwrap(), r#"key ["a", "bc"] "bc""#);
        assert_eq!(about("a:\n  bc: x|y").unwrap(), r#"value ["a", "bc"] "xy""#);
        assert_eq!(about("a:\n  bc: |").unwrap(), r#"value ["a", "bc"] """#);
        assert_eq!(about("a:\n  b|").unwrap(), r#"open ["a"] "b""#);
        assert_eq!(about("a:\n  - b|").unwrap(), r#"open ["a", 0] "b""#);
        assert_eq!(about("a:\n  - |").unwrap(), r#"open ["a", 0] """#);
        assert_eq!(
            about("a: {b: x|, c: y}").unwrap(),
            r#"value ["a", "b"] "x""#
        );
        assert_eq!(about("a: {b: 1, c|}").unwrap(), r#"open ["a"] "c""#);
        assert_eq!(about("a: [x, y|]").unwrap(), r#"open ["a", 1] "y""#);
        assert_eq!(about("a: 1 # com|ment"), None);
        assert_eq!(about("a: 1\n---\nb|"), Some("open [] \"b\"".to_owned()));
    }

    #[test]
    fn the_kind_is_known_wherever_it_stands() {
        assert_eq!(
            Cursor::at("spec:\n  x\nkind: Agent\n", 9).kind,
            Some(Kind::Agent)
        );
        assert_eq!(Cursor::at("kind: Model\n---\nx\n", 18).kind, None);
    }
}

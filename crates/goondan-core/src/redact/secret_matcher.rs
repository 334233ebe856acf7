//! Search for known secrets in a text.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, Range};

use aho_corasick::{AhoCorasick, Input, MatchKind};

use super::MASK;
use super::secret_forms::MaskScope;

/// Searchable set of the forms of all secrets.
pub(super) struct SecretMatcher {
    pub(super) forms: BTreeMap<String, MaskScope>,
    /// First characters of the forms.
    first: BTreeSet<char>,
    /// Length of the longest form, in bytes.
    longest: usize,
    finder: AhoCorasick,
}

impl SecretMatcher {
    /// Returns `None` if there are too many forms for the finder, which has four billion states.
    pub(super) fn new(forms: BTreeMap<String, MaskScope>) -> Option<Self> {
        let finder = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(forms.keys())
            .ok()?;
        Some(SecretMatcher {
            first: forms
                .keys()
                .filter_map(|form| form.chars().next())
                .collect(),
            longest: forms.keys().map(String::len).max().unwrap_or(0),
            forms,
            finder,
        })
    }

    /// Returns the range of the first secret in `text`, starting at `from`. `before` is the
    /// character before `text`.
    pub(super) fn find(
        &self,
        text: &str,
        from: usize,
        before: Option<char>,
    ) -> Option<Range<usize>> {
        let mut from = from;
        loop {
            let candidate = self.finder.find(Input::new(text).range(from..))?;
            let start = candidate.start();
            if let Some(end) = self.end(text, start, candidate.end(), before) {
                return Some(start..end);
            }
            from = text.ceil_char_boundary(start + 1);
        }
    }

    /// Returns the end of the longest form at `start` that is masked there. No form at `start` ends
    /// after `longest`.
    fn end(&self, text: &str, start: usize, longest: usize, before: Option<char>) -> Option<usize> {
        let is_masked = |end: usize| match self.forms.get(&text[start..end]) {
            Some(MaskScope::Anywhere) => true,
            Some(MaskScope::Word) => is_word(text, start..end, before),
            None => false,
        };
        if is_masked(longest) {
            return Some(longest);
        }
        (start + 1..longest)
            .rev()
            .filter(|end| text.is_char_boundary(*end))
            .find(|end| is_masked(*end))
    }

    /// Returns `text` with a mask in place of each secret. `before` is the character before `text`.
    pub(super) fn masked<'t>(&self, text: &'t str, before: Option<char>) -> Cow<'t, str> {
        let mut clean = String::new();
        let mut done = 0;
        while let Some(secret) = self.find(text, done, before) {
            clean.push_str(&text[done..secret.start]);
            clean.push_str(MASK);
            done = secret.end;
        }
        match done {
            0 => Cow::Borrowed(text),
            _ => Cow::Owned(clean + &text[done..]),
        }
    }

    /// Returns the start of the first suffix of `text` after `done` that is the beginning of a
    /// form, else the end of `text`.
    pub(super) fn beginning(&self, text: &str, done: usize) -> usize {
        let places = text[done..]
            .char_indices()
            .map(|(at, first)| (done + at, first));
        let possible = places
            .filter(|(at, first)| text.len() - at <= self.longest && self.first.contains(first));
        let mut open = possible
            .map(|(at, _)| at)
            .filter(|at| self.begins(&text[*at..]));
        open.next().unwrap_or(text.len())
    }

    /// Returns whether a form begins with `text`.
    fn begins(&self, text: &str) -> bool {
        let from = (Bound::Included(text), Bound::Unbounded);
        self.forms
            .range::<str, _>(from)
            .next()
            .is_some_and(|(form, _)| form.starts_with(text))
    }
}

/// Returns whether no letter and no digit is next to `range`.
fn is_word(text: &str, range: Range<usize>, before: Option<char>) -> bool {
    let before = text[..range.start].chars().next_back().or(before);
    let after = text[range.end..].chars().next();
    let is_edge = |next: Option<char>| !next.is_some_and(char::is_alphanumeric);
    is_edge(before) && is_edge(after)
}

//! Search for known secrets in a text.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, Range};

use aho_corasick::{AhoCorasick, Input, MatchKind};

use super::MASK;
use super::secret_forms::MaskScope;

/// Mark of a line that tools have cut.
const CUT_MARK: &str = "[cut]";

/// Minimum length in bytes of a part of a secret that is masked. Shorter parts could be ordinary
/// words.
const MIN_FRAGMENT_BYTES: usize = 8;

/// Searchable set of the forms of all secrets: a form is a secret in one encoding.
pub(super) struct SecretMatcher {
    pub(super) forms: BTreeMap<String, MaskScope>,
    /// Encoded secrets that are masked anywhere, with their characters in reverse order. A prefix
    /// search in this set finds suffixes of secrets.
    reversed: BTreeSet<String>,
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
        let anywhere = forms
            .iter()
            .filter(|(_, scope)| **scope == MaskScope::Anywhere);
        Some(SecretMatcher {
            reversed: anywhere.map(|(form, _)| reverse_text(form)).collect(),
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
    pub(super) fn mask_secrets<'t>(&self, text: &'t str, before: Option<char>) -> Cow<'t, str> {
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

    /// Masks parts of secrets at the start and the end of a line, and next to a [`CUT_MARK`]. Parts
    /// that are shorter than half of the secret stay visible.
    pub(super) fn masked_fragments<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let pieces = text
            .lines()
            .flat_map(|line| line.split(CUT_MARK))
            .map(str::trim);
        let ranges: Vec<Range<usize>> = pieces
            .filter(|piece| piece.len() >= MIN_FRAGMENT_BYTES)
            .flat_map(|piece| {
                // The piece is a part of the text.
                let offset = piece.as_ptr().addr() - text.as_ptr().addr();
                let fragments = [
                    self.suffix_at_line_start(piece),
                    self.prefix_at_line_end(piece),
                ];
                let found_fragments = fragments.into_iter().flatten();
                found_fragments.map(move |range| offset + range.start..offset + range.end)
            })
            .collect();
        if ranges.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut clean = String::new();
        let mut done = 0;
        for range in ranges {
            clean.push_str(&text[done..range.start.max(done)]);
            clean.push_str(MASK);
            done = range.end.max(done);
        }
        Cow::Owned(clean + &text[done..])
    }

    /// Finds a secret that is cut off at the end of `line`. Returns the range of its visible prefix,
    /// at least half of an encoded secret. `line` has at least [`MIN_FRAGMENT_BYTES`] bytes.
    fn prefix_at_line_end(&self, line: &str) -> Option<Range<usize>> {
        let from = line.ceil_char_boundary(line.len().saturating_sub(self.longest));
        let last = line.floor_char_boundary(line.len() - MIN_FRAGMENT_BYTES);
        let starts = line.char_indices().map(|(at, _)| at);
        let mut starts = starts
            .skip_while(|at| *at < from)
            .take_while(|at| *at <= last);
        let is_long_prefix = |prefix: &str| {
            let forms = self
                .forms
                .range::<str, _>((Bound::Included(prefix), Bound::Unbounded));
            let mut forms = forms.take_while(|(form, _)| form.starts_with(prefix));
            forms.any(|(form, scope)| {
                *scope == MaskScope::Anywhere && form.len() <= 2 * prefix.len()
            })
        };
        let start = starts.find(|start| is_long_prefix(&line[*start..]))?;
        Some(start..line.len())
    }

    /// Finds a secret whose beginning was cut off before `line`. Returns the range of its visible
    /// suffix, at least half of an encoded secret. `line` has at least [`MIN_FRAGMENT_BYTES`] bytes.
    fn suffix_at_line_start(&self, line: &str) -> Option<Range<usize>> {
        let limit = line.floor_char_boundary(self.longest.min(line.len()));
        let beginning = reverse_text(&line[..limit]);
        let is_long_suffix = |suffix: &str| {
            let forms = self
                .reversed
                .range::<str, _>((Bound::Included(suffix), Bound::Unbounded));
            let mut forms = forms.take_while(|form| form.starts_with(suffix));
            forms.any(|form| form.len() <= 2 * suffix.len())
        };
        let last = beginning.floor_char_boundary(beginning.len() - MIN_FRAGMENT_BYTES);
        let starts = beginning.char_indices().map(|(at, _)| at);
        let mut starts = starts.take_while(|at| *at <= last);
        let start = starts.find(|start| is_long_suffix(&beginning[*start..]))?;
        Some(0..beginning.len() - start)
    }

    /// Returns the start of the first suffix of `text` after `done` that is the beginning of a
    /// form, else the end of `text`.
    pub(super) fn partial_match_start(&self, text: &str, done: usize) -> usize {
        let positions = text[done..]
            .char_indices()
            .map(|(at, first)| (done + at, first));
        let possible = positions
            .filter(|(at, first)| text.len() - at <= self.longest && self.first.contains(first));
        let mut possible_starts = possible
            .map(|(at, _)| at)
            .filter(|at| self.is_form_prefix(&text[*at..]));
        possible_starts.next().unwrap_or(text.len())
    }

    /// Returns true if a form begins with `text`.
    fn is_form_prefix(&self, text: &str) -> bool {
        let from = (Bound::Included(text), Bound::Unbounded);
        self.forms
            .range::<str, _>(from)
            .next()
            .is_some_and(|(form, _)| form.starts_with(text))
    }
}

/// Returns the characters of `text` in reverse order.
fn reverse_text(text: &str) -> String {
    text.chars().rev().collect()
}

/// Returns true if no letter and no digit is next to `range`.
fn is_word(text: &str, range: Range<usize>, before: Option<char>) -> bool {
    let before = text[..range.start].chars().next_back().or(before);
    let after = text[range.end..].chars().next();
    let is_edge = |next: Option<char>| !next.is_some_and(char::is_alphanumeric);
    is_edge(before) && is_edge(after)
}

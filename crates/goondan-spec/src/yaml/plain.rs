//! The short way from a text to its tree.
//!
//! It takes the parser's events as they come, and only what can be read in one way: maps with words for keys, lists,
//! text, simple numbers, booleans, nothing. At anything else it gives up: an anchor, an alias, a merge key, a tag, another
//! number, a key that stands twice, a mistake of any kind. The long way reads such a document from its beginning, and is
//! alone in saying what it means or what is wrong with it. So both agree on every document, and the long way's care for
//! what few documents have is not paid for by all.

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::Number;
use serde_yaml::granit_parser::{self, Event, Options, Parser, ScalarStyle, Span, StrInput};

use super::{MAX_DEPTH, MAX_KEY_LENGTH};
use crate::diagnostic::Position;
use crate::node::{Content, Entry, Node};

/// From this many entries on, a map's keys are looked up in a set.
const LARGE_MAP: usize = 16;
/// A number with at most so many digits fits 64 bits.
const MOST_DIGITS: usize = 18;
/// The words that may be something else than text, in some case.
const SPECIAL_WORDS: [&str; 6] = ["null", "true", "false", "inf", "infinity", "nan"];

/// The only document of `text`, where it is a map or a list and this way can read it.
pub(super) fn read(text: &str) -> Option<Node> {
    let mut reader = Reader { parser: Parser::with_options(StrInput::new(text), parser_options()) };
    let Event::StreamStart = reader.next()?.0 else { return None };
    let Event::DocumentStart(_, None) = reader.next()?.0 else { return None };
    let root = reader.next()?;
    let root = reader.node(root, 0)?;
    let Event::DocumentEnd = reader.next()?.0 else { return None };
    let Event::StreamEnd = reader.next()?.0 else { return None };
    matches!(root.content, Content::Map(_) | Content::List(_)).then_some(root)
}

/// What the long way asks of the parser.
fn parser_options() -> Options {
    granit_parser::options! { simple_key_max_lookahead: MAX_KEY_LENGTH, emit_comments: false }
}

struct Reader<'t> {
    parser: Parser<'t, StrInput<'t>>,
}

impl<'t> Reader<'t> {
    fn next(&mut self) -> Option<(Event<'t>, Span)> {
        self.parser.next()?.ok()
    }

    fn node(&mut self, (event, span): (Event<'t>, Span), depth: usize) -> Option<Node> {
        let at = position(&span)?;
        let content = match event {
            Event::Scalar(value, style, 0, None) => scalar(value, style)?,
            Event::SequenceStart(_, 0, None) if depth < MAX_DEPTH => self.list(depth + 1)?,
            Event::MappingStart(_, 0, None) if depth < MAX_DEPTH => self.map(depth + 1)?,
            _ => return None,
        };
        Some(Node { at, content })
    }

    fn list(&mut self, depth: usize) -> Option<Content> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Some(Content::List(items)),
                item => items.push(self.node(item, depth)?),
            }
        }
    }

    fn map(&mut self, depth: usize) -> Option<Content> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut keys = HashSet::new();
        loop {
            let (event, span) = self.next()?;
            let (key, style) = match event {
                Event::MappingEnd => return Some(Content::Map(entries)),
                Event::Scalar(key, style, 0, None) => (key, style),
                _ => return None,
            };
            if !is_simple_key(&key, style) || stands_twice(&key, &entries, &mut keys) {
                return None;
            }
            let key_at = position(&span)?;
            let value = self.next()?;
            let value = self.node(value, depth)?;
            entries.push(Entry { key: key.into_owned(), key_at, value });
        }
    }
}

fn is_simple_key(key: &str, style: ScalarStyle) -> bool {
    !key.is_empty() && key != "<<" && (style != ScalarStyle::Plain || is_surely_text(key))
}

/// Whether the map has that key already. `keys` is filled once the map is large.
fn stands_twice(key: &str, entries: &[Entry], keys: &mut HashSet<String>) -> bool {
    if entries.len() < LARGE_MAP {
        return entries.iter().any(|entry| entry.key == key);
    }
    if keys.is_empty() {
        keys.extend(entries.iter().map(|entry| entry.key.clone()));
    }
    !keys.insert(key.to_owned())
}

fn scalar(value: Cow<'_, str>, style: ScalarStyle) -> Option<Content> {
    if style != ScalarStyle::Plain || is_surely_text(&value) {
        return Some(Content::Text(value.into_owned()));
    }
    match value.as_ref() {
        "" | "~" | "null" => Some(Content::Null),
        "true" => Some(Content::Bool(true)),
        "false" => Some(Content::Bool(false)),
        digits => number(digits).map(Content::Number),
    }
}

/// Whether text without quotes can be nothing else.
fn is_surely_text(value: &str) -> bool {
    match value.as_bytes() {
        [b'/' | b'$', ..] | [b'.', b'/', ..] => true,
        [first, ..] if first.is_ascii_alphabetic() => {
            !SPECIAL_WORDS.iter().any(|special| special.eq_ignore_ascii_case(value))
        }
        _ => false,
    }
}

/// Decimal, without a sign, without zeros in front; a fraction has digits on both sides of the dot.
fn number(text: &str) -> Option<Number> {
    let (whole, fraction) = text.split_once('.').map_or((text, None), |(whole, fraction)| (whole, Some(fraction)));
    let is_digits = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if !is_digits(whole) || text.len() > MOST_DIGITS || (whole.starts_with('0') && whole != "0") {
        return None;
    }
    match fraction {
        None => whole.parse::<u64>().ok().map(Number::from),
        Some(fraction) if is_digits(fraction) => text.parse().ok().and_then(Number::from_f64),
        Some(_) => None,
    }
}

fn position(span: &Span) -> Option<Position> {
    let (start, end) = (span.start.byte_offset()?, span.end.byte_offset()?);
    Some(Position { line: span.start.line(), column: span.start.col() + 1, start, end: end.max(start) })
}

//! From a text to its tree, over the parser's events.
//!
//! The parser knows the grammar. What YAML's values mean is decided here and in `scalar.rs`: anchors, aliases and merge
//! keys, keys that stand twice, how deep a document may nest. The first mistake ends the reading.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use granit_parser::{self, Event, Options, Parser, ScalarStyle, ScanError, Span, StrInput, Tag};

use super::{MAX_ALIASED_VALUES, MAX_DEPTH, MAX_KEY_LENGTH, Refusal, YamlError, explain, scalar};
use crate::diagnostic::Position;
use crate::node::{Content, Entry, Node};

/// From this many entries on, a map's keys are looked up in a set.
const LARGE_MAP: usize = 16;

/// The first document of `text` that is not empty, if any. What follows it is read for mistakes alone.
pub(super) fn read(text: &str) -> Result<Option<Node>, Refusal> {
    let parser = Parser::with_options(StrInput::new(text), parser_options());
    let mut reader = Reader {
        text,
        parser,
        anchors: HashMap::new(),
        aliased: 0,
    };
    let mut first = None;
    loop {
        match reader.next()? {
            (Event::StreamEnd, _) => return Ok(first),
            (Event::StreamStart | Event::DocumentStart(..) | Event::DocumentEnd, _) => {}
            (event, span) => {
                let node = reader.node(event, span, 0)?;
                first = first.or(Some(node).filter(|node| node.content != Content::Null));
            }
        }
    }
}

fn parser_options() -> Options {
    granit_parser::options! { simple_key_max_lookahead: MAX_KEY_LENGTH, emit_comments: false }
}

type Found<'t> = (Event<'t>, Span);

struct Reader<'t> {
    text: &'t str,
    parser: Parser<'t, StrInput<'t>>,
    /// What has an anchor and was read to its end, by the parser's number.
    anchors: HashMap<usize, Anchored>,
    /// How many values all aliases so far stand for.
    aliased: usize,
}

/// What an alias can stand for.
struct Anchored {
    node: Node,
    /// What it is as a key, where it can be one.
    key: Option<String>,
    values: usize,
    depth: usize,
}

impl<'t> Reader<'t> {
    fn next(&mut self) -> Result<Found<'t>, Refusal> {
        match self.parser.next() {
            Some(Ok(found)) => Ok(found),
            Some(Err(error)) => Err(self.broken(&error)),
            // The parser ends with the event that ends the stream, and nobody asks on after that.
            None => Ok((Event::StreamEnd, Span::default())),
        }
    }

    fn broken(&self, error: &ScanError) -> Refusal {
        let (line, column) = (error.marker().line(), error.marker().col() + 1);
        let found = explain::syntax(error);
        match error
            .info()
            .contains(explain::TAB)
            .then(|| tab_below(self.text, line))
            .flatten()
        {
            Some((line, column)) => found.at_character(self.text, line, column),
            None => found.at_character(self.text, line, column),
        }
    }

    /// The value that begins with that event, inside of `depth` lists and maps.
    fn node(&mut self, event: Event<'t>, span: Span, depth: usize) -> Result<Node, Refusal> {
        let at = position(&span);
        match event {
            Event::Scalar(value, style, anchor, tag) => {
                let content = scalar::content(&value, style, tag.as_deref())
                    .map_err(|refusal| refusal.at(at))?;
                let node = Node { at, content };
                if anchor != 0 {
                    let key = scalar::key(value, style, tag.as_deref()).ok();
                    self.remember(anchor, &node, key);
                }
                Ok(node)
            }
            Event::SequenceStart(_, anchor, tag) => {
                expect_tag(tag.as_deref(), "seq", at)?;
                let content = self.list(inside(depth, at)?)?;
                Ok(self.collection(anchor, Node { at, content }))
            }
            Event::MappingStart(_, anchor, tag) => {
                expect_tag(tag.as_deref(), "map", at)?;
                let content = self.map(inside(depth, at)?)?;
                Ok(self.collection(anchor, Node { at, content }))
            }
            Event::Alias(anchor) => self.alias(anchor, at, depth),
            _ => Err(explain::unfinished().at(at)),
        }
    }

    fn list(&mut self, depth: usize) -> Result<Content, Refusal> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(Content::List(items)),
                (event, span) => items.push(self.node(event, span, depth)?),
            }
        }
    }

    fn map(&mut self, depth: usize) -> Result<Content, Refusal> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut keys = HashSet::new();
        let mut merged = Vec::new();
        loop {
            let (event, span) = self.next()?;
            if let Event::MappingEnd = event {
                merge(&mut entries, merged);
                return Ok(Content::Map(entries));
            }
            if is_merge_key(&event) {
                let (event, span) = self.next()?;
                let value = self.node(event, span, depth)?;
                check_merged(&value)?;
                merged.push(value);
                continue;
            }
            let key_at = position(&span);
            let key = self
                .key(event, key_at)
                .map_err(|refusal| refusal.at(key_at))?;
            if stands_twice(&key, &entries, &mut keys) {
                return Err(explain::twice(&key).at(key_at));
            }
            let (event, span) = self.next()?;
            let value = self.node(event, span, depth)?;
            entries.push(Entry {
                key: key.into_owned(),
                key_at,
                value,
            });
        }
    }

    fn key(&mut self, event: Event<'t>, at: Position) -> Result<Cow<'t, str>, YamlError> {
        match event {
            Event::Scalar(value, style, anchor, tag) => {
                if anchor != 0 {
                    let text = |_| Content::Text(value.clone().into_owned());
                    let content =
                        scalar::content(&value, style, tag.as_deref()).unwrap_or_else(text);
                    self.remember(anchor, &Node { at, content }, Some(value.clone()));
                }
                scalar::key(value, style, tag.as_deref())
            }
            Event::Alias(anchor) => match self.anchors.get(&anchor) {
                Some(Anchored { key: Some(key), .. }) => Ok(Cow::Owned(key.clone())),
                Some(Anchored {
                    node:
                        Node {
                            content: Content::Null,
                            ..
                        },
                    ..
                }) => Err(explain::key_is_empty()),
                Some(_) => Err(explain::key_is_no_text()),
                None => Err(explain::inside_itself()),
            },
            _ => Err(explain::key_is_no_text()),
        }
    }

    fn collection(&mut self, anchor: usize, node: Node) -> Node {
        if anchor != 0 {
            self.remember(anchor, &node, None);
        }
        node
    }

    fn remember(&mut self, anchor: usize, node: &Node, key: Option<Cow<'_, str>>) {
        let (values, depth) = measure(node);
        self.anchors.insert(
            anchor,
            Anchored {
                node: node.clone(),
                key: key.map(Cow::into_owned),
                values,
                depth,
            },
        );
    }

    fn alias(&mut self, anchor: usize, at: Position, depth: usize) -> Result<Node, Refusal> {
        let Some(anchored) = self.anchors.get(&anchor) else {
            return Err(explain::inside_itself().at(at));
        };
        self.aliased = self.aliased.saturating_add(anchored.values);
        if self.aliased > MAX_ALIASED_VALUES {
            return Err(explain::too_many_aliases().at(at));
        }
        if depth + anchored.depth > MAX_DEPTH {
            return Err(explain::too_deep().at(at));
        }
        Ok(anchored.node.clone())
    }
}

/// The depth of what stands in a collection that itself stands in `depth` others.
fn inside(depth: usize, at: Position) -> Result<usize, Refusal> {
    if depth < MAX_DEPTH {
        Ok(depth + 1)
    } else {
        Err(explain::too_deep().at(at))
    }
}

fn expect_tag(tag: Option<&Tag>, expected: &str, at: Position) -> Result<(), Refusal> {
    match tag {
        Some(tag) if tag.core_suffix() != Some(expected) => Err(scalar::bad_tag(tag).at(at)),
        _ => Ok(()),
    }
}

fn is_merge_key(event: &Event<'_>) -> bool {
    matches!(event, Event::Scalar(key, ScalarStyle::Plain, _, None) if key == "<<")
}

/// A merge key takes a map, or a list of maps.
fn check_merged(value: &Node) -> Result<(), Refusal> {
    let wrong = match &value.content {
        Content::Null | Content::Map(_) => None,
        Content::List(items) => items
            .iter()
            .find(|item| !matches!(item.content, Content::Null | Content::Map(_))),
        _ => Some(value),
    };
    wrong.map_or(Ok(()), |wrong| Err(explain::merges_no_map().at(wrong.at)))
}

/// Adds what merge keys bring. The map's own keys win, and of several sources the first.
fn merge(entries: &mut Vec<Entry>, merged: Vec<Node>) {
    let mut sources = Vec::new();
    for value in merged {
        match value.content {
            Content::Map(source) => sources.push(source),
            Content::List(items) => {
                sources.extend(items.into_iter().filter_map(|item| match item.content {
                    Content::Map(source) => Some(source),
                    _ => None,
                }))
            }
            _ => {}
        }
    }
    let mut keys: HashSet<String> = match sources.is_empty() {
        true => return,
        false => entries.iter().map(|entry| entry.key.clone()).collect(),
    };
    entries.extend(
        sources
            .into_iter()
            .flatten()
            .filter(|entry| keys.insert(entry.key.clone())),
    );
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

/// How many values a node has, keys and borders included, and how deep it nests.
fn measure(node: &Node) -> (usize, usize) {
    match &node.content {
        Content::List(items) => measure_all(items.iter(), 0),
        Content::Map(entries) => {
            measure_all(entries.iter().map(|entry| &entry.value), entries.len())
        }
        _ => (1, 0),
    }
}

fn measure_all<'n>(children: impl Iterator<Item = &'n Node>, keys: usize) -> (usize, usize) {
    children
        .map(measure)
        .fold((2 + keys, 1), |(values, depth), (more, deeper)| {
            (values + more, depth.max(deeper + 1))
        })
}

/// The first tab that a line is indented with, below that line.
fn tab_below(text: &str, line: usize) -> Option<(usize, usize)> {
    let column = |line: &str| {
        Some(line.find(|c: char| c != ' ')?).filter(|at| line[*at..].starts_with('\t'))
    };
    text.lines()
        .enumerate()
        .skip(line)
        .find_map(|(index, text)| Some((index + 1, column(text)? + 1)))
}

fn position(span: &Span) -> Position {
    let (line, column) = (span.start.line().max(1), span.start.col() + 1);
    // A parser of a string knows all bytes.
    let start = span.start.byte_offset().unwrap_or(0);
    Position {
        line,
        column,
        start,
        end: span.end.byte_offset().unwrap_or(start).max(start),
    }
}

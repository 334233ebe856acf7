//! Builds a node tree from the parser's events.
//!
//! The parser covers the grammar. This module and `scalar.rs` define the semantics: anchors,
//! aliases, merge keys, duplicate keys and the nesting limit. Reading stops at the first error.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use granit_parser::{self, Event, Options, Parser, ScalarStyle, ScanError, Span, StrInput, Tag};

use super::{
    LocatedYamlError, MAX_ALIASED_BYTES, MAX_ALIASED_VALUES, MAX_KEY_CHARS, MAX_NESTING_DEPTH,
    YamlError, error_messages, scalar,
};
use crate::diagnostic::SourcePosition;
use crate::node::{MapEntry, NodeContent, YamlNode};

/// Number of entries from which a map's keys are looked up in a set.
const LARGE_MAP_ENTRIES: usize = 16;

/// Returns the first document of `text` that is not empty. The rest is only checked for errors.
pub(super) fn read(text: &str) -> Result<Option<YamlNode>, LocatedYamlError> {
    let parser = Parser::with_options(StrInput::new(text), parser_options());
    let mut reader = NodeTreeReader {
        text,
        parser,
        anchors: HashMap::new(),
        aliased: NodeSize::default(),
        surrounding: EnclosingCollections::default(),
    };
    let mut first = None;
    loop {
        match reader.next()? {
            (Event::StreamEnd, _) => return Ok(first),
            (Event::StreamStart | Event::DocumentStart(..) | Event::DocumentEnd, _) => {}
            (event, span) => {
                let node = reader.read_node(event, span, 0)?;
                first = first.or(Some(node).filter(|node| node.content != NodeContent::Null));
            }
        }
    }
}

fn parser_options() -> Options {
    granit_parser::options! { simple_key_max_lookahead: MAX_KEY_CHARS, emit_comments: false }
}

type SpannedEvent<'t> = (Event<'t>, Span);

struct NodeTreeReader<'t> {
    text: &'t str,
    parser: Parser<'t, StrInput<'t>>,
    /// Completely read nodes with an anchor, by the parser's anchor number.
    anchors: HashMap<usize, AnchoredNode>,
    /// Total size of the values that the aliases so far expand to.
    aliased: NodeSize,
    surrounding: EnclosingCollections,
}

/// Lists and maps around the current node.
#[derive(Clone, Copy, Default)]
struct EnclosingCollections {
    /// True inside brackets.
    is_flow: bool,
    /// Column of the innermost list or map without brackets; 0 if there is none.
    block_column: usize,
}

struct AnchoredNode {
    node: YamlNode,
    /// The node as a map key, if it can be one.
    key: Option<String>,
    size: NodeSize,
}

impl<'t> NodeTreeReader<'t> {
    /// Returns the next parser event.
    fn next(&mut self) -> Result<SpannedEvent<'t>, LocatedYamlError> {
        match self.parser.next() {
            Some(Ok(found)) => Ok(found),
            Some(Err(error)) => Err(self.syntax_error(&error)),
            // The parser ends after its `StreamEnd` event, and the caller stops at that event.
            None => Ok((Event::StreamEnd, Span::default())),
        }
    }

    /// Converts a parser error; for a tab, the position of the tab is reported.
    fn syntax_error(&self, error: &ScanError) -> LocatedYamlError {
        let (line, column) = (error.marker().line(), error.marker().col() + 1);
        let error_message = error_messages::syntax_error(error);
        match error
            .info()
            .contains(error_messages::TAB_ERROR_MARKER)
            .then(|| tab_below(self.text, line))
            .flatten()
        {
            Some((line, column)) => error_message.at_character(self.text, line, column),
            None => error_message.at_character(self.text, line, column),
        }
    }

    /// Reads the value that begins with `event`, inside `depth` lists and maps.
    fn read_node(
        &mut self,
        event: Event<'t>,
        span: Span,
        depth: usize,
    ) -> Result<YamlNode, LocatedYamlError> {
        let start = position(&span);
        self.check_indentation(start)?;
        match event {
            Event::Scalar(value, style, anchor, tag) => {
                let content = scalar::content(&value, style, tag.as_deref())
                    .map_err(|refusal| refusal.located_at(start))?;
                let node = YamlNode { at: start, content };
                if anchor != 0 {
                    let key = scalar::key(value, style, tag.as_deref()).ok();
                    self.record_anchor(anchor, &node, key);
                }
                Ok(node)
            }
            Event::SequenceStart(_, anchor, tag) => {
                expect_tag(tag.as_deref(), "seq", start)?;
                let content =
                    self.read_nested(start, |reader| reader.read_list(child_depth(depth, start)?))?;
                Ok(self.keep_anchored(anchor, YamlNode { at: start, content }))
            }
            Event::MappingStart(_, anchor, tag) => {
                expect_tag(tag.as_deref(), "map", start)?;
                let content =
                    self.read_nested(start, |reader| reader.read_map(child_depth(depth, start)?))?;
                Ok(self.keep_anchored(anchor, YamlNode { at: start, content }))
            }
            Event::Alias(anchor) => self.resolve_alias(anchor, start, depth),
            _ => Err(error_messages::unfinished_value().located_at(start)),
        }
    }

    /// Reads a list or map that begins at `at`, and records what surrounds its items.
    fn read_nested(
        &mut self,
        at: SourcePosition,
        read: impl FnOnce(&mut Self) -> Result<NodeContent, LocatedYamlError>,
    ) -> Result<NodeContent, LocatedYamlError> {
        let before = self.surrounding;
        let is_flow = before.is_flow || self.text[at.start..].starts_with(['[', '{']);
        self.surrounding = if is_flow {
            EnclosingCollections { is_flow, ..before }
        } else {
            EnclosingCollections {
                is_flow,
                block_column: at.column,
            }
        };
        let content = read(self)?;
        self.surrounding = before;
        Ok(content)
    }

    /// Fails if a key or value in a flow list or map is not indented more than the block around it.
    /// The parser accepts that.
    fn check_indentation(&self, at: SourcePosition) -> Result<(), LocatedYamlError> {
        let EnclosingCollections {
            is_flow,
            block_column,
        } = self.surrounding;
        // An absent value has no text, and is found at the closing bracket.
        if is_flow && at.column <= block_column && at.start < at.end {
            return Err(error_messages::flow_is_not_indented().located_at(at));
        }
        Ok(())
    }

    /// Reads the items of a list, up to the end event.
    fn read_list(&mut self, depth: usize) -> Result<NodeContent, LocatedYamlError> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(NodeContent::List(items)),
                (event, span) => items.push(self.read_node(event, span, depth)?),
            }
        }
    }

    /// Reads the entries of a map, up to the end event, and applies `<<` merges.
    fn read_map(&mut self, depth: usize) -> Result<NodeContent, LocatedYamlError> {
        let mut entries: Vec<MapEntry> = Vec::new();
        let mut keys = HashSet::new();
        let mut merged = Vec::new();
        loop {
            let (event, span) = self.next()?;
            if let Event::MappingEnd = event {
                merge(&mut entries, merged);
                return Ok(NodeContent::Map(entries));
            }
            if is_merge_key(&event) {
                let (event, span) = self.next()?;
                let value = self.read_node(event, span, depth)?;
                check_merged(&value)?;
                merged.push(value);
                continue;
            }
            let key_at = position(&span);
            self.check_indentation(key_at)?;
            let key = self
                .read_key(event, key_at)
                .map_err(|refusal| refusal.located_at(key_at))?;
            if is_duplicate_key(&key, &entries, &mut keys) {
                return Err(error_messages::duplicate_key(&key).located_at(key_at));
            }
            let (event, span) = self.next()?;
            let value = self.read_node(event, span, depth)?;
            entries.push(MapEntry {
                key: key.into_owned(),
                written: None,
                key_at,
                value,
            });
        }
    }

    /// Returns the text of a mapping key. Fails if the key is not a scalar.
    fn read_key(
        &mut self,
        event: Event<'t>,
        at: SourcePosition,
    ) -> Result<Cow<'t, str>, YamlError> {
        match event {
            Event::Scalar(value, style, anchor, tag) => {
                if anchor != 0 {
                    let text = |_| NodeContent::Text(value.clone().into_owned());
                    let content =
                        scalar::content(&value, style, tag.as_deref()).unwrap_or_else(text);
                    self.record_anchor(anchor, &YamlNode { at, content }, Some(value.clone()));
                }
                scalar::key(value, style, tag.as_deref())
            }
            Event::Alias(anchor) => match self.anchors.get(&anchor) {
                Some(AnchoredNode { key: Some(key), .. }) => {
                    self.aliased.bytes = self.aliased.bytes.saturating_add(key.len());
                    if self.aliased.bytes > MAX_ALIASED_BYTES {
                        return Err(error_messages::too_large_aliases());
                    }
                    Ok(Cow::Owned(key.clone()))
                }
                Some(AnchoredNode {
                    node:
                        YamlNode {
                            content: NodeContent::Null,
                            ..
                        },
                    ..
                }) => Err(error_messages::key_is_empty()),
                Some(_) => Err(error_messages::key_is_no_text()),
                None => Err(error_messages::inside_itself()),
            },
            _ => Err(error_messages::key_is_no_text()),
        }
    }

    /// Records `node` if it has an anchor (`anchor` is not 0), and returns it.
    fn keep_anchored(&mut self, anchor: usize, node: YamlNode) -> YamlNode {
        if anchor != 0 {
            self.record_anchor(anchor, &node, None);
        }
        node
    }

    /// Remembers an anchored node for its aliases. `key_text` is the text of the node if an alias
    /// may be used as a mapping key.
    fn record_anchor(&mut self, anchor: usize, node: &YamlNode, key_text: Option<Cow<'_, str>>) {
        self.anchors.insert(
            anchor,
            AnchoredNode {
                node: node.clone(),
                key: key_text.map(Cow::into_owned),
                size: measure_node(node),
            },
        );
    }

    /// Returns a copy of the anchored node. Fails if the node contains itself, or if all copies
    /// together exceed the limits.
    fn resolve_alias(
        &mut self,
        anchor: usize,
        at: SourcePosition,
        depth: usize,
    ) -> Result<YamlNode, LocatedYamlError> {
        // The parser rejects undefined anchors, and an anchor is recorded when its node is
        // complete. An unrecorded anchor therefore belongs to a node that is still being read.
        let Some(anchored) = self.anchors.get(&anchor) else {
            return Err(error_messages::inside_itself().located_at(at));
        };
        self.aliased.values = self.aliased.values.saturating_add(anchored.size.values);
        self.aliased.bytes = self.aliased.bytes.saturating_add(anchored.size.bytes);
        if self.aliased.values > MAX_ALIASED_VALUES {
            return Err(error_messages::too_many_aliases().located_at(at));
        }
        if self.aliased.bytes > MAX_ALIASED_BYTES {
            return Err(error_messages::too_large_aliases().located_at(at));
        }
        if depth + anchored.size.depth > MAX_NESTING_DEPTH {
            return Err(error_messages::too_deep().located_at(at));
        }
        Ok(anchored.node.clone())
    }
}

/// Returns the depth inside a collection at `depth`, or an error beyond [`MAX_NESTING_DEPTH`].
fn child_depth(depth: usize, at: SourcePosition) -> Result<usize, LocatedYamlError> {
    if depth < MAX_NESTING_DEPTH {
        Ok(depth + 1)
    } else {
        Err(error_messages::too_deep().located_at(at))
    }
}

/// Fails unless the tag is missing or is the `expected` one.
fn expect_tag(
    tag: Option<&Tag>,
    expected: &str,
    at: SourcePosition,
) -> Result<(), LocatedYamlError> {
    match tag {
        Some(tag) if tag.core_suffix() != Some(expected) => {
            Err(scalar::bad_tag(tag).located_at(at))
        }
        _ => Ok(()),
    }
}

/// Returns true if the event is the key `<<`, not in quotes.
fn is_merge_key(event: &Event<'_>) -> bool {
    matches!(event, Event::Scalar(key, ScalarStyle::Plain, _, None) if key == "<<")
}

/// Fails unless the value of `<<` is a map or a list of maps.
fn check_merged(value: &YamlNode) -> Result<(), LocatedYamlError> {
    let wrong = match &value.content {
        NodeContent::Null | NodeContent::Map(_) => None,
        NodeContent::List(items) => items
            .iter()
            .find(|item| !matches!(item.content, NodeContent::Null | NodeContent::Map(_))),
        _ => Some(value),
    };
    wrong.map_or(Ok(()), |wrong| {
        Err(error_messages::merges_no_map().located_at(wrong.at))
    })
}

/// Adds the entries of merge keys. The map's own keys win, then the first source.
fn merge(entries: &mut Vec<MapEntry>, merged: Vec<YamlNode>) {
    let mut sources = Vec::new();
    for value in merged {
        match value.content {
            NodeContent::Map(source) => sources.push(source),
            NodeContent::List(items) => {
                sources.extend(items.into_iter().filter_map(|item| match item.content {
                    NodeContent::Map(source) => Some(source),
                    _ => None,
                }))
            }
            _ => {}
        }
    }
    let mut keys: HashSet<String> = if sources.is_empty() {
        return;
    } else {
        entries.iter().map(|entry| entry.key.clone()).collect()
    };
    entries.extend(
        sources
            .into_iter()
            .flatten()
            .filter(|entry| keys.insert(entry.key.clone())),
    );
}

/// Returns true if the map already has `key`. `keys` is only filled for large maps.
fn is_duplicate_key(key: &str, entries: &[MapEntry], keys: &mut HashSet<String>) -> bool {
    if entries.len() < LARGE_MAP_ENTRIES {
        return entries.iter().any(|entry| entry.key == key);
    }
    if keys.is_empty() {
        keys.extend(entries.iter().map(|entry| entry.key.clone()));
    }
    !keys.insert(key.to_owned())
}

/// Size of a value with everything in it.
#[derive(Debug, Clone, Copy, Default)]
struct NodeSize {
    /// Number of values and keys. Both ends of a list or map count.
    values: usize,
    /// Bytes of all strings and keys.
    bytes: usize,
    depth: usize,
}

/// Counts the values and text bytes of a node, including its children.
fn measure_node(node: &YamlNode) -> NodeSize {
    match &node.content {
        NodeContent::List(items) => measure_all(items.iter()),
        NodeContent::Map(entries) => {
            let mut size = measure_all(entries.iter().map(|entry| &entry.value));
            size.values += entries.len();
            size.bytes += entries.iter().map(|entry| entry.key.len()).sum::<usize>();
            size
        }
        NodeContent::Text(text) => NodeSize {
            values: 1,
            bytes: text.len(),
            depth: 0,
        },
        _ => NodeSize {
            values: 1,
            ..NodeSize::default()
        },
    }
}

/// Counts the values and text bytes of a list or map from its children.
fn measure_all<'n>(children: impl Iterator<Item = &'n YamlNode>) -> NodeSize {
    let empty = NodeSize {
        values: 2,
        bytes: 0,
        depth: 1,
    };
    children
        .map(measure_node)
        .fold(empty, |sum, child| NodeSize {
            values: sum.values + child.values,
            bytes: sum.bytes + child.bytes,
            depth: sum.depth.max(child.depth + 1),
        })
}

/// Returns the position of the first tab in an indentation after `line`.
fn tab_below(text: &str, line: usize) -> Option<(usize, usize)> {
    let column = |line: &str| {
        Some(line.find(|c: char| c != ' ')?).filter(|at| line[*at..].starts_with('\t'))
    };
    text.lines()
        .enumerate()
        .skip(line)
        .find_map(|(index, text)| Some((index + 1, column(text)? + 1)))
}

/// Converts a parser span to the position of its start and end in the source.
fn position(span: &Span) -> SourcePosition {
    let (line, column) = (span.start.line().max(1), span.start.col() + 1);
    // A parser of a string always reports byte offsets.
    let start = span.start.byte_offset().unwrap_or(0);
    SourcePosition {
        line,
        column,
        start,
        end: span.end.byte_offset().unwrap_or(start).max(start),
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    #[test]
    fn lines_in_brackets_must_be_indented() {
        for text in [
            "[a,\nb,\n]",
            "a: [b,\n c\n]",
            "a: {b: 1,\n c:\n}",
            "- [a,\n b]",
            "- - [a: b,\n   c]",
            "a: {\n b: [\n c\n]}",
        ] {
            assert!(parse(text).is_ok(), "{text}");
        }
        for (text, line) in [
            ("a: [b,\nc]", 2),
            ("a: {b: 1,\nc: 2}", 2),
            ("a: [\n{b: 1}]", 2),
            ("a:\n  - [b,\n  c]", 3),
            ("a: {b: [\n\n1]}", 3),
        ] {
            let (error, at) = parse(text).unwrap_err();
            assert_eq!(
                (error.message, at.line),
                (error_messages::flow_is_not_indented().message, line),
                "{text}"
            );
        }
    }
}

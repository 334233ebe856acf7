//! A YAML document as a tree in which everything knows its place.

use serde_json::{Number, Value};

use crate::JsonObject;
use crate::diagnostic::Position;

/// A value and its place. An aliased value has the place of its definition.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    /// Where it is written. A block collection begins at its first key or item.
    pub(crate) at: Position,
    /// What it is.
    pub(crate) content: Content,
}

/// What YAML's core schema makes of a node.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Content {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// A key with its value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) key_at: Position,
    pub(crate) value: Node,
}

impl Node {
    /// The entries of a map, in file order.
    pub(crate) fn entries(&self) -> Option<&[Entry]> {
        match &self.content {
            Content::Map(entries) => Some(entries),
            _ => None,
        }
    }

    /// The entry of that key, where this is a map that has it.
    pub(crate) fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries()?.iter().find(|entry| entry.key == key)
    }

    /// The text, where this is text.
    pub(crate) fn text(&self) -> Option<&str> {
        match &self.content {
            Content::Text(text) => Some(text),
            _ => None,
        }
    }

    /// What it is, in words that follow "is".
    pub(crate) fn what(&self) -> &'static str {
        match self.content {
            Content::Null => "empty",
            Content::Bool(_) => "a boolean",
            Content::Number(_) => "a number",
            Content::Text(_) => "text",
            Content::List(_) => "a list",
            Content::Map(_) => "a map",
        }
    }

    /// The same without places.
    pub(crate) fn to_json(&self) -> Value {
        match &self.content {
            Content::Null => Value::Null,
            Content::Bool(value) => Value::Bool(*value),
            Content::Number(value) => Value::Number(value.clone()),
            Content::Text(value) => Value::String(value.clone()),
            Content::List(items) => Value::Array(items.iter().map(Node::to_json).collect()),
            Content::Map(entries) => Value::Object(to_object(entries)),
        }
    }

    /// The node that a JSON pointer's segments lead to, or the last one on the way that exists.
    pub(crate) fn follow<'p>(&self, segments: impl Iterator<Item = &'p str>) -> &Node {
        let mut here = self;
        for segment in segments {
            let next = match &here.content {
                Content::List(items) => segment
                    .parse::<usize>()
                    .ok()
                    .and_then(|index| items.get(index)),
                Content::Map(_) => here.entry(segment).map(|entry| &entry.value),
                _ => None,
            };
            match next {
                Some(node) => here = node,
                None => break,
            }
        }
        here
    }

    /// Moves every place in the tree down by `lines` and on by `bytes`.
    pub(crate) fn shift(&mut self, lines: usize, bytes: usize) {
        shift(&mut self.at, lines, bytes);
        match &mut self.content {
            Content::List(items) => items.iter_mut().for_each(|item| item.shift(lines, bytes)),
            Content::Map(entries) => entries.iter_mut().for_each(|entry| {
                shift(&mut entry.key_at, lines, bytes);
                entry.value.shift(lines, bytes);
            }),
            _ => {}
        }
    }
}

/// The entries of a map as a JSON object.
pub(crate) fn to_object(entries: &[Entry]) -> JsonObject {
    entries
        .iter()
        .map(|entry| (entry.key.clone(), entry.value.to_json()))
        .collect()
}

fn shift(at: &mut Position, lines: usize, bytes: usize) {
    at.line += lines;
    at.start += bytes;
    at.end += bytes;
}

//! YAML document as a tree of nodes with source positions.

use serde_json::{Number, Value};

use crate::JsonObject;
use crate::diagnostic::SourcePosition;

/// YAML value with its position. An aliased value has the position of its definition.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct YamlNode {
    /// A block collection begins at its first key or item.
    pub(crate) at: SourcePosition,
    pub(crate) content: NodeContent,
}

/// Node value by YAML's core schema.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum NodeContent {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<YamlNode>),
    Map(Vec<MapEntry>),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct MapEntry {
    /// Key that decoders read.
    pub(crate) key: String,
    /// Key in the file, if it differs. Empty for a field that the file leaves out.
    pub(crate) written: Option<String>,
    pub(crate) key_at: SourcePosition,
    pub(crate) value: YamlNode,
}

impl MapEntry {
    /// Returns the key for messages.
    pub(crate) fn display_key(&self) -> &str {
        self.written.as_deref().unwrap_or(&self.key)
    }

    /// Changes the key that decoders read. Messages still show the key in the file.
    pub(crate) fn rename(&mut self, key: &str) {
        let before = std::mem::replace(&mut self.key, key.to_owned());
        self.written.get_or_insert(before);
    }
}

impl YamlNode {
    /// Returns the entries of a map; `None` for other values.
    pub(crate) fn entries(&self) -> Option<&[MapEntry]> {
        match &self.content {
            NodeContent::Map(entries) => Some(entries),
            _ => None,
        }
    }

    /// Returns the entry with the key; `None` if there is none or the value is not a map.
    pub(crate) fn entry(&self, key: &str) -> Option<&MapEntry> {
        self.entries()?.iter().find(|entry| entry.key == key)
    }

    /// Returns the string; `None` for other values.
    pub(crate) fn text(&self) -> Option<&str> {
        match &self.content {
            NodeContent::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Describes the type in words that follow "is".
    pub(crate) fn type_phrase(&self) -> &'static str {
        match self.content {
            NodeContent::Null => "empty",
            NodeContent::Bool(_) => "a boolean",
            NodeContent::Number(_) => "a number",
            NodeContent::Text(_) => "a string",
            NodeContent::List(_) => "a list",
            NodeContent::Map(_) => "a map",
        }
    }

    /// Converts the value to JSON.
    pub(crate) fn to_json(&self) -> Value {
        match &self.content {
            NodeContent::Null => Value::Null,
            NodeContent::Bool(value) => Value::Bool(*value),
            NodeContent::Number(value) => Value::Number(value.clone()),
            NodeContent::Text(value) => Value::String(value.clone()),
            NodeContent::List(items) => Value::Array(items.iter().map(YamlNode::to_json).collect()),
            NodeContent::Map(entries) => Value::Object(to_object(entries)),
        }
    }

    /// Follows the segments of a JSON pointer to the last node that exists.
    pub(crate) fn follow_pointer<'p>(&self, segments: impl Iterator<Item = &'p str>) -> &YamlNode {
        let mut node = self;
        for segment in segments {
            let next = match &node.content {
                NodeContent::List(items) => segment
                    .parse::<usize>()
                    .ok()
                    .and_then(|index| items.get(index)),
                NodeContent::Map(_) => node.entry(segment).map(|entry| &entry.value),
                _ => None,
            };
            match next {
                Some(child) => node = child,
                None => break,
            }
        }
        node
    }

    /// Shifts every position in the tree by `lines` and `bytes`.
    pub(crate) fn shift_positions(&mut self, lines: usize, bytes: usize) {
        shift_position(&mut self.at, lines, bytes);
        match &mut self.content {
            NodeContent::List(items) => items
                .iter_mut()
                .for_each(|item| item.shift_positions(lines, bytes)),
            NodeContent::Map(entries) => entries.iter_mut().for_each(|entry| {
                shift_position(&mut entry.key_at, lines, bytes);
                entry.value.shift_positions(lines, bytes);
            }),
            _ => {}
        }
    }
}

/// Converts the entries of a map to JSON.
pub(crate) fn to_object(entries: &[MapEntry]) -> JsonObject {
    entries
        .iter()
        .map(|entry| (entry.key.clone(), entry.value.to_json()))
        .collect()
}

/// Moves a position by lines and bytes.
fn shift_position(at: &mut SourcePosition, lines: usize, bytes: usize) {
    at.line += lines;
    at.start += bytes;
    at.end += bytes;
}

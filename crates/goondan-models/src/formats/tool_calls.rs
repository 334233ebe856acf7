//! Assembly of tool calls from their pieces, in whatever way a server cuts them (decision M4).

use goondan_core::json_text;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

/// A piece of a tool call. Servers leave out fields, repeat them or leave them empty.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct CallPiece<'a> {
    pub(crate) index: Option<u64>,
    pub(crate) id: Option<&'a str>,
    pub(crate) name: Option<&'a str>,
    /// Text of the arguments. A whole object counts as its JSON.
    pub(crate) arguments: Option<&'a str>,
}

/// A tool call that is not complete yet.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct OpenCall {
    index: Option<u64>,
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) arguments: String,
}

/// The tool calls of one answer, in the order in which they began.
#[derive(Debug, Default)]
pub(crate) struct CallAssembler {
    calls: Vec<OpenCall>,
}

impl CallAssembler {
    /// Adds a piece and returns the position of the call to which it belongs, or `None` for a piece without content.
    pub(crate) fn add(&mut self, piece: CallPiece<'_>) -> Option<usize> {
        let is_empty = |text: Option<&str>| text.is_none_or(str::is_empty);
        let known = self.find(&piece);
        if known.is_none()
            && is_empty(piece.id)
            && is_empty(piece.name)
            && is_empty(piece.arguments)
        {
            return None;
        }
        let at = match known {
            Some(at) if !self.calls[at].ends_before(&piece) => at,
            _ => {
                self.calls.push(OpenCall::default());
                self.calls.len() - 1
            }
        };
        self.calls[at].add(&piece);
        Some(at)
    }

    /// Finds the call of `piece`: by its index, else by its id, else the last call.
    fn find(&self, piece: &CallPiece<'_>) -> Option<usize> {
        let id = piece.id.filter(|id| !id.is_empty());
        let by_id = || id.and_then(|id| self.calls.iter().rposition(|call| call.id == id));
        if let Some(index) = piece.index {
            let by_index = self
                .calls
                .iter()
                .rposition(|call| call.index == Some(index));
            // Some servers add the index only to later pieces.
            return by_index.or_else(|| by_id().filter(|at| self.calls[*at].index.is_none()));
        }
        if id.is_some() {
            // Some servers add the id only to later pieces.
            let last_without_id = || {
                let last = self.calls.len().checked_sub(1)?;
                (self.calls[last].id.is_empty() && piece.name.is_none_or(str::is_empty))
                    .then_some(last)
            };
            return by_id().or_else(last_without_id);
        }
        self.calls.len().checked_sub(1)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    pub(crate) fn get(&self, at: usize) -> Option<&OpenCall> {
        self.calls.get(at)
    }
}

impl OpenCall {
    /// Returns whether this call is complete and `piece` begins another one.
    fn ends_before(&self, piece: &CallPiece<'_>) -> bool {
        let name = piece.name.filter(|name| !name.is_empty());
        let has_arguments = piece
            .arguments
            .is_some_and(|arguments| !arguments.trim().is_empty());
        let has_other_id = piece
            .id
            .is_some_and(|id| !id.is_empty() && !self.id.is_empty() && id != self.id);
        if name.is_none() || self.name.is_empty() {
            return false;
        }
        match self.arguments.trim() {
            // A call without arguments ends when another id and name come.
            "" => {
                has_other_id
                    || (has_arguments && name != Some(self.name.as_str()) && piece.index.is_none())
            }
            // An empty object may precede the real one.
            "{}" => has_other_id || (has_arguments && piece.id.is_none() && piece.index.is_none()),
            text => has_arguments && is_json(text),
        }
    }

    fn add(&mut self, piece: &CallPiece<'_>) {
        self.index = self.index.or(piece.index);
        if self.id.is_empty() {
            self.id = piece.id.unwrap_or_default().to_owned();
        }
        self.add_name(piece.name.unwrap_or_default());
        self.arguments.push_str(piece.arguments.unwrap_or_default());
    }

    /// Names come whole, in pieces, or whole in every piece.
    fn add_name(&mut self, name: &str) {
        if self.name.is_empty() || name.starts_with(&self.name) {
            self.name = name.to_owned();
        } else if self.arguments.is_empty() && !self.name.ends_with(name) {
            self.name.push_str(name);
        }
    }
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(text).is_ok()
}

/// Parses the arguments of a call. Text that is not JSON stays a string, so that the model reads what it wrote.
pub(crate) fn parse_arguments(text: &str) -> Value {
    let parsed = match json_text::parse(text) {
        Ok(value) => value,
        Err(_) => match after_empty_object(text) {
            Some(value) => value,
            None if text.trim().is_empty() => Value::Null,
            None => return Value::String(text.to_owned()),
        },
    };
    match parsed {
        Value::Null => Value::Object(Map::new()),
        // Some servers encode the object twice.
        Value::String(inner) => match json_text::parse(&inner) {
            Ok(object @ Value::Object(_)) => object,
            _ if inner.trim().is_empty() => Value::Object(Map::new()),
            _ => Value::String(inner),
        },
        other => other,
    }
}

/// Returns the value after an empty object: some bridges put `{}` before the real arguments.
fn after_empty_object(text: &str) -> Option<Value> {
    let rest = text.trim_start().strip_prefix("{}")?;
    json_text::parse(rest).ok()
}

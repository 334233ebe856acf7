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
pub(crate) struct PartialToolCall {
    index: Option<u64>,
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) arguments: String,
    /// Id of a piece that repeated the tool name after this call was complete. If arguments follow, the piece starts
    /// another call of the same tool.
    repeated: Option<String>,
}

/// The tool calls of one answer, in the order in which they began.
#[derive(Debug, Default)]
pub(crate) struct CallAssembler {
    calls: Vec<PartialToolCall>,
}

impl CallAssembler {
    /// Adds a piece and returns the position of the call to which it belongs, or `None` for a piece without content.
    pub(crate) fn add(&mut self, piece: CallPiece<'_>) -> Option<usize> {
        let known_index = self.find(&piece);
        if known_index.is_none()
            && piece.id().is_empty()
            && piece.name().is_empty()
            && piece.text().is_empty()
        {
            return None;
        }
        let index = match known_index {
            Some(index) if !self.calls[index].ends_before(&piece) => index,
            _ => {
                let repeated =
                    known_index.and_then(|index| self.calls[index].next_of_same_tool(&piece));
                self.calls.push(repeated.unwrap_or_default());
                self.calls.len() - 1
            }
        };
        self.calls[index].add(&piece);
        Some(index)
    }

    /// Finds the call of `piece`: by its index, else by its id, else the last call.
    fn find(&self, piece: &CallPiece<'_>) -> Option<usize> {
        let last = self.calls.len().checked_sub(1)?;
        let is_later_piece = piece.name().is_empty();
        let find_by_id = || {
            let id = Some(piece.id()).filter(|id| !id.is_empty())?;
            self.calls.iter().rposition(|call| call.id == id)
        };
        if let Some(index) = piece.index {
            let by_index = self
                .calls
                .iter()
                .rposition(|call| call.index == Some(index));
            // Some servers add the index only to later pieces.
            let by_late_index =
                || find_by_id().or(Some(last).filter(|_| is_later_piece && piece.id().is_empty()));
            return by_index
                .or_else(|| by_late_index().filter(|at| self.calls[*at].index.is_none()));
        }
        if piece.id().is_empty() {
            return Some(last);
        }
        // Some servers add the id only to later pieces.
        let has_late_id = is_later_piece && self.calls[last].id.is_empty();
        find_by_id().or(Some(last).filter(|_| has_late_id))
    }

    /// Returns the call with the number `at`.
    pub(crate) fn get(&self, at: usize) -> Option<&PartialToolCall> {
        self.calls.get(at)
    }
}

impl CallPiece<'_> {
    fn id(&self) -> &str {
        self.id.unwrap_or_default()
    }

    fn name(&self) -> &str {
        self.name.unwrap_or_default()
    }

    fn text(&self) -> &str {
        self.arguments.unwrap_or_default()
    }

    fn has_arguments(&self) -> bool {
        !self.text().trim().is_empty()
    }
}

impl PartialToolCall {
    /// Returns true if this call is complete and `piece` begins another one.
    fn ends_before(&self, piece: &CallPiece<'_>) -> bool {
        if self.name.is_empty() {
            return false;
        }
        if piece.name().is_empty() {
            return self.repeated.is_some() && piece.has_arguments();
        }
        let has_other_name = piece.name() != self.name;
        let has_other_id = !piece.id().is_empty() && !self.id.is_empty() && piece.id() != self.id;
        let has_key = piece.index.is_some() || !piece.id().is_empty();
        match self.arguments.trim() {
            // Without arguments, the call may still miss a part of its name.
            "" => has_other_id || (has_other_name && piece.has_arguments() && !has_key),
            // An empty object may precede the real one.
            "{}" | "null" => has_other_id || has_other_name || (piece.has_arguments() && !has_key),
            text if is_complete(text) => has_other_name || piece.has_arguments(),
            _ => false,
        }
    }

    /// Returns the call that begins if `piece` continues a repetition of this call's name.
    fn next_of_same_tool(&self, piece: &CallPiece<'_>) -> Option<PartialToolCall> {
        let id = self.repeated.clone().filter(|_| piece.name().is_empty())?;
        Some(PartialToolCall {
            index: self.index,
            id,
            name: self.name.clone(),
            ..PartialToolCall::default()
        })
    }

    /// Appends a piece to the call.
    fn add(&mut self, piece: &CallPiece<'_>) {
        self.index = self.index.or(piece.index);
        if self.id.is_empty() {
            self.id = piece.id().to_owned();
        }
        if !piece.name().is_empty() {
            self.add_name(piece);
        }
        self.arguments.push_str(piece.text());
    }

    /// Adds the name of a piece. Names come whole, in pieces, or whole in every piece.
    fn add_name(&mut self, piece: &CallPiece<'_>) {
        let name = piece.name();
        if name.starts_with(&self.name) {
            self.name = name.to_owned();
        } else if self.arguments.is_empty() {
            self.name.push_str(name);
        }
        // A name after complete arguments: the piece repeats this call's name, or begins another
        // call of the same tool. The id is kept for that call.
        if is_complete(&self.arguments) {
            self.repeated = Some(piece.id().to_owned());
        }
    }
}

/// Returns true if `arguments` are whole. After an empty object, the real one may follow.
fn is_complete(arguments: &str) -> bool {
    let text = without_empty(arguments).unwrap_or(arguments).trim();
    text.ends_with(['}', ']', '"']) && serde_json::from_str::<IgnoredAny>(text).is_ok()
}

/// Returns the text after an empty object, which some bridges put before the real arguments.
fn without_empty(arguments: &str) -> Option<&str> {
    let text = arguments.trim_start();
    text.strip_prefix("{}")
        .or_else(|| text.strip_prefix("null"))
}

/// Parses the arguments of a call. Text that is not JSON stays a string, so that the model reads what it wrote.
pub(crate) fn parse_arguments(text: &str) -> Value {
    let parsed = match json_text::parse(text) {
        Ok(value) => value,
        Err(_) => match without_empty(text).and_then(|rest| json_text::parse(rest).ok()) {
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

#[cfg(test)]
mod tests;

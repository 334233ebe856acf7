//! The only place that names the YAML parser.
//!
//! It gives the loader a tree with places (`parse`) and other crates a typed reader over such a tree ([`from_str`],
//! [`documents_from_str`]). Both read YAML 1.2's core schema (`no` is text), refuse duplicate keys and unknown tags, and
//! are bounded in depth and aliases. `docs/yaml.md` explains the choice of the parser. A text is read in these stages:
//!
//! ```text
//! text ──► events ──► tree with places ──► diagnostics of the kinds
//!      (the parser) (reader, scalar)  └──► derived types (typed)
//! ```

mod explain;
mod reader;
mod scalar;
#[cfg(test)]
mod tests;
mod typed;

use std::fmt;

use serde::de::DeserializeOwned;

use crate::diagnostic::Position;
use crate::node::{Content, Node};
use crate::source::position_of_column;
use typed::Typed;

/// How deeply lists and maps may nest (rule L2).
pub const MAX_DEPTH: usize = 64;
/// How many values the aliases of one document may expand to (rule L2). Of a list or map, both ends count, too.
const MAX_ALIASED_VALUES: usize = 20_000;
/// How long a key may be, in characters.
const MAX_KEY_LENGTH: usize = 1024;

/// Why a text is not the YAML that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct YamlError {
    /// A sentence that stands alone, without the place.
    pub message: String,
    /// What to do about it, where there is a usual cause.
    pub suggestion: Option<String>,
    /// Counted from 1.
    pub line: Option<usize>,
    /// In characters, counted from 1.
    pub column: Option<usize>,
}

impl fmt::Display for YamlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.line, self.column) {
            (Some(line), Some(column)) => {
                write!(f, "{} (line {line}, column {column})", self.message)
            }
            _ => f.write_str(&self.message),
        }
    }
}

/// Reads one document.
///
/// # Errors
/// The first thing that is wrong, with its place; an unknown field of a `deny_unknown_fields` type included.
pub fn from_str<T: DeserializeOwned>(text: &str) -> Result<T, YamlError> {
    let node = parse(text).map_err(|(error, _)| error)?.unwrap_or(NOTHING);
    T::deserialize(Typed { text, node: &node })
}

/// Reads every document that is not empty.
///
/// # Errors
/// As [`from_str`].
pub fn documents_from_str<T: DeserializeOwned>(text: &str) -> Result<Vec<T>, YamlError> {
    let mut documents = Vec::new();
    for chunk in crate::split::documents(text) {
        let below = |error: YamlError| YamlError {
            line: error.line.map(|line| line + chunk.lines_before),
            ..error
        };
        if let Some(node) = parse(chunk.text).map_err(|(error, _)| below(error))? {
            documents.push(
                T::deserialize(Typed {
                    text: chunk.text,
                    node: &node,
                })
                .map_err(below)?,
            );
        }
    }
    Ok(documents)
}

/// What stands in a text with nothing but comments.
const NOTHING: Node = Node {
    at: Position {
        line: 1,
        column: 1,
        start: 0,
        end: 0,
    },
    content: Content::Null,
};

/// A mistake with its place in the text. Each value on its way up is moved in a `Result`, so it is small.
type Refusal = Box<(YamlError, Position)>;

/// Reads one document into a tree, or `None` where there is nothing but comments.
///
/// # Errors
/// The first thing that is wrong, with its place in `text`.
pub(crate) fn parse(text: &str) -> Result<Option<Node>, (YamlError, Position)> {
    reader::read(text).map_err(|refusal| *refusal)
}

impl YamlError {
    /// With that place, in whole.
    fn at(mut self, place: Position) -> Refusal {
        (self.line, self.column) = (Some(place.line), Some(place.column));
        Box::new((self, place))
    }

    /// With the place of a character. Behind a tab that it does not like the parser names the next one.
    fn at_character(mut self, text: &str, line: usize, column: usize) -> Refusal {
        (self.line, self.column) = (Some(line), Some(column));
        let before = position_of_column(text, line, column.saturating_sub(1));
        let is_tab = text.as_bytes().get(before.start) == Some(&b'\t');
        Box::new((
            self,
            if is_tab {
                before
            } else {
                position_of_column(text, line, column)
            },
        ))
    }
}

//! YAML reading. This is the only module that names the YAML parser.
//!
//! The loader gets a node tree with positions (`parse`). Other crates get a typed reader over such
//! a tree ([`from_str`], [`documents_from_str`]). Both read YAML 1.2's core schema (`no` is a
//! string), reject duplicate keys and unknown tags, and limit depth and aliases. `docs/yaml.md`
//! explains the choice of the parser. The stages are:
//!
//! ```text
//! text ──► events ──► tree with positions ──► diagnostics of the kinds
//!      (the parser) (reader, scalar)     └──► derived types (typed)
//! ```

mod deserializer;
mod error_messages;
mod reader;
mod scalar;
#[cfg(test)]
mod tests;

use std::fmt;

use serde::de::DeserializeOwned;

use crate::diagnostic::SourcePosition;
use crate::node::{NodeContent, YamlNode};
use crate::source::position_of_column;
use deserializer::YamlDeserializer;

/// Maximum nesting depth of lists and maps (rule L2).
pub const MAX_NESTING_DEPTH: usize = 64;
/// Maximum number of values that the aliases of one document expand to (rule L2). Both ends of a
/// list or map count.
const MAX_ALIASED_VALUES: usize = 20_000;
/// Maximum bytes of the strings and keys that the aliases of one document expand to (rule L2).
const MAX_ALIASED_BYTES: usize = 16 * 1024 * 1024;
/// Maximum length of a key, in characters.
const MAX_KEY_CHARS: usize = 1024;

/// Error of reading YAML.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct YamlError {
    /// Complete sentence, without the position.
    pub message: String,
    /// Suggested fix, if there is a usual cause.
    pub suggestion: Option<String>,
    /// Line, counted from 1.
    pub line: Option<usize>,
    /// Column in characters, counted from 1.
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
/// Returns the first error with its position. Unknown fields of a `deny_unknown_fields` type are
/// errors.
pub fn from_str<T: DeserializeOwned>(text: &str) -> Result<T, YamlError> {
    let node = parse(text)
        .map_err(|(error, _)| error)?
        .unwrap_or(EMPTY_NODE);
    T::deserialize(YamlDeserializer { text, node: &node })
}

/// Reads every document that is not empty.
///
/// # Errors
/// Fails like [`from_str`].
pub fn documents_from_str<T: DeserializeOwned>(text: &str) -> Result<Vec<T>, YamlError> {
    let mut documents = Vec::new();
    for chunk in crate::document_split::split_documents(text) {
        let below = |error: YamlError| YamlError {
            line: error.line.map(|line| line + chunk.lines_before),
            ..error
        };
        if let Some(node) = parse(chunk.text).map_err(|(error, _)| below(error))? {
            documents.push(
                T::deserialize(YamlDeserializer {
                    text: chunk.text,
                    node: &node,
                })
                .map_err(below)?,
            );
        }
    }
    Ok(documents)
}

/// Node of a text that contains only comments.
const EMPTY_NODE: YamlNode = YamlNode {
    at: SourcePosition {
        line: 1,
        column: 1,
        start: 0,
        end: 0,
    },
    content: NodeContent::Null,
};

/// Error with its position. Boxed because every value is returned through a `Result`.
type LocatedYamlError = Box<(YamlError, SourcePosition)>;

/// Reads one document into a tree, or `None` if it contains only comments.
///
/// # Errors
/// Returns the first error with its position in `text`.
pub(crate) fn parse(text: &str) -> Result<Option<YamlNode>, (YamlError, SourcePosition)> {
    reader::read(text).map_err(|refusal| *refusal)
}

impl YamlError {
    /// Adds a source position to the error.
    fn located_at(mut self, place: SourcePosition) -> LocatedYamlError {
        (self.line, self.column) = (Some(place.line), Some(place.column));
        Box::new((self, place))
    }

    /// Sets the position of one character. After an unexpected tab, the parser reports the next
    /// character; this is corrected.
    fn at_character(mut self, text: &str, line: usize, column: usize) -> LocatedYamlError {
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

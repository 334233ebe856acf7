//! Links from fields to resources.

use std::ops::Range;

use crate::ResourceId;
use crate::decode::FieldReader;
use crate::diagnostic::SourcePosition;

/// Reference to a resource in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceLink {
    /// Position of the value that names it.
    pub at: SourcePosition,
    /// Byte range of the name. `None` if the name is written with escapes.
    pub name: Option<Range<usize>>,
    /// Referenced resource.
    pub to: ResourceId,
}

impl ResourceLink {
    /// Creates a link for the text of `field` that names `to` from byte `begin` on.
    pub(crate) fn new(field: &FieldReader<'_>, begin: usize, to: &ResourceId) -> Self {
        let text = field.node.text().unwrap_or_default();
        let name = unescaped_start(field.node.at, text)
            .map(|start| start + begin..start + begin + to.name.len());
        ResourceLink {
            at: field.node.at,
            name,
            to: to.clone(),
        }
    }
}

/// Returns the position of the first byte of `text` in the scalar at `at`. `None` if the scalar
/// contains escapes: then the lengths differ by more than two quotes.
pub(crate) fn unescaped_start(at: SourcePosition, text: &str) -> Option<usize> {
    match (at.end - at.start).checked_sub(text.len())? {
        // Plain.
        0 => Some(at.start),
        // In quotes.
        2 => Some(at.start + 1),
        _ => None,
    }
}

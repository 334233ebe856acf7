//! Source positions of a bundle for editors: resources and all references to them.

use std::ops::Range;

use crate::ResourceId;
use crate::bundle::{ResourceOrigin, Resources};
use crate::decode::FieldReader;
use crate::diagnostic::SourcePosition;
use crate::kinds::{Connector, Tool};

/// Positions in a bundle, as far as it could be read. A bundle with errors also has an outline.
#[derive(Debug, Clone, Default)]
pub struct BundleOutline {
    /// Named resources in load order, and the built-in ones.
    pub definitions: Vec<ResourceDefinition>,
    /// References to resources, by file.
    pub links: Vec<(String, Vec<ResourceLink>)>,
    /// Tools with their exports, including the built-in ones.
    pub tools: Resources<Tool>,
    /// Connectors, including the built-in ones.
    pub connectors: Resources<Connector>,
    /// YAML files of the bundle.
    pub files: Vec<String>,
}

/// Resource with the position of its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceDefinition {
    /// Resource ID.
    pub id: ResourceId,
    /// Position of its name. `None` for a built-in resource.
    pub origin: Option<ResourceOrigin>,
}

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
fn unescaped_start(at: SourcePosition, text: &str) -> Option<usize> {
    match (at.end - at.start).checked_sub(text.len())? {
        // Plain.
        0 => Some(at.start),
        // In quotes.
        2 => Some(at.start + 1),
        _ => None,
    }
}

/// Returns the byte range of a resource's name at the position `at`. `None` if it is written with
/// escapes.
pub fn name_range(at: SourcePosition, name: &str) -> Option<Range<usize>> {
    unescaped_start(at, name).map(|start| start..start + name.len())
}

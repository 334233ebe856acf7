//! Source positions of a bundle for editors: resources and all references to them.

use std::ops::Range;

use crate::ResourceId;
use crate::diagnostic::SourcePosition;
use crate::kinds::{Connector, Tool};
use crate::resource::{ResourceOrigin, Resources};
pub use crate::resource_link::ResourceLink;
use crate::resource_link::unescaped_start;

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

/// Returns the byte range of a resource's name at the position `at`. `None` if it is written with
/// escapes.
pub fn name_range(at: SourcePosition, name: &str) -> Option<Range<usize>> {
    unescaped_start(at, name).map(|start| start..start + name.len())
}

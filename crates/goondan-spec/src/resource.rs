//! A resource with its identity and position.

use std::collections::BTreeMap;
use std::sync::Arc;

use indexmap::IndexMap;

use crate::ResourceId;
use crate::diagnostic::SourcePosition;

/// Resource with its identity and its position.
#[derive(Debug, Clone, PartialEq)]
pub struct Resource<T> {
    /// Resource ID.
    pub id: ResourceId,
    /// `metadata.labels`.
    pub labels: BTreeMap<String, String>,
    /// `metadata.annotations`.
    pub annotations: BTreeMap<String, String>,
    /// File and position. `None` for a built-in resource.
    pub origin: Option<ResourceOrigin>,
    /// Decoded `spec`.
    pub spec: T,
}

/// File (relative to the bundle) and position of a resource's name.
pub type ResourceOrigin = (String, SourcePosition);

/// Resources of one kind in load order, built-in ones last. Bundles share unchanged resources.
pub type Resources<T> = IndexMap<ResourceId, Arc<Resource<T>>>;

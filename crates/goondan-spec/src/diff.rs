//! What differs between two bundles, by resource id, blind to layout, comments and file names.

use crate::ResourceId;
use crate::bundle::{Bundle, Resource, Resources};

/// The resources that differ, each list sorted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BundleDiff {
    /// Only in the new bundle.
    pub added: Vec<ResourceId>,
    /// In both, but not the same. An agent whose prompt file changed is among them.
    pub changed: Vec<ResourceId>,
    /// Only in the old bundle.
    pub removed: Vec<ResourceId>,
}

impl BundleDiff {
    /// Whether the bundles mean the same.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.changed.is_empty() && self.removed.is_empty()
    }
}

/// Compares two bundles.
pub fn diff(old: &Bundle, new: &Bundle) -> BundleDiff {
    let mut diff = BundleDiff::default();
    let packages =
        |bundle: &Bundle| bundle.package().map(|package| (package.id.clone(), package.clone())).into_iter().collect();
    compare(&packages(old), &packages(new), &mut diff);
    compare(old.models(), new.models(), &mut diff);
    compare(old.agents(), new.agents(), &mut diff);
    compare(old.swarms(), new.swarms(), &mut diff);
    compare(old.tools(), new.tools(), &mut diff);
    compare(old.extensions(), new.extensions(), &mut diff);
    compare(old.connectors(), new.connectors(), &mut diff);
    compare(old.connections(), new.connections(), &mut diff);
    for list in [&mut diff.added, &mut diff.changed, &mut diff.removed] {
        list.sort();
    }
    diff
}

fn compare<T: PartialEq>(old: &Resources<T>, new: &Resources<T>, diff: &mut BundleDiff) {
    for (id, resource) in new {
        match old.get(id) {
            None => diff.added.push(id.clone()),
            Some(before) if !same(before, resource) => diff.changed.push(id.clone()),
            Some(_) => {}
        }
    }
    diff.removed.extend(old.keys().filter(|id| !new.contains_key(*id)).cloned());
}

fn same<T: PartialEq>(old: &Resource<T>, new: &Resource<T>) -> bool {
    old.spec == new.spec && old.labels == new.labels && old.annotations == new.annotations
}

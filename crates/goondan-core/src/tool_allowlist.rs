//! Permission restrictions on the tools of some turns (rule S1b).

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// Allowlist of tools for a turn and for all turns that result from it.
///
/// A tool is named after its implementation: `fs__read` is the export `read` of `builtin:fs`, under
/// any name of the Tool resource. Tools of libraries, programs and extensions have no such name, so
/// they are never allowed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ToolAllowlist(BTreeSet<String>);

impl ToolAllowlist {
    /// Allows only the built-in exports with these names.
    pub fn of_exports<S: Into<String>>(names: impl IntoIterator<Item = S>) -> Self {
        ToolAllowlist(names.into_iter().map(Into::into).collect())
    }

    /// Returns true if a tool may run, by the built-in export that implements it.
    pub fn allows(&self, builtin: Option<&str>) -> bool {
        builtin.is_some_and(|name| self.0.contains(name))
    }

    /// Returns the intersection of two restrictions; `None` is no restriction.
    #[must_use]
    pub fn intersection(
        a: Option<&ToolAllowlist>,
        b: Option<&ToolAllowlist>,
    ) -> Option<ToolAllowlist> {
        match (a, b) {
            (Some(a), Some(b)) => Some(ToolAllowlist(a.0.intersection(&b.0).cloned().collect())),
            (some, None) | (None, some) => some.cloned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_intersection_allows_only_tools_of_both_lists() {
        let (a, b) = (
            ToolAllowlist::of_exports(["x", "y"]),
            ToolAllowlist::of_exports(["y", "z"]),
        );
        assert_eq!(
            ToolAllowlist::intersection(Some(&a), Some(&b)),
            Some(ToolAllowlist::of_exports(["y"]))
        );
        assert_eq!(ToolAllowlist::intersection(Some(&a), None), Some(a.clone()));
        assert_eq!(ToolAllowlist::intersection(None, Some(&b)), Some(b));
        assert_eq!(ToolAllowlist::intersection(None, None), None);
    }
}

//! What is left of an agent's tools in some of its turns (rule S1b).

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// The only tools that may run in a turn, and in all turns that come of it.
///
/// Tools are named by what stands behind them: `fs__read` is the export `read` of `builtin:fs`, whatever the Tool resource
/// is called that offers it. Tools of libraries, programs and extensions have no such name, so they never are among them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Narrowing(BTreeSet<String>);

impl Narrowing {
    /// Only the built-in exports of these names.
    pub fn to<S: Into<String>>(names: impl IntoIterator<Item = S>) -> Self {
        Narrowing(names.into_iter().map(Into::into).collect())
    }

    /// Whether a tool may run, by the built-in export that stands behind it.
    pub fn allows(&self, builtin: Option<&str>) -> bool {
        builtin.is_some_and(|name| self.0.contains(name))
    }

    /// What both leave, where each may leave everything.
    #[must_use]
    pub fn both(a: Option<&Narrowing>, b: Option<&Narrowing>) -> Option<Narrowing> {
        match (a, b) {
            (Some(a), Some(b)) => Some(Narrowing(a.0.intersection(&b.0).cloned().collect())),
            (some, None) | (None, some) => some.cloned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn together_they_leave_what_both_leave() {
        let (a, b) = (Narrowing::to(["x", "y"]), Narrowing::to(["y", "z"]));
        assert_eq!(
            Narrowing::both(Some(&a), Some(&b)),
            Some(Narrowing::to(["y"]))
        );
        assert_eq!(Narrowing::both(Some(&a), None), Some(a.clone()));
        assert_eq!(Narrowing::both(None, Some(&b)), Some(b));
        assert_eq!(Narrowing::both(None, None), None);
    }
}

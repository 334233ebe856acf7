//! Position of a value that does not count in comparisons.

use std::fmt;

use crate::diagnostic::SourcePosition;

/// Position in a file, or `None` for implied values. All positions compare equal and have the same
/// `Debug` output, so a moved rule is not a changed rule.
#[derive(Clone, Default)]
pub struct SourceLocation(pub Option<(String, SourcePosition)>);

impl fmt::Debug for SourceLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SourceLocation")
    }
}

impl PartialEq for SourceLocation {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl Eq for SourceLocation {}

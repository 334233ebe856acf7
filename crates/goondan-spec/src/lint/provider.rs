//! placeholder
use crate::bundle::Decoded;
use crate::diagnostic::Diagnostic;
pub(super) fn lint(_decoded: &Decoded) -> Vec<Diagnostic> {
    Vec::new()
}

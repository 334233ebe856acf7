//! Warnings about bundles that are right and may still not be meant so.

mod provider;
mod unused;

use crate::bundle::Decoded;
use crate::diagnostic::Diagnostic;

/// All warnings about a bundle without errors.
pub(crate) fn lint(decoded: &Decoded) -> Vec<Diagnostic> {
    let mut found = unused::lint(decoded);
    found.extend(provider::lint(decoded));
    found
}

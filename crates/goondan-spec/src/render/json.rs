//! Diagnostics as JSON, for programs.

use crate::diagnostic::Diagnostic;

/// Formats a JSON array of [`Diagnostic`] objects, without a trailing newline.
pub fn json(diagnostics: &[Diagnostic]) -> String {
    serde_json::to_string_pretty(diagnostics).expect("strings and numbers always serialize")
}

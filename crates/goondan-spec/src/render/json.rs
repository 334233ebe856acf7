//! For programs.

use crate::diagnostic::Diagnostic;

/// A JSON array of objects with the fields of [`Diagnostic`], without a newline at the end.
pub fn json(diagnostics: &[Diagnostic]) -> String {
    serde_json::to_string_pretty(diagnostics).expect("strings and numbers always serialize")
}

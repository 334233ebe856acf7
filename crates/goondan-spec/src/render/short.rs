//! One line per diagnostic, in the format of compilers and editors.

use std::fmt::Write;

use super::{severity, subject};
use crate::diagnostic::Diagnostic;
use crate::untrusted_text;

/// Formats `file:line:column: error[CODE]: message (resource field) help: suggestion`.
pub fn short(diagnostics: &[Diagnostic]) -> String {
    diagnostics.iter().map(line).collect()
}

/// Formats a diagnostic on one line.
fn line(diagnostic: &Diagnostic) -> String {
    let mut line = String::new();
    // Writing to a String cannot fail.
    let _ = match (&diagnostic.file, diagnostic.position) {
        (Some(file), Some(at)) => write!(
            line,
            "{}:{}:{}: ",
            untrusted_text::line(file),
            at.line,
            at.column
        ),
        (Some(file), None) => write!(line, "{}: ", untrusted_text::line(file)),
        (None, _) => Ok(()),
    };
    let _ = write!(
        line,
        "{}[{}]: {}",
        severity(diagnostic),
        diagnostic.code,
        untrusted_text::line(&diagnostic.message)
    );
    if let Some(subject) = subject(diagnostic) {
        let _ = write!(line, " ({})", untrusted_text::line(&subject));
    }
    if let Some(suggestion) = &diagnostic.suggestion {
        let _ = write!(line, " help: {}", untrusted_text::line(suggestion));
    }
    line.push('\n');
    line
}

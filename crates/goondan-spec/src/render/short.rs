//! One line a diagnostic, as compilers and editors know it.

use std::fmt::Write;

use super::{severity, subject};
use crate::diagnostic::Diagnostic;
use crate::shown;

/// `file:line:column: error[CODE]: message (resource field) help: suggestion`.
pub fn short(diagnostics: &[Diagnostic]) -> String {
    diagnostics.iter().map(line).collect()
}

fn line(diagnostic: &Diagnostic) -> String {
    let mut line = String::new();
    // Writing to a String cannot fail.
    let _ = match (&diagnostic.file, diagnostic.position) {
        (Some(file), Some(at)) => write!(line, "{}:{}:{}: ", shown::line(file), at.line, at.column),
        (Some(file), None) => write!(line, "{}: ", shown::line(file)),
        (None, _) => Ok(()),
    };
    let _ = write!(
        line,
        "{}[{}]: {}",
        severity(diagnostic),
        diagnostic.code,
        shown::line(&diagnostic.message)
    );
    if let Some(subject) = subject(diagnostic) {
        let _ = write!(line, " ({})", shown::line(&subject));
    }
    if let Some(suggestion) = &diagnostic.suggestion {
        let _ = write!(line, " help: {}", shown::line(suggestion));
    }
    line.push('\n');
    line
}

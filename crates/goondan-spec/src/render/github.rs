//! Workflow commands that make GitHub annotate the lines of a pull request.

use super::severity;
use crate::diagnostic::Diagnostic;
use crate::untrusted_text;

/// Formats one workflow command per diagnostic.
pub fn github(diagnostics: &[Diagnostic]) -> String {
    diagnostics.iter().map(command).collect()
}

/// Formats a diagnostic as a GitHub Actions command.
fn command(diagnostic: &Diagnostic) -> String {
    let mut properties = Vec::new();
    if let Some(file) = &diagnostic.file {
        properties.push(format!("file={}", property(file)));
    }
    if let Some(at) = diagnostic.position {
        properties.push(format!("line={},col={}", at.line, at.column));
    }
    properties.push(format!("title={}", diagnostic.code));
    let suggestion = diagnostic
        .suggestion
        .iter()
        .map(|suggestion| format!("\nhelp: {suggestion}"));
    let text: String = std::iter::once(diagnostic.message.clone())
        .chain(suggestion)
        .collect();
    format!(
        "::{} {}::{}\n",
        severity(diagnostic),
        properties.join(","),
        data(&text)
    )
}

/// Escapes the message of a GitHub Actions command.
fn data(text: &str) -> String {
    untrusted_text::lines(text)
        .to_string()
        .replace('%', "%25")
        .replace('\n', "%0A")
}

/// Escapes a property of a GitHub Actions command.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

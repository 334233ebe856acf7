//! Workflow commands that make GitHub annotate the lines of a pull request.

use super::severity;
use crate::diagnostic::Diagnostic;
use crate::untrusted_text;

/// Formats one workflow command per diagnostic.
pub fn github(diagnostics: &[Diagnostic]) -> String {
    diagnostics.iter().map(format_command).collect()
}

/// Formats a diagnostic as a GitHub Actions command.
fn format_command(diagnostic: &Diagnostic) -> String {
    let mut properties = Vec::new();
    if let Some(file) = &diagnostic.file {
        properties.push(format!("file={}", escape_property(file)));
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
        escape_data(&text)
    )
}

/// Escapes the message of a GitHub Actions command.
fn escape_data(text: &str) -> String {
    untrusted_text::lines(text)
        .to_string()
        .replace('%', "%25")
        .replace('\n', "%0A")
}

/// Escapes a property of a GitHub Actions command.
fn escape_property(text: &str) -> String {
    escape_data(text).replace(':', "%3A").replace(',', "%2C")
}

//! Text formats of diagnostics: pretty, one line each, JSON and GitHub.

mod github;
mod json;
mod pretty;
mod short;

pub use github::github;
pub use json::json;
pub use pretty::{pretty, shown_each};
pub use short::short;

use crate::diagnostic::{Diagnostic, Severity};
use crate::text::count;

/// Formats counts, such as `2 errors and 1 warning in 2 files`. Zero counts are omitted.
pub fn summary(diagnostics: &[Diagnostic]) -> String {
    let errors = diagnostics
        .iter()
        .filter(|diagnostic| diagnostic.is_error())
        .count();
    let warnings = diagnostics.len() - errors;
    let mut files: Vec<&str> = diagnostics
        .iter()
        .filter_map(|diagnostic| diagnostic.file.as_deref())
        .collect();
    files.sort_unstable();
    files.dedup();
    let numbers = match (errors, warnings) {
        (0, 0) => return "No problems.".to_owned(),
        (errors, 0) => count(errors, "error"),
        (0, warnings) => count(warnings, "warning"),
        (errors, warnings) => format!(
            "{} and {}",
            count(errors, "error"),
            count(warnings, "warning")
        ),
    };
    let place = if files.is_empty() {
        String::new()
    } else {
        format!(" in {}", count(files.len(), "file"))
    };
    let outcome = if errors > 0 {
        "; fix the errors before you run the project"
    } else {
        ""
    };
    format!("{numbers}{place}{outcome}.")
}

/// Returns the name of the severity.
fn severity(diagnostic: &Diagnostic) -> &'static str {
    match diagnostic.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    }
}

/// Formats the known parts of the subject, such as `Agent/assistant spec.tools[0].ref`.
fn subject(diagnostic: &Diagnostic) -> Option<String> {
    match (&diagnostic.resource, &diagnostic.field) {
        (Some(resource), Some(field)) => Some(format!("{resource} {field}")),
        (Some(one), None) | (None, Some(one)) => Some(one.clone()),
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostic::Code;

    #[test]
    fn the_summary_counts_errors_warnings_and_files() {
        let error = Diagnostic::new(Code::CYCLE, "a").in_file("f");
        let warning = Diagnostic::new(Code::UNUSED, "b").in_file("g");
        assert_eq!(summary(&[]), "No problems.");
        assert_eq!(
            summary(std::slice::from_ref(&warning)),
            "1 warning in 1 file."
        );
        assert_eq!(
            summary(&[error.clone(), error, warning]),
            "2 errors and 1 warning in 2 files; fix the errors before you run the project."
        );
    }
}

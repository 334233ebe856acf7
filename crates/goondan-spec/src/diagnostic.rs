//! Diagnostics of a bundle as data, without rendering.

use std::fmt;

use serde::Serialize;

pub(crate) use crate::codes::Code;
use crate::fix::Fix;

/// Severity of a diagnostic. Any error prevents the bundle from running (rule L3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Prevents the bundle from running.
    Error,
    /// The bundle runs, but probably not as intended.
    Warning,
}

/// Diagnostic of a bundle. Lines and columns count from 1; columns count characters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Diagnostic {
    /// Stable error code.
    pub code: Code,
    /// Severity that the code defines.
    pub severity: Severity,
    /// Description of the error or warning, as a complete sentence.
    pub message: String,
    /// File relative to the bundle's directory, with `/` as the separator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Start position in the file.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub position: Option<SourcePosition>,
    /// Affected resource, as `Kind/name`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// Affected field, such as `spec.exports[0].name`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// Suggested next step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suggestion: Option<String>,
    /// URL of the error's documentation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help_url: Option<String>,
    /// Automatic fix, if there is one.
    #[serde(skip)]
    pub fix: Option<Box<Fix>>,
    /// Related position.
    #[serde(skip)]
    pub related: Option<Box<RelatedPosition>>,
}

/// Second position that explains a diagnostic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelatedPosition {
    /// Description of that position.
    pub message: String,
    /// File, as in [`Diagnostic::file`].
    pub file: String,
    /// Position in the file.
    pub position: SourcePosition,
}

/// Range in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct SourcePosition {
    /// Line, counted from 1.
    pub line: usize,
    /// Column in characters, counted from 1.
    pub column: usize,
    /// Byte offset of the first byte.
    #[serde(skip)]
    pub start: usize,
    /// Byte offset after the last byte.
    #[serde(skip)]
    pub end: usize,
}

impl Diagnostic {
    /// Creates a diagnostic without a position.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Diagnostic {
            code,
            severity: code.severity(),
            message: message.into(),
            file: None,
            position: None,
            resource: None,
            field: None,
            suggestion: None,
            help_url: Some(code.help_url()),
            fix: None,
            related: None,
        }
    }

    /// Sets the position.
    #[must_use]
    pub fn at(mut self, position: SourcePosition) -> Self {
        self.position = Some(position);
        self
    }

    /// Sets the file.
    #[must_use]
    pub fn in_file(mut self, file: impl Into<String>) -> Self {
        self.file = Some(file.into());
        self
    }

    /// Sets the affected resource, as `Kind/name`.
    #[must_use]
    pub fn of(mut self, resource: impl fmt::Display) -> Self {
        self.resource = Some(resource.to_string());
        self
    }

    /// Sets the affected field, such as `spec.exports[0].name`.
    #[must_use]
    pub fn field(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into());
        self
    }

    /// Sets the suggestion.
    #[must_use]
    pub fn suggest(mut self, suggestion: impl Into<String>) -> Self {
        self.suggestion = Some(suggestion.into());
        self
    }

    /// Sets the automatic fix.
    #[must_use]
    pub fn fix(mut self, fix: Fix) -> Self {
        self.fix = Some(Box::new(fix));
        self
    }

    /// Sets the related position.
    #[must_use]
    pub fn related(mut self, related: RelatedPosition) -> Self {
        self.related = Some(Box::new(related));
        self
    }

    /// Replaces the code, with its severity and help URL.
    #[must_use]
    pub fn as_code(mut self, code: Code) -> Self {
        let with_code = Diagnostic::new(code, "");
        (self.code, self.severity, self.help_url) =
            (with_code.code, with_code.severity, with_code.help_url);
        self
    }

    /// Returns true if it prevents the bundle from running.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

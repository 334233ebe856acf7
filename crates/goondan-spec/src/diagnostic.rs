//! What is wrong with a bundle, as data. Rendering is another module's work.

use std::fmt;

use serde::Serialize;

pub(crate) use crate::codes::Code;
use crate::fix::Fix;

/// How bad it is. Any error keeps the whole bundle from running (rule L3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Nothing runs.
    Error,
    /// It runs, but probably not as meant.
    Warning,
}

/// One problem. Lines and columns count from 1; columns count characters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Diagnostic {
    /// The stable code.
    pub code: Code,
    /// Error or warning, as the code says.
    pub severity: Severity,
    /// A sentence that stands alone.
    pub message: String,
    /// The file, relative to the bundle's folder, with `/` between its parts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Where in the file it begins.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub position: Option<Position>,
    /// The resource concerned, as `Kind/name`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// The field concerned, such as `spec.exports[0].name`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// What to type next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suggestion: Option<String>,
    /// Where to read more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help_url: Option<String>,
    /// What repairs it, where that is plain enough for a program.
    #[serde(skip)]
    pub fix: Option<Box<Fix>>,
    /// Another place that it has to do with.
    #[serde(skip)]
    pub related: Option<Box<Related>>,
}

/// Another place that a problem has to do with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Related {
    /// What is there.
    pub message: String,
    /// The file, as in [`Diagnostic::file`].
    pub file: String,
    /// Where in the file.
    pub position: Position,
}

/// A place in a file, with the length of what stands there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Position {
    /// Counted from 1.
    pub line: usize,
    /// In characters, counted from 1.
    pub column: usize,
    /// Byte offset of the first byte in the file.
    #[serde(skip)]
    pub start: usize,
    /// Byte offset behind the last byte.
    #[serde(skip)]
    pub end: usize,
}

impl Diagnostic {
    /// A diagnostic that has no place yet.
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

    /// Says where it is.
    #[must_use]
    pub fn at(mut self, position: Position) -> Self {
        self.position = Some(position);
        self
    }

    /// Says which file it is in.
    #[must_use]
    pub fn in_file(mut self, file: impl Into<String>) -> Self {
        self.file = Some(file.into());
        self
    }

    /// Says which resource it concerns, as `Kind/name`.
    #[must_use]
    pub fn of(mut self, resource: impl fmt::Display) -> Self {
        self.resource = Some(resource.to_string());
        self
    }

    /// Says which field it concerns, such as `spec.exports[0].name`.
    #[must_use]
    pub fn field(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into());
        self
    }

    /// Says what to type next.
    #[must_use]
    pub fn suggest(mut self, suggestion: impl Into<String>) -> Self {
        self.suggestion = Some(suggestion.into());
        self
    }

    /// Says what repairs it.
    #[must_use]
    pub fn fix(mut self, fix: Fix) -> Self {
        self.fix = Some(Box::new(fix));
        self
    }

    /// Says where else to look.
    #[must_use]
    pub fn related(mut self, related: Related) -> Self {
        self.related = Some(Box::new(related));
        self
    }

    /// The same under another code, as bad as that says.
    #[must_use]
    pub fn as_code(mut self, code: Code) -> Self {
        let other = Diagnostic::new(code, "");
        (self.code, self.severity, self.help_url) = (other.code, other.severity, other.help_url);
        self
    }

    /// Whether it keeps the bundle from running.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

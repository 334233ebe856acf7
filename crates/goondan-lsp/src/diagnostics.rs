//! Diagnostics in LSP form.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gen_lsp_types::{
    CodeDescription, Diagnostic, DiagnosticRelatedInformation, DiagnosticSeverity, Location, Range,
    Uri,
};
use goondan_spec::Severity;
use goondan_spec::diagnostic::RelatedPosition;

use crate::documents::DocumentOverlay;
use crate::project::{LoadedProject, manifest_path};
use crate::text::{ColumnEncoding, LineIndex, line_starts};
use crate::uri;

/// Source name that an editor shows next to a diagnostic.
const DIAGNOSTIC_SOURCE: &str = "gdn";

/// Diagnostics by file path.
pub(crate) type DiagnosticsByFile = BTreeMap<PathBuf, Vec<Diagnostic>>;

/// Converts the diagnostics of the project at `root`, grouped by file.
pub(crate) fn by_file(
    root: &Path,
    seen: &LoadedProject,
    files: &DocumentOverlay<'_>,
    encoding: ColumnEncoding,
) -> DiagnosticsByFile {
    let mut texts = PositionConverter {
        files,
        encoding,
        known: HashMap::new(),
    };
    let mut found = DiagnosticsByFile::new();
    for diagnostic in &seen.diagnostics {
        let path = match &diagnostic.file {
            Some(file) => root.join(file),
            None => manifest_path(root, files),
        };
        let converted = texts.convert_diagnostic(root, &path, diagnostic);
        found.entry(path).or_default().push(converted);
    }
    found
}

/// Converts one diagnostic of the file at `path`.
pub(crate) fn to_lsp(
    root: &Path,
    path: &Path,
    found: &goondan_spec::Diagnostic,
    files: &DocumentOverlay<'_>,
    encoding: ColumnEncoding,
) -> Diagnostic {
    PositionConverter {
        files,
        encoding,
        known: HashMap::new(),
    }
    .convert_diagnostic(root, path, found)
}

/// Cache of file contents for position conversion.
struct PositionConverter<'f> {
    files: &'f DocumentOverlay<'f>,
    encoding: ColumnEncoding,
    /// Contents with line starts, cached because a file may have thousands of diagnostics.
    known: HashMap<PathBuf, (Arc<str>, Vec<usize>)>,
}

impl PositionConverter<'_> {
    /// Converts a diagnostic of gdn to an LSP diagnostic for the file `path`.
    fn convert_diagnostic(
        &mut self,
        root: &Path,
        path: &Path,
        found: &goondan_spec::Diagnostic,
    ) -> Diagnostic {
        let severity = match found.severity {
            Severity::Error => DiagnosticSeverity::Error,
            Severity::Warning => DiagnosticSeverity::Warning,
        };
        let range = found
            .position
            .filter(|_| found.file.is_some())
            .map(|at| self.range(path, at.start..at.end));
        let related = found
            .related
            .as_deref()
            .map(|related| self.convert_related(root, related));
        Diagnostic {
            range: range.unwrap_or_default(),
            severity: Some(severity),
            code: Some(found.code.as_str().into()),
            code_description: found
                .help_url
                .clone()
                .map(|url| CodeDescription { href: Uri(url) }),
            source: Some(DIAGNOSTIC_SOURCE.to_owned()),
            message: message(found).into(),
            tags: None,
            related_information: related.map(|related| vec![related]),
            data: None,
        }
    }

    /// Converts a related position to its LSP form.
    fn convert_related(
        &mut self,
        root: &Path,
        related: &RelatedPosition,
    ) -> DiagnosticRelatedInformation {
        let path = root.join(&related.file);
        let range = self.range(&path, related.position.start..related.position.end);
        let uri = self
            .files
            .open
            .get(&path)
            .map_or_else(|| uri::from_path(&path), |document| document.uri.clone());
        DiagnosticRelatedInformation {
            location: Location { uri, range },
            message: related.message.clone(),
        }
    }

    /// Converts a byte range of a file to an LSP range; reads each file once.
    fn range(&mut self, path: &Path, bytes: std::ops::Range<usize>) -> Range {
        let (files, encoding) = (self.files, self.encoding);
        let (text, starts) = self.known.entry(path.to_owned()).or_insert_with(|| {
            let text = files.text(path).unwrap_or_default();
            let starts = line_starts(&text);
            (text, starts)
        });
        LineIndex::with_line_starts(text, starts, encoding).range(bytes)
    }
}

/// Formats the message with the suggestion on a separate line.
fn message(found: &goondan_spec::Diagnostic) -> String {
    match &found.suggestion {
        Some(suggestion) => format!("{}\nhelp: {suggestion}", found.message),
        None => found.message.clone(),
    }
}

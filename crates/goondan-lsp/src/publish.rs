//! Diagnostics as an editor gets them.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gen_lsp_types::{
    CodeDescription, Diagnostic, DiagnosticRelatedInformation, DiagnosticSeverity, Location, Range,
    Uri,
};
use goondan_spec::Severity;
use goondan_spec::diagnostic::Related;

use crate::documents::Overlay;
use crate::project::{Seen, manifest};
use crate::text::{Encoding, Lines, line_starts};
use crate::uri;

/// What an editor says that diagnostics come from.
const SOURCE: &str = "gdn";

/// What was found in each file of a project.
pub(crate) type ByFile = BTreeMap<PathBuf, Vec<Diagnostic>>;

/// The diagnostics of the project at `root`, file by file.
pub(crate) fn by_file(root: &Path, seen: &Seen, files: &Overlay<'_>, encoding: Encoding) -> ByFile {
    let mut texts = Texts {
        files,
        encoding,
        known: HashMap::new(),
    };
    let mut found = ByFile::new();
    for diagnostic in &seen.diagnostics {
        let path = match &diagnostic.file {
            Some(file) => root.join(file),
            None => manifest(root, files),
        };
        let told = texts.diagnostic(root, &path, diagnostic);
        found.entry(path).or_default().push(told);
    }
    found
}

/// One diagnostic of the file at `path`.
pub(crate) fn one(
    root: &Path,
    path: &Path,
    found: &goondan_spec::Diagnostic,
    files: &Overlay<'_>,
    encoding: Encoding,
) -> Diagnostic {
    Texts {
        files,
        encoding,
        known: HashMap::new(),
    }
    .diagnostic(root, path, found)
}

/// The texts that diagnostics point into.
struct Texts<'f> {
    files: &'f Overlay<'f>,
    encoding: Encoding,
    /// Each with the beginnings of its lines: a file may have thousands of diagnostics.
    known: HashMap<PathBuf, (Arc<str>, Vec<usize>)>,
}

impl Texts<'_> {
    fn diagnostic(
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
            .map(|related| self.related(root, related));
        Diagnostic {
            range: range.unwrap_or_default(),
            severity: Some(severity),
            code: Some(found.code.as_str().into()),
            code_description: found
                .help_url
                .clone()
                .map(|url| CodeDescription { href: Uri(url) }),
            source: Some(SOURCE.to_owned()),
            message: message(found).into(),
            tags: None,
            related_information: related.map(|related| vec![related]),
            data: None,
        }
    }

    fn related(&mut self, root: &Path, related: &Related) -> DiagnosticRelatedInformation {
        let path = root.join(&related.file);
        let range = self.range(&path, related.position.start..related.position.end);
        let uri = self
            .files
            .open
            .get(&path)
            .map_or_else(|| uri::of(&path), |document| document.uri.clone());
        DiagnosticRelatedInformation {
            location: Location { uri, range },
            message: related.message.clone(),
        }
    }

    fn range(&mut self, path: &Path, bytes: std::ops::Range<usize>) -> Range {
        let (files, encoding) = (self.files, self.encoding);
        let (text, starts) = self.known.entry(path.to_owned()).or_insert_with(|| {
            let text = files.text(path).unwrap_or_default();
            let starts = line_starts(&text);
            (text, starts)
        });
        Lines::known(text, starts, encoding).range(bytes)
    }
}

/// What is wrong, and in a line of its own what to do about it.
fn message(found: &goondan_spec::Diagnostic) -> String {
    match &found.suggestion {
        Some(suggestion) => format!("{}\nhelp: {suggestion}", found.message),
        None => found.message.clone(),
    }
}

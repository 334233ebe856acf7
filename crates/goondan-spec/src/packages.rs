//! Position of the Package document, and the package name of the resources.

use std::sync::Arc;

use crate::diagnostic::{Code, Diagnostic};
use crate::diagnostic_sink::DiagnosticSink;
use crate::envelope::DocumentEnvelope;
use crate::installed_packages::is_installed;
use crate::meta::Kind;
use crate::parsed_file::ParsedFile;

/// Files whose first document may be the Package.
const MANIFEST_FILES: [&str; 2] = ["goondan.yaml", "goondan.yml"];

/// Returns the name of the project's package, if there is one.
pub(crate) fn own_package_name(files: &[Arc<ParsedFile>]) -> Option<&str> {
    root_manifest(files)?.package()
}

/// Returns the root `goondan.yaml`.
pub(crate) fn root_manifest(files: &[Arc<ParsedFile>]) -> Option<&ParsedFile> {
    MANIFEST_FILES
        .iter()
        .find_map(|name| files.iter().find(|file| file.name == *name))
        .map(AsRef::as_ref)
}

/// Returns the envelope, or reports a Package at the wrong position.
pub(crate) fn check_package_position<'f>(
    envelope: DocumentEnvelope<'f>,
    position: usize,
    file: &ParsedFile,
    files: &[Arc<ParsedFile>],
    findings: &mut DiagnosticSink,
) -> Option<DocumentEnvelope<'f>> {
    if envelope.head.id.kind != Kind::Package {
        return Some(envelope);
    }
    let is_in_manifest = root_manifest(files).is_some_and(|manifest| manifest.name == file.name);
    if is_installed(&file.name) {
        return None;
    }
    if is_in_manifest && position == 0 {
        return Some(envelope);
    }
    let is_package = |document: &crate::node::YamlNode| {
        document.entry("kind").and_then(|kind| kind.value.text()) == Some("Package")
    };
    let second = file.documents.iter().take(position).any(is_package);
    let diagnostic = if second {
        Diagnostic::new(
            Code::PACKAGE_DOC_DUPLICATED,
            "This file already has a Package; a project has at most one.",
        )
        .suggest("remove this document")
    } else {
        Diagnostic::new(
            Code::PACKAGE_DOC_POSITION,
            "A Package must be the first document of the project's `goondan.yaml`.",
        )
        .suggest("move it to the top of `goondan.yaml`")
    };
    let kind_at = file
        .documents
        .get(position)
        .and_then(|document| document.entry("kind"))
        .map(|kind| kind.value.at);
    findings.add(
        diagnostic
            .at(kind_at.unwrap_or(envelope.head.name_at))
            .field("kind"),
    );
    None
}

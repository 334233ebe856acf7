//! The Package document: where it may stand, and whose name the resources bear.

use std::sync::Arc;

use crate::diagnostic::{Code, Diagnostic};
use crate::envelope::Envelope;
use crate::findings::Findings;
use crate::installed::is_installed;
use crate::meta::Kind;
use crate::read::ParsedFile;

/// The file whose first document may be the Package.
const MANIFESTS: [&str; 2] = ["goondan.yaml", "goondan.yml"];

/// The name of this project's package, where it has one.
pub(crate) fn own(files: &[Arc<ParsedFile>]) -> Option<&str> {
    manifest(files)?.package()
}

/// The `goondan.yaml` in the root.
pub(crate) fn manifest(files: &[Arc<ParsedFile>]) -> Option<&ParsedFile> {
    MANIFESTS
        .iter()
        .find_map(|name| files.iter().find(|file| file.name == *name))
        .map(AsRef::as_ref)
}

/// Passes an envelope on, unless it is a Package in the wrong place.
pub(crate) fn place<'f>(
    envelope: Envelope<'f>,
    position: usize,
    file: &ParsedFile,
    files: &[Arc<ParsedFile>],
    findings: &mut Findings,
) -> Option<Envelope<'f>> {
    if envelope.head.id.kind != Kind::Package {
        return Some(envelope);
    }
    let in_manifest = manifest(files).is_some_and(|manifest| manifest.name == file.name);
    if is_installed(&file.name) {
        return None;
    }
    if in_manifest && position == 0 {
        return Some(envelope);
    }
    let is_package = |document: &crate::node::Node| {
        document.entry("kind").and_then(|kind| kind.value.text()) == Some("Package")
    };
    let second = file.documents.iter().take(position).any(is_package);
    let diagnostic = if second {
        Diagnostic::new(
            Code::PACKAGE_DOC_DUPLICATED,
            "There is a Package in this file already; a project has one at most.",
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

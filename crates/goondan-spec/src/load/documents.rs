//! Files and documents of a project and its packages, before their `spec` is decoded.

use std::collections::HashMap;
use std::sync::Arc;

use super::findings::LoadFindings;
use crate::bundle::BuiltInResources;
use crate::decode_cache::DecodeCache;
use crate::diagnostic::{Code, Diagnostic, RelatedPosition};
use crate::diagnostic_sink::DiagnosticSink;
use crate::discover::DiscoveredFiles;
use crate::envelope::{self, DocumentEnvelope};
use crate::field_advice;
use crate::index::ResourceIndex;
use crate::installed_packages::{self, InstalledPackages};
use crate::meta::{Kind, ResourceId};
use crate::parsed_file::{KnownFiles, ParsedFile, read_file};
use crate::paths::BundleDirectory;
use crate::{packages, parallel, short_form};

/// Adds the derived documents of the project and its packages: the Models and the Swarm for which
/// their files contain only a short form. `is_whole` is false if a part of the project could not be
/// read, so a Swarm may be in that part.
pub(super) fn add_derived_documents(
    files: &mut ParsedFiles,
    installed: &mut InstalledPackages,
    is_whole: bool,
) {
    let derived = short_form::derived_files(&files.own, is_whole);
    files.own.extend(derived);
    for member in &mut installed.members {
        // Swarms of packages are not used, so none is derived.
        let derived = short_form::derived_files(&member.files, false);
        member.files.extend(derived);
    }
}

pub(super) struct ParsedFiles {
    /// Files of this bundle.
    pub(super) own: Vec<Arc<ParsedFile>>,
    /// `goondan.yaml` files of projects in subdirectories.
    pub(super) nested: Vec<Arc<ParsedFile>>,
}

/// Reads the files of the project. Files below a nested project belong only to that project.
pub(super) fn read_files(
    folder: &BundleDirectory<'_>,
    found: &DiscoveredFiles,
    known: &KnownFiles,
    gathered: &mut LoadFindings,
) -> ParsedFiles {
    let nested = parallel::map_files(&found.nested, |name| read_file(folder, name, known));
    let nested: Vec<Arc<ParsedFile>> = nested
        .into_iter()
        .filter(|file| file.package().is_some())
        .collect();
    let prefixes: Vec<&str> = nested
        .iter()
        .filter_map(|file| Some(file.name.rsplit_once('/')?.0))
        .collect();
    let is_own = |name: &&String| {
        !prefixes.iter().any(|prefix| {
            name.strip_prefix(prefix)
                .is_some_and(|rest| rest.starts_with('/'))
        })
    };
    let names: Vec<&String> = found.files.iter().filter(is_own).collect();
    gathered
        .diagnostics
        .retain(|problem| problem.file.as_ref().is_none_or(|file| is_own(&file)));
    let mut own_files = parallel::map_files(&names, |name| read_file(folder, name, known));
    known.keep_only(&[own_files.as_slice(), &nested].concat());
    own_files.retain(|file| !file.is_tool_manifest());
    for file in &own_files {
        gathered.add(file.findings.clone());
        let renames = file.renames.iter().cloned();
        let renames = renames.map(|rename| rename.in_file(file.name.as_str()));
        gathered.renames.extend(renames);
    }
    ParsedFiles {
        own: own_files,
        nested,
    }
}

/// Reads the installed packages that the project depends on.
pub(super) fn read_installed(
    folder: &BundleDirectory<'_>,
    files: &ParsedFiles,
    known: &KnownFiles,
    gathered: &mut LoadFindings,
) -> InstalledPackages {
    let mut installed = installed_packages::read(folder, &files.own, known);
    let members = installed
        .members
        .iter()
        .flat_map(|member| member.files.iter().cloned());
    known.keep_only(
        &files
            .own
            .iter()
            .chain(&files.nested)
            .cloned()
            .chain(members)
            .collect::<Vec<_>>(),
    );
    gathered.diagnostics.append(&mut installed.diagnostics);
    gathered.texts.append(&mut installed.texts);
    for findings in installed_packages::file_findings(&installed.members) {
        gathered.add(findings);
    }
    installed
}

/// Reads the documents of the project and of its packages. Swarms and Connections of packages are
/// skipped: they only apply when the package runs as a project.
pub(super) fn read_all<'f>(
    files: &'f [Arc<ParsedFile>],
    own: Option<&str>,
    installed: &'f InstalledPackages,
    gathered: &mut LoadFindings,
) -> Vec<EnvelopedDocument<'f>> {
    let mut envelopes = read_envelopes(files, own, "", gathered);
    for member in &installed.members {
        let documents = read_envelopes(
            &member.files,
            Some(&member.package.name),
            &member.package.folder,
            gathered,
        );
        let is_used = |document: &EnvelopedDocument<'_>| {
            !matches!(document.id().kind, Kind::Swarm | Kind::Connection)
        };
        envelopes.extend(documents.into_iter().filter(is_used));
    }
    envelopes
}

/// A document with its decoded `kind` and `metadata`.
pub(super) struct EnvelopedDocument<'f> {
    pub(super) file: &'f str,
    /// Directory of its package. Empty for the project itself.
    pub(super) base: &'f str,
    /// True if gdn derived the document from a short form.
    pub(super) is_derived: bool,
    pub(super) envelope: DocumentEnvelope<'f>,
    /// Results of decoding the document, from this load or an earlier one.
    pub(super) kept: &'f DecodeCache,
}

impl EnvelopedDocument<'_> {
    pub(super) fn id(&self) -> &ResourceId {
        &self.envelope.head.id
    }
}

/// Reads `kind` and `metadata` of all documents in parallel. `own` is the name of their package,
/// `base` its directory.
fn read_envelopes<'f>(
    files: &'f [Arc<ParsedFile>],
    own: Option<&str>,
    base: &'f str,
    gathered: &mut LoadFindings,
) -> Vec<EnvelopedDocument<'f>> {
    let read = parallel::map(files, |file| {
        let mut findings = Vec::new();
        let positions = 0..file.documents.len();
        let documents: Vec<EnvelopedDocument<'_>> = positions
            .filter_map(|position| read_document(file, position, files, own, &mut findings))
            .collect();
        let documents = documents
            .into_iter()
            .map(|document| EnvelopedDocument { base, ..document })
            .collect::<Vec<_>>();
        (documents, findings)
    });
    let mut envelopes = Vec::new();
    for (documents, findings) in read {
        envelopes.extend(documents);
        for findings in findings {
            gathered.add(findings);
        }
    }
    envelopes
}

/// Reads the envelope of one document of `file`, or takes it from the cache.
fn read_document<'f>(
    file: &'f ParsedFile,
    position: usize,
    files: &[Arc<ParsedFile>],
    own: Option<&str>,
    findings: &mut Vec<DiagnosticSink>,
) -> Option<EnvelopedDocument<'f>> {
    let (root, kept) = (&file.documents[position], &file.kept[position]);
    if let Some(head) = kept.cached_head(own) {
        return Some(EnvelopedDocument {
            file: &file.name,
            base: "",
            is_derived: file.is_derived,
            envelope: DocumentEnvelope::from_head(head, root),
            kept,
        });
    }
    let mut document_findings = DiagnosticSink::for_file(file.name.clone());
    document_findings.advisor = Some(field_advice::find_advice);
    let read = envelope::read(root, own, &mut document_findings);
    let envelope = read.and_then(|read| {
        packages::check_package_position(read, position, file, files, &mut document_findings)
    });
    if let Some(envelope) = envelope.as_ref() {
        kept.put_head(&envelope.head, &document_findings);
    }
    findings.push(document_findings);
    Some(EnvelopedDocument {
        file: &file.name,
        base: "",
        is_derived: file.is_derived,
        envelope: envelope?,
        kept,
    })
}

/// Creates the index of resource names; reports names that occur twice.
pub(super) fn make_index(
    documents: &[EnvelopedDocument<'_>],
    built_in: &BuiltInResources,
    gathered: &mut LoadFindings,
) -> ResourceIndex {
    let mut index = ResourceIndex::default();
    let named_documents = || {
        documents
            .iter()
            .filter(|document| !document.id().name.is_empty())
    };
    let duplicates: Vec<&EnvelopedDocument<'_>> = named_documents()
        .filter(|document| !index.insert(document.id()))
        .collect();
    if !duplicates.is_empty() {
        let mut first: HashMap<&ResourceId, &EnvelopedDocument<'_>> = HashMap::new();
        for document in named_documents() {
            first.entry(document.id()).or_insert(document);
        }
        gathered.diagnostics.extend(
            duplicates
                .into_iter()
                .map(|document| duplicate_name_error(document, first[document.id()])),
        );
    }
    for id in built_in
        .tools
        .keys()
        .chain(built_in.extensions.keys())
        .chain(built_in.connectors.keys())
    {
        index.insert(id);
    }
    index
}

/// Creates the error for a resource whose name is in use.
fn duplicate_name_error(
    document: &EnvelopedDocument<'_>,
    first: &EnvelopedDocument<'_>,
) -> Diagnostic {
    let id = document.id();
    let position = format!(
        "`{}`, line {}",
        first.file, first.envelope.head.name_at.line
    );
    Diagnostic::new(
        Code::DUPLICATE_NAME,
        format!(
            "There is another {} named `{}`, in {position}.",
            id.kind, id.name
        ),
    )
    .in_file(document.file)
    .at(document.envelope.head.name_at)
    .of(id)
    .field("metadata.name")
    .suggest("rename one of the two")
    .related(RelatedPosition {
        message: format!("`{id}` is also defined here"),
        file: first.file.to_owned(),
        position: first.envelope.head.name_at,
    })
}

//! Fingerprints of files that resources refer to, such as libraries, manifests and scripts. Their
//! content is not part of the decoded resources.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use goondan_spec::kinds::{ConnectorEntry, ExtensionEntry, Tool, ToolEntry};
use goondan_spec::{Bundle, Fingerprint, Fingerprints, ResourceId, regular_file};

use crate::watch::stamp::{FileStamp, PathStamp};

/// Minimum size of cached files, in bytes; smaller files are read each time.
const MIN_CACHED_FILE_BYTES: u64 = 256 * 1024;

/// Cache for fingerprints of large files, valid while their stamps stay the same.
#[derive(Debug, Default)]
pub(crate) struct FingerprintCache {
    large: Mutex<HashMap<PathBuf, (FileStamp, Fingerprint)>>,
}

impl FingerprintCache {
    /// Returns the fingerprints of all files of `bundle`, by resource. Resources without files are
    /// omitted.
    pub(crate) fn of(&self, bundle: &Bundle) -> Fingerprints {
        // Thousands of tools can share one library.
        let mut fingerprints_by_file = HashMap::new();
        let mut fingerprint = |id: &ResourceId, files: Vec<String>| {
            let of_file = |file: String| {
                fingerprints_by_file
                    .entry(file)
                    .or_insert_with_key(|file| self.of_file(&bundle.root().join(file)))
                    .clone()
            };
            let all: Vec<Fingerprint> = files.into_iter().map(of_file).collect();
            (!all.is_empty()).then(|| (id.clone(), Fingerprint::combine(&all)))
        };
        let tools = bundle.tools().values().filter(|tool| !tool.id.is_base());
        let mut contents: Fingerprints = tools
            .filter_map(|tool| fingerprint(&tool.id, files_of(&tool.spec)))
            .collect();
        let extensions = bundle
            .extensions()
            .values()
            .filter(|extension| !extension.id.is_base());
        contents.extend(
            extensions.filter_map(|extension| match &extension.spec.entry {
                ExtensionEntry::Module(module) => fingerprint(&extension.id, module.files.clone()),
                ExtensionEntry::Library(path) => fingerprint(&extension.id, vec![path.clone()]),
                ExtensionEntry::Builtin(_) => None,
            }),
        );
        let connectors = bundle
            .connectors()
            .values()
            .filter(|connector| !connector.id.is_base());
        contents.extend(
            connectors.filter_map(|connector| match &connector.spec.entry {
                ConnectorEntry::Module(module) => fingerprint(&connector.id, module.files.clone()),
                ConnectorEntry::Library(path) => fingerprint(&connector.id, vec![path.clone()]),
                ConnectorEntry::Builtin(_) => None,
            }),
        );
        contents.extend(bundle.models().values().filter_map(|model| {
            let files = goondan_models::files_of(&model.spec)
                .map(str::to_owned)
                .collect();
            fingerprint(&model.id, files)
        }));
        contents
    }

    /// Returns the fingerprint of a file, from the cache if the file is large and unchanged.
    fn of_file(&self, path: &Path) -> Fingerprint {
        let PathStamp::File(stamp) = PathStamp::of(path) else {
            return Fingerprint::default();
        };
        if stamp.size < MIN_CACHED_FILE_BYTES {
            return read(path);
        }
        let mut large = self.large.lock().unwrap_or_else(PoisonError::into_inner);
        match large.get(path) {
            Some((cached_stamp, fingerprint)) if *cached_stamp == stamp => fingerprint.clone(),
            _ => {
                let fingerprint = read(path);
                large.insert(path.to_owned(), (stamp, fingerprint.clone()));
                fingerprint
            }
        }
    }
}

/// Returns the fingerprint of a file. An unreadable file is reported by its user.
fn read(path: &Path) -> Fingerprint {
    regular_file::open(path)
        .and_then(Fingerprint::of_stream)
        .unwrap_or_default()
}

/// Returns the files of the tool's entry, relative to the project.
fn files_of(tool: &Tool) -> Vec<String> {
    match &tool.entry {
        ToolEntry::Builtin(_) | ToolEntry::Embedded | ToolEntry::A2a(_) => Vec::new(),
        ToolEntry::Library(path) => vec![path.clone()],
        ToolEntry::Executable(folder) => vec![format!("{folder}/tool.yaml")],
        ToolEntry::Module(module) => module.files.clone(),
        ToolEntry::Mcp(server) => server.bundled_program().into_iter().collect(),
    }
}

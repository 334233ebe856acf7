//! Fingerprints of files that resources name and that are not part of their decoded form: libraries, manifests, scripts.

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use goondan_spec::kinds::{ConnectorEntry, Entry, ExtensionEntry, Tool};
use goondan_spec::{Bundle, Fingerprint, Fingerprints, ResourceId};

use crate::watch::stamp::{FileStamp, Stamp};

/// A smaller file is read each time.
const WORTH_KEEPING: u64 = 256 * 1024;

/// Knows the fingerprints of large files as long as they look the same.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    large: Mutex<HashMap<PathBuf, (FileStamp, Fingerprint)>>,
}

impl Contents {
    /// Of everything that the resources of `bundle` name, by resource; of those that name nothing there is none.
    pub(crate) fn of(&self, bundle: &Bundle) -> Fingerprints {
        // Ten thousand tools may share one library.
        let mut known = HashMap::new();
        let mut fingerprint = |id: &ResourceId, files: Vec<String>| {
            let of_file = |file: String| {
                known
                    .entry(file)
                    .or_insert_with_key(|file| self.of_file(&bundle.root().join(file)))
                    .clone()
            };
            let all: Vec<Fingerprint> = files.into_iter().map(of_file).collect();
            (!all.is_empty()).then(|| (id.clone(), Fingerprint::of_all(&all)))
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

    fn of_file(&self, path: &Path) -> Fingerprint {
        let Stamp::File(stamp) = Stamp::of(path) else {
            return Fingerprint::default();
        };
        if stamp.size < WORTH_KEEPING {
            return read(path);
        }
        let mut large = self.large.lock().unwrap_or_else(PoisonError::into_inner);
        match large.get(path) {
            Some((known, fingerprint)) if *known == stamp => fingerprint.clone(),
            _ => {
                let fingerprint = read(path);
                large.insert(path.to_owned(), (stamp, fingerprint.clone()));
                fingerprint
            }
        }
    }
}

/// What can't be read is told by whoever needs it.
fn read(path: &Path) -> Fingerprint {
    File::open(path)
        .and_then(Fingerprint::of_stream)
        .unwrap_or_default()
}

fn files_of(tool: &Tool) -> Vec<String> {
    match &tool.entry {
        Entry::Builtin(_) | Entry::A2a(_) => Vec::new(),
        Entry::Library(path) => vec![path.clone()],
        Entry::Executable(folder) => vec![format!("{folder}/tool.yaml")],
        Entry::Module(module) => module.files.clone(),
        Entry::Mcp(server) => server.bundled_program().into_iter().collect(),
    }
}

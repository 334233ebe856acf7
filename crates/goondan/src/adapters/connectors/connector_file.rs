//! Handler files and libraries that run connections.

use std::fs::File;
use std::path::PathBuf;

use goondan_spec::kinds::ConnectorEntry;
use goondan_spec::{Bundle, Fingerprint, ResourceId};

/// Handler file or library that runs a connection.
#[derive(Debug, Clone, PartialEq)]
pub struct ConnectorFile {
    pub(super) id: ResourceId,
    pub(super) entry: ConnectorEntry,
    /// Project directory.
    pub(super) root: PathBuf,
    /// Fingerprints of the file and its imports.
    contents: Vec<Fingerprint>,
}

impl ConnectorFile {
    /// Returns the file of a Connector; `None` for a built-in one.
    pub(super) fn of(
        id: &ResourceId,
        entry: &ConnectorEntry,
        bundle: &Bundle,
    ) -> Option<ConnectorFile> {
        let files = match entry {
            ConnectorEntry::Builtin(_) => return None,
            ConnectorEntry::Module(module) => &module.files[..],
            ConnectorEntry::Library(path) => std::slice::from_ref(path),
        };
        // The connector runtime reports unreadable files.
        let of_file = |file: &String| {
            File::open(bundle.root().join(file))
                .and_then(Fingerprint::of_stream)
                .unwrap_or_default()
        };
        let contents = files.iter().map(of_file).collect();
        Some(ConnectorFile {
            id: id.clone(),
            entry: entry.clone(),
            root: bundle.root().to_owned(),
            contents,
        })
    }
}

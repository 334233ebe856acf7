//! Catalogs of earlier runs, so that a start waits only for new servers.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use crate::catalog::Catalog;
use goondan_core::private;

/// Maximum size of a catalog file in bytes.
const MAX_FILE: u64 = 64 << 20;

/// Files below the state root, one per known server, named by its fingerprint.
#[derive(Debug, Clone)]
pub(crate) struct Cache {
    folder: PathBuf,
}

pub(crate) enum Known {
    /// The server's tools, and the time since they were fetched.
    Catalog(Catalog, Duration),
    /// The server was contacted but did not answer. A start does not wait for it again.
    Silent,
    Nothing,
}

impl Cache {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Cache { folder }
    }

    fn file(&self, fingerprint: &str) -> PathBuf {
        self.folder.join(format!("{fingerprint}.json"))
    }

    fn mark(&self, fingerprint: &str) -> PathBuf {
        self.folder.join(format!("{fingerprint}.silent"))
    }

    /// Returns the cached facts about a server. An unreadable file counts as missing.
    pub(crate) fn read(&self, fingerprint: &str) -> Known {
        match self.catalog(fingerprint) {
            Some((catalog, age)) => Known::Catalog(catalog, age),
            None if self.mark(fingerprint).exists() => Known::Silent,
            None => Known::Nothing,
        }
    }

    fn catalog(&self, fingerprint: &str) -> Option<(Catalog, Duration)> {
        let file = self.file(fingerprint);
        let about = fs::metadata(&file)
            .ok()
            .filter(|about| about.len() <= MAX_FILE)?;
        let catalog: Catalog = serde_json::from_slice(&fs::read(file).ok()?).ok()?;
        let age = about
            .modified()
            .ok()
            .and_then(|at| SystemTime::now().duration_since(at).ok())
            .unwrap_or_default();
        catalog.is_readable().then_some((catalog, age))
    }

    /// Replaces the catalog. If this fails, the next start contacts the server again.
    pub(crate) fn keep(&self, fingerprint: &str, catalog: &Catalog) {
        let kept = serde_json::to_vec(catalog)
            .map_err(io::Error::other)
            .and_then(|text| {
                private::make_folder(&self.folder)?;
                private::replace(&self.file(fingerprint), &text)
            });
        if let Err(error) = kept {
            tracing::warn!(%error, "what an MCP server has can't be kept for the next start");
        }
        self.forget_silence(fingerprint);
    }

    /// Makes the next start wait for the server again, after its situation has changed.
    pub(crate) fn forget_silence(&self, fingerprint: &str) {
        let _ = fs::remove_file(self.mark(fingerprint));
    }

    /// Records that a server was contacted without an answer.
    pub(crate) fn note_silence(&self, fingerprint: &str) {
        let noted = private::make_folder(&self.folder)
            .and_then(|()| private::write(&self.mark(fingerprint), b""));
        if let Err(error) = noted {
            tracing::debug!(%error, "a silent MCP server can't be noted");
        }
    }
}

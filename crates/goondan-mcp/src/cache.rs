//! Catalogs from earlier runs, so that a start waits for no server that was met before.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use crate::catalog::Catalog;
use goondan_core::private;

/// A larger file is no catalog of ours.
const MAX_FILE: u64 = 64 << 20;

/// What is kept below the state root: a file for each server that was met, named by its fingerprint.
#[derive(Debug, Clone)]
pub(crate) struct Cache {
    folder: PathBuf,
}

/// What is known of a server.
pub(crate) enum Known {
    /// Its tools, when it was asked last, and how long ago that was.
    Catalog(Catalog, Duration),
    /// It was asked, and did not say. Nobody waits for it again.
    Silent,
    /// Nothing.
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

    /// What is known of a server. What can't be read is not known.
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

    /// Keeps a catalog, in place of the one before. Where that fails the next start asks the server again.
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

    /// Has a server waited for again: something has changed for it.
    pub(crate) fn forget_silence(&self, fingerprint: &str) {
        let _ = fs::remove_file(self.mark(fingerprint));
    }

    /// Notes that a server was asked and did not say anything.
    pub(crate) fn note_silence(&self, fingerprint: &str) {
        let noted = private::make_folder(&self.folder)
            .and_then(|()| private::write(&self.mark(fingerprint), b""));
        if let Err(error) = noted {
            tracing::debug!(%error, "a silent MCP server can't be noted");
        }
    }
}

//! Catalogs of earlier runs, so that a start waits only for new servers.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use crate::catalog::McpCatalog;
use goondan_core::private_files;
use goondan_core::redact::SecretRedactor;

/// Maximum size of a catalog file in bytes.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// Files below the state root, one per known server, named by its fingerprint. Catalogs enter `gdn`
/// through this cache, which masks the secrets of the run in them.
#[derive(Debug, Clone)]
pub(crate) struct CatalogCache {
    folder: PathBuf,
    redactor: SecretRedactor,
}

/// Cached state of a server.
pub(crate) enum CatalogCacheEntry {
    /// The server's tools, and the time since they were fetched.
    Catalog(McpCatalog, Duration),
    /// The server was contacted but did not answer. A start does not wait for it again.
    Unreachable,
    /// The server was never contacted.
    Nothing,
}

impl CatalogCache {
    /// Uses the directory `folder`, which may not exist yet.
    pub(crate) fn new(folder: PathBuf) -> Self {
        CatalogCache {
            folder,
            redactor: SecretRedactor::new(),
        }
    }

    /// Returns the redactor, to which secrets can be added.
    pub(crate) fn redactor(&self) -> &SecretRedactor {
        &self.redactor
    }

    /// Uses `redactor` instead of the own one.
    pub(crate) fn set_redactor(&mut self, redactor: SecretRedactor) {
        self.redactor = redactor;
    }

    /// Returns the catalog of a server without secrets.
    pub(crate) fn mask_secrets(&self, catalog: McpCatalog) -> McpCatalog {
        catalog.mask_secrets(&self.redactor)
    }

    /// Path of the cached catalog.
    fn file(&self, fingerprint: &str) -> PathBuf {
        self.folder.join(format!("{fingerprint}.json"))
    }

    /// Path of the file that marks a server as unreachable.
    fn unreachable_marker(&self, fingerprint: &str) -> PathBuf {
        self.folder.join(format!("{fingerprint}.silent"))
    }

    /// Returns the cached facts about a server. An unreadable file counts as missing.
    pub(crate) fn read(&self, fingerprint: &str) -> CatalogCacheEntry {
        match self.catalog(fingerprint) {
            Some((catalog, age)) => CatalogCacheEntry::Catalog(catalog, age),
            None if self.unreachable_marker(fingerprint).exists() => CatalogCacheEntry::Unreachable,
            None => CatalogCacheEntry::Nothing,
        }
    }

    /// Returns the cached catalog and its age; `None` if it is missing or unreadable.
    fn catalog(&self, fingerprint: &str) -> Option<(McpCatalog, Duration)> {
        let file = self.file(fingerprint);
        let about = fs::metadata(&file)
            .ok()
            .filter(|about| about.len() <= MAX_FILE_BYTES)?;
        let catalog: McpCatalog = serde_json::from_slice(&fs::read(file).ok()?).ok()?;
        let age = about
            .modified()
            .ok()
            .and_then(|at| SystemTime::now().duration_since(at).ok())
            .unwrap_or_default();
        // An earlier run may not have known all secrets.
        catalog
            .is_readable()
            .then(|| (self.mask_secrets(catalog), age))
    }

    /// Replaces the catalog. If this fails, the next start contacts the server again.
    pub(crate) fn store(&self, fingerprint: &str, catalog: &McpCatalog) {
        let written = serde_json::to_vec(catalog)
            .map_err(io::Error::other)
            .and_then(|text| {
                private_files::create_directory(&self.folder)?;
                private_files::replace(&self.file(fingerprint), &text)
            });
        if let Err(error) = written {
            tracing::warn!(
                %error,
                "could not cache the tools of an MCP server; the next start contacts the server \
                    again"
            );
        }
        self.clear_unreachable(fingerprint);
    }

    /// Makes the next start wait for the server again, after its situation has changed.
    pub(crate) fn clear_unreachable(&self, fingerprint: &str) {
        let _ = fs::remove_file(self.unreachable_marker(fingerprint));
    }

    /// Records that a server was contacted without an answer.
    pub(crate) fn record_unreachable(&self, fingerprint: &str) {
        let written = private_files::create_directory(&self.folder)
            .and_then(|()| private_files::write(&self.unreachable_marker(fingerprint), b""));
        if let Err(error) = written {
            tracing::debug!(
                %error,
                "could not record that an MCP server did not answer; the next start waits for \
                    it again"
            );
        }
    }
}

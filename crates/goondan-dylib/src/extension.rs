//! Extensions whose entry is a library. Their messages use the table of the library.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use goondan_core::JsonObject;
use goondan_core::extension_protocol::{ExtensionRunner, MessageExtensionCode};
use goondan_core::ports::extension::ExtensionContext;
use goondan_core::ports::tool::HandlerError;

use crate::opened_library::OpenedLibrary;

pub(crate) struct LibraryExtension {
    pub(crate) library: Arc<OpenedLibrary>,
    /// Hash of the library's file.
    pub(crate) content: String,
    pub(crate) name: String,
    pub(crate) project: PathBuf,
    pub(crate) config: JsonObject,
    /// Maximum time of uninterrupted work.
    pub(crate) limit: Duration,
    pub(crate) file: PathBuf,
}

#[async_trait]
impl MessageExtensionCode for LibraryExtension {
    fn name(&self) -> &str {
        &self.name
    }

    fn code_location(&self) -> String {
        self.content.clone()
    }

    fn project(&self) -> &Path {
        &self.project
    }

    fn config(&self) -> &JsonObject {
        &self.config
    }

    fn limit(&self) -> Duration {
        self.limit
    }

    fn files(&self) -> Vec<PathBuf> {
        vec![self.file.clone()]
    }

    async fn connect(&self, _context: &ExtensionContext) -> Result<ExtensionRunner, HandlerError> {
        let transport = self.library.connect().await?;
        let sessions = Arc::clone(&transport.sessions);
        Ok(ExtensionRunner {
            transport,
            sessions,
        })
    }
}

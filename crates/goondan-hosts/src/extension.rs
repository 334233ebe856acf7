//! Extensions whose entry is a module. Their messages use the pipes of a runtime process.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use goondan_core::JsonObject;
use goondan_core::extension_protocol::{ExtensionRunner, MessageExtensionCode};
use goondan_core::ports::extension::ExtensionContext;
use goondan_core::ports::tool::HandlerError;

use crate::host::ScriptHost;
use crate::transport::ModuleTransport;

pub(crate) struct ModuleExtension {
    pub(crate) host: Arc<ScriptHost>,
    pub(crate) name: String,
    pub(crate) module: PathBuf,
    /// The config without the process settings `env`, `sandbox` and `limits`.
    pub(crate) config: JsonObject,
    /// Maximum time of uninterrupted work.
    pub(crate) limit: Duration,
    pub(crate) files: Arc<[PathBuf]>,
}

#[async_trait]
impl MessageExtensionCode for ModuleExtension {
    fn name(&self) -> &str {
        &self.name
    }

    fn code_location(&self) -> String {
        self.module.to_string_lossy().into_owned()
    }

    fn project(&self) -> &Path {
        &self.host.definition().project
    }

    fn config(&self) -> &JsonObject {
        &self.config
    }

    fn limit(&self) -> Duration {
        self.limit
    }

    fn files(&self) -> Vec<PathBuf> {
        self.files.to_vec()
    }

    async fn connect(&self, context: &ExtensionContext) -> Result<ExtensionRunner, HandlerError> {
        let process = self
            .host
            .connect(&context.sandboxes, &context.workdir, &Arc::default())
            .await?;
        let sessions = Arc::clone(process.sessions());
        let transport = ModuleTransport::new(process, &self.host, self.code_location());
        Ok(ExtensionRunner {
            transport: Arc::new(transport),
            sessions,
        })
    }
}

//! Connectors whose entry is a module. The function runs as long as its connection, in its own
//! process.

use std::path::Path;
use std::sync::Arc;

use goondan_core::JsonObject;
use goondan_core::connector_host::{ConnectorHost, ConnectorStart, run_connector};
use goondan_core::package_copies::code_path;
use goondan_core::ports::tool::HandlerError;
use goondan_spec::kinds::ScriptModule;
use goondan_spec::{Code, ResourceId};

use crate::host::ScriptHost;
use crate::source::{ScriptModules, absolute, define};
use crate::transport::ModuleTransport;

impl ScriptModules {
    /// Runs a connector until its function returns. Dropping the future ends its process.
    ///
    /// # Errors
    ///
    /// Fails if the process cannot start or has ended, or if the function has thrown an error.
    pub async fn run_connector(
        &self,
        id: &ResourceId,
        module: &ScriptModule,
        bundle_root: &Path,
        values: ConnectorStart,
        runtime: Arc<dyn ConnectorHost>,
    ) -> Result<(), HandlerError> {
        let (definition, _) =
            define(module, JsonObject::new(), bundle_root).map_err(|(problem, remedy)| {
                HandlerError::new(format!("{id}: {problem}")).suggest(remedy)
            })?;
        let name = format!("Connection/{}", values.connection);
        let project = definition.project.clone();
        let host = ScriptHost::new(
            name,
            definition,
            self.folder().to_owned(),
            Arc::clone(self.programs()),
        );
        let process = host.connect(&[], &project, &Arc::default()).await?;
        let path = code_path(&absolute(&bundle_root.join(&module.path)));
        let path = path.to_string_lossy().into_owned();
        let transport = ModuleTransport::new(process, &host, path).single_call();
        let ended = run_connector(Arc::new(transport), &project, values, runtime.as_ref()).await;
        host.end().await;
        ended.map_err(|error| match error.code {
            Some(_) => error,
            None => error.code(Code::CONNECTOR_FAILED),
        })
    }
}

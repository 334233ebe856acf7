//! Connectors whose entry is a module. The function runs as long as its connection, in its own
//! process.

use std::path::Path;
use std::sync::Arc;

use goondan_core::JsonObject;
use goondan_core::connector_host::{ConnectorHost, ConnectorValues, run_connector};
use goondan_core::ports::tool::ToolError;
use goondan_spec::ResourceId;
use goondan_spec::kinds::ScriptModule;

use crate::extension::ModuleLine;
use crate::host::ScriptHost;
use crate::source::{ScriptModules, absolute, define};
use crate::wire::{ConnectorRequest, ShimCommand};

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
        values: ConnectorValues,
        runtime: Arc<dyn ConnectorHost>,
    ) -> Result<(), ToolError> {
        let (definition, _) =
            define(module, JsonObject::new(), bundle_root).map_err(|(problem, remedy)| {
                ToolError::new(format!("{id}: {problem}")).suggest(remedy)
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
        let receivers = process.calls().begin()?;
        let (path, package) = (
            absolute(&bundle_root.join(&module.path)),
            host.definition().package.to_string_lossy(),
        );
        process.tell(&ShimCommand::Connect(ConnectorRequest {
            id: receivers.id,
            module: &path.to_string_lossy(),
            package: &package,
            project_dir: &project.to_string_lossy(),
            connection: &values.connection,
            connector: &values.connector,
            config: &values.config,
            secrets: &values.secrets,
        }));
        let mut line = ModuleLine::single_operation(process, receivers);
        let ended = run_connector(&mut line, runtime.as_ref()).await;
        drop(line);
        host.end().await;
        ended
    }
}

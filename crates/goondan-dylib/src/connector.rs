//! Connectors whose entry is a library. The function runs as long as its connection, in its own
//! host process.
//!
//! A connector waits for external events for weeks. Its errors must affect nothing else, and ending
//! it must not depend on its cooperation. So it never runs in this process.

use std::path::Path;
use std::sync::Arc;

use goondan_abi::wire::{code, feature};
use goondan_core::connector_host::{ConnectorHost, ConnectorStart, run_connector};
use goondan_core::ports::tool::HandlerError;
use goondan_spec::{Code, ResourceId};

use crate::failure::LibraryFailure;
use crate::hosted::HostProcess;
use crate::libraries::DynamicLibraries;

impl DynamicLibraries {
    /// Runs the connector of the library at `entry` until its function returns. Dropping the future
    /// ends its host process.
    ///
    /// # Errors
    ///
    /// Fails if the library cannot be loaded, if its function fails or panics, or if its host
    /// process ends. Every error has a code.
    pub async fn run_connector(
        &self,
        id: &ResourceId,
        entry: &str,
        bundle_root: &Path,
        values: ConnectorStart,
        runtime: Arc<dyn ConnectorHost>,
    ) -> Result<(), HandlerError> {
        let started = self.start_connector(entry, bundle_root).await;
        let (process, name) = started.map_err(|failure| start_error(id, failure))?;
        let connection = Arc::clone(&process.connection);
        let project = std::path::absolute(bundle_root).unwrap_or_else(|_| bundle_root.to_owned());
        run_connector(connection, &project, values, runtime.as_ref())
            .await
            .map_err(|why| connector_error(why, &name))
    }

    /// Starts a host process for the library at `entry`. Returns the process, and the library's
    /// name for messages. Fails if the library has no connector.
    async fn start_connector(
        &self,
        entry: &str,
        root: &Path,
    ) -> Result<(HostProcess, String), LibraryFailure> {
        let (path, name) = self.copy(entry, root).await?;
        let (process, manifest) = self.host_alone(&path, &name).await?;
        let has_connector = manifest
            .features
            .iter()
            .any(|name| name == feature::CONNECTOR);
        if has_connector {
            Ok((process, name))
        } else {
            Err(LibraryFailure::NoConnector { name })
        }
    }
}

/// Converts the reason for the end to an error with a connector's code.
fn connector_error(why: HandlerError, name: &str) -> HandlerError {
    match why.code.as_deref() {
        Some(code::UNAVAILABLE) => HandlerError {
            suggestion: None,
            ..why.code(Code::HOST_DIED)
        },
        None | Some(code::PANIC | code::FAILED) => {
            let message = format!("the connector of {name} failed: {}", why.message);
            HandlerError { message, ..why }.code(Code::CONNECTOR_FAILED)
        }
        Some(_) => why,
    }
}

/// Converts the failure to start a connector to an error with a code.
fn start_error(id: &ResourceId, failure: LibraryFailure) -> HandlerError {
    let code = if failure.is_host_failure() {
        Code::HOST_START
    } else {
        Code::HOST_MODULE
    };
    let suggestion = failure.suggestion();
    HandlerError {
        suggestion,
        ..HandlerError::new(format!("{id}: {failure}")).code(code)
    }
}

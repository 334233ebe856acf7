//! Connections of a running swarm, and the runs of their files.

use std::collections::BTreeMap;
use std::sync::Arc;

use goondan_core::connector_host::{ConnectorHost, ConnectorStart};
use goondan_core::ports::tool::HandlerError;
use goondan_spec::Secret;

use super::bound_connection::{BoundConnection, UnusableConnection};
use super::connector_file::ConnectorFile;
use crate::start::swarm::Swarm;

impl Swarm {
    /// Runs the file of `bound` until it ends; `host` handles its requests.
    ///
    /// # Errors
    /// Fails if the connector cannot start or fails, or if its process exits.
    pub async fn run_connector(
        &self,
        bound: &BoundConnection,
        host: Arc<dyn ConnectorHost>,
    ) -> Result<(), HandlerError> {
        let Some(ConnectorFile {
            id, entry, root, ..
        }) = &bound.file
        else {
            return Ok(());
        };
        let exposed = |values: &BTreeMap<String, Secret>| {
            values
                .iter()
                .map(|(name, value)| (name.clone(), value.expose().to_owned()))
                .collect()
        };
        let values = ConnectorStart {
            connection: bound.name.clone(),
            connector: bound.connector.clone(),
            config: exposed(&bound.config),
            secrets: exposed(&bound.secrets),
            ..ConnectorStart::default()
        };
        self.inner()
            .tools
            .run_connector((id, entry), root, values, host)
            .await
    }

    /// Returns the connections of the current generation.
    pub async fn connections(&self) -> Vec<Result<BoundConnection, UnusableConnection>> {
        let environment = self.inner().reloading.lock().await.environment().clone();
        let bundle = self.bundle();
        let Ok(swarm) = bundle.choose_swarm(Some(&self.name())) else {
            return Vec::new();
        };
        bundle
            .connections_of(&swarm.id)
            .filter_map(|connection| {
                BoundConnection::with_values(&bundle, connection, &environment)
            })
            .collect()
    }
}

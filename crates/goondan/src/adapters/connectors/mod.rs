//! Built-in connectors, and the connections of a running swarm.

mod bound_connection;
mod connector_file;
mod manifests;
mod receivers;
mod setting_checks;
mod swarm_connections;

pub use goondan_core::connector_host::ConnectorHost;
/// Marker at the end of GitHub comments that agents wrote.
pub use goondan_tools::GITHUB_MARK;

pub(crate) use self::bound_connection::unusable;
pub use self::bound_connection::{BoundConnection, UnusableConnection};
pub use self::connector_file::ConnectorFile;
pub(crate) use self::manifests::manifests;
pub(crate) use self::receivers::receivers;
pub use self::setting_checks::webhook_key;

//! A library as its handlers hold it: here in the process, or in a host of its own.

use std::sync::Arc;

use goondan_abi::wire;

use crate::connection::Connection;
use crate::hosted::HostedLibrary;
use crate::link::Outcome;

/// An opened library. It is retired when the last handler lets go of it.
pub(crate) struct OpenedLibrary {
    pub(crate) manifest: wire::Manifest,
    pub(crate) place: Place,
}

/// Where a library runs.
pub(crate) enum Place {
    /// In this process, on a lane.
    Here(Arc<Connection>),
    /// In a host process, which is restarted when it dies.
    Hosted(Box<HostedLibrary>),
}

impl OpenedLibrary {
    /// Something that takes calls.
    pub(crate) async fn connect(&self) -> Outcome<Arc<Connection>> {
        match &self.place {
            Place::Here(connection) => Ok(Arc::clone(connection)),
            Place::Hosted(hosted) => hosted.connect().await,
        }
    }

    /// Whether another generation may use it too.
    pub(crate) fn is_fit(&self) -> bool {
        match &self.place {
            Place::Here(connection) => connection.calls().is_healthy(),
            // A host that is not fit is replaced at the next call.
            Place::Hosted(_) => true,
        }
    }
}

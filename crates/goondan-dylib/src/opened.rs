//! A library as its handlers use it: in this process, or in a host process.

use std::sync::Arc;

use goondan_abi::wire::{self, feature};
use goondan_core::ids::InstanceId;
use goondan_core::layering::Sessions;

use crate::connection::Connection;
use crate::extension;
use crate::hosted::HostedLibrary;
use crate::lane::Said;
use crate::link::Outcome;

/// An opened library. It is retired when its last handler is dropped.
pub(crate) struct OpenedLibrary {
    pub(crate) manifest: wire::Manifest,
    pub(crate) place: Place,
    /// True if the library accepts messages in addition to tool calls.
    takes_messages: bool,
    pub(crate) sessions: Sessions,
}

pub(crate) enum Place {
    /// This process, on the library's own thread.
    Here(Arc<Connection>),
    /// A host process, which is restarted after a crash.
    Hosted(Box<HostedLibrary>),
}

impl OpenedLibrary {
    pub(crate) fn new(said: Said, place: Place) -> Self {
        let Said { manifest, extends } = said;
        OpenedLibrary {
            manifest,
            place,
            takes_messages: extends,
            sessions: Sessions::default(),
        }
    }

    /// Returns true if extensions may register in the library.
    pub(crate) fn extends(&self) -> bool {
        let features = &self.manifest.features;
        // Before connectors existed, libraries with messages were extensions and named no feature.
        let is_silent = !features
            .iter()
            .any(|known| known == feature::EXTENSION || known == feature::CONNECTOR);
        self.takes_messages
            && (is_silent || features.iter().any(|known| known == feature::EXTENSION))
    }

    pub(crate) fn forget(&self, instance: &InstanceId) {
        if let Place::Here(connection) = &self.place {
            self.sessions
                .forget(instance)
                .into_iter()
                .for_each(|session| extension::forget(connection, session));
        }
    }

    pub(crate) async fn connect(&self) -> Outcome<Arc<Connection>> {
        match &self.place {
            Place::Here(connection) => Ok(Arc::clone(connection)),
            Place::Hosted(hosted) => hosted.connect().await,
        }
    }

    /// Returns true if another generation may also use the library.
    pub(crate) fn is_fit(&self) -> bool {
        match &self.place {
            Place::Here(connection) => connection.calls().is_healthy(),
            // An unusable host process is replaced at the next call.
            Place::Hosted(_) => true,
        }
    }
}

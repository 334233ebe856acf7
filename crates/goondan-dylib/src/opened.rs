//! A library as its handlers hold it: here in the process, or in a host of its own.

use std::sync::Arc;

use goondan_abi::wire::{self, feature};
use goondan_core::ids::InstanceId;
use goondan_core::layering::Sessions;

use crate::connection::Connection;
use crate::extension;
use crate::hosted::HostedLibrary;
use crate::lane::Said;
use crate::link::Outcome;

/// An opened library. It is retired when the last handler lets go of it.
pub(crate) struct OpenedLibrary {
    pub(crate) manifest: wire::Manifest,
    pub(crate) place: Place,
    /// It takes messages besides calls of its tools.
    takes_messages: bool,
    pub(crate) sessions: Sessions,
}

/// Where a library runs.
pub(crate) enum Place {
    /// In this process, on a lane.
    Here(Arc<Connection>),
    /// In a host process, which is restarted when it dies.
    Hosted(Box<HostedLibrary>),
}

impl OpenedLibrary {
    /// A library that was just opened.
    pub(crate) fn new(said: Said, place: Place) -> Self {
        let Said { manifest, extends } = said;
        OpenedLibrary {
            manifest,
            place,
            takes_messages: extends,
            sessions: Sessions::default(),
        }
    }

    /// Whether it has extensions, which may register in it.
    pub(crate) fn extends(&self) -> bool {
        let features = &self.manifest.features;
        // Before there were connectors, whatever took messages was an extension, and named no feature.
        let is_silent = !features
            .iter()
            .any(|known| known == feature::EXTENSION || known == feature::CONNECTOR);
        self.takes_messages
            && (is_silent || features.iter().any(|known| known == feature::EXTENSION))
    }

    /// What has registered for `instance` is no longer wanted.
    pub(crate) fn forget(&self, instance: &InstanceId) {
        if let Place::Here(connection) = &self.place {
            self.sessions
                .forget(instance)
                .into_iter()
                .for_each(|session| extension::forget(connection, session));
        }
    }

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

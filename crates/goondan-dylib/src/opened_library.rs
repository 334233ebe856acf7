//! A library as its handlers use it: in this process, or in a host process.

use std::sync::Arc;

use goondan_abi::wire::{self, feature};
use goondan_core::ids::InstanceId;
use goondan_core::plugin_session::{ExtensionMessage, PluginTransport};
use goondan_core::ports::tool::HandlerError;

use crate::connection::LibraryConnection;
use crate::hosted::HostedLibrary;
use crate::library_thread::LibraryDescription;

/// An opened library. It is retired when its last handler is dropped.
pub(crate) struct OpenedLibrary {
    pub(crate) manifest: wire::Manifest,
    pub(crate) location: LibraryLocation,
    /// True if the library accepts messages in addition to tool calls.
    takes_messages: bool,
}

pub(crate) enum LibraryLocation {
    /// This process, on the library's own thread.
    Here(Arc<LibraryConnection>),
    /// A host process, which is restarted after a crash.
    Hosted(Box<HostedLibrary>),
}

impl OpenedLibrary {
    pub(crate) fn new(description: LibraryDescription, location: LibraryLocation) -> Self {
        let LibraryDescription { manifest, extends } = description;
        OpenedLibrary {
            manifest,
            location,
            takes_messages: extends,
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
        if let LibraryLocation::Here(connection) = &self.location {
            for session in connection.sessions.forget(instance) {
                connection.notify(ExtensionMessage::Forget { session });
            }
        }
    }

    pub(crate) async fn connect(&self) -> Result<Arc<LibraryConnection>, HandlerError> {
        match &self.location {
            LibraryLocation::Here(connection) => Ok(Arc::clone(connection)),
            LibraryLocation::Hosted(hosted) => hosted.connect().await,
        }
    }

    /// Returns true if another generation may also use the library.
    pub(crate) fn is_fit(&self) -> bool {
        match &self.location {
            LibraryLocation::Here(connection) => connection.calls().is_healthy(),
            // An unusable host process is replaced at the next call.
            LibraryLocation::Hosted(_) => true,
        }
    }
}

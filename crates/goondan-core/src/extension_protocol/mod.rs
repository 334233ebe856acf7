//! Runs extensions that communicate in messages: in a runtime process, or in a library.
//!
//! The code registers for each instance and lists its layers and tools
//! (`wire::RegistrationRequest`). Each run of a layer receives the changes since the last run
//! ([`ConversationChanges`]). The layer calls the operation that it wraps, and returns its own
//! changes at the end. An adapter locates the code ([`MessageExtensionCode`]), and `plugin_session`
//! transports the messages. The rest is the same for all adapters ([`extension`]).
//!
//! [`LayerHost`](crate::ports::extension::LayerHost) abstracts the engine.

mod extension;
mod layer_execution;
mod sessions;
mod sync_state;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use goondan_abi::wire::ConversationUpdate;

pub use self::extension::extension;
pub use self::sessions::{ExtensionSession, SessionRegistry};
use crate::JsonObject;
use crate::message::{Message, MessageEvent};
use crate::plugin_session::PluginTransport;
use crate::ports::extension::ExtensionContext;
use crate::ports::tool::HandlerError;

/// Changes since the last message to the extension.
pub type ConversationChanges = ConversationUpdate<Arc<Message>, Arc<MessageEvent>>;

/// Code of an extension, with its configuration.
#[async_trait]
pub trait MessageExtensionCode: Send + Sync + 'static {
    /// Returns the name of the Extension.
    fn name(&self) -> &str;

    /// Returns the location of the code. Part of the key of a registration, with name,
    /// configuration and instance.
    fn code_location(&self) -> String;

    /// Returns the project directory.
    fn project(&self) -> &Path;

    /// Returns the configuration.
    fn config(&self) -> &JsonObject;

    /// Returns the maximum time of continuous work, without the time in which it waits for an
    /// answer.
    fn limit(&self) -> Duration;

    /// Returns the files of the code.
    fn files(&self) -> Vec<PathBuf>;

    /// Returns a runner for the code, and starts one if necessary.
    ///
    /// # Errors
    /// No runner is available or can be started.
    async fn connect(
        &self,
        extension_context: &ExtensionContext,
    ) -> Result<ExtensionRunner, HandlerError>;
}

/// Runtime of extension code, such as a process or a library.
#[derive(Clone)]
pub struct ExtensionRunner {
    /// Sends messages to the code.
    pub transport: Arc<dyn PluginTransport>,
    /// Extensions that are registered in it.
    pub sessions: Arc<SessionRegistry>,
}

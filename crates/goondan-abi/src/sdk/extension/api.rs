//! The argument of `register`.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::bus::Events;
use super::layer::LayerContext;
use super::session::{ConversationBuses, LayerFn, RegisteredSession};
use super::{MessageResources, base_call_request};
use crate::sdk::context::{CallLogger, ToolContext};
use crate::sdk::export::Tool;
use crate::wire::{
    KeptState, LayerEntry, LayerKind, OfferedTool, RegistrationRequest, RegistrationResult,
    ToolError,
};

/// Registers an extension for one conversation.
pub struct ExtensionApi {
    registration: RegistrationRequest,
    context: ToolContext,
    project_dir: PathBuf,
    state: StateHandle,
    events: Events,
    layers: Vec<(LayerEntry, LayerFn)>,
    tools: Vec<Tool>,
}

impl ExtensionApi {
    pub(super) fn new(
        registration: RegistrationRequest,
        buses: &ConversationBuses,
        means: MessageResources,
    ) -> Self {
        let context = means.context(base_call_request(&registration, None));
        ExtensionApi {
            context,
            project_dir: PathBuf::from(&registration.project_dir),
            state: StateHandle::new(registration.state.clone()),
            events: buses.events(&registration.agent_name, &registration.instance_key),
            registration,
            layers: Vec::new(),
            tools: Vec::new(),
        }
    }

    /// Returns the name of the Extension resource.
    pub fn extension_name(&self) -> &str {
        &self.registration.extension
    }

    /// Returns the name of the agent.
    pub fn agent_name(&self) -> &str {
        &self.registration.agent_name
    }

    /// Returns the key of the conversation.
    pub fn instance_key(&self) -> &str {
        &self.registration.instance_key
    }

    /// Returns the working directory of the agent's tools.
    pub fn workdir(&self) -> &Path {
        self.context.workdir()
    }

    /// Returns the directory of the project.
    pub fn project_dir(&self) -> &Path {
        &self.project_dir
    }

    /// Parses the extension's config as a `T`.
    ///
    /// # Errors
    ///
    /// Fails with the field's name if a value does not match.
    pub fn config<T: DeserializeOwned>(&self) -> Result<T, ToolError> {
        serde_json::from_value(Value::Object(self.registration.config.clone())).map_err(|mistake| {
            ToolError::new(format!("the config of the extension is invalid: {mistake}"))
        })
    }

    /// Returns the state that the extension keeps for the conversation. Clones can be moved into
    /// layers and tools.
    pub fn state(&self) -> StateHandle {
        self.state.clone()
    }

    /// Returns the events: runtime events of this conversation, such as `turn.completed`, and
    /// events between this library's extensions in the conversation. Clones can be moved into
    /// layers and tools.
    pub fn events(&self) -> Events {
        self.events.clone()
    }

    /// Returns the logger of the extension.
    pub fn logger(&self) -> CallLogger<'_> {
        self.context.logger()
    }

    /// Registers a layer with the priority 0.
    pub fn layer<F>(&mut self, kind: LayerKind, run: F)
    where
        F: Fn(&mut LayerContext<'_>) -> Result<Value, ToolError> + Send + Sync + 'static,
    {
        self.layer_at(kind, 0.0, run);
    }

    /// Registers a layer. A lower priority places it further outside.
    pub fn layer_at<F>(&mut self, kind: LayerKind, priority: f64, run: F)
    where
        F: Fn(&mut LayerContext<'_>) -> Result<Value, ToolError> + Send + Sync + 'static,
    {
        self.layers
            .push((LayerEntry { kind, priority }, Box::new(run)));
    }

    /// Offers a tool, which [`tool`](crate::sdk::tool) creates from a name such as `notes__add` and
    /// a function. Replaces a tool with the same name.
    pub fn tool(&mut self, tool: Tool) {
        self.tools
            .retain(|known| known.export.name != tool.export.name);
        self.tools.push(tool);
    }

    /// Ends the registration. Returns the session, and its description for the host.
    pub(super) fn into_session(self) -> (RegisteredSession, RegistrationResult) {
        let offered = self.tools.iter().map(|tool| OfferedTool {
            name: tool.export.name.clone(),
            description: tool.export.description.clone(),
            parameters: tool.export.parameters.clone(),
        });
        let registered = RegistrationResult {
            layers: self.layers.iter().map(|(entry, _)| *entry).collect(),
            tools: offered.collect(),
            keeps: true,
        };
        let layers = self.layers.into_iter().map(|(_, run)| run).collect();
        (
            RegisteredSession::new(
                self.registration,
                self.state,
                self.events,
                layers,
                self.tools,
            ),
            registered,
        )
    }
}

/// The state that an extension keeps for a conversation: any JSON, null at first. It survives
/// restarts.
#[derive(Clone)]
pub struct StateHandle(Arc<Mutex<ExtensionStateValue>>);

struct ExtensionStateValue {
    value: Value,
    /// True if the value was set since it was last sent to the host.
    is_news: bool,
}

impl StateHandle {
    fn new(value: Value) -> Self {
        StateHandle(Arc::new(Mutex::new(ExtensionStateValue {
            value,
            is_news: false,
        })))
    }

    /// Returns the current value.
    pub fn get(&self) -> Value {
        self.lock().value.clone()
    }

    /// Replaces the value.
    pub fn set(&self, value: impl Into<Value>) {
        *self.lock() = ExtensionStateValue {
            value: value.into(),
            is_news: true,
        };
    }

    /// Restores a value that the host has reset.
    pub(super) fn restore(&self, saved: KeptState) {
        *self.lock() = ExtensionStateValue {
            value: saved.value,
            is_news: false,
        };
    }

    /// Returns the value if it changed since the last call of this function, else `None`.
    pub(super) fn news(&self) -> Option<KeptState> {
        let mut state = self.lock();
        std::mem::take(&mut state.is_news).then(|| KeptState {
            value: state.value.clone(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, ExtensionStateValue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

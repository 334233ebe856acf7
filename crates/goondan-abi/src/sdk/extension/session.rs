//! A registration for a conversation.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use serde_json::Value;

use super::api::StateHandle;
use super::bus::{ConversationBus, Events};
use super::conversation::Conversation;
use super::layer::LayerContext;
use super::{MessageResources, failed};
use crate::sdk::export::Tool;
use crate::sdk::handler::ErasedTool;
use crate::wire::{
    CallRequest, ConversationUpdate, LayerRun, MessageResult, RegistrationRequest, ToolError,
};

pub(super) type LayerFn =
    Box<dyn Fn(&mut LayerContext<'_>) -> Result<Value, ToolError> + Send + Sync>;

/// The buses of the conversations, by agent and key. A bus exists as long as it is referenced.
#[derive(Default)]
pub(super) struct ConversationBuses(Mutex<HashMap<(String, String), Weak<ConversationBus>>>);

impl ConversationBuses {
    /// Returns the event bus of a conversation, which the first call creates.
    pub(super) fn events(&self, agent: &str, key: &str) -> Events {
        let mut buses = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        buses.retain(|_, bus| bus.strong_count() > 0);
        let known = buses.entry((agent.to_owned(), key.to_owned())).or_default();
        let bus = known.upgrade().unwrap_or_default();
        *known = Arc::downgrade(&bus);
        Events::new(bus)
    }
}

/// An extension that has registered for a conversation.
pub(super) struct RegisteredSession {
    pub(super) registration: RegistrationRequest,
    pub(super) state: StateHandle,
    events: Events,
    layers: Vec<LayerFn>,
    tools: HashMap<String, Box<dyn ErasedTool>>,
    conversation: Mutex<Conversation>,
}

impl Drop for RegisteredSession {
    fn drop(&mut self) {
        self.events.end();
    }
}

impl RegisteredSession {
    pub(super) fn new(
        registration: RegistrationRequest,
        state: StateHandle,
        events: Events,
        layers: Vec<LayerFn>,
        tools: Vec<Tool>,
    ) -> Self {
        let tools = tools
            .into_iter()
            .map(|tool| (tool.export.name, tool.run))
            .collect();
        RegisteredSession {
            registration,
            state,
            events,
            layers,
            tools,
            conversation: Mutex::default(),
        }
    }

    /// Runs a middleware layer for one request of the host. Fails if the layer is unknown or fails.
    pub(super) fn layer(&self, mut run: LayerRun, means: MessageResources) -> MessageResult {
        let Some(layer) = self.layers.get(run.layer) else {
            return failed(ToolError::new(format!("unknown layer {}", run.layer)));
        };
        if let Err(error) = self.apply_news(std::mem::take(&mut run.news)) {
            return failed(error);
        }
        let mut context = LayerContext::new(self, run, means);
        let returned = layer(&mut context);
        context.end(returned)
    }

    /// Runs a tool of the extension, and returns how the call ended.
    pub(super) fn call(&self, mut request: CallRequest, means: MessageResources) -> MessageResult {
        let Some(tool) = self.tools.get(&request.export) else {
            return failed(ToolError::new(format!(
                "the extension has no tool `{}`",
                request.export
            )));
        };
        let arguments = std::mem::take(&mut request.arguments);
        let outcome = tool.run(means.context(request), arguments);
        let ended = match outcome {
            Ok(output) => MessageResult {
                result: output.output,
                ..MessageResult::default()
            },
            Err(error) => failed(error),
        };
        MessageResult {
            state: self.state.news(),
            listens: self.events.news(),
            ..ended
        }
    }

    /// Calls the listeners of an event.
    pub(super) fn happened(&self, event: &Value) {
        self.events.dispatch_event(event);
    }

    pub(super) fn listens(&self) -> Option<Vec<String>> {
        self.events.news()
    }

    /// Applies changes that the host sent to the state and the conversation.
    pub(super) fn apply_news(&self, mut news: ConversationUpdate) -> Result<(), ToolError> {
        if let Some(state) = news.state.take() {
            self.state.restore(state);
        }
        self.conversation().apply_news(news)
    }

    pub(super) fn conversation(&self) -> MutexGuard<'_, Conversation> {
        self.conversation
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

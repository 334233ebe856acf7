//! Extensions: the function `register`, its messages and its layers. docs/extensions.md describes
//! layers.
//!
//! Each message of the host runs on its own thread, so layers may block.

mod api;
mod bus;
mod conversation;
mod event_queue;
mod layer;
mod session;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use self::api::{ExtensionApi, StateHandle};
pub use self::bus::Events;
pub use self::conversation::Conversation;
use self::event_queue::ExtensionEventQueue;
pub use self::layer::LayerContext;
use self::session::{ConversationBuses, RegisteredSession};
use super::cancellation::CancellationSignal;
use super::context::ToolContext;
use super::host::HostLink;
use super::operations::PendingOperations;
use super::threads::CallThreads;
use serde_json::Value;

use crate::wire::{
    CallContext, CallRequest, ExtensionMessage, LayerRun, MessageResult, RegistrationRequest,
    ToolError,
};

/// Registers the layers and tools of an extension, once per conversation.
pub type RegisterFn = fn(&mut ExtensionApi) -> Result<(), ToolError>;

/// The registrations of an extension, by number.
pub(super) struct ExtensionSessions {
    register: RegisterFn,
    sessions: Mutex<HashMap<u64, Arc<RegisteredSession>>>,
    buses: ConversationBuses,
    event_queue: Arc<ExtensionEventQueue>,
}

/// The call of a message, and the links to the host.
pub(super) struct MessageResources {
    pub(super) call: u64,
    pub(super) cancellation: Arc<CancellationSignal>,
    pub(super) host: HostLink,
    pub(super) operations: Arc<PendingOperations>,
}

impl MessageResources {
    /// Creates a context for code that runs on behalf of `request`.
    pub(super) fn context(self, mut request: CallRequest) -> ToolContext {
        ToolContext::of_call(
            self.call,
            &mut request,
            self.cancellation,
            (self.host, self.operations),
        )
    }
}

impl ExtensionSessions {
    pub(super) fn new(register: RegisterFn) -> Self {
        ExtensionSessions {
            register,
            sessions: Mutex::default(),
            buses: ConversationBuses::default(),
            event_queue: Arc::default(),
        }
    }

    /// Removes a registration.
    pub(super) fn forget(&self, session: u64) {
        // Dropped without the lock, because the session may own values with foreign code.
        let removed = self.lock().remove(&session);
        drop(removed);
    }

    /// Queues an event for a registration.
    pub(super) fn happened(&self, session: u64, event: Value, threads: &Arc<CallThreads>) {
        // A removed registration receives no events.
        if let Ok(session) = self.session(session) {
            self.event_queue.put(session, event, threads);
        }
    }

    /// Processes a message of the host. Returns its result.
    pub(super) fn run(&self, message: ExtensionMessage, means: MessageResources) -> MessageResult {
        match message {
            ExtensionMessage::Register(message) => self.register(message, means),
            ExtensionMessage::Layer(run) => match self.session(run.session) {
                Ok(session) => session.layer(run, means),
                Err(error) => failed(error),
            },
            ExtensionMessage::Call(call) => match self.session(call.session) {
                Ok(session) => session.call(call.request, means),
                Err(error) => failed(error),
            },
            ExtensionMessage::Forget { session } => {
                self.forget(session);
                MessageResult::default()
            }
            // These messages have no result, or belong to a connector.
            ExtensionMessage::Event { .. } | ExtensionMessage::Connect(_) => {
                MessageResult::default()
            }
        }
    }

    /// Runs the `register` function for a conversation.
    fn register(&self, message: RegistrationRequest, means: MessageResources) -> MessageResult {
        let number = message.session;
        let mut api = ExtensionApi::new(message, &self.buses, means);
        if let Err(error) = (self.register)(&mut api) {
            return failed(error);
        }
        let (session, registered) = api.into_session();
        let (state, listens) = (session.state.news(), session.listens());
        self.lock().insert(number, Arc::new(session));
        match serde_json::to_value(registered) {
            Ok(result) => MessageResult {
                result,
                state,
                listens,
                ..MessageResult::default()
            },
            Err(error) => failed(error.into()),
        }
    }

    /// Returns a registration. Fails if it does not exist.
    fn session(&self, number: u64) -> Result<Arc<RegisteredSession>, ToolError> {
        let unknown = || ToolError::new(format!("unknown registration {number}"));
        self.lock().get(&number).cloned().ok_or_else(unknown)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Arc<RegisteredSession>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the end of a host message whose processing failed with `error`.
fn failed(error: ToolError) -> MessageResult {
    MessageResult {
        error: Some(error),
        ..MessageResult::default()
    }
}

/// Creates the call request from which an extension's context is made: for its registration if `run`
/// is `None`, else for one run of a layer.
fn base_call_request(register: &RegistrationRequest, run: Option<&LayerRun>) -> CallRequest {
    let text = |name: &str| {
        let field = run.and_then(|run| run.context.get(name));
        field
            .and_then(|field| field.as_str())
            .unwrap_or_default()
            .to_owned()
    };
    CallRequest {
        tool: register.extension.clone(),
        export: String::new(),
        arguments: Default::default(),
        config: register.config.clone(),
        context: CallContext {
            agent_name: register.agent_name.clone(),
            instance_key: register.instance_key.clone(),
            turn_id: text("turnId"),
            trace_id: text("traceId"),
            tool_call_id: text("toolCallId"),
            workdir: register.workdir.clone(),
            ..CallContext::default()
        },
    }
}

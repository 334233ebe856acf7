//! Messages to a module in a runtime process.

use std::sync::Arc;
use std::time::Duration;

use goondan_core::plugin_session::{
    CallRules, ExtensionMessage, LivenessPing, OpenCalls, PluginStart, PluginTransport,
};
use goondan_core::ports::tool::HandlerError;
use serde_json::Value;

use crate::host::ScriptHost;
use crate::process::RuntimeProcess;
use crate::wire::{OperationAnswer, ShimCommand, ShimStart};

/// Time that a cancelled call may continue before it is abandoned. Shorter than the engine's limit
/// of two seconds.
const CANCEL_GRACE: Duration = Duration::from_secs(1);

/// Returns the rules for the calls of the process `name`. A call that does not end retires its
/// process, so none is written off.
pub(crate) fn call_rules(name: &str) -> CallRules {
    CallRules {
        name: name.to_owned(),
        cancel_grace: CANCEL_GRACE,
        max_written_off: usize::MAX,
        progress_interval: Duration::ZERO,
        polls_answers: false,
        answers_after_end: false,
    }
}

/// A module in a runtime process.
pub(crate) struct ModuleTransport {
    process: Arc<RuntimeProcess>,
    module: String,
    package: String,
    /// True if the process ends with its only call.
    ends_with_call: bool,
}

impl ModuleTransport {
    pub(crate) fn new(process: Arc<RuntimeProcess>, host: &ScriptHost, module: String) -> Self {
        ModuleTransport {
            process,
            module,
            package: host.definition().package.to_string_lossy().into_owned(),
            ends_with_call: false,
        }
    }

    /// Sets that the process ends with its only call, and so needs no retirement.
    pub(crate) fn single_call(self) -> Self {
        ModuleTransport {
            ends_with_call: true,
            ..self
        }
    }
}

impl PluginTransport for ModuleTransport {
    fn calls(&self) -> &OpenCalls {
        self.process.calls()
    }

    fn start(&self, call: u64, start: PluginStart) -> Result<(), HandlerError> {
        self.process.send(&ShimStart {
            id: call,
            module: &self.module,
            package: &self.package,
            message: (&start).into(),
        });
        Ok(())
    }

    fn notify(&self, message: ExtensionMessage) {
        match message {
            ExtensionMessage::Event { .. } => self.process.send_event(&message),
            _ => self.process.send(&message),
        }
    }

    fn cancel(&self, call: u64) -> LivenessPing {
        self.process.cancel(call)
    }

    fn answer(&self, request: u64, outcome: Result<Value, HandlerError>) {
        self.process
            .send(&ShimCommand::Answer(OperationAnswer::new(request, outcome)));
    }

    fn abandoned(&self, ping: LivenessPing) {
        if !self.ends_with_call {
            self.process.retire(ping);
        }
    }
}

//! The connection to one library that accepts calls.

use std::sync::Arc;

use goondan_abi::raw::NO_CALL;
use goondan_abi::wire::{MessageResult, ToolOutput};
use goondan_core::extension_protocol::SessionRegistry;
use goondan_core::plugin_session::{
    CallKind, ExtensionMessage, FinalMessage, LivenessPing, OpenCalls, PluginStart,
    PluginTransport, closed_error,
};
use goondan_core::ports::tool::HandlerError;
use goondan_spec::Code;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::calls::LibraryCalls;
use crate::library_messages::LibraryCommand;

/// A library that accepts calls, in this process or in a host process. It is closed when the last
/// reference is dropped.
pub(crate) struct LibraryConnection {
    command_sender: mpsc::UnboundedSender<LibraryCommand>,
    calls: Arc<LibraryCalls>,
    pub(crate) sessions: Arc<SessionRegistry>,
}

impl LibraryConnection {
    pub(crate) fn new(
        command_sender: mpsc::UnboundedSender<LibraryCommand>,
        calls: Arc<LibraryCalls>,
    ) -> Self {
        LibraryConnection {
            command_sender,
            calls,
            sessions: Arc::default(),
        }
    }

    fn send(&self, command: LibraryCommand) -> Result<(), HandlerError> {
        self.command_sender
            .send(command)
            .map_err(|_| closed_error(&self.calls().rules().name))
    }
}

impl PluginTransport for LibraryConnection {
    fn calls(&self) -> &OpenCalls {
        self.calls.open()
    }

    fn start(&self, call: u64, start: PluginStart) -> Result<(), HandlerError> {
        let command = match start {
            PluginStart::Tool(request) => LibraryCommand::Start { call, request },
            PluginStart::Extension(message) => LibraryCommand::Extend {
                call,
                message: serde_json::to_value(message)
                    .map_err(|error| HandlerError::new(error.to_string()))?,
            },
        };
        self.send(command)
    }

    fn notify(&self, message: ExtensionMessage) {
        if let Ok(message) = serde_json::to_value(message) {
            let call = NO_CALL;
            // A closed library does not need the message.
            let _ = self.send(LibraryCommand::Extend { call, message });
        }
    }

    fn cancel(&self, call: u64) -> LivenessPing {
        let _ = self.send(LibraryCommand::Cancel { call });
        LivenessPing {
            number: 0,
            at: Instant::now(),
        }
    }

    fn answer(&self, operation: u64, outcome: Result<Value, HandlerError>) {
        let _ = self.send(LibraryCommand::Reply { operation, outcome });
    }

    fn read_end(&self, kind: CallKind, ended: FinalMessage) -> FinalMessage {
        if kind == CallKind::Plain {
            return ended;
        }
        let mut ended = read_extension_end(ended);
        if let Err(error) = &mut ended.outcome {
            if kind == CallKind::Registration {
                error.message = format!("`register` failed: {}", error.message);
                error.code = Some(Code::EXT_INIT.into());
            } else if kind == CallKind::Layer
                && error.code.as_deref() == Some(Code::TOOL_PANIC.as_str())
            {
                // A panic in a layer is an ordinary error of the layer.
                error.code = Some(Code::EXT_FAILED.into());
            }
        }
        ended
    }
}

/// Reads the answer to a message of an extension, which is the output of the call.
fn read_extension_end(ended: FinalMessage) -> FinalMessage {
    let answer = match ended.outcome {
        Ok(answer) => answer,
        Err(error) => return Err(error).into(),
    };
    let ended: MessageResult = match serde_json::from_value(answer.output) {
        Ok(ended) => ended,
        Err(cause) => {
            let message = format!("the library returned an invalid result: {cause}");
            return Err(HandlerError::new(message).code(Code::EXT_RESULT)).into();
        }
    };
    FinalMessage {
        outcome: match ended.error {
            Some(error) => Err(error.into()),
            None => Ok(ToolOutput {
                output: ended.result,
                title: answer.title,
                metadata: answer.metadata,
                attachments: answer.attachments,
            }),
        },
        changes: ended.changes,
        state: ended.state,
        listens: ended.listens,
    }
}

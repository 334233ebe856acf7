//! Adapts an operation of a library, such as an extension's layer or a connector, to the engine's
//! interface.

use async_trait::async_trait;
use goondan_abi::wire::{self, operation};
use goondan_core::extension_protocol::{CodeChannel, CodeMessage, FinalMessage, RunningMessage};
use goondan_core::ports::tool::ToolError;
use serde_json::Value;

use crate::connection::{LibraryCallHandle, LibraryCallUpdate, parts};
use crate::library_messages::{self, Outcome};

pub(crate) struct LibraryLine<F> {
    open: LibraryCallHandle,
    /// Converts the end of the operation.
    end: F,
}

impl<F: Fn(Outcome<wire::ToolOutput>) -> FinalMessage> LibraryLine<F> {
    pub(crate) fn new(open: LibraryCallHandle, end: F) -> Self {
        LibraryLine { open, end }
    }
}

#[async_trait]
impl<F: Fn(Outcome<wire::ToolOutput>) -> FinalMessage + Send> CodeChannel for LibraryLine<F> {
    async fn hear(&mut self) -> CodeMessage {
        match self.open.next().await {
            LibraryCallUpdate::Event(event) => {
                CodeMessage::Said(convert_event(&mut self.open, event))
            }
            LibraryCallUpdate::Answer(outcome) => CodeMessage::Ended(Box::new((self.end)(outcome))),
        }
    }

    fn rest(&mut self) -> Option<RunningMessage> {
        let event = self.open.next_queued_event()?;
        Some(convert_event(&mut self.open, event))
    }

    fn answer(&mut self, ask: u64, outcome: Result<Value, ToolError>) {
        self.open.reply(ask, outcome.map_err(wire_error));
    }

    fn cancel(&mut self) {
        self.open.cancel();
    }
}

/// Converts a message of the library.
fn convert_event(
    open: &mut LibraryCallHandle,
    event: library_messages::LibraryCallEvent,
) -> RunningMessage {
    match event {
        library_messages::LibraryCallEvent::Log(line) => {
            let (level, message, fields) = parts(line);
            RunningMessage::Log(level, message, fields)
        }
        library_messages::LibraryCallEvent::Progress(progress) => {
            RunningMessage::Progress(progress.title, progress.metadata)
        }
        library_messages::LibraryCallEvent::Request {
            operation,
            name,
            payload,
        } => {
            open.add_operation(operation);
            RunningMessage::Ask {
                ask: operation,
                name: asked_for(name),
                payload,
            }
        }
    }
}

/// Converts the name of a requested operation.
fn asked_for(name: String) -> String {
    match name.as_str() {
        operation::LAYER_NEXT => "next".to_owned(),
        operation::LAYER_REQUEST => "request".to_owned(),
        operation::LAYER_SEND => "send".to_owned(),
        operation::CONNECTOR_EMIT => "emit".to_owned(),
        operation::CONNECTOR_REPLY => "reply".to_owned(),
        operation::CONNECTOR_REPLIED => "replied".to_owned(),
        operation::CONNECTOR_LINE => "line".to_owned(),
        _ => name,
    }
}

/// Converts an error to the library's type.
fn wire_error(error: ToolError) -> wire::ToolError {
    let ToolError {
        name,
        message,
        code,
        suggestion,
        help_url,
    } = error;
    wire::ToolError {
        name,
        message,
        code,
        suggestion,
        help_url,
    }
}

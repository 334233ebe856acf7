//! Adapts an operation of a library, such as an extension's layer or a connector, to the engine's
//! interface.

use async_trait::async_trait;
use goondan_abi::wire::{self, operation};
use goondan_core::layering::{Ended, Event, Heard, Line};
use goondan_core::ports::tool::ToolError;
use serde_json::Value;

use crate::connection::{Happening, OpenCall, parts};
use crate::link::{self, Outcome};

pub(crate) struct LibraryLine<F> {
    open: OpenCall,
    /// Converts the end of the operation.
    end: F,
}

impl<F: Fn(Outcome<wire::ToolOutput>) -> Ended> LibraryLine<F> {
    pub(crate) fn new(open: OpenCall, end: F) -> Self {
        LibraryLine { open, end }
    }
}

#[async_trait]
impl<F: Fn(Outcome<wire::ToolOutput>) -> Ended + Send> Line for LibraryLine<F> {
    async fn hear(&mut self) -> Heard {
        match self.open.next().await {
            Happening::Event(event) => Heard::Said(said(&mut self.open, event)),
            Happening::Answer(outcome) => Heard::Ended(Box::new((self.end)(outcome))),
        }
    }

    fn rest(&mut self) -> Option<Event> {
        let event = self.open.rest()?;
        Some(said(&mut self.open, event))
    }

    fn answer(&mut self, ask: u64, outcome: Result<Value, ToolError>) {
        self.open.reply(ask, outcome.map_err(wire_error));
    }

    fn cancel(&mut self) {
        self.open.cancel();
    }
}

/// Converts a message of the library.
fn said(open: &mut OpenCall, event: link::Event) -> Event {
    match event {
        link::Event::Log(line) => {
            let (level, message, fields) = parts(line);
            Event::Log(level, message, fields)
        }
        link::Event::Progress(progress) => Event::Progress(progress.title, progress.metadata),
        link::Event::Request {
            operation,
            name,
            payload,
        } => {
            open.asked(operation);
            Event::Ask {
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

//! An Extension whose entry is a library: its messages travel through the table of the library.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use goondan_abi::wire::{self, operation};
use goondan_core::JsonObject;
use goondan_core::layering::{Begin, Code, Ended, Event, Heard, Kept, Line, OfferedCall, Runner, Sessions};
use goondan_core::ports::extension::{Changes, Seat};
use goondan_core::ports::tool::{ToolContext, ToolError};
use goondan_spec::Code as ErrorCode;
use serde_json::{Value, json};

use crate::connection::{Connection, Happening, OpenCall, parts};
use crate::handler::{Attended, cancelled, context, error, output};
use crate::link::{self, Outcome};
use crate::opened::OpenedLibrary;

/// The code of an extension: a library, with a config.
pub(crate) struct LibraryExtension {
    pub(crate) library: Arc<OpenedLibrary>,
    /// The hash of the library's file.
    pub(crate) content: String,
    /// The resource's name.
    pub(crate) name: String,
    pub(crate) project: PathBuf,
    pub(crate) config: JsonObject,
    /// How long it may work at a stretch.
    pub(crate) limit: Duration,
    pub(crate) cancel_grace: Duration,
    /// The library's file.
    pub(crate) file: PathBuf,
}

#[async_trait]
impl Code for LibraryExtension {
    fn name(&self) -> &str {
        &self.name
    }

    fn place(&self) -> String {
        self.content.clone()
    }

    fn project(&self) -> &Path {
        &self.project
    }

    fn config(&self) -> &JsonObject {
        &self.config
    }

    fn limit(&self) -> Duration {
        self.limit
    }

    fn files(&self) -> Vec<PathBuf> {
        vec![self.file.clone()]
    }

    async fn connect(&self, _seat: &Seat) -> Result<Arc<dyn Runner>, ToolError> {
        let connection = self.library.connect().await.map_err(error)?;
        Ok(Arc::new(LibraryRunner { library: Arc::clone(&self.library), connection, cancel_grace: self.cancel_grace }))
    }
}

/// A library that takes what its extensions are told.
struct LibraryRunner {
    library: Arc<OpenedLibrary>,
    connection: Arc<Connection>,
    cancel_grace: Duration,
}

#[async_trait]
impl Runner for LibraryRunner {
    fn sessions(&self) -> &Sessions {
        &self.library.sessions
    }

    fn begin(&self, what: &Begin<'_>) -> Result<Box<dyn Line>, ToolError> {
        let message = serde_json::to_value(what).map_err(|error| ToolError::new(error.to_string()))?;
        let open = self.connection.extend(message).map_err(error)?;
        Ok(Box::new(LibraryLine { open, is_registering: matches!(what, Begin::Register(_)) }))
    }

    async fn call(&self, call: OfferedCall<'_>, ctx: &ToolContext) -> Ended {
        let message = wire::ExtensionMessage::Call(Box::new(wire::OfferedCall {
            session: call.session,
            request: wire::CallRequest {
                tool: call.extension.to_owned(),
                export: call.name.to_owned(),
                arguments: call.input.clone(),
                config: call.config.clone(),
                context: context(ctx, call.timeout),
            },
        }));
        let begun = serde_json::to_value(message).map_err(wire::ToolError::from);
        let outcome = match begun.and_then(|message| self.connection.extend(message)) {
            Ok(open) => Attended::new(open, ctx).run(self.cancel_grace).await,
            Err(error) => Some(Err(error)),
        };
        match outcome {
            Some(outcome) => ended(outcome),
            None => Err(cancelled(call.name)).into(),
        }
    }

    fn forget(&self, session: u64) {
        forget(&self.connection, session);
    }

    fn happened(&self, session: u64, event: &Value) {
        self.connection.mention(json!({"kind": "event", "session": session, "event": event}));
    }
}

/// A registration in the library is no longer wanted.
pub(crate) fn forget(connection: &Connection, session: u64) {
    connection.mention(json!({"kind": "forget", "session": session}));
}

/// What was begun in a library.
struct LibraryLine {
    open: OpenCall,
    is_registering: bool,
}

#[async_trait]
impl Line for LibraryLine {
    async fn hear(&mut self) -> Heard {
        match self.open.next().await {
            Happening::Event(event) => Heard::Said(said(&mut self.open, event)),
            Happening::Answer(outcome) => {
                let mut ended = ended(outcome);
                if let Err(error) = &mut ended.outcome {
                    if self.is_registering {
                        error.message = format!("`register` failed: {}", error.message);
                        error.code = Some(ErrorCode::EXT_INIT.into());
                    } else if error.code.as_deref() == Some(wire::code::PANIC) {
                        // The end of a layer like any other error of its own.
                        error.code = Some(ErrorCode::EXT_FAILED.into());
                    }
                }
                Heard::Ended(Box::new(ended))
            }
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

/// What the code behind `open` has said, in the words of the engine's side.
pub(crate) fn said(open: &mut OpenCall, event: link::Event) -> Event {
    match event {
        link::Event::Log(line) => {
            let (level, message, fields) = parts(line);
            Event::Log(level, message, fields)
        }
        link::Event::Progress(progress) => Event::Progress(progress.title, progress.metadata),
        link::Event::Request { operation, name, payload } => {
            open.asked(operation);
            Event::Ask { ask: operation, name: asked_for(name), payload }
        }
    }
}

/// What is asked for, in the words of the engine's side.
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

/// How a message ended.
fn ended(outcome: Outcome<wire::ToolOutput>) -> Ended {
    let whole = match outcome {
        Ok(whole) => whole,
        Err(failure) => return Err(error(failure)).into(),
    };
    let said: wire::Ended = match serde_json::from_value(whole.output.clone()) {
        Ok(said) => said,
        Err(cause) => {
            let message = format!("what the library says at the end makes no sense: {cause}");
            return Err(ToolError::new(message).code(ErrorCode::EXT_RESULT)).into();
        }
    };
    let outcome = match said.error {
        Some(failure) => Err(error(failure)),
        None => Ok(output(wire::ToolOutput { output: said.result, ..whole })),
    };
    let changes = Changes { fields: said.changes.fields, events: said.changes.events };
    Ended { outcome, changes, state: said.state.map(|kept| Kept { value: kept.value }), listens: said.listens }
}

pub(crate) fn wire_error(error: ToolError) -> wire::ToolError {
    let ToolError { name, message, code, suggestion, help_url } = error;
    wire::ToolError { name, message, code, suggestion, help_url }
}

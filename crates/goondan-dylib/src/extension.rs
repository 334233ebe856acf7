//! Extensions whose entry is a library. Their messages use the table of the library.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use goondan_abi::wire;
use goondan_core::JsonObject;
use goondan_core::extension_protocol::{
    CodeChannel, ExtensionRunner, ExtensionToolCall, FinalMessage, MessageExtensionCode, RunStart,
    SavedState, SessionRegistry,
};
use goondan_core::ports::extension::{ExtensionContext, LayerChanges};
use goondan_core::ports::tool::{ToolContext, ToolError};
use goondan_spec::Code as ErrorCode;
use serde_json::{Value, json};

use crate::channel::LibraryLine;
use crate::connection::LibraryConnection;
use crate::handler::{RunningLibraryCall, cancelled, context, error, output};
use crate::library_messages::Outcome;
use crate::opened_library::OpenedLibrary;

pub(crate) struct LibraryExtension {
    pub(crate) library: Arc<OpenedLibrary>,
    /// Hash of the library's file.
    pub(crate) content: String,
    pub(crate) name: String,
    pub(crate) project: PathBuf,
    pub(crate) config: JsonObject,
    /// Maximum time of uninterrupted work.
    pub(crate) limit: Duration,
    pub(crate) cancel_grace: Duration,
    pub(crate) file: PathBuf,
}

#[async_trait]
impl MessageExtensionCode for LibraryExtension {
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

    async fn connect(
        &self,
        _seat: &ExtensionContext,
    ) -> Result<Arc<dyn ExtensionRunner>, ToolError> {
        let connection = self.library.connect().await.map_err(error)?;
        Ok(Arc::new(LibraryRunner {
            library: Arc::clone(&self.library),
            connection,
            cancel_grace: self.cancel_grace,
        }))
    }
}

/// A library that accepts messages for its extensions.
struct LibraryRunner {
    library: Arc<OpenedLibrary>,
    connection: Arc<LibraryConnection>,
    cancel_grace: Duration,
}

#[async_trait]
impl ExtensionRunner for LibraryRunner {
    fn sessions(&self) -> &SessionRegistry {
        &self.library.sessions
    }

    fn begin(&self, what: &RunStart<'_>) -> Result<Box<dyn CodeChannel>, ToolError> {
        let message =
            serde_json::to_value(what).map_err(|error| ToolError::new(error.to_string()))?;
        let open = self.connection.extend(message).map_err(error)?;
        let is_registering = matches!(what, RunStart::Register(_));
        Ok(Box::new(LibraryLine::new(open, move |outcome| {
            end_of(outcome, is_registering)
        })))
    }

    async fn call(&self, call: ExtensionToolCall<'_>, ctx: &ToolContext) -> FinalMessage {
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
            Ok(open) => {
                RunningLibraryCall::new(open, ctx)
                    .run(self.cancel_grace)
                    .await
            }
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
        self.connection
            .mention(json!({"kind": "event", "session": session, "event": event}));
    }
}

/// Sends the library the end of the registration `session`.
pub(crate) fn forget(connection: &LibraryConnection, session: u64) {
    connection.mention(json!({"kind": "forget", "session": session}));
}

/// Converts the end of an operation. `is_registering`: the operation is the registration.
fn end_of(outcome: Outcome<wire::ToolOutput>, is_registering: bool) -> FinalMessage {
    let mut ended = ended(outcome);
    if let Err(error) = &mut ended.outcome {
        if is_registering {
            error.message = format!("`register` failed: {}", error.message);
            error.code = Some(ErrorCode::EXT_INIT.into());
        } else if error.code.as_deref() == Some(wire::code::PANIC) {
            // A panic in a layer is an ordinary error of the layer.
            error.code = Some(ErrorCode::EXT_FAILED.into());
        }
    }
    ended
}

/// Converts the answer to a message.
fn ended(outcome: Outcome<wire::ToolOutput>) -> FinalMessage {
    let answer = match outcome {
        Ok(answer) => answer,
        Err(failure) => return Err(error(failure)).into(),
    };
    let ended: wire::Ended = match serde_json::from_value(answer.output.clone()) {
        Ok(ended) => ended,
        Err(cause) => {
            let message = format!("the library returned an invalid result: {cause}");
            return Err(ToolError::new(message).code(ErrorCode::EXT_RESULT)).into();
        }
    };
    let outcome = match ended.error {
        Some(failure) => Err(error(failure)),
        None => Ok(output(wire::ToolOutput {
            output: ended.result,
            ..answer
        })),
    };
    let changes = LayerChanges {
        fields: ended.changes.fields,
        events: ended.changes.events,
    };
    FinalMessage {
        outcome,
        changes,
        state: ended.state.map(|kept| SavedState { value: kept.value }),
        listens: ended.listens,
    }
}

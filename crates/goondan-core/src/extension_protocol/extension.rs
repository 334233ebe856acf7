//! Extension whose code communicates in messages.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use goondan_spec::Code as ErrorCode;
use serde_json::Value;

use super::layer_execution::{AnswerReplay, LayerExecution};
use super::{
    ExtensionRunner, ExtensionSession, ExtensionToolCall, FinalMessage, LayerRunRequest,
    MessageExtensionCode, RegisterRequest, RegisterResponse, RunStart, SavedState, ToolDeclaration,
};
use crate::JsonObject;
use crate::event::RuntimeEvent;
use crate::ports::extension::{
    AttachedExtension, ExtensionCode, ExtensionContext, ExtensionLayer, ExtensionTool,
    LayerChanges, LayerHost, LayerTarget,
};
use crate::ports::tool::{ToolContext, ToolError, ToolHandler, ToolOutput};

/// Time limit that is passed to a tool of an extension. The engine enforces it.
const TOOL_TIMEOUT: Duration = Duration::from_secs(120);

/// Returns the engine's view of the extension `code`.
pub fn extension(code: impl MessageExtensionCode) -> Arc<dyn ExtensionCode> {
    Arc::new(MessageExtension {
        code: Box::new(code),
    })
}

struct MessageExtension {
    code: Box<dyn MessageExtensionCode>,
}

#[async_trait]
impl ExtensionCode for MessageExtension {
    async fn attach(
        self: Arc<Self>,
        seat: Arc<ExtensionContext>,
    ) -> Result<Arc<dyn AttachedExtension>, ToolError> {
        let seated = self.session_for(&seat).await?;
        let registered = &seated.1.registered;
        let (layers, tools) = (registered.layers.clone(), registered.tools.clone());
        Ok(Arc::new(MessageExtensionTurn {
            spoken: self,
            seat,
            layers,
            tools,
            seated: Mutex::new(seated),
        }))
    }
}

type RunnerSession = (Arc<dyn ExtensionRunner>, Arc<ExtensionSession>);

impl MessageExtension {
    /// Returns a runner and the session of the instance in it; registers first if necessary.
    async fn session_for(&self, seat: &ExtensionContext) -> Result<RunnerSession, ToolError> {
        let runner = tokio::select! {
            biased;
            runner = self.code.connect(seat) => runner?,
            () = seat.cancellation.cancelled() => return Err(cancelled()),
        };
        let key = self.key(seat);
        if let Some(session) = runner.sessions().find(&key) {
            return Ok((runner, session));
        }
        let number = runner.sessions().number();
        let (registered, listens) = self.register(runner.as_ref(), number, seat).await?;
        let session = Arc::new(ExtensionSession::new(
            number,
            registered,
            seat.instance.clone(),
        ));
        session.subscribe(listens);
        if let Some(session) = runner.sessions().keep(key, Arc::clone(&session)) {
            runner.forget(session);
        }
        Ok((runner, session))
    }

    /// Returns the key of the session in a runner.
    fn key(&self, seat: &ExtensionContext) -> String {
        let config = serde_json::to_string(self.code.config()).unwrap_or_default();
        [
            &*self.code.place(),
            self.code.name(),
            &seat.instance.agent,
            &seat.instance.instance_key,
            &config,
        ]
        .join("\0")
    }

    /// Registers the extension. Returns the registration and the subscribed event types.
    async fn register(
        &self,
        runner: &dyn ExtensionRunner,
        session: u64,
        seat: &ExtensionContext,
    ) -> Result<(RegisterResponse, Option<Vec<String>>), ToolError> {
        let line = runner.begin(&RunStart::Register(RegisterRequest {
            session,
            extension: self.code.name(),
            agent_name: &seat.instance.agent,
            instance_key: &seat.instance.instance_key,
            workdir: seat.workdir.to_string_lossy().into_owned(),
            project_dir: self.code.project().to_string_lossy().into_owned(),
            config: self.code.config(),
            state: seat.state.get().0,
        }))?;
        let run = LayerExecution::new(line, seat, None, self.code.limit());
        let ended = run.run(None, &mut AnswerReplay::default()).await;
        let (output, listens) = (ended.outcome?.output, ended.listens);
        let invalid_registration = |error: serde_json::Error| {
            let message = format!("its registration is invalid: {error}");
            ToolError::new(message).code(ErrorCode::EXT_INIT)
        };
        let registration = serde_json::from_value(output).map_err(invalid_registration)?;
        Ok((registration, listens))
    }
}

/// An extension during a turn.
struct MessageExtensionTurn {
    spoken: Arc<MessageExtension>,
    seat: Arc<ExtensionContext>,
    layers: Vec<ExtensionLayer>,
    tools: Vec<ToolDeclaration>,
    /// Current runner and session: a process that ended is replaced.
    seated: Mutex<RunnerSession>,
}

#[async_trait]
impl AttachedExtension for MessageExtensionTurn {
    fn layers(&self) -> &[ExtensionLayer] {
        &self.layers
    }

    fn tools(&self) -> Vec<ExtensionTool> {
        let offer = |tool: &ToolDeclaration| ExtensionTool {
            name: tool.name.clone(),
            description: tool.description.clone(),
            parameters: tool.parameters.clone(),
            handler: Arc::new(ExtensionSessionTool {
                spoken: Arc::clone(&self.spoken),
                seat: Arc::clone(&self.seat),
                name: tool.name.clone(),
            }),
        };
        self.tools.iter().map(offer).collect()
    }

    fn happened(&self, event: &RuntimeEvent) {
        let (runner, session) = self
            .seated
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        if !session.is_subscribed(None) {
            return;
        }
        match serde_json::to_value(event) {
            Ok(Value::Object(mut event)) => {
                // Extensions do not receive the number: it is assigned later.
                event.remove("sequence");
                let event = Value::Object(event);
                if session.is_subscribed(Some(&event)) {
                    runner.happened(session.number, &event);
                }
            }
            _ => tracing::debug!("could not encode an event; the extension does not receive it"),
        }
    }

    /// Runs the layer `layer`. If the runtime process ends, runs the layer again in a new process
    /// with the recorded answers and the initial state. Changes that the first run made before a
    /// recorded answer are not applied again.
    async fn run(
        &self,
        layer: usize,
        context: JsonObject,
        host: &mut dyn LayerHost,
    ) -> Result<(Value, LayerChanges), ToolError> {
        let (state_before, mut answers) = (self.seat.state.get().0, AnswerReplay::default());
        let ended = self
            .run_once(layer, &context, host, &mut answers, None)
            .await;
        let died = ended
            .outcome
            .as_ref()
            .is_err_and(|error| error.code.as_deref() == Some(ErrorCode::HOST_DIED.as_str()));
        // Code around a tool call that sent no request can have side effects, so it is not
        // repeated.
        let may_repeat = self.layers[layer].kind != LayerTarget::ToolCall || !answers.is_empty();
        let ended = match died && may_repeat {
            false => ended,
            true => {
                tracing::warn!(
                    extension = self.spoken.code.name(),
                    "a layer runs again because its runtime process ended"
                );
                answers.rewind();
                self.run_once(
                    layer,
                    &context,
                    host,
                    &mut answers,
                    Some(state_before.unwrap_or_default()),
                )
                .await
            }
        };
        Ok((ended.outcome?.output, ended.changes))
    }
}

impl MessageExtensionTurn {
    /// Runs a layer once. `state` replaces the saved state of the extension.
    async fn run_once(
        &self,
        layer: usize,
        context: &JsonObject,
        host: &mut dyn LayerHost,
        answers: &mut AnswerReplay,
        state: Option<Value>,
    ) -> FinalMessage {
        let with_conversation = self.layers[layer].kind != LayerTarget::ToolCall;
        let beginning = async {
            let (runner, session) = self.spoken.session_for(&self.seat).await?;
            *self.seated.lock().unwrap_or_else(PoisonError::into_inner) =
                (Arc::clone(&runner), Arc::clone(&session));
            if session.registered.layers != self.layers {
                let message = "it registered different layers than at the start of the turn";
                return Err(ToolError::new(message).code(ErrorCode::EXT_INIT));
            }
            let mut news = session.pending_changes(&self.seat, with_conversation);
            if let Some(value) = state {
                news.state = Some(SavedState { value });
            }
            let started = runner.begin(&RunStart::Layer(LayerRunRequest {
                session: session.number,
                layer,
                context,
                news,
            }));
            let line = started.inspect_err(|_| session.reset_sync_state())?;
            Ok((line, session))
        };
        match beginning.await {
            Err(error) => Err(error).into(),
            Ok((line, session)) => {
                let limit = self.spoken.code.limit();
                let run = LayerExecution::new(
                    line,
                    &self.seat,
                    Some((&session, with_conversation)),
                    limit,
                );
                let ended = run.run(Some(host), answers).await;
                if ended.outcome.is_err() && with_conversation {
                    session.reset_sync_state();
                }
                ended
            }
        }
    }
}

/// A tool of an extension.
struct ExtensionSessionTool {
    spoken: Arc<MessageExtension>,
    seat: Arc<ExtensionContext>,
    name: String,
}

#[async_trait]
impl ToolHandler for ExtensionSessionTool {
    async fn call(&self, ctx: &ToolContext, input: JsonObject) -> Result<ToolOutput, ToolError> {
        let (runner, session) = tokio::select! {
            biased;
            seated = self.spoken.session_for(&self.seat) => seated?,
            () = ctx.cancellation.cancelled() => return Err(cancelled()),
        };
        let code = &self.spoken.code;
        let call = ExtensionToolCall {
            session: session.number,
            extension: code.name(),
            name: &self.name,
            config: code.config(),
            input: &input,
            timeout: TOOL_TIMEOUT,
        };
        let ended = runner.call(call, ctx).await;
        if let Some(SavedState { value }) = ended.state {
            self.seat.state.set(value);
        }
        ended.outcome
    }

    async fn programs(&self, _ctx: &ToolContext, _input: &JsonObject) -> Vec<PathBuf> {
        self.spoken.code.files()
    }
}

/// Returns the error of a call that ended because the turn was cancelled.
fn cancelled() -> ToolError {
    ToolError::new("the call was cancelled").code(ErrorCode::TOOL_CANCELLED)
}

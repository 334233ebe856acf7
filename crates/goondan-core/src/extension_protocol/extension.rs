//! Extension whose code communicates in messages.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use goondan_abi::wire::{
    CallRequest, KeptState, LayerRun, OfferedCall, OfferedTool, RegistrationRequest,
    RegistrationResult,
};
use goondan_spec::Code as ErrorCode;
use serde_json::Value;

use super::layer_execution::{AnswerReplay, LayerExecution};
use super::{ExtensionRunner, ExtensionSession, MessageExtensionCode};
use crate::JsonObject;
use crate::event::RuntimeEvent;
use crate::plugin_session::{
    ExtensionMessage, FinalMessage, PluginCall, call_context, never_ended_error, run_tool_call,
};
use crate::ports::extension::{
    AttachedExtension, ExtensionCode, ExtensionContext, ExtensionTool, LayerChanges, LayerEntry,
    LayerHost, LayerKind,
};
use crate::ports::tool::{HandlerError, ToolContext, ToolHandler, ToolOutput};

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
        extension_context: Arc<ExtensionContext>,
    ) -> Result<Arc<dyn AttachedExtension>, HandlerError> {
        let runner_session = self.session_for(&extension_context).await?;
        let registered = &runner_session.1.registered;
        let (layers, tools) = (registered.layers.clone(), registered.tools.clone());
        Ok(Arc::new(MessageExtensionTurn {
            message_extension: self,
            extension_context,
            layers,
            tools,
            runner_session: Mutex::new(runner_session),
        }))
    }
}

type RunnerSession = (ExtensionRunner, Arc<ExtensionSession>);

impl MessageExtension {
    /// Returns a runner and the session of the instance in it; registers first if necessary.
    async fn session_for(
        &self,
        extension_context: &ExtensionContext,
    ) -> Result<RunnerSession, HandlerError> {
        let runner = tokio::select! {
            biased;
            runner = self.code.connect(extension_context) => runner?,
            () = extension_context.cancellation.cancelled() => return Err(cancelled_error()),
        };
        let key = self.key(extension_context);
        if let Some(session) = runner.sessions.find(&key) {
            return Ok((runner, session));
        }
        let number = runner.sessions.number();
        let (registered, listens) = self.register(&runner, number, extension_context).await?;
        let session = Arc::new(ExtensionSession::new(
            number,
            registered,
            extension_context.instance.clone(),
        ));
        session.subscribe(listens);
        if let Some(session) = runner.sessions.keep(key, Arc::clone(&session)) {
            runner
                .transport
                .notify(ExtensionMessage::Forget { session });
        }
        Ok((runner, session))
    }

    /// Returns the key of the session in a runner.
    fn key(&self, extension_context: &ExtensionContext) -> String {
        let config = serde_json::to_string(self.code.config()).unwrap_or_default();
        [
            &*self.code.code_location(),
            self.code.name(),
            &extension_context.instance.agent,
            &extension_context.instance.instance_key,
            &config,
        ]
        .join("\0")
    }

    /// Registers the extension. Returns the registration and the subscribed event types.
    async fn register(
        &self,
        runner: &ExtensionRunner,
        session: u64,
        extension_context: &ExtensionContext,
    ) -> Result<(RegistrationResult, Option<Vec<String>>), HandlerError> {
        let message = ExtensionMessage::Register(RegistrationRequest {
            session,
            extension: self.code.name().to_owned(),
            agent_name: extension_context.instance.agent.clone(),
            instance_key: extension_context.instance.instance_key.clone(),
            workdir: extension_context.workdir.to_string_lossy().into_owned(),
            project_dir: self.code.project().to_string_lossy().into_owned(),
            config: self.code.config().clone(),
            state: extension_context.state.get().0.unwrap_or_default(),
        });
        let call = PluginCall::begin(Arc::clone(&runner.transport), message.into())?;
        let run = LayerExecution::new(call, extension_context, None, self.code.limit());
        let ended = run.run(None, &mut AnswerReplay::default()).await;
        let (output, listens) = (ended.outcome?.output, ended.listens);
        let invalid_registration = |error: serde_json::Error| {
            let message = format!("its registration is invalid: {error}");
            HandlerError::new(message).code(ErrorCode::EXT_INIT)
        };
        let registration = serde_json::from_value(output).map_err(invalid_registration)?;
        Ok((registration, listens))
    }
}

/// An extension during a turn.
struct MessageExtensionTurn {
    message_extension: Arc<MessageExtension>,
    extension_context: Arc<ExtensionContext>,
    layers: Vec<LayerEntry>,
    tools: Vec<OfferedTool>,
    /// Current runner and session: a process that ended is replaced.
    runner_session: Mutex<RunnerSession>,
}

#[async_trait]
impl AttachedExtension for MessageExtensionTurn {
    fn layers(&self) -> &[LayerEntry] {
        &self.layers
    }

    fn tools(&self) -> Vec<ExtensionTool> {
        let offer = |tool: &OfferedTool| ExtensionTool {
            name: tool.name.clone(),
            description: tool.description.clone(),
            parameters: tool.parameters.clone(),
            handler: Arc::new(ExtensionSessionTool {
                message_extension: Arc::clone(&self.message_extension),
                extension_context: Arc::clone(&self.extension_context),
                name: tool.name.clone(),
            }),
        };
        self.tools.iter().map(offer).collect()
    }

    fn notify_event(&self, event: &RuntimeEvent) {
        let (runner, session) = self
            .runner_session
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
                    let session = session.number;
                    let message = ExtensionMessage::Event { session, event };
                    runner.transport.notify(message);
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
    ) -> Result<(Value, LayerChanges), HandlerError> {
        let (state_before, mut answers) = (
            self.extension_context.state.get().0,
            AnswerReplay::default(),
        );
        let ended = self
            .run_once(layer, &context, host, &mut answers, None)
            .await;
        let died = ended
            .outcome
            .as_ref()
            .is_err_and(|error| error.code.as_deref() == Some(ErrorCode::HOST_DIED.as_str()));
        // Code around a tool call that sent no request can have side effects, so it is not
        // repeated.
        let may_repeat = self.layers[layer].kind != LayerKind::ToolCall || !answers.is_empty();
        let ended = if died && may_repeat {
            tracing::warn!(
                extension = self.message_extension.code.name(),
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
        } else {
            ended
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
        let with_conversation = self.layers[layer].kind != LayerKind::ToolCall;
        let beginning = async {
            let (runner, session) = self
                .message_extension
                .session_for(&self.extension_context)
                .await?;
            *self
                .runner_session
                .lock()
                .unwrap_or_else(PoisonError::into_inner) = (runner.clone(), Arc::clone(&session));
            if session.registered.layers != self.layers {
                let message = "it registered different layers than at the start of the turn";
                return Err(HandlerError::new(message).code(ErrorCode::EXT_INIT));
            }
            let mut news = session.pending_changes(&self.extension_context, with_conversation);
            if let Some(value) = state {
                news.state = Some(KeptState { value });
            }
            let message = ExtensionMessage::Layer(LayerRun {
                session: session.number,
                layer,
                context: context.clone(),
                news,
            });
            let started = PluginCall::begin(runner.transport, message.into());
            let call = started.inspect_err(|_| session.reset_sync_state())?;
            Ok((call, session))
        };
        match beginning.await {
            Err(error) => Err(error).into(),
            Ok((call, session)) => {
                let limit = self.message_extension.code.limit();
                let run = LayerExecution::new(
                    call,
                    &self.extension_context,
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
    message_extension: Arc<MessageExtension>,
    extension_context: Arc<ExtensionContext>,
    name: String,
}

#[async_trait]
impl ToolHandler for ExtensionSessionTool {
    async fn call(&self, ctx: &ToolContext, input: JsonObject) -> Result<ToolOutput, HandlerError> {
        let (runner, session) = tokio::select! {
            biased;
            opened = self.message_extension.session_for(&self.extension_context) => opened?,
            () = ctx.cancellation.cancelled() => return Err(cancelled_error()),
        };
        let code = &self.message_extension.code;
        let request = CallRequest {
            tool: code.name().to_owned(),
            export: self.name.clone(),
            arguments: input,
            config: code.config().clone(),
            context: call_context(ctx, code.project(), TOOL_TIMEOUT),
        };
        let message = ExtensionMessage::Call(Box::new(OfferedCall {
            session: session.number,
            request,
        }));
        let call = PluginCall::begin(runner.transport, message.into())?;
        let Some(ended) = run_tool_call(call, ctx).await else {
            return Err(never_ended_error(&self.name));
        };
        if let Some(KeptState { value }) = ended.state {
            self.extension_context.state.set(value);
        }
        ended.outcome
    }

    async fn executed_files(&self, _ctx: &ToolContext, _input: &JsonObject) -> Vec<PathBuf> {
        self.message_extension.code.files()
    }
}

/// Returns the error of a call that ended because the turn was cancelled.
fn cancelled_error() -> HandlerError {
    HandlerError::new("the call was cancelled").code(ErrorCode::TOOL_CANCELLED)
}

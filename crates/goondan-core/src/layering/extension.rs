//! An Extension whose code is spoken with in messages.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use goondan_spec::Code as ErrorCode;
use serde_json::Value;

use super::run::{LayerRun, Memory};
use super::{
    Begin, Code, Ended, Kept, Offered, OfferedCall, Register, Registered, Run, Runner, Session,
};
use crate::JsonObject;
use crate::event::RuntimeEvent;
use crate::ports::extension::{
    AttachedExtension, Changes, ExtensionCode, Layer, LayerDesk, LayerKind, OfferedTool, Seat,
};
use crate::ports::tool::{ToolContext, ToolError, ToolHandler, ToolOutput};

/// How long a tool that an extension offers may take, as it is told. The engine keeps the time.
const TOOL_TIMEOUT: Duration = Duration::from_secs(120);

/// What the engine runs of `code`.
pub fn extension(code: impl Code) -> Arc<dyn ExtensionCode> {
    Arc::new(Spoken {
        code: Box::new(code),
    })
}

/// Code that is spoken with.
struct Spoken {
    code: Box<dyn Code>,
}

#[async_trait]
impl ExtensionCode for Spoken {
    async fn attach(
        self: Arc<Self>,
        seat: Arc<Seat>,
    ) -> Result<Arc<dyn AttachedExtension>, ToolError> {
        let seated = self.seated(&seat).await?;
        let registered = &seated.1.registered;
        let (layers, tools) = (registered.layers.clone(), registered.tools.clone());
        Ok(Arc::new(Attached {
            spoken: self,
            seat,
            layers,
            tools,
            seated: Mutex::new(seated),
        }))
    }
}

/// A runner, and a registration in it.
type Seated = (Arc<dyn Runner>, Arc<Session>);

impl Spoken {
    /// A runner in which it has registered for the instance of `seat`.
    async fn seated(&self, seat: &Seat) -> Result<Seated, ToolError> {
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
        let session = Arc::new(Session::new(number, registered, seat.instance.clone()));
        session.listen(listens);
        if let Some(session) = runner.sessions().keep(key, Arc::clone(&session)) {
            runner.forget(session);
        }
        Ok((runner, session))
    }

    /// What tells its registration from others in a runner.
    fn key(&self, seat: &Seat) -> String {
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

    /// Has it register: what, and to which events it listens.
    async fn register(
        &self,
        runner: &dyn Runner,
        session: u64,
        seat: &Seat,
    ) -> Result<(Registered, Option<Vec<String>>), ToolError> {
        let line = runner.begin(&Begin::Register(Register {
            session,
            extension: self.code.name(),
            agent_name: &seat.instance.agent,
            instance_key: &seat.instance.instance_key,
            workdir: seat.workdir.to_string_lossy().into_owned(),
            project_dir: self.code.project().to_string_lossy().into_owned(),
            config: self.code.config(),
            state: seat.state.get().0,
        }))?;
        let run = LayerRun::new(line, seat, None, self.code.limit());
        let ended = run.run(None, &mut Memory::default()).await;
        let (output, listens) = (ended.outcome?.output, ended.listens);
        let wrong = |error: serde_json::Error| {
            let message = format!("what it has registered makes no sense: {error}");
            ToolError::new(message).code(ErrorCode::EXT_INIT)
        };
        Ok((serde_json::from_value(output).map_err(wrong)?, listens))
    }
}

/// An extension at a turn.
struct Attached {
    spoken: Arc<Spoken>,
    seat: Arc<Seat>,
    layers: Vec<Layer>,
    tools: Vec<Offered>,
    /// Where it is now: a process that ends has a successor.
    seated: Mutex<Seated>,
}

#[async_trait]
impl AttachedExtension for Attached {
    fn layers(&self) -> &[Layer] {
        &self.layers
    }

    fn tools(&self) -> Vec<OfferedTool> {
        let offer = |tool: &Offered| OfferedTool {
            name: tool.name.clone(),
            description: tool.description.clone(),
            parameters: tool.parameters.clone(),
            handler: Arc::new(SessionTool {
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
        if !session.listens(None) {
            return;
        }
        match serde_json::to_value(event) {
            Ok(Value::Object(mut event)) => {
                // Where the event was made it has no number yet.
                event.remove("sequence");
                let event = Value::Object(event);
                if session.listens(Some(&event)) {
                    runner.happened(session.number, &event);
                }
            }
            _ => tracing::debug!("an event could not be written"),
        }
    }

    /// Where the process ends, the layer is run once more in a new one. It gets the answers that it had, finds the state that
    /// it found, and what it had changed is not taken up again.
    async fn run(
        &self,
        layer: usize,
        context: JsonObject,
        desk: &mut dyn LayerDesk,
    ) -> Result<(Value, Changes), ToolError> {
        let (before, mut memory) = (self.seat.state.get().0, Memory::default());
        let ended = self.once(layer, &context, desk, &mut memory, None).await;
        let died = ended
            .outcome
            .as_ref()
            .is_err_and(|error| error.code.as_deref() == Some(ErrorCode::HOST_DIED.as_str()));
        // What a layer around a tool call has done by itself may be the point of it.
        let may_repeat = self.layers[layer].kind != LayerKind::ToolCall || !memory.is_empty();
        let ended = match died && may_repeat {
            false => ended,
            true => {
                tracing::warn!(
                    extension = self.spoken.code.name(),
                    "a layer is run once more, for its host has ended"
                );
                memory.rewind();
                self.once(
                    layer,
                    &context,
                    desk,
                    &mut memory,
                    Some(before.unwrap_or_default()),
                )
                .await
            }
        };
        Ok((ended.outcome?.output, ended.changes))
    }
}

impl Attached {
    /// Runs a layer once; `state` is what the extension shall find, where that is not what it keeps.
    async fn once(
        &self,
        layer: usize,
        context: &JsonObject,
        desk: &mut dyn LayerDesk,
        memory: &mut Memory,
        state: Option<Value>,
    ) -> Ended {
        let with_conversation = self.layers[layer].kind != LayerKind::ToolCall;
        let begun = async {
            let (runner, session) = self.spoken.seated(&self.seat).await?;
            *self.seated.lock().unwrap_or_else(PoisonError::into_inner) =
                (Arc::clone(&runner), Arc::clone(&session));
            if session.registered.layers != self.layers {
                let message = "it registers other layers than at the begin of the turn";
                return Err(ToolError::new(message).code(ErrorCode::EXT_INIT));
            }
            let mut news = session.news(&self.seat, with_conversation);
            if let Some(value) = state {
                news.state = Some(Kept { value });
            }
            let begun = runner.begin(&Begin::Layer(Run {
                session: session.number,
                layer,
                context,
                news,
            }));
            let line = begun.inspect_err(|_| session.doubt())?;
            Ok((line, session))
        };
        match begun.await {
            Err(error) => Err(error).into(),
            Ok((line, session)) => {
                let limit = self.spoken.code.limit();
                let run =
                    LayerRun::new(line, &self.seat, Some((&session, with_conversation)), limit);
                let ended = run.run(Some(desk), memory).await;
                if ended.outcome.is_err() && with_conversation {
                    session.doubt();
                }
                ended
            }
        }
    }
}

/// A tool that an extension offers.
struct SessionTool {
    spoken: Arc<Spoken>,
    seat: Arc<Seat>,
    name: String,
}

#[async_trait]
impl ToolHandler for SessionTool {
    async fn call(&self, ctx: &ToolContext, input: JsonObject) -> Result<ToolOutput, ToolError> {
        let (runner, session) = tokio::select! {
            biased;
            seated = self.spoken.seated(&self.seat) => seated?,
            () = ctx.cancellation.cancelled() => return Err(cancelled()),
        };
        let code = &self.spoken.code;
        let call = OfferedCall {
            session: session.number,
            extension: code.name(),
            name: &self.name,
            config: code.config(),
            input: &input,
            timeout: TOOL_TIMEOUT,
        };
        let ended = runner.call(call, ctx).await;
        if let Some(Kept { value }) = ended.state {
            self.seat.state.set(value);
        }
        ended.outcome
    }

    async fn programs(&self, _ctx: &ToolContext, _input: &JsonObject) -> Vec<PathBuf> {
        self.spoken.code.files()
    }
}

fn cancelled() -> ToolError {
    ToolError::new("the call was cancelled").code(ErrorCode::TOOL_CANCELLED)
}

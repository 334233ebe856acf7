//! An Extension whose entry is a module.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use goondan_core::JsonObject;
use goondan_core::ports::extension::{
    AttachedExtension, Changes, ExtensionCode, Layer, LayerDesk, LayerKind, OfferedTool, Seat,
};
use goondan_core::ports::tool::{ToolContext, ToolError, ToolHandler, ToolOutput};
use goondan_spec::Code;
use serde_json::Value;

use crate::attended::Attended;
use crate::calls::Ended;
use crate::errors;
use crate::handler::context;
use crate::host::Host;
use crate::layer_run::{LayerRun, Memory};
use crate::process::Process;
use crate::sessions::Session;
use crate::wire::{self, Call, Down, Kept, Offered, Register, Registered};

/// How long a tool that an extension offers may take, as it is told. The engine keeps the time.
const TOOL_TIMEOUT: Duration = Duration::from_secs(120);

/// The code of an extension: a module, with a config.
pub(crate) struct ModuleExtension {
    pub(crate) host: Arc<Host>,
    /// The resource's name.
    pub(crate) name: String,
    /// The module's file.
    pub(crate) module: PathBuf,
    /// What the config says beside the settings for programs.
    pub(crate) config: JsonObject,
    /// How long it may work at a stretch.
    pub(crate) limit: Duration,
    /// What the module is made of.
    pub(crate) files: Arc<[PathBuf]>,
}

#[async_trait]
impl ExtensionCode for ModuleExtension {
    async fn attach(self: Arc<Self>, seat: Arc<Seat>) -> Result<Arc<dyn AttachedExtension>, ToolError> {
        let (_, session) = self.seated(&seat).await?;
        let (layers, tools) = (session.registered.layers.clone(), session.registered.tools.clone());
        Ok(Arc::new(Attached { code: self, seat, layers, tools }))
    }
}

impl ModuleExtension {
    /// A process in which it has registered for the instance of `seat`.
    async fn seated(&self, seat: &Seat) -> Result<(Arc<Process>, Arc<Session>), ToolError> {
        let process = tokio::select! {
            biased;
            process = self.host.connect(&seat.sandboxes, &seat.workdir) => process?,
            () = seat.cancellation.cancelled() => return Err(errors::cancelled()),
        };
        let key = self.key(seat);
        if let Some(session) = process.sessions().find(&key) {
            return Ok((process, session));
        }
        let number = process.sessions().number();
        let registered = self.register(&process, number, seat).await?;
        let session = Arc::new(Session::new(number, registered, seat.instance.clone()));
        if let Some(session) = process.sessions().keep(key, Arc::clone(&session)) {
            process.tell(&Down::Forget { session });
        }
        Ok((process, session))
    }

    /// What tells its registration from others in a process.
    fn key(&self, seat: &Seat) -> String {
        let config = serde_json::to_string(&self.config).unwrap_or_default();
        let module = self.module.to_string_lossy();
        [&*module, &self.name, &seat.instance.agent, &seat.instance.instance_key, &config].join("\0")
    }

    async fn register(&self, process: &Arc<Process>, session: u64, seat: &Seat) -> Result<Registered, ToolError> {
        let receivers = process.calls().begin()?;
        let (module, package) = (self.module.to_string_lossy(), self.host.definition().package.to_string_lossy());
        process.tell(&Down::Register(Register {
            id: receivers.id,
            session,
            module: &module,
            package: &package,
            extension: &self.name,
            agent_name: &seat.instance.agent,
            instance_key: &seat.instance.instance_key,
            workdir: seat.workdir.to_string_lossy().into_owned(),
            project_dir: self.host.definition().project.to_string_lossy().into_owned(),
            config: &self.config,
            state: seat.state.get().0,
        }));
        let process = Arc::clone(process);
        let run = LayerRun { process, receivers, seat, session: None, with_conversation: false, limit: self.limit };
        let output = run.run(None, &mut Memory::default()).await.outcome?.output;
        let wrong = |error: serde_json::Error| {
            let message = format!("what it has registered makes no sense: {error}");
            ToolError::new(message).code(Code::EXT_INIT)
        };
        serde_json::from_value(output).map_err(wrong)
    }
}

/// An extension at a turn.
struct Attached {
    code: Arc<ModuleExtension>,
    seat: Arc<Seat>,
    layers: Vec<Layer>,
    tools: Vec<Offered>,
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
                code: Arc::clone(&self.code),
                seat: Arc::clone(&self.seat),
                name: tool.name.clone(),
            }),
        };
        self.tools.iter().map(offer).collect()
    }

    /// Where the host dies, the layer is run once more in a new host. It gets the answers that it had, finds the state that it
    /// found, and what it had changed is not taken up again.
    async fn run(
        &self,
        layer: usize,
        context: JsonObject,
        desk: &mut dyn LayerDesk,
    ) -> Result<(Value, Changes), ToolError> {
        let (before, mut memory) = (self.seat.state.get().0, Memory::default());
        let ended = self.once(layer, &context, desk, &mut memory, None).await;
        let died = ended.outcome.as_ref().is_err_and(|error| error.code.as_deref() == Some(Code::HOST_DIED.as_str()));
        // What a layer around a tool call has done by itself may be the point of it.
        let may_repeat = self.layers[layer].kind != LayerKind::ToolCall || !memory.is_empty();
        let ended = match died && may_repeat {
            false => ended,
            true => {
                tracing::warn!(extension = self.code.name, "a layer is run once more, for its host has ended");
                memory.rewind();
                self.once(layer, &context, desk, &mut memory, Some(before.unwrap_or_default())).await
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
        let begun = async {
            let (process, session) = self.code.seated(&self.seat).await?;
            if session.registered.layers != self.layers {
                let message = "it registers other layers than at the begin of the turn";
                return Err(ToolError::new(message).code(Code::EXT_INIT));
            }
            let receivers = process.calls().begin()?;
            Ok((process, session, receivers))
        };
        let (process, session, receivers) = match begun.await {
            Ok(begun) => begun,
            Err(error) => return Err(error).into(),
        };
        let with_conversation = self.layers[layer].kind != LayerKind::ToolCall;
        let mut news = session.news(&self.seat, with_conversation);
        if let Some(value) = state {
            news.state = Some(Kept { value });
        }
        let (id, number) = (receivers.id, session.number);
        process.tell(&Down::Layer(wire::Layer { id, session: number, layer, context, news }));
        let limit = self.code.limit;
        let run = LayerRun { process, receivers, seat: &self.seat, session: Some(&session), with_conversation, limit };
        run.run(Some(desk), memory).await
    }
}

/// A tool that an extension offers.
struct SessionTool {
    code: Arc<ModuleExtension>,
    seat: Arc<Seat>,
    name: String,
}

#[async_trait]
impl ToolHandler for SessionTool {
    async fn call(&self, ctx: &ToolContext, input: JsonObject) -> Result<ToolOutput, ToolError> {
        let (process, session) = tokio::select! {
            biased;
            seated = self.code.seated(&self.seat) => seated?,
            () = ctx.cancellation.cancelled() => return Err(errors::cancelled()),
        };
        let receivers = process.calls().begin()?;
        process.tell(&Down::Call(Call {
            id: receivers.id,
            module: "",
            package: "",
            export: &self.name,
            session: Some(session.number),
            input: &input,
            config: &self.code.config,
            context: context(ctx, &self.code.host, TOOL_TIMEOUT),
        }));
        let ended = Attended::new(process, receivers, ctx).run().await;
        if let Some(Kept { value }) = ended.state {
            self.seat.state.set(value);
        }
        ended.outcome
    }

    async fn programs(&self, _ctx: &ToolContext, _input: &JsonObject) -> Vec<PathBuf> {
        self.code.files.to_vec()
    }
}

//! Extensions whose entry is a module. Their messages use the pipes of a runtime process.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use goondan_core::JsonObject;
use goondan_core::extension_protocol::{
    CodeChannel, CodeMessage, ExtensionRunner, ExtensionToolCall, FinalMessage,
    MessageExtensionCode, RunStart, RunningMessage, SessionRegistry,
};
use goondan_core::ports::extension::ExtensionContext;
use goondan_core::ports::tool::{ToolContext, ToolError};
use serde_json::Value;

use crate::calls::ScriptCallReceivers;
use crate::errors;
use crate::handler::context;
use crate::host::ScriptHost;
use crate::process::{LivenessPing, RuntimeProcess};
use crate::running_call::RunningScriptCall;
use crate::wire::{ExtensionRequest, OperationAnswer, ScriptCall, ShimCommand};

pub(crate) struct ModuleExtension {
    pub(crate) host: Arc<ScriptHost>,
    pub(crate) name: String,
    pub(crate) module: PathBuf,
    /// The config without the settings for programs.
    pub(crate) config: JsonObject,
    /// Maximum time of uninterrupted work.
    pub(crate) limit: Duration,
    pub(crate) files: Arc<[PathBuf]>,
}

#[async_trait]
impl MessageExtensionCode for ModuleExtension {
    fn name(&self) -> &str {
        &self.name
    }

    fn place(&self) -> String {
        self.module.to_string_lossy().into_owned()
    }

    fn project(&self) -> &Path {
        &self.host.definition().project
    }

    fn config(&self) -> &JsonObject {
        &self.config
    }

    fn limit(&self) -> Duration {
        self.limit
    }

    fn files(&self) -> Vec<PathBuf> {
        self.files.to_vec()
    }

    async fn connect(
        &self,
        seat: &ExtensionContext,
    ) -> Result<Arc<dyn ExtensionRunner>, ToolError> {
        let process = self
            .host
            .connect(&seat.sandboxes, &seat.workdir, &Arc::default())
            .await?;
        Ok(Arc::new(ModuleRunner {
            process,
            host: Arc::clone(&self.host),
            module: self.place(),
        }))
    }
}

struct ModuleRunner {
    process: Arc<RuntimeProcess>,
    host: Arc<ScriptHost>,
    module: String,
}

#[async_trait]
impl ExtensionRunner for ModuleRunner {
    fn sessions(&self) -> &SessionRegistry {
        self.process.sessions()
    }

    fn begin(&self, what: &RunStart<'_>) -> Result<Box<dyn CodeChannel>, ToolError> {
        let receivers = self.process.calls().begin()?;
        let package = self.host.definition().package.to_string_lossy();
        self.process.tell(&ExtensionRequest {
            id: receivers.id,
            module: &self.module,
            package: &package,
            what,
        });
        Ok(Box::new(ModuleLine {
            process: Arc::clone(&self.process),
            receivers,
            cancelled: None,
            is_settled: false,
        }))
    }

    async fn call(&self, call: ExtensionToolCall<'_>, ctx: &ToolContext) -> FinalMessage {
        let receivers = match self.process.calls().begin() {
            Ok(receivers) => receivers,
            Err(error) => return Err(error).into(),
        };
        self.process.tell(&ShimCommand::Call(ScriptCall {
            id: receivers.id,
            module: "",
            package: "",
            export: call.name,
            session: Some(call.session),
            input: call.input,
            config: call.config,
            context: context(ctx, &self.host, call.timeout),
        }));
        RunningScriptCall::new(Arc::clone(&self.process), receivers, ctx)
            .run()
            .await
    }

    fn forget(&self, session: u64) {
        self.process.tell(&ShimCommand::Forget { session });
    }

    fn happened(&self, session: u64, event: &Value) {
        self.process.mention(&ShimCommand::Event { session, event });
    }
}

/// A running operation in a process. Dropping it before the answer cancels it in the process. If it
/// does not end then, the process is retired.
pub(crate) struct ModuleLine {
    process: Arc<RuntimeProcess>,
    receivers: ScriptCallReceivers,
    /// Set if the operation was cancelled.
    cancelled: Option<LivenessPing>,
    /// True if the process needs no cancellation: the operation is over, or the process ends with
    /// it.
    is_settled: bool,
}

impl ModuleLine {
    /// Creates the line of the only operation in a process, which ends with it.
    pub(crate) fn single_operation(
        process: Arc<RuntimeProcess>,
        receivers: ScriptCallReceivers,
    ) -> Self {
        ModuleLine {
            process,
            receivers,
            cancelled: None,
            is_settled: true,
        }
    }
}

impl Drop for ModuleLine {
    fn drop(&mut self) {
        if !self.is_settled {
            self.process.calls().forget(self.receivers.id);
            let ping = self
                .cancelled
                .unwrap_or_else(|| self.process.cancel(self.receivers.id));
            self.process.retire(ping);
        }
    }
}

#[async_trait]
impl CodeChannel for ModuleLine {
    async fn hear(&mut self) -> CodeMessage {
        tokio::select! {
            biased;
            Some(event) = self.receivers.events.recv() => CodeMessage::Said(event),
            answer = &mut self.receivers.answer => {
                self.is_settled = true;
                CodeMessage::Ended(Box::new(answer.unwrap_or_else(|_| Err(errors::cancelled()).into())))
            }
        }
    }

    fn rest(&mut self) -> Option<RunningMessage> {
        self.receivers.events.try_recv().ok()
    }

    fn answer(&mut self, ask: u64, outcome: Result<Value, ToolError>) {
        let (value, error) = match outcome {
            Ok(value) => (Some(value), None),
            Err(error) => (None, Some(error.into())),
        };
        self.process
            .tell(&ShimCommand::Answer(OperationAnswer { ask, value, error }));
    }

    fn cancel(&mut self) {
        self.cancelled = Some(self.process.cancel(self.receivers.id));
    }
}

//! A Connector whose entry is a module: a function that runs as long as its connection does, in a process of its own.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use goondan_core::JsonObject;
use goondan_core::ports::tool::{LogLevel, ToolError};
use goondan_spec::ResourceId;
use goondan_spec::kinds::Module;
use serde_json::{Value, json};

use crate::calls::{Event, Receivers};
use crate::errors;
use crate::host::Host;
use crate::process::Process;
use crate::source::{Modules, absolute, define};
use crate::wire::{Answer, Connect, Down};

/// The question by which a connector hands an event in.
const EMIT: &str = "emit";

/// What a connector is told of its connection.
pub struct ConnectorValues {
    /// The name of the Connection.
    pub connection: String,
    /// The name of the Connector.
    pub connector: String,
    /// Settings.
    pub config: BTreeMap<String, String>,
    /// The secrets that the Connection states, and no others.
    pub secrets: BTreeMap<String, String>,
}

/// Whom a connector talks with.
#[async_trait]
pub trait ConnectorDesk: Send + Sync {
    /// Takes an event; returns once it is accepted for good.
    async fn emit(&self, event: Value) -> Result<(), ToolError>;

    /// The next line that is typed where the swarm runs; `None` where there are no more.
    async fn line(&self) -> Option<String>;

    /// The next answer that is to be sent, with a number; `None` where there will be none.
    async fn reply(&self) -> Option<Value>;

    /// What has become of the answer of that number: it was sent, or why not.
    fn replied(&self, number: u64, error: Option<String>);

    /// Writes a log line.
    fn log(&self, level: LogLevel, message: &str, fields: JsonObject);
}

impl Modules {
    /// Runs a connector until its function returns. Dropping this ends its process.
    ///
    /// # Errors
    /// It can't be started, its function has thrown, or its process has ended.
    pub async fn run_connector(
        &self,
        id: &ResourceId,
        module: &Module,
        bundle_root: &Path,
        values: ConnectorValues,
        desk: Arc<dyn ConnectorDesk>,
    ) -> Result<(), ToolError> {
        let (definition, _) = define(module, JsonObject::new(), bundle_root)
            .map_err(|(problem, remedy)| ToolError::new(format!("{id}: {problem}")).suggest(remedy))?;
        let name = format!("Connection/{}", values.connection);
        let project = definition.project.clone();
        let host = Host::new(name, definition, self.folder().to_owned(), Arc::clone(self.programs()));
        let process = host.connect(&[], &project).await?;
        let receivers = process.calls().begin()?;
        let (path, package) = (absolute(&bundle_root.join(&module.path)), host.definition().package.to_string_lossy());
        process.tell(&Down::Connect(Connect {
            id: receivers.id,
            module: &path.to_string_lossy(),
            package: &package,
            connection: &values.connection,
            connector: &values.connector,
            config: &values.config,
            secrets: &values.secrets,
        }));
        let ended = attend(&process, receivers, desk.as_ref()).await;
        drop(process);
        host.end().await;
        ended
    }
}

type Answers<'a> = FuturesUnordered<BoxFuture<'a, (u64, Result<Value, ToolError>)>>;

/// Answers what the connector asks, until it has ended.
async fn attend(process: &Process, mut receivers: Receivers, desk: &dyn ConnectorDesk) -> Result<(), ToolError> {
    let (mut emits, mut others): (Answers<'_>, Answers<'_>) = (FuturesUnordered::new(), FuturesUnordered::new());
    loop {
        tokio::select! {
            // What it has said before its end counts.
            biased;
            Some((ask, outcome)) = emits.next() => answer(process, ask, outcome),
            Some((ask, outcome)) = others.next() => answer(process, ask, outcome),
            Some(event) = receivers.events.recv() => match event {
                Event::Log(level, message, fields) => desk.log(level, &message, fields),
                Event::Progress(title, fields) => desk.log(LogLevel::Info, &title, fields),
                Event::Ask { ask, name, payload } => {
                    let queue = if name == EMIT { &mut emits } else { &mut others };
                    queue.push(Box::pin(async move { (ask, perform(desk, &name, payload).await) }));
                }
            },
            ended = &mut receivers.answer => {
                // Events that it did not wait for are taken all the same.
                while emits.next().await.is_some() {}
                return match ended {
                    Ok(ended) => ended.outcome.map(drop),
                    Err(_) => Err(errors::cancelled()),
                };
            }
        }
    }
}

fn answer(process: &Process, ask: u64, outcome: Result<Value, ToolError>) {
    let (value, error) = match outcome {
        Ok(value) => (Some(value), None),
        Err(error) => (None, Some(error.into())),
    };
    process.tell(&Down::Answer(Answer { ask, value, error }));
}

async fn perform(desk: &dyn ConnectorDesk, name: &str, payload: Value) -> Result<Value, ToolError> {
    match name {
        EMIT => desk.emit(payload).await.map(|()| Value::Null),
        "reply" => Ok(json!({"reply": desk.reply().await})),
        "replied" => {
            let error = payload["error"].as_str().map(str::to_owned);
            payload["number"].as_u64().into_iter().for_each(|number| desk.replied(number, error.clone()));
            Ok(Value::Null)
        }
        "line" => Ok(json!({"line": desk.line().await})),
        other => Err(ToolError::new(format!("a connector can't ask for `{other}`"))),
    }
}

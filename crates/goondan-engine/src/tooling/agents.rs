//! `ctx.runtime`: how a tool reaches other agents (rules A1 to A8). Every call is a message to the orchestrator and an
//! answer back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use goondan_spec::Code;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::delivery::orchestrator::{Command, Refusal, SpawnRequest};
use crate::delivery::responses::{answer_id, response_of};
use crate::engine::Engine;
use crate::life::Life;
use crate::policy::taint;
use crate::tooling::dispatch::{ToolCallContext, TurnFacts};
use crate::turn::TurnContext;
use goondan_core::event::{RuntimeEventKind, TurnResult};
use goondan_core::ids::{InstanceId, TraceContext, derived_id};
use goondan_core::inbound::{AgentEvent, EventTrace, ReplyTo, Terms};
use goondan_core::narrowing::Narrowing;
use goondan_core::ports::powers::{Embeddings, Schedules, Sessions, ToolState};
use goondan_core::ports::reload::Reloader;
use goondan_core::ports::store::{InstanceMeta, InstanceStatus, StoreError};
use goondan_core::ports::tool::{
    AgentCatalog, AgentEventInput, AgentToolRuntime, RequestOptions, RequestResult, SendResult,
    SpawnOptions, SpawnResult, SpawnedAgentInfo, ToolError,
};
use goondan_core::real_path::real_path;
use goondan_core::reserved;

/// How long who is asked may give no sign of life, where a request does not say (rule A2).
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30 * 60);

/// The agents, as one tool call reaches them.
pub(crate) struct AgentCalls {
    pub(crate) engine: Arc<Engine>,
    pub(crate) facts: Arc<TurnFacts>,
    /// The call's place in its turn: event ids are derived from it, so that a call that runs again asks the same question.
    place: String,
    trace: TraceContext,
    cancel: CancellationToken,
    /// Of the call.
    life: Arc<Life>,
    asked: AtomicU32,
}

impl AgentCalls {
    pub(crate) fn of_call(context: &ToolCallContext, cancel: CancellationToken) -> Self {
        AgentCalls {
            engine: Arc::clone(&context.engine),
            facts: Arc::clone(&context.facts),
            place: format!("{}/{}", context.step_id, context.call.tool_call_id),
            trace: context.trace.clone(),
            cancel,
            life: Arc::clone(&context.life),
            asked: AtomicU32::new(0),
        }
    }

    /// As an extension reaches them around a turn or a step.
    pub(crate) fn of_turn(context: &TurnContext, place: &str) -> Self {
        let place = format!("{}/{place}", context.turn_id());
        AgentCalls {
            engine: Arc::clone(&context.engine),
            facts: Arc::clone(&context.facts),
            trace: context.facts.trace.clone(),
            place,
            cancel: context.cancel.clone(),
            life: Life::new(),
            asked: AtomicU32::new(0),
        }
    }

    /// The event that `input` asks for. Every event of a tool comes through here.
    fn event(
        &self,
        target: &str,
        input: AgentEventInput,
        default_type: &str,
    ) -> Result<AgentEvent, ToolError> {
        reserved::check(input.event_type.as_deref(), &input.metadata)?;
        let number = self.asked.fetch_add(1, Ordering::Relaxed).to_string();
        let caller = &self.facts.instance;
        let key = input
            .instance_key
            .unwrap_or_else(|| caller.instance_key.clone());
        Ok(AgentEvent {
            id: format!(
                "evt-{}",
                derived_id(&[&caller.to_string(), &self.place, &number])
            ),
            event_type: input.event_type.unwrap_or_else(|| default_type.to_owned()),
            created_at: self.engine.clock.now(),
            target: InstanceId::new(target, key),
            input: input.input,
            files: Vec::new(),
            history: Vec::new(),
            metadata: input.metadata,
            instructions: input.instructions,
            trace: EventTrace::from(&self.trace),
            callers: self
                .facts
                .callers
                .iter()
                .cloned()
                .chain([caller.clone()])
                .collect(),
            reply_to: None,
            terms: Terms {
                narrowing: self.narrowed(input.terms.narrowing.as_ref()),
                bound_by: self
                    .facts
                    .bound_by
                    .union(&input.terms.bound_by)
                    .cloned()
                    .collect(),
                ..input.terms
            },
        })
    }

    /// The call's place in its turn.
    pub(crate) fn place(&self) -> &str {
        &self.place
    }

    /// What the turn that calls may pass on, and no more (rule S1b).
    fn narrowed(&self, wanted: Option<&Narrowing>) -> Option<Narrowing> {
        Narrowing::both(self.facts.narrowing.as_ref(), wanted)
    }

    /// Hands `event` over; comes back once it is on disk.
    async fn submit(
        &self,
        event: AgentEvent,
        waiter: Option<oneshot::Sender<TurnResult>>,
    ) -> Result<(), ToolError> {
        taint::pass_on(&self.engine, &self.facts.instance, &event.target)
            .await
            .map_err(untold)?;
        let (accepted, answer) = oneshot::channel();
        let command = Command::Submit {
            event: Box::new(event),
            waiter,
            accepted,
        };
        self.engine.commands.send(command).map_err(|_| stopped())?;
        answer
            .await
            .map_err(|_| stopped())?
            .map_err(ToolError::from)
    }

    /// A folder for an instance that this one makes: no tool of it gets further than the tools of this one (rule S1b).
    fn folder_inside(&self, cwd: &str) -> Result<String, ToolError> {
        let folder = real_path(&self.facts.workdir).unwrap_or_else(|_| self.facts.workdir.clone());
        match real_path(&folder.join(cwd)) {
            Ok(inside) if inside.starts_with(&folder) => Ok(inside.display().to_string()),
            _ => Err(ToolError::new(format!(
                "`{cwd}` leads out of the working folder {}",
                folder.display()
            ))
            .code(Code::TOOL_PATH_ESCAPE)
            .suggest("Name a folder inside it.")),
        }
    }

    /// What is known of all instances, oldest first.
    pub(crate) async fn metas(&self) -> Result<Vec<InstanceMeta>, ToolError> {
        let (answer, metas) = oneshot::channel();
        self.engine
            .commands
            .send(Command::List { answer })
            .map_err(|_| stopped())?;
        metas.await.map_err(|_| stopped())
    }

    fn abandon(&self, event_id: String, reason: &str) {
        let command = Command::Abandon {
            event_id,
            reason: reason.to_owned(),
        };
        // Without an orchestrator there is nothing to abandon.
        let _ = self.engine.commands.send(command);
    }

    /// Waits for the answer as long as whoever is asked gives signs of life; a caller that stops waiting takes its question
    /// back. While a person is asked there, the clocks of the caller stand still, too.
    async fn wait(
        &self,
        event: &AgentEvent,
        answer: oneshot::Receiver<TurnResult>,
        limit: Duration,
    ) -> Result<TurnResult, ToolError> {
        let target = &event.target.agent;
        let (other, own) = (
            self.engine.lives.of(&event.target),
            [&self.life, &self.facts.life],
        );
        let _waiting = own.map(|life| life.wait_for(&other));
        tokio::select! {
            result = answer => result.map_err(|_| stopped()),
            () = other.hold(own) => unreachable!("it holds for as long as this waits"),
            () = other.silence(limit) => {
                self.abandon(event.id.clone(), "the request timed out");
                let message = format!("agent {target} gave no answer and no sign of life for {} ms", limit.as_millis());
                Err(ToolError::new(message)
                    .code(Code::AGENT_REQUEST_TIMEOUT)
                    .suggest("Ask for less, wait longer with timeoutMs, or ask with async: true."))
            }
            () = self.cancel.cancelled() => {
                self.abandon(event.id.clone(), "the caller was cancelled");
                Err(ToolError::new(format!("the request to agent {target} was cancelled")).code(Code::TOOL_CANCELLED))
            }
        }
    }
}

fn untold(error: StoreError) -> ToolError {
    ToolError::new(format!(
        "it could not be recorded that what is said is untrusted: {error}"
    ))
}

#[async_trait]
impl AgentToolRuntime for AgentCalls {
    async fn request(
        &self,
        target: &str,
        input: AgentEventInput,
        options: RequestOptions,
    ) -> Result<RequestResult, ToolError> {
        let mut event = self.event(target, input, reserved::REQUEST)?;
        let correlation_id = format!("req-{}", event.id.trim_start_matches("evt-"));
        event.reply_to = Some(ReplyTo {
            caller: self.facts.instance.clone(),
            turn_id: self.facts.turn_id.clone(),
            correlation_id: correlation_id.clone(),
            async_: options.async_,
            terms: self.facts.terms(),
        });
        let mut result = RequestResult {
            event_id: event.id.clone(),
            target: target.to_owned(),
            response: None,
            correlation_id,
            accepted: true,
            async_: options.async_,
        };
        if options.async_ {
            self.submit(event, None).await?;
            return Ok(result);
        }
        let (waiter, answer) = oneshot::channel();
        self.submit(event.clone(), Some(waiter)).await?;
        let limit = options
            .timeout_ms
            .filter(|ms| *ms > 0)
            .map_or(DEFAULT_TIMEOUT, Duration::from_millis);
        let turn = self.wait(&event, answer, limit).await?;
        taint::pass_on(&self.engine, &event.target, &self.facts.instance)
            .await
            .map_err(untold)?;
        result.event_id = answer_id(&event.id);
        result.response = Some(response_of(target, &turn)?);
        Ok(result)
    }

    async fn send(&self, target: &str, input: AgentEventInput) -> Result<SendResult, ToolError> {
        let event = self.event(target, input, reserved::SEND)?;
        let event_id = event.id.clone();
        self.submit(event, None).await?;
        Ok(SendResult {
            event_id,
            target: target.to_owned(),
            accepted: true,
        })
    }

    async fn spawn(&self, target: &str, options: SpawnOptions) -> Result<SpawnResult, ToolError> {
        let instance_key = options.instance_key.unwrap_or_else(|| {
            let number = self.asked.fetch_add(1, Ordering::Relaxed).to_string();
            let caller = self.facts.instance.to_string();
            format!(
                "{target}-{}",
                &derived_id(&[&caller, &self.place, &number, "spawn"])[..8]
            )
        });
        let cwd = options
            .cwd
            .map(|cwd| self.folder_inside(&cwd))
            .transpose()?;
        let (answer, spawned) = oneshot::channel();
        let request = SpawnRequest {
            id: InstanceId::new(target, &*instance_key),
            owner: Some(self.facts.instance.clone()),
            cwd: cwd.clone(),
            narrowing: self.narrowed(options.narrowing.as_ref()),
        };
        self.engine
            .commands
            .send(Command::Spawn { request, answer })
            .map_err(|_| stopped())?;
        let spawned = spawned
            .await
            .map_err(|_| stopped())?
            .map_err(ToolError::from)?;
        if spawned {
            let kind = RuntimeEventKind::AgentSpawned {
                turn_id: self.facts.turn_id.clone(),
                target: target.to_owned(),
                target_instance_key: instance_key.clone(),
                cwd: cwd.clone(),
            };
            self.engine
                .bus
                .runtime(&self.facts.instance, &self.trace, kind);
        }
        // One that was there works where it did.
        let cwd = cwd.filter(|_| spawned);
        Ok(SpawnResult {
            target: target.to_owned(),
            instance_key,
            spawned,
            cwd,
        })
    }

    async fn list(&self, include_all: bool) -> Result<Vec<SpawnedAgentInfo>, ToolError> {
        let metas = self.metas().await?;
        let own = Some(&self.facts.instance);
        let listed = metas
            .into_iter()
            .filter(|meta| include_all || (meta.owner.as_ref() == own && !is_retired(meta)));
        Ok(listed
            .map(crate::delivery::orchestrator::describe)
            .collect())
    }

    async fn catalog(&self) -> Result<AgentCatalog, ToolError> {
        Ok(self
            .engine
            .generation
            .load()
            .seen_from(&self.facts.instance.agent))
    }

    fn reloader(&self) -> Option<&dyn Reloader> {
        self.engine.reloader.as_deref()
    }

    fn sessions(&self) -> Option<&dyn Sessions> {
        Some(self)
    }

    fn state(&self) -> Option<&dyn ToolState> {
        Some(self)
    }

    fn schedules(&self) -> Option<&dyn Schedules> {
        Some(self)
    }

    fn embeddings(&self) -> Option<&dyn Embeddings> {
        Some(self)
    }
}

fn is_retired(meta: &InstanceMeta) -> bool {
    meta.status == InstanceStatus::Retired
}

impl From<Refusal> for ToolError {
    fn from(refusal: Refusal) -> Self {
        let error = ToolError::new(refusal.to_string()).code(refusal.code());
        match refusal.suggestion() {
            Some(suggestion) => error.suggest(suggestion),
            None => error,
        }
    }
}

pub(crate) fn stopped() -> ToolError {
    ToolError::new("the swarm is stopping").code(Code::SWARM_STOPPING)
}

//! Sent messages: a message starts a task, or answers an approval request of a task.

use goondan::spec::Code;
use goondan::start::telemetry::CallerTrace;
use goondan::{Input, SubmittedEventState};

use super::approval;
use super::message::IncomingMessage;
use super::rpc::RpcError;
use super::task::{Task, TaskId};
use crate::problem::ApiProblem;
use crate::service::Service;
use crate::turn_subscription::{InputLookup, TurnSubscription};
use crate::wire::CLIENT_MESSAGE_ID;

/// A task that a message started or answered.
pub(super) struct StartedTask {
    pub(super) id: TaskId,
    /// Subscription to the task, from the start of a new task.
    pub(super) watch: TurnSubscription,
}

impl StartedTask {
    /// Looks up an existing task.
    pub(super) async fn known(service: &Service, id: TaskId) -> Result<StartedTask, RpcError> {
        let watch = TurnSubscription::begin(service, &id.id, &id.instance).await;
        let watch = watch.ok_or_else(|| RpcError::task_not_found(&id.id))?;
        Ok(StartedTask { id, watch })
    }
}

/// Handles a message. When this returns, a new task is on disk. A repeated message finds its first
/// task.
pub(super) async fn begin(
    service: &Service,
    agent: &str,
    message: &IncomingMessage,
    caller: Option<CallerTrace>,
) -> Result<StartedTask, RpcError> {
    if service.is_draining() {
        let problem = ApiProblem::new(Code::SWARM_STOPPING, "The server is stopping.");
        return Err(problem.suggest("Retry in a few seconds.").into());
    }
    if let Some(task) = &message.task {
        return continue_task(service, agent, task, message).await;
    }
    let id = TaskId::of(agent, message);
    let new_input = match TurnSubscription::look_up(service, &id.id, &id.instance).await {
        InputLookup::Taken(watch) => return Ok(StartedTask { id, watch }),
        InputLookup::Free(new_input) => new_input,
    };
    let (text, files) = message.input();
    if text.trim().is_empty() && files.is_empty() {
        return Err(RpcError::field("message.parts", "The message is empty."));
    }
    let mut metadata = message.metadata.clone();
    metadata.insert(CLIENT_MESSAGE_ID.to_owned(), message.id.clone().into());
    let input = Input {
        text,
        files,
        agent: Some(agent.to_owned()),
        instance_key: Some(id.instance.instance_key.clone()),
        id: Some(id.id.clone()),
        metadata,
        caller,
        ..Input::default()
    };
    Ok(StartedTask {
        id,
        watch: new_input.send(input).await?,
    })
}

/// Handles a message for an existing task.
async fn continue_task(
    service: &Service,
    agent: &str,
    task: &str,
    message: &IncomingMessage,
) -> Result<StartedTask, RpcError> {
    let id = TaskId::read(task, agent).ok_or_else(|| RpcError::task_not_found(task))?;
    let state = service
        .swarm()
        .find(&id.id)
        .await
        .ok_or_else(|| RpcError::task_not_found(task))?;
    if message
        .context
        .as_deref()
        .is_some_and(|context| context != id.context())
    {
        return Err(RpcError::field(
            "message.contextId",
            "The task belongs to another context.",
        ));
    }
    match state {
        SubmittedEventState::Open(turn) => {
            approval::apply_answer(service, &id, &turn.trace_id, message)?
        }
        SubmittedEventState::Over(_) if service.inner.given.has(&id.id, &message.id) => {}
        SubmittedEventState::Over(_) => {
            let message = "The task is over. To start the next task of the conversation, send the \
                message with only the `contextId`.";
            return Err(RpcError::unsupported(message));
        }
    }
    StartedTask::known(service, id).await
}

/// Returns the task when it is over or waits for approval. With `at_once`, returns the current
/// state.
pub(super) async fn settled(
    service: &Service,
    started: StartedTask,
    at_once: bool,
) -> Result<Task, RpcError> {
    let StartedTask { id, watch } = started;
    // Runs in its own task: a client that disconnects may return and find the approval request.
    let settling = tokio::spawn(watch.settled());
    // A failed wait has no more details to report.
    if !at_once && !settling.await.unwrap_or_default() {
        return Err(RpcError::stopped());
    }
    Task::find(service, &id)
        .await
        .ok_or_else(|| RpcError::task_not_found(&id.id))
}

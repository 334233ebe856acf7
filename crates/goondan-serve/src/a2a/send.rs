//! Sent messages: a message starts a task, or answers an approval request of a task.

use goondan::gateway::{ApprovalReports, TurnStream};
use goondan::start::telemetry::CallerTrace;
use goondan::{Input, SubmittedEventState};

use super::approval;
use super::message::IncomingMessage;
use super::rpc::RpcError;
use super::task::{Task, TaskId};
use crate::service::Service;
use crate::wire::CLIENT_MESSAGE_ID;

/// A task that a message started or answered.
pub(super) struct StartedTask {
    pub(super) id: TaskId,
    /// Stream of the task, from the start of a new task.
    pub(super) turn: TurnStream,
}

impl StartedTask {
    /// Looks up an existing task.
    pub(super) async fn find(service: &Service, id: TaskId) -> Result<StartedTask, RpcError> {
        let gateway = service.gateway();
        let turn = gateway.follow(&id.id, ApprovalReports::OneByOne).await;
        let turn = turn.ok_or_else(|| RpcError::task_not_found(&id.id))?;
        Ok(StartedTask { id, turn })
    }
}

/// Starts or continues the task of a message. On return, a new task is on disk. A repeated message
/// returns its first task.
pub(super) async fn begin(
    service: &Service,
    agent: &str,
    message: &IncomingMessage,
    caller: Option<CallerTrace>,
) -> Result<StartedTask, RpcError> {
    if let Some(task) = &message.task {
        return continue_task(service, agent, task, message).await;
    }
    let id = TaskId::for_message(agent, message);
    let (text, files) = message.input();
    if text.trim().is_empty() && files.is_empty() {
        return Err(RpcError::invalid_param(
            "message.parts",
            "The message is empty.",
        ));
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
    let gateway = service.gateway();
    let turn = gateway
        .submit_and_follow(input, ApprovalReports::OneByOne)
        .await?;
    Ok(StartedTask { id, turn })
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
        .is_some_and(|context| context != id.context_id())
    {
        return Err(RpcError::invalid_param(
            "message.contextId",
            "The task belongs to another context.",
        ));
    }
    match state {
        SubmittedEventState::Open(turn) => {
            approval::apply_answer(service, &id, &turn.trace_id, message)?
        }
        SubmittedEventState::Over(_)
            if service.gateway().approvals().was_given(&id.id, &message.id) => {}
        SubmittedEventState::Over(_) => {
            let message = "The task is over. To start the next task of the conversation, send the \
                message with only the `contextId`.";
            return Err(RpcError::unsupported_operation(message));
        }
    }
    StartedTask::find(service, id).await
}

/// Returns the task when it is over or waits for approval. With `at_once`, returns the current
/// state.
pub(super) async fn wait_for_task(
    service: &Service,
    started: StartedTask,
    at_once: bool,
) -> Result<Task, RpcError> {
    let StartedTask { id, turn } = started;
    // Runs in its own task: a client that disconnects may return and find the approval request.
    let settling = tokio::spawn(turn.settled());
    // A failed wait has no more details to report.
    if !at_once && !settling.await.unwrap_or_default() {
        return Err(RpcError::swarm_stopped());
    }
    Task::find(service, &id)
        .await
        .ok_or_else(|| RpcError::task_not_found(&id.id))
}

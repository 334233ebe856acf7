//! A message that is sent: it begins a task, or answers the question of one.

use goondan::spec::Code;
use goondan::telemetry::Caller;
use goondan::{Found, Input};

use super::answer;
use super::message::Incoming;
use super::rpc::RpcError;
use super::task::{Task, TaskId};
use crate::problem::Problem;
use crate::service::Service;
use crate::watch::{News, Watch};
use crate::wire::CLIENT_MESSAGE_ID;

/// A task that a message has begun or answered.
pub(super) struct Begun {
    pub(super) id: TaskId,
    /// What happens from its beginning on, where it is new.
    pub(super) watch: Option<Watch>,
}

/// Takes a message. The task that it begins is on disk then. One that is sent again finds its task.
pub(super) async fn begin(
    service: &Service,
    agent: &str,
    message: &Incoming,
    caller: Option<Caller>,
) -> Result<Begun, RpcError> {
    if service.is_draining() {
        let problem = Problem::new(Code::SWARM_STOPPING, "The server is stopping.");
        return Err(problem.suggest("Send it again in a moment.").into());
    }
    if let Some(task) = &message.task {
        return go_on(service, agent, task, message).await;
    }
    let id = TaskId::of(agent, message);
    if service.swarm().find(&id.id).await.is_some() {
        return Ok(Begun { id, watch: None });
    }
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
    let watch = Watch::before(service, &id.id);
    let turn = service.swarm().send(input).await?;
    // Another request with the same message may have been faster: then it goes on under that one's chain.
    let trace_id = match service.swarm().find(&id.id).await {
        Some(Found::Open(known)) => known.trace_id,
        _ => turn.trace_id,
    };
    Ok(Begun { id, watch: Some(watch.of_chain(trace_id)) })
}

/// A message in a task that there is.
async fn go_on(service: &Service, agent: &str, task: &str, message: &Incoming) -> Result<Begun, RpcError> {
    let id = TaskId::read(task, agent).ok_or_else(|| RpcError::task_not_found(task))?;
    let found = service.swarm().find(&id.id).await.ok_or_else(|| RpcError::task_not_found(task))?;
    if message.context.as_deref().is_some_and(|context| context != id.context()) {
        return Err(RpcError::field("message.contextId", "The task is in another context."));
    }
    match found {
        Found::Open(turn) => answer::take(service, &id, &turn.trace_id, message)?,
        Found::Over(_) if service.inner.given.has(&id.id, &message.id) => {}
        Found::Over(_) => {
            let words = "The task is over. Send the message with the `contextId` alone: it begins the next task of the \
                         conversation.";
            return Err(RpcError::unsupported(words));
        }
    }
    Ok(Begun { id, watch: None })
}

/// Waits until a task is over, or waits for somebody's word.
pub(super) async fn settled(service: &Service, begun: Begun) -> Result<Task, RpcError> {
    let Begun { id, watch } = begun;
    let missing = || RpcError::task_not_found(&id.id);
    let mut watch = match watch {
        Some(watch) => watch,
        None => Watch::begin(service, &id.id, &id.instance).await.ok_or_else(missing)?,
    };
    loop {
        match watch.next().await {
            News::Over(_) => break,
            News::Asked(_) => {
                watch.park();
                break;
            }
            News::Seen(_) | News::Answered => {}
            News::Missed => watch = Watch::begin(service, &id.id, &id.instance).await.ok_or_else(missing)?,
            News::Gone => return Err(RpcError::stopped()),
        }
    }
    Task::find(service, &id).await.ok_or_else(missing)
}

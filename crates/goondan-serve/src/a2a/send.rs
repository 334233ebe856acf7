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
use crate::watch::{Place, Watch};
use crate::wire::CLIENT_MESSAGE_ID;

/// A task that a message has begun or answered.
pub(super) struct Begun {
    pub(super) id: TaskId,
    /// What happens in it: from its beginning on, where it is new.
    pub(super) watch: Watch,
}

impl Begun {
    /// A task that there is.
    pub(super) async fn known(service: &Service, id: TaskId) -> Result<Begun, RpcError> {
        let watch = Watch::begin(service, &id.id, &id.instance).await;
        let watch = watch.ok_or_else(|| RpcError::task_not_found(&id.id))?;
        Ok(Begun { id, watch })
    }
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
    let place = match Watch::place(service, &id.id, &id.instance).await {
        Place::Taken(watch) => return Ok(Begun { id, watch }),
        Place::Free(place) => place,
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
    Ok(Begun {
        id,
        watch: place.send(input).await?,
    })
}

/// A message in a task that there is.
async fn go_on(
    service: &Service,
    agent: &str,
    task: &str,
    message: &Incoming,
) -> Result<Begun, RpcError> {
    let id = TaskId::read(task, agent).ok_or_else(|| RpcError::task_not_found(task))?;
    let found = service
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
            "The task is in another context.",
        ));
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
    Begun::known(service, id).await
}

/// The task of a message, once it is over or waits for somebody's word; as it is now, where the client does not want to wait.
pub(super) async fn settled(
    service: &Service,
    begun: Begun,
    at_once: bool,
) -> Result<Task, RpcError> {
    let Begun { id, watch } = begun;
    // A client that is gone may come back, and find the question.
    let settling = tokio::spawn(watch.settled());
    // Whatever it came to, there is no more to know.
    if !at_once && !settling.await.unwrap_or_default() {
        return Err(RpcError::stopped());
    }
    Task::find(service, &id)
        .await
        .ok_or_else(|| RpcError::task_not_found(&id.id))
}

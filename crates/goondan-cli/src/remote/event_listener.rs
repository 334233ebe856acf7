//! Follows the event stream of a swarm in another process, and answers its approval requests here.

use std::collections::HashMap;
use std::sync::Arc;

use goondan::ports::approval::Approver;
use goondan_serve::client::{ClientError, ClientEvent, LocalClient, ServerEvents, segment};
use goondan_serve::wire::{AnswerBody, QuestionBody};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio_util::task::AbortOnDropHandle;

/// Event stream that is read in its own task. A user can think about an approval request here while
/// another client answers it.
pub(crate) struct RemoteEventListener {
    told: UnboundedReceiver<Result<ClientEvent, ClientError>>,
    _reader: AbortOnDropHandle<()>,
}

impl RemoteEventListener {
    /// Starts to read `events`. `approver` answers the approval requests among them.
    pub(crate) fn to(
        events: ServerEvents,
        client: &LocalClient,
        approver: Arc<dyn Approver>,
    ) -> Self {
        let (out, told) = mpsc::unbounded_channel();
        let reader = tokio::spawn(read(events, client.clone(), approver, out));
        RemoteEventListener {
            told,
            _reader: AbortOnDropHandle::new(reader),
        }
    }

    /// Waits for the next event; `None` at the end of the stream.
    pub(crate) async fn next(&mut self) -> Option<Result<ClientEvent, ClientError>> {
        self.told.recv().await
    }
}

async fn read(
    mut events: ServerEvents,
    client: LocalClient,
    approver: Arc<dyn Approver>,
    out: UnboundedSender<Result<ClientEvent, ClientError>>,
) {
    let mut asked = HashMap::new();
    loop {
        let told = match events.next().await {
            Ok(Some(event)) => event.parse(),
            Ok(None) => return,
            Err(error) => Err(error),
        };
        let is_broken = told.is_err();
        match told {
            Ok(ClientEvent::Asked(question)) => {
                let id = question.id.clone();
                let answering =
                    tokio::spawn(answer(question, client.clone(), Arc::clone(&approver)));
                asked.insert(id, AbortOnDropHandle::new(answering));
            }
            // Dropping the task withdraws the prompt on this terminal.
            Ok(ClientEvent::Closed(id)) => drop(asked.remove(&id)),
            told => {
                if out.send(told).is_err() || is_broken {
                    return;
                }
            }
        }
    }
}

async fn answer(question: QuestionBody, client: LocalClient, approver: Arc<dyn Approver>) {
    let path = format!("/api/approvals/{}", segment(&question.id));
    let Some(answer) = AnswerBody::of(approver.ask(question.into()).await) else {
        return;
    };
    if let Err(error) = client.post_only(&path, &answer).await {
        tracing::warn!(%error, "could not send an approval answer");
    }
}

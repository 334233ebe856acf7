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
    received: UnboundedReceiver<Result<ClientEvent, ClientError>>,
    _reader: AbortOnDropHandle<()>,
}

impl RemoteEventListener {
    /// Starts to read `events`. `approver` answers the approval requests among them.
    pub(crate) fn answering(
        events: ServerEvents,
        client: &LocalClient,
        approver: Arc<dyn Approver>,
    ) -> Self {
        let (event_sender, received) = mpsc::unbounded_channel();
        let reader = tokio::spawn(read_stream(events, client.clone(), approver, event_sender));
        RemoteEventListener {
            received,
            _reader: AbortOnDropHandle::new(reader),
        }
    }

    /// Waits for the next event; `None` at the end of the stream.
    pub(crate) async fn next(&mut self) -> Option<Result<ClientEvent, ClientError>> {
        self.received.recv().await
    }
}

/// Sends the events of the stream to `sender` until the stream ends. Approval requests are answered
/// here instead, each in its own task.
async fn read_stream(
    mut events: ServerEvents,
    client: LocalClient,
    approver: Arc<dyn Approver>,
    sender: UnboundedSender<Result<ClientEvent, ClientError>>,
) {
    let mut open_prompts = HashMap::new();
    loop {
        let event = match events.next().await {
            Ok(Some(event)) => event.parse(),
            Ok(None) => return,
            Err(error) => Err(error),
        };
        let is_broken = event.is_err();
        match event {
            Ok(ClientEvent::Asked(question)) => {
                let id = question.id.clone();
                let answering = tokio::spawn(answer_request(
                    question,
                    client.clone(),
                    Arc::clone(&approver),
                ));
                open_prompts.insert(id, AbortOnDropHandle::new(answering));
            }
            // Dropping the task withdraws the prompt on this terminal.
            Ok(ClientEvent::Closed(id)) => drop(open_prompts.remove(&id)),
            event => {
                if sender.send(event).is_err() || is_broken {
                    return;
                }
            }
        }
    }
}

/// Asks `approver`, and sends its answer. Sends nothing if the approver gives no answer.
async fn answer_request(question: QuestionBody, client: LocalClient, approver: Arc<dyn Approver>) {
    let path = format!("/api/approvals/{}", segment(&question.id));
    let Some(answer) = AnswerBody::of(approver.ask(question.into()).await) else {
        return;
    };
    if let Err(error) = client.post_only(&path, &answer).await {
        tracing::warn!(%error, "could not send an approval answer");
    }
}

//! Listens to a stream of a swarm that another process runs, and answers its questions here.

use std::collections::HashMap;
use std::sync::Arc;

use goondan::ports::approval::Approver;
use goondan_serve::client::{Client, ClientError, ServerEvents, Told, segment};
use goondan_serve::wire::{AnswerBody, QuestionBody};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio_util::task::AbortOnDropHandle;

/// A stream that is read beside whatever the command does: while a person thinks about a question, another may answer it.
pub(crate) struct Listening {
    told: UnboundedReceiver<Result<Told, ClientError>>,
    _reader: AbortOnDropHandle<()>,
}

impl Listening {
    /// Reads `events` from now on. `approver` answers the questions among them.
    pub(crate) fn to(events: ServerEvents, client: &Client, approver: Arc<dyn Approver>) -> Self {
        let (out, told) = mpsc::unbounded_channel();
        let reader = tokio::spawn(read(events, client.clone(), approver, out));
        Listening {
            told,
            _reader: AbortOnDropHandle::new(reader),
        }
    }

    /// Waits for the next thing that is told; `None` where the stream has ended.
    pub(crate) async fn next(&mut self) -> Option<Result<Told, ClientError>> {
        self.told.recv().await
    }
}

async fn read(
    mut events: ServerEvents,
    client: Client,
    approver: Arc<dyn Approver>,
    out: UnboundedSender<Result<Told, ClientError>>,
) {
    let mut asked = HashMap::new();
    loop {
        let told = match events.next().await {
            Ok(Some(event)) => event.told(),
            Ok(None) => return,
            Err(error) => Err(error),
        };
        let is_broken = told.is_err();
        match told {
            Ok(Told::Asked(question)) => {
                let id = question.id.clone();
                let answering =
                    tokio::spawn(answer(question, client.clone(), Arc::clone(&approver)));
                asked.insert(id, AbortOnDropHandle::new(answering));
            }
            // Who asks here sees that the question is withdrawn.
            Ok(Told::Closed(id)) => drop(asked.remove(&id)),
            told => {
                if out.send(told).is_err() || is_broken {
                    return;
                }
            }
        }
    }
}

async fn answer(question: QuestionBody, client: Client, approver: Arc<dyn Approver>) {
    let path = format!("/api/approvals/{}", segment(&question.id));
    let Some(answer) = AnswerBody::of(approver.ask(question.into()).await) else {
        return;
    };
    if let Err(error) = client.tell(&path, &answer).await {
        tracing::warn!(%error, "an answer did not arrive");
    }
}

//! Requests about inputs of a swarm in another process: submit, follow and cancel them.

use goondan::Input;
use goondan::spec::Code;
use goondan_serve::client::{ClientError, ServerEvents, segment};
use goondan_serve::wire::{InputBody, InputState};

use super::RemoteSwarm;

impl RemoteSwarm {
    /// Submits an input without following its turn.
    pub(crate) async fn submit(&self, input: Input) -> Result<InputState, ClientError> {
        self.client.post("/api/inputs", &body(input)).await
    }

    /// Submits an input and follows its turn. `approvals`: the caller answers approval requests.
    pub(crate) async fn submit_followed(
        &self,
        input: Input,
        approvals: bool,
    ) -> Result<ServerEvents, ClientError> {
        let path = format!("/api/inputs?approvals={approvals}");
        self.client.follow(&path, &body(input)).await
    }

    /// Follows the turn of an accepted input. `approvals`: the caller answers approval requests.
    pub(crate) async fn follow_input(
        &self,
        id: &str,
        approvals: bool,
    ) -> Result<ServerEvents, ClientError> {
        let id = segment(id);
        let path = format!("/api/inputs/{id}/events?approvals={approvals}");
        self.client.events(&path).await
    }

    /// Cancels an input. An input whose turn has already ended counts as cancelled.
    pub(crate) async fn cancel_input(&self, id: &str) -> Result<(), ClientError> {
        let path = format!("/api/inputs/{}", segment(id));
        match self.client.delete(&path).await {
            // The turn ended first.
            Err(ClientError::Refused(body)) if body.code == Code::SERVE_CLOSED => Ok(()),
            cancelled => cancelled,
        }
    }
}

/// Returns the request body for an input.
fn body(input: Input) -> InputBody {
    InputBody {
        input: input.text,
        agent: input.agent,
        instance_key: input.instance_key,
        id: input.id,
        files: input.files,
        instructions: input.instructions,
        metadata: input.metadata,
        delivery: input.delivery,
    }
}

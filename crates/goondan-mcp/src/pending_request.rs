//! A request that waits for the server's answer, and the reasons why none comes.

use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::{ClientRequest, ServerResult};
use rmcp::service::{RequestHandle, ServiceError};

use crate::codes;
use crate::connection::McpConnection;
use crate::elicitation::ElicitationContext;
use crate::handler::ProgressSubscription;
use goondan_core::ports::tool::HandlerError;

/// Maximum time to notify a server of a cancellation.
pub(crate) const CANCEL_TIMEOUT: Duration = Duration::from_secs(1);

/// Reason in a cancellation notice.
const CANCEL_REASON: &str = "the client canceled the request";

/// The reason why a call has no answer.
pub(crate) enum UnansweredCall {
    /// The server or the connection failed.
    Failed(ServiceError),
    /// The client ended the call: it was cancelled, or the requested input is unavailable.
    Given(HandlerError),
}

impl From<ServiceError> for UnansweredCall {
    fn from(failure: ServiceError) -> Self {
        UnansweredCall::Failed(failure)
    }
}

/// Sends a request, forwards its progress, and waits for the answer. If the call is cancelled,
/// notifies the server.
///
/// # Errors
///
/// Fails if the call is cancelled, or if the server or the connection fails.
pub(crate) async fn send_request(
    link: &McpConnection,
    context: &ElicitationContext,
    request: ClientRequest,
) -> Result<ServerResult, UnansweredCall> {
    let mut pending = PendingServerRequest(Some(link.send(request).await?));
    let _listening = pending.listen(link, context);
    tokio::select! {
        answer = pending.answer() => Ok(answer?),
        () = context.cancellation.cancelled() => {
            pending.give_up().await;
            Err(UnansweredCall::Given(codes::cancelled_error()))
        }
    }
}

/// A pending request. Dropping it before the answer cancels it on the server.
struct PendingServerRequest(Option<RequestHandle<RoleClient>>);

impl PendingServerRequest {
    /// Forwards the progress of the call to `context`; `None` if there is no request any more.
    fn listen(
        &self,
        link: &McpConnection,
        context: &ElicitationContext,
    ) -> Option<ProgressSubscription> {
        let token = self.0.as_ref()?.progress_token.clone();
        Some(
            link.handler
                .subscribe_to_progress(token, Arc::clone(&context.progress)),
        )
    }

    /// Waits for the answer to the request.
    async fn answer(&mut self) -> Result<ServerResult, ServiceError> {
        let Some(handle) = &mut self.0 else {
            return Err(ServiceError::TransportClosed);
        };
        let answer = (&mut handle.rx).await;
        self.0 = None;
        answer.unwrap_or(Err(ServiceError::TransportClosed))
    }

    /// Cancels the request on the server.
    async fn give_up(&mut self) {
        if let Some(handle) = self.0.take() {
            let _ = tokio::time::timeout(
                CANCEL_TIMEOUT,
                handle.cancel(Some(CANCEL_REASON.to_owned())),
            )
            .await;
        }
    }
}

impl Drop for PendingServerRequest {
    fn drop(&mut self) {
        let (Some(handle), Ok(runtime)) = (self.0.take(), tokio::runtime::Handle::try_current())
        else {
            return;
        };
        runtime.spawn(tokio::time::timeout(
            CANCEL_TIMEOUT,
            handle.cancel(Some(CANCEL_REASON.to_owned())),
        ));
    }
}

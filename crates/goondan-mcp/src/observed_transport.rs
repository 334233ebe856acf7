//! Records notifications of changed tools before later messages of the server are delivered.

use rmcp::RoleClient;
use rmcp::model::{JsonRpcMessage, ServerNotification};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;

use crate::handler::McpClientHandler;

/// A transport whose reports of changed tools are recorded before later messages are delivered. The
/// library handles each notification in a separate task, in any order with the answers to requests.
pub(crate) struct ObservedTransport<T> {
    transport: T,
    handler: McpClientHandler,
}

impl<T> ObservedTransport<T> {
    pub(crate) fn new(transport: T, handler: McpClientHandler) -> Self {
        ObservedTransport { transport, handler }
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for ObservedTransport<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.transport.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        let message = self.transport.receive().await?;
        if let JsonRpcMessage::Notification(notification) = &message
            && let ServerNotification::ToolListChangedNotification(_) = notification.notification
        {
            self.handler.record_tool_change();
        }
        Some(message)
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.transport.close().await
    }
}

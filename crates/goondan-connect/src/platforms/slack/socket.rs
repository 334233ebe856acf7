//! Socket mode: gdn opens a WebSocket to Slack, which delivers events over it. The app therefore
//! needs no public URL.
//!
//! Each envelope is acknowledged when its event is durable. Slack delivers other envelopes again,
//! possibly over another connection.

use std::sync::Arc;
use std::time::Duration;

use futures::{SinkExt as _, StreamExt as _};
use goondan::json_text;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::{WebSocketStream, client_async_with_config};
use url::Url;

use super::{SlackConnector, check_ok};
use crate::connection_runtime::ConnectionRuntime;
use crate::http::{self, PlatformFailure};
use crate::platforms::{self, ParsedRequest};

/// Maximum bytes of a message.
const MAX_SOCKET_MESSAGE_BYTES: usize = 16 * 1024 * 1024;
/// Type of an envelope with a slash command.
const SLASH_COMMANDS: &str = "slash_commands";
/// Connect time-out.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// Silence after which a ping is sent. Without a response in this time, the connection is closed.
const PING_AFTER_SILENCE: Duration = Duration::from_secs(30);

/// After a connection that ended sooner, the wait before the next connection grows.
const SHORT_CONNECTION: Duration = Duration::from_secs(60);
/// Longest wait before a new connection.
const MAX_REFRESH_WAIT: Duration = Duration::from_secs(60);

/// Credentials for opening connections.
pub(super) struct SlackSocket {
    base: String,
    token: String,
}

/// Reason for the normal end of a connection.
enum SocketEnd {
    /// Slack requests a new connection, which happens every few hours.
    Refresh { reason: String },
}

trait SocketStream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> SocketStream for S {}

type SlackWebSocket = WebSocketStream<Box<dyn SocketStream>>;

impl SlackSocket {
    /// Creates the client. `base` is the URL of the web API.
    pub(super) fn new(base: &str, token: &str) -> SlackSocket {
        SlackSocket {
            base: base.to_owned(),
            token: token.to_owned(),
        }
    }

    /// Receives events until a connection fails.
    pub(super) async fn receive(
        &self,
        slack: &SlackConnector,
        runtime: &Arc<ConnectionRuntime>,
    ) -> Result<(), String> {
        let mut short_connections = 0;
        loop {
            let url = match self.address().await {
                Ok(url) => url,
                Err(PlatformFailure::Later(wait)) => {
                    http::wait_for_limit(wait).await;
                    continue;
                }
                Err(failure) => return Err(failure.to_string()),
            };
            let connecting = tokio::time::timeout(CONNECT_TIMEOUT, connect(&url)).await;
            let mut connected =
                connecting.map_err(|_| "Slack took too long to connect".to_owned())??;
            let began = Instant::now();
            let SocketEnd::Refresh { reason } =
                handle_messages(slack, runtime, &mut connected).await?;
            let _ = connected.close(None).await;
            short_connections = if began.elapsed() < SHORT_CONNECTION {
                short_connections + 1
            } else {
                0
            };
            let wait = refresh_wait(short_connections);
            if short_connections == FIRST_WAITING {
                tracing::warn!(
                    connection = runtime.bound.name,
                    "Slack ends each connection at once ({reason}); connecting again with growing waits"
                );
            }
            tokio::time::sleep(wait).await;
        }
    }

    /// Requests the URL of a connection. It is valid once and secret.
    async fn address(&self) -> Result<Url, PlatformFailure> {
        let request = http::client()
            .await?
            .post(format!("{}/apps.connections.open", self.base));
        let answer = check_ok(http::request_json(request.bearer_auth(&self.token)).await?)?;
        let wrong =
            || PlatformFailure::Refused("the response contains no WebSocket URL".to_owned());
        let url = Url::parse(answer["url"].as_str().unwrap_or_default()).map_err(|_| wrong())?;
        // Allows plain WebSockets only if the API itself is configured without TLS.
        let is_plain = url.scheme() == "ws" && self.base.starts_with("http://");
        if url.scheme() == "wss" || is_plain {
            Ok(url)
        } else {
            Err(wrong())
        }
    }
}

/// Number of short connections in a row before which gdn waits for the first time.
const FIRST_WAITING: u32 = 2;

/// Returns the wait before the next connection, after a number of short connections in a row.
fn refresh_wait(short_connections: u32) -> Duration {
    match short_connections.checked_sub(FIRST_WAITING) {
        None => Duration::ZERO,
        Some(doublings) => Duration::from_secs(1 << doublings.min(6)).min(MAX_REFRESH_WAIT),
    }
}

/// Opens the WebSocket.
async fn connect(url: &Url) -> Result<SlackWebSocket, String> {
    let connection_error =
        |error: &dyn std::error::Error| format!("Slack cannot be reached: {error}");
    let (Some(host), Some(port)) = (url.host_str(), url.port_or_known_default()) else {
        return Err("Slack returned a WebSocket URL without a host".to_owned());
    };
    let stream = TcpStream::connect((host, port))
        .await
        .map_err(|error| connection_error(&error))?;
    let stream: Box<dyn SocketStream> = match url.scheme() {
        "wss" => {
            let config = tokio::task::spawn_blocking(goondan_tls::with_system_certificates).await;
            let connector =
                TlsConnector::from(Arc::new(config.map_err(|error| connection_error(&error))?));
            let name =
                ServerName::try_from(host.to_owned()).map_err(|error| connection_error(&error))?;
            Box::new(
                connector
                    .connect(name, stream)
                    .await
                    .map_err(|error| connection_error(&error))?,
            )
        }
        _ => Box::new(stream),
    };
    let config = WebSocketConfig::default()
        .max_message_size(Some(MAX_SOCKET_MESSAGE_BYTES))
        .max_frame_size(Some(MAX_SOCKET_MESSAGE_BYTES));
    let shaken = client_async_with_config(url.as_str(), stream, Some(config)).await;
    // The error is dropped because it may contain the secret URL.
    shaken
        .map(|(connected, _)| connected)
        .map_err(|_| "Slack refused the connection".to_owned())
}

/// Handles messages until the connection ends.
async fn handle_messages(
    slack: &SlackConnector,
    runtime: &Arc<ConnectionRuntime>,
    connected: &mut SlackWebSocket,
) -> Result<SocketEnd, String> {
    let mut is_asked = false;
    loop {
        let message = match tokio::time::timeout(PING_AFTER_SILENCE, connected.next()).await {
            Ok(message) => message,
            Err(_) if is_asked => return Err("Slack does not respond".to_owned()),
            Err(_) => {
                is_asked = true;
                say(connected, Message::Ping(Default::default())).await?;
                continue;
            }
        };
        is_asked = false;
        let text = match message {
            Some(Ok(Message::Text(text))) => text,
            // The library queues the pong; flushing sends it now.
            Some(Ok(Message::Ping(_))) => {
                connected
                    .flush()
                    .await
                    .map_err(|error| format!("the connection broke: {error}"))?;
                continue;
            }
            Some(Ok(Message::Close(_))) | None => {
                return Err("Slack closed the connection".to_owned());
            }
            Some(Ok(_)) => continue,
            Some(Err(error)) => return Err(format!("the connection broke: {error}")),
        };
        let envelope: Value = match json_text::parse(&text) {
            Ok(envelope) => envelope,
            Err(error) => {
                tracing::warn!(
                    connection = runtime.bound.name,
                    "ignored a message of Slack that is not JSON: {error}"
                );
                continue;
            }
        };
        match envelope["type"].as_str() {
            Some("disconnect") if envelope["reason"] == "link_disabled" => {
                return Err("socket mode is disabled in the settings of the Slack app".to_owned());
            }
            Some("disconnect") => {
                let reason = envelope["reason"].as_str().unwrap_or("without a reason");
                let reason = reason.escape_debug().take(100).collect();
                return Ok(SocketEnd::Refresh { reason });
            }
            Some("hello") => tracing::debug!(
                connection = runtime.bound.name,
                "connected to Slack through a WebSocket"
            ),
            _ => {
                if take(slack, runtime, &envelope).await
                    && let Some(acknowledgement) = acknowledgement(&envelope)
                {
                    say(connected, Message::text(acknowledgement.to_string())).await?;
                }
            }
        }
    }
}

/// Returns the acknowledgement of an envelope. It contains the response to a slash command.
fn acknowledgement(envelope: &Value) -> Option<Value> {
    let id = envelope["envelope_id"].as_str()?;
    Some(if envelope["type"] == SLASH_COMMANDS {
        json!({"envelope_id": id, "payload": super::command_reply()})
    } else {
        json!({"envelope_id": id})
    })
}

/// Sends a message.
async fn say(connected: &mut SlackWebSocket, message: Message) -> Result<(), String> {
    connected
        .send(message)
        .await
        .map_err(|error| format!("the connection broke: {error}"))
}

/// Handles an envelope. Returns true if it can be acknowledged.
async fn take(slack: &SlackConnector, runtime: &Arc<ConnectionRuntime>, envelope: &Value) -> bool {
    let payload = &envelope["payload"];
    let read = if envelope["type"] == SLASH_COMMANDS {
        Err(super::ignored_command(
            payload["command"].as_str().unwrap_or_default(),
        ))
    } else {
        slack.read(payload)
    };
    match read {
        Ok(ParsedRequest::Event(event)) => match platforms::accept_event(runtime, *event).await {
            Ok(_) => true,
            Err(error) => {
                tracing::warn!(
                    connection = runtime.bound.name,
                    "could not accept an event: {error}"
                );
                !error.is_retryable
            }
        },
        Ok(ParsedRequest::Press(press)) => {
            let verdict = runtime.press(&press);
            // Slack requires the acknowledgement within three seconds, so the report is sent in the
            // background.
            let (runtime, press) = (Arc::clone(runtime), *press);
            tokio::spawn(async move { runtime.platform.report_outcome(&press, &verdict).await });
            true
        }
        Ok(ParsedRequest::Answer(_)) => true,
        Ok(ParsedRequest::Ignored(ignored, _)) | Err(ignored) => {
            ignored.log(runtime);
            true
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refresh_waits_grow_for_short_connections() {
        let waits: Vec<u64> = (0..10).map(|count| refresh_wait(count).as_secs()).collect();
        assert_eq!(waits, [0, 0, 1, 2, 4, 8, 16, 32, 60, 60]);
    }
}

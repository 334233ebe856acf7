//! Socket mode: this side opens a WebSocket to Slack, which delivers events over it. So an app needs no address of its own.
//!
//! Each envelope is acknowledged once what it brings is on disk. One that is not is delivered again, perhaps over another
//! connection.

use std::sync::Arc;
use std::time::Duration;

use futures::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::{WebSocketStream, client_async_with_config};
use url::Url;

use super::{Slack, well};
use crate::desk::Desk;
use crate::http::{self, Failure};
use crate::platforms::{self, Heard};

/// The largest message, in bytes.
const LARGEST: usize = 1024 * 1024;
/// How long it may take to connect.
const CONNECT: Duration = Duration::from_secs(15);
/// After so long a silence the other side is asked whether it is there; after another, it is not.
const SILENCE: Duration = Duration::from_secs(30);

/// How to get a connection.
pub(super) struct Socket {
    base: String,
    token: String,
}

/// Why a connection is over.
enum Over {
    /// Slack wants another one to be opened, as it does every few hours.
    Refresh,
}

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

type Connected = WebSocketStream<Box<dyn Stream>>;

impl Socket {
    pub(super) fn new(base: &str, token: &str) -> Socket {
        Socket {
            base: base.to_owned(),
            token: token.to_owned(),
        }
    }

    /// Receives until that fails.
    pub(super) async fn receive(&self, slack: &Slack, desk: &Arc<Desk>) -> Result<(), String> {
        loop {
            let url = match self.address().await {
                Ok(url) => url,
                Err(Failure::Later(wait)) => {
                    tokio::time::sleep(wait).await;
                    continue;
                }
                Err(failure) => return Err(failure.to_string()),
            };
            let connecting = tokio::time::timeout(CONNECT, connect(&url)).await;
            let mut connected =
                connecting.map_err(|_| "Slack took too long to connect".to_owned())??;
            let Over::Refresh = attend(slack, desk, &mut connected).await?;
            let _ = connected.close(None).await;
        }
    }

    /// Where to connect to. It is good for one connection, and a secret.
    async fn address(&self) -> Result<Url, Failure> {
        let request = http::client()
            .await?
            .post(format!("{}/apps.connections.open", self.base));
        let answer = well(http::done(request.bearer_auth(&self.token)).await?)?;
        let wrong = || Failure::Refused("it named no address for a WebSocket".to_owned());
        let url = Url::parse(answer["url"].as_str().unwrap_or_default()).map_err(|_| wrong())?;
        // Without TLS only where the API is spoken with in the same way.
        let is_plain = url.scheme() == "ws" && self.base.starts_with("http://");
        if url.scheme() == "wss" || is_plain {
            Ok(url)
        } else {
            Err(wrong())
        }
    }
}

async fn connect(url: &Url) -> Result<Connected, String> {
    let unreached = |error: &dyn std::error::Error| format!("Slack can't be reached: {error}");
    let (Some(host), Some(port)) = (url.host_str(), url.port_or_known_default()) else {
        return Err("Slack named an address without a host".to_owned());
    };
    let stream = TcpStream::connect((host, port))
        .await
        .map_err(|error| unreached(&error))?;
    let stream: Box<dyn Stream> = match url.scheme() {
        "wss" => {
            let config = tokio::task::spawn_blocking(goondan_tls::with_system_certificates).await;
            let connector =
                TlsConnector::from(Arc::new(config.map_err(|error| unreached(&error))?));
            let name = ServerName::try_from(host.to_owned()).map_err(|error| unreached(&error))?;
            Box::new(
                connector
                    .connect(name, stream)
                    .await
                    .map_err(|error| unreached(&error))?,
            )
        }
        _ => Box::new(stream),
    };
    let config = WebSocketConfig::default()
        .max_message_size(Some(LARGEST))
        .max_frame_size(Some(LARGEST));
    let shaken = client_async_with_config(url.as_str(), stream, Some(config)).await;
    // An error may hold the address, which is a secret.
    shaken
        .map(|(connected, _)| connected)
        .map_err(|_| "Slack did not take the connection".to_owned())
}

/// Takes what comes until the connection is over.
async fn attend(
    slack: &Slack,
    desk: &Arc<Desk>,
    connected: &mut Connected,
) -> Result<Over, String> {
    let mut is_asked = false;
    loop {
        let message = match tokio::time::timeout(SILENCE, connected.next()).await {
            Ok(message) => message,
            Err(_) if is_asked => return Err("Slack is silent".to_owned()),
            Err(_) => {
                is_asked = true;
                say(connected, Message::Ping(Default::default())).await?;
                continue;
            }
        };
        is_asked = false;
        let text = match message {
            Some(Ok(Message::Text(text))) => text,
            // The library answers a ping with the next that is sent, or now.
            Some(Ok(Message::Ping(_))) => {
                connected
                    .flush()
                    .await
                    .map_err(|error| format!("the connection broke: {error}"))?;
                continue;
            }
            Some(Ok(Message::Close(_))) | None => {
                return Err("Slack has closed the connection".to_owned());
            }
            Some(Ok(_)) => continue,
            Some(Err(error)) => return Err(format!("the connection broke: {error}")),
        };
        let Ok(envelope) = serde_json::from_str::<Value>(&text) else {
            continue;
        };
        match envelope["type"].as_str() {
            Some("disconnect") if envelope["reason"] == "link_disabled" => {
                return Err("socket mode is switched off in the settings of the app".to_owned());
            }
            Some("disconnect") => return Ok(Over::Refresh),
            Some("hello") => tracing::debug!(
                connection = desk.bound.name,
                "Slack delivers over a WebSocket"
            ),
            _ => {
                if take(slack, desk, &envelope).await
                    && let Some(id) = envelope["envelope_id"].as_str()
                {
                    say(
                        connected,
                        Message::text(json!({"envelope_id": id}).to_string()),
                    )
                    .await?;
                }
            }
        }
    }
}

async fn say(connected: &mut Connected, message: Message) -> Result<(), String> {
    connected
        .send(message)
        .await
        .map_err(|error| format!("the connection broke: {error}"))
}

/// Whether an envelope needs not be delivered again.
async fn take(slack: &Slack, desk: &Arc<Desk>, envelope: &Value) -> bool {
    match slack.read(&envelope["payload"]) {
        Some(Heard::Event(event)) => match platforms::take(desk, *event).await {
            Ok(_) => true,
            Err(error) => {
                tracing::warn!(
                    connection = desk.bound.name,
                    "an event was not taken: {error}"
                );
                !error.is_passing
            }
        },
        Some(Heard::Press(press)) => {
            let verdict = desk.press(&press);
            // Slack waits three seconds for the acknowledgement, and it needs none of this.
            let (desk, press) = (Arc::clone(desk), *press);
            tokio::spawn(async move { desk.platform.tell(&press, &verdict).await });
            true
        }
        Some(Heard::Answer(_)) | None => true,
    }
}

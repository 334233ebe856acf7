//! The HTTP clients that all model clients share. The first call creates them.

use std::sync::Arc;
use std::time::Duration;

use goondan_core::ports::model::ModelError;
use tokio::sync::OnceCell;

use crate::errors::configuration_error;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(20);
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum number of idle connections to a host. As many agents may call a model at the same time.
const MAX_IDLE_CONNECTIONS: usize = 128;

/// Variables that name a proxy for URLs without TLS.
const PROXY_VARIABLES: [&str; 4] = ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];

/// Maximum number of bytes that are read of an unexpected answer.
const MAX_PROBE_BYTES: usize = 2048;

/// Shared HTTP clients. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct HttpClients {
    shared: Arc<LazyClients>,
}

/// A client without TLS and a client with TLS. Creating a client with TLS is slow, because it reads
/// the system's certificates, and a server on this machine needs none.
#[derive(Default)]
struct LazyClients {
    plain: OnceCell<reqwest::Client>,
    secure: OnceCell<reqwest::Client>,
}

/// Answer of a URL to a plain GET.
pub(crate) struct ProbeAnswer {
    pub(crate) status: u16,
    pub(crate) body: String,
}

impl HttpClients {
    /// Returns the client for URLs with or without TLS.
    ///
    /// # Errors
    /// The client cannot be set up, for example because of a broken proxy setting.
    pub(crate) async fn client(&self, is_secure: bool) -> Result<&reqwest::Client, ModelError> {
        let unusable = |reason: String| {
            configuration_error(
                format!("The HTTP client cannot be set up: {reason}."),
                "Check the proxy settings (HTTPS_PROXY).",
            )
        };
        // A proxy may require TLS itself.
        if !is_secure && !has_proxy() {
            let create = || async {
                new_client(goondan_tls::without_certificates()).map_err(|error| error_chain(&error))
            };
            return self
                .shared
                .plain
                .get_or_try_init(create)
                .await
                .map_err(unusable);
        }
        // Certificates are read from files, which would block a thread of the runtime.
        let create = || async {
            let client =
                tokio::task::spawn_blocking(|| new_client(goondan_tls::with_system_certificates()))
                    .await;
            client
                .map_err(|error| error.to_string())?
                .map_err(|error| error_chain(&error))
        };
        self.shared
            .secure
            .get_or_try_init(create)
            .await
            .map_err(unusable)
    }

    /// Returns the answer of `url` to a GET without a key, to find out the cause of a failure.
    pub(crate) async fn probe(&self, url: &str) -> Option<ProbeAnswer> {
        let client = self.client(url.starts_with("https:")).await.ok()?;
        let mut response = client.get(url).timeout(PROBE_TIMEOUT).send().await.ok()?;
        let mut body = Vec::new();
        while let Ok(Some(piece)) = response.chunk().await {
            body.extend_from_slice(&piece);
            if body.len() >= MAX_PROBE_BYTES {
                body.truncate(MAX_PROBE_BYTES);
                break;
            }
        }
        let body = String::from_utf8_lossy(&body).into_owned();
        Some(ProbeAnswer {
            status: response.status().as_u16(),
            body,
        })
    }
}

/// Returns true if a proxy for URLs without TLS is configured.
fn has_proxy() -> bool {
    PROXY_VARIABLES
        .iter()
        .any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()))
}

/// Creates a client that neither retries nor follows redirections.
fn new_client(tls: rustls::ClientConfig) -> Result<reqwest::Client, reqwest::Error> {
    reqwest::Client::builder()
        .user_agent(concat!("goondan/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_TIMEOUT)
        // The engine retries, counts the retries and reports them.
        .retry(reqwest::retry::never())
        // A redirect would carry the key to a server that the user did not name.
        .redirect(reqwest::redirect::Policy::none())
        .pool_max_idle_per_host(MAX_IDLE_CONNECTIONS)
        .http2_keep_alive_interval(Some(KEEP_ALIVE_INTERVAL))
        .tls_backend_preconfigured(goondan_tls::with_http2(tls))
        .build()
}

/// Phrases of reqwest and hyper that precede the reason of every failed connection.
const EMPTY_PHRASES: [&str; 3] = [
    "error sending request",
    "client error",
    "error trying to connect",
];

/// Returns an error with its causes, without empty phrases and without the URL that reqwest appends.
pub(crate) fn error_chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut reasons: Vec<String> = Vec::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let text = error.to_string();
        let text = text
            .split(" for url (")
            .next()
            .unwrap_or_default()
            .to_owned();
        if reasons.last().is_none_or(|last| !last.ends_with(&text)) {
            reasons.push(text);
        }
        next = error.source();
    }
    let has_content = |reason: &String| {
        !EMPTY_PHRASES
            .iter()
            .any(|phrase| reason.starts_with(phrase))
    };
    if reasons.iter().any(has_content) {
        reasons.retain(has_content);
    }
    reasons.join(": ")
}

//! The HTTP clients that all model clients share, made with the first call.

use std::sync::Arc;
use std::time::Duration;

use goondan_core::ports::model::ModelError;
use tokio::sync::OnceCell;

use crate::error::configuration;

const CONNECT: Duration = Duration::from_secs(30);
const KEEP_ALIVE: Duration = Duration::from_secs(20);
const PROBE: Duration = Duration::from_secs(5);

/// How many connections to a host are kept: as many instances may ask at the same time, again and again.
const IDLE_CONNECTIONS: usize = 128;

/// Variables that name a proxy for addresses without TLS.
const PROXIES: [&str; 4] = ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];

/// How much of an unexpected answer is read, in bytes.
const PROBE_LIMIT: usize = 2048;

/// A handle on the shared clients.
#[derive(Clone, Default)]
pub(crate) struct Http {
    shared: Arc<Clients>,
}

/// One for each need: most of the work of making one is reading the system's certificates, which a server on this machine
/// does not want.
#[derive(Default)]
struct Clients {
    plain: OnceCell<Client>,
    secure: OnceCell<Client>,
}

/// What a call needs.
pub(crate) struct Client {
    pub(crate) genai: genai::Client,
    pub(crate) plain: reqwest::Client,
}

/// What an address answers to a plain GET.
pub(crate) struct Probe {
    pub(crate) status: u16,
    pub(crate) body: String,
}

impl Http {
    /// The client for addresses with or without TLS; the first caller makes it.
    pub(crate) async fn client(&self, is_secure: bool) -> Result<&Client, ModelError> {
        let unusable = |reason: String| {
            configuration(
                format!("cannot set up the HTTP client: {reason}"),
                "check the proxy settings (HTTPS_PROXY)",
            )
        };
        if !is_secure && let Some(client) = self.shared.plain.get() {
            return Ok(client);
        }
        // A proxy may want TLS itself.
        if !is_secure && !has_proxy() {
            let made = || async {
                make(goondan_tls::without_certificates()).map_err(|error| chain(&error))
            };
            return self
                .shared
                .plain
                .get_or_try_init(made)
                .await
                .map_err(unusable);
        }
        // Certificates are read from files: off the runtime's threads.
        let made = || async {
            let made =
                tokio::task::spawn_blocking(|| make(goondan_tls::with_system_certificates())).await;
            made.map_err(|error| error.to_string())?
                .map_err(|error| chain(&error))
        };
        self.shared
            .secure
            .get_or_try_init(made)
            .await
            .map_err(unusable)
    }

    /// What `url` answers when asked without a key, to find out what went wrong.
    pub(crate) async fn probe(&self, url: &str) -> Option<Probe> {
        let plain = &self.client(url.starts_with("https:")).await.ok()?.plain;
        let mut response = plain.get(url).timeout(PROBE).send().await.ok()?;
        let mut body = Vec::new();
        while let Ok(Some(piece)) = response.chunk().await {
            body.extend_from_slice(&piece);
            if body.len() >= PROBE_LIMIT {
                body.truncate(PROBE_LIMIT);
                break;
            }
        }
        Some(Probe {
            status: response.status().as_u16(),
            body: String::from_utf8_lossy(&body).into_owned(),
        })
    }
}

/// Whether the environment names a proxy.
fn has_proxy() -> bool {
    PROXIES
        .iter()
        .any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()))
}

fn make(tls: rustls::ClientConfig) -> Result<Client, reqwest::Error> {
    let plain = reqwest::Client::builder()
        .user_agent(concat!("goondan/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT)
        // Retries are the engine's: it counts them and tells about them.
        .retry(reqwest::retry::never())
        // A redirect would carry the key to somebody it was not given to.
        .redirect(reqwest::redirect::Policy::none())
        .pool_max_idle_per_host(IDLE_CONNECTIONS)
        .http2_keep_alive_interval(Some(KEEP_ALIVE))
        .tls_backend_preconfigured(goondan_tls::with_http2(tls))
        .build()?;
    let genai = genai::Client::builder().with_reqwest(plain.clone()).build();
    Ok(Client {
        genai: genai.expect("nothing can fail with a client given"),
        plain,
    })
}

/// What reqwest and hyper say of every failure to connect, before the reason.
const EMPTY_PHRASES: [&str; 3] = [
    "error sending request",
    "client error",
    "error trying to connect",
];

/// An error with what caused it, without empty phrases and without the address that reqwest puts behind it.
pub(crate) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
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
    let telling = |reason: &String| {
        !EMPTY_PHRASES
            .iter()
            .any(|phrase| reason.starts_with(phrase))
    };
    if reasons.iter().any(telling) {
        reasons.retain(telling);
    }
    reasons.join(": ")
}

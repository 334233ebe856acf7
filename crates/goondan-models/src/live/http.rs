//! The one HTTP client that all clients share, made with the first call.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use goondan_runtime::ports::model::ModelError;

use crate::error::configuration;

const CONNECT: Duration = Duration::from_secs(30);
const KEEP_ALIVE: Duration = Duration::from_secs(20);
const PROBE: Duration = Duration::from_secs(5);

/// How much of an unexpected answer is read, in bytes.
const PROBE_LIMIT: usize = 2048;

/// A handle on the shared client.
#[derive(Clone, Default)]
pub(crate) struct Http {
    shared: Arc<OnceLock<Result<Client, String>>>,
}

/// What a call needs.
pub(crate) struct Client {
    pub(crate) genai: genai::Client,
    plain: reqwest::Client,
}

/// What an address answers to a plain GET.
pub(crate) struct Probe {
    pub(crate) status: u16,
    pub(crate) body: String,
}

impl Http {
    /// The client; the first caller sets up TLS.
    pub(crate) fn client(&self) -> Result<&Client, ModelError> {
        let made = self.shared.get_or_init(|| make().map_err(|error| chain(&error)));
        made.as_ref().map_err(|reason| {
            configuration(
                format!("cannot set up TLS: {reason}"),
                "install the system's certificates (Debian, Ubuntu, Alpine: the package ca-certificates)",
            )
        })
    }

    /// What `url` answers when asked without a key, to find out what went wrong.
    pub(crate) async fn probe(&self, url: &str) -> Option<Probe> {
        let plain = &self.client().ok()?.plain;
        let mut response = plain.get(url).timeout(PROBE).send().await.ok()?;
        let mut body = Vec::new();
        while let Ok(Some(piece)) = response.chunk().await {
            body.extend_from_slice(&piece);
            if body.len() >= PROBE_LIMIT {
                body.truncate(PROBE_LIMIT);
                break;
            }
        }
        Some(Probe { status: response.status().as_u16(), body: String::from_utf8_lossy(&body).into_owned() })
    }
}

fn make() -> Result<Client, reqwest::Error> {
    // reqwest is built without a TLS provider of its own. Where the program has installed one already, that one stays.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let plain = reqwest::Client::builder()
        .user_agent(concat!("gdn/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT)
        // Retries are the engine's: it counts them and tells about them.
        .retry(reqwest::retry::never())
        // A redirect would carry the key to whom it was not given to.
        .redirect(reqwest::redirect::Policy::none())
        .pool_max_idle_per_host(4)
        .http2_keep_alive_interval(Some(KEEP_ALIVE))
        .build()?;
    let genai =
        genai::Client::builder().with_reqwest(plain.clone()).build().expect("nothing to fail with a client given");
    Ok(Client { genai, plain })
}

/// An error with what caused it, without the address that reqwest puts behind it.
pub(crate) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut reasons: Vec<String> = Vec::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let text = error.to_string();
        let text = text.split(" for url (").next().unwrap_or_default().to_owned();
        if reasons.last().is_none_or(|last| !last.ends_with(&text)) {
            reasons.push(text);
        }
        next = error.source();
    }
    reasons.join(": ")
}

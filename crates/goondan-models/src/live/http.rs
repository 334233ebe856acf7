//! The one HTTP client that all clients share, made with the first call.

use std::sync::Arc;
use std::time::Duration;

use goondan_runtime::ports::model::ModelError;
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt as _;
use tokio::sync::OnceCell;

use crate::error::configuration;

const CONNECT: Duration = Duration::from_secs(30);
const KEEP_ALIVE: Duration = Duration::from_secs(20);
const PROBE: Duration = Duration::from_secs(5);

/// How much of an unexpected answer is read, in bytes.
const PROBE_LIMIT: usize = 2048;

/// A handle on the shared client.
#[derive(Clone, Default)]
pub(crate) struct Http {
    shared: Arc<OnceCell<Client>>,
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
    /// The client; the first caller sets up TLS, off the runtime's threads since that reads the system's certificates.
    pub(crate) async fn client(&self) -> Result<&Client, ModelError> {
        let made = || async {
            let made = tokio::task::spawn_blocking(make).await.map_err(|error| error.to_string())?;
            made.map_err(|error| chain(&error))
        };
        self.shared.get_or_try_init(made).await.map_err(|reason: String| {
            configuration(format!("cannot set up the HTTP client: {reason}"), "check the proxy settings (HTTPS_PROXY)")
        })
    }

    /// What `url` answers when asked without a key, to find out what went wrong.
    pub(crate) async fn probe(&self, url: &str) -> Option<Probe> {
        let plain = &self.client().await.ok()?.plain;
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
    let plain = reqwest::Client::builder()
        .user_agent(concat!("goondan/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT)
        // Retries are the engine's: it counts them and tells about them.
        .retry(reqwest::retry::never())
        // A redirect would carry the key to somebody it was not given to.
        .redirect(reqwest::redirect::Policy::none())
        .pool_max_idle_per_host(256)
        .http2_keep_alive_interval(Some(KEEP_ALIVE))
        .tls_backend_preconfigured(tls_config())
        .build()?;
    let genai = genai::Client::builder().with_reqwest(plain.clone()).build();
    Ok(Client { genai: genai.expect("nothing can fail with a client given"), plain })
}

/// TLS by ring with the certificates of the system. A system without any can still use plain HTTP, for local models.
fn tls_config() -> ClientConfig {
    let builder = || {
        ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("ring supports the default protocol versions")
    };
    let mut config = match builder().with_platform_verifier() {
        Ok(builder) => builder.with_no_client_auth(),
        Err(_) => builder().with_root_certificates(RootCertStore::empty()).with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config
}

/// What reqwest and hyper say of every failure to connect, before the reason.
const EMPTY_PHRASES: [&str; 3] = ["error sending request", "client error", "error trying to connect"];

/// An error with what caused it, without empty phrases and without the address that reqwest puts behind it.
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
    let telling = |reason: &String| !EMPTY_PHRASES.iter().any(|phrase| reason.starts_with(phrase));
    if reasons.iter().any(telling) {
        reasons.retain(telling);
    }
    reasons.join(": ")
}

//! The HTTP client for web servers.

use std::sync::OnceLock;
use std::time::Duration;

use reqwest::Client;
use reqwest::redirect::Policy;

/// Connect timeout.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum number of redirects.
const MAX_REDIRECTS: usize = 5;

/// The client of all servers, created for the first one. Creating it is slow because it reads the
/// system's certificates.
static HTTP_CLIENT: OnceLock<Result<Client, String>> = OnceLock::new();

/// Returns the client.
///
/// # Errors
///
/// Fails with the reason.
pub(crate) async fn client() -> Result<Client, String> {
    let created =
        tokio::task::spawn_blocking(|| HTTP_CLIENT.get_or_init(build_client).clone()).await;
    created.map_err(|panic| panic.to_string())?
}

/// Builds the shared HTTP client.
fn build_client() -> Result<Client, String> {
    Client::builder()
        .user_agent(concat!("goondan/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_TIMEOUT)
        .redirect(Policy::custom(|attempt| {
            let first = attempt.previous().first();
            let stays = first.is_some_and(|first| first.origin() == attempt.url().origin());
            match stays && attempt.previous().len() <= MAX_REDIRECTS {
                true => attempt.follow(),
                // Keys and tokens are sent only to the host in the YAML.
                false => attempt.stop(),
            }
        }))
        .tls_backend_preconfigured(goondan_tls::with_system_certificates())
        .build()
        .map_err(|error| error.to_string())
}

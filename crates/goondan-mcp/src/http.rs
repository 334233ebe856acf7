//! The HTTP client that servers are reached with.

use std::sync::OnceLock;
use std::time::Duration;

use reqwest::Client;
use reqwest::redirect::Policy;

/// How long it may take to reach a server.
const CONNECT: Duration = Duration::from_secs(30);
/// How many redirects are followed.
const MOST_REDIRECTS: usize = 5;

/// One for all servers, made when the first is reached. It takes a while: the certificates of the system are read.
static CLIENT: OnceLock<Result<Client, String>> = OnceLock::new();

/// The client.
///
/// # Errors
/// Why there is none.
pub(crate) async fn client() -> Result<Client, String> {
    let made = tokio::task::spawn_blocking(|| CLIENT.get_or_init(make).clone()).await;
    made.map_err(|panic| panic.to_string())?
}

fn make() -> Result<Client, String> {
    Client::builder()
        .user_agent(concat!("goondan/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT)
        .redirect(Policy::custom(|attempt| {
            let first = attempt.previous().first();
            let stays = first.is_some_and(|first| first.origin() == attempt.url().origin());
            match stays && attempt.previous().len() <= MOST_REDIRECTS {
                true => attempt.follow(),
                // Keys and tokens go to the address in the YAML and nowhere else.
                false => attempt.stop(),
            }
        }))
        .tls_backend_preconfigured(goondan_tls::with_system_certificates())
        .build()
        .map_err(|error| error.to_string())
}

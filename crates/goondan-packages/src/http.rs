//! The HTTP client with its restrictions. It requires TLS except for this machine, sends no
//! credentials to other hosts, and limits the size of answers.

use std::net::IpAddr;
use std::time::Duration;

use chrono::Utc;
use goondan_core::rate_limit;
use reqwest::header::RETRY_AFTER;
use reqwest::redirect::Policy;
use reqwest::{Client, RequestBuilder, Response, StatusCode};
use url::Url;

use crate::error::{PackageError, Result};

/// Connect timeout.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// Maximum silence within an answer.
const READ_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum total time of a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(15 * 60);
/// Maximum number of redirects.
const MAX_REDIRECTS: usize = 5;
/// Maximum attempts of a request that the host defers.
const MAX_ATTEMPTS: u32 = 6;
/// Longest wait between two attempts. A host that requests a longer one counts as unavailable.
const MAX_WAIT: Duration = Duration::from_secs(60);
/// Maximum size in bytes of an answer that is not an archive.
pub(crate) const MAX_TEXT_RESPONSE_BYTES: usize = 4 * 1024 * 1024;

/// Returns true if `url` refers to this machine.
pub(crate) fn is_local(url: &Url) -> bool {
    match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// Returns true if `url` refers to this machine, or contains an address of a private network.
pub(crate) fn is_internal(url: &Url) -> bool {
    let is_private = |address| match address {
        IpAddr::V4(address) => address.is_private() || address.is_broadcast(),
        IpAddr::V6(address) => address.is_unique_local(),
    };
    is_local(url) || address_of(url).is_some_and(is_private) || is_link_local(url)
}

/// Returns true if `url` contains a link-local or unspecified address. Services with credentials of a
/// cloud have such addresses, and packages do not.
pub(crate) fn is_link_local(url: &Url) -> bool {
    address_of(url).is_some_and(|address| match address {
        IpAddr::V4(address) => address.is_link_local() || address.is_unspecified(),
        IpAddr::V6(address) => address.is_unicast_link_local() || address.is_unspecified(),
    })
}

/// Returns the address in `url`, in any notation; `None` for a name.
fn address_of(url: &Url) -> Option<IpAddr> {
    // A URL of `ssh` contains each host as text.
    let host = Url::parse(&format!("https://{}", url.host_str()?)).ok()?;
    let address = match host.host()? {
        url::Host::Domain(_) => return None,
        url::Host::Ipv4(address) => IpAddr::V4(address),
        url::Host::Ipv6(address) => IpAddr::V6(address),
    };
    Some(address.to_canonical())
}

/// Returns true if a request to `url` is permitted.
pub(crate) fn is_allowed(url: &Url) -> bool {
    let is_encrypted = url.scheme() == "https" && !is_link_local(url);
    is_encrypted || (url.scheme() == "http" && is_local(url))
}

/// Creates a client. This is slow because it reads the system's certificates.
pub(crate) async fn client() -> Result<Client> {
    let build_client = || {
        Client::builder()
            .user_agent(concat!("goondan/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(READ_TIMEOUT)
            .timeout(REQUEST_TIMEOUT)
            .redirect(Policy::custom(|attempt| {
                // A remote host must not redirect to this machine or to a private network.
                let was_local = attempt.previous().iter().all(is_local);
                let was_internal = attempt.previous().iter().all(is_internal);
                let is_outside = !is_internal(attempt.url())
                    || was_local
                    || (was_internal && !is_local(attempt.url()));
                let may = is_allowed(attempt.url()) && is_outside;
                if may && attempt.previous().len() <= MAX_REDIRECTS {
                    attempt.follow()
                } else {
                    attempt.error("it redirects to a URL that packages must not come from")
                }
            }))
            .tls_backend_preconfigured(goondan_tls::with_system_certificates())
            .build()
    };
    let client = tokio::task::spawn_blocking(build_client)
        .await
        .map_err(|panic| PackageError::source(panic.to_string()))?;
    client.map_err(|error| {
        PackageError::source(format!("The HTTP client cannot be created: {error}."))
    })
}

/// Returns the host of a URL, with the port if it is not the usual one.
pub(crate) fn host_of(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port()
        .map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// Parses a URL, and checks that requests to it are permitted.
pub(crate) fn parse(address: &str) -> Result<Url> {
    let url = Url::parse(address)
        .map_err(|error| PackageError::source(format!("`{address}` is not a URL: {error}.")))?;
    if is_link_local(&url) {
        Err(PackageError::source(format!(
            "`{address}` is a link-local address, which can't be the source of a package."
        ))
        .suggest("use the host name of a registry or repository"))
    } else if is_allowed(&url) {
        Ok(url)
    } else {
        Err(
            PackageError::source(format!("`{address}` must begin with `https://`."))
                .suggest("only a registry on this machine may be reached without TLS"),
        )
    }
}

/// Sends a request. Fails only if there is no response; error statuses are returned. Repeats a
/// request that the host defers with 429 or 503, because such a request had no effect.
pub(crate) async fn send(mut request: RequestBuilder, host: &str) -> Result<Response> {
    let mut attempt = 0;
    loop {
        let repetition = request.try_clone();
        let answer = request
            .send()
            .await
            .map_err(|error| unreachable_error(host, &error))?;
        match (repetition, requested_wait(&answer, attempt)) {
            (Some(repetition), Some(wait)) => {
                tokio::time::sleep(wait).await;
                (request, attempt) = (repetition, attempt + 1);
            }
            _ => return Ok(answer),
        }
    }
}

/// Returns the wait before the next attempt; `None` if the answer is final.
fn requested_wait(answer: &Response, attempt: u32) -> Option<Duration> {
    let is_deferred = matches!(
        answer.status(),
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE
    );
    let stated_wait = answer.headers().get(RETRY_AFTER);
    let stated_wait =
        stated_wait.and_then(|wait| rate_limit::retry_after(wait.to_str().ok()?, Utc::now()));
    let wait = stated_wait.unwrap_or(Duration::from_secs(1 << attempt));
    (is_deferred && attempt + 1 < MAX_ATTEMPTS && wait <= MAX_WAIT).then_some(wait)
}

/// Reads the body of an answer with a size limit.
pub(crate) async fn body(mut response: Response, largest: usize, host: &str) -> Result<Vec<u8>> {
    let too_large_error = || {
        PackageError::source(format!(
            "The answer of {host} is larger than {} MiB.",
            largest / 1024 / 1024
        ))
    };
    if response
        .content_length()
        .is_some_and(|length| length > largest as u64)
    {
        return Err(too_large_error());
    }
    let mut bytes = Vec::new();
    while let Some(piece) = response
        .chunk()
        .await
        .map_err(|error| unreachable_error(host, &error))?
    {
        if bytes.len() + piece.len() > largest {
            return Err(too_large_error());
        }
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes)
}

/// Creates the error for a host without a response, with the innermost cause.
fn unreachable_error(host: &str, error: &reqwest::Error) -> PackageError {
    let mut reason: &dyn std::error::Error = error;
    while let Some(source) = reason.source() {
        reason = source;
    }
    PackageError::source(format!("{host} cannot be reached: {reason}.")).suggest(
        "check the URL and the network; `gdn package install --offline` installs from the cache",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_local_addresses_are_no_sources_and_private_ones_are_internal() {
        for (address, is_source, is_inside) in [
            ("https://169.254.169.254/x", false, true),
            ("https://0xa9fea9fe/x", false, true),
            ("https://[fe80::1]/x", false, true),
            ("https://[::ffff:169.254.169.254]/x", false, true),
            ("https://0.0.0.0/x", false, true),
            ("https://10.1.2.3/x", true, true),
            ("https://[fd00::1]/x", true, true),
            ("https://localhost/x", true, true),
            ("https://127.0.0.1/x", true, true),
            ("https://192.0.2.1/x", true, false),
            ("https://registry.example/x", true, false),
        ] {
            let url = Url::parse(address).unwrap();
            assert_eq!(parse(address).is_ok(), is_source, "{address}");
            assert_eq!(is_internal(&url), is_inside, "{address}");
        }
        assert!(is_link_local(
            &Url::parse("ssh://git@169.254.1.1/r").unwrap()
        ));
    }

    #[test]
    fn a_retry_waits_for_the_duration_in_retry_after() {
        let wait = |stated: &str, attempt| {
            let answer = axum::http::Response::builder()
                .status(StatusCode::TOO_MANY_REQUESTS)
                .header(RETRY_AFTER, stated);
            requested_wait(&Response::from(answer.body("").unwrap()), attempt)
        };
        assert_eq!(wait("7", 0), Some(Duration::from_secs(7)));
        assert_eq!(wait("soon", 2), Some(Duration::from_secs(4)));
        let past = "Thu, 01 Jan 1970 00:00:00 GMT";
        assert_eq!(wait(past, 2), Some(Duration::ZERO));
        assert_eq!(wait("Tue, 31 Dec 2999 00:00:00 GMT", 0), None);
        assert_eq!(wait("0", MAX_ATTEMPTS), None);
    }
}

//! Access control of the server.
//!
//! Every request needs the token. Requests from a web page are refused unless the page's origin is
//! allowed. Requests for a foreign host name are refused: this stops pages that point their own
//! name at this machine (DNS rebinding).

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, CONTENT_LENGTH, HOST, ORIGIN};
use axum::http::{HeaderMap, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use goondan::spec::Code;
use rand::RngExt;
use sha2::{Digest, Sha256};

use crate::problem::ApiProblem;
use crate::received_body::too_large_body;
use crate::studio::SignIns;

/// Secret of the server's clients. `Debug` does not print it.
#[derive(Clone, PartialEq, Eq)]
pub struct ServerToken(String);

impl ServerToken {
    /// Returns a random token of 256 bits.
    pub fn random() -> Self {
        let bytes: [u8; 32] = rand::rng().random();
        ServerToken(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// Parses a token; `None` if it is shorter than 16 bytes or contains characters that a header
    /// cannot carry.
    pub fn new(text: impl Into<String>) -> Option<Self> {
        let text = text.into();
        (text.len() >= 16 && text.bytes().all(|byte| byte.is_ascii_graphic()))
            .then_some(ServerToken(text))
    }

    /// Returns the secret.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Returns true if the tokens are equal; compares digests, so the duration reveals nothing.
    pub(crate) fn matches(&self, other: &str) -> bool {
        Sha256::digest(self.0.as_bytes()) == Sha256::digest(other.as_bytes())
    }
}

impl fmt::Debug for ServerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

/// Names of this machine. Any local process can listen there, on another port.
const LOCAL_HOST_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// Rules for access to the server.
#[derive(Debug, Clone)]
pub struct AccessPolicy {
    /// The token that each request carries; `None` for access without a token.
    pub token: Option<ServerToken>,
    /// Host names of the server, without ports.
    pub hosts: BTreeSet<String>,
    /// Origins of pages that may use the server, such as `https://app.example.org`.
    pub origins: BTreeSet<String>,
    /// Browsers that signed in to the studio. Their session tokens are valid in place of the token.
    pub sign_ins: SignIns,
}

impl AccessPolicy {
    /// Returns access for clients on this machine that have the token.
    pub fn local(token: ServerToken) -> Self {
        AccessPolicy {
            token: Some(token),
            hosts: LOCAL_HOST_NAMES.map(str::to_owned).into(),
            origins: BTreeSet::new(),
            sign_ins: SignIns::default(),
        }
    }

    /// Checks the host, the origin and the token of a request.
    pub(crate) fn check(&self, headers: &HeaderMap, uri: &Uri) -> Result<(), ApiProblem> {
        self.check_place(headers, uri)?;
        self.check_token(headers)
    }

    /// Checks host and origin, but not the token.
    fn check_place(&self, headers: &HeaderMap, uri: &Uri) -> Result<(), ApiProblem> {
        self.check_host(headers, uri)?;
        self.check_origin(headers, uri)
    }

    /// Fails unless the request names an allowed host.
    fn check_host(&self, headers: &HeaderMap, uri: &Uri) -> Result<(), ApiProblem> {
        let is_allowed = |host: &str| {
            self.hosts
                .contains(without_port(&host.to_ascii_lowercase()))
        };
        // A second host, in another header or in the address, could be what a proxy looks at.
        let host_headers = headers.get_all(HOST).iter();
        let host_headers = host_headers.map(|host| host.to_str().unwrap_or_default());
        let mut hosts = host_headers.chain(uri.authority().map(|name| name.as_str()));
        if hosts.next().is_some_and(is_allowed) && hosts.all(is_allowed) {
            return Ok(());
        }
        Err(ApiProblem::new(
            Code::SERVE_ORIGIN,
            "This server does not accept requests for this host name.",
        )
        .suggest("To allow the host name, start the server with --allow-host NAME."))
    }

    /// Fails if the request comes from a page of another origin.
    fn check_origin(&self, headers: &HeaderMap, uri: &Uri) -> Result<(), ApiProblem> {
        let Some(origin) = headers.get(ORIGIN) else {
            return Ok(());
        };
        let is_allowed = origin
            .to_str()
            .is_ok_and(|origin| self.allows_origin(origin, headers, uri));
        if is_allowed {
            return Ok(());
        }
        Err(ApiProblem::new(
            Code::SERVE_ORIGIN,
            "This server does not accept requests from pages of this origin.",
        )
        .suggest("To allow the origin, start the server with --allow-origin ORIGIN."))
    }

    /// Allows the configured origins and the server's own pages. Another port of the same host is a
    /// different origin. A proxy may use another port and host name: its pages have the default
    /// port of an allowed name.
    pub(crate) fn allows_origin(&self, origin: &str, headers: &HeaderMap, uri: &Uri) -> bool {
        let requested_host = host(headers, uri);
        let is_own = |scheme: &str, usual: &str| {
            let Some(page) = origin.strip_prefix(scheme).map(str::to_ascii_lowercase) else {
                return false;
            };
            let without_usual = |host: &str| host.strip_suffix(usual).unwrap_or(host).to_owned();
            let is_requested_host = without_usual(&page) == without_usual(&requested_host);
            let is_proxy =
                without_port(&page) == page && !LOCAL_HOST_NAMES.contains(&page.as_str());
            (is_requested_host || is_proxy) && self.hosts.contains(without_port(&page))
        };
        self.origins.contains(origin) || is_own("http://", ":80") || is_own("https://", ":443")
    }

    /// Fails unless the request carries the server token or a session token.
    fn check_token(&self, headers: &HeaderMap) -> Result<(), ApiProblem> {
        let Some(token) = &self.token else {
            return Ok(());
        };
        if bearer_token(headers)
            .is_some_and(|sent| token.matches(sent) || self.sign_ins.has_session(sent))
        {
            return Ok(());
        }
        Err(ApiProblem::new(
            Code::SERVE_TOKEN,
            "The request has no token or a wrong token.",
        )
        .suggest(
            "Send the header `Authorization: Bearer TOKEN`. `gdn serve` prints where the token is \
            stored.",
        ))
    }
}

/// Returns the token of the `Authorization` header.
pub(crate) fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let header = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = header.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Returns the host that a request is for, with its port, in lower case.
fn host(headers: &HeaderMap, uri: &Uri) -> String {
    let name = headers
        .get(HOST)
        .and_then(|host| host.to_str().ok())
        .or(uri.authority().map(|name| name.as_str()));
    name.unwrap_or_default().to_ascii_lowercase()
}

/// Removes the port from a host name.
fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

/// Middleware that rejects requests without access.
pub(crate) async fn require_access(
    State(access): State<Arc<AccessPolicy>>,
    request: Request,
    next: Next,
) -> Response {
    match access.check(request.headers(), request.uri()) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

/// Checks the host and the origin of a request, like [`guard`], for routes that need no token.
pub(crate) async fn guard_place(
    State(access): State<Arc<AccessPolicy>>,
    request: Request,
    next: Next,
) -> Response {
    match access.check_place(request.headers(), request.uri()) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

/// If the stated length of a body exceeds `limit` bytes, replaces the body with a body that fails
/// at the first read. The handler then reports the error in the form of its protocol. Without this,
/// the server would read up to the limit first.
pub(crate) async fn replace_larger_body(
    State(limit): State<usize>,
    request: Request,
    next: Next,
) -> Response {
    let request = if is_larger(&request, limit) {
        request.map(|_| too_large_body())
    } else {
        request
    };
    next.run(request).await
}

/// Like [`replace_larger_body`], for handlers without an error form of their protocol.
pub(crate) async fn refuse_larger(
    State(limit): State<usize>,
    request: Request,
    next: Next,
) -> Response {
    if is_larger(&request, limit) {
        ApiProblem::too_large().into_response()
    } else {
        next.run(request).await
    }
}

/// Returns true if the declared length of the body exceeds `limit` bytes.
fn is_larger(request: &Request, limit: usize) -> bool {
    let content_length = request
        .headers()
        .get(CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    content_length
        .is_some_and(|length| usize::try_from(length).map_or(true, |length| length > limit))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access() -> AccessPolicy {
        AccessPolicy {
            origins: ["https://app.example".to_owned()].into(),
            ..AccessPolicy::local(ServerToken::new("0123456789abcdef").unwrap())
        }
    }

    fn code(headers: &[(&'static str, &str)]) -> Option<Code> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, value.parse().unwrap());
        }
        access()
            .check(&map, &Uri::from_static("/"))
            .err()
            .map(|problem| problem.code)
    }

    #[test]
    fn every_host_in_a_request_must_be_allowed() {
        let is_allowed = |hosts: &[&str], uri: &'static str| {
            let mut map = HeaderMap::new();
            for host in hosts {
                map.append(HOST, host.parse().unwrap());
            }
            access().check_host(&map, &Uri::from_static(uri)).is_ok()
        };
        assert!(is_allowed(&["localhost"], "/"));
        assert!(is_allowed(&["localhost"], "http://LOCALHOST:1/x"));
        assert!(is_allowed(&[], "http://localhost/x"));
        assert!(!is_allowed(&[], "/"));
        assert!(!is_allowed(&["localhost", "evil.example"], "/"));
        assert!(!is_allowed(&["localhost"], "http://evil.example/"));
    }

    #[test]
    fn a_request_needs_the_token_and_an_allowed_host() {
        let token = ("authorization", "Bearer 0123456789abcdef");
        assert_eq!(code(&[("host", "localhost:80"), token]), None);
        assert_eq!(
            code(&[
                ("host", "[::1]:80"),
                ("authorization", "bearer 0123456789abcdef")
            ]),
            None
        );
        assert_eq!(code(&[("host", "localhost")]), Some(Code::SERVE_TOKEN));
        for wrong in [
            "Bearer x",
            "Basic 0123456789abcdef",
            "0123456789abcdef",
            "Bearer",
            "Bearer 0123456789abcdef0",
        ] {
            assert_eq!(
                code(&[("host", "localhost"), ("authorization", wrong)]),
                Some(Code::SERVE_TOKEN),
                "{wrong}"
            );
        }
        for host in [
            "evil.example",
            "localhost.evil.example",
            "evil.example:localhost",
            "",
            "127.0.0.1.nip.io:1",
        ] {
            assert_eq!(
                code(&[("host", host), token]),
                Some(Code::SERVE_ORIGIN),
                "{host}"
            );
        }
    }

    #[test]
    fn a_browser_request_needs_an_allowed_origin() {
        let rest = [
            ("host", "localhost:1"),
            ("authorization", "Bearer 0123456789abcdef"),
        ];
        for (origin, is_allowed) in [
            ("https://app.example", true),
            ("http://localhost:1", true),
            ("https://app.example.evil", false),
            ("http://evil.example", false),
            ("null", false),
            ("http://localhost.evil", false),
            ("http://LOCALHOST:1", true),
            ("http://localhost:2", false),
            ("http://localhost", false),
            ("https://localhost", false),
            ("http://127.0.0.1:1", false),
        ] {
            let expected = (!is_allowed).then_some(Code::SERVE_ORIGIN);
            assert_eq!(
                code(&[rest[0], rest[1], ("origin", origin)]),
                expected,
                "{origin}"
            );
        }
    }

    #[test]
    fn origins_behind_a_proxy_must_match_an_allowed_host() {
        let mut access = access();
        access.hosts.insert("gdn.example".to_owned());
        let allows = |host: &str, origin: &str| {
            let headers = HeaderMap::from_iter([(HOST, host.parse().unwrap())]);
            access.allows_origin(origin, &headers, &Uri::from_static("/"))
        };
        for (host, origin) in [
            ("gdn.example", "https://gdn.example"),
            ("gdn.example:443", "https://gdn.example"),
            ("127.0.0.1:4747", "https://gdn.example"),
            ("gdn.example:8443", "https://gdn.example:8443"),
        ] {
            assert!(allows(host, origin), "{host} {origin}");
        }
        for (host, origin) in [
            ("gdn.example", "https://gdn.example:8443"),
            ("127.0.0.1:4747", "https://gdn.example:4747"),
            ("evil.example", "https://evil.example"),
            ("127.0.0.1:4747", "http://127.0.0.1:80"),
        ] {
            assert!(!allows(host, origin), "{host} {origin}");
        }
    }

    #[test]
    fn tokens_are_long_and_debug_output_hides_them() {
        assert_eq!(ServerToken::random().expose().len(), 64);
        assert!(
            ServerToken::new("short").is_none() && ServerToken::new("0123456789 abcdef").is_none()
        );
        assert_eq!(format!("{:?}", access().token), "Some(Token)");
    }
}

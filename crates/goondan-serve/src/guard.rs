//! Who may talk to the server.
//!
//! Every request needs the token. What a page in a browser sends is refused unless its origin is allowed, and so is a request
//! for a host name that is not the server's: a page that makes its own name point at this machine gets no further.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, CONTENT_LENGTH, HOST, ORIGIN};
use axum::http::{HeaderMap, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use goondan::spec::Code;
use http_body_util::{Full, Limited};
use rand::RngExt;
use sha2::{Digest, Sha256};

use crate::problem::Problem;
use crate::studio::SignIns;

/// What a client has to know. It is never shown by `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// A new one, of 256 random bits.
    pub fn random() -> Self {
        let bytes: [u8; 32] = rand::rng().random();
        Token(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// A given one; `None` where it is too short to be one, or holds what a header can't.
    pub fn new(text: impl Into<String>) -> Option<Self> {
        let text = text.into();
        (text.len() >= 16 && text.bytes().all(|byte| byte.is_ascii_graphic()))
            .then_some(Token(text))
    }

    /// The text.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Compares digests, so that the time it takes tells nothing.
    pub(crate) fn is(&self, other: &str) -> bool {
        Sha256::digest(self.0.as_bytes()) == Sha256::digest(other.as_bytes())
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

/// Names of this machine, at which anybody may listen.
const LOCAL: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// Who may talk to the server.
#[derive(Debug, Clone)]
pub struct Access {
    /// What every request has to carry; `None` where everybody who reaches the server may use it.
    pub token: Option<Token>,
    /// Host names that the server goes by, without ports.
    pub hosts: BTreeSet<String>,
    /// Origins whose pages may use it, such as `https://app.example.org`.
    pub origins: BTreeSet<String>,
    /// Browsers that signed in to the studio: the tokens of their sessions are as good as the token.
    pub sign_ins: SignIns,
}

impl Access {
    /// For clients on this machine that know the token.
    pub fn local(token: Token) -> Self {
        Access {
            token: Some(token),
            hosts: LOCAL.map(str::to_owned).into(),
            origins: BTreeSet::new(),
            sign_ins: SignIns::default(),
        }
    }

    /// Whether a request may pass.
    pub(crate) fn check(&self, headers: &HeaderMap, uri: &Uri) -> Result<(), Problem> {
        self.check_place(headers, uri)?;
        self.check_token(headers)
    }

    /// Whether a request comes the right way, whoever makes it.
    fn check_place(&self, headers: &HeaderMap, uri: &Uri) -> Result<(), Problem> {
        self.check_host(headers, uri)?;
        self.check_origin(headers, uri)
    }

    fn check_host(&self, headers: &HeaderMap, uri: &Uri) -> Result<(), Problem> {
        if self.hosts.contains(without_port(&host(headers, uri))) {
            return Ok(());
        }
        Err(Problem::new(
            Code::SERVE_ORIGIN,
            "The request is for a host name that this server does not go by.",
        )
        .suggest("Start the server with --allow-host NAME if it is reached under that name."))
    }

    fn check_origin(&self, headers: &HeaderMap, uri: &Uri) -> Result<(), Problem> {
        let Some(origin) = headers.get(ORIGIN) else {
            return Ok(());
        };
        let is_allowed = origin
            .to_str()
            .is_ok_and(|origin| self.allows_origin(origin, headers, uri));
        if is_allowed {
            return Ok(());
        }
        Err(Problem::new(
            Code::SERVE_ORIGIN,
            "Pages of that origin may not use this server.",
        )
        .suggest("Start the server with --allow-origin ORIGIN if they may."))
    }

    /// Pages that the server itself has delivered, and those that were named. What listens at another port of the same host is somebody
    /// else. A proxy may have another port and ask for another name: its pages are at the usual port of a name that was allowed.
    pub(crate) fn allows_origin(&self, origin: &str, headers: &HeaderMap, uri: &Uri) -> bool {
        let asked = host(headers, uri);
        let is_own = |scheme: &str, usual: &str| {
            let Some(page) = origin.strip_prefix(scheme).map(str::to_ascii_lowercase) else {
                return false;
            };
            let without_usual = |host: &str| host.strip_suffix(usual).unwrap_or(host).to_owned();
            let is_asked = without_usual(&page) == without_usual(&asked);
            let is_proxy = without_port(&page) == page && !LOCAL.contains(&page.as_str());
            (is_asked || is_proxy) && self.hosts.contains(without_port(&page))
        };
        self.origins.contains(origin) || is_own("http://", ":80") || is_own("https://", ":443")
    }

    fn check_token(&self, headers: &HeaderMap) -> Result<(), Problem> {
        let Some(token) = &self.token else {
            return Ok(());
        };
        if bearer(headers).is_some_and(|given| token.is(given) || self.sign_ins.has(given)) {
            return Ok(());
        }
        Err(Problem::new(
            Code::SERVE_TOKEN,
            "The request carries no token, or not the token of this server.",
        )
        .suggest(
            "Send the header `Authorization: Bearer TOKEN`. `gdn serve` says where the token is.",
        ))
    }
}

/// The token that a request carries.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let given = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = given.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// The host that a request is for, with its port, in lower case.
fn host(headers: &HeaderMap, uri: &Uri) -> String {
    let named = headers
        .get(HOST)
        .and_then(|host| host.to_str().ok())
        .or(uri.authority().map(|name| name.as_str()));
    named.unwrap_or_default().to_ascii_lowercase()
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

/// Lets a request through, or refuses it.
pub(crate) async fn guard(
    State(access): State<Arc<Access>>,
    request: Request,
    next: Next,
) -> Response {
    match access.check(request.headers(), request.uri()) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

/// As [`guard`], for what needs no token.
pub(crate) async fn guard_place(
    State(access): State<Arc<Access>>,
    request: Request,
    next: Next,
) -> Response {
    match access.check_place(request.headers(), request.uri()) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

/// Lets nobody send a body whose stated length is above `limit`, in bytes: whoever reads it is told at once that it is too large, in the
/// words of the protocol that is spoken. Without this, it would be read up to the limit first.
pub(crate) async fn no_larger(
    State(limit): State<usize>,
    request: Request,
    next: Next,
) -> Response {
    let request = if is_larger(&request, limit) {
        request.map(|_| Body::new(Limited::new(Full::from("larger"), 0)))
    } else {
        request
    };
    next.run(request).await
}

/// The same where the one who reads has no words for it.
pub(crate) async fn refuse_larger(
    State(limit): State<usize>,
    request: Request,
    next: Next,
) -> Response {
    match is_larger(&request, limit) {
        true => Problem::too_large().into_response(),
        false => next.run(request).await,
    }
}

fn is_larger(request: &Request, limit: usize) -> bool {
    let stated = request
        .headers()
        .get(CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    stated.is_some_and(|stated| usize::try_from(stated).map_or(true, |stated| stated > limit))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access() -> Access {
        Access {
            origins: ["https://app.example".to_owned()].into(),
            ..Access::local(Token::new("0123456789abcdef").unwrap())
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
    fn a_request_needs_the_token_and_a_host_of_the_server() {
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
        for foreign in [
            "evil.example",
            "localhost.evil.example",
            "evil.example:localhost",
            "",
            "127.0.0.1.nip.io:1",
        ] {
            assert_eq!(
                code(&[("host", foreign), token]),
                Some(Code::SERVE_ORIGIN),
                "{foreign}"
            );
        }
    }

    #[test]
    fn a_page_needs_an_origin_that_is_allowed() {
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
            let wanted = (!is_allowed).then_some(Code::SERVE_ORIGIN);
            assert_eq!(
                code(&[rest[0], rest[1], ("origin", origin)]),
                wanted,
                "{origin}"
            );
        }
    }

    #[test]
    fn a_page_behind_a_proxy_is_at_a_name_that_was_allowed() {
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
    fn a_token_is_long_and_does_not_show() {
        assert_eq!(Token::random().expose().len(), 64);
        assert!(Token::new("short").is_none() && Token::new("0123456789 abcdef").is_none());
        assert_eq!(format!("{:?}", access().token), "Some(Token)");
    }
}

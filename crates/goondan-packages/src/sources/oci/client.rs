//! A client for one OCI repository. It authenticates only after the registry requires it.

use goondan_spec::Code;
use reqwest::header::WWW_AUTHENTICATE;
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde::Deserialize;
use tokio::sync::{Mutex, OnceCell};
use url::Url;

use super::OciReference;
use crate::credentials::{BasicCredentials, HostCredentials, RegistryCredentials};
use crate::error::{PackageError, Result};
use crate::http::{self, MAX_TEXT_RESPONSE_BYTES};

/// The access that the requests need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AccessPurpose {
    Pull,
    /// Reading and writing.
    Push,
}

pub(super) use AccessPurpose::{Pull, Push};

pub(super) struct OciClient {
    http: reqwest::Client,
    reference: OciReference,
    base: Url,
    credentials: RegistryCredentials,
    /// The user's credentials for the registry, once it requires them.
    login: OnceCell<HostCredentials>,
    purpose: AccessPurpose,
    /// The authorization of all requests; `Not` until the registry requires one.
    authorization: Mutex<RequestAuthorization>,
}

#[derive(Clone)]
enum RequestAuthorization {
    Not,
    Basic(BasicCredentials),
    Bearer(String),
}

#[derive(Deserialize)]
struct TokenResponse {
    token: Option<String>,
    access_token: Option<String>,
}

impl OciClient {
    pub(super) async fn new(
        reference: &OciReference,
        credentials: &RegistryCredentials,
        purpose: AccessPurpose,
    ) -> Result<OciClient> {
        Ok(OciClient {
            http: http::client().await?,
            base: reference.base_url()?,
            credentials: credentials.clone(),
            login: OnceCell::new(),
            reference: reference.clone(),
            purpose,
            authorization: Mutex::new(RequestAuthorization::Not),
        })
    }

    pub(super) fn host(&self) -> &str {
        self.reference.host()
    }

    /// Returns the URL of `path` in the repository.
    pub(super) fn address(&self, path: &str) -> Result<Url> {
        self.base
            .join(path)
            .map_err(|error| self.protocol_error(&error.to_string()))
    }

    /// Creates the error for an answer that violates the OCI protocol.
    pub(super) fn protocol_error(&self, why: &str) -> PackageError {
        PackageError::source(format!(
            "{} does not answer like an OCI registry: {why}.",
            self.host()
        ))
        .suggest("check the URL; it must begin with the host of the registry")
    }

    /// Sends a request, and repeats it with authorization if the registry requires one.
    /// `customize` adds headers and the body.
    pub(super) async fn send(
        &self,
        method: Method,
        url: Url,
        customize: impl Fn(RequestBuilder) -> RequestBuilder,
    ) -> Result<Response> {
        let request = |authorization: &RequestAuthorization| {
            let request = customize(self.http.request(method.clone(), url.clone()));
            match authorization {
                RequestAuthorization::Not => request,
                RequestAuthorization::Basic(basic) => {
                    request.basic_auth(&basic.user, Some(&basic.password))
                }
                RequestAuthorization::Bearer(token) => request.bearer_auth(token),
            }
        };
        let authorization = self.authorization.lock().await.clone();
        let answer = http::send(request(&authorization), self.host()).await?;
        // Authenticate at most once: a 401 to an authorized request is the final answer.
        if answer.status() != StatusCode::UNAUTHORIZED
            || !matches!(authorization, RequestAuthorization::Not)
        {
            return Ok(answer);
        }
        let challenges = answer
            .headers()
            .get_all(WWW_AUTHENTICATE)
            .iter()
            .filter_map(|value| value.to_str().ok());
        let Some(authorization) = self.authorize(challenges.collect()).await? else {
            return Ok(answer);
        };
        *self.authorization.lock().await = authorization.clone();
        http::send(request(&authorization), self.host()).await
    }

    /// Sends a request like [`OciClient::send`], and fails unless the status is a success.
    pub(super) async fn send_checked(
        &self,
        method: Method,
        url: Url,
        customize: impl Fn(RequestBuilder) -> RequestBuilder,
    ) -> Result<Response> {
        let answer = self.send(method, url, customize).await?;
        self.check_status(answer).await
    }

    /// Returns an answer whose status is a success, and fails for any other.
    pub(super) async fn check_status(&self, answer: Response) -> Result<Response> {
        match answer.status() {
            status if status.is_success() => Ok(answer),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Err(self.access_denied_error()),
            StatusCode::NOT_FOUND => Err(PackageError::source(format!(
                "{} does not have `{}`.",
                self.host(),
                self.reference
            ))
            .suggest(
                "check the name and the tag; registries may hide packages that you cannot access",
            )),
            status => {
                let body = http::body(answer, MAX_TEXT_RESPONSE_BYTES, self.host())
                    .await
                    .unwrap_or_default();
                let excerpt: String = String::from_utf8_lossy(&body).chars().take(200).collect();
                Err(PackageError::source(format!(
                    "{} answered {status}: {excerpt}",
                    self.host()
                )))
            }
        }
    }

    /// Returns the user's credentials for the registry; looks them up on the first call.
    async fn host_credentials(&self) -> &HostCredentials {
        self.login
            .get_or_init(|| self.credentials.for_host(self.host()))
            .await
    }

    /// Returns the key for a token server: the registry's own key if the server belongs to the
    /// registry, or the key that the user has for that host. The registry names the server, so any
    /// other host gets no key.
    async fn token_server_credentials(&self, server: &Url) -> Option<BasicCredentials> {
        let host = http::host_of(server);
        if is_token_server_of(self.host(), &host) {
            return self.host_credentials().await.basic.clone();
        }
        self.credentials.for_host(&host).await.basic
    }

    /// Creates the error for a request that the registry refuses, with the reason if it is known.
    fn access_denied_error(&self) -> PackageError {
        let refusal = match self.login.get() {
            Some(HostCredentials {
                basic: Some(basic), ..
            }) => format!("denied the user `{}` access", basic.user),
            Some(HostCredentials {
                trouble: Some(trouble),
                ..
            }) => format!("requires a login, and {trouble},"),
            _ => "requires a login".to_owned(),
        };
        let host = self.host();
        PackageError::new(
            Code::PACKAGE_AUTH,
            format!("{host} {refusal} for `{}`.", self.reference),
        )
        .suggest(format!(
            "run `docker login {host}`, or set GOONDAN_REGISTRY_AUTH to `{host}=USER:PASSWORD`"
        ))
    }

    /// Returns the authorization for the first supported of the registry's `challenges`
    /// (`WWW-Authenticate` values); `None` if there is none, or if the user has no password.
    async fn authorize(&self, challenges: Vec<&str>) -> Result<Option<RequestAuthorization>> {
        let parameters_for = |scheme: &str| {
            challenges.iter().find_map(|value| {
                let (name, rest) = value.split_once(' ').unwrap_or((value, ""));
                name.eq_ignore_ascii_case(scheme).then(|| rest.to_owned())
            })
        };
        if let Some(parameters) = parameters_for("bearer") {
            return self
                .token(&parameters)
                .await
                .map(|token| Some(RequestAuthorization::Bearer(token)));
        }
        match parameters_for("basic") {
            Some(_) => Ok(self
                .host_credentials()
                .await
                .basic
                .clone()
                .map(RequestAuthorization::Basic)),
            None => Ok(None),
        }
    }

    /// Requests a bearer token from the token server that the challenge `parameters` name.
    async fn token(&self, parameters: &str) -> Result<String> {
        let parameter = |name: &str| {
            parameters_of(parameters)
                .find(|(key, _)| key == name)
                .map(|(_, value)| value)
        };
        let realm = parameter("realm")
            .ok_or_else(|| self.protocol_error("its answer names no token server"))?;
        let mut realm = http::parse(&realm)?;
        if http::is_local(&realm) && !http::is_local(&self.base) {
            return Err(self.protocol_error("its token server is this machine"));
        }
        if http::is_internal(&realm) && !http::is_internal(&self.base) {
            return Err(self.protocol_error("its token server is in a private network"));
        }
        let actions = if self.purpose == Push {
            "pull,push"
        } else {
            "pull"
        };
        let scope = format!("repository:{}:{actions}", self.reference.name());
        if let Some(service) = parameter("service") {
            realm.query_pairs_mut().append_pair("service", &service);
        }
        realm.query_pairs_mut().append_pair("scope", &scope);
        let request = self.http.get(realm.clone());
        let request = match self.token_server_credentials(&realm).await {
            Some(basic) => request.basic_auth(basic.user, Some(basic.password)),
            None => request,
        };
        let answer = http::send(request, realm.as_str()).await?;
        match answer.status() {
            status if status.is_success() => {}
            status if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => {
                return Err(PackageError::source(format!(
                    "The token server of {} answered {status}.",
                    self.host()
                ))
                .suggest("try again later"));
            }
            _ => return Err(self.access_denied_error()),
        }
        let body = http::body(answer, MAX_TEXT_RESPONSE_BYTES, self.host()).await?;
        let token: TokenResponse = serde_json::from_slice(&body)
            .map_err(|error| self.protocol_error(&error.to_string()))?;
        token
            .token
            .or(token.access_token)
            .ok_or_else(|| self.protocol_error("its token server returned no token"))
    }
}

/// Returns true if `server` may receive the key of `registry`: the same host, its parent domain, or
/// the known pair of Docker Hub.
fn is_token_server_of(registry: &str, server: &str) -> bool {
    let is_parent = server.contains('.')
        && registry
            .strip_suffix(server)
            .is_some_and(|below| below.ends_with('.'));
    registry == server
        || is_parent
        || (registry, server) == ("registry-1.docker.io", "auth.docker.io")
}

/// Parses the parameters of a challenge: `name="value"`, separated by commas. Quoted values may
/// contain commas.
fn parameters_of(text: &str) -> impl Iterator<Item = (String, String)> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (name, after_name) = rest.split_once('=')?;
        let name = name.trim_matches([',', ' ']).to_lowercase();
        let (value, remainder) = match after_name.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
            None => after_name.split_once(',').unwrap_or((after_name, "")),
        };
        rest = remainder;
        Some((name, value.to_owned()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registry_credentials_are_sent_only_to_its_token_server() {
        for (registry, server) in [
            ("ghcr.io", "ghcr.io"),
            ("registry.gitlab.com", "gitlab.com"),
            ("registry-1.docker.io", "auth.docker.io"),
            ("127.0.0.1:5000", "127.0.0.1:5000"),
        ] {
            assert!(is_token_server_of(registry, server), "{server}");
        }
        for (registry, server) in [
            ("ghcr.io", "evil.example"),
            ("registry.a.com", "com"),
            ("registry.a.com", "b.a.com"),
            ("evila.com", "a.com"),
            ("127.0.0.1:5000", "127.0.0.1:5001"),
            ("auth.docker.io", "registry-1.docker.io"),
        ] {
            assert!(!is_token_server_of(registry, server), "{server}");
        }
    }

    #[test]
    fn quoted_challenge_parameters_may_contain_commas() {
        let text = r#"realm="https://a/t?x=1",service="r,s", scope=x ,error="""#;
        let found: Vec<_> = parameters_of(text).collect();
        assert_eq!(found[0], ("realm".into(), "https://a/t?x=1".into()));
        assert_eq!(found[1], ("service".into(), "r,s".into()));
        assert_eq!(found[2].0, "scope");
        assert_eq!(
            parameters_of("=====").collect::<Vec<_>>(),
            [(String::new(), "====".to_owned())]
        );
        assert_eq!(parameters_of("").count(), 0);
    }
}

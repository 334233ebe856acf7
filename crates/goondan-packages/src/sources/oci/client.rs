//! A client for one OCI repository. It authenticates only after the registry requires it.

use goondan_spec::Code;
use reqwest::header::WWW_AUTHENTICATE;
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde::Deserialize;
use tokio::sync::{Mutex, OnceCell};
use url::Url;

use super::Reference;
use crate::credentials::{Basic, Credentials, Who};
use crate::error::{PackageError, Result};
use crate::http::{self, LARGEST_TEXT};

/// The access that the requests need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Pull,
    /// Reading and writing.
    Push,
}

pub(super) use Purpose::{Pull, Push};

pub(super) struct Client {
    http: reqwest::Client,
    reference: Reference,
    base: Url,
    credentials: Credentials,
    /// The credentials, once the registry requires them.
    who: OnceCell<Who>,
    purpose: Purpose,
    /// The authentication method, once the registry has stated it.
    signed: Mutex<Signed>,
}

#[derive(Clone)]
enum Signed {
    Not,
    Basic(Basic),
    Bearer(String),
}

#[derive(Deserialize)]
struct Token {
    token: Option<String>,
    access_token: Option<String>,
}

impl Client {
    pub(super) async fn new(
        reference: &Reference,
        credentials: &Credentials,
        purpose: Purpose,
    ) -> Result<Client> {
        Ok(Client {
            http: http::client().await?,
            base: reference.base()?,
            credentials: credentials.clone(),
            who: OnceCell::new(),
            reference: reference.clone(),
            purpose,
            signed: Mutex::new(Signed::Not),
        })
    }

    pub(super) fn host(&self) -> &str {
        self.reference.host()
    }

    /// Returns a URL below that of the repository.
    pub(super) fn address(&self, path: &str) -> Result<Url> {
        self.base
            .join(path)
            .map_err(|error| self.odd(&error.to_string()))
    }

    /// Creates the error for an answer that violates the OCI protocol.
    pub(super) fn odd(&self, why: &str) -> PackageError {
        PackageError::source(format!(
            "{} does not answer like an OCI registry: {why}.",
            self.host()
        ))
        .suggest("check the address: it begins with the host of the registry")
    }

    /// Sends a request, and authenticates if the registry requires it.
    pub(super) async fn send(
        &self,
        method: Method,
        url: Url,
        with: impl Fn(RequestBuilder) -> RequestBuilder,
    ) -> Result<Response> {
        let request = |signed: &Signed| {
            let request = with(self.http.request(method.clone(), url.clone()));
            match signed {
                Signed::Not => request,
                Signed::Basic(basic) => request.basic_auth(&basic.user, Some(&basic.password)),
                Signed::Bearer(token) => request.bearer_auth(token),
            }
        };
        let signed = self.signed.lock().await.clone();
        let answer = http::send(request(&signed), self.host()).await?;
        if answer.status() != StatusCode::UNAUTHORIZED || !matches!(signed, Signed::Not) {
            return Ok(answer);
        }
        let wanted = answer
            .headers()
            .get_all(WWW_AUTHENTICATE)
            .iter()
            .filter_map(|value| value.to_str().ok());
        let Some(signed) = self.sign(wanted.collect()).await? else {
            return Ok(answer);
        };
        *self.signed.lock().await = signed.clone();
        http::send(request(&signed), self.host()).await
    }

    /// Sends a request like [`Client::send`], and fails unless it succeeds.
    pub(super) async fn accepted(
        &self,
        method: Method,
        url: Url,
        with: impl Fn(RequestBuilder) -> RequestBuilder,
    ) -> Result<Response> {
        let answer = self.send(method, url, with).await?;
        match answer.status() {
            status if status.is_success() => Ok(answer),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Err(self.locked()),
            StatusCode::NOT_FOUND => Err(PackageError::source(format!(
                "{} does not have `{}`.",
                self.host(),
                self.reference
            ))
            .suggest("check the name and the tag; a registry may also hide what you may not see")),
            status => {
                let body = http::body(answer, LARGEST_TEXT, self.host())
                    .await
                    .unwrap_or_default();
                let said: String = String::from_utf8_lossy(&body).chars().take(200).collect();
                Err(PackageError::source(format!(
                    "{} answers {status}: {said}",
                    self.host()
                )))
            }
        }
    }

    async fn who(&self) -> &Who {
        self.who
            .get_or_init(|| self.credentials.of(self.host()))
            .await
    }

    fn locked(&self) -> PackageError {
        let who = match self.who.get() {
            Some(Who {
                basic: Some(basic), ..
            }) => format!("did not let `{}` in", basic.user),
            Some(Who {
                trouble: Some(trouble),
                ..
            }) => format!("wants to know who asks, and {trouble},"),
            _ => "wants to know who asks".to_owned(),
        };
        let host = self.host();
        PackageError::new(
            Code::PACKAGE_AUTH,
            format!("{host} {who} for `{}`.", self.reference),
        )
        .suggest(format!(
            "run `docker login {host}`, or set GOONDAN_REGISTRY_AUTH to `{host}=USER:PASSWORD`"
        ))
    }

    /// Returns the authentication that the registry requires; `None` if no method is supported.
    async fn sign(&self, wanted: Vec<&str>) -> Result<Option<Signed>> {
        let of = |scheme: &str| {
            wanted.iter().find_map(|value| {
                let (name, rest) = value.split_once(' ').unwrap_or((value, ""));
                name.eq_ignore_ascii_case(scheme).then(|| rest.to_owned())
            })
        };
        if let Some(parameters) = of("bearer") {
            return self
                .token(&parameters)
                .await
                .map(|token| Some(Signed::Bearer(token)));
        }
        match of("basic") {
            Some(_) => Ok(self.who().await.basic.clone().map(Signed::Basic)),
            None => Ok(None),
        }
    }

    async fn token(&self, parameters: &str) -> Result<String> {
        let parameter = |name: &str| {
            parameters_of(parameters)
                .find(|(key, _)| key == name)
                .map(|(_, value)| value)
        };
        let realm = parameter("realm").ok_or_else(|| self.odd("it names no server for tokens"))?;
        let mut realm = http::parse(&realm)?;
        if http::is_local(&realm) && !http::is_local(&self.base) {
            return Err(self.odd("its server for tokens is this machine"));
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
        let request = match &self.who().await.basic {
            Some(basic) => request.basic_auth(&basic.user, Some(&basic.password)),
            None => request,
        };
        let answer = http::send(request, realm.as_str()).await?;
        if !answer.status().is_success() {
            return Err(self.locked());
        }
        let body = http::body(answer, LARGEST_TEXT, self.host()).await?;
        let token: Token =
            serde_json::from_slice(&body).map_err(|error| self.odd(&error.to_string()))?;
        token
            .token
            .or(token.access_token)
            .ok_or_else(|| self.odd("its server for tokens gives none"))
    }
}

/// Parses the parameters of a challenge: `name="value"`, separated by commas. Quoted values may
/// contain commas.
fn parameters_of(text: &str) -> impl Iterator<Item = (String, String)> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (name, behind) = rest.split_once('=')?;
        let name = name.trim_matches([',', ' ']).to_lowercase();
        let (value, left) = match behind.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
            None => behind.split_once(',').unwrap_or((behind, "")),
        };
        rest = left;
        Some((name, value.to_owned()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_may_hold_commas() {
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

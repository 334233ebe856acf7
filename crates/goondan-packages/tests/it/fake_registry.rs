//! An OCI registry in this process. It implements pulling and pushing, and malicious behavior.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use sha2::{Digest as _, Sha256};

/// Contents and behavior of the registry.
#[derive(Default)]
pub(crate) struct RegistryState {
    pub(crate) blobs: BTreeMap<String, Vec<u8>>,
    /// Manifests by `repository:tag` and `repository@digest`.
    pub(crate) manifests: BTreeMap<String, Vec<u8>>,
    /// Path and authorization header of each request.
    pub(crate) requests: Vec<(String, Option<String>)>,
    /// Basic credentials that the registry requires for a token.
    pub(crate) required_credentials: Option<&'static str>,
    /// Number of tags in a response.
    pub(crate) page_size: usize,
    /// Base URL to which blob downloads are redirected.
    pub(crate) redirect: Option<String>,
    /// Path fragments and statuses of requests that fail. Each entry fails one request, with
    /// `Retry-After: 0`.
    pub(crate) failures: Vec<(&'static str, StatusCode)>,
}

#[derive(Clone)]
pub(crate) struct Registry {
    pub(crate) host: String,
    pub(crate) state: Arc<Mutex<RegistryState>>,
}

const TOKEN: &str = "Bearer let-me-in";

impl Registry {
    pub(crate) async fn start() -> Registry {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let state = Arc::new(Mutex::new(RegistryState {
            page_size: 1000,
            ..RegistryState::default()
        }));
        let registry = Registry { host, state };
        let app = Router::new().fallback(answer).with_state(registry.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        registry
    }

    pub(crate) fn update(&self, change: impl FnOnce(&mut RegistryState)) {
        change(&mut self.state.lock().unwrap());
    }

    pub(crate) fn address(&self, name: &str) -> String {
        format!("oci://{}/{name}", self.host)
    }
}

fn digest(bytes: &[u8]) -> String {
    let hex: String = Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("sha256:{hex}")
}

async fn answer(State(registry): State<Registry>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 64 * 1024 * 1024).await.unwrap();
    let mut state = registry.state.lock().unwrap();
    let authorization = parts
        .headers
        .get(header::AUTHORIZATION)
        .map(|authorization| authorization.to_str().unwrap().to_owned());
    let path = parts.uri.path().to_owned();
    let query = parts.uri.query().unwrap_or_default().to_owned();
    state.requests.push((path.clone(), authorization.clone()));
    let failure = state
        .failures
        .iter()
        .position(|(part, _)| path.contains(part));
    if let Some(number) = failure {
        let (_, status) = state.failures.remove(number);
        return (status, [(header::RETRY_AFTER, "0")]).into_response();
    }
    if path == "/token" {
        return token(&state, authorization.as_deref());
    }
    if state.required_credentials.is_some() && authorization.as_deref() != Some(TOKEN) {
        let challenge = format!(
            "Bearer realm=\"http://{}/token\",service=\"fake\",scope=\"x\"",
            registry.host
        );
        return (
            StatusCode::UNAUTHORIZED,
            [(header::WWW_AUTHENTICATE, challenge)],
        )
            .into_response();
    }
    serve(
        &mut state,
        &parts.method,
        &path,
        &query,
        body,
        &parts.headers,
    )
}

fn token(state: &RegistryState, authorization: Option<&str>) -> Response {
    match state
        .required_credentials
        .is_some_and(|required| authorization == Some(required))
    {
        true => r#"{"token": "let-me-in"}"#.into_response(),
        false => StatusCode::UNAUTHORIZED.into_response(),
    }
}

fn serve(
    state: &mut RegistryState,
    method: &Method,
    path: &str,
    query: &str,
    body: Bytes,
    headers: &HeaderMap,
) -> Response {
    let rest = path.trim_start_matches("/v2/");
    if let Some(name) = rest.strip_suffix("/tags/list") {
        return tags(state, name, query);
    }
    if rest.ends_with("/blobs/uploads/") {
        return (
            StatusCode::ACCEPTED,
            [(header::LOCATION, format!("{path}1?state=x"))],
        )
            .into_response();
    }
    if rest.contains("/blobs/uploads/") {
        let blob_digest = query.split("digest=").nth(1).unwrap().replace("%3A", ":");
        assert_eq!(blob_digest, digest(&body));
        state.blobs.insert(blob_digest, body.to_vec());
        return StatusCode::CREATED.into_response();
    }
    if let Some((_, blob_digest)) = rest.split_once("/blobs/") {
        if let (Some(base), &Method::GET) = (&state.redirect, method) {
            return (
                StatusCode::TEMPORARY_REDIRECT,
                [(header::LOCATION, format!("{base}{path}"))],
            )
                .into_response();
        }
        return found(state.blobs.get(blob_digest));
    }
    let (name, selector) = rest.split_once("/manifests/").unwrap();
    let by_tag = format!("{name}:{selector}");
    if method == Method::PUT {
        assert_eq!(
            headers[header::CONTENT_TYPE],
            "application/vnd.oci.image.manifest.v1+json"
        );
        state
            .manifests
            .insert(format!("{name}@{}", digest(&body)), body.to_vec());
        state.manifests.insert(by_tag, body.to_vec());
        return StatusCode::CREATED.into_response();
    }
    let key = if selector.starts_with("sha256:") {
        format!("{name}@{selector}")
    } else {
        by_tag
    };
    found(state.manifests.get(&key))
}

fn found(bytes: Option<&Vec<u8>>) -> Response {
    match bytes {
        Some(bytes) => bytes.clone().into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

fn tags(state: &RegistryState, name: &str, query: &str) -> Response {
    let prefix = format!("{name}:");
    let all: Vec<&str> = state
        .manifests
        .keys()
        .filter_map(|key| key.strip_prefix(&prefix))
        .collect();
    let after = query.split("last=").nth(1).unwrap_or_default();
    let from = all.iter().position(|tag| *tag > after).unwrap_or(all.len());
    let page: Vec<&str> = all[from..].iter().copied().take(state.page_size).collect();
    let body = format!(
        "{{\"name\": \"{name}\", \"tags\": [{}]}}",
        page.iter()
            .map(|tag| format!("\"{tag}\""))
            .collect::<Vec<_>>()
            .join(",")
    );
    let mut response = body.into_response();
    if from + page.len() < all.len() {
        let next = format!(
            "</v2/{name}/tags/list?last={}>; rel=\"next\"",
            page.last().unwrap()
        );
        response
            .headers_mut()
            .insert(header::LINK, next.parse().unwrap());
    }
    response
}

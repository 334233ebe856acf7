//! An HTTP client for tools, with restricted addresses, sizes and times.

use std::sync::Arc;
use std::time::{Duration, Instant};

use goondan_core::ports::tool::HandlerError;
use goondan_spec::Code;
use reqwest::header::HeaderMap;
use reqwest::multipart::{Form, Part};
use reqwest::redirect::Policy;
use reqwest::{Client, Method, StatusCode};
use tokio::sync::OnceCell;
use url::Url;

use crate::errors;
use crate::net_guard::{BlockedUrl, GuardedResolver, NetworkGuard};

/// Maximum number of redirects.
const MAX_REDIRECTS: usize = 10;

/// The client of one opened tool, created for the first request.
pub(crate) struct HttpClient {
    guard: Arc<NetworkGuard>,
    client: OnceCell<Client>,
}

#[derive(Clone)]
pub(crate) struct HttpToolRequest {
    pub(crate) method: Method,
    pub(crate) url: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Option<HttpRequestBody>,
    /// Time from the first sent byte to the last received byte.
    pub(crate) timeout: Duration,
    /// Maximum number of body bytes to read.
    pub(crate) max_bytes: usize,
}

#[derive(Clone)]
pub(crate) enum HttpRequestBody {
    /// Raw bytes.
    Bytes(Vec<u8>),
    Form(FileForm),
}

/// A form with a file.
#[derive(Clone)]
pub(crate) struct FileForm {
    pub(crate) fields: Vec<(&'static str, String)>,
    /// Name of the field with the file.
    pub(crate) file_field: &'static str,
    pub(crate) file_name: String,
    pub(crate) content: Vec<u8>,
}

impl From<FileForm> for Form {
    fn from(form: FileForm) -> Form {
        let file = Part::bytes(form.content).file_name(form.file_name);
        let fields = form.fields.into_iter();
        fields
            .fold(Form::new(), |form, (name, value)| form.text(name, value))
            .part(form.file_field, file)
    }
}

impl From<String> for HttpRequestBody {
    fn from(text: String) -> Self {
        HttpRequestBody::Bytes(text.into_bytes())
    }
}

pub(crate) struct HttpToolResponse {
    /// The URL after redirects.
    pub(crate) url: Url,
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
    /// True if the body was longer.
    pub(crate) truncated: bool,
    pub(crate) duration: Duration,
}

impl HttpClient {
    /// Creates a client that only uses addresses that `guard` permits.
    pub(crate) fn new(guard: NetworkGuard) -> Self {
        HttpClient {
            guard: Arc::new(guard),
            client: OnceCell::new(),
        }
    }

    /// Sends a request, follows redirects, and reads the response up to the limit. An error status
    /// is a normal response.
    pub(crate) async fn send(
        &self,
        request: HttpToolRequest,
    ) -> Result<HttpToolResponse, HandlerError> {
        let started = Instant::now();
        let url = Url::parse(&request.url).map_err(|error| {
            errors::invalid_argument(format!("`{}` is not a URL: {error}", request.url))
        })?;
        self.guard.check(&url).map_err(blocked_url_error)?;
        let client = self
            .client
            .get_or_try_init(|| make_client(Arc::clone(&self.guard)))
            .await?;
        let mut builder = client
            .request(request.method, url)
            .headers(request.headers)
            .timeout(request.timeout);
        builder = match request.body {
            Some(HttpRequestBody::Bytes(bytes)) => builder.body(bytes),
            Some(HttpRequestBody::Form(form)) => builder.multipart(form.into()),
            None => builder,
        };
        let failed = |error| request_error(&error, request.timeout);
        let mut response = builder.send().await.map_err(failed)?;
        let mut body = Vec::new();
        let mut truncated = false;
        while !truncated && let Some(piece) = response.chunk().await.map_err(failed)? {
            let room = request.max_bytes - body.len();
            truncated = piece.len() > room;
            body.extend_from_slice(&piece[..piece.len().min(room)]);
        }
        Ok(HttpToolResponse {
            url: response.url().clone(),
            status: response.status(),
            headers: response.headers().clone(),
            body,
            truncated,
            duration: started.elapsed(),
        })
    }
}

/// Creates the client on a thread that may block, because reading the system's certificates is
/// slow.
async fn make_client(guard: Arc<NetworkGuard>) -> Result<Client, HandlerError> {
    errors::run_blocking(move || {
        let redirect_guard = Arc::clone(&guard);
        let redirects = Policy::custom(move |attempt| match redirect_guard.check(attempt.url()) {
            Err(blocked) => attempt.error(blocked),
            Ok(()) if attempt.previous().len() > MAX_REDIRECTS => {
                attempt.error("too many redirects")
            }
            Ok(()) => attempt.follow(),
        });
        Client::builder()
            .user_agent(concat!("goondan/", env!("CARGO_PKG_VERSION")))
            .redirect(redirects)
            .dns_resolver(GuardedResolver(guard))
            // A proxy would resolve names itself and bypass the guard.
            .no_proxy()
            .tls_backend_preconfigured(goondan_tls::with_http2(
                goondan_tls::with_system_certificates(),
            ))
            .build()
            .map_err(|error| {
                HandlerError::new(format!("cannot set up the HTTP client: {error}"))
                    .code(Code::TOOL_HTTP)
            })
    })
    .await
}

/// Creates the error for a request that the guard refused.
fn blocked_url_error(blocked: BlockedUrl) -> HandlerError {
    let error = HandlerError::new(format!("the URL is not allowed: {blocked}"))
        .code(Code::TOOL_ADDRESS_BLOCKED);
    match blocked {
        BlockedUrl::Address { host, .. } => error.suggest(format!(
            "to allow this host, add it to the tool's config: `config: {{allowHosts: \
            [\"{host}\"]}}`"
        )),
        _ => error.suggest("use an http: or https: URL with a host"),
    }
}

/// Converts an error to the message of its innermost cause.
fn request_error(error: &reqwest::Error, timeout: Duration) -> HandlerError {
    let mut reason: &dyn std::error::Error = error;
    while let Some(inner) = reason.source() {
        if let Some(reason) = inner.downcast_ref::<BlockedUrl>() {
            return blocked_url_error(reason.clone());
        }
        reason = inner;
    }
    if error.is_timeout() {
        return HandlerError::new(format!(
            "the request did not finish within {} ms",
            timeout.as_millis()
        ))
        .code(Code::TOOL_TIMEOUT)
        .suggest("retry with a larger timeoutMs, or request less");
    }
    HandlerError::new(format!("the request failed: {reason}")).code(Code::TOOL_HTTP)
}

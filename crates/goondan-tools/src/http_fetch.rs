//! `http-fetch`: sends HTTP requests.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use goondan_core::JsonObject;
use goondan_core::ports::tool::{HandlerError, ToolContext, ToolOutput};
use goondan_spec::kinds::Permission;
use reqwest::Method;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::builtin_tool::BuiltinTool;
use crate::errors;
use crate::http::{HttpClient, HttpToolRequest, HttpToolResponse};
use crate::net_guard;
use crate::output_capture::without_cut_end;
use crate::tool_operation::{ToolExport, ToolOperation, titled_output};

pub(crate) const BUILTIN: BuiltinTool = BuiltinTool {
    name: "http-fetch",
    about: "Makes HTTP requests to public addresses. An error status is returned as a normal \
        result.",
    config: net_guard::NETWORK_CONFIG_KEYS,
    // Longer than the longest `timeoutMs` of a request.
    timeout: Some(Duration::from_secs(310)),
    open: |opening| {
        let client = Arc::new(HttpClient::new(opening.config()?));
        Ok(vec![
            ToolExport::new::<HttpGet>("get", &client)
                .with_permission(Permission::Network)
                .read_only(),
            ToolExport::new::<HttpPost>("post", &client).with_permission(Permission::Network),
        ])
    },
    ..BuiltinTool::DEFAULT_ROW
};

/// Fetch a URL with GET.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct HttpGet {
    /// URL, http or https.
    #[schemars(length(min = 1))]
    url: String,
    /// Request headers.
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// Time limit.
    #[serde(default = "default_timeout")]
    #[schemars(range(min = 1, max = 300_000))]
    timeout_ms: u32,
    /// Maximum bytes of the body to read.
    #[serde(default = "default_max_bytes")]
    #[schemars(range(min = 1, max = 10_000_000))]
    max_bytes: u32,
}

impl ToolOperation for HttpGet {
    type Shared = HttpClient;

    async fn run(
        self,
        _ctx: &ToolContext,
        client: &HttpClient,
    ) -> Result<ToolOutput, HandlerError> {
        let request = HttpToolRequest {
            method: Method::GET,
            url: self.url,
            headers: headers(self.headers)?,
            body: None,
            timeout: Duration::from_millis(self.timeout_ms.into()),
            max_bytes: self.max_bytes as usize,
        };
        Ok(response_output("GET", client.send(request).await?))
    }
}

/// Send data to a URL with POST.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct HttpPost {
    /// URL, http or https.
    #[schemars(length(min = 1))]
    url: String,
    /// Body, sent as JSON.
    body: Option<JsonObject>,
    /// Body, sent unchanged, if `body` is not given.
    body_string: Option<String>,
    /// Request headers.
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// Time limit.
    #[serde(default = "default_timeout")]
    #[schemars(range(min = 1, max = 300_000))]
    timeout_ms: u32,
    /// Maximum bytes of the response body to read.
    #[serde(default = "default_max_bytes")]
    #[schemars(range(min = 1, max = 10_000_000))]
    max_bytes: u32,
}

impl ToolOperation for HttpPost {
    type Shared = HttpClient;

    async fn run(
        self,
        _ctx: &ToolContext,
        client: &HttpClient,
    ) -> Result<ToolOutput, HandlerError> {
        let mut headers = headers(self.headers)?;
        if self.body.is_some() {
            headers
                .entry(CONTENT_TYPE)
                .or_insert(HeaderValue::from_static("application/json"));
        }
        let request = HttpToolRequest {
            method: Method::POST,
            url: self.url,
            headers,
            body: self
                .body
                .map(|body| Value::Object(body).to_string())
                .or(self.body_string)
                .map(Into::into),
            timeout: Duration::from_millis(self.timeout_ms.into()),
            max_bytes: self.max_bytes as usize,
        };
        Ok(response_output("POST", client.send(request).await?))
    }
}

fn headers(given: BTreeMap<String, String>) -> Result<HeaderMap, HandlerError> {
    let header = |(name, value): (String, String)| {
        let invalid_header_error = || {
            errors::invalid_argument(format!("the header `{name}` has an invalid name or value"))
        };
        let key = HeaderName::try_from(&name).map_err(|_| invalid_header_error())?;
        Ok((
            key,
            HeaderValue::try_from(value).map_err(|_| invalid_header_error())?,
        ))
    };
    given.into_iter().map(header).collect()
}

/// Creates the result of both operations.
fn response_output(method: &str, response: HttpToolResponse) -> ToolOutput {
    let title = format!(
        "{method} {}: {}",
        response.url.host_str().unwrap_or_default(),
        response.status.as_u16()
    );
    let body = if response.truncated {
        without_cut_end(&response.body)
    } else {
        &response.body
    };
    let output = json!({
        "url": response.url.as_str(),
        "method": method,
        "status": response.status.as_u16(),
        "statusText": response.status.canonical_reason().unwrap_or_default(),
        "headers": header_texts(&response.headers),
        "body": String::from_utf8_lossy(body),
        "truncated": response.truncated,
        "durationMs": u64::try_from(response.duration.as_millis()).unwrap_or(u64::MAX),
    });
    titled_output(title, output)
}

/// Returns response headers by name. Repeated headers are joined by commas, as HTTP specifies.
fn header_texts(headers: &HeaderMap) -> BTreeMap<String, String> {
    let mut texts: BTreeMap<String, String> = BTreeMap::new();
    for (name, value) in headers {
        let value = String::from_utf8_lossy(value.as_bytes());
        texts
            .entry(name.as_str().to_owned())
            .and_modify(|text| {
                text.push_str(", ");
                text.push_str(&value);
            })
            .or_insert_with(|| value.into_owned());
    }
    texts
}

fn default_timeout() -> u32 {
    30_000
}

fn default_max_bytes() -> u32 {
    500_000
}

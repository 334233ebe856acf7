//! `web`: reads web pages.

mod sanitize;

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use encoding_rs::{Encoding, UTF_8};
use goondan_core::JsonObject;
use goondan_core::ports::tool::{Attachment, HandlerError, ToolContext, ToolOutput};
use goondan_spec::Code;
use goondan_spec::kinds::Permission;
use reqwest::Method;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use url::Url;

use crate::builtin_tool::BuiltinTool;
use crate::errors::{self, run_blocking};
use crate::http::{HttpClient, HttpToolRequest, HttpToolResponse};
use crate::net_guard;
use crate::tool_operation::{ToolExport, ToolOperation, titled_output};

/// Maximum number of bytes fetched of a page.
const MAX_PAGE_BYTES: usize = 5 * 1024 * 1024;
/// Maximum number of characters of a page shown at once.
const MAX_SHOWN_CHARS: usize = 40_000;

pub(crate) const BUILTIN: BuiltinTool = BuiltinTool {
    name: "web",
    about: "Reads web pages from public addresses as Markdown.",
    config: net_guard::NETWORK_CONFIG_KEYS,
    // Longer than the longest `timeoutMs` of a call.
    timeout: Some(Duration::from_secs(130)),
    open: |opening| {
        let client = Arc::new(HttpClient::new(opening.config()?));
        Ok(vec![
            ToolExport::new::<FetchWebPage>("fetch", &client)
                .with_permission(Permission::Network)
                .read_only(),
        ])
    },
    ..BuiltinTool::DEFAULT_ROW
};

/// How a page is shown.
#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize, serde::Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum WebPageFormat {
    #[default]
    Markdown,
    Html,
}

/// Read a web page: HTML is returned as Markdown without scripts and styles, other text unchanged;
/// an image is attached.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct FetchWebPage {
    /// URL, http or https.
    #[schemars(length(min = 1))]
    url: String,
    /// Return HTML as Markdown or unchanged.
    #[serde(default)]
    format: WebPageFormat,
    /// Number of characters to skip, to continue a long page.
    #[serde(default)]
    offset: usize,
    /// Time limit.
    #[serde(default = "default_timeout")]
    #[schemars(range(min = 1, max = 120_000))]
    timeout_ms: u32,
}

impl ToolOperation for FetchWebPage {
    type Shared = HttpClient;

    async fn run(
        self,
        _ctx: &ToolContext,
        client: &HttpClient,
    ) -> Result<ToolOutput, HandlerError> {
        let accept =
            HeaderValue::from_static("text/html, text/markdown;q=0.9, text/*;q=0.8, */*;q=0.5");
        let request = HttpToolRequest {
            method: Method::GET,
            url: self.url.clone(),
            headers: HeaderMap::from_iter([(ACCEPT, accept)]),
            body: None,
            timeout: Duration::from_millis(self.timeout_ms.into()),
            max_bytes: MAX_PAGE_BYTES,
        };
        let response = client.send(request).await?;
        if !response.status.is_success() {
            let message = format!("{} returned {}", response.url, response.status);
            return Err(HandlerError::new(message)
                .code(Code::TOOL_HTTP_STATUS)
                .suggest("check the URL"));
        }
        let (format, offset) = (self.format, self.offset);
        // Converting a large page takes time.
        run_blocking(move || tool_result(response, format, offset)).await
    }
}

/// Creates the result of a web tool call, as the model receives it.
fn tool_result(
    response: HttpToolResponse,
    format: WebPageFormat,
    offset: usize,
) -> Result<ToolOutput, HandlerError> {
    let header = response
        .headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or("text/html");
    let media_type = header
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase();
    let mut output = if media_type.starts_with("image/") && !response.truncated {
        image_output(&response, &media_type)
    } else if is_text(&media_type) {
        let text = decode(&response.body, header);
        text_page(&response, &media_type, text, format, offset)?
    } else {
        let size = response.body.len();
        let at_least = if response.truncated { "more than " } else { "" };
        let text = format!(
            "[{} is not text ({media_type}, {at_least}{size} bytes).]",
            response.url
        );
        titled_output("Fetched a file", text.into())
    };
    output.metadata = JsonObject::from_iter([
        ("url".to_owned(), json!(response.url.as_str())),
        ("contentType".to_owned(), json!(media_type)),
    ]);
    Ok(output)
}

/// Creates the result for an image, with the image as attachment.
fn image_output(response: &HttpToolResponse, media_type: &str) -> ToolOutput {
    let text = format!(
        "[{} is an image ({media_type}, {} bytes).]",
        response.url,
        response.body.len()
    );
    let attachment = Attachment {
        media_type: media_type.to_owned(),
        data: STANDARD.encode(&response.body),
        name: None,
    };
    ToolOutput {
        attachments: vec![attachment],
        ..titled_output("Fetched an image", text.into())
    }
}

/// Returns a part of a text, with a note about the rest.
fn text_page(
    response: &HttpToolResponse,
    media_type: &str,
    text: String,
    format: WebPageFormat,
    offset: usize,
) -> Result<ToolOutput, HandlerError> {
    let is_html = matches!(media_type, "text/html" | "application/xhtml+xml")
        && format == WebPageFormat::Markdown;
    let (text, title) = if is_html {
        to_markdown(&text, &response.url)?
    } else {
        (text, String::new())
    };
    let title = if title.is_empty() {
        response.url.to_string()
    } else {
        title
    };
    let length = text.chars().count();
    if offset > 0 && offset >= length {
        return Err(errors::invalid_argument(format!(
            "the text of {} has {length} characters",
            response.url
        )));
    }
    let mut page: String = text.chars().skip(offset).take(MAX_SHOWN_CHARS).collect();
    let end = offset + page.chars().count();
    if end < length {
        page.push_str(&format!(
            "\n\n[{end} of {length} characters shown: continue with offset {end}.]"
        ));
    } else if response.truncated {
        page.push_str(&format!(
            "\n\n[The page was cut after {MAX_PAGE_BYTES} bytes.]"
        ));
    }
    Ok(titled_output(format!("Fetched {title}"), page.into()))
}

/// Converts a page to Markdown, and returns it with its title.
fn to_markdown(html: &str, url: &Url) -> Result<(String, String), HandlerError> {
    let page = sanitize::sanitize(html, url);
    let text = htmd::convert(&page.html).map_err(|error| {
        HandlerError::new(format!("{url} cannot be converted to Markdown: {error}"))
            .code(Code::TOOL_HTTP)
    })?;
    Ok((text, page.title))
}

/// Returns true for textual media types.
fn is_text(media_type: &str) -> bool {
    let also = [
        "application/json",
        "application/xml",
        "application/javascript",
        "application/yaml",
    ];
    media_type.starts_with("text/")
        || also.contains(&media_type)
        || media_type.ends_with("+json")
        || media_type.ends_with("+xml")
}

/// Decodes a body. Its encoding comes from the byte order mark, the header, or the `meta` tag, in
/// this order; the default is UTF-8.
fn decode(body: &[u8], header: &str) -> String {
    let start = String::from_utf8_lossy(&body[..body.len().min(1024)]).to_ascii_lowercase();
    let label = parse_charset(&header.to_ascii_lowercase()).or_else(|| parse_charset(&start));
    let encoding = label
        .and_then(|label| Encoding::for_label(label.as_bytes()))
        .unwrap_or(UTF_8);
    encoding.decode(body).0.into_owned()
}

/// Returns the value after `charset=`.
fn parse_charset(text: &str) -> Option<String> {
    let (_, value) = text.split_once("charset=")?;
    let value = value.trim_start_matches(['"', '\'', ' ']);
    Some(
        value
            .chars()
            .take_while(|c| c.is_ascii_alphanumeric() || "-_:".contains(*c))
            .collect(),
    )
}

fn default_timeout() -> u32 {
    30_000
}

//! HTTP client and settings for MCP servers that are reached by URL.

use std::collections::HashMap;

use goondan_core::ports::tool::HandlerError;
use goondan_spec::Code;
use reqwest::header::{HeaderName, HeaderValue};
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;

use crate::codes::error;
use crate::definition::{McpServerDefinition, ServerTransport};
use crate::eager_stream_transport::EagerStreamClient;
use crate::http;

/// Returns the HTTP client and transport configuration for an MCP server that is reached by URL.
pub(super) async fn http_transport(
    definition: &McpServerDefinition,
) -> Result<
    (
        EagerStreamClient<reqwest::Client>,
        StreamableHttpClientTransportConfig,
    ),
    HandlerError,
> {
    let name = definition.name();
    let ServerTransport::Http { url, headers } = &definition.way else {
        return Err(error(Code::MCP_CONNECT, name, "has no URL"));
    };
    let client = http::client().await;
    let client = client.map_err(|cause| {
        error(
            Code::MCP_CONNECT,
            name,
            format_args!("cannot be reached: {cause}"),
        )
    })?;
    let mut header_map = HashMap::new();
    for (header, value) in headers {
        let pair = HeaderName::try_from(header.as_str())
            .ok()
            .zip(HeaderValue::from_str(value).ok());
        let (header, mut value) = pair.ok_or_else(|| {
            error(
                Code::MCP_START,
                name,
                format_args!("has the invalid header `{header}`"),
            )
            .suggest("Correct `headers` in `spec.mcp`.")
        })?;
        value.set_sensitive(true);
        header_map.insert(header, value);
    }
    let config = StreamableHttpClientTransportConfig::with_uri(url.as_str())
        .custom_headers(header_map)
        .reinit_on_expired_session(true);
    Ok((EagerStreamClient::new(client), config))
}

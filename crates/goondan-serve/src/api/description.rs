//! The OpenAPI document as clients get it.

use std::sync::OnceLock;

use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use utoipa::openapi::OpenApi;

use super::openapi_document::complete_document;
use crate::entity_tag::{entity_tag, is_known};

/// Content of `/openapi.json`. Any client can request it without a token, so its text is generated
/// once, at the first request.
pub(super) struct ApiDescription {
    document: OpenApi,
    has_studio: bool,
    version: String,
    content: OnceLock<DescriptionContent>,
}

/// JSON text of the document, with its entity tag.
struct DescriptionContent {
    text: Bytes,
    tag: String,
}

impl ApiDescription {
    pub(super) fn new(document: OpenApi, has_studio: bool, version: &str) -> Self {
        ApiDescription {
            document,
            has_studio,
            version: version.to_owned(),
            content: OnceLock::new(),
        }
    }

    /// Returns the document, or status 304 if the client has it.
    pub(super) fn response(&self, headers: &HeaderMap) -> Response {
        let DescriptionContent { text, tag } = self.content();
        let cached = [(ETAG, tag.as_str()), (CACHE_CONTROL, "no-cache")];
        if is_known(headers, tag) {
            return (StatusCode::NOT_MODIFIED, cached).into_response();
        }
        let kind = [(CONTENT_TYPE, "application/json")];
        (cached, kind, text.clone()).into_response()
    }

    fn content(&self) -> &DescriptionContent {
        self.content.get_or_init(|| {
            let document = complete_document(self.document.clone(), self.has_studio, &self.version);
            let text = Bytes::from(document.to_string());
            let tag = entity_tag(&text);
            DescriptionContent { text, tag }
        })
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;
    use axum::http::header::IF_NONE_MATCH;
    use utoipa::OpenApi as _;

    use super::*;
    use crate::api::ApiDocument;

    #[test]
    fn the_openapi_text_is_generated_once() {
        let description = ApiDescription::new(ApiDocument::openapi(), false, "1.0.0");
        let first = description.content().text.as_ptr();
        assert_eq!(description.content().text.as_ptr(), first);
    }

    #[test]
    fn a_matching_etag_returns_not_modified() {
        let description = ApiDescription::new(ApiDocument::openapi(), false, "1.0.0");
        let response = description.response(&HeaderMap::new());
        assert_eq!(response.status(), StatusCode::OK);
        let tag: HeaderValue = response.headers()[ETAG].clone();
        let status = |tag: HeaderValue| {
            let headers = HeaderMap::from_iter([(IF_NONE_MATCH, tag)]);
            description.response(&headers).status()
        };
        assert_eq!(status(tag), StatusCode::NOT_MODIFIED);
        assert_eq!(status(HeaderValue::from_static("\"x\"")), StatusCode::OK);
    }
}

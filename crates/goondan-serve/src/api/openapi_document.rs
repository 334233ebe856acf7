//! Complete OpenAPI document of all interfaces.

use serde_json::{Value, json};
use utoipa::OpenApi;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};

use crate::{openai, studio};

/// Completes the document with the URLs of other routers, and with facts that the derive macros
/// cannot express.
pub(super) fn complete_document(
    document: utoipa::openapi::OpenApi,
    has_studio: bool,
    version: &str,
) -> Value {
    let mut document = document.merge_from(openai::OpenAiDocument::openapi());
    if has_studio {
        document.merge(studio::StudioDocument::openapi());
    }
    version.clone_into(&mut document.info.version);
    let components = document.components.get_or_insert_default();
    components.add_security_scheme(
        "token",
        SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer)),
    );
    let mut document = serde_json::to_value(document).unwrap_or_default();
    document["components"]["schemas"]["InputBody"]["anyOf"] = json!([
        {"required": ["input"], "properties": {"input": {"minLength": 1}}},
        {"required": ["files"], "properties": {"files": {"minItems": 1}}},
    ]);
    document
}

//! Entity tags of responses whose content rarely changes.

use axum::http::HeaderMap;
use axum::http::header::IF_NONE_MATCH;
use sha2::{Digest, Sha256};

/// Number of hash bytes in a tag.
const TAG_BYTES: usize = 12;

/// Returns the entity tag of a content, with quotes.
pub(crate) fn entity_tag(content: &[u8]) -> String {
    let digest = Sha256::digest(content);
    let bytes = digest.iter().take(TAG_BYTES);
    let hex: String = bytes.map(|byte| format!("{byte:02x}")).collect();
    format!("\"{hex}\"")
}

/// Returns true if the client already has the content with this tag.
pub(crate) fn is_known(headers: &HeaderMap, tag: &str) -> bool {
    headers.get(IF_NONE_MATCH).is_some_and(|known| known == tag)
}

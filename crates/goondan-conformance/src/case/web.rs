//! Pages of the local web server of a test case.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

/// Response for a path.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schemars(rename = "Page")]
pub struct WebPageFixture {
    /// Status code. Default: 200.
    #[serde(default = "default_status")]
    #[schemars(range(min = 200, max = 599))]
    pub status: u16,
    /// Headers in addition to `content-length`.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Response body.
    #[serde(default)]
    pub body: String,
    /// Return the request as the body, as JSON: `{method, path, body}`.
    #[serde(default)]
    pub echo: bool,
}

/// Default status of a reply.
fn default_status() -> u16 {
    200
}

/// Returns errors in well-formed pages.
pub(super) fn validation_errors(
    pages: &BTreeMap<String, WebPageFixture>,
) -> impl Iterator<Item = String> + '_ {
    pages.iter().filter_map(|(path, page)| {
        let is_text = |text: &String| text.chars().all(|c| !c.is_control());
        if !path.starts_with('/') || !is_text(path) || path.contains(' ') {
            Some(format!("`{path}` is not a path of a page, such as `/news`"))
        } else if !(200..600).contains(&page.status) {
            Some(format!("{path}: {} is not an HTTP status", page.status))
        } else if !page
            .headers
            .iter()
            .all(|(name, value)| is_text(name) && !name.contains(':') && is_text(value))
        {
            Some(format!("{path}: a header value must be a single line"))
        } else {
            None
        }
    })
}

//! Pages that a server on this machine gives while a case runs.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

/// What a path answers with.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Page {
    /// The status code; 200 if not given.
    #[serde(default = "ok")]
    #[schemars(range(min = 200, max = 599))]
    pub status: u16,
    /// Headers besides `content-length`.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// What the answer says.
    #[serde(default)]
    pub body: String,
    /// Whether the body is the request instead, as JSON: `{method, path, body}`.
    #[serde(default)]
    pub echo: bool,
}

fn ok() -> u16 {
    200
}

/// What is wrong with pages that are well-formed.
pub(super) fn problems(pages: &BTreeMap<String, Page>) -> impl Iterator<Item = String> + '_ {
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
            Some(format!("{path}: a header has one line"))
        } else {
            None
        }
    })
}

//! Reads a server's tool list page by page. An invalid entry only affects its tool or its page.

use std::collections::HashSet;

use rmcp::RoleClient;
use rmcp::model::{
    ClientRequest, CustomResult, ListToolsRequest, PaginatedRequestParams, ServerResult, Tool,
};
use rmcp::service::{Peer, ServiceError};
use serde_json::Value;

use crate::catalog::{MAX_TOOLS, shortened_name};

/// Maximum number of pages.
const MAX_PAGES: usize = 200;

#[derive(Debug, Default)]
pub(crate) struct ToolListing {
    pub(crate) tools: Vec<Tool>,
    /// Sentences about errors in the list.
    pub(crate) notes: Vec<String>,
}

/// One page, with the cursor of the next one.
struct ToolPage {
    tools: Vec<Tool>,
    next: Option<String>,
    notes: Vec<String>,
}

/// Reads all pages.
///
/// # Errors
///
/// Fails if the server refuses a page or returns no list.
pub(crate) async fn list_tools(peer: &Peer<RoleClient>) -> Result<ToolListing, ServiceError> {
    let (mut listing, mut cursor, mut seen_cursors) =
        (ToolListing::default(), None, HashSet::new());
    // A cached response would hide changes.
    peer.clear_response_cache().await;
    for _ in 0..MAX_PAGES {
        let page = read_page(peer, PaginatedRequestParams::default().with_cursor(cursor)).await?;
        listing.notes.extend(page.notes);
        let Some(next) = page.next else {
            listing.tools.extend(page.tools);
            return Ok(listing);
        };
        if !seen_cursors.insert(next.clone()) {
            // Servers that ignore the cursor repeat their first page.
            let known_names: HashSet<_> =
                listing.tools.iter().map(|tool| tool.name.clone()).collect();
            listing.tools.extend(
                page.tools
                    .into_iter()
                    .filter(|tool| !known_names.contains(&tool.name)),
            );
            listing.notes.push(
                "The pages of the tool list form a loop; the first pages are used.".to_owned(),
            );
            return Ok(listing);
        }
        listing.tools.extend(page.tools);
        if listing.tools.len() > MAX_TOOLS {
            return Ok(listing);
        }
        cursor = Some(next);
    }
    listing.notes.push(format!(
        "The tool list has more than {MAX_PAGES} pages; only the first {MAX_PAGES} are used."
    ));
    Ok(listing)
}

/// Reads one page. If the page contains invalid entries, returns the valid tools with notes.
async fn read_page(
    peer: &Peer<RoleClient>,
    params: PaginatedRequestParams,
) -> Result<ToolPage, ServiceError> {
    match peer.list_tools(Some(params.clone())).await {
        Ok(page) => {
            return Ok(ToolPage {
                tools: page.tools,
                next: page.next_cursor,
                notes: Vec::new(),
            });
        }
        Err(ServiceError::UnexpectedResponse) => {}
        Err(failure) => return Err(failure),
    }
    // One invalid tool makes the typed answer unreadable, so parse each tool separately.
    let request = ListToolsRequest {
        method: Default::default(),
        params: Some(params),
        extensions: Default::default(),
    };
    match peer
        .send_request(ClientRequest::ListToolsRequest(request))
        .await?
    {
        ServerResult::CustomResult(CustomResult(page)) => {
            one_by_one(page).ok_or(ServiceError::UnexpectedResponse)
        }
        _ => Err(ServiceError::UnexpectedResponse),
    }
}

/// Parses the valid tools of a page; `None` if it is not a page.
fn one_by_one(mut page: Value) -> Option<ToolPage> {
    let Value::Array(listed) = page.get_mut("tools")?.take() else {
        return None;
    };
    let (mut tools, mut notes) = (Vec::new(), Vec::new());
    for tool in listed {
        let name = tool.get("name").and_then(Value::as_str).map(shortened_name);
        match serde_json::from_value(tool) {
            Ok(tool) => tools.push(tool),
            Err(why) => {
                let name =
                    name.map_or_else(|| "without a name".to_owned(), |name| format!("`{name}`"));
                notes.push(format!(
                    "The tool {name} is ignored: its definition is invalid ({}).",
                    shortened_name(&why.to_string())
                ));
            }
        }
    }
    Some(ToolPage {
        tools,
        next: page
            .get("nextCursor")
            .and_then(Value::as_str)
            .map(str::to_owned),
        notes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_invalid_tool_does_not_hide_valid_tools() {
        let page = one_by_one(json!({"nextCursor": "2", "tools": [
            {"name": "good", "inputSchema": {"type": "object"}},
            {"name": "bad", "inputSchema": "object"},
            {"inputSchema": {}},
            7,
        ]}));
        let page = page.expect("a page");
        assert_eq!(
            (page.tools.len(), page.notes.len(), page.next.as_deref()),
            (1, 3, Some("2"))
        );
        assert!(
            page.notes[0].starts_with("The tool `bad` is ignored"),
            "{:?}",
            page.notes
        );
        assert!(one_by_one(json!({"tools": 7})).is_none() && one_by_one(json!([])).is_none());
    }
}

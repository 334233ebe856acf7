//! Resources of a server: an export with which a model lists them and reads one.

use goondan_spec::Code;
use rmcp::model::{
    ClientRequest, ListResourceTemplatesRequest, ListResourcesRequest, PaginatedRequestParams,
    ReadResourceRequest, ReadResourceRequestParams, Resource, ResourceContents, ResourceTemplate,
    ServerResult,
};
use rmcp::service::ServiceError;
use serde_json::{Value, json};

use crate::catalog::{clean_untrusted_text, shortened_name};
use crate::codes::error;
use crate::connection::McpConnection;
use crate::elicitation::ElicitationContext;
use crate::pending_request::{UnansweredCall, send_request};
use crate::result;
use goondan_core::JsonObject;
use goondan_core::ports::tool::ToolOutput;

/// Names of the export in order of preference. The first one that the server's tools leave free
/// and that is short enough is used.
pub(crate) const EXPORT_NAMES: [&str; 3] = ["read-resource", "resources", "resource-2"];

/// Name of the server's method in the catalog.
pub(crate) const READ_METHOD: &str = "resources/read";

/// The export's description for models.
pub(crate) const EXPORT_DESCRIPTION: &str = "Reads a resource of this server by its URI, such as \
    the target of a resource link in a result of its tools. Without `uri`, lists the resources.";

/// Maximum number of resources in one answer. A page of a server that has more is cut.
pub(crate) const MAX_LISTED_RESOURCES: usize = 500;
/// Maximum number of characters in the description of a listed resource.
const MAX_DESCRIPTION_CHARS: usize = 300;

/// Returns the schema of the export's arguments.
pub(crate) fn parameters_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "uri": {"type": "string", "description": "URI of the resource to read."},
            "cursor": {
                "type": "string",
                "description": "Without `uri`: `nextCursor` of the previous page of the list.",
            },
        },
        "additionalProperties": false,
    })
}

/// Handles a call of the resource export: reads the resource `uri`, or lists one page of resources.
///
/// # Errors
///
/// Fails if the server refuses the request or answers with an unexpected type.
pub(crate) async fn call(
    server: &str,
    link: &McpConnection,
    context: &ElicitationContext,
    input: &JsonObject,
) -> Result<ToolOutput, UnansweredCall> {
    match input.get("uri").and_then(Value::as_str) {
        Some(uri) => read(server, link, context, uri).await,
        None => {
            let cursor = input.get("cursor").and_then(Value::as_str);
            list_page(server, link, context, cursor).await
        }
    }
}

/// Reads one resource.
async fn read(
    server: &str,
    link: &McpConnection,
    context: &ElicitationContext,
    uri: &str,
) -> Result<ToolOutput, UnansweredCall> {
    let mut params = ReadResourceRequestParams::new(uri);
    params.meta = context.request_meta();
    let request = ClientRequest::ReadResourceRequest(ReadResourceRequest::new(params));
    let contents = match send_request(link, context, request).await? {
        ServerResult::ReadResourceResult(read) => read.contents,
        // A single invalid content makes the typed answer unreadable.
        ServerResult::CustomResult(answer) => readable_contents(answer.0)?,
        ServerResult::InputRequiredResult(_) => return Err(input_required_error(server)),
        _ => return Err(ServiceError::UnexpectedResponse.into()),
    };
    Ok(result::resource_output(server, uri, contents))
}

/// Returns the readable contents of an answer.
fn readable_contents(mut answer: Value) -> Result<Vec<ResourceContents>, UnansweredCall> {
    match answer.get_mut("contents").map(Value::take) {
        Some(Value::Array(contents)) => Ok(contents
            .into_iter()
            .filter_map(|content| serde_json::from_value(content).ok())
            .collect()),
        _ => Err(ServiceError::UnexpectedResponse.into()),
    }
}

/// Returns the error for a resource whose server requests user input.
fn input_required_error(server: &str) -> UnansweredCall {
    let what = "requests user input for a resource, but no user is available";
    UnansweredCall::Given(error(Code::MCP_INPUT, server, what))
}

/// Lists one page of resources. The first page also contains the templates, which many servers
/// have instead of a list.
async fn list_page(
    server: &str,
    link: &McpConnection,
    context: &ElicitationContext,
    cursor: Option<&str>,
) -> Result<ToolOutput, UnansweredCall> {
    let params = PaginatedRequestParams::default().with_cursor(cursor.map(str::to_owned));
    let request = ListResourcesRequest::with_param(params);
    let page = send_request(link, context, ClientRequest::ListResourcesRequest(request)).await?;
    let ServerResult::ListResourcesResult(page) = page else {
        return Err(ServiceError::UnexpectedResponse.into());
    };
    let shown: Vec<Value> = page
        .resources
        .iter()
        .take(MAX_LISTED_RESOURCES)
        .map(shown_resource)
        .collect();
    let omitted_count = page.resources.len() - shown.len();
    let mut output = json!({"resources": shown});
    if omitted_count > 0 {
        output["omittedResources"] = json!(omitted_count);
    }
    if let Some(next) = page.next_cursor {
        output["nextCursor"] = json!(next);
    }
    let is_first_page = cursor.is_none();
    if is_first_page {
        let templates = list_templates(link, context).await;
        if !templates.is_empty() {
            output["resourceTemplates"] = Value::Array(templates);
        }
    }
    Ok(ToolOutput {
        output,
        title: Some(format!("{server}: resources")),
        ..ToolOutput::default()
    })
}

/// Lists the first resource templates. Returns an empty list if the request fails, because servers
/// without templates refuse it.
async fn list_templates(link: &McpConnection, context: &ElicitationContext) -> Vec<Value> {
    let request = ListResourceTemplatesRequest::with_param(PaginatedRequestParams::default());
    let request = ClientRequest::ListResourceTemplatesRequest(request);
    let Ok(ServerResult::ListResourceTemplatesResult(page)) =
        send_request(link, context, request).await
    else {
        return Vec::new();
    };
    let templates = page.resource_templates.iter().take(MAX_LISTED_RESOURCES);
    templates.map(shown_template).collect()
}

/// Returns the entry of a resource in the list for a model.
fn shown_resource(resource: &Resource) -> Value {
    let mut shown = json!({"uri": result::escape_invisible(&resource.uri), "name": shortened_name(&resource.name)});
    add_description(
        &mut shown,
        resource.description.as_ref(),
        resource.mime_type.as_ref(),
    );
    if let Some(size) = resource.size {
        shown["size"] = json!(size);
    }
    shown
}

/// Returns the entry of a template in the list for a model.
fn shown_template(template: &ResourceTemplate) -> Value {
    let mut shown = json!({
        "uriTemplate": result::escape_invisible(&template.uri_template),
        "name": shortened_name(&template.name),
    });
    add_description(
        &mut shown,
        template.description.as_ref(),
        template.mime_type.as_ref(),
    );
    shown
}

/// Adds the description and the media type to an entry.
fn add_description(shown: &mut Value, description: Option<&String>, media_type: Option<&String>) {
    if let Some(description) = description {
        shown["description"] = json!(clean_untrusted_text(description, MAX_DESCRIPTION_CHARS));
    }
    if let Some(media_type) = media_type {
        shown["mimeType"] = json!(shortened_name(media_type));
    }
}

//! The client that `@modelcontextprotocol/conformance` drives. It calls the server of a scenario
//! like a swarm would, and logs in if required. `ci/mcp` runs it.
//!
//! Usage: `conformance URL`, with the scenario, its context and the protocol revision in the
//! environment.

use goondan_spec::Code;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use goondan_core::JsonObject;
use goondan_core::ports::tool::HandlerError;
use goondan_mcp::{ConsentBrowser, McpServerProgram, McpTools, ProgramStreams, ServerSpawner};
use goondan_spec::kinds::{
    ElicitationMode, McpOauth, McpProtocol, McpServer, McpTransport, Tool, ToolEntry,
};
use goondan_spec::value::{Environment, Secret};
use goondan_spec::{Kind, Resource, ResourceId, ValueSource};
use serde::Deserialize;
use serde_json::{Value, json};

/// Maximum number of login attempts.
const LOGINS: usize = 3;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Context {
    tool_calls: Vec<Call>,
    #[serde(alias = "client_id")]
    client_id: Option<String>,
    #[serde(alias = "client_secret")]
    client_secret: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Call {
    name: String,
    #[serde(default)]
    arguments: JsonObject,
}

struct Nobody;

#[async_trait]
impl ServerSpawner for Nobody {
    async fn start(&self, _program: &McpServerProgram) -> Result<ProgramStreams, HandlerError> {
        Err(HandlerError::new("a scenario starts no programs"))
    }
}

/// A visitor that consents to everything: the pages of the scenarios redirect immediately.
struct Agreeable;

#[async_trait]
impl ConsentBrowser for Agreeable {
    fn redirect_uri(&self) -> String {
        "http://localhost:3000/callback".to_owned()
    }

    async fn visit(&self, page: &str) -> Result<String, String> {
        let client = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .build();
        let answer = client
            .map_err(|error| error.to_string())?
            .get(page)
            .send()
            .await;
        let answer = answer.map_err(|error| error.to_string())?;
        let back = answer
            .headers()
            .get("location")
            .and_then(|value| value.to_str().ok());
        back.map(str::to_owned)
            .ok_or_else(|| format!("{page} sends nobody anywhere"))
    }
}

#[tokio::main]
async fn main() -> Result<(), String> {
    let url = std::env::args()
        .nth(1)
        .ok_or("the URL of the server is missing")?;
    let context = std::env::var("MCP_CONFORMANCE_CONTEXT").ok();
    let context: Context = context
        .and_then(|text| serde_json::from_str(&text).ok())
        .unwrap_or_default();
    let state = tempfile::tempdir().map_err(|error| error.to_string())?;
    let tools = McpTools::new(state.path(), Arc::new(Nobody), Environment::default());
    let mut tool = tool(&url, &context, None);
    for _ in 0..LOGINS {
        match exercise(&tools, &tool, state.path(), &context).await {
            Err(error) if error.code.as_deref() == Some(Code::MCP_AUTH.as_str()) => {
                let mut done = tools.login(&tool, state.path(), &Agreeable).await;
                // The operator adds the line that the error names.
                if let Some(issuer) = done.as_ref().err().and_then(named_issuer) {
                    tool = self::tool(&url, &context, Some(issuer));
                    done = tools.login(&tool, state.path(), &Agreeable).await;
                }
                done.map_err(|error| error.message)?;
            }
            done => return done.map_err(|error| error.message),
        }
    }
    exercise(&tools, &tool, state.path(), &context)
        .await
        .map_err(|error| error.message)
}

/// Returns the authorization server of an error that asks for `oauth.issuer`.
fn named_issuer(error: &HandlerError) -> Option<String> {
    let (_, line) = error.suggestion.as_deref()?.split_once("add `issuer: ")?;
    line.split_once('`').map(|(issuer, _)| issuer.to_owned())
}

/// Lists a server's tools, and calls all of them or those that the scenario expects.
async fn exercise(
    tools: &McpTools,
    tool: &Resource<Tool>,
    root: &Path,
    context: &Context,
) -> Result<(), HandlerError> {
    let session = tools.session(tool, root)?;
    let catalog = session.catalog().await?;
    if context.tool_calls.is_empty() {
        for listed in &catalog.tools {
            session
                .call(&listed.own, arguments(&listed.export.parameters))
                .await?;
        }
    }
    for call in &context.tool_calls {
        session.call(&call.name, call.arguments.clone()).await?;
    }
    session.end().await;
    Ok(())
}

/// Returns minimal arguments for a schema.
fn arguments(schema: &Value) -> JsonObject {
    let required = schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str);
    let value = |name: &str| match schema["properties"][name]["type"].as_str() {
        Some("number" | "integer") => json!(1),
        Some("boolean") => json!(true),
        Some("string") => json!("test"),
        _ => Value::Null,
    };
    required
        .map(|name| (name.to_owned(), value(name)))
        .collect()
}

/// Returns the Tool of a scenario. `issuer` is the only authorization server for the secret.
fn tool(url: &str, context: &Context, issuer: Option<String>) -> Resource<Tool> {
    let revision = std::env::var("MCP_CONFORMANCE_PROTOCOL_VERSION").unwrap_or_default();
    let server = McpServer {
        transport: McpTransport::Http {
            url: url.to_owned(),
            headers: Vec::new(),
        },
        // Newer revisions are negotiated, because the servers of some scenarios use an older one.
        protocol: (revision == "2025-11-25").then_some(McpProtocol::V2025_11_25),
        connect_timeout: std::time::Duration::from_secs(10),
        elicitation: ElicitationMode::Defaults,
        oauth: McpOauth {
            client_id: context.client_id.clone(),
            client_secret: context
                .client_secret
                .clone()
                .map(|secret| ValueSource::Value(Secret::new(secret))),
            issuer,
            scopes: Vec::new(),
            client_metadata_url: Some(
                "https://conformance-test.local/client-metadata.json".to_owned(),
            ),
        },
    };
    Resource {
        id: ResourceId {
            package: None,
            kind: Kind::Tool,
            name: "server".to_owned(),
        },
        labels: Default::default(),
        annotations: Default::default(),
        origin: None,
        spec: Tool::new(ToolEntry::Mcp(Box::new(server))),
    }
}

//! Requests of tools: libraries, programs, build commands, and settings with effects outside of the
//! project.

use std::path::Path;
use std::sync::Arc;

use goondan_core::real_path::{links_of_path, real_path};

use goondan_spec::bundle::ResourceOrigin;
use goondan_spec::kinds::{
    Connector, ConnectorEntry, Extension, ExtensionEntry, McpTransport, Tool, ToolBuild, ToolEntry,
};
use goondan_spec::{Bundle, Resource, TextOrSource};
use serde_json::Value;

use super::{RequestedCapability, name};

/// Returns the build commands of tools.
pub(super) fn builds(builds: &[ToolBuild]) -> Vec<RequestedCapability> {
    let request = |build: &ToolBuild| {
        RequestedCapability::new(
            format!(
                "runs the command `{}` to build {}",
                build.build.command, build.tool
            ),
            build.written.0.as_ref(),
        )
    };
    builds.iter().map(request).collect()
}

/// Returns the libraries and programs of tools.
pub(super) fn programs(bundle: &Bundle) -> Vec<RequestedCapability> {
    let of_tool = |tool: &Arc<Resource<Tool>>| {
        let what = match &tool.spec.entry {
            ToolEntry::Builtin(_) | ToolEntry::Embedded => return None,
            ToolEntry::Library(path) => format!("loads the library `{path}`"),
            ToolEntry::Executable(folder) => {
                format!("starts the program named in `{folder}/tool.yaml`")
            }
            ToolEntry::A2a(agent) => format!("talks to the A2A agent at {}", agent.url),
            ToolEntry::Module(module) => format!("runs the code in `{}`", module.path),
            ToolEntry::Mcp(server) => match &server.transport {
                McpTransport::Program { .. } => {
                    format!("starts the MCP server `{}`", server.display_address())
                }
                McpTransport::Http { .. } => {
                    format!("talks to the MCP server at {}", server.display_address())
                }
                McpTransport::Socket { .. } => {
                    format!(
                        "talks to the MCP server on the socket `{}`",
                        server.display_address()
                    )
                }
            },
        };
        Some(RequestedCapability::new(what, tool.origin.as_ref()))
    };
    let of_extension = |extension: &Arc<Resource<Extension>>| match &extension.spec.entry {
        ExtensionEntry::Module(module) => Some(RequestedCapability::new(
            format!("runs the code in `{}`", module.path),
            extension.origin.as_ref(),
        )),
        ExtensionEntry::Library(path) => Some(RequestedCapability::new(
            format!("loads the library `{path}`"),
            extension.origin.as_ref(),
        )),
        ExtensionEntry::Builtin(_) => None,
    };
    let of_connector = |connector: &Arc<Resource<Connector>>| match &connector.spec.entry {
        ConnectorEntry::Module(module) => Some(RequestedCapability::new(
            format!("runs the code in `{}`", module.path),
            connector.origin.as_ref(),
        )),
        ConnectorEntry::Library(path) => Some(RequestedCapability::new(
            format!("loads the library `{path}`"),
            connector.origin.as_ref(),
        )),
        ConnectorEntry::Builtin(_) => None,
    };
    let tools = bundle.tools().values().filter_map(of_tool);
    let extensions = bundle.extensions().values().filter_map(of_extension);
    tools
        .chain(extensions)
        .chain(bundle.connectors().values().filter_map(of_connector))
        .collect()
}

/// Returns settings of tools and extensions that open directories or expose values.
pub(super) fn settings(bundle: &Bundle) -> Vec<RequestedCapability> {
    let tools = bundle
        .tools()
        .values()
        .map(|tool| (tool.id.to_string(), &tool.spec.config, tool.origin.as_ref()));
    let extensions = bundle.extensions().values().map(|extension| {
        (
            extension.id.to_string(),
            &extension.spec.config,
            extension.origin.as_ref(),
        )
    });
    let extension_uses = bundle.agents().values().flat_map(|agent| {
        let of_use = |used: &'_ goondan_spec::kinds::ExtensionUse| used.extension.to_string();
        agent
            .spec
            .extensions
            .iter()
            .map(move |used| (of_use(used), &used.config, agent.origin.as_ref()))
    });
    let mut requests: Vec<RequestedCapability> = bundle
        .tools()
        .values()
        .filter_map(|tool| remote_host(tool))
        .collect();
    for (owner, config, origin) in tools.chain(extensions).chain(extension_uses) {
        for key in ["roots", "dir"] {
            requests.extend(texts(config.get(key)).map(|folder| {
                let target = link_target(folder, bundle.root());
                RequestedCapability::new(
                    format!("gives {owner} access to the directory `{folder}`{target}"),
                    origin,
                )
            }));
        }
        requests.extend(texts(config.get("env")).map(|name| value_request(name, &owner, origin)));
    }
    for model in bundle.models().values() {
        let headers = model.spec.options.headers.iter();
        let names = headers.filter_map(|(_, value)| match value {
            TextOrSource::Source(source) => name(source),
            TextOrSource::Plain(_) => None,
        });
        requests.extend(
            names.map(|name| value_request(&name, &model.id.to_string(), model.origin.as_ref())),
        );
    }
    requests
}

/// Returns a request for each tool that reads its token from a default environment variable: the
/// project's Tools, and the built-in tools that agents list. Skips a tool whose config sets `token`
/// or `apiBaseUrl`.
pub(super) fn default_token_requests(bundle: &Bundle) -> Vec<RequestedCapability> {
    let request = |tool: &Resource<Tool>, origin: Option<&ResourceOrigin>| {
        let is_set = |key: &str| tool.spec.config.contains_key(key);
        let uses_variable =
            !tool.spec.variables.is_empty() && !is_set("token") && !is_set("apiBaseUrl");
        let names = tool.spec.variables.join(" or ");
        uses_variable.then(|| value_request(&names, &tool.id.to_string(), origin))
    };
    let own = bundle.tools().values().filter(|tool| tool.origin.is_some());
    let own = own.filter_map(|tool| request(tool, tool.origin.as_ref()));
    let listed = bundle.agents().values().flat_map(|agent| {
        let tools = agent.spec.tools.iter();
        let tools = tools.filter_map(|used| bundle.tools().get(&used.tool));
        let built_in = tools.filter(|tool| tool.origin.is_none());
        built_in.filter_map(|tool| request(tool, agent.origin.as_ref()))
    });
    own.chain(listed).collect()
}

/// Returns a clause with the target of a directory whose path contains a link; empty for another one.
fn link_target(folder: &str, root: &Path) -> String {
    let home = || folder.strip_prefix("~/").zip(std::env::home_dir());
    let path = match home() {
        Some((below, home)) => home.join(below),
        None => root.join(folder),
    };
    match links_of_path(&path) {
        Ok(links) if links.is_empty() => String::new(),
        _ => real_path(&path).map_or_else(
            |_| ", whose path contains a link".to_owned(),
            |target| format!(", which leads to `{}`", target.display()),
        ),
    }
}

/// Returns the remote host that command lines run on, with the user's keys.
fn remote_host(tool: &Resource<Tool>) -> Option<RequestedCapability> {
    let runs_lines =
        matches!(&tool.spec.entry, ToolEntry::Builtin(name) if name == "bash" || name == "runtime");
    let host = tool
        .spec
        .config
        .get("host")
        .filter(|_| runs_lines)?
        .as_str()?;
    Some(RequestedCapability::new(
        format!("runs commands on the host `{host}` over SSH, with your keys"),
        tool.origin.as_ref(),
    ))
}

/// Creates the request of a value that is passed to a tool or an extension.
fn value_request(name: &str, owner: &str, origin: Option<&ResourceOrigin>) -> RequestedCapability {
    RequestedCapability::new(format!("passes the value of {name} to {owner}"), origin)
}

/// Returns the string, or the strings in the list.
fn texts(value: Option<&Value>) -> impl Iterator<Item = &str> {
    let (single, items) = match value {
        Some(Value::Array(items)) => (None, items.as_slice()),
        single => (single, &[][..]),
    };
    single.into_iter().chain(items).filter_map(Value::as_str)
}

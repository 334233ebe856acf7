//! What tools bring along: libraries, programs, commands that build them, and settings that reach beyond the project.

use std::sync::Arc;

use goondan_spec::bundle::Origin;
use goondan_spec::kinds::{
    Connector, ConnectorEntry, Entry, Extension, ExtensionEntry, McpTransport, Tool, ToolBuild,
};
use goondan_spec::{Bundle, Resource, TextOrSource};
use serde_json::Value;

use super::{Want, name};

/// Commands that build tools.
pub(super) fn builds(builds: &[ToolBuild]) -> Vec<Want> {
    let want = |build: &ToolBuild| {
        Want::new(
            format!(
                "runs the command `{}` to build {}",
                build.build.command, build.tool
            ),
            build.written.0.as_ref(),
        )
    };
    builds.iter().map(want).collect()
}

/// Libraries and programs.
pub(super) fn programs(bundle: &Bundle) -> Vec<Want> {
    let want = |tool: &Arc<Resource<Tool>>| {
        let what = match &tool.spec.entry {
            Entry::Builtin(_) => return None,
            Entry::Library(path) => format!("loads the library `{path}`"),
            Entry::Executable(folder) => {
                format!("starts the program that `{folder}/tool.yaml` names")
            }
            Entry::A2a(agent) => format!("talks to the A2A agent at {}", agent.url),
            Entry::Module(module) => format!("runs the code in `{}`", module.path),
            Entry::Mcp(server) => match &server.transport {
                McpTransport::Program { .. } => {
                    format!("starts the MCP server `{}`", server.shown())
                }
                McpTransport::Http { .. } => {
                    format!("talks to the MCP server at {}", server.shown())
                }
                McpTransport::Socket { .. } => {
                    format!("talks to the MCP server on the socket `{}`", server.shown())
                }
            },
        };
        Some(Want::new(what, tool.origin.as_ref()))
    };
    let of_extension = |extension: &Arc<Resource<Extension>>| match &extension.spec.entry {
        ExtensionEntry::Module(module) => Some(Want::new(
            format!("runs the code in `{}`", module.path),
            extension.origin.as_ref(),
        )),
        ExtensionEntry::Library(path) => Some(Want::new(
            format!("loads the library `{path}`"),
            extension.origin.as_ref(),
        )),
        ExtensionEntry::Builtin(_) => None,
    };
    let of_connector = |connector: &Arc<Resource<Connector>>| match &connector.spec.entry {
        ConnectorEntry::Module(module) => Some(Want::new(
            format!("runs the code in `{}`", module.path),
            connector.origin.as_ref(),
        )),
        ConnectorEntry::Library(path) => Some(Want::new(
            format!("loads the library `{path}`"),
            connector.origin.as_ref(),
        )),
        ConnectorEntry::Builtin(_) => None,
    };
    let tools = bundle.tools().values().filter_map(want);
    let extensions = bundle.extensions().values().filter_map(of_extension);
    tools
        .chain(extensions)
        .chain(bundle.connectors().values().filter_map(of_connector))
        .collect()
}

/// Settings of tools and extensions that open folders or hand values over.
pub(super) fn settings(bundle: &Bundle) -> Vec<Want> {
    let tools = bundle
        .tools()
        .values()
        .map(|tool| (tool.id.to_string(), &tool.spec.config, tool.origin.as_ref()));
    let extensions = bundle
        .extensions()
        .values()
        .map(|one| (one.id.to_string(), &one.spec.config, one.origin.as_ref()));
    let uses = bundle.agents().values().flat_map(|agent| {
        let of_use = |used: &'_ goondan_spec::kinds::ExtensionUse| used.extension.to_string();
        agent
            .spec
            .extensions
            .iter()
            .map(move |used| (of_use(used), &used.config, agent.origin.as_ref()))
    });
    let mut wants: Vec<Want> = bundle
        .tools()
        .values()
        .filter_map(|tool| other_host(tool))
        .collect();
    for (whose, config, origin) in tools.chain(extensions).chain(uses) {
        for key in ["roots", "dir"] {
            wants.extend(texts(config.get(key)).map(|folder| {
                Want::new(format!("opens the folder `{folder}` to {whose}"), origin)
            }));
        }
        wants.extend(texts(config.get("env")).map(|name| handed(name, &whose, origin)));
        config
            .values()
            .for_each(|value| sources(value, &mut |name| wants.push(handed(name, &whose, origin))));
    }
    for model in bundle.models().values() {
        let headers = model.spec.options.headers.iter();
        let named = headers.filter_map(|(_, value)| match value {
            TextOrSource::Source(source) => name(source),
            TextOrSource::Plain(_) => None,
        });
        wants.extend(named.map(|name| handed(&name, &model.id.to_string(), model.origin.as_ref())));
    }
    wants
}

/// A host that command lines run on, with the keys of whoever runs the project.
fn other_host(tool: &Resource<Tool>) -> Option<Want> {
    let runs_lines =
        matches!(&tool.spec.entry, Entry::Builtin(name) if name == "bash" || name == "runtime");
    let host = tool
        .spec
        .config
        .get("host")
        .filter(|_| runs_lines)?
        .as_str()?;
    Some(Want::new(
        format!("runs commands on the host `{host}` over SSH, with your keys"),
        tool.origin.as_ref(),
    ))
}

fn handed(name: &str, whose: &str, origin: Option<&Origin>) -> Want {
    Want::new(format!("hands the value of {name} to {whose}"), origin)
}

/// The text, or those in the list.
fn texts(value: Option<&Value>) -> impl Iterator<Item = &str> {
    let (one, several) = match value {
        Some(Value::Array(items)) => (None, items.as_slice()),
        one => (one, &[][..]),
    };
    one.into_iter().chain(several).filter_map(Value::as_str)
}

/// The variables and secrets that value sources in a config name.
fn sources(value: &Value, found: &mut dyn FnMut(&str)) {
    match value {
        Value::Object(fields) => {
            if let Some(from) = fields.get("valueFrom") {
                let names = [from.get("env"), from.pointer("/secretRef/ref")];
                names
                    .into_iter()
                    .flatten()
                    .filter_map(Value::as_str)
                    .for_each(&mut *found);
            }
            fields.values().for_each(|value| sources(value, found));
        }
        Value::Array(items) => items.iter().for_each(|item| sources(item, found)),
        _ => {}
    }
}

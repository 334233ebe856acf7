//! What can be found out about a project without running it, beyond what is written in its YAML.

mod chain;
mod ready;

use std::sync::Arc;

use goondan_spec::kinds::{
    Connector, ConnectorEntry, Entry, Extension, ExtensionEntry, Model, Module, Tool,
};
use goondan_spec::{Bundle, Diagnostic, Environment, Resource, ResourceId};

use crate::project::Project;

/// Everything of that kind, for a project that is valid as far as its YAML goes. Nothing of it is run or opened. `environment`
/// is what its variables are read from.
pub fn check(project: &Project, environment: &Environment) -> Vec<Diagnostic> {
    let Some(bundle) = &project.bundle else {
        return Vec::new();
    };
    let mut found = chain::check(bundle);
    found.extend(ready::check(bundle, environment));
    found.extend(bundle.short_secrets(environment));
    found
}

/// The runtimes of modules, with the program of each that is installed; what lies in the project does not count.
pub fn runtimes(project: &std::path::Path) -> Vec<(&'static str, Option<std::path::PathBuf>)> {
    goondan_hosts::installed(project)
}

/// The tools, extensions and connectors whose entries are modules, each with what keeps it from running and what to do about that. Nothing is started.
pub fn modules(bundle: &Bundle) -> Vec<(ResourceId, Option<(String, String)>)> {
    let problem = |id: &ResourceId, module: &Module| {
        (id.clone(), goondan_hosts::problem(module, bundle.root()))
    };
    let of_tool = |tool: &Arc<Resource<Tool>>| match &tool.spec.entry {
        Entry::Module(module) => Some(problem(&tool.id, module)),
        _ => None,
    };
    let of_extension = |extension: &Arc<Resource<Extension>>| match &extension.spec.entry {
        ExtensionEntry::Module(module) => Some(problem(&extension.id, module)),
        ExtensionEntry::Builtin(_) | ExtensionEntry::Library(_) => None,
    };
    let of_connector = |connector: &Arc<Resource<Connector>>| match &connector.spec.entry {
        ConnectorEntry::Module(module) => Some(problem(&connector.id, module)),
        ConnectorEntry::Builtin(_) | ConnectorEntry::Library(_) => None,
    };
    let tools = bundle.tools().values().filter_map(of_tool);
    let extensions = bundle.extensions().values().filter_map(of_extension);
    tools
        .chain(extensions)
        .chain(bundle.connectors().values().filter_map(of_connector))
        .collect()
}

/// The connections, each with what keeps it from running with these variables.
pub fn connections<'b>(
    bundle: &'b Bundle,
    environment: &'b Environment,
) -> impl Iterator<Item = (&'b ResourceId, Option<String>)> {
    let all = bundle.connections().values();
    all.map(|connection| {
        (
            &connection.id,
            crate::connectors::unusable(bundle, connection, environment),
        )
    })
}

/// The models of providers on the network, each with what to do about its key where that is missing.
pub fn keys<'b>(
    bundle: &'b Bundle,
    environment: &'b Environment,
) -> impl Iterator<Item = (&'b Resource<Model>, Option<String>)> {
    ready::keys(bundle, environment)
}

//! Static checks of a project beyond its YAML. Nothing of the project is run.

mod availability;
mod caller_permissions;
mod duties;
mod ignored_variables;
mod startability;
mod unread_files;

use std::sync::Arc;

use goondan_spec::bundle::ResourceOrigin;
use goondan_spec::kinds::{ConnectorEntry, ExtensionEntry, Model, ScriptModule, ToolEntry};
use goondan_spec::{Bundle, Code, Diagnostic, Environment, Resource, ResourceId};

use crate::blocking::run_blocking;
use crate::start::project::Project;

pub use goondan_hosts::{program_version, reads_typescript};
pub use startability::startability;
pub use unread_files::unread_files;

/// Runs all static checks of a project with valid YAML. Nothing of it is run or opened. Variables
/// are read from `environment`.
pub fn check(project: &Project, environment: &Environment) -> Vec<Diagnostic> {
    let Some(bundle) = &project.bundle else {
        return Vec::new();
    };
    let mut diagnostics: Vec<Diagnostic> =
        startability::missing_swarm(bundle).into_iter().collect();
    diagnostics.extend(startability::missing_variables(bundle, environment));
    let reported: Vec<_> = diagnostics
        .iter()
        .map(|problem| problem.resource.clone())
        .collect();
    diagnostics.extend(caller_permissions::check(bundle));
    diagnostics.extend(duties::check(bundle));
    diagnostics.extend(ignored_variables::check(bundle, environment));
    let unavailable = availability::check(bundle, environment).into_iter();
    diagnostics.extend(unavailable.filter(|problem| !reported.contains(&problem.resource)));
    diagnostics.extend(bundle.short_secrets(environment));
    diagnostics
}

/// Returns the warnings of `swarm` that depend only on the YAML and on variables.
pub(crate) fn warnings_of_swarm(
    bundle: &Bundle,
    swarm: &ResourceId,
    environment: &Environment,
) -> Vec<Diagnostic> {
    let mut warnings = bundle.short_secrets(environment);
    warnings.extend(duties::of_swarm(bundle, swarm));
    warnings.extend(ignored_variables::check(bundle, environment));
    warnings
}

/// Returns true for the code of a warning from [`warnings_of_swarm`]. A reload repeats no such warning
/// of the serving generation.
pub(crate) fn depends_on_project_only(code: Code) -> bool {
    matches!(code, Code::SHORT_SECRET | Code::IGNORED_VARIABLE) || duties::is_duty(code)
}

/// Returns a warning for each handler file in TypeScript whose runtime can't read TypeScript. Starts
/// the runtime once to get its version.
pub async fn typescript_problems(bundle: &Arc<Bundle>) -> Vec<Diagnostic> {
    let bundle = Arc::clone(bundle);
    run_blocking(move || availability::typescript(&bundle)).await
}

/// Returns the runtimes of handler files, each with its installed program. Programs inside the
/// project are ignored.
pub fn runtimes(project: &std::path::Path) -> Vec<(&'static str, Option<std::path::PathBuf>)> {
    goondan_hosts::installed(project)
}

/// Returns the tools, extensions and connectors with handler files, each with an obstacle and its
/// fix, if any. Nothing is started.
pub fn modules(bundle: &Bundle) -> Vec<(ResourceId, Option<(String, String)>)> {
    script_modules(bundle)
        .map(|(id, _, module)| (id.clone(), goondan_hosts::problem(module, bundle.root())))
        .collect()
}

/// Returns the handler files of the tools, extensions and connectors, each with the id and the place
/// of its resource.
fn script_modules(
    bundle: &Bundle,
) -> impl Iterator<Item = (&ResourceId, Option<&ResourceOrigin>, &ScriptModule)> {
    let tools = bundle.tools().values().filter_map(|tool| {
        let ToolEntry::Module(module) = &tool.spec.entry else {
            return None;
        };
        Some((&tool.id, tool.origin.as_ref(), &**module))
    });
    let extensions = bundle.extensions().values().filter_map(|extension| {
        let ExtensionEntry::Module(module) = &extension.spec.entry else {
            return None;
        };
        Some((&extension.id, extension.origin.as_ref(), &**module))
    });
    let connectors = bundle.connectors().values().filter_map(|connector| {
        let ConnectorEntry::Module(module) = &connector.spec.entry else {
            return None;
        };
        Some((&connector.id, connector.origin.as_ref(), &**module))
    });
    tools.chain(extensions).chain(connectors)
}

/// Returns the connections, each with the problem that prevents it from running with these
/// variables.
pub fn connections<'b>(
    bundle: &'b Bundle,
    environment: &'b Environment,
) -> impl Iterator<Item = (&'b ResourceId, Option<String>)> {
    let all = bundle.connections().values();
    all.map(|connection| {
        (
            &connection.id,
            crate::adapters::connectors::unusable(bundle, connection, environment),
        )
    })
}

/// Returns the models of network providers, each with a fix if its API key is missing.
pub fn keys<'b>(
    bundle: &'b Bundle,
    environment: &'b Environment,
) -> impl Iterator<Item = (&'b Resource<Model>, Option<String>)> {
    availability::keys(bundle, environment)
}

//! Builds the middleware of an agent from its extensions.

use std::path::Path;
use std::sync::Arc;

use goondan_spec::bundle::Resources;
use goondan_spec::kinds::{Agent, Extension, ExtensionEntry};
use goondan_spec::{Code, Diagnostic, JsonObject, Resource};
use serde_json::Value;

use super::builtin::{self, ConfigProblem};
use super::layers::{AgentExtensions, HostedExtension, WrappingExtension};
use super::structured_output::StructuredOutput;
use super::{Middleware, message_compaction, message_window, required_tools_guard, tool_search};
use crate::plan::point_at;
use crate::tooling::registry::ToolCatalog;
use goondan_core::ports::extension::ExtensionSource;

/// Extension of an agent with its merged config.
struct RequestedExtension<'a> {
    /// Name of a built-in extension, or of the Extension resource.
    name: &'a str,
    is_builtin: bool,
    config: JsonObject,
    /// Index in the agent's list; `None` for an extension that only `requiredTools` or deferred
    /// tools require.
    index: Option<usize>,
    resource: Option<&'a Resource<Extension>>,
}

pub(crate) struct ExtensionInputs<'a> {
    pub(crate) extensions: &'a Resources<Extension>,
    /// Opens extensions that have a handler file or a library.
    pub(crate) code: &'a dyn ExtensionSource,
    /// Directory of the bundle.
    pub(crate) root: &'a Path,
}

/// Returns the extensions of `agent`, outermost first, and all errors in them.
///
/// `tools` are the agent's own tools; the `deferred` ones are hidden until the model searches for
/// them. `output` checks the agent's answers if they are structured data.
pub(crate) async fn build_chain(
    agent: &Resource<Agent>,
    sources: &ExtensionInputs<'_>,
    tools: &ToolCatalog,
    deferred: &[String],
    output: Option<StructuredOutput>,
) -> (AgentExtensions, Vec<Diagnostic>) {
    let mut requested: Vec<RequestedExtension<'_>> = listed_extensions(agent, sources.extensions);
    // Unknown names are reported at `spec.requiredTools`.
    let required = agent
        .spec
        .required_tools
        .iter()
        .filter(|name| tools.get(name).is_some());
    add_names(
        &mut requested,
        required_tools_guard::NAME,
        required_tools_guard::REQUIRED_TOOLS_FIELD,
        required,
    );
    add_names(
        &mut requested,
        tool_search::NAME,
        tool_search::DEFERRED_TOOLS_FIELD,
        deferred.iter(),
    );
    add_default_compaction(&mut requested, tools);
    let mut chain = Vec::new();
    let mut problems = Vec::new();
    // Outermost, so that it sees the answer that all other middleware has accepted.
    if let Some(guard) = output {
        problems.extend(taken_name_error(agent, tools, &guard));
        chain.push(WrappingExtension::Outermost(Arc::new(guard)));
    }
    for requested in requested {
        match requested.resource.filter(|_| !requested.is_builtin) {
            None => match make_middleware(&requested, tools) {
                Ok(middleware) => chain.push(WrappingExtension::BuiltIn(middleware)),
                Err(problem) => problems.push(config_diagnostic(agent, &requested, problem)),
            },
            Some(resource) => match sources
                .code
                .open(resource, requested.config.clone(), sources.root)
                .await
            {
                Ok(code) => chain.push(WrappingExtension::Hosted(HostedExtension {
                    name: requested.name.to_owned(),
                    code,
                })),
                Err(error) => {
                    let mut diagnostic = Diagnostic::new(Code::ENTRY_NOT_FOUND, error.to_string());
                    diagnostic.suggestion = error.suggestion;
                    problems.push(point_at(
                        diagnostic,
                        &resource.id,
                        resource.origin.as_ref(),
                        "spec.entry",
                    ));
                }
            },
        }
    }
    (AgentExtensions::new(chain), problems)
}

/// Returns an error if a tool of the agent has the same name as the answer tool.
fn taken_name_error(
    agent: &Resource<Agent>,
    tools: &ToolCatalog,
    guard: &StructuredOutput,
) -> Option<Diagnostic> {
    let answer_tool = guard
        .tools()
        .into_iter()
        .find(|answer_tool| tools.get(answer_tool.name.as_str()).is_some())?;
    let message = format!(
        "the agent has a tool `{}`, but `output` reserves this name for the answer tool",
        answer_tool.name
    );
    let diagnostic =
        Diagnostic::new(Code::SCHEMA_INVALID, message).suggest("give the Tool another name");
    Some(point_at(
        diagnostic,
        &agent.id,
        agent.origin.as_ref(),
        "spec.output",
    ))
}

/// Returns the extensions in `spec.extensions` of the agent, each with its merged config.
fn listed_extensions<'a>(
    agent: &'a Resource<Agent>,
    extensions: &'a Resources<Extension>,
) -> Vec<RequestedExtension<'a>> {
    let requested = agent
        .spec
        .extensions
        .iter()
        .enumerate()
        .map(|(index, used)| {
            let resource = &extensions[&used.extension];
            let (name, is_builtin) = match &resource.spec.entry {
                ExtensionEntry::Builtin(name) => (name, true),
                ExtensionEntry::Module(_) | ExtensionEntry::Library(_) => {
                    (&resource.id.name, false)
                }
            };
            let mut config = resource.spec.config.clone();
            config.extend(used.config.clone());
            RequestedExtension {
                name,
                is_builtin,
                config,
                index: Some(index),
                resource: Some(resource),
            }
        });
    requested.collect()
}

/// Built-in tools whose results soon fill a context window.
const FILE_AND_SHELL_TOOLS: [&str; 4] = ["bash__", "file-system__", "fs__", "runtime__"];

/// Adds `message-compaction` to an agent with file or shell tools that lists no extension for long
/// conversations.
fn add_default_compaction(requested: &mut Vec<RequestedExtension<'_>>, tools: &ToolCatalog) {
    let is_listed = requested.iter().any(|requested| {
        requested.is_builtin
            && [message_compaction::NAME, message_window::NAME].contains(&requested.name)
    });
    let is_large = |name: &str| {
        let builtin = tools.get(name).and_then(|tool| tool.builtin.as_deref());
        builtin.is_some_and(|builtin| {
            FILE_AND_SHELL_TOOLS
                .iter()
                .any(|prefix| builtin.starts_with(prefix))
        })
    };
    if !is_listed && tools.names().any(is_large) {
        requested.push(RequestedExtension {
            name: message_compaction::NAME,
            is_builtin: true,
            config: JsonObject::new(),
            index: None,
            resource: None,
        });
    }
}

/// Adds `tools` to the list `key` in the config of an extension. If the agent does not use the
/// extension, adds the extension as the innermost.
fn add_names<'a, 'w>(
    requested: &mut Vec<RequestedExtension<'w>>,
    extension: &'w str,
    key: &str,
    tools: impl Iterator<Item = &'a String>,
) {
    let tools: Vec<Value> = tools.map(|name| Value::String(name.clone())).collect();
    if tools.is_empty() {
        return;
    }
    let existing = requested
        .iter_mut()
        .find(|requested| requested.is_builtin && requested.name == extension);
    match existing.map(|existing| {
        existing
            .config
            .entry(key)
            .or_insert_with(|| Value::Array(vec![]))
    }) {
        Some(Value::Array(listed)) => listed.extend(tools),
        // Not a list: the extension reports the error.
        Some(_) => {}
        None => {
            let config = JsonObject::from_iter([(key.to_owned(), Value::Array(tools))]);
            requested.push(RequestedExtension {
                name: extension,
                is_builtin: true,
                config,
                index: None,
                resource: None,
            });
        }
    }
}

/// Creates the middleware of a built-in extension.
fn make_middleware(
    requested: &RequestedExtension<'_>,
    tools: &ToolCatalog,
) -> Result<Arc<dyn Middleware>, ConfigProblem> {
    match builtin::find(requested.name) {
        Some(builtin) => (builtin.make)(requested.config.clone(), tools),
        None => Err(ConfigProblem {
            field: String::new(),
            message: format!("there is no built-in extension `{}`", requested.name),
            suggestion: Some(format!(
                "there are: {}",
                builtin::names().collect::<Vec<_>>().join(", ")
            )),
        }),
    }
}

/// Returns a diagnostic at the Agent, or at the Extension if only the Extension sets the field.
fn config_diagnostic(
    agent: &Resource<Agent>,
    requested: &RequestedExtension<'_>,
    problem: ConfigProblem,
) -> Diagnostic {
    let key = problem.field.split(['.', '[']).next().unwrap_or_default();
    let agent_config = requested
        .index
        .map(|index| &agent.spec.extensions[index].config);
    let declaring_extension = requested.resource.filter(|resource| {
        resource.spec.config.contains_key(key)
            && !agent_config.is_some_and(|config| config.contains_key(key))
    });
    let message = match problem.field.as_str() {
        "" => format!(
            "the config of the extension {} is invalid: {}",
            requested.name, problem.message
        ),
        field => format!(
            "`{field}` in the config of the extension {} is invalid: {}",
            requested.name, problem.message
        ),
    };
    let mut diagnostic = Diagnostic::new(Code::SCHEMA_INVALID, message);
    diagnostic.suggestion = problem.suggestion;
    let config = match (declaring_extension, requested.index) {
        (None, Some(index)) => format!("spec.extensions[{index}].config"),
        _ => "spec.config".to_owned(),
    };
    let field = if problem.field.is_empty() {
        config
    } else {
        format!("{config}.{}", problem.field)
    };
    match declaring_extension {
        Some(extension) => point_at(diagnostic, &extension.id, extension.origin.as_ref(), &field),
        None => point_at(diagnostic, &agent.id, agent.origin.as_ref(), &field),
    }
}

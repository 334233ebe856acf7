//! The extensions of an agent become its middleware.

use std::path::Path;
use std::sync::Arc;

use goondan_spec::bundle::Resources;
use goondan_spec::kinds::{Agent, Extension, ExtensionEntry};
use goondan_spec::{Code, Diagnostic, JsonObject, Resource};
use serde_json::Value;

use super::builtin::{self, ConfigProblem};
use super::layers::{Extensions, Hosted, Wrapping};
use super::structured_output::StructuredOutput;
use super::{Middleware, required_tools_guard, tool_search};
use crate::plan::at;
use crate::tooling::registry::Catalog;
use goondan_core::ports::extension::ExtensionSource;

/// An extension of an agent, with its whole config.
struct Wanted<'a> {
    /// The name of a built-in one, or of the resource of one that is a file.
    name: &'a str,
    is_builtin: bool,
    config: JsonObject,
    /// Its place in the agent's list; `None` for a guard that only `requiredTools` asks for.
    index: Option<usize>,
    resource: Option<&'a Resource<Extension>>,
}

/// What the extensions of an agent are made from.
pub(crate) struct Sources<'a> {
    /// All extensions of the bundle.
    pub(crate) extensions: &'a Resources<Extension>,
    /// Opens those that are files.
    pub(crate) code: &'a dyn ExtensionSource,
    /// The bundle's folder.
    pub(crate) root: &'a Path,
}

/// The extensions of `agent`, outermost first, with everything that is wrong with them. `tools` are the agent's own, of which the
/// `deferred` ones are to be looked for. `output` is the guard of its answers, where they are data.
pub(crate) async fn chain(
    agent: &Resource<Agent>,
    sources: &Sources<'_>,
    tools: &Catalog,
    deferred: &[String],
    output: Option<StructuredOutput>,
) -> (Extensions, Vec<Diagnostic>) {
    let mut wanted: Vec<Wanted<'_>> = listed(agent, sources.extensions);
    // Names that the agent does not have are told at `spec.requiredTools`.
    let required = agent
        .spec
        .required_tools
        .iter()
        .filter(|name| tools.get(name).is_some());
    add_names(
        &mut wanted,
        required_tools_guard::NAME,
        required_tools_guard::TOOLS,
        required,
    );
    add_names(
        &mut wanted,
        tool_search::NAME,
        tool_search::DEFERRED,
        deferred.iter(),
    );
    let (mut chain, mut problems) = (Vec::new(), Vec::new());
    // The outermost: it sees the answer that everything else has let through.
    if let Some(guard) = output {
        problems.extend(taken_name(agent, tools, &guard));
        chain.push(Wrapping::Outermost(Arc::new(guard)));
    }
    for wanted in wanted {
        match wanted.resource.filter(|_| !wanted.is_builtin) {
            None => match make(&wanted, tools) {
                Ok(middleware) => chain.push(Wrapping::BuiltIn(middleware)),
                Err(problem) => problems.push(diagnostic(agent, &wanted, problem)),
            },
            Some(resource) => match sources
                .code
                .open(resource, wanted.config.clone(), sources.root)
                .await
            {
                Ok(code) => chain.push(Wrapping::Hosted(Hosted {
                    name: wanted.name.to_owned(),
                    code,
                })),
                Err(error) => {
                    let mut diagnostic = Diagnostic::new(Code::ENTRY_NOT_FOUND, error.to_string());
                    diagnostic.suggestion = error.suggestion;
                    problems.push(at(
                        diagnostic,
                        &resource.id,
                        resource.origin.as_ref(),
                        "spec.entry",
                    ));
                }
            },
        }
    }
    (Extensions::new(chain), problems)
}

/// That a tool of the agent has the name of the one that takes its answer.
fn taken_name(
    agent: &Resource<Agent>,
    tools: &Catalog,
    guard: &StructuredOutput,
) -> Option<Diagnostic> {
    let own = guard
        .tools()
        .into_iter()
        .find(|own| tools.get(own.name.as_str()).is_some())?;
    let message = format!(
        "the agent has a tool `{}`, which is the one that takes its answer, as `output` states it",
        own.name
    );
    let diagnostic =
        Diagnostic::new(Code::SCHEMA_INVALID, message).suggest("give the Tool another name");
    Some(at(
        diagnostic,
        &agent.id,
        agent.origin.as_ref(),
        "spec.output",
    ))
}

/// The extensions that an agent lists.
fn listed<'a>(agent: &'a Resource<Agent>, extensions: &'a Resources<Extension>) -> Vec<Wanted<'a>> {
    let wanted = agent
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
            Wanted {
                name,
                is_builtin,
                config,
                index: Some(index),
                resource: Some(resource),
            }
        });
    wanted.collect()
}

/// Adds `tools` to a list in the config of an extension; where the agent does not have it, it becomes the innermost.
fn add_names<'a, 'w>(
    wanted: &mut Vec<Wanted<'w>>,
    extension: &'w str,
    key: &str,
    tools: impl Iterator<Item = &'a String>,
) {
    let tools: Vec<Value> = tools.map(|name| Value::String(name.clone())).collect();
    if tools.is_empty() {
        return;
    }
    let known = wanted
        .iter_mut()
        .find(|wanted| wanted.is_builtin && wanted.name == extension);
    match known.map(|known| {
        known
            .config
            .entry(key)
            .or_insert_with(|| Value::Array(vec![]))
    }) {
        Some(Value::Array(listed)) => listed.extend(tools),
        // No list at all: the extension tells it.
        Some(_) => {}
        None => {
            let config = JsonObject::from_iter([(key.to_owned(), Value::Array(tools))]);
            wanted.push(Wanted {
                name: extension,
                is_builtin: true,
                config,
                index: None,
                resource: None,
            });
        }
    }
}

fn make(wanted: &Wanted<'_>, tools: &Catalog) -> Result<Arc<dyn Middleware>, ConfigProblem> {
    match builtin::find(wanted.name) {
        Some(builtin) => (builtin.make)(wanted.config.clone(), tools),
        None => Err(ConfigProblem {
            field: String::new(),
            message: format!("there is no built-in extension `{}`", wanted.name),
            suggestion: Some(format!(
                "there are: {}",
                builtin::names().collect::<Vec<_>>().join(", ")
            )),
        }),
    }
}

/// Points at the Agent, or at the Extension where that is what says it.
fn diagnostic(agent: &Resource<Agent>, wanted: &Wanted<'_>, problem: ConfigProblem) -> Diagnostic {
    let key = problem.field.split(['.', '[']).next().unwrap_or_default();
    let own = wanted
        .index
        .map(|index| &agent.spec.extensions[index].config);
    let elsewhere = wanted.resource.filter(|resource| {
        resource.spec.config.contains_key(key)
            && !own.is_some_and(|config| config.contains_key(key))
    });
    let message = match problem.field.as_str() {
        "" => format!(
            "the config of the extension {} is not right: {}",
            wanted.name, problem.message
        ),
        field => format!(
            "`{field}` in the config of the extension {} is not right: {}",
            wanted.name, problem.message
        ),
    };
    let mut diagnostic = Diagnostic::new(Code::SCHEMA_INVALID, message);
    diagnostic.suggestion = problem.suggestion;
    let config = match (elsewhere, wanted.index) {
        (None, Some(index)) => format!("spec.extensions[{index}].config"),
        _ => "spec.config".to_owned(),
    };
    let field = if problem.field.is_empty() {
        config
    } else {
        format!("{config}.{}", problem.field)
    };
    match elsewhere {
        Some(extension) => at(diagnostic, &extension.id, extension.origin.as_ref(), &field),
        None => at(diagnostic, &agent.id, agent.origin.as_ref(), &field),
    }
}

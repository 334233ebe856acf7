//! Whether what the agents are made of can be had: providers and keys of models, and what is behind the entries of tools.

use std::collections::BTreeSet;

use goondan_models::{missing_key, model_problem};
use goondan_spec::kinds::{ConnectorEntry, Entry, ExtensionEntry, Model, Module, Tool};
use goondan_spec::{Bundle, Code, Diagnostic, Environment, Resource, ResourceId};
use goondan_tools::{EntryFault, config_fault, entry_fault};

use crate::connectors::unusable;

/// What can't be had. What no agent uses keeps nobody from running.
pub(super) fn check(bundle: &Bundle, environment: &Environment) -> Vec<Diagnostic> {
    let agents = || bundle.agents().values().map(|agent| &agent.spec);
    let models: BTreeSet<&ResourceId> = agents().flat_map(|agent| agent.models()).collect();
    let tools: BTreeSet<&ResourceId> = agents()
        .flat_map(|agent| &agent.tools)
        .map(|used| &used.tool)
        .collect();
    let of_models = bundle.models().values().filter_map(|model| {
        let wrong = model_problem(model, bundle.root()).map(|error| (Code::SCHEMA_INVALID, error));
        let (code, error) =
            wrong.or_else(|| Some((Code::NOT_READY, missing_key(model, environment)?)))?;
        let problem = Problem {
            code,
            message: error.message.clone(),
            suggestion: error.suggestion.clone(),
        };
        let diagnostic = problem.of(model, "spec", models.contains(&model.id), "model");
        Some(error.locate(diagnostic, bundle, &model.id))
    });
    let of_tools = bundle.tools().values().filter_map(|tool| {
        let problem = entry_problem(bundle, tool, environment)?;
        let mut diagnostic = problem.of(tool, "spec.entry", tools.contains(&tool.id), "tool");
        diagnostic.position = bundle.place(&tool.id, "spec.entry").or(diagnostic.position);
        Some(diagnostic)
    });
    let extensions: BTreeSet<&ResourceId> = agents()
        .flat_map(|agent| &agent.extensions)
        .map(|used| &used.extension)
        .collect();
    let of_extensions = bundle.extensions().values().filter_map(|extension| {
        let problem = match &extension.spec.entry {
            ExtensionEntry::Builtin(_) => return None,
            ExtensionEntry::Module(module) => module_problem(bundle, &extension.id, module)?,
            ExtensionEntry::Library(path) => library_problem(bundle, &extension.id, path)?,
        };
        let mut diagnostic = problem.of(
            extension,
            "spec.entry",
            extensions.contains(&extension.id),
            "extension",
        );
        diagnostic.position = bundle
            .place(&extension.id, "spec.entry")
            .or(diagnostic.position);
        Some(diagnostic)
    });
    let of_connectors = bundle.connectors().values().filter_map(|connector| {
        // The swarm runs without it.
        let problem = match &connector.spec.entry {
            ConnectorEntry::Builtin(_) => return None,
            ConnectorEntry::Module(module) => module_problem(bundle, &connector.id, module)?,
            ConnectorEntry::Library(path) => Problem {
                code: Code::NOT_READY,
                ..library_problem(bundle, &connector.id, path)?
            },
        };
        let mut diagnostic = problem.of(connector, "spec.entry", true, "connector");
        diagnostic.position = bundle
            .place(&connector.id, "spec.entry")
            .or(diagnostic.position);
        Some(diagnostic)
    });
    let of_connections = bundle.connections().values().filter_map(|connection| {
        let message = unusable(bundle, connection, environment)?;
        let suggestion = Some("set it in the environment, or in a file named `.env`".to_owned());
        let problem = Problem {
            code: Code::NOT_READY,
            message: format!("{}: {message}", connection.id),
            suggestion,
        };
        Some(problem.of(connection, "spec", true, "connection"))
    });
    of_models
        .chain(of_tools)
        .chain(of_extensions)
        .chain(of_connectors)
        .chain(of_connections)
        .collect()
}

/// The models whose keys are not set, and those that have theirs.
pub(super) fn keys<'b>(
    bundle: &'b Bundle,
    environment: &'b Environment,
) -> impl Iterator<Item = (&'b Resource<Model>, Option<String>)> {
    let live = |model: &&Resource<Model>| {
        goondan_models::provider(&model.spec.provider).is_some_and(|provider| provider.is_live())
    };
    let models = bundle.models().values().map(AsRef::as_ref).filter(live);
    models.map(|model| {
        (
            model,
            missing_key(model, environment).and_then(|error| error.suggestion),
        )
    })
}

struct Problem {
    code: Code,
    message: String,
    suggestion: Option<String>,
}

impl Problem {
    fn of<T>(self, resource: &Resource<T>, field: &str, is_used: bool, what: &str) -> Diagnostic {
        let unused = if is_used {
            String::new()
        } else {
            format!(" No agent uses the {what}.")
        };
        let code = if is_used { self.code } else { Code::NOT_READY };
        let mut diagnostic = Diagnostic::new(
            code,
            format!("{}.{unused}", self.message.trim_end_matches('.')),
        )
        .of(&resource.id)
        .field(field);
        diagnostic.suggestion = self.suggestion;
        match &resource.origin {
            Some((file, at)) => diagnostic.in_file(file.clone()).at(*at),
            None => diagnostic,
        }
    }
}

/// Why a module can't be run here. It is not started.
fn module_problem(bundle: &Bundle, id: &ResourceId, module: &Module) -> Option<Problem> {
    let (message, remedy) = goondan_hosts::problem(module, bundle.root())?;
    let message = format!("{id}: {message}");
    Some(Problem {
        code: Code::NOT_READY,
        message,
        suggestion: Some(remedy),
    })
}

/// Why a library can't be loaded. It is not.
fn library_problem(bundle: &Bundle, id: &ResourceId, path: &str) -> Option<Problem> {
    let error = goondan_dylib::fault(id, bundle.root(), path)?;
    Some(Problem {
        code: Code::ENTRY_NOT_FOUND,
        message: error.to_string(),
        suggestion: error.suggestion,
    })
}

/// What is wrong behind an entry. Nothing of it is loaded or started.
fn entry_problem(
    bundle: &Bundle,
    tool: &Resource<Tool>,
    environment: &Environment,
) -> Option<Problem> {
    match &tool.spec.entry {
        Entry::Builtin(_) => {
            let error = config_fault(tool, environment)?;
            let (message, suggestion) = (error.to_string(), error.suggestion);
            Some(Problem {
                code: Code::ENTRY_NOT_FOUND,
                message,
                suggestion,
            })
        }
        Entry::Mcp(_) | Entry::A2a(_) => None,
        Entry::Library(path) => library_problem(bundle, &tool.id, path),
        Entry::Module(module) => module_problem(bundle, &tool.id, module),
        Entry::Executable(path) => Some(match entry_fault(&bundle.root().join(path))? {
            EntryFault::Unusable(reason) => Problem {
                code: Code::ENTRY_NOT_FOUND,
                message: format!(
                    "failed to open {}: `{path}` cannot be used: {reason}",
                    tool.id
                ),
                suggestion: None,
            },
            EntryFault::NoInterpreter {
                program,
                interpreter,
            } => Problem {
                code: Code::NOT_READY,
                message: format!(
                    "{}: `{interpreter}`, which `{path}/{program}` names in its first line, is not there",
                    tool.id
                ),
                suggestion: Some(format!(
                    "install `{interpreter}`, or correct the first line of the script"
                )),
            },
        }),
    }
}

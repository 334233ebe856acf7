//! Availability checks: providers and API keys of models, and the files that the entries of tools
//! name.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use goondan_models::{missing_key, model_problem};
use goondan_spec::kinds::{ConnectorEntry, ExtensionEntry, Model, ScriptModule, Tool, ToolEntry};
use goondan_spec::{Bundle, Code, Diagnostic, Environment, Resource, ResourceId, Severity};
use goondan_tools::{EntryFault, config_fault, entry_fault};

use super::script_modules;
use crate::adapters::connectors::unusable;

/// Returns the unavailable parts that agents use. Unused parts do not prevent a start.
pub(super) fn check(bundle: &Bundle, environment: &Environment) -> Vec<Diagnostic> {
    let agents = || bundle.agents().values().map(|agent| &agent.spec);
    let models: BTreeSet<&ResourceId> = agents().flat_map(|agent| agent.models()).collect();
    let tools: BTreeSet<&ResourceId> = agents()
        .flat_map(|agent| &agent.tools)
        .map(|used| &used.tool)
        .collect();
    let of_models = bundle.models().values().filter_map(|model| {
        let model_error =
            model_problem(model, bundle.root()).map(|error| (Code::SCHEMA_INVALID, error));
        let (code, error) =
            model_error.or_else(|| Some((Code::ENV_MISSING, missing_key(model, environment)?)))?;
        let problem = ReadinessProblem {
            code,
            message: error.message.clone(),
            suggestion: error.suggestion.clone(),
        };
        let mut diagnostic = problem.of(model, "spec", models.contains(&model.id), "model");
        if code == Code::ENV_MISSING {
            // Another machine may have the key.
            diagnostic.severity = Severity::Warning;
        }
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
        // The swarm can run without a connector.
        let problem = match &connector.spec.entry {
            ConnectorEntry::Builtin(_) => return None,
            ConnectorEntry::Module(module) => module_problem(bundle, &connector.id, module)?,
            ConnectorEntry::Library(path) => ReadinessProblem {
                code: Code::NOT_READY,
                ..library_problem(bundle, &connector.id, path)?
            },
        };
        let is_used = true;
        let mut diagnostic = problem.of(connector, "spec.entry", is_used, "connector");
        diagnostic.position = bundle
            .place(&connector.id, "spec.entry")
            .or(diagnostic.position);
        Some(diagnostic)
    });
    let of_connections = bundle.connections().values().filter_map(|connection| {
        let message = unusable(bundle, connection, environment)?;
        let suggestion = Some("set it in the environment, or in a file named `.env`".to_owned());
        let problem = ReadinessProblem {
            code: Code::NOT_READY,
            message: format!("{}: {message}", connection.id),
            suggestion,
        };
        let is_used = true;
        Some(problem.of(connection, "spec", is_used, "connection"))
    });
    of_models
        .chain(of_tools)
        .chain(of_extensions)
        .chain(of_connectors)
        .chain(of_connections)
        .collect()
}

/// Returns the models with their API key problem, if any.
pub(super) fn keys<'b>(
    bundle: &'b Bundle,
    environment: &'b Environment,
) -> impl Iterator<Item = (&'b Resource<Model>, Option<String>)> {
    let is_network_model = |model: &&Resource<Model>| {
        goondan_models::provider(&model.spec.provider).is_some_and(|provider| provider.is_live())
    };
    let models = bundle
        .models()
        .values()
        .map(AsRef::as_ref)
        .filter(is_network_model);
    models.map(|model| {
        (
            model,
            missing_key(model, environment).and_then(|error| error.suggestion),
        )
    })
}

/// Reason why a resource can't be used.
struct ReadinessProblem {
    code: Code,
    message: String,
    suggestion: Option<String>,
}

impl ReadinessProblem {
    /// Converts the problem to a diagnostic. `what` names the kind of resource. The problem of an
    /// unused resource is only a warning.
    fn of<T>(self, resource: &Resource<T>, field: &str, is_used: bool, what: &str) -> Diagnostic {
        let unused = if is_used {
            String::new()
        } else {
            format!(" No agent uses the {what}.")
        };
        let code = if is_used { self.code } else { Code::NOT_READY };
        let diagnostic = ReadinessProblem { code, ..self }.diagnostic(unused);
        let diagnostic = diagnostic.of(&resource.id).field(field);
        match &resource.origin {
            Some((file, at)) => diagnostic.in_file(file.clone()).at(*at),
            None => diagnostic,
        }
    }

    /// Returns the diagnostic without a position. `addition` follows the message.
    fn diagnostic(self, addition: String) -> Diagnostic {
        let message = format!("{}.{addition}", self.message.trim_end_matches('.'));
        Diagnostic {
            suggestion: self.suggestion,
            ..Diagnostic::new(self.code, message)
        }
    }
}

/// Returns a warning for each handler file whose runtime can't read TypeScript. Starts each runtime
/// once to get its version. Blocks.
pub(super) fn typescript(bundle: &Bundle) -> Vec<Diagnostic> {
    let mut versions: HashMap<PathBuf, Option<String>> = HashMap::new();
    let mut version_of = |program: &Path| {
        let version = versions.entry(program.to_owned());
        version
            .or_insert_with(|| goondan_hosts::program_version(program))
            .clone()
    };
    script_modules(bundle)
        .filter_map(|(id, origin, module)| {
            let (message, remedy) =
                goondan_hosts::typescript_problem(module, bundle.root(), &mut version_of)?;
            let problem = ReadinessProblem {
                code: Code::NOT_READY,
                message: format!("{id}: {message}"),
                suggestion: Some(remedy),
            };
            let mut diagnostic = problem.diagnostic(String::new()).of(id).field("spec.entry");
            diagnostic.position = bundle.place(id, "spec.entry");
            if let Some((file, at)) = origin {
                diagnostic.file = Some(file.clone());
                diagnostic.position = diagnostic.position.or(Some(*at));
            }
            Some(diagnostic)
        })
        .collect()
}

/// Returns the reason why a handler file cannot run here. It is not started.
fn module_problem(
    bundle: &Bundle,
    id: &ResourceId,
    module: &ScriptModule,
) -> Option<ReadinessProblem> {
    let (message, remedy) = goondan_hosts::problem(module, bundle.root())?;
    let message = format!("{id}: {message}");
    Some(ReadinessProblem {
        code: Code::NOT_READY,
        message,
        suggestion: Some(remedy),
    })
}

/// Returns the reason why a library cannot be loaded. It is not loaded.
fn library_problem(bundle: &Bundle, id: &ResourceId, path: &str) -> Option<ReadinessProblem> {
    let error = goondan_dylib::fault(id, bundle.root(), path)?;
    Some(ReadinessProblem {
        code: Code::ENTRY_NOT_FOUND,
        message: error.to_string(),
        suggestion: error.suggestion,
    })
}

/// Returns the problem of an entry. Nothing of it is loaded or started.
fn entry_problem(
    bundle: &Bundle,
    tool: &Resource<Tool>,
    environment: &Environment,
) -> Option<ReadinessProblem> {
    match &tool.spec.entry {
        ToolEntry::Builtin(_) => {
            let error = config_fault(tool, environment)?;
            let (message, suggestion) = (error.to_string(), error.suggestion);
            Some(ReadinessProblem {
                code: Code::ENTRY_NOT_FOUND,
                message,
                suggestion,
            })
        }
        ToolEntry::Mcp(_) | ToolEntry::A2a(_) => None,
        ToolEntry::Embedded => Some(ReadinessProblem {
            code: Code::NOT_READY,
            message: format!("{} is part of a program that embeds the swarm", tool.id),
            suggestion: Some("start that program, or stub the tool in a test case".to_owned()),
        }),
        ToolEntry::Library(path) => library_problem(bundle, &tool.id, path),
        ToolEntry::Module(module) => module_problem(bundle, &tool.id, module),
        ToolEntry::Executable(path) => Some(match entry_fault(&bundle.root().join(path))? {
            EntryFault::Unusable(reason) => ReadinessProblem {
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
            } => ReadinessProblem {
                code: Code::NOT_READY,
                message: format!(
                    "{}: `{interpreter}`, named in the first line of `{path}/{program}`, was not \
                        found",
                    tool.id
                ),
                suggestion: Some(format!(
                    "install `{interpreter}`, or correct the first line of the script"
                )),
            },
        }),
    }
}

//! Capabilities that a project requests and that can do harm, found only from its files. Nothing is
//! run, opened or resolved.
//!
//! A project without such requests is safe to run right after a clone. Its tools are built in, and
//! they ask for approval before they run programs outside of a sandbox or use the network.

mod agents;
mod connections;
pub(crate) mod tools;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use goondan_models::{ModelProvider, provider};
use goondan_spec::bundle::ResourceOrigin;
use goondan_spec::installed_packages::InstalledPackage;
use goondan_spec::kinds::Model;
use goondan_spec::value::TextOrSource;
use goondan_spec::{Bundle, Code, Diagnostic, Resource, ValueSource, env_files, untrusted_text};
use serde::Serialize;

use crate::start::project::Project;
use crate::trust::TrustedPackage;
use crate::workspace::StateRoot;
use crate::workspace::identity::canonical;

/// Capability that needs trust in the project.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct RequestedCapability {
    /// Predicate of a sentence about the project, such as "loads the library `libdice.so`". It
    /// contains no terminal control characters.
    pub what: String,
    /// File that requests it, relative to the project.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Line in that file, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// Directory that must be trusted, if it is not the project directory. It contains files that
    /// control the project and that other users may be able to write.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "goondan_core::path_json::lossy"
    )]
    pub folder: Option<PathBuf>,
    /// Package that requests it. Trust in a project covers its packages only with their content at
    /// that time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub package: Option<TrustedPackage>,
}

/// Returns all requested capabilities of `project` by kind, without duplicates.
pub fn requested_access(project: &Project, state_root: &StateRoot) -> Vec<RequestedCapability> {
    let mut requests = tools::builds(&project.builds);
    if let Some(bundle) = &project.bundle {
        requests.extend(tools::programs(bundle));
        requests.extend(tools::settings(bundle));
        requests.extend(tools::default_token_requests(bundle));
        requests.extend(agents::granted_capabilities(bundle));
        requests.extend(agents::controlling_files(bundle));
        requests.extend(connections::connections(bundle));
        requests.extend(
            bundle
                .models()
                .values()
                .filter_map(|model| unusual_data_flow(model)),
        );
        requests.extend(
            bundle
                .models()
                .values()
                .filter_map(|model| request_additions(model)),
        );
        requests.extend(outside_values(bundle));
        requests.extend(foreign_workspaces(bundle, state_root));
    }
    requests.extend(environment_files(&project.root));
    if let Some(bundle) = &project.bundle {
        requests.iter_mut().for_each(|request| {
            request.package = request
                .file
                .as_deref()
                .and_then(|file| package_of(bundle, file))
        });
    }
    let mut seen = HashSet::new();
    requests.retain(|request| seen.insert(request.clone()));
    requests
}

/// Returns the requests about directories outside of `project`, and the requests of its packages.
/// Trust in the project does not cover them.
pub fn requested_access_elsewhere(
    project: &Project,
    state_root: &StateRoot,
) -> Vec<RequestedCapability> {
    let controlling_files = project
        .bundle
        .iter()
        .flat_map(|bundle| agents::controlling_files(bundle));
    let has_packages = project
        .bundle
        .as_ref()
        .is_some_and(|bundle| !bundle.packages().is_empty());
    let requests = if has_packages {
        requested_access(project, state_root)
    } else {
        Vec::new()
    };
    controlling_files
        .chain(
            requests
                .into_iter()
                .filter(|request| request.package.is_some()),
        )
        .collect()
}

/// Returns the packages that `wants` refer to, with their current content.
pub fn packages_to_trust(wants: &[RequestedCapability]) -> Vec<TrustedPackage> {
    let mut packages: Vec<TrustedPackage> = wants
        .iter()
        .filter_map(|want| want.package.clone())
        .collect();
    packages.sort_by(|a, b| a.name.cmp(&b.name));
    packages.dedup();
    packages
}

/// Returns the installed package that contains a file of the bundle.
fn package_of(bundle: &Bundle, file: &str) -> Option<TrustedPackage> {
    let InstalledPackage {
        name,
        version,
        contents,
        ..
    } = bundle.package_of(file)?.clone();
    Some(TrustedPackage {
        name,
        version,
        contents,
    })
}

/// Returns the directories to trust for `wants` of the project in `root`, without subdirectories of
/// each other.
pub fn folders_to_trust(root: &Path, wants: &[RequestedCapability]) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = wants
        .iter()
        .map(|want| want.folder.clone().unwrap_or_else(|| canonical(root)))
        .collect();
    folders.sort();
    folders.dedup();
    let all = folders.clone();
    folders.retain(|folder| {
        !all.iter()
            .any(|other| folder != other && folder.starts_with(other))
    });
    // The project directory keeps its original spelling.
    folders
        .into_iter()
        .map(|folder| {
            if folder == canonical(root) {
                root.to_owned()
            } else {
                folder
            }
        })
        .collect()
}

impl RequestedCapability {
    /// Creates a request without a file.
    pub fn stating(what: impl AsRef<str>) -> Self {
        RequestedCapability::new(what, None)
    }

    /// Creates a request with the position of the resource that causes it.
    fn new(what: impl AsRef<str>, origin: Option<&ResourceOrigin>) -> Self {
        let (file, line) = origin.map(|(file, at)| (plain(file), at.line)).unzip();
        RequestedCapability {
            what: plain(what.as_ref()),
            file,
            line,
            folder: None,
            package: None,
        }
    }

    /// Creates a request of a file.
    fn in_file(what: impl AsRef<str>, file: &str) -> Self {
        RequestedCapability {
            what: plain(what.as_ref()),
            file: Some(plain(file)),
            line: None,
            folder: None,
            package: None,
        }
    }

    /// Returns the position as `file:line`.
    pub fn place(&self) -> Option<String> {
        let file = self.file.as_ref()?;
        Some(
            self.line
                .map_or_else(|| file.clone(), |line| format!("{file}:{line}")),
        )
    }

    /// Returns the error for an untrusted project in `root` with this request.
    pub fn refused(&self, root: &Path) -> Diagnostic {
        let position = self
            .place()
            .map(|position| format!(" ({position})"))
            .unwrap_or_default();
        let subject = match (&self.folder, &self.package) {
            (Some(folder), _) => format!(
                "The directory {} is not trusted, and the project",
                folder.display()
            ),
            (None, Some(package)) => {
                format!(
                    "The package `{}` {} is not trusted, and it",
                    package.name, package.version
                )
            }
            (None, None) => "The project is not trusted, and it".to_owned(),
        };
        let folder = self.folder.as_deref().unwrap_or(root);
        Diagnostic::new(
            Code::PROJECT_UNTRUSTED,
            format!("{subject} {}{position}.", self.what),
        )
        .suggest(format!(
            "review it; if you trust it, run `gdn trust {}`",
            folder.display()
        ))
    }
}

/// Returns true if the model sends data to a provider. An unknown provider counts as live.
fn is_live(model: &Model) -> bool {
    provider(&model.provider).is_none_or(ModelProvider::is_live)
}

/// Returns the unusual data flow of a model: a custom endpoint, an API key other than the
/// provider's default, or a key in the project. The owner of an account can read its requests.
fn unusual_data_flow(model: &Resource<Model>) -> Option<RequestedCapability> {
    let spec = &model.spec;
    if !is_live(spec) {
        return None;
    }
    let default_variable =
        provider(&spec.provider).and_then(|provider| provider.key_variable.as_deref());
    let key = spec.api_key.as_ref().and_then(name);
    let has_own_account = matches!(spec.api_key, Some(ValueSource::Value(_)));
    let what = match (&spec.endpoint, key) {
        (Some(endpoint), Some(key)) => {
            format!("sends its conversations to {endpoint}, with the key in {key}")
        }
        (Some(endpoint), None) => format!("sends its conversations to {endpoint}"),
        (None, Some(key)) if Some(key.as_str()) != default_variable => {
            format!(
                "sends the value of {key} to the provider `{}`",
                spec.provider
            )
        }
        (None, None) if has_own_account => format!(
            "sends its conversations to an account of the project at the provider `{}`",
            spec.provider
        ),
        (None, _) => return None,
    };
    Some(RequestedCapability::new(what, model.origin.as_ref()))
}

/// Fields of a request that only change how the model writes. All others may send data elsewhere or
/// give the model tools of the provider.
const HARMLESS_BODY_FIELDS: [&str; 17] = [
    "chat_template_kwargs",
    "enable_thinking",
    "frequency_penalty",
    "max_completion_tokens",
    "max_output_tokens",
    "max_tokens",
    "presence_penalty",
    "reasoning",
    "reasoning_effort",
    "seed",
    "stop",
    "temperature",
    "thinking",
    "top_k",
    "top_p",
    "truncation",
    "verbosity",
];
/// Maximum characters of a shown value.
const MAX_SHOWN_VALUE_CHARS: usize = 120;

/// Returns the body fields and headers that a live (not scripted) Model adds to the requests to its
/// provider; `None` if it adds none.
fn request_additions(model: &Resource<Model>) -> Option<RequestedCapability> {
    let spec = &model.spec;
    if !is_live(spec) {
        return None;
    }
    let fields = spec
        .options
        .body
        .iter()
        .filter(|(name, _)| !HARMLESS_BODY_FIELDS.contains(&name.as_str()))
        .map(|(name, value)| {
            let value: String = value
                .to_string()
                .chars()
                .take(MAX_SHOWN_VALUE_CHARS)
                .collect();
            format!("`{name}: {value}`")
        });
    let headers = spec
        .options
        .headers
        .iter()
        .filter_map(|(name, value)| match value {
            TextOrSource::Plain(text) => Some(format!("the header `{name}: {text}`")),
            // Listed with the other values from outside of the bundle.
            TextOrSource::Source(_) => None,
        });
    let added: Vec<String> = fields.chain(headers).collect();
    (!added.is_empty()).then(|| {
        let what = format!("adds {} to the requests to its provider", added.join(", "));
        RequestedCapability::new(what, model.origin.as_ref())
    })
}

/// Returns values from outside of the bundle. Values of live models are omitted, because the
/// request of the model includes them.
fn outside_values(bundle: &Bundle) -> Vec<RequestedCapability> {
    let is_of_live_model = |resource| {
        bundle
            .models()
            .get(resource)
            .is_some_and(|model| is_live(&model.spec))
    };
    let values = bundle
        .outside_values()
        .filter(|(_, resource, _)| !is_of_live_model(*resource));
    let request = |(source, resource, origin): (&ValueSource, _, ResourceOrigin)| {
        Some(RequestedCapability::new(
            format!("passes the value of {} to {resource}", name(source)?),
            Some(&origin),
        ))
    };
    values.filter_map(request).collect()
}

/// Returns the name of an external value; `None` for a literal.
fn name(source: &ValueSource) -> Option<String> {
    match source {
        ValueSource::Value(_) => None,
        ValueSource::Env(name) => Some(name.clone()),
        ValueSource::SecretRef { name, .. } => Some(format!("Secret/{name}")),
    }
}

/// Returns swarms that continue conversations and queued events of another project.
fn foreign_workspaces(bundle: &Bundle, state_root: &StateRoot) -> Vec<RequestedCapability> {
    let root = canonical(bundle.root());
    let request = |swarm: &Arc<Resource<_>>| {
        let workspace = state_root.workspace_of(bundle, swarm);
        let is_own = workspace
            .owner()
            .ok()
            .flatten()
            .is_some_and(|owner| owner.path == root);
        (swarm.spec.instance_key.is_some() && workspace.dir.exists() && !is_own).then(|| {
            let what = format!(
                "continues the conversations in the workspace `{}`, which it did not create",
                workspace.id
            );
            RequestedCapability::new(what, swarm.origin.as_ref())
        })
    };
    bundle.swarms().values().filter_map(request).collect()
}

/// Returns environment files of the project.
fn environment_files(root: &Path) -> Vec<RequestedCapability> {
    let existing = env_files::OPTIONAL_ENV_FILES
        .into_iter()
        .filter(|name| root.join(name).exists());
    existing
        .map(|name| RequestedCapability::in_file("sets variables for its models and tools", name))
        .collect()
}

/// Returns `text` as one line without control characters.
fn plain(text: &str) -> String {
    untrusted_text::line(text.trim().replace(['\n', '\t'], " ")).to_string()
}

#[cfg(test)]
mod tests;

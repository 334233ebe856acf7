//! What a project wants to do that can do harm, found out from its files alone: nothing is run, opened or looked up.
//!
//! A project that wants none of it can be run by anybody who has just cloned it: its tools are built in, and ask before they
//! run programs outside of a sandbox or use the network.

mod agents;
mod connections;
pub(crate) mod tools;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use goondan_models::{Provider, provider};
use goondan_spec::bundle::Origin;
use goondan_spec::installed::InstalledPackage;
use goondan_spec::kinds::Model;
use goondan_spec::{Bundle, Code, Diagnostic, Resource, ValueSource, env_files, shown};
use serde::Serialize;

use crate::identity::canonical;
use crate::project::Project;
use crate::trust::TrustedPackage;
use crate::workspace::StateRoot;

/// Something that a project does only once it is trusted.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct Want {
    /// A sentence about the project without its beginning, such as "loads the library `libdice.so`". It holds nothing that
    /// could change how a terminal looks.
    pub what: String,
    /// The file that says so, relative to the project.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Where in that file, counted from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// The folder that has to be trusted for it, where that is not the project's: something lies there that the project obeys,
    /// and that others may write.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folder: Option<PathBuf>,
    /// The package that wants it. Trust in a project covers its packages only with the content that they had then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub package: Option<TrustedPackage>,
}

/// Everything that `project` wants, in the order of what it is; once each.
pub fn wants(project: &Project, state_root: &StateRoot) -> Vec<Want> {
    let mut wants = tools::builds(&project.builds);
    if let Some(bundle) = &project.bundle {
        wants.extend(tools::programs(bundle));
        wants.extend(tools::settings(bundle));
        wants.extend(agents::powers(bundle));
        wants.extend(agents::obeyed(bundle));
        wants.extend(connections::connections(bundle));
        wants.extend(bundle.models().values().filter_map(|model| reach(model)));
        wants.extend(values(bundle));
        wants.extend(shared_state(bundle, state_root));
    }
    wants.extend(files(&project.root));
    if let Some(bundle) = &project.bundle {
        wants.iter_mut().for_each(|want| {
            want.package = want
                .file
                .as_deref()
                .and_then(|file| package_of(bundle, file))
        });
    }
    let mut told = HashSet::new();
    wants.retain(|want| told.insert(want.clone()));
    wants
}

/// What `project` wants of folders other than its own, and what its packages want. Trust in the project does not cover them.
pub fn wants_elsewhere(project: &Project, state_root: &StateRoot) -> Vec<Want> {
    let obeyed = project
        .bundle
        .iter()
        .flat_map(|bundle| agents::obeyed(bundle));
    let has_packages = project
        .bundle
        .as_ref()
        .is_some_and(|bundle| !bundle.packages().is_empty());
    let all = if has_packages {
        wants(project, state_root)
    } else {
        Vec::new()
    };
    obeyed
        .chain(all.into_iter().filter(|want| want.package.is_some()))
        .collect()
}

/// The packages that `wants` are about, with the content that they have now.
pub fn packages_to_trust(wants: &[Want]) -> Vec<TrustedPackage> {
    let mut packages: Vec<TrustedPackage> = wants
        .iter()
        .filter_map(|want| want.package.clone())
        .collect();
    packages.sort_by(|a, b| a.name.cmp(&b.name));
    packages.dedup();
    packages
}

/// The installed package that a file of the bundle lies in.
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

/// The folders that have to be trusted for `wants` of the project in `root`, without those below another one.
pub fn folders_to_trust(root: &Path, wants: &[Want]) -> Vec<PathBuf> {
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
    // As it was written, where that is what it is about.
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

impl Want {
    /// Something that no file of the project says.
    pub fn stating(what: impl AsRef<str>) -> Self {
        Want::new(what, None)
    }

    fn new(what: impl AsRef<str>, origin: Option<&Origin>) -> Self {
        let (file, line) = origin.map(|(file, at)| (plain(file), at.line)).unzip();
        Want {
            what: plain(what.as_ref()),
            file,
            line,
            folder: None,
            package: None,
        }
    }

    fn in_file(what: impl AsRef<str>, file: &str) -> Self {
        Want {
            what: plain(what.as_ref()),
            file: Some(plain(file)),
            line: None,
            folder: None,
            package: None,
        }
    }

    /// Where it is written, as `file:line`.
    pub fn place(&self) -> Option<String> {
        let file = self.file.as_ref()?;
        Some(
            self.line
                .map_or_else(|| file.clone(), |line| format!("{file}:{line}")),
        )
    }

    /// The error of a project in `root` that wants it and is not trusted.
    pub fn refused(&self, root: &Path) -> Diagnostic {
        let place = self
            .place()
            .map(|place| format!(" ({place})"))
            .unwrap_or_default();
        let who = match (&self.folder, &self.package) {
            (Some(folder), _) => format!(
                "The folder {} is not trusted, and the project",
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
            format!("{who} {}{place}.", self.what),
        )
        .suggest(format!(
            "look at it, and if you trust it run `gdn trust {}`",
            folder.display()
        ))
    }
}

/// Whether somebody runs the model; a provider that nobody knows is taken for one.
fn is_live(model: &Model) -> bool {
    provider(&model.provider).is_none_or(Provider::is_live)
}

/// What a model is told that its provider is not told anyway: where the conversations go, and a key other than the
/// customary one.
fn reach(model: &Resource<Model>) -> Option<Want> {
    let spec = &model.spec;
    if !is_live(spec) {
        return None;
    }
    let custom = provider(&spec.provider).and_then(|provider| provider.key_variable.as_deref());
    let key = spec.api_key.as_ref().and_then(name);
    let what = match (&spec.endpoint, key) {
        (Some(endpoint), Some(key)) => {
            format!("sends its conversations to {endpoint}, with the key in {key}")
        }
        (Some(endpoint), None) => format!("sends its conversations to {endpoint}"),
        (None, Some(key)) if Some(key.as_str()) != custom => {
            format!(
                "sends the value of {key} to the provider `{}`",
                spec.provider
            )
        }
        (None, _) => return None,
    };
    Some(Want::new(what, model.origin.as_ref()))
}

/// Values from outside of the bundle, those of live models excepted: they are told with the model.
fn values(bundle: &Bundle) -> Vec<Want> {
    let is_told = |resource| {
        bundle
            .models()
            .get(resource)
            .is_some_and(|model| is_live(&model.spec))
    };
    let outside = bundle
        .outside_values()
        .filter(|(_, resource, _)| !is_told(*resource));
    let want = |(source, resource, origin): (&ValueSource, _, Origin)| {
        Some(Want::new(
            format!("hands the value of {} to {resource}", name(source)?),
            Some(&origin),
        ))
    };
    outside.filter_map(want).collect()
}

/// Where a value from outside comes from.
fn name(source: &ValueSource) -> Option<String> {
    match source {
        ValueSource::Value(_) => None,
        ValueSource::Env(name) => Some(name.clone()),
        ValueSource::SecretRef { name, .. } => Some(format!("Secret/{name}")),
    }
}

/// Swarms that take up what another project has kept: conversations, and events that wait.
fn shared_state(bundle: &Bundle, state_root: &StateRoot) -> Vec<Want> {
    let root = canonical(bundle.root());
    let taken = |swarm: &Arc<Resource<_>>| {
        let workspace = state_root.workspace_of(bundle, swarm);
        let is_mine = workspace
            .owner()
            .ok()
            .flatten()
            .is_some_and(|owner| owner.path == root);
        (swarm.spec.instance_key.is_some() && workspace.dir.exists() && !is_mine).then(|| {
            let what = format!(
                "goes on with the conversations in the workspace `{}`, which it did not begin",
                workspace.id
            );
            Want::new(what, swarm.origin.as_ref())
        })
    };
    bundle.swarms().values().filter_map(taken).collect()
}

/// Files of the project that say where things are.
fn files(root: &Path) -> Vec<Want> {
    let there = env_files::OPTIONAL
        .into_iter()
        .filter(|name| root.join(name).exists());
    there
        .map(|name| Want::in_file("sets variables for its models and tools", name))
        .collect()
}

/// `text` in one line, without anything that changes how other text looks.
fn plain(text: &str) -> String {
    shown::line(text.trim().replace(['\n', '\t'], " ")).to_string()
}

#[cfg(test)]
mod tests;

//! The validated bundle, on which all later stages build.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use crate::base_package::BasePackage;
use crate::decoded_resources::DecodedResources;
use crate::diagnostic::SourcePosition;
use crate::diagnostic_sink::ValueOrigin;
use crate::installed_package::InstalledPackage;
use crate::kinds::{
    Agent, Connection, Connector, Extension, Model, Package, Swarm, Tool, ToolBuild,
};
pub use crate::resource::{Resource, ResourceOrigin, Resources};
use crate::text::count;
use crate::{Kind, ResourceId};

#[derive(Debug)]
pub(crate) struct BuiltInResources {
    pub(crate) tools: Resources<Tool>,
    pub(crate) extensions: Resources<Extension>,
    pub(crate) connectors: Resources<Connector>,
}

impl BuiltInResources {
    /// Creates the resources of the built-in package.
    pub(crate) fn from_package(base: &BasePackage) -> Self {
        let tools = base
            .tools
            .iter()
            .map(|tool| built_in(Kind::Tool, &tool.name, Tool::from_manifest(tool)));
        let extensions = base.extensions.iter().map(|(name, config)| {
            built_in(Kind::Extension, name, Extension::from_builtin(name, config))
        });
        let connectors = base.connectors.iter().map(|manifest| {
            built_in(
                Kind::Connector,
                &manifest.name,
                Connector::from_manifest(manifest),
            )
        });
        BuiltInResources {
            tools: tools.collect(),
            extensions: extensions.collect(),
            connectors: connectors.collect(),
        }
    }
}

/// Creates a built-in resource, which has no position in a file.
fn built_in<T>(kind: Kind, name: &str, spec: T) -> (ResourceId, Arc<Resource<T>>) {
    let id = ResourceId::base(kind, name);
    let resource = Resource {
        id: id.clone(),
        labels: Default::default(),
        annotations: Default::default(),
        origin: None,
        spec,
    };
    (id, Arc::new(resource))
}

/// Validated project. Immutable; only [`load`](crate::load) creates it.
#[derive(Debug, Clone)]
pub struct Bundle {
    pub(crate) root: PathBuf,
    pub(crate) files: Vec<String>,
    pub(crate) packages: Vec<InstalledPackage>,
    /// Identity of each YAML file's text, compared by pointer.
    pub(crate) marks: HashMap<String, Arc<()>>,
    pub(crate) resources: DecodedResources,
    /// Value sources with their positions.
    pub(crate) values: Vec<ValueOrigin>,
    pub(crate) builds: Vec<ToolBuild>,
    /// Positions of tool fields whose errors only show when the entry is opened.
    pub(crate) places: HashMap<ResourceId, Vec<(String, SourcePosition)>>,
}

impl Bundle {
    /// Returns the project directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns all files of the bundle, relative to its root: YAML, prompts, entries.
    pub fn files(&self) -> &[String] {
        &self.files
    }

    /// Returns the direct and indirect dependencies, sorted so that a package comes after its own
    /// dependencies.
    pub fn packages(&self) -> &[InstalledPackage] {
        &self.packages
    }

    /// Returns the package that contains a file of the bundle. `None` for the project's own files.
    pub fn package_of(&self, file: &str) -> Option<&InstalledPackage> {
        let contains_file = |package: &&InstalledPackage| {
            file.strip_prefix(&package.folder)
                .is_some_and(|rest| rest.starts_with('/'))
        };
        self.packages.iter().find(contains_file)
    }

    /// Returns the Package document, if there is one.
    pub fn package(&self) -> Option<&Resource<Package>> {
        self.resources.package.as_deref()
    }

    /// Counts the project's own resources, such as `1 model, 3 agents, 1 swarm in 2 files`.
    pub fn inventory(&self) -> String {
        let mut files = BTreeSet::new();
        let counts = [
            self.summarize_own_resources(&self.resources.models, &mut files, "model"),
            self.summarize_own_resources(&self.resources.agents, &mut files, "agent"),
            self.summarize_own_resources(&self.resources.tools, &mut files, "tool"),
            self.summarize_own_resources(&self.resources.extensions, &mut files, "extension"),
            self.summarize_own_resources(&self.resources.connectors, &mut files, "connector"),
            self.summarize_own_resources(&self.resources.connections, &mut files, "connection"),
            self.summarize_own_resources(&self.resources.swarms, &mut files, "swarm"),
        ];
        let counts: Vec<String> = counts.into_iter().flatten().collect();
        if counts.is_empty() {
            "no resources".to_owned()
        } else {
            format!("{} in {}", counts.join(", "), count(files.len(), "file"))
        }
    }

    /// Counts the project's own resources of one kind and collects their files.
    fn summarize_own_resources<'b, T>(
        &'b self,
        resources: &'b Resources<T>,
        files: &mut BTreeSet<&'b str>,
        kind: &str,
    ) -> Option<String> {
        let origins = resources.values().filter_map(|one| one.origin.as_ref());
        let own_files: Vec<&str> = origins
            .map(|(file, _)| file.as_str())
            .filter(|file| self.package_of(file).is_none())
            .collect();
        files.extend(&own_files);
        (!own_files.is_empty()).then(|| count(own_files.len(), kind))
    }

    /// Returns all models.
    pub fn models(&self) -> &Resources<Model> {
        &self.resources.models
    }

    /// Returns all agents.
    pub fn agents(&self) -> &Resources<Agent> {
        &self.resources.agents
    }

    /// Returns all swarms.
    pub fn swarms(&self) -> &Resources<Swarm> {
        &self.resources.swarms
    }

    /// Returns all tools, including the built-in ones.
    pub fn tools(&self) -> &Resources<Tool> {
        &self.resources.tools
    }

    /// Returns the build instructions of all tools that have any, in load order.
    pub fn builds(&self) -> &[ToolBuild] {
        &self.builds
    }

    /// Returns the recorded position of a field, such as `spec.entry` of a tool or `spec.provider`
    /// of a model.
    pub fn place(&self, resource: &ResourceId, field: &str) -> Option<SourcePosition> {
        self.places
            .get(resource)?
            .iter()
            .find(|(name, _)| name == field)
            .map(|(_, at)| *at)
    }

    /// Returns true if two positions in two bundles belong to the same document of the same text.
    /// Built-in resources without a position are always the same.
    pub(crate) fn is_same_document(
        &self,
        other: &Bundle,
        here: Option<&ResourceOrigin>,
        there: Option<&ResourceOrigin>,
    ) -> bool {
        let mark =
            |bundle: &Bundle, origin: &ResourceOrigin| bundle.marks.get(&origin.0).map(Arc::as_ptr);
        match (here, there) {
            (Some(here), Some(there)) => {
                here == there
                    && mark(self, here).is_some_and(|mine| mark(other, there) == Some(mine))
            }
            (None, None) => true,
            _ => false,
        }
    }

    /// Returns all extensions, including the built-in ones.
    pub fn extensions(&self) -> &Resources<Extension> {
        &self.resources.extensions
    }

    /// Returns all connectors, including the built-in ones.
    pub fn connectors(&self) -> &Resources<Connector> {
        &self.resources.connectors
    }

    /// Returns all connections.
    pub fn connections(&self) -> &Resources<Connection> {
        &self.resources.connections
    }
}

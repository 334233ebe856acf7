//! The validated bundle: what every later stage builds on.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use indexmap::IndexMap;

use crate::diagnostic::Position;
use crate::findings::ValueOrigin;
use crate::installed::InstalledPackage;
use crate::kinds::{
    Agent, Connection, Connector, ConnectorManifest, Extension, Model, Package, Swarm, Tool,
    ToolBuild, ToolManifest,
};
use crate::{JsonObject, Kind, ResourceId};

/// The built-in package `@goondan/base`, as the caller describes it.
#[derive(Debug, Clone, Default)]
pub struct BasePackage {
    /// The built-in tools.
    pub tools: Vec<ToolManifest>,
    /// The built-in extensions: name and default config.
    pub extensions: Vec<(String, JsonObject)>,
    /// The built-in connectors.
    pub connectors: Vec<ConnectorManifest>,
}

impl BasePackage {
    /// What runs `connector`, where that is built in.
    pub fn connector(&self, connector: &Connector) -> Option<&ConnectorManifest> {
        let name = connector.builtin()?;
        self.connectors
            .iter()
            .find(|manifest| manifest.name == name)
    }
}

/// The resources of a [`BasePackage`].
#[derive(Debug)]
pub(crate) struct BuiltIn {
    pub(crate) tools: Resources<Tool>,
    pub(crate) extensions: Resources<Extension>,
    pub(crate) connectors: Resources<Connector>,
}

impl BuiltIn {
    pub(crate) fn of(base: &BasePackage) -> Self {
        let tools = base
            .tools
            .iter()
            .map(|tool| built_in(Kind::Tool, &tool.name, Tool::of_base(tool)));
        let extensions = base.extensions.iter().map(|(name, config)| {
            built_in(Kind::Extension, name, Extension::of_base(name, config))
        });
        let connectors = base.connectors.iter().map(|manifest| {
            built_in(
                Kind::Connector,
                &manifest.name,
                Connector::of_base(manifest),
            )
        });
        BuiltIn {
            tools: tools.collect(),
            extensions: extensions.collect(),
            connectors: connectors.collect(),
        }
    }
}

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

/// A resource with its identity and the place where it is defined.
#[derive(Debug, Clone, PartialEq)]
pub struct Resource<T> {
    /// Who it is.
    pub id: ResourceId,
    /// `metadata.labels`.
    pub labels: BTreeMap<String, String>,
    /// `metadata.annotations`.
    pub annotations: BTreeMap<String, String>,
    /// File (relative to the bundle) and place; `None` for a built-in resource.
    pub origin: Option<Origin>,
    /// The resource itself.
    pub spec: T,
}

/// The file (relative to the bundle) and the place in it where a resource is named.
pub type Origin = (String, Position);

/// All resources of one kind, in load order, built-in ones last. Bundles share what did not change between them.
pub type Resources<T> = IndexMap<ResourceId, Arc<Resource<T>>>;

/// The resources of every kind.
#[derive(Debug, Clone, Default)]
pub(crate) struct Decoded {
    pub(crate) package: Option<Arc<Resource<Package>>>,
    pub(crate) models: Resources<Model>,
    pub(crate) agents: Resources<Agent>,
    pub(crate) swarms: Resources<Swarm>,
    pub(crate) tools: Resources<Tool>,
    pub(crate) extensions: Resources<Extension>,
    pub(crate) connectors: Resources<Connector>,
    pub(crate) connections: Resources<Connection>,
}

/// A project folder, read and found to be right. Immutable; made by [`load`](crate::load) alone.
#[derive(Debug, Clone)]
pub struct Bundle {
    pub(crate) root: PathBuf,
    pub(crate) files: Vec<String>,
    pub(crate) packages: Vec<InstalledPackage>,
    /// What tells the texts of its YAML files from others.
    pub(crate) marks: HashMap<String, Arc<()>>,
    pub(crate) resources: Decoded,
    /// Where the value sources are written.
    pub(crate) values: Vec<ValueOrigin>,
    pub(crate) builds: Vec<ToolBuild>,
    /// Where fields of tools stand that only opening the entry shows to be wrong.
    pub(crate) places: HashMap<ResourceId, Vec<(String, Position)>>,
}

impl Bundle {
    /// The project folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Every file that the bundle was made from, relative to its root: YAML, prompts, entries.
    pub fn files(&self) -> &[String] {
        &self.files
    }

    /// The packages that it depends on, directly or not. What comes first depends on nothing that comes later.
    pub fn packages(&self) -> &[InstalledPackage] {
        &self.packages
    }

    /// The package that a file of the bundle lies in; none where it is the project's own.
    pub fn package_of(&self, file: &str) -> Option<&InstalledPackage> {
        let holds = |package: &&InstalledPackage| {
            file.strip_prefix(&package.folder)
                .is_some_and(|rest| rest.starts_with('/'))
        };
        self.packages.iter().find(holds)
    }

    /// The Package document, where there is one.
    pub fn package(&self) -> Option<&Resource<Package>> {
        self.resources.package.as_deref()
    }

    /// All models.
    pub fn models(&self) -> &Resources<Model> {
        &self.resources.models
    }

    /// All agents.
    pub fn agents(&self) -> &Resources<Agent> {
        &self.resources.agents
    }

    /// All swarms.
    pub fn swarms(&self) -> &Resources<Swarm> {
        &self.resources.swarms
    }

    /// All tools, the built-in ones included.
    pub fn tools(&self) -> &Resources<Tool> {
        &self.resources.tools
    }

    /// How tools are built, of all that say so, in load order.
    pub fn builds(&self) -> &[ToolBuild] {
        &self.builds
    }

    /// Where `field` of a tool stands in its file: `spec.entry`, or the `name` or `parameters` of one of `spec.exports`.
    pub fn place(&self, tool: &ResourceId, field: &str) -> Option<Position> {
        self.places
            .get(tool)?
            .iter()
            .find(|(name, _)| name == field)
            .map(|(_, at)| *at)
    }

    /// Whether two places, in this bundle and in another one, begin the same document of the same text; also where there is
    /// neither, since what is built in stays as it is.
    pub(crate) fn is_same_document(
        &self,
        other: &Bundle,
        here: Option<&Origin>,
        there: Option<&Origin>,
    ) -> bool {
        let mark = |bundle: &Bundle, origin: &Origin| bundle.marks.get(&origin.0).map(Arc::as_ptr);
        match (here, there) {
            (Some(here), Some(there)) => {
                here == there
                    && mark(self, here).is_some_and(|mine| mark(other, there) == Some(mine))
            }
            (None, None) => true,
            _ => false,
        }
    }

    /// All extensions, the built-in ones included.
    pub fn extensions(&self) -> &Resources<Extension> {
        &self.resources.extensions
    }

    /// All connectors, the built-in ones included.
    pub fn connectors(&self) -> &Resources<Connector> {
        &self.resources.connectors
    }

    /// All connections.
    pub fn connections(&self) -> &Resources<Connection> {
        &self.resources.connections
    }
}

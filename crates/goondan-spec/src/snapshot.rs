//! What a bundle amounts to, as hashes: small enough to keep beside a running swarm, and enough to tell what an edit changes.
//!
//! A hash is made from what a resource means (its decoded form, labels and annotations), so layout, comments and file names
//! do not matter. What lies outside the bundle's YAML comes from the caller: the content of libraries and scripts, and where
//! wanted the values of variables.
//!
//! What is hashed is the text that `Debug` makes of a decoded form. It keeps the order of keys, which a model is shown, and it
//! cannot hold a secret: serde cannot write a [`Secret`](crate::Secret) at all. Another version of this program may show the
//! same thing differently. Only a comparison with what another version wrote down notices that, and calls it changed.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::{self, Write};
use std::io::{self, BufReader, Read};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::bundle::{Bundle, Resource, Resources};
use crate::kinds::Agent;
use crate::value::Environment;
use crate::{Kind, ResourceId};

/// What is hashed as it is read comes in pieces of that many bytes.
const PIECE: usize = 64 * 1024;

/// Half a SHA-256, in hex: it tells changes, and is no means against somebody who wants two things to look the same.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fingerprint(String);

/// What a bundle amounts to for one of its swarms. Never holds a secret, nor the hash of one unless it was asked to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Snapshot {
    /// Every resource that is not built in, by kind and name.
    pub(crate) resources: BTreeMap<Kind, BTreeMap<String, Fingerprint>>,
    /// The agents of the swarm, each with what it is made of, referenced resources included.
    pub(crate) agents: BTreeMap<String, BTreeMap<AgentPart, Fingerprint>>,
    /// The swarm's `policy`.
    pub(crate) limits: Fingerprint,
}

/// Fingerprints of resources that are not built in.
type Known = BTreeMap<Kind, BTreeMap<String, Fingerprint>>;

/// Something that an agent is made of. Each takes effect at a boundary of its own (rule R3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum AgentPart {
    /// What it may call: Tool resources, the exports that it picks, the libraries behind them.
    Tools,
    /// Its system prompt.
    Prompt,
    /// The Model resource and what that refers to.
    Model,
    /// Its `permissions`.
    Policy,
    /// Its middleware.
    Extensions,
    /// Everything else, such as `params` and `workdir`.
    Settings,
}

impl AgentPart {
    /// Whether a change of it is seen by the next step of a running turn; all others wait for the next turn.
    pub fn is_seen_by_next_step(self) -> bool {
        self == AgentPart::Tools
    }

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            AgentPart::Tools => "tools",
            AgentPart::Prompt => "prompt",
            AgentPart::Model => "model",
            AgentPart::Policy => "policy",
            AgentPart::Extensions => "extensions",
            AgentPart::Settings => "settings",
        }
    }
}

impl Fingerprint {
    /// Of some bytes, such as a file.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Hasher::default().and_bytes(bytes).finish()
    }

    /// Of what `source` holds, as it is read. Not the one that the same bytes have.
    ///
    /// # Errors
    /// Where it can't be read.
    pub fn of_stream(source: impl Read) -> io::Result<Self> {
        let mut hasher = Hasher::default();
        io::copy(&mut BufReader::with_capacity(PIECE, source), &mut hasher)?;
        Ok(hasher.finish())
    }

    /// Of several others, in order.
    pub fn of_all<'f>(parts: impl IntoIterator<Item = &'f Fingerprint>) -> Self {
        parts
            .into_iter()
            .fold(Hasher::default(), |hasher, part| hasher.and(part))
            .finish()
    }
}

impl Snapshot {
    /// What `bundle` amounts to for `swarm`. `contents` has fingerprints of files that are not part of a resource's decoded
    /// form, by the resource that names them. With `environment` the values of variables and secrets count as well; leave
    /// it out where the snapshot is written down.
    pub fn of(
        bundle: &Bundle,
        swarm: &ResourceId,
        contents: &Fingerprints,
        environment: Option<&Environment>,
    ) -> Snapshot {
        Snapper::new(bundle, contents, &values(bundle, environment), None).snapshot(swarm)
    }
}

/// Fingerprints of something about resources.
pub type Fingerprints = HashMap<ResourceId, Fingerprint>;

/// A snapshot with what it was made from. The next one is made from it and from what differs.
pub struct Basis {
    bundle: Arc<Bundle>,
    contents: Fingerprints,
    /// What the value sources of a resource come to.
    values: Fingerprints,
    snapshot: Snapshot,
}

impl Basis {
    /// As [`Snapshot::of`]; what is as in `before` is taken from there.
    pub fn new(
        bundle: Arc<Bundle>,
        swarm: &ResourceId,
        contents: Fingerprints,
        environment: &Environment,
        before: Option<&Basis>,
    ) -> Basis {
        let values = values(&bundle, Some(environment));
        let snapshot = Snapper::new(&bundle, &contents, &values, before).snapshot(swarm);
        Basis {
            bundle,
            contents,
            values,
            snapshot,
        }
    }

    /// The snapshot; values of variables and secrets count.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// The snapshot as it may be written down: values do not count.
    pub fn without_values(&self, swarm: &ResourceId) -> Snapshot {
        match self.values.is_empty() {
            true => self.snapshot.clone(),
            false => Snapper::new(
                &self.bundle,
                &self.contents,
                &Fingerprints::new(),
                Some(self),
            )
            .snapshot(swarm),
        }
    }

    /// The tools that mean the same as in `before`, with the files and variables that they name.
    pub fn unchanged_tools(&self, before: &Basis) -> HashSet<ResourceId> {
        let snapper = Snapper::new(&self.bundle, &self.contents, &self.values, Some(before));
        let tools = self
            .bundle
            .tools()
            .values()
            .filter(|tool| snapper.is_unchanged(tool, Bundle::tools));
        tools.map(|tool| tool.id.clone()).collect()
    }
}

#[derive(Clone, Copy)]
struct Snapper<'a> {
    bundle: &'a Bundle,
    contents: &'a Fingerprints,
    values: &'a Fingerprints,
    before: Option<&'a Basis>,
}

fn values(bundle: &Bundle, environment: Option<&Environment>) -> Fingerprints {
    let Some(environment) = environment else {
        return Fingerprints::new();
    };
    let mut values: HashMap<&ResourceId, Hasher> = HashMap::new();
    for origin in &bundle.values {
        let hasher = values.remove(&origin.resource).unwrap_or_default();
        let value = environment.resolve(&origin.source, &origin.key);
        let hasher = match &value {
            Ok(secret) => hasher.and_bytes(secret.expose().as_bytes()),
            Err(_) => hasher.and(&"missing"),
        };
        values.insert(&origin.resource, hasher);
    }
    // A tool reads the value sources in its config itself.
    for tool in bundle.tools().values() {
        let mut named = Named::default();
        tool.spec
            .config
            .values()
            .for_each(|value| named.look_at(value));
        named
            .variables
            .extend(tool.spec.variables.iter().map(String::as_str));
        if named.is_empty() {
            continue;
        }
        let read = environment.iter().filter(|(name, _)| named.covers(name));
        let hasher = values.remove(&tool.id).unwrap_or_default();
        values.insert(
            &tool.id,
            read.fold(hasher, |hasher, (_, value)| {
                hasher.and_bytes(value.as_bytes())
            }),
        );
    }
    values
        .into_iter()
        .map(|(id, hasher)| (id.clone(), hasher.finish()))
        .collect()
}

/// The variables that a free value may be reading.
#[derive(Default)]
struct Named<'v> {
    variables: Vec<&'v str>,
    /// A `secretRef` looks at several.
    secrets: bool,
}

impl<'v> Named<'v> {
    fn look_at(&mut self, value: &'v Value) {
        match value {
            Value::Object(fields) => {
                let from = fields.get("valueFrom");
                self.variables.extend(
                    from.and_then(|from| from.get("env"))
                        .and_then(Value::as_str),
                );
                self.secrets |= from.is_some_and(|from| from.get("secretRef").is_some());
                fields.values().for_each(|value| self.look_at(value));
            }
            Value::Array(items) => items.iter().for_each(|item| self.look_at(item)),
            _ => {}
        }
    }

    fn is_empty(&self) -> bool {
        !self.secrets && self.variables.is_empty()
    }

    fn covers(&self, name: &str) -> bool {
        let is_secret = name.starts_with("GOONDAN_SECRET_") || name.starts_with("SECRET_");
        (self.secrets && is_secret) || self.variables.contains(&name)
    }
}

impl<'a> Snapper<'a> {
    fn new(
        bundle: &'a Bundle,
        contents: &'a Fingerprints,
        values: &'a Fingerprints,
        before: Option<&'a Basis>,
    ) -> Self {
        Snapper {
            bundle,
            contents,
            values,
            before,
        }
    }

    fn snapshot(&self, swarm: &ResourceId) -> Snapshot {
        let mut snapshot = Snapshot {
            resources: self.resources(),
            ..Snapshot::default()
        };
        if let Some(swarm) = self.bundle.swarms().get(swarm) {
            snapshot.limits = Hasher::default()
                .and(&(&swarm.spec.policy, &swarm.spec.limits))
                .finish();
            let agents = swarm
                .spec
                .agents
                .iter()
                .filter_map(|id| self.bundle.agents().get(id));
            let mut built_in = HashMap::new();
            let parts = agents.map(|agent| {
                (
                    agent.id.name.clone(),
                    self.parts(agent, &snapshot.resources, &mut built_in),
                )
            });
            snapshot.agents = parts.collect();
        }
        snapshot
    }

    fn resources(&self) -> Known {
        let bundle = self.bundle;
        let mut all = BTreeMap::new();
        if let Some(package) = bundle.package() {
            all.insert(
                Kind::Package,
                [(package.id.name.clone(), self.hash(package))].into(),
            );
        }
        all.insert(Kind::Model, self.kind(Kind::Model, Bundle::models));
        all.insert(Kind::Agent, self.kind(Kind::Agent, Bundle::agents));
        all.insert(Kind::Swarm, self.kind(Kind::Swarm, Bundle::swarms));
        all.insert(Kind::Tool, self.kind(Kind::Tool, Bundle::tools));
        all.insert(
            Kind::Extension,
            self.kind(Kind::Extension, Bundle::extensions),
        );
        all.insert(
            Kind::Connector,
            self.kind(Kind::Connector, Bundle::connectors),
        );
        all.insert(
            Kind::Connection,
            self.kind(Kind::Connection, Bundle::connections),
        );
        all.retain(|_, resources| !resources.is_empty());
        all
    }

    fn kind<T: fmt::Debug + PartialEq>(
        &self,
        kind: Kind,
        of: fn(&Bundle) -> &Resources<T>,
    ) -> BTreeMap<String, Fingerprint> {
        let known = self
            .before
            .and_then(|before| before.snapshot.resources.get(&kind));
        let own = of(self.bundle)
            .values()
            .filter(|resource| !resource.id.is_base());
        let fingerprint = |resource: &Arc<Resource<T>>| {
            let known = known
                .and_then(|known| known.get(&self.key(&resource.id)))
                .filter(|_| self.is_unchanged(resource, of));
            known.cloned().unwrap_or_else(|| self.hash(resource))
        };
        own.map(|resource| (self.key(&resource.id), fingerprint(resource)))
            .collect()
    }

    /// What a resource is called in the snapshot: its name, behind that of its package where that is not the project's.
    fn key(&self, id: &ResourceId) -> String {
        match self
            .bundle
            .packages()
            .iter()
            .find(|package| Some(&package.name) == id.package.as_ref())
        {
            Some(package) => format!("{}/{}", package.name, id.name),
            None => id.name.clone(),
        }
    }

    /// What is known of a resource.
    fn of<'k>(&self, known: &'k Known, id: &ResourceId) -> Option<&'k Fingerprint> {
        known
            .get(&id.kind)
            .and_then(|known| known.get(&self.key(id)))
    }

    /// Whether a resource means what it meant before. Equal is not enough: two maps are equal in whatever order their keys
    /// stand, and a model is shown the order. What was decoded from the same document and is equal is the same.
    fn is_unchanged<T: PartialEq>(
        &self,
        resource: &Arc<Resource<T>>,
        of: fn(&Bundle) -> &Resources<T>,
    ) -> bool {
        let Some(before) = self.before else {
            return false;
        };
        let same = |old: &Arc<Resource<T>>| {
            let is_same_document = || {
                self.bundle.is_same_document(
                    &before.bundle,
                    resource.origin.as_ref(),
                    old.origin.as_ref(),
                )
            };
            (Arc::ptr_eq(old, resource) || (is_same_document() && old.spec == resource.spec))
                && before.contents.get(&resource.id) == self.contents.get(&resource.id)
                && before.values.get(&resource.id) == self.values.get(&resource.id)
        };
        of(&before.bundle).get(&resource.id).is_some_and(same)
    }

    fn hash<T: fmt::Debug>(&self, resource: &Resource<T>) -> Fingerprint {
        // What `Debug` shows never holds a secret: that is what `Secret` is for.
        let meaning = (
            &resource.id.package,
            &resource.labels,
            &resource.annotations,
            &resource.spec,
        );
        let about = (
            self.values.get(&resource.id),
            self.contents.get(&resource.id),
        );
        Hasher::default().and(&meaning).and(&about).finish()
    }

    /// `known` are the resources of the bundle. Those that are built in are looked at once, and kept in `built_in`.
    fn parts(
        &self,
        agent: &'a Arc<Resource<Agent>>,
        known: &Known,
        built_in: &mut HashMap<&'a ResourceId, Option<Fingerprint>>,
    ) -> BTreeMap<AgentPart, Fingerprint> {
        if let Some(parts) = self.parts_before(agent, known) {
            return parts.clone();
        }
        let spec = &agent.spec;
        let known = |id: &ResourceId| self.of(known, id).filter(|_| !id.is_base());
        let tools = spec.tools.iter().fold(
            Hasher::default().and(&(&spec.tools, &spec.skills)),
            |hasher, used| {
                let hash = || {
                    self.bundle
                        .tools()
                        .get(&used.tool)
                        .map(|tool| self.hash(tool))
                };
                match known(&used.tool) {
                    Some(known) => hasher.and(known),
                    None => hasher.and(built_in.entry(&used.tool).or_insert_with(hash)),
                }
            },
        );
        let extensions =
            spec.extensions
                .iter()
                .fold(Hasher::default().and(&spec.extensions), |hasher, used| {
                    let hash = || {
                        self.bundle
                            .extensions()
                            .get(&used.extension)
                            .map(|extension| self.hash(extension))
                    };
                    match known(&used.extension) {
                        Some(known) => hasher.and(known),
                        None => hasher.and(built_in.entry(&used.extension).or_insert_with(hash)),
                    }
                });
        let models = spec.models().fold(Hasher::default(), |hasher, id| {
            hasher.and(id).and(&known(id))
        });
        let prompt = (
            spec.prompt.as_ref().map(|prompt| &prompt.text),
            &spec.instructions,
            &spec.skills,
        );
        let settings = (
            &spec.params,
            spec.max_parallel_tool_calls,
            &spec.required_tools,
            &spec.output,
            &spec.workdir,
        );
        BTreeMap::from([
            (AgentPart::Tools, tools.finish()),
            (AgentPart::Prompt, Hasher::default().and(&prompt).finish()),
            (AgentPart::Model, models.finish()),
            (
                AgentPart::Policy,
                Hasher::default().and(&spec.permissions).finish(),
            ),
            (AgentPart::Extensions, extensions.finish()),
            (
                AgentPart::Settings,
                Hasher::default().and(&settings).finish(),
            ),
        ])
    }

    /// What an agent was made of before, where that is what it is made of now.
    fn parts_before(
        &self,
        agent: &Arc<Resource<Agent>>,
        known: &Known,
    ) -> Option<&'a BTreeMap<AgentPart, Fingerprint>> {
        let before = &self.before?.snapshot;
        let tools = agent.spec.tools.iter().map(|used| &used.tool);
        let extensions = agent.spec.extensions.iter().map(|used| &used.extension);
        let mut named = tools.chain(extensions).chain(agent.spec.models());
        let reads_the_same = |id: &ResourceId| {
            self.before.and_then(|before| before.values.get(id)) == self.values.get(id)
        };
        let is_same = |id: &ResourceId| match id.is_base() {
            true => reads_the_same(id),
            false => self.of(known, id) == self.of(&before.resources, id),
        };
        let is_unchanged = self.is_unchanged(agent, Bundle::agents) && named.all(is_same);
        before.agents.get(&agent.id.name).filter(|_| is_unchanged)
    }
}

/// Hashes values by what `Debug` shows of them.
#[derive(Clone, Default)]
struct Hasher(Sha256);

impl Hasher {
    fn and(mut self, value: &dyn fmt::Debug) -> Self {
        // Writing into a hash does not fail.
        let _ = write!(self, "{value:?}\0");
        self
    }

    fn and_bytes(mut self, bytes: &[u8]) -> Self {
        self.0.update((bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
        self
    }

    fn finish(self) -> Fingerprint {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let digit = |half: u8| char::from(DIGITS[usize::from(half)]);
        let hash = self.0.finalize();
        Fingerprint(
            hash.iter()
                .take(16)
                .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)])
                .collect(),
        )
    }
}

impl io::Write for Hasher {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl fmt::Write for Hasher {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.update(text.as_bytes());
        Ok(())
    }
}

//! Snapshots of a bundle as hashes: small enough to store next to a running swarm, and sufficient
//! to find what an edit changes.
//!
//! A hash covers the meaning of a resource: its decoded form, labels and annotations. Layout,
//! comments and file names do not matter. The caller passes hashes of libraries and scripts and
//! optionally the values of variables.
//!
//! The hash input is the `Debug` output of the decoded form. It keeps the key order, which models
//! see, and it cannot contain a secret, because [`Secret`](crate::Secret) hides its value. Another
//! version of this program may have different `Debug` output. Only a comparison with a stored
//! snapshot of another version is affected: it reports a change.
//!
//! `Hash` is not an alternative, because a JSON map hashes without its key order, and numbers with
//! fractions have no `Hash`. JSON would need `Serialize` for every type of a spec.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::{self, Write};
use std::io::{self, BufReader, Read};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::bundle::Bundle;
use crate::kinds::Agent;
use crate::resource::Resource;
use crate::resource::Resources;
use crate::value::Environment;
use crate::{Kind, ResourceId};

/// Buffer size for hashing a stream, in bytes.
const STREAM_BUFFER_BYTES: usize = 64 * 1024;

/// First half of a SHA-256 hash, in hex. It detects changes but does not resist deliberate
/// collisions.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fingerprint(String);

/// Hashes of a bundle for one of its swarms. Contains no secrets, and hashes of secrets only on
/// request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BundleSnapshot {
    /// Every resource that is not built in, by kind and name.
    pub(crate) resources: BTreeMap<Kind, BTreeMap<String, Fingerprint>>,
    /// Agents of the swarm with their parts, including referenced resources.
    pub(crate) agents: BTreeMap<String, BTreeMap<AgentPart, Fingerprint>>,
    /// Hash of the swarm's `policy`.
    pub(crate) limits: Fingerprint,
}

/// Fingerprints of resources that are not built in.
type ResourceFingerprints = BTreeMap<Kind, BTreeMap<String, Fingerprint>>;

/// Part of an agent's definition. Each part has its own point from which a change applies (rule
/// R3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum AgentPart {
    /// Callable tools: Tool resources, selected exports and the libraries that implement them.
    Tools,
    /// System prompt.
    Prompt,
    /// Model resource with its references.
    Model,
    /// Agent `permissions`.
    Policy,
    /// Middleware.
    Extensions,
    /// Everything else, such as `params` and `workdir`.
    Settings,
}

impl AgentPart {
    /// Returns true if a change applies from the next step of a running turn. All other changes
    /// apply from the next turn.
    pub fn is_seen_by_next_step(self) -> bool {
        self == AgentPart::Tools
    }

    /// Returns the name, as in the serialized form.
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
    /// Hashes bytes, such as a file's content.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        FingerprintHasher::default().and_bytes(bytes).finish()
    }

    /// Hashes a stream. The result differs from [`Fingerprint::of_bytes`] of the same bytes.
    ///
    /// # Errors
    /// Fails if the stream cannot be read.
    pub fn of_stream(source: impl Read) -> io::Result<Self> {
        let mut hasher = FingerprintHasher::default();
        io::copy(
            &mut BufReader::with_capacity(STREAM_BUFFER_BYTES, source),
            &mut hasher,
        )?;
        Ok(hasher.finish())
    }

    /// Hashes several fingerprints in order.
    pub fn combine<'f>(parts: impl IntoIterator<Item = &'f Fingerprint>) -> Self {
        parts
            .into_iter()
            .fold(FingerprintHasher::default(), |hasher, part| {
                hasher.with_value(part)
            })
            .finish()
    }
}

impl BundleSnapshot {
    /// Creates the snapshot of `bundle` for `swarm`.
    ///
    /// `contents` has hashes of files outside the decoded form, by the resource that names them.
    /// With `environment`, the values of variables and secrets also count; omit it for a stored
    /// snapshot.
    pub fn of(
        bundle: &Bundle,
        swarm: &ResourceId,
        contents: &Fingerprints,
        environment: Option<&Environment>,
    ) -> BundleSnapshot {
        SnapshotBuilder::new(
            bundle,
            contents,
            &value_fingerprints(bundle, environment),
            None,
        )
        .build_snapshot(swarm)
    }
}

/// Fingerprints by resource.
pub type Fingerprints = HashMap<ResourceId, Fingerprint>;

/// Snapshot with its inputs, from which the next snapshot is computed incrementally.
pub struct SnapshotBasis {
    bundle: Arc<Bundle>,
    contents: Fingerprints,
    /// Hashes of each resource's resolved value sources.
    values: Fingerprints,
    snapshot: BundleSnapshot,
}

impl SnapshotBasis {
    /// Works like [`BundleSnapshot::of`], but reuses unchanged results of `before`.
    pub fn new(
        bundle: Arc<Bundle>,
        swarm: &ResourceId,
        contents: Fingerprints,
        environment: &Environment,
        before: Option<&SnapshotBasis>,
    ) -> SnapshotBasis {
        let values = value_fingerprints(&bundle, Some(environment));
        let snapshot =
            SnapshotBuilder::new(&bundle, &contents, &values, before).build_snapshot(swarm);
        SnapshotBasis {
            bundle,
            contents,
            values,
            snapshot,
        }
    }

    /// Returns the snapshot, which includes values of variables and secrets.
    pub fn snapshot(&self) -> &BundleSnapshot {
        &self.snapshot
    }

    /// Returns the snapshot without values of variables and secrets, for storage.
    pub fn without_values(&self, swarm: &ResourceId) -> BundleSnapshot {
        if self.values.is_empty() {
            self.snapshot.clone()
        } else {
            SnapshotBuilder::new(
                &self.bundle,
                &self.contents,
                &Fingerprints::new(),
                Some(self),
            )
            .build_snapshot(swarm)
        }
    }

    /// Returns the tools that did not change since `before`: neither the tools, nor their files,
    /// nor the variables that they use.
    pub fn unchanged_tools(&self, before: &SnapshotBasis) -> HashSet<ResourceId> {
        let comparison =
            SnapshotBuilder::new(&self.bundle, &self.contents, &self.values, Some(before));
        let tools = self
            .bundle
            .tools()
            .values()
            .filter(|tool| comparison.is_unchanged(tool, Bundle::tools));
        tools.map(|tool| tool.id.clone()).collect()
    }
}

#[derive(Clone, Copy)]
struct SnapshotBuilder<'a> {
    bundle: &'a Bundle,
    contents: &'a Fingerprints,
    values: &'a Fingerprints,
    before: Option<&'a SnapshotBasis>,
}

/// Hashes the variables and secrets that each resource uses; empty without an environment.
fn value_fingerprints(bundle: &Bundle, environment: Option<&Environment>) -> Fingerprints {
    let Some(environment) = environment else {
        return Fingerprints::new();
    };
    let mut values: HashMap<&ResourceId, FingerprintHasher> = HashMap::new();
    for origin in &bundle.values {
        let hasher = values.remove(&origin.resource).unwrap_or_default();
        let value = environment.resolve(&origin.source, &origin.key);
        let hasher = match &value {
            Ok(secret) => hasher.and_bytes(secret.expose().as_bytes()),
            Err(_) => hasher.with_value(&"missing"),
        };
        values.insert(&origin.resource, hasher);
    }
    // A built-in tool also reads variables without configuration.
    for tool in bundle.tools().values() {
        if tool.spec.variables.is_empty() {
            continue;
        }
        let names = tool.spec.variables.iter();
        let hasher = values.remove(&tool.id).unwrap_or_default();
        values.insert(
            &tool.id,
            names.fold(hasher, |hasher, name| {
                hasher.and_bytes(environment.get(name).unwrap_or_default().as_bytes())
            }),
        );
    }
    values
        .into_iter()
        .map(|(id, hasher)| (id.clone(), hasher.finish()))
        .collect()
}

impl<'a> SnapshotBuilder<'a> {
    fn new(
        bundle: &'a Bundle,
        contents: &'a Fingerprints,
        values: &'a Fingerprints,
        before: Option<&'a SnapshotBasis>,
    ) -> Self {
        SnapshotBuilder {
            bundle,
            contents,
            values,
            before,
        }
    }

    /// Hashes the resources, the agents and the limits of a swarm.
    fn build_snapshot(&self, swarm: &ResourceId) -> BundleSnapshot {
        let mut snapshot = BundleSnapshot {
            resources: self.hash_resources(),
            ..BundleSnapshot::default()
        };
        if let Some(swarm) = self.bundle.swarms().get(swarm) {
            snapshot.limits = FingerprintHasher::default()
                .with_value(&(&swarm.spec.policy, &swarm.spec.limits))
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

    /// Hashes all resources by kind; the built-in package is left out.
    fn hash_resources(&self) -> ResourceFingerprints {
        let bundle = self.bundle;
        let mut hashes = BTreeMap::new();
        if let Some(package) = bundle.package() {
            hashes.insert(
                Kind::Package,
                [(package.id.name.clone(), self.hash(package))].into(),
            );
        }
        hashes.insert(
            Kind::Model,
            self.fingerprints_of_kind(Kind::Model, Bundle::models),
        );
        hashes.insert(
            Kind::Agent,
            self.fingerprints_of_kind(Kind::Agent, Bundle::agents),
        );
        hashes.insert(
            Kind::Swarm,
            self.fingerprints_of_kind(Kind::Swarm, Bundle::swarms),
        );
        hashes.insert(
            Kind::Tool,
            self.fingerprints_of_kind(Kind::Tool, Bundle::tools),
        );
        hashes.insert(
            Kind::Extension,
            self.fingerprints_of_kind(Kind::Extension, Bundle::extensions),
        );
        hashes.insert(
            Kind::Connector,
            self.fingerprints_of_kind(Kind::Connector, Bundle::connectors),
        );
        hashes.insert(
            Kind::Connection,
            self.fingerprints_of_kind(Kind::Connection, Bundle::connections),
        );
        hashes.retain(|_, resources| !resources.is_empty());
        hashes
    }

    /// Hashes the resources of a kind; reuses hashes of unchanged resources.
    fn fingerprints_of_kind<T: fmt::Debug + PartialEq>(
        &self,
        kind: Kind,
        of: fn(&Bundle) -> &Resources<T>,
    ) -> BTreeMap<String, Fingerprint> {
        let previous = self
            .before
            .and_then(|before| before.snapshot.resources.get(&kind));
        let resources = of(self.bundle)
            .values()
            .filter(|resource| !resource.id.is_base());
        let fingerprint = |resource: &Arc<Resource<T>>| {
            let previous = previous
                .and_then(|previous| previous.get(&self.key(&resource.id)))
                .filter(|_| self.is_unchanged(resource, of));
            previous.cloned().unwrap_or_else(|| self.hash(resource))
        };
        resources
            .map(|resource| (self.key(&resource.id), fingerprint(resource)))
            .collect()
    }

    /// Returns the resource's key in the snapshot: its name, prefixed with its package unless that
    /// is the project's own.
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

    /// Returns the fingerprint of the resource `id` in `fingerprints`, if there is one.
    fn known_fingerprint<'k>(
        &self,
        fingerprints: &'k ResourceFingerprints,
        id: &ResourceId,
    ) -> Option<&'k Fingerprint> {
        fingerprints
            .get(&id.kind)
            .and_then(|of_kind| of_kind.get(&self.key(id)))
    }

    /// Returns true if a resource has the same meaning as before.
    ///
    /// Equality is not sufficient: equal maps may differ in key order, which models see. Equal
    /// resources from the same document have the same order.
    fn is_unchanged<T: PartialEq>(
        &self,
        resource: &Arc<Resource<T>>,
        of: fn(&Bundle) -> &Resources<T>,
    ) -> bool {
        let Some(before) = self.before else {
            return false;
        };
        let is_same = |old: &Arc<Resource<T>>| {
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
        of(&before.bundle).get(&resource.id).is_some_and(is_same)
    }

    /// Hashes a resource, its files and its variables.
    fn hash<T: fmt::Debug>(&self, resource: &Resource<T>) -> Fingerprint {
        // `Debug` output never contains a secret, by design of `Secret`.
        let meaning = (
            &resource.id.package,
            &resource.labels,
            &resource.annotations,
            &resource.spec,
        );
        let used_values = (
            self.values.get(&resource.id),
            self.contents.get(&resource.id),
        );
        FingerprintHasher::default()
            .with_value(&meaning)
            .with_value(&used_values)
            .finish()
    }

    /// Hashes the parts of an agent. `known` has the bundle's resources. Built-in resources are
    /// hashed once and cached in `built_in`.
    fn parts(
        &self,
        agent: &'a Arc<Resource<Agent>>,
        known: &ResourceFingerprints,
        built_in: &mut HashMap<&'a ResourceId, Option<Fingerprint>>,
    ) -> BTreeMap<AgentPart, Fingerprint> {
        if let Some(parts) = self.parts_before(agent, known) {
            return parts.clone();
        }
        let spec = &agent.spec;
        let known_fingerprint =
            |id: &ResourceId| self.known_fingerprint(known, id).filter(|_| !id.is_base());
        let tools = spec.tools.iter().fold(
            FingerprintHasher::default().with_value(&(&spec.tools, &spec.skills)),
            |hasher, used| {
                let hash = || {
                    self.bundle
                        .tools()
                        .get(&used.tool)
                        .map(|tool| self.hash(tool))
                };
                match known_fingerprint(&used.tool) {
                    Some(fingerprint) => hasher.with_value(fingerprint),
                    None => hasher.with_value(built_in.entry(&used.tool).or_insert_with(hash)),
                }
            },
        );
        let extensions = spec.extensions.iter().fold(
            FingerprintHasher::default().with_value(&spec.extensions),
            |hasher, used| {
                let hash = || {
                    self.bundle
                        .extensions()
                        .get(&used.extension)
                        .map(|extension| self.hash(extension))
                };
                match known_fingerprint(&used.extension) {
                    Some(fingerprint) => hasher.with_value(fingerprint),
                    None => hasher.with_value(built_in.entry(&used.extension).or_insert_with(hash)),
                }
            },
        );
        let models = spec
            .models()
            .fold(FingerprintHasher::default(), |hasher, id| {
                hasher.with_value(id).with_value(&known_fingerprint(id))
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
            (
                AgentPart::Prompt,
                FingerprintHasher::default().with_value(&prompt).finish(),
            ),
            (AgentPart::Model, models.finish()),
            (
                AgentPart::Policy,
                FingerprintHasher::default()
                    .with_value(&spec.permissions)
                    .finish(),
            ),
            (AgentPart::Extensions, extensions.finish()),
            (
                AgentPart::Settings,
                FingerprintHasher::default()
                    .with_value(&settings)
                    .with_value(&spec.description)
                    .finish(),
            ),
        ])
    }

    /// Returns the agent's earlier parts if they are still valid.
    fn parts_before(
        &self,
        agent: &Arc<Resource<Agent>>,
        known: &ResourceFingerprints,
    ) -> Option<&'a BTreeMap<AgentPart, Fingerprint>> {
        let before = &self.before?.snapshot;
        let tools = agent.spec.tools.iter().map(|used| &used.tool);
        let extensions = agent.spec.extensions.iter().map(|used| &used.extension);
        let mut named_resources = tools.chain(extensions).chain(agent.spec.models());
        let reads_the_same = |id: &ResourceId| {
            self.before.and_then(|before| before.values.get(id)) == self.values.get(id)
        };
        let is_same = |id: &ResourceId| {
            if id.is_base() {
                reads_the_same(id)
            } else {
                self.known_fingerprint(known, id) == self.known_fingerprint(&before.resources, id)
            }
        };
        let is_unchanged = self.is_unchanged(agent, Bundle::agents) && named_resources.all(is_same);
        before.agents.get(&agent.id.name).filter(|_| is_unchanged)
    }
}

/// Hashes values by their `Debug` output.
#[derive(Clone, Default)]
struct FingerprintHasher(Sha256);

impl FingerprintHasher {
    /// Adds the debug output of a value.
    fn with_value(mut self, value: &dyn fmt::Debug) -> Self {
        // Writing to a hash cannot fail.
        let _ = write!(self, "{value:?}\0");
        self
    }

    /// Adds bytes, preceded by their length so that no two sequences collide.
    fn and_bytes(mut self, bytes: &[u8]) -> Self {
        self.0.update((bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
        self
    }

    /// Returns the first 16 bytes of the hash as hexadecimal digits.
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

impl io::Write for FingerprintHasher {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl fmt::Write for FingerprintHasher {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.update(text.as_bytes());
        Ok(())
    }
}

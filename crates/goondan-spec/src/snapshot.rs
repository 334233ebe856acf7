//! What a bundle amounts to, as hashes: small enough to keep beside a running swarm, and enough to tell what an edit changes.
//!
//! A hash is made from what a resource means (its decoded form, labels and annotations), so layout, comments and file names
//! do not matter. What lies outside the bundle's YAML comes from the caller: the content of libraries and scripts, and where
//! wanted the values of variables.

use std::collections::{BTreeMap, HashMap};
use std::fmt::{self, Write};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::bundle::{Bundle, Resource, Resources};
use crate::kinds::Agent;
use crate::value::Environment;
use crate::{Kind, ResourceId};

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

    /// Of several others, in order.
    pub fn of_all<'f>(parts: impl IntoIterator<Item = &'f Fingerprint>) -> Self {
        parts.into_iter().fold(Hasher::default(), |hasher, part| hasher.and(part)).finish()
    }
}

impl Snapshot {
    /// What `bundle` amounts to for `swarm`. `contents` has fingerprints of files that are not part of a resource's decoded
    /// form, by the resource that names them. With `environment` the values of variables and secrets count as well; leave
    /// it out where the snapshot is written down.
    pub fn of(
        bundle: &Bundle,
        swarm: &ResourceId,
        contents: &HashMap<ResourceId, Fingerprint>,
        environment: Option<&Environment>,
    ) -> Snapshot {
        let snapper = Snapper { bundle, contents, values: values(bundle, environment) };
        let mut snapshot = Snapshot { resources: snapper.resources(), ..Snapshot::default() };
        if let Some(swarm) = bundle.swarms().get(swarm) {
            snapshot.limits = Hasher::default().and(&swarm.spec.policy).finish();
            let agents = swarm.spec.agents.iter().filter_map(|id| bundle.agents().get(id));
            snapshot.agents = agents.map(|agent| (agent.id.name.clone(), snapper.parts(agent))).collect();
        }
        snapshot
    }
}

struct Snapper<'a> {
    bundle: &'a Bundle,
    contents: &'a HashMap<ResourceId, Fingerprint>,
    /// What the value sources of a resource come to.
    values: HashMap<&'a ResourceId, Hasher>,
}

fn values<'b>(bundle: &'b Bundle, environment: Option<&Environment>) -> HashMap<&'b ResourceId, Hasher> {
    let mut values: HashMap<&ResourceId, Hasher> = HashMap::new();
    let Some(environment) = environment else { return values };
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
        tool.spec.config.values().for_each(|value| named.look_at(value));
        let read = environment.iter().filter(|(name, _)| named.covers(name));
        let hasher = values.remove(&tool.id).unwrap_or_default();
        values.insert(&tool.id, read.fold(hasher, |hasher, (_, value)| hasher.and_bytes(value.as_bytes())));
    }
    values
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
                self.variables.extend(from.and_then(|from| from.get("env")).and_then(Value::as_str));
                self.secrets |= from.is_some_and(|from| from.get("secretRef").is_some());
                fields.values().for_each(|value| self.look_at(value));
            }
            Value::Array(items) => items.iter().for_each(|item| self.look_at(item)),
            _ => {}
        }
    }

    fn covers(&self, name: &str) -> bool {
        let is_secret = name.starts_with("GOONDAN_SECRET_") || name.starts_with("SECRET_");
        (self.secrets && is_secret) || self.variables.contains(&name)
    }
}

impl Snapper<'_> {
    fn resources(&self) -> BTreeMap<Kind, BTreeMap<String, Fingerprint>> {
        let bundle = self.bundle;
        let mut all = BTreeMap::new();
        if let Some(package) = bundle.package() {
            all.insert(Kind::Package, [(package.id.name.clone(), self.resource(package))].into());
        }
        all.insert(Kind::Model, self.kind(bundle.models()));
        all.insert(Kind::Agent, self.kind(bundle.agents()));
        all.insert(Kind::Swarm, self.kind(bundle.swarms()));
        all.insert(Kind::Tool, self.kind(bundle.tools()));
        all.insert(Kind::Extension, self.kind(bundle.extensions()));
        all.insert(Kind::Connector, self.kind(bundle.connectors()));
        all.insert(Kind::Connection, self.kind(bundle.connections()));
        all.retain(|_, resources| !resources.is_empty());
        all
    }

    fn kind<T: fmt::Debug>(&self, resources: &Resources<T>) -> BTreeMap<String, Fingerprint> {
        let own = resources.values().filter(|resource| !resource.id.is_base());
        own.map(|resource| (resource.id.name.clone(), self.resource(resource))).collect()
    }

    fn resource<T: fmt::Debug>(&self, resource: &Resource<T>) -> Fingerprint {
        // What `Debug` shows never holds a secret: that is what `Secret` is for.
        let meaning = (&resource.id.package, &resource.labels, &resource.annotations, &resource.spec);
        let hasher = self.values.get(&resource.id).cloned().unwrap_or_default();
        hasher.and(&meaning).and(&self.contents.get(&resource.id)).finish()
    }

    fn parts(&self, agent: &Resource<Agent>) -> BTreeMap<AgentPart, Fingerprint> {
        let spec = &agent.spec;
        let tools = spec.tools.iter().fold(Hasher::default().and(&spec.tools), |hasher, used| {
            hasher.and(&self.bundle.tools().get(&used.tool).map(|tool| self.resource(tool)))
        });
        let extensions = spec.extensions.iter().fold(Hasher::default().and(&spec.extensions), |hasher, used| {
            hasher.and(&self.bundle.extensions().get(&used.extension).map(|extension| self.resource(extension)))
        });
        let model = self.bundle.models().get(&spec.model).map(|model| self.resource(model));
        let prompt = spec.prompt.as_ref().map(|prompt| &prompt.text);
        let settings = (&spec.params, spec.max_parallel_tool_calls, &spec.required_tools, &spec.workdir);
        BTreeMap::from([
            (AgentPart::Tools, tools.finish()),
            (AgentPart::Prompt, Hasher::default().and(&prompt).finish()),
            (AgentPart::Model, Hasher::default().and(&spec.model).and(&model).finish()),
            (AgentPart::Policy, Hasher::default().and(&spec.permissions).finish()),
            (AgentPart::Extensions, extensions.finish()),
            (AgentPart::Settings, Hasher::default().and(&settings).finish()),
        ])
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
        let hash = self.0.finalize();
        Fingerprint(hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect())
    }
}

impl fmt::Write for Hasher {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.update(text.as_bytes());
        Ok(())
    }
}

//! Selection of a bundle's swarm and the check of its variables (rule L8).

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::ResourceId;
use crate::bundle::Bundle;
use crate::codes::page_url;
use crate::diagnostic::{Code, Diagnostic};
use crate::diagnostic_sink::ValueOrigin;
use crate::kinds::{Agent, Connection, Swarm};
use crate::meta::Kind;
use crate::resource::Resource;
use crate::resource::ResourceOrigin;
use crate::text::{closest, excerpt, format_alternatives, format_list};
use crate::value::{Environment, Secret, SecretMasking, ValueSource};

impl Bundle {
    /// Returns the swarm `name`. Default: the swarm `default`, or the only one.
    ///
    /// # Errors
    /// Fails with `E_CONFIG_NO_SWARM` and lists the existing swarms.
    pub fn choose_swarm(&self, name: Option<&str>) -> Result<&Resource<Swarm>, Diagnostic> {
        let swarms = self.swarms();
        let names: Vec<&str> = swarms.keys().map(|id| id.name.as_str()).collect();
        let find_named = |name: &str| {
            swarms
                .values()
                .map(AsRef::as_ref)
                .find(|swarm: &&Resource<_>| swarm.id.name == name)
        };
        if let Some(name) = name {
            return find_named(name).ok_or_else(|| unknown_swarm_error(name, &names));
        }
        match (find_named("default"), swarms.len()) {
            (Some(default), _) => Ok(default),
            (None, 1) => Ok(&swarms[0]),
            (None, 0) => Err(no_swarm_error()),
            (None, _) => {
                let message = format!(
                    "The bundle has {} swarms and none is called `default`.",
                    names.len()
                );
                Err(Diagnostic::new(Code::NO_SWARM, message)
                    .suggest(format!("choose one: {}", format_alternatives(&names))))
            }
        }
    }

    /// Reports the variables that `swarm` needs and `environment` lacks, at the fields that use
    /// them.
    ///
    /// Models without an agent in the swarm and connections to other swarms are skipped.
    pub fn missing_environment(
        &self,
        swarm: &ResourceId,
        environment: &Environment,
    ) -> Vec<Diagnostic> {
        let used_resources = self.used_by(swarm);
        let origins = self
            .values
            .iter()
            .filter(|origin| used_resources.contains(&origin.resource));
        origins
            .filter_map(|origin| missing_variable_error(origin, environment))
            .collect()
    }

    /// Returns the secrets that the bundle's resources refer to and that are set.
    pub fn secrets(&self, environment: &Environment) -> Vec<Secret> {
        let secrets = self.values.iter().filter(|origin| !is_setting(origin));
        secrets
            .filter_map(|origin| environment.resolve(&origin.source, &origin.key).ok())
            .collect()
    }

    /// Returns the settings of Connections that come from variables or secrets. They may contain an
    /// API key. Settings in the project's files, such as a schedule, are not secret.
    pub fn settings(&self, environment: &Environment) -> Vec<Secret> {
        let is_looked_up = |origin: &&ValueOrigin| !matches!(origin.source, ValueSource::Value(_));
        let settings = self.values.iter().filter(|origin| is_setting(origin));
        let settings = settings.filter(is_looked_up);
        settings
            .filter_map(|origin| environment.resolve(&origin.source, &origin.key).ok())
            .collect()
    }

    /// Warns about each secret that is too short to be masked everywhere.
    pub fn short_secrets(&self, environment: &Environment) -> Vec<Diagnostic> {
        let mut variables = BTreeSet::new();
        let secrets = self.values.iter().filter(|origin| !is_setting(origin));
        secrets
            .filter_map(|origin| {
                let secret = environment.resolve(&origin.source, &origin.key).ok()?;
                let name = name_of(origin);
                let place = (origin.resource.to_string(), origin.field.as_str());
                // A variable is reported once, however often it is used.
                let place = matches!(origin.source, ValueSource::Value(_)).then_some(place);
                let warning = short_secret(origin, &name, &secret)?;
                variables.insert((name, place)).then_some(warning)
            })
            .collect()
    }

    /// Returns the `secretRef`s that `swarm` uses, including those of its tools and extensions, as
    /// name and key.
    pub fn secret_refs(&self, swarm: &ResourceId) -> Vec<(String, String)> {
        let mut used_origins = self.used_by(swarm);
        used_origins.extend(self.agent_parts(swarm));
        let origins = self
            .values
            .iter()
            .filter(|origin| used_origins.contains(&origin.resource));
        let secret_names = origins.filter_map(|origin| match &origin.source {
            ValueSource::SecretRef { name, key } => {
                Some((name.clone(), key.as_ref().unwrap_or(&origin.key).clone()))
            }
            ValueSource::Value(_) | ValueSource::Env(_) => None,
        });
        secret_names.collect()
    }

    /// Returns the values that resources take from outside the bundle, with resource and position.
    pub fn outside_values(
        &self,
    ) -> impl Iterator<Item = (&ValueSource, &ResourceId, ResourceOrigin)> {
        let outside = self
            .values
            .iter()
            .filter(|origin| !matches!(origin.source, ValueSource::Value(_)));
        outside.map(|origin| {
            (
                &origin.source,
                &origin.resource,
                (origin.file.clone(), origin.at),
            )
        })
    }

    /// Returns the connections to `swarm`. A Connection without a swarm belongs to the first one.
    pub fn connections_of(
        &self,
        swarm: &ResourceId,
    ) -> impl Iterator<Item = &Arc<Resource<Connection>>> {
        let is_first = self.swarms().keys().next() == Some(swarm);
        let feeds =
            move |target: Option<&ResourceId>| target.map_or(is_first, |target| target == swarm);
        self.connections()
            .values()
            .filter(move |connection| feeds(connection.spec.swarm.as_ref()))
    }

    /// Returns the models and connections that a swarm uses.
    fn used_by(&self, swarm: &ResourceId) -> BTreeSet<ResourceId> {
        if !self.swarms().contains_key(swarm) {
            return BTreeSet::new();
        }
        let models = self
            .agents_of(swarm)
            .flat_map(|agent| agent.spec.models().cloned());
        models
            .chain(
                self.connections_of(swarm)
                    .map(|connection| connection.id.clone()),
            )
            .collect()
    }

    /// Returns the agents of a swarm, and their tools and extensions.
    fn agent_parts(&self, swarm: &ResourceId) -> impl Iterator<Item = ResourceId> {
        self.agents_of(swarm).flat_map(|agent| {
            let tools = agent.spec.tools.iter().map(|used| &used.tool);
            let extensions = agent.spec.extensions.iter().map(|used| &used.extension);
            let parts = tools.chain(extensions).chain([&agent.id]);
            parts.cloned()
        })
    }

    fn agents_of(&self, swarm: &ResourceId) -> impl Iterator<Item = &Arc<Resource<Agent>>> {
        let swarm = self.swarms().get(swarm);
        let agents = swarm.into_iter().flat_map(|swarm| &swarm.spec.agents);
        agents.filter_map(|agent| self.agents().get(agent))
    }
}

fn unknown_swarm_error(name: &str, names: &[&str]) -> Diagnostic {
    let diagnostic = Diagnostic::new(
        Code::NO_SWARM,
        format!("There is no Swarm `{}`.", excerpt(name, 80)),
    );
    match closest(name, names) {
        Some(near) => diagnostic.suggest(format!("did you mean `{near}`?")),
        None if names.is_empty() => no_swarm_error(),
        None => diagnostic.suggest(format!("use {}", format_list(names, 24))),
    }
}

/// Creates the error for a project without a swarm.
fn no_swarm_error() -> Diagnostic {
    Diagnostic::new(
        Code::NO_SWARM,
        "The project has no Swarm, so there is nothing to run.",
    )
    .suggest("add a document of `kind: Swarm` with `entryAgent` and `agents`")
}

/// Returns true if a value belongs to the `config` of a Connection, which contains no secrets.
fn is_setting(origin: &ValueOrigin) -> bool {
    origin.resource.kind == Kind::Connection && origin.field.starts_with("spec.config.")
}

/// Describes the source of a value for messages.
fn name_of(origin: &ValueOrigin) -> String {
    match &origin.source {
        ValueSource::Value(_) => format!("`{}`", origin.field),
        ValueSource::Env(name) => format!("`{name}`"),
        ValueSource::SecretRef { name, key } => {
            let key = key.as_deref().unwrap_or(&origin.key);
            format!("`{key}` of `Secret/{name}`")
        }
    }
}

/// Returns a warning if the secret is too short to be masked everywhere.
fn short_secret(origin: &ValueOrigin, name: &str, secret: &Secret) -> Option<Diagnostic> {
    let extent = match secret.masking() {
        SecretMasking::Anywhere => return None,
        SecretMasking::WholeWord => "fewer than eight characters are masked only as whole words",
        SecretMasking::Never => "fewer than four characters are not masked",
    };
    let message = format!("The value of {name} is too short to be protected: secrets of {extent}.");
    Some(
        Diagnostic::new(Code::SHORT_SECRET, message)
            .in_file(origin.file.clone())
            .at(origin.at)
            .of(&origin.resource)
            .field(origin.field.clone())
            .suggest("use a value of at least eight characters"),
    )
}

/// Returns the error for a value whose environment variable is not set; `None` if it is set.
fn missing_variable_error(origin: &ValueOrigin, environment: &Environment) -> Option<Diagnostic> {
    let variables = environment.resolve(&origin.source, &origin.key).err()?;
    let (message, suggestion) = match &variables[..] {
        [only] => (
            format!("The environment variable `{only}` is not set."),
            format!("run `export {only}=…`, or add `{only}=…` to `.env`"),
        ),
        several => (
            format!(
                "None of the environment variables {} is set.",
                format_alternatives(several)
            ),
            format!(
                "set one of them, preferably `{}`, or put the value into a file (see {})",
                several.first().map_or("", String::as_str),
                page_url("secrets.md")
            ),
        ),
    };
    Some(
        Diagnostic::new(Code::ENV_MISSING, message)
            .in_file(origin.file.clone())
            .at(origin.at)
            .of(&origin.resource)
            .field(origin.field.clone())
            .suggest(suggestion),
    )
}

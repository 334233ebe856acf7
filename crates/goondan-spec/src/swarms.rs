//! What one swarm of a bundle needs: which one runs, and whether its variables are set (rule L8).

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::ResourceId;
use crate::bundle::{Bundle, Origin, Resource};
use crate::codes::page_url;
use crate::diagnostic::{Code, Diagnostic};
use crate::findings::ValueOrigin;
use crate::kinds::{Connection, Swarm};
use crate::meta::Kind;
use crate::text::{alternatives, closest, excerpt, list};
use crate::value::{Environment, Masking, Secret, ValueSource};

impl Bundle {
    /// The swarm called `name`; without a name, the one called `default`, or the only one.
    ///
    /// # Errors
    /// `E_CONFIG_NO_SWARM`, with the names that there are.
    pub fn choose_swarm(&self, name: Option<&str>) -> Result<&Resource<Swarm>, Diagnostic> {
        let swarms = self.swarms();
        let names: Vec<&str> = swarms.keys().map(|id| id.name.as_str()).collect();
        let named = |name: &str| {
            swarms
                .values()
                .map(AsRef::as_ref)
                .find(|swarm: &&Resource<_>| swarm.id.name == name)
        };
        if let Some(name) = name {
            return named(name).ok_or_else(|| no_such_swarm(name, &names));
        }
        match (named("default"), swarms.len()) {
            (Some(default), _) => Ok(default),
            (None, 1) => Ok(&swarms[0]),
            (None, 0) => Err(none_at_all()),
            (None, _) => {
                let message = format!(
                    "The bundle has {} swarms and none is called `default`.",
                    names.len()
                );
                Err(Diagnostic::new(Code::NO_SWARM, message)
                    .suggest(format!("choose one: {}", alternatives(&names))))
            }
        }
    }

    /// The variables that `swarm` needs and `environment` lacks, each at the place that asks for it. Models that no
    /// agent of the swarm uses, and connections that feed another swarm, need nothing.
    pub fn missing_environment(
        &self,
        swarm: &ResourceId,
        environment: &Environment,
    ) -> Vec<Diagnostic> {
        let used = self.used_by(swarm);
        let wanted = self
            .values
            .iter()
            .filter(|origin| used.contains(&origin.resource));
        wanted
            .filter_map(|origin| missing(origin, environment))
            .collect()
    }

    /// The secrets that resources of the bundle refer to, as far as they are set.
    pub fn secrets(&self, environment: &Environment) -> Vec<Secret> {
        let secrets = self.values.iter().filter(|origin| !is_setting(origin));
        secrets
            .filter_map(|origin| environment.resolve(&origin.source, &origin.key).ok())
            .collect()
    }

    /// The settings of Connections, as far as they are set. They are no secrets, but a key may be among them by mistake.
    pub fn settings(&self, environment: &Environment) -> Vec<Secret> {
        let settings = self.values.iter().filter(|origin| is_setting(origin));
        settings
            .filter_map(|origin| environment.resolve(&origin.source, &origin.key).ok())
            .collect()
    }

    /// A warning for each secret that is too short to be masked wherever it appears.
    pub fn short_secrets(&self, environment: &Environment) -> Vec<Diagnostic> {
        let mut named = BTreeSet::new();
        let secrets = self.values.iter().filter(|origin| !is_setting(origin));
        secrets
            .filter_map(|origin| {
                let secret = environment.resolve(&origin.source, &origin.key).ok()?;
                let name = name_of(origin);
                let place = (origin.resource.to_string(), origin.field.as_str());
                // A variable is named once, wherever it is used.
                let place = matches!(origin.source, ValueSource::Value(_)).then_some(place);
                let warning = short_secret(origin, &name, &secret)?;
                named.insert((name, place)).then_some(warning)
            })
            .collect()
    }

    /// The `secretRef`s of what `swarm` uses, as name and key.
    pub fn secret_refs(&self, swarm: &ResourceId) -> Vec<(String, String)> {
        let used = self.used_by(swarm);
        let wanted = self
            .values
            .iter()
            .filter(|origin| used.contains(&origin.resource));
        let named = wanted.filter_map(|origin| match &origin.source {
            ValueSource::SecretRef { name, key } => {
                Some((name.clone(), key.as_ref().unwrap_or(&origin.key).clone()))
            }
            ValueSource::Value(_) | ValueSource::Env(_) => None,
        });
        named.collect()
    }

    /// The values that resources take from outside of the bundle, with the resource and the place where it says so.
    pub fn outside_values(&self) -> impl Iterator<Item = (&ValueSource, &ResourceId, Origin)> {
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

    /// The connections that feed `swarm`: those that name it, and where it is the first one, those that name none.
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

    fn used_by(&self, swarm: &ResourceId) -> BTreeSet<ResourceId> {
        let Some(resource) = self.swarms().get(swarm) else {
            return BTreeSet::new();
        };
        let agents = resource
            .spec
            .agents
            .iter()
            .filter_map(|agent| self.agents().get(agent));
        let models = agents.flat_map(|agent| agent.spec.models().cloned());
        models
            .chain(
                self.connections_of(swarm)
                    .map(|connection| connection.id.clone()),
            )
            .collect()
    }
}

fn no_such_swarm(name: &str, names: &[&str]) -> Diagnostic {
    let diagnostic = Diagnostic::new(
        Code::NO_SWARM,
        format!("There is no Swarm `{}`.", excerpt(name, 80)),
    );
    match closest(name, names) {
        Some(near) => diagnostic.suggest(format!("did you mean `{near}`?")),
        None if names.is_empty() => none_at_all(),
        None => diagnostic.suggest(format!("there is {}", list(names, 24))),
    }
}

fn none_at_all() -> Diagnostic {
    Diagnostic::new(
        Code::NO_SWARM,
        "The project has no Swarm, so there is nothing to run.",
    )
    .suggest("add a document of `kind: Swarm` with `entryAgent` and `agents`")
}

/// Returns whether a value belongs to the `config` of a Connection, which holds no secrets.
fn is_setting(origin: &ValueOrigin) -> bool {
    origin.resource.kind == Kind::Connection && origin.field.starts_with("spec.config.")
}

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

fn short_secret(origin: &ValueOrigin, name: &str, secret: &Secret) -> Option<Diagnostic> {
    let extent = match secret.masking() {
        Masking::Anywhere => return None,
        Masking::WholeWord => "fewer than eight characters are masked only as whole words",
        Masking::Never => "fewer than four characters are not masked",
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

fn missing(origin: &ValueOrigin, environment: &Environment) -> Option<Diagnostic> {
    let tried = environment.resolve(&origin.source, &origin.key).err()?;
    let (message, suggestion) = match &tried[..] {
        [only] => (
            format!("The environment variable `{only}` is not set."),
            format!("run `export {only}=…`, or add `{only}=…` to `.env`"),
        ),
        several => (
            format!(
                "None of the environment variables {} is set.",
                alternatives(several)
            ),
            format!(
                "set one of them, best `{}`, or put the value into a file (see {})",
                several.first().map_or("", String::as_str),
                page_url("security.md#secrets")
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

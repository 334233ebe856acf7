//! Who asks: what Docker and Podman have noted of registries, and what the environment says. A key goes to the host that it
//! was noted for, and to no other.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

/// `HOST=USER:PASSWORD`; several are separated by spaces.
const VARIABLE: &str = "GOONDAN_REGISTRY_AUTH";

/// A name and a password.
#[derive(Clone, PartialEq, Eq)]
pub struct Basic {
    pub(crate) user: String,
    pub(crate) password: String,
}

impl fmt::Debug for Basic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Basic({}, …)", self.user)
    }
}

/// What is known of registries, by host.
#[derive(Debug, Clone, Default)]
pub struct Credentials {
    by_host: BTreeMap<String, Basic>,
    /// The registry that packages without a source come from, and its token.
    registry: Option<(String, String)>,
}

#[derive(Default, Deserialize)]
struct Config {
    #[serde(default)]
    auths: BTreeMap<String, Auth>,
}

#[derive(Deserialize)]
struct Auth {
    auth: Option<String>,
}

impl Credentials {
    /// What the variables of a process and the files that they name say.
    pub fn find(variable: &dyn Fn(&str) -> Option<String>) -> Credentials {
        let mut found = Credentials::default();
        let home = variable("HOME").or_else(|| variable("USERPROFILE")).map(PathBuf::from);
        let podman = variable("XDG_RUNTIME_DIR").map(|folder| PathBuf::from(folder).join("containers/auth.json"));
        let docker = match variable("DOCKER_CONFIG") {
            Some(folder) => Some(PathBuf::from(folder).join("config.json")),
            None => home.map(|home| home.join(".docker/config.json")),
        };
        let files = [podman, docker, variable("REGISTRY_AUTH_FILE").map(PathBuf::from)];
        // What comes later wins.
        for text in files.into_iter().flatten().filter_map(|path| std::fs::read_to_string(path).ok()) {
            found.read(&text);
        }
        for entry in variable(VARIABLE).unwrap_or_default().split_whitespace() {
            if let Some((host, (user, password))) =
                entry.split_once('=').and_then(|(host, rest)| Some((host, rest.split_once(':')?)))
            {
                found.by_host.insert(host.to_lowercase(), Basic { user: user.into(), password: password.into() });
            }
        }
        found.registry = variable("GOONDAN_REGISTRY").zip(variable("GOONDAN_REGISTRY_TOKEN"));
        found
    }

    fn read(&mut self, text: &str) {
        // A file of another form knows nobody.
        let config: Config = serde_json::from_str(text).unwrap_or_default();
        for (host, auth) in config.auths {
            let decoded = auth.auth.and_then(|auth| STANDARD.decode(auth.trim()).ok());
            let decoded = decoded.and_then(|bytes| String::from_utf8(bytes).ok());
            if let Some((user, password)) = decoded.as_deref().and_then(|text| text.split_once(':')) {
                let password = password.trim_end_matches('\0').to_owned();
                self.by_host.insert(host_of(&host), Basic { user: user.to_owned(), password });
            }
        }
    }

    /// The name and password for `host`, with its port where it has one.
    pub(crate) fn of(&self, host: &str) -> Option<&Basic> {
        self.by_host.get(&host.to_lowercase())
    }

    /// The token for the registry at `address`.
    pub(crate) fn token_of(&self, address: &str) -> Option<&str> {
        let (known, token) = self.registry.as_ref()?;
        (known.trim_end_matches('/') == address.trim_end_matches('/')).then_some(token.as_str())
    }
}

/// `https://index.docker.io/v1/` as the host that it is about.
fn host_of(written: &str) -> String {
    let host = written.trim_start_matches("https://").trim_start_matches("http://");
    let host = host.split('/').next().unwrap_or(host).to_lowercase();
    match host.as_str() {
        "index.docker.io" | "docker.io" => "registry-1.docker.io".to_owned(),
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_for_its_host_alone() {
        let variables = |name: &str| match name {
            "GOONDAN_REGISTRY_AUTH" => Some("Ghcr.io=me:a:b  broken other=x".to_owned()),
            "GOONDAN_REGISTRY" => Some("https://r.example/".to_owned()),
            "GOONDAN_REGISTRY_TOKEN" => Some("t".to_owned()),
            _ => None,
        };
        let mut known = Credentials::find(&variables);
        known.read(r#"{"auths": {"https://index.docker.io/v1/": {"auth": "dTpw"}, "x": {}}, "credsStore": "y"}"#);
        known.read("[");
        assert_eq!(known.of("ghcr.io").map(|basic| basic.password.as_str()), Some("a:b"));
        assert_eq!(known.of("registry-1.docker.io").map(|basic| basic.user.as_str()), Some("u"));
        assert_eq!((known.of("evil.ghcr.io"), known.of("x")), (None, None));
        assert_eq!((known.token_of("https://r.example"), known.token_of("https://r.example.evil")), (Some("t"), None));
        assert!(!format!("{:?}", known.of("ghcr.io")).contains("a:b"));
    }
}
